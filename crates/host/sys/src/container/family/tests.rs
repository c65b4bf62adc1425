use proptest::prelude::*;

use super::*;
use crate::container::marks::{BEYOND_BYTES, parse_mark};
use crate::container::{INSTANCE_VARIABLE, JOB_VARIABLE};

fn process(pid: u32, parent: u32, own: u64, inherited: u64) -> ProcessStat {
    ProcessStat {
        pid,
        state: 'S',
        parent,
        faults_minor: 0,
        faults_major: 0,
        children_faults_minor: 0,
        children_faults_major: 0,
        user_ticks: own,
        system_ticks: 0,
        children_user_ticks: inherited,
        children_system_ticks: 0,
        threads: 1,
        start_ticks: u64::from(pid),
        virtual_bytes: 0,
        resident_pages: 0,
    }
}

fn reading(processes: &[ProcessStat]) -> BTreeMap<u32, ProcessStat> {
    processes.iter().map(|stat| (stat.pid, *stat)).collect()
}

/// The time of the job after each of several readings in which every process listed is a member.
fn times(readings: &[Vec<ProcessStat>]) -> Vec<u64> {
    let mut family = Family::new(1, "main");
    let mut totals = Vec::new();
    for processes in readings {
        let now = reading(processes);
        family.settle(&now, &now.keys().copied().collect());
        let living =
            family.known.values().map(|stat| stat.user_ticks + stat.children_user_ticks).sum::<u64>();
        totals.push(family.gone_user_ticks + living);
    }
    totals
}

#[test]
fn a_child_that_was_waited_for_counts_once() {
    let before = vec![process(10, 1, 5, 0), process(11, 10, 7, 0)];
    let after = vec![process(10, 1, 5, 7)];
    assert_eq!(times(&[before, after]), [12, 12]);
}

#[test]
fn a_child_that_nobody_waited_for_is_kept() {
    let before = vec![process(10, 1, 5, 0), process(11, 10, 7, 0)];
    let after = vec![process(10, 1, 6, 0)];
    assert_eq!(times(&[before, after]), [12, 13]);
}

#[test]
fn a_child_that_computed_on_after_the_last_reading_counts_whole() {
    let before = vec![process(10, 1, 5, 0), process(11, 10, 7, 0)];
    let after = vec![process(10, 1, 5, 20)];
    assert_eq!(times(&[before, after]), [12, 25]);
}

#[test]
fn a_whole_branch_that_ends_goes_to_the_nearest_living_ancestor() {
    let before = vec![process(10, 1, 1, 0), process(11, 10, 2, 4), process(12, 11, 8, 0)];
    let after = vec![process(10, 1, 1, 14)];
    assert_eq!(times(&[before, after]), [15, 15]);
}

#[test]
fn the_last_member_leaves_its_time_behind() {
    assert_eq!(times(&[vec![process(10, 1, 5, 3)], vec![]]), [8, 8]);
}

#[test]
fn a_namesake_is_another_process() {
    let namesake = ProcessStat { start_ticks: 99, ..process(10, 1, 1, 0) };
    assert_eq!(times(&[vec![process(10, 1, 5, 3)], vec![namesake]]), [8, 9]);
}

#[test]
fn a_namesake_is_no_descendant() {
    let mut family = Family::new(1, "main");
    family.known = reading(&[process(10, 1, 0, 0)]);
    let namesake = ProcessStat { start_ticks: 99, ..process(10, 1, 0, 0) };
    let everybody = reading(&[namesake, process(11, 10, 0, 0)]);
    assert_eq!(family.descendants_among(&everybody), BTreeSet::new());
    let everybody =
        reading(&[process(10, 1, 0, 0), process(11, 10, 0, 0), process(12, 11, 0, 0), process(13, 1, 0, 0)]);
    assert_eq!(family.descendants_among(&everybody), BTreeSet::from([10, 11, 12]));
}

/// A shared scan may be older than a member: the member is not gone, and its use counts once.
#[test]
fn a_member_that_is_younger_than_the_shared_look_stays() {
    let proc = Proc::open("/proc".as_ref()).expect("/proc");
    let mut family = Family::new(1, "main");
    let own = proc.stat(std::process::id()).expect("it is read").expect("it lives");
    assert!(family.take_in(&proc, own.pid, own.start_ticks).expect("it is read"));
    let mut older = Look { ended: Some(Instant::now() + Duration::from_secs(3600)), all: vec![] };
    let pids = family.sampled(&proc, &mut older).expect("it is read");
    assert!(pids.contains(&own.pid), "{pids:?}");
    assert_eq!((family.gone_user_ticks, family.gone_system_ticks), (0, 0));
    // A child in the scan that has ended since is no member: its parent may have inherited its use.
    let gone = process(u32::MAX, own.pid, 3, 0);
    let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().expect("it starts");
    let child = proc.stat(sleeper.id()).expect("it is read").expect("it lives");
    older.all = vec![(gone, None), (child, None)];
    let pids = family.sampled(&proc, &mut older);
    sleeper.kill().and_then(|()| sleeper.wait()).expect("it is ended");
    let pids = pids.expect("it is read");
    assert!(pids.contains(&child.pid) && !pids.contains(&gone.pid), "{pids:?}");
}

