//! The checks, the same for every world. Each returns how much it compared.

use std::time::{Duration, Instant};

use pinfold_sys::container::{
    Applied, Container, ContainerError, Containers, Detail, Entered, Removed, Shape, Share,
};
use pinfold_sys::mode::{AbilityName, Mode, Via};
use pinfold_sys::procfs::Proc;
use pinfold_topo::CpuSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::child::{Actor, Role};
use crate::world::World;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// Emulated hosts are twenty times as slow as real ones.
const PATIENCE: Duration = Duration::from_secs(180);
pub(crate) const MIB: u64 = 1024 * 1024;

/// A check; it returns the number of comparisons.
type Check = fn(&World) -> usize;

/// Runs every check; says how many things were compared.
pub(crate) fn all(world: &World) -> usize {
    let checks: [(&str, Check); 19] = [
        ("an empty container comes and goes", comes_and_goes),
        ("processes are listed until they end", lists_processes),
        ("a process that has ended is gone", vanished),
        ("a job is bound and unbound", binds),
        ("memory is bound to nodes, or not, aloud", near),
        ("the share changes or is kept", shares),
        ("a frozen job does not compute", freezes),
        ("a signal reaches every process", signals),
        ("a kill ends all, frozen or not", kills),
        ("what a job holds is measured", measures),
        ("a bound is set, lifted, or refused aloud", limits),
        ("what bounds the asking process is carried over", crate::restrict::restricts),
        ("growth is slowed and memory protected, or not, aloud", steers),
        ("what another program changes is seen and set again", drifts),
        ("a busy container is not removed", busy),
        ("what one job had the next has not", inherits_nothing),
        ("a job is found again after a restart", crate::again::adopts),
        ("a rescue lets go of everything", crate::again::rescues),
        ("jobs that fork all the time are held all the same", forks),
    ];
    let mut compared = 0;
    for (name, check) in checks {
        let count = check(world);
        println!("{}: {name}: {count}", world.name);
        assert!(count > 0, "{}: {name}: nothing was compared", world.name);
        compared += count;
    }
    compared
}

/// Waits until `holds` does, but not for ever. Between two tries it waits for the container's own events
/// where there are any.
#[track_caller]
pub(crate) fn until(
    world: &World,
    container: &Container,
    what: &str,
    mut holds: impl FnMut(&Container) -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    while !holds(container) {
        assert!(Instant::now() < deadline, "{}: {what}: not within {PATIENCE:?}", world.name);
        let turn = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        match container.events_fd().filter(|_| world.has_live_events) {
            Some(fd) => poll(&mut [PollFd::new(&fd, PollFlags::PRI)], Some(&turn)),
            None => poll(&mut [], Some(&turn)),
        }
        .expect("poll");
    }
}

pub(crate) fn proc(world: &World) -> Proc {
    Proc::open(&world.roots.proc).expect("the process file system")
}

#[track_caller]
pub(crate) fn remove(world: &World, container: Container) {
    until(world, &container, "the last process is gone", |one| !one.is_populated().expect("events"));
    // The kernel may still hold the group for the instant in which the last process is taken out.
    let deadline = Instant::now() + PATIENCE;
    let mut left = container;
    loop {
        match left.remove().expect("removal") {
            Removed::Yes => return,
            Removed::Busy(back) => left = back,
        }
        assert!(Instant::now() < deadline, "{}: still busy after {PATIENCE:?}", world.name);
    }
}

fn comes_and_goes(world: &World) -> usize {
    let containers = world.open(&world.instance());
    let container = containers.create(7, &Shape::default()).expect("created");
    assert!(!container.is_populated().expect("populated"));
    assert_eq!(container.pids().expect("pids"), []);
    if world.plan.mode != Mode::Rootless {
        assert_eq!(containers.list().expect("list"), [7]);
    }
    let measure = container.measure(Detail::Processes).expect("measure");
    assert_eq!((measure.processes, measure.memory_bytes, measure.cpu_user_us), (0, 0, 0));
    assert_eq!(container.signal(SIGTERM).expect("signal"), 0);
    container.kill().expect("kill");
    remove(world, container);
    assert_eq!(containers.list().expect("list"), []);
    assert!(containers.adopt(7, None).expect("adopt").is_none());
    containers.close();
    8
}

