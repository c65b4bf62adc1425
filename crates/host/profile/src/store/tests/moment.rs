//! The store as it was at one moment, and samples that are read a part at a time.

use super::*;

const ALL: Whose = Whose::Everybody;

fn whose(uid: u32, projects: &[&str]) -> Whose {
    Whose::User { uid, projects: projects.iter().map(|name| (*name).to_owned()).collect() }
}

#[test]
fn jobs_of_a_user_and_of_projects() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    // Users 0, 1 and 2 by turns; projects none, a, b and c.
    for job in 1..=24u64 {
        let mut row = JobRow { uid: u32::try_from(job % 3).unwrap(), submitted_us: job * 10, ..queued(job) };
        let projects = [(1, "a"), (2, "b"), (3, "c")];
        let project = projects.into_iter().find(|(rest, _)| job % 4 == *rest);
        row.spec.project = project.map(|(_, name)| name.to_owned());
        store.insert_job(&row).unwrap();
    }
    let check = |whose: &Whose, wanted: &dyn Fn(u64) -> bool| {
        let all: Vec<u64> = (1..=24).filter(|&job| wanted(job)).collect();
        assert_eq!(store.last_numbers(whose, 100).unwrap(), all, "{whose:?}");
        assert_eq!(store.last_numbers(whose, 3).unwrap(), all[all.len() - 3..], "{whose:?}");
        let since: Vec<u64> = all.iter().copied().filter(|job| *job >= 10).collect();
        assert_eq!(store.numbers_since(whose, 100, 100).unwrap(), since, "{whose:?}");
        assert_eq!(store.numbers_since(whose, 100, 2).unwrap(), since[..2], "{whose:?}");
    };
    check(&ALL, &|_| true);
    check(&whose(1, &[]), &|job| job % 3 == 1);
    check(&whose(1, &["a", "c", "nonesuch"]), &|job| job % 3 == 1 || job % 4 == 1 || job % 4 == 3);
}

/// Lists of any length are read in parts, each of which costs as much as it gives: a user may have millions of jobs, and so may
/// others.
#[test]
fn numbers_are_listed_in_parts() {
    const JOBS: u64 = 30_000;
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.begin().unwrap();
    for job in 1..=JOBS {
        let mut row = JobRow { submitted_us: job * 10, ..exited(job) };
        row.uid = if job % 3 == 0 { 7 } else { 1000 };
        row.spec.project = (job % 5 == 0).then(|| "a".to_owned());
        store.insert_job(&row).unwrap();
    }
    store.commit().unwrap();
    let since_us = 1_000;
    for whose in [ALL, whose(7, &[]), whose(7, &["a", "nonesuch"]), whose(8, &[])] {
        let (last, since) = (
            store.last_numbers(&whose, 1_000_000).unwrap(),
            store.numbers_since(&whose, since_us, 1_000_000).unwrap(),
        );
        assert_eq!(since, last.iter().copied().filter(|job| *job >= 100).collect::<Vec<_>>(), "{whose:?}");
        let (mut found, mut before) = (Vec::new(), u64::MAX);
        loop {
            let (steps, part) =
                steps_of(&mut store, |store| store.numbers_before(&whose, before, 500).unwrap());
            assert!(steps < 300, "{steps} hundred steps for {whose:?}");
            let Some(&last) = part.last() else { break };
            before = last;
            found.extend(part);
        }
        found.reverse();
        assert_eq!(found, last, "{whose:?}");
        let (mut found, mut first) = (Vec::new(), store.first_since(since_us).unwrap());
        loop {
            let (steps, part) =
                steps_of(&mut store, |store| store.numbers_since_from(&whose, first, since_us, 500).unwrap());
            assert!(steps < 300, "{steps} hundred steps for {whose:?}");
            let Some(&last) = part.last() else { break };
            first = last + 1;
            found.extend(part);
        }
        assert_eq!(found, since, "{whose:?}");
    }
}

/// What was asked for long before is not read: a user may have millions of jobs.
#[test]
fn only_jobs_of_about_that_time_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.begin().unwrap();
    let hours = |hours: u64| hours * 3_600_000_000;
    for job in 1..=20_000 {
        store.insert_job(&JobRow { submitted_us: hours(1) + job, ..exited(job) }).unwrap();
    }
    // The clock is set back by less than an hour.
    store.insert_job(&JobRow { submitted_us: hours(9) + 5, ..exited(20_001) }).unwrap();
    store.insert_job(&JobRow { submitted_us: hours(8) + 5, ..exited(20_002) }).unwrap();
    store.insert_job(&JobRow { submitted_us: hours(10), ..exited(20_003) }).unwrap();
    store.commit().unwrap();
    let mut steps = |since: u64, want: &[u64]| {
        for whose in [whose(1000, &[]), whose(1000, &["a"]), ALL] {
            let (steps, found) =
                steps_of(&mut store, |store| store.numbers_since(&whose, since, 10).unwrap());
            assert_eq!(found, want, "{whose:?} {since}");
            assert!(steps < 200, "{steps} steps for {whose:?} {since}");
        }
    };
    steps(hours(9), &[20_001, 20_003]);
    steps(hours(10), &[20_003]);
    steps(u64::MAX, &[]);
}

