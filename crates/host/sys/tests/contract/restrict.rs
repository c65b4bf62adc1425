//! Bounds of the submitting process are carried over to a job's groups, lifted again, and left to no other job.

use pinfold_sys::container::{Containers, Limited, Limits, Removed, Shape};

use crate::checks::groups_of_job;
use crate::world::World;

/// The contents of the files that bound a job's processes and processor time.
fn said(world: &World, instance: &str, job: u64) -> Vec<(&'static str, String)> {
    let groups = groups_of_job(world, instance, job);
    let read = |file: &'static str| {
        let text = groups.iter().find_map(|group| std::fs::read_to_string(group.join(file)).ok())?;
        Some((file, text.trim().to_owned()))
    };
    ["pids.max", "cpu.max", "cpu.cfs_quota_us"].into_iter().filter_map(read).collect()
}

pub(crate) fn restricts(world: &World) -> usize {
    let instance = world.instance();
    let containers = world.open(&instance);
    let mut limits = Limits::default();
    let can = |what: &Limited| containers.can_limit(what);
    for (what, most) in [(Limited::Processes, 50), (Limited::Cpu, 500_000)] {
        if can(&what) {
            limits.bound(what, most);
        }
    }
    let bounded = |file: &str| match file {
        "pids.max" => "50",
        "cpu.max" => "50000 100000",
        _ => "50000",
    };
    let free = |file: &str| match file {
        "pids.max" => "max",
        "cpu.max" => "max 100000",
        _ => "-1",
    };
    let shape = Shape { limits, ..Shape::default() };
    let mut container = containers.create(1, &shape).expect("created");
    let found = said(world, &instance, 1);
    let by_groups = usize::from(can(&Limited::Processes)) + usize::from(can(&Limited::Cpu));
    assert!(by_groups <= found.len(), "{}: {found:?}", world.name);
    let check = |found: &[(&str, String)], want: fn(&str) -> &'static str| {
        found.iter().for_each(|(file, text)| assert_eq!(text, want(file), "{}: {file}", world.name));
    };
    check(&found, bounded);
    container.restrict(&Limits::default()).expect("lifted");
    check(&said(world, &instance, 1), free);
    container.restrict(&shape.limits).expect("bounded again");
    check(&said(world, &instance, 1), bounded);
    end(&containers, container);
    let container = containers.create(2, &Shape::default()).expect("created");
    check(&said(world, &instance, 2), free);
    end(&containers, container);
    containers.close();
    found.len() * 4 + 1
}

fn end(containers: &Containers, container: pinfold_sys::container::Container) {
    let job = container.job();
    assert!(matches!(container.remove(), Ok(Removed::Yes)), "nobody is in it");
    assert!(!containers.list().expect("read").contains(&job));
}