fn lists_processes(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let container = containers.create(1, &Shape::default()).expect("created");
    let mut actors: Vec<Actor> = (0..3).map(|_| Actor::start(Role::Parent(2), 1, &instance)).collect();
    for actor in &mut actors {
        assert_eq!(container.enter(actor.pid()).expect("enter"), Entered::Yes);
        actor.begin();
    }
    let pids = container.pids().expect("pids");
    assert_eq!(pids.len(), 9, "three parents with two children each");
    assert!(actors.iter().all(|actor| pids.contains(&actor.pid())));
    assert!(container.is_populated().expect("populated"));
    assert_eq!(containers.list().expect("list"), [1]);
    for actor in actors {
        assert!(actor.end().success());
    }
    remove(world, container);
    containers.close();
    5
}

fn vanished(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let container = containers.create(1, &Shape::default()).expect("created");
    let actor = Actor::start(Role::Wait, 1, &instance);
    let pid = actor.pid();
    actor.end();
    assert_eq!(container.enter(pid).expect("an answer"), Entered::Gone);
    assert_eq!(container.enter(0).expect("an answer"), Entered::Gone);
    remove(world, container);
    containers.close();
    2
}

fn binds(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let proc = proc(world);
    let all = proc.status(std::process::id()).expect("status").expect("we are there").cpus;
    let first = CpuSet::single(all.first().expect("we run somewhere"));
    let shape = Shape { cpus: first.clone(), ..Shape::default() };
    let mut container = containers.create(1, &shape).expect("created");
    let mut actor = Actor::start(Role::Parent(1), 1, &instance);
    container.enter(actor.pid()).expect("enter");
    actor.begin();
    let cpus_of = |pid: u32| proc.status(pid).expect("status").expect("there").cpus;
    let pids = container.pids().expect("pids");
    assert_eq!(pids.len(), 2);
    for pid in &pids {
        assert_eq!(cpus_of(*pid), first, "bound from the start");
    }
    assert_eq!(container.bind(&CpuSet::new()).expect("unbound"), Applied::Done);
    for pid in &pids {
        assert!(all.is_subset(&cpus_of(*pid)), "unbound: {} of {all}", cpus_of(*pid));
    }
    let last = CpuSet::single(all.last().expect("we run somewhere"));
    assert_eq!(container.bind(&last).expect("bound"), Applied::Done);
    for pid in &pids {
        assert_eq!(cpus_of(*pid), last);
    }
    // No host has the last number that a set can hold.
    let nowhere: CpuSet = "65535".parse().expect("a set");
    assert!(matches!(container.bind(&nowhere).expect("an answer"), Applied::Kept(_)));
    assert_eq!(cpus_of(pids[0]), last, "a binding that cannot be had changes nothing");
    actor.end();
    remove(world, container);
    containers.close();
    9
}

fn shares(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let shape = Shape { share: Share::Idle, ..Shape::default() };
    let mut container = containers.create(1, &shape).expect("created");
    let mut actor = Actor::start(Role::Wait, 1, &instance);
    container.enter(actor.pid()).expect("enter");
    actor.begin();
    // By the words of another program than ours, util-linux's ionice.
    let io_class = |pid: u32| {
        let said =
            std::process::Command::new("ionice").args(["-p", &pid.to_string()]).output().expect("ionice");
        String::from_utf8(said.stdout).expect("text").trim().to_owned()
    };
    assert_eq!(io_class(actor.pid()), "idle");
    let can_leave =
        world.plan.via(AbilityName::IdleClass) != Via::Processes || world.plan.facts.weight_can_rise();
    let raised = container.share(Share::Normal { weight: 300 }).expect("an answer");
    assert_eq!(raised == Applied::Done, can_leave, "{raised:?}");
    assert_eq!(io_class(actor.pid()) == "idle", !can_leave);
    if can_leave {
        assert_eq!(container.share(Share::NORMAL).expect("share"), Applied::Done);
        assert_eq!(container.share(Share::Normal { weight: 1 }).expect("share"), Applied::Done);
    }
    assert_eq!(container.share(Share::Idle).expect("share"), Applied::Done);
    assert_eq!(io_class(actor.pid()), "idle");
    actor.end();
    remove(world, container);
    containers.close();
    2
}