#[test]
fn a_mark_needs_both_names_whole() {
    let mark = |text: &str| parse_mark(text.replace('|', "\0").as_bytes());
    let found = mark("A=1|PINFOLD_JOB_ID=12|PINFOLD_INSTANCE=main|").unwrap();
    assert!(found.is(12, "main") && !found.is(12, "mai") && !found.is(1, "main"));
    assert_eq!(mark("PINFOLD_JOB_ID=12|"), None);
    assert_eq!(mark("PINFOLD_INSTANCE=main|PINFOLD_JOB_ID=x|"), None);
    assert_eq!(mark("XPINFOLD_JOB_ID=12|PINFOLD_INSTANCE=main|"), None);
    assert_eq!(mark(""), None);
    assert!(mark("||PINFOLD_JOB_ID=12||PINFOLD_INSTANCE=main").is_some_and(|mark| mark.is(12, "main")));
    assert_eq!(
        mark("PINFOLD_JOB_ID=12|PINFOLD_INSTANCE=main|PINFOLD_HOOK_OF=12|"),
        None,
        "a program of the site's"
    );
    let from_there = mark("PINFOLD_HOOK_OF=1|PINFOLD_JOB_ID=12|PINFOLD_INSTANCE=main|");
    assert!(from_there.is_some(), "a job that such a program started");
}

/// Forty processes with an environment of 1 MiB each, with the mark first or last: of marks that stand last as many are
/// found as a scan has room for, and of the others all.
#[test]
fn long_environments_are_read_up_to_a_bound() {
    let root = tempfile::tempdir().expect("a directory");
    let mark = format!("{JOB_VARIABLE}=7\0{INSTANCE_VARIABLE}=main\0");
    let rest = format!("LONG={}\0", "x".repeat((1 << 20) - mark.len() - 6));
    for pid in 100..140_u32 {
        let folder = root.path().join(pid.to_string());
        std::fs::create_dir(&folder).expect("a process");
        let stat = format!("{pid} (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0 0 0\n");
        std::fs::write(folder.join("stat"), stat).expect("its state");
        let environ = if pid < 120 { format!("{mark}{rest}") } else { format!("{rest}{mark}") };
        std::fs::write(folder.join("environ"), environ).expect("its environment");
    }
    let found = look_at_all(&Proc::open(root.path()).expect("a tree")).expect("it can be read");
    let marked = |from: u32| {
        found.iter().filter(|(stat, mark)| (from..from + 20).contains(&stat.pid) && mark.is_some()).count()
    };
    assert_eq!((found.len(), marked(100), marked(120)), (40, 20, BEYOND_BYTES >> 20));
}

/// Its threads are not read singly, and its child is found all the same.
#[test]
fn a_process_with_very_many_threads_is_looked_at_once() {
    let root = tempfile::tempdir().expect("a directory");
    for (pid, parent, threads) in [(100, 1, ASKED_THREADS_MAX + 1), (101, 100, 1)] {
        let folder = root.path().join(pid.to_string());
        std::fs::create_dir(&folder).expect("a process");
        let stat = format!("{pid} (x) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 7 0 0 0 0\n");
        std::fs::write(folder.join("stat"), stat).expect("its state");
    }
    let proc = Proc::open(root.path()).expect("a tree");
    let mut family = Family::new(7, "main");
    assert!(family.take_in(&proc, 100, 7).expect("it can be read"));
    assert_eq!(family.scan_known(&proc).expect("it can be read"), [100, 101]);
}

proptest! {
    #[test]
    fn hostile_environments_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_mark(&bytes);
    }

    /// Processes fork, compute, end and are waited for or not; the job's time never falls, and never exceeds the true use.
    #[test]
    fn time_never_falls_and_is_never_invented(
        steps in proptest::collection::vec((0usize..4, 0usize..8, 1u64..20, any::<bool>()), 1..60),
        read_every in 1usize..4,
    ) {
        let mut alive: Vec<ProcessStat> = vec![process(100, 1, 0, 0)];
        let mut next = 101;
        let mut used = 0u64;
        let mut readings = Vec::new();
        let mut truth = Vec::new();
        for (index, (what, whom, ticks, waited)) in steps.into_iter().enumerate() {
            let whom = whom % alive.len();
            match what {
                0 => {
                    let parent = alive[whom].pid;
                    alive.push(process(next, parent, 0, 0));
                    next += 1;
                }
                1 if alive.len() > 1 && whom > 0 => {
                    let ended = alive.remove(whom);
                    let heir = alive.iter_mut().find(|stat| stat.pid == ended.parent);
                    match heir {
                        Some(heir) if waited => {
                            heir.children_user_ticks += ended.user_ticks + ended.children_user_ticks;
                        }
                        _ => {}
                    }
                    for orphan in alive.iter_mut().filter(|stat| stat.parent == ended.pid) {
                        orphan.parent = 1;
                    }
                }
                _ => {
                    alive[whom].user_ticks += ticks;
                    used += ticks;
                }
            }
            if index % read_every == 0 {
                readings.push(alive.clone());
                truth.push(used);
            }
        }
        let totals = times(&readings);
        for (index, total) in totals.iter().enumerate() {
            prop_assert!(*total <= truth[index], "{total} of {} at reading {index}", truth[index]);
            if index > 0 {
                prop_assert!(*total >= totals[index - 1], "{totals:?}");
            }
        }
    }
}