/// How many hundreds of steps of SQLite's machine something takes.
fn steps_of<T>(store: &mut Store, run: impl FnOnce(&Store) -> T) -> (u32, T) {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = std::sync::Arc::clone(&count);
    let step = move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        false
    };
    store.connection.progress_handler(100, Some(step)).unwrap();
    let done = run(store);
    store.connection.progress_handler(0, None::<fn() -> bool>).unwrap();
    (count.load(std::sync::atomic::Ordering::Relaxed), done)
}

#[test]
fn jobs_of_a_moment_are_found_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    assert_eq!(store.numbers_at(5, 100, 10, 10).unwrap(), (Vec::new(), None));
    store.begin().unwrap();
    for job in (1..=20_000u64).filter(|job| !(5_000..15_000).contains(job)) {
        let lasts = if job % 1_000 == 7 { 30_000 } else { 5 };
        let row = JobRow { submitted_us: job * 10, ended_us: Some(job * 10 + lasts), ..exited(job) };
        store
            .insert_job(&if job == 4_000 { JobRow { submitted_us: job * 10, ..queued(job) } } else { row })
            .unwrap();
    }
    store.commit().unwrap();
    let mut all = |at_us: u64, among: u32, count: u32| {
        let (mut found, mut before, mut parts) = (Vec::new(), Some(20_001), 0);
        while let Some(number) = before {
            let (steps, part) =
                steps_of(&mut store, |store| store.numbers_at(at_us, number, among, count).unwrap());
            // Each part costs as much as it looks at.
            assert!(steps < 3 + among / 2, "{steps} hundred steps for {among}");
            found.extend(part.0);
            (before, parts) = (part.1, parts + 1);
        }
        (found, parts)
    };
    // Of each thousand one lasts that began up to three thousand jobs ago.
    let at = 17_500 * 10 + 1;
    let want = [17_500, 17_007, 16_007, 15_007, 4_000];
    assert_eq!(all(at, 500, 100), (want.to_vec(), 21));
    assert_eq!(all(at, 9_999, 100), (want.to_vec(), 2));
    assert_eq!(all(at, 20_000, 100), (want.to_vec(), 1));
    assert_eq!(all(at, 20_000, 2), (want[..2].to_vec(), 1));
    assert_eq!(all(0, 500, 100).0, [] as [u64; 0]);
    assert_eq!(all(u64::MAX, 500, 100).0, [4_000], "it waits");
}

/// What is read of a job's samples in parts.
fn in_parts(store: &Store, job: u64, most: usize) -> Vec<SampleRow> {
    let (mut place, mut all) = (Place::first(job), Vec::new());
    while let Some(part) = store.next_samples(&mut place, most).unwrap() {
        all.extend(part);
    }
    all
}

#[test]
fn parts_are_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.begin().unwrap();
    for job in 1..=2 {
        store.insert_job(&exited(job)).unwrap();
        for at in 0..9_000 {
            store.add_sample(&sample(job, at * 1_000_000)).unwrap();
        }
    }
    store.commit().unwrap();
    // Blocks and rows, rows alone, and a job without any.
    store.pack(1, 1_500).unwrap();
    for job in 1..=3 {
        let whole = store.samples(job).unwrap();
        assert_eq!(whole.len(), if job == 3 { 0 } else { 9_000 });
        for most in [1_000, 1_499, 10_000] {
            assert_eq!(in_parts(&store, job, most), whole, "job {job}, {most} at a time");
        }
    }
    // A block that cannot be read is passed over.
    store.connection.execute("UPDATE blocks SET data = x'00' WHERE first_us = 3600000000", []).unwrap();
    let left = in_parts(&store, 1, 1_000);
    assert_eq!((left.len(), left[3_599].time_us, left[3_600].time_us), (5_400, 3_599_000_000, 7_200_000_000));
}