fn freezes(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let mut container = containers.create(1, &Shape::default()).expect("created");
    let mut actor = Actor::start(Role::Spin, 1, &instance);
    container.enter(actor.pid()).expect("enter");
    actor.begin();
    let proc = proc(world);
    let pid = actor.pid();
    let ticks = || {
        let stat = proc.stat(pid).expect("stat").expect("there");
        stat.user_ticks + stat.system_ticks
    };
    let busy_for = |count: u64| {
        let start = ticks();
        move |_: &Container| ticks() >= start + count
    };
    until(world, &container, "it computes", busy_for(2));
    assert!(!container.is_frozen().expect("frozen"));
    container.freeze().expect("freeze");
    until(world, &container, "it stops", |one| one.is_frozen().expect("frozen"));
    assert!(container.events().expect("events").frozen);
    // Our own ticks are the clock here: as long as we could compute, so could it.
    let own = || proc.stat(std::process::id()).expect("stat").expect("we").user_ticks;
    let gained = || {
        let (before, start) = (ticks(), own());
        while own() < start + 5 {}
        ticks() - before
    };
    // Its way into the freezer is counted late where the machine itself was kept waiting; after that nothing is.
    assert!((0..3).any(|_| gained() == 0), "a frozen process computes nothing");
    container.thaw().expect("thaw");
    until(world, &container, "it goes on", busy_for(2));
    assert!(!container.is_frozen().expect("frozen"));
    actor.end();
    remove(world, container);
    containers.close();
    5
}

fn signals(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let container = containers.create(1, &Shape::default()).expect("created");
    let mut actors: Vec<Actor> = (0..3).map(|_| Actor::start(Role::Wait, 1, &instance)).collect();
    for actor in &mut actors {
        container.enter(actor.pid()).expect("enter");
        actor.begin();
    }
    assert_eq!(container.signal(SIGTERM).expect("signal"), 3);
    for actor in &mut actors {
        assert_eq!(actor.ended_by(PATIENCE), Some(SIGTERM));
    }
    remove(world, container);
    containers.close();
    4
}

fn kills(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let mut compared = 0;
    for (job, frozen) in [(1, false), (2, true)] {
        let mut container = containers.create(job, &Shape::default()).expect("created");
        let mut actors: Vec<Actor> = (0..2).map(|_| Actor::start(Role::Parent(2), job, &instance)).collect();
        for actor in &mut actors {
            container.enter(actor.pid()).expect("enter");
            actor.begin();
        }
        if frozen {
            container.freeze().expect("freeze");
            until(world, &container, "it stops", |one| one.is_frozen().expect("frozen"));
        }
        container.kill().expect("kill");
        for actor in &mut actors {
            assert_eq!(actor.ended_by(PATIENCE), Some(SIGKILL), "frozen: {frozen}");
            compared += 1;
        }
        remove(world, container);
    }
    containers.close();
    compared
}

