//! The state of a job after its daemon's death: seen by the next daemon, and by a rescue without a daemon.

use pinfold_sys::container::{Shape, Share, rescue_instance};
use pinfold_sys::mode::{AbilityName, Mode, Via};
use pinfold_topo::CpuSet;

use crate::checks::{MIB, groups_of_job, proc, remove, until};
use crate::child::{Actor, Role};
use crate::world::World;

/// By which number, and when in clock ticks, it was started.
pub(crate) fn identity(world: &World, actor: &Actor) -> (u32, u64) {
    let stat = proc(world).stat(actor.pid()).expect("stat").expect("it is there");
    (stat.pid, stat.start_ticks)
}

pub(crate) fn adopts(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let shape = Shape { share: Share::Idle, ..Shape::default() };
    let mut container = containers.create(41, &shape).expect("created");
    let mut actor = Actor::start(Role::Parent(1), 41, &instance);
    container.enter(actor.pid()).expect("enter");
    actor.begin();
    let pids = container.pids().expect("pids");
    container.freeze().expect("freeze");
    until(world, &container, "it stops", |one| one.is_frozen().expect("frozen"));
    // The daemon dies: its open files close, and nothing is tidied up.
    drop((container, containers));

    let containers = world.open(&instance);
    assert_eq!(containers.list().expect("list"), [41]);
    let mut container =
        containers.adopt(41, Some(identity(world, &actor))).expect("adopt").expect("the job is still there");
    assert_eq!(container.pids().expect("pids"), pids);
    assert!(container.is_frozen().expect("frozen"), "still as it was left");
    container.thaw().expect("thaw");
    until(world, &container, "it goes on", |one| !one.is_frozen().expect("frozen"));
    container.share(Share::NORMAL).expect("an answer");
    let (pid, start_ticks) = identity(world, &actor);
    assert!(
        containers.adopt(42, Some((pid, start_ticks - 1))).expect("adopt").is_none(),
        "the process before it that had its number"
    );
    assert!(actor.end().success());
    remove(world, container);
    containers.close();
    5
}

pub(crate) fn rescues(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let proc = proc(world);
    let all = proc.status(std::process::id()).expect("status").expect("we are there").cpus;
    let first = CpuSet::single(all.first().expect("we run somewhere"));
    let shape = Shape { cpus: first, share: Share::Idle, limit_bytes: Some(512 * MIB), ..Shape::default() };
    let mut container = containers.create(3, &shape).expect("created");
    let mut actor = Actor::start(Role::Spin, 3, &instance);
    container.enter(actor.pid()).expect("enter");
    actor.begin();
    container.slow(Some(512 * MIB)).expect("an answer");
    container.protect(MIB).expect("an answer");
    let steered = containers.can_steer_memory();
    container.freeze().expect("freeze");
    until(world, &container, "it stops", |one| one.is_frozen().expect("frozen"));
    drop((container, containers));

    assert_eq!(rescue_instance(&world.probe_roots, "no-such-instance").rescued, [], "others are left alone");
    let roots = if world.plan.mode == Mode::Rootless { &world.roots } else { &world.probe_roots };
    let rescued = rescue_instance(roots, &instance).rescued;
    assert!(!rescued.is_empty());
    assert!(rescued.iter().all(|one| one.failure.is_none()), "{rescued:?}");
    let by_group = |name| matches!(world.plan.via(name), Via::V1 | Via::V2);
    let weighed = by_group(AbilityName::Weigh) && by_group(AbilityName::IdleClass);
    assert_eq!(rescued.iter().any(|one| one.done == "given the usual weight"), weighed, "{rescued:?}");
    assert_eq!(rescue_instance(roots, &instance).rescued, [], "the second time nothing is left to do");
    for group in groups_of_job(world, &instance, 3).iter().filter(|_| steered) {
        let read = |file: &str| std::fs::read_to_string(group.join(file)).map(|text| text.trim().to_owned());
        assert_eq!(
            (read("memory.high").ok(), read("memory.low").ok()),
            (Some("max".into()), Some("0".into()))
        );
    }

    let containers = world.open(&instance);
    let container = containers.adopt(3, Some(identity(world, &actor))).expect("adopt").expect("still there");
    until(world, &container, "it goes on", |one| !one.is_frozen().expect("frozen"));
    if world.plan.via(AbilityName::Pin) != Via::Processes {
        assert!(all.is_subset(&proc.status(actor.pid()).expect("status").expect("there").cpus), "unbound");
    }
    assert!(actor.end().success());
    remove(world, container);
    containers.close();
    5
}