#[test]
fn a_moment_stays_while_the_store_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.begin().unwrap();
    for job in 1..=40 {
        store.insert_job(&exited(job)).unwrap();
        (0..50).for_each(|at| store.add_sample(&sample(job, at * 1_000_000)).unwrap());
    }
    assert!(matches!(store.snapshot(), Err(StoreError::InTransaction { .. })));
    store.commit().unwrap();
    let then = store.snapshot().unwrap();
    let before =
        (then.last_numbers(&ALL, 1000).unwrap(), then.numbers_since(&whose(1000, &[]), 0, 1000).unwrap());
    assert_eq!(before, ((1..=40).collect(), (1..=40).collect()));
    // Meanwhile samples are packed and thinned and jobs struck off, up to the last one; and another one comes.
    while store.bound(1).unwrap().loss.is_some() {}
    store.insert_job(&queued(41)).unwrap();
    assert_eq!(store.last_numbers(&ALL, 1000).unwrap(), [41]);
    let after =
        (then.last_numbers(&ALL, 1000).unwrap(), then.numbers_since(&whose(1000, &[]), 0, 1000).unwrap());
    assert_eq!(after, before);
    for job in 1..=40 {
        assert_eq!(then.job(job).unwrap(), Some(exited(job)));
        assert_eq!(in_parts(&then, job, 7).len(), 50);
    }
    assert!(then.job(41).unwrap().is_none());
    assert!(!store.checkpoint().unwrap(), "the log is still needed");
    drop(then);
    assert!(store.checkpoint().unwrap());
    assert_eq!(store.numbers_since(&whose(1, &[]), 0, 10).unwrap(), [] as [u64; 0], "none of another user");
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_moment_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let then = store.snapshot().unwrap();
    assert!(matches!(then.backup(&dir.path().join("copy")), Err(StoreError::InTransaction { .. })));
    assert!(matches!(then.snapshot(), Err(StoreError::InTransaction { .. })));
    assert!(then.connection.execute("DELETE FROM jobs", []).is_err());
}

#[test]
fn jobs_by_their_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    for job in 1..=6u64 {
        let mut row = exited(job);
        row.spec.name = if job == 2 { "other" } else { "align" }.to_owned();
        row.uid = if job == 3 { 7 } else { 1000 };
        match job {
            4 => row.spec.line = Some(9),
            5 => row.spec.array = Some(JobArray { array: Some(5), index: 3, at_most: None }),
            6 => (row.ended_us, row.ending) = (None, None),
            _ => row.ending = Some(Ending { exit_code: Some(3), ..Ending::default() }),
        }
        store.insert_job(&row).unwrap();
    }
    let found = store.namesakes(1000, "align", 0, 100).unwrap();
    let numbers: Vec<(u64, bool)> = found.iter().map(|one| (one.job, one.well)).collect();
    assert_eq!(numbers, [(1, false), (4, true), (5, true), (6, false)]);
    let keeper = Some(ProcessId { pid: 77, start_ticks: 12_345 });
    let line = Namesake {
        job: 4,
        array: None,
        line: Some(9),
        keeper,
        submitted_us: 1_000_004,
        ended_us: Some(1_000_504),
        well: true,
    };
    assert_eq!(found[1], line);
    assert_eq!((found[2].array, found[3].ended_us), (Some(5), None));
    let part = store.namesakes(1000, "align", 4, 6).unwrap();
    assert_eq!(part, found[1..3]);
}

/// Each with how it ended. They are counted by the index of arrays alone, so that a count costs little.
#[test]
fn members_of_an_array_and_how_many_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    assert_eq!((store.members(1).unwrap(), store.count_members(1).unwrap()), (Vec::new(), (0, 0)));
    let failed = |job| {
        let row = exited(job);
        JobRow { ending: row.ending.map(|ending| Ending { exit_code: Some(1), ..ending }), ..row }
    };
    let cancelled = JobRow { end: Some(pinfold_proto::End::Cancelled), ..exited(4) };
    for (mut row, index) in [(exited(1), 5), (failed(2), 3), (queued(3), 5), (cancelled, 4)] {
        row.spec.array = Some(JobArray { array: Some(1), index, at_most: None });
        store.insert_job(&row).unwrap();
    }
    store.insert_job(&exited(5)).unwrap();
    let members = [(3, 2, Some(false)), (4, 4, Some(false)), (5, 1, Some(true)), (5, 3, None)];
    assert_eq!((store.members(1).unwrap(), store.count_members(1).unwrap()), (members.to_vec(), (4, 4)));
    let plan = format!("EXPLAIN QUERY PLAN {}", super::super::jobs::COUNT_MEMBERS);
    let plan: String = store.connection.query_row(&plan, [1], |row| row.get(3)).unwrap();
    assert!(plan.contains("COVERING INDEX jobs_of_array"), "{plan}");
}

/// One that is not over has not ended, and one that never ran made no room as it was struck off.
#[test]
fn the_last_end_in_an_array() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    assert_eq!(store.last_end_in(1).unwrap(), None);
    for (job, started_us, ended_us) in [
        (1, Some(2_000_000), Some(3_000_000)),
        (2, Some(2_000_000), Some(4_000_000)),
        (3, None, Some(5_000_000)),
        (4, Some(2_000_000), None),
        (5, Some(2_000_000), Some(3_500_000)),
    ] {
        let mut row = JobRow { started_us, ended_us, ..exited(job) };
        row.spec.array = Some(JobArray { array: Some(1), index: 3, at_most: Some(2) });
        store.insert_job(&row).unwrap();
    }
    store.insert_job(&JobRow { ended_us: Some(6_000_000), ..exited(6) }).unwrap();
    assert_eq!((store.last_end_in(1).unwrap(), store.last_end_in(6).unwrap()), (Some(4_000_000), None));
}