/// Memory lies on its bound nodes, and the binding is read back.
fn near(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let mut container = containers.create(1, &Shape::default()).expect("created");
    if !containers.can_bind_memory() {
        assert_eq!(container.nodes().expect("nodes"), None);
        assert!(matches!(container.near(&[0]).expect("no failure"), Applied::Kept(_)));
        assert_eq!(container.near(&[]).expect("nothing to do"), Applied::Done);
        remove(world, container);
        containers.close();
        return 3;
    }
    let all = container.nodes().expect("nodes").expect("the group says");
    assert!(!all.is_empty(), "jobs may use some node");
    let mut compared = 1;
    for &node in &all {
        let shape = Shape { nodes: vec![node], ..Shape::default() };
        let mut bound = containers.create(2, &shape).expect("created");
        assert_eq!(bound.nodes().expect("nodes"), Some(vec![node]));
        let mut actor = Actor::start(Role::Hold(32 << 20), 2, &instance);
        assert_eq!(bound.enter(actor.pid()).expect("enter"), Entered::Yes);
        actor.begin();
        assert_eq!(bound.drifts(false).expect("drifts"), []);
        // A fake host has all its memory on a single node.
        let told = bound.memory_by_node().expect("nodes").is_some_and(|lies| !lies.is_empty());
        if world.has_live_events && told {
            // The kernel adds a group's counts up when it finds the time.
            until(world, &bound, &format!("it lies on node {node}"), |bound| {
                let lies = bound.memory_by_node().expect("nodes").unwrap_or_default();
                let on = |wanted: bool| {
                    let those = lies.iter().filter(|(other, _)| (*other == node) == wanted);
                    those.map(|(_, bytes)| bytes).sum::<u64>()
                };
                on(true) >= 31 * MIB && on(false) <= MIB
            });
            compared += 1;
        }
        // More nodes, with processes in it, and all of them.
        assert_eq!(bound.near(&all).expect("widened"), Applied::Done);
        assert_eq!(bound.nodes().expect("nodes").as_ref(), Some(&all));
        assert_eq!(bound.near(&[]).expect("unbound"), Applied::Done);
        assert_eq!(bound.nodes().expect("nodes").as_ref(), Some(&all));
        assert!(matches!(bound.near(&[1000]).expect("no failure"), Applied::Kept(_)), "no such node");
        assert_eq!(bound.near(&[node]).expect("bound again"), Applied::Done);
        compared += moves_away(world, &containers, &mut bound, node, &all);
        actor.end();
        remove(world, bound);
        // The next job in its groups does not inherit its nodes.
        let next = containers.create(3, &Shape::default()).expect("created");
        assert_eq!(next.nodes().expect("nodes").as_ref(), Some(&all));
        remove(world, next);
        compared += 6;
    }
    remove(world, container);
    containers.close();
    compared
}

/// A job's memory on a node moves to the others, and may not return until permitted.
fn moves_away(
    world: &World,
    containers: &Containers,
    bound: &mut Container,
    node: u32,
    all: &[u32],
) -> usize {
    let job = bound.job();
    assert_eq!(containers.nodes().expect("nodes"), all);
    let others: Vec<u32> = all.iter().copied().filter(|other| *other != node).collect();
    if others.is_empty() {
        return 1;
    }
    bound.near(all).expect("widened");
    let lies = || containers.memory_by_node(job).expect("nodes").unwrap_or_default();
    let on =
        |lies: &[(u32, u64)]| lies.iter().filter(|(at, _)| *at == node).map(|(_, bytes)| bytes).sum::<u64>();
    if world.has_live_events {
        until(world, bound, "it lies there", |_| on(&lies()) >= 31 * MIB);
    }
    bound.forget_nodes();
    containers.move_away(job, &[node], &others).expect("moved");
    assert_eq!(containers.bind_to_nodes(job, &others).expect("bound"), Applied::Done);
    assert_eq!(bound.drifts(false).expect("drifts"), [], "what another thread did is no drift");
    assert_eq!(bound.nodes().expect("nodes").as_ref(), Some(&others));
    if world.has_live_events {
        until(world, bound, "it lies there no more", |_| on(&lies()) <= MIB);
    }
    assert_eq!(bound.near(&others).expect("known from now on"), Applied::Done);
    assert_eq!(bound.near(&[]).expect("let back"), Applied::Done);
    assert_eq!(bound.nodes().expect("nodes").as_deref(), Some(all));
    // A job that is over.
    containers.move_away(1000, &[node], &others).expect("no failure");
    assert_eq!(containers.bind_to_nodes(1000, &others).expect("no failure"), Applied::Done);
    assert_eq!(containers.memory_by_node(1000).expect("no failure"), None);
    8
}

fn measures(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let container = containers.create(1, &Shape::default()).expect("created");
    let held = 64 * MIB;
    let mut actor = Actor::start(Role::Hold(64 << 20), 1, &instance);
    container.enter(actor.pid()).expect("enter");
    actor.begin();
    let slack = 8 * MIB;
    // The kernel adds a group's counts up when it finds the time.
    until(world, &container, "what it holds is counted", |one| {
        (held..held + slack).contains(&one.measure(Detail::Processes).expect("measure").memory_bytes)
    });
    let measure = container.measure(Detail::Processes).expect("measure");
    assert!((held..held + slack).contains(&measure.memory_bytes), "{measure:?}");
    assert_eq!(measure.processes, 1);
    assert!(measure.threads.is_some_and(|threads| threads >= 2), "the test harness has threads: {measure:?}");
    assert!(measure.virtual_bytes.is_some_and(|bytes| bytes > held), "{measure:?}");
    if let Some(peak) = measure.memory_peak_kernel_bytes {
        assert!(peak >= measure.memory_bytes, "{measure:?}");
    }
    let totals = container.measure(Detail::Totals).expect("measure");
    assert!(totals.memory_bytes >= held);
    until(world, &container, "what it holds lies on nodes", |one| {
        let Some(nodes) = one.memory_by_node().expect("nodes") else { return true };
        let sum: u64 = nodes.iter().map(|(_, bytes)| bytes).sum();
        // The first generation counts pages on its lists, and the last few of each PU are on their way there.
        (held - MIB..held + slack).contains(&sum)
    });
    // Time never runs backwards, not even when its processes are gone.
    let used = totals.cpu_user_us + totals.cpu_system_us;
    actor.end();
    until(world, &container, "it is gone", |one| !one.is_populated().expect("populated"));
    let after = container.measure(Detail::Totals).expect("measure");
    assert!(after.cpu_user_us + after.cpu_system_us >= used, "{after:?} after {totals:?}");
    assert_eq!(after.processes, 0);
    until(world, &container, "what it held is counted no more", |one| {
        one.measure(Detail::Totals).expect("measure").memory_bytes < held / 2
    });
    remove(world, container);
    containers.close();
    8
}

fn limits(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let mut container = containers.create(1, &Shape::default()).expect("created");
    let mut actor = Actor::start(Role::Hold(32 << 20), 1, &instance);
    container.enter(actor.pid()).expect("enter");
    actor.begin();
    let set = container.limit(Some(512 * MIB)).expect("an answer");
    let real = world.plan.ability(AbilityName::Limit).real;
    assert_eq!(set == Applied::Done, real);
    // Without swap its memory cannot be reclaimed; a bound below it is refused and no process is killed.
    let mut compared = 2;
    if !world.can_push_out {
        assert!(matches!(container.limit(Some(4 * MIB)).expect("an answer"), Applied::Kept(_)));
        assert!(container.is_populated().expect("populated"));
        compared += 2;
    }
    assert_eq!(container.limit(None).expect("lifted"), Applied::Done);
    assert!(actor.end().success(), "it lived on");
    remove(world, container);
    containers.close();
    compared
}

fn steers(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let mut container = containers.create(1, &Shape::default()).expect("created");
    let mut actor = Actor::start(Role::Hold(32 << 20), 1, &instance);
    container.enter(actor.pid()).expect("enter");
    actor.begin();
    // The kernel adds a group's counts up when it finds the time.
    until(world, &container, "what it holds is counted", |one| {
        let held = one.held_memory().expect("held");
        held.resident_bytes + held.swapped_bytes >= 32 * MIB
    });
    let held = container.held_memory().expect("held");
    let charged = container.charged_bytes().expect("charged");
    assert_eq!(charged.is_some(), matches!(world.plan.via(AbilityName::Limit), Via::V1 | Via::V2));
    let near = |bytes: u64| (30 * MIB..48 * MIB).contains(&(bytes + held.swapped_bytes));
    assert!(charged.is_none_or(near), "{}: {charged:?} beside {held:?}", world.name);
    let groups = groups_of_job(world, &instance, 1);
    let read = |file: &str| -> Vec<String> {
        let texts = groups.iter().filter_map(|group| std::fs::read_to_string(group.join(file)).ok());
        texts.map(|text| text.trim().to_owned()).collect()
    };
    let mut compared = 2;
    if containers.can_steer_memory() {
        assert_eq!(container.slow(Some(64 * MIB)).expect("slowed"), Applied::Done);
        let high: Vec<u64> = read("memory.high").iter().map(|text| text.parse().expect("a bound")).collect();
        assert!(high.len() == 1 && high[0] >= 96 * MIB, "{}: {high:?}", world.name);
        assert_eq!(container.protect(16 * MIB).expect("protected"), Applied::Done);
        assert_eq!(read("memory.low"), [(16 * MIB).to_string()], "{}", world.name);
        let above = groups[0].parent().expect("the instance's").join("memory.low");
        assert_eq!(std::fs::read_to_string(above).expect("there").trim(), (16 * MIB).to_string());
        compared += 4;
    } else {
        assert!(matches!(container.slow(Some(MIB)).expect("an answer"), Applied::Kept(_)));
        assert!(matches!(container.protect(MIB).expect("an answer"), Applied::Kept(_)));
        compared += 2;
    }
    // A release of an unrestricted job is always possible.
    assert_eq!(container.slow(None).expect("let grow"), Applied::Done);
    assert_eq!(container.protect(0).expect("let go"), Applied::Done);
    assert!(
        read("memory.high").iter().all(|text| text == "max")
            && read("memory.low").iter().all(|text| text == "0")
    );
    assert!(actor.end().success(), "it lived on");
    remove(world, container);
    containers.close();
    compared + 3
}

fn drifts(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let all = proc(world).status(std::process::id()).expect("status").expect("we are there").cpus;
    let first = CpuSet::single(all.first().expect("we run somewhere"));
    let shape = Shape {
        cpus: first,
        share: Share::Normal { weight: 300 },
        limit_bytes: Some(512 * MIB),
        ..Shape::default()
    };
    let mut container = containers.create(5, &shape).expect("created");
    let mut actor = Actor::start(Role::Wait, 5, &instance);
    container.enter(actor.pid()).expect("enter");
    actor.begin();
    container.close_doors().expect("in all groups");
    assert_eq!(container.drifts(false).expect("read"), [], "{}: as it was asked for", world.name);
    let others = [
        ("cpuset.cpus", all.to_string()),
        ("cpu.weight", "77".to_owned()),
        ("cpu.shares", "77".to_owned()),
        ("cpu.idle", "1".to_owned()),
        ("memory.max", (900 * MIB).to_string()),
        ("memory.high", (800 * MIB).to_string()),
        ("memory.limit_in_bytes", (900 * MIB).to_string()),
        ("freezer.state", "FROZEN".to_owned()),
        ("cgroup.freeze", "1".to_owned()),
    ];
    let mut compared = 1;
    for (file, other) in others {
        let groups = groups_of_job(world, &instance, 5);
        let Some(group) = groups.into_iter().find(|group| group.join(file).exists()) else { continue };
        // A host with a single PU has no other set; and of two freezers only one is in use.
        let freezer = match file {
            "freezer.state" => Via::V1,
            "cgroup.freeze" => Via::V2,
            _ => world.plan.via(AbilityName::Freeze),
        };
        if (file == "cpuset.cpus" && all.len() == 1) || freezer != world.plan.via(AbilityName::Freeze) {
            continue;
        }
        write_as_another(world, &group, file, &other);
        let found = container.drifts(false).expect("read");
        assert!(found.len() == 1 && found[0].file == file, "{}: {file}: {found:?}", world.name);
        assert_ne!(found[0].wanted, found[0].found);
        assert_eq!(container.set_again(&found[0]).expect("set again"), Applied::Done);
        assert_eq!(container.drifts(false).expect("read"), [], "{}: {file} is as it was", world.name);
        compared += 4;
    }
    assert!(world.plan.mode == Mode::Rootless || compared > 1, "{}", world.name);
    // The next daemon gets the requests of the first.
    drop(container);
    let mut container = containers
        .adopt(5, Some(crate::again::identity(world, &actor)))
        .expect("adopt")
        .expect("still there");
    container.remember(&shape);
    assert_eq!(container.drifts(false).expect("read"), [], "{}: as the one before asked", world.name);
    let other = Shape { limit_bytes: Some(300 * MIB), ..shape.clone() };
    container.remember(&other);
    let found = container.drifts(false).expect("read");
    let by_group = matches!(world.plan.via(AbilityName::Limit), Via::V1 | Via::V2);
    assert_eq!(found.len(), usize::from(by_group), "{}: {found:?}", world.name);
    for drift in &found {
        assert_eq!(container.set_again(drift).expect("set again"), Applied::Done);
    }
    assert_eq!(container.drifts(false).expect("read"), [], "{}", world.name);
    crate::hurry::hurries(world, &instance, &mut container);
    assert!(actor.end().success(), "it lived on");
    remove(world, container);
    containers.close();
    compared + 5
}

/// Writes to a group's file as a program does that is not pinfold.
fn write_as_another(world: &World, group: &std::path::Path, file: &str, text: &str) {
    let group =
        pinfold_sys::cgroup::Group::open(group, world.roots.fake.clone()).expect("open").expect("there");
    group.write(file, text).unwrap_or_else(|error| panic!("{}: {file}: {error}", world.name));
}

/// The groups of a job in all hierarchies.
pub(crate) fn groups_of_job(world: &World, instance: &str, job: u64) -> Vec<std::path::PathBuf> {
    let groups = groups_left(world, instance).into_iter().map(|group| group.join(format!("job-{job}")));
    groups.filter(|group| group.exists()).collect()
}

fn busy(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let container = containers.create(1, &Shape::default()).expect("created");
    let mut actor = Actor::start(Role::Wait, 1, &instance);
    container.enter(actor.pid()).expect("enter");
    actor.begin();
    let Removed::Busy(container) = container.remove().expect("an answer") else {
        panic!("{}: a running job's container was removed", world.name)
    };
    assert_eq!(container.pids().expect("pids"), [actor.pid()]);
    let mut compared = 2;
    if world.plan.mode != Mode::Rootless {
        let again = containers.create(1, &Shape::default());
        assert!(matches!(again, Err(ContainerError::Occupied { job: 1 })), "{again:?}");
        assert_eq!(container.pids().expect("pids"), [actor.pid()], "the refusal took nothing away");
        compared += 2;
    }
    actor.end();
    // An empty group left by an earlier daemon is replaced.
    until(world, &container, "it is gone", |one| !one.is_populated().expect("populated"));
    drop(container);
    let fresh = containers.create(1, &Shape::default()).expect("created in place of the empty one");
    remove(world, fresh);
    containers.close();
    assert_eq!(groups_left(world, &instance), Vec::<std::path::PathBuf>::new());
    compared
}

/// Groups of a job that is over may serve another: no state of the first may show.
fn inherits_nothing(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let all = proc(world).status(std::process::id()).expect("status").expect("we are there").cpus;
    let first = CpuSet::single(all.first().expect("we run somewhere"));
    let shapes = [
        Shape { cpus: first.clone(), share: Share::Idle, limit_bytes: Some(256 * MIB), ..Shape::default() },
        Shape { share: Share::Normal { weight: 300 }, ..Shape::default() },
        Shape::default(),
    ];
    let mut compared = 0;
    for (job, shape) in (1..).zip(shapes) {
        let mut container = containers.create(job, &shape).expect("created");
        assert_eq!((container.job(), container.pids().expect("pids")), (job, Vec::new()));
        // The kernel adds a group's counts up when it finds the time.
        until(world, &container, "what the one before held is counted no more", |one| {
            let before = one.measure(Detail::Totals).expect("measure");
            before.memory_bytes < MIB && before.cache_bytes.is_none_or(|bytes| bytes < MIB)
        });
        let before = container.measure(Detail::Totals).expect("measure");
        assert!(before.memory_peak_kernel_bytes.is_none_or(|bytes| bytes < 4 * MIB), "{before:?}");
        assert!(before.oom_kills.is_none_or(|kills| kills == 0), "{before:?}");
        let mut actor = Actor::start(Role::Hold(64 << 20), job, &instance);
        container.enter(actor.pid()).expect("enter");
        actor.begin();
        let cpus = proc(world).status(actor.pid()).expect("status").expect("there").cpus;
        let bound = if shape.cpus.is_empty() { &all } else { &shape.cpus };
        assert!(
            if shape.cpus.is_empty() { bound.is_subset(&cpus) } else { cpus == *bound },
            "{cpus}: {shape:?}"
        );
        if job == 1 {
            container.freeze().expect("freeze");
            until(world, &container, "it stops", |one| one.is_frozen().expect("frozen"));
            container.thaw().expect("thaw");
        }
        if world.plan.mode != Mode::Rootless {
            assert_eq!(containers.list().expect("list"), [job]);
        }
        actor.end();
        remove(world, container);
        assert_eq!(containers.list().expect("list"), []);
        assert!(containers.adopt(job, None).expect("adopt").is_none());
        compared += 6;
    }
    containers.close();
    assert_eq!(groups_left(world, &instance), Vec::<std::path::PathBuf>::new(), "closing takes all away");
    compared
}

/// The groups of an instance that are in any hierarchy still.
fn groups_left(world: &World, instance: &str) -> Vec<std::path::PathBuf> {
    let bases = world.plan.hierarchies.iter().map(|one| one.base_path().join("pinfold").join(instance));
    bases.filter(|path| path.exists()).collect()
}

fn forks(world: &World) -> usize {
    if !world.has_live_events {
        // A fake group learns of new processes only when it is read, and loses orphans.
        return 1;
    }
    let instance = world.instance();
    let containers = world.open(&instance);
    let mut container = containers.create(1, &Shape::default()).expect("created");
    let mut actor = Actor::start(Role::Relay, 1, &instance);
    container.enter(actor.pid()).expect("enter");
    actor.begin();
    // Each link starts the next and ends, so parents vanish all the time.
    let first = actor.pid();
    assert!(actor.wait(PATIENCE).is_some_and(|status| status.success()), "the first link ends");
    until(world, &container, "another link runs", |one| {
        one.pids().expect("pids").iter().any(|pid| *pid != first)
    });
    container.freeze().expect("freeze");
    until(world, &container, "all stop", |one| one.is_frozen().expect("frozen"));
    let frozen = container.pids().expect("pids");
    assert!(!frozen.is_empty(), "a frozen job is still there");
    assert_eq!(container.pids().expect("pids"), frozen, "a frozen job starts nothing");
    container.thaw().expect("thaw");
    container.kill().expect("kill");
    until(world, &container, "all are gone", |one| !one.is_populated().expect("populated"));
    remove(world, container);
    containers.close();
    4
}
