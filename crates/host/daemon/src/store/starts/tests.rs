use super::*;
use std::os::unix::fs::PermissionsExt as _;

use pinfold_profile::store::Store;
use pinfold_proto::{JobArray, JobSpec};

use super::keeping::Owner;
use crate::core::durable::Durable;
use crate::store::numbers::Numbers;

#[test]
fn users_take_turns() {
    let all = [(1, 5), (1, 6), (1, 7), (2, 1), (3, 9), (3, 10)].map(|key| (key, ()));
    let keys: Vec<(u32, i32)> = in_turns(BTreeMap::from(all)).into_iter().map(|(key, ())| key).collect();
    assert_eq!(keys, [(1, 5), (2, 1), (3, 9), (1, 6), (3, 10), (1, 7)]);
}

#[test]
fn what_is_kept_is_private_and_gone_with_its_job() {
    let state = tempfile::tempdir().expect("a directory");
    let start = Start {
        nice: 0,
        ignored: Vec::new(),
        cpus: String::new(),
        words: vec!["pinfold".to_owned(), "submit".to_owned(), "x".to_owned()],
        environment: vec!["TOKEN=secret".to_owned()],
        ..Start::default()
    };
    let mut starts = Starts::open(state.path());
    starts.keep(JobId(7), 5, &start).expect("there is room");
    starts.keep(JobId(8), 6, &start).expect("there is room");
    let mode = |name: &str| {
        let found = fs::metadata(state.path().join(name)).expect("it is there");
        found.permissions().mode() & 0o777
    };
    assert_eq!((mode("starts"), mode("starts/7")), (0o700, 0o600));
    let size = json_bytes(&start);
    assert_eq!((starts.sizes.own(5), starts.sizes.all()), (size, 2 * size));
    assert!(starts.refusal(JobId(9), 5, &start, 2 * size).is_none(), "it fits");
    let words = starts.refusal(JobId(9), 5, &start, 2 * size - 1).expect("it does not fit");
    assert!(words.contains("will not come back") && words.contains("access.max_jobs_size"), "{words}");
    assert!(starts.refusal(JobId(7), 5, &start, size).is_none(), "in the place of another");
    let row = |job: u64, array: Option<u64>| {
        let place = array.map(|array| JobArray { array: Some(array), index: 3, at_most: None });
        let spec = JobSpec { array: place, ..JobSpec::default() };
        JobRow::asked_for(job, 0, String::new(), spec, 0)
    };
    let mut again = Starts::open(state.path());
    assert!(again.has(&row(7, None)) && again.has(&row(8, None)) && !again.has(&row(9, None)));
    assert!(again.has(&row(9, Some(7))), "a member has what its array has");
    assert!(!again.has(&row(7, Some(6))));
    assert_eq!(again.read(JobId(7)).expect("a file"), Some(start));
    again.retain([row(12, Some(7))].iter());
    assert!(!again.has(&row(8, None)) && !state.path().join("starts/8").exists());
    assert!(again.has(&row(12, Some(7))), "the array is not over");
    assert_eq!((again.sizes.own(0), again.sizes.all()), (size, size));
    fs::write(state.path().join("starts/7"), "{").expect("it is ours");
    assert_eq!(again.read(JobId(7)).expect("none"), None, "half a file is none");
    again.forget(JobId(7));
    assert_eq!(Starts::open(state.path()).kept.len(), 0);
}

#[test]
fn the_starts_of_jobs_that_are_over_are_bounded() {
    use super::ended::{ENDED_DAYS, ENDED_MAX};
    const S: u64 = 1_000_000;
    let state = tempfile::tempdir().expect("a directory");
    let row = |job: u64, uid: u32| JobRow::asked_for(job, uid, String::new(), JobSpec::default(), 0);
    let start = |job: u64| Start { words: vec![job.to_string()], ..Start::default() };
    let mut starts = Starts::open(state.path());
    let most = ENDED_MAX as u64;
    for job in 1..=most + 1 {
        starts.keep(JobId(job), 5, &start(job)).expect("there is room");
        starts.end(JobId(job), job * S);
    }
    starts.keep(JobId(900), 6, &start(900)).expect("there is room");
    starts.end(JobId(900), S);
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let directory = state.path().join("ended");
    assert_eq!((mode(&directory), mode(&directory.join("900.6.1"))), (0o700, 0o600));
    // Another daemon finds them; the oldest of the user is gone, and no job takes one of another user.
    let mut again = Starts::open(state.path());
    again.retain(std::iter::empty());
    assert_eq!(again.sizes.all(), starts.sizes.all());
    let of = |starts: &Starts, job, uid| starts.of(&row(job, uid)).expect("a file");
    assert_eq!(of(&again, 2, 5), Some(start(2)));
    assert_eq!((of(&again, 1, 5), of(&again, 2, 6), of(&again, 900, 6)), (None, None, Some(start(900))));
    assert!(!again.has(&row(2, 5)) && again.last() == Some(900), "it starts no keeper");
    // The oldest give way to a job that waits, of their user alone.
    let own = again.sizes.own(5);
    assert_eq!(again.refusal(JobId(901), 5, &start(901), own), None);
    assert_eq!((of(&again, 2, 5), of(&again, 4, 5)), (None, Some(start(4))));
    again.drop_old((ENDED_DAYS * 86_400 + 10) * S);
    assert_eq!((of(&again, 9, 5), of(&again, 10, 5), of(&again, 900, 6)), (None, Some(start(10)), None));
    let left = fs::read_dir(directory).expect("it is there").count() as u64;
    assert_eq!(left, most + 1 - 9);
}

/// An array of three members, numbers 1 to 3, and where what is written of it goes.
fn array(state: &Path) -> (Outbox, JobTable) {
    let store = Store::open(state).expect("a store").store;
    let journal = Journal::new(store, Numbers::open(state), false);
    let durable = Durable::new(journal.log()).expect("a pair of sockets");
    let mut table = JobTable::new();
    for job in 1..=3 {
        let place = JobArray { array: Some(1), index: job, at_most: None };
        let spec = JobSpec { array: Some(place), ..JobSpec::default() };
        let row = JobRow::asked_for(u64::from(job), 5, String::new(), spec, 0);
        table.insert(JobId(row.job), Box::new(JobRecord::new(row, false)));
    }
    (Outbox::new(journal, durable), table)
}

#[test]
fn what_is_coming_is_not_queued_again() {
    let state = tempfile::tempdir().expect("a directory");
    let (mut out, mut table) = array(state.path());
    table.get_mut(&JobId(2)).expect("it is there").row.started_us = Some(1);
    let mut starts = Starts::open(state.path());
    let owner = Owner { uid: 5, most: Some(1 << 20) };
    for _ in 0..100 {
        starts.keep_in_time(&mut out, &mut table, JobId(1), owner, Box::default());
    }
    let queued = out.durable.turn_over(false);
    assert!(matches!(queued[..], [After::KeepStart(JobId(1), 5, _)]), "{}", queued.len());
    assert!(starts.kept.is_empty() && starts.coming.contains(&1), "it waits for the disk");
}

#[test]
fn a_refused_start_is_told_of_once() {
    let state = tempfile::tempdir().expect("a directory");
    let (mut out, mut table) = array(state.path());
    table.get_mut(&JobId(2)).expect("it is there").row.started_us = Some(1);
    let mut starts = Starts::open(state.path());
    let owner = Owner { uid: 5, most: Some(1) };
    let mut again = |out: &mut Outbox, table: &mut JobTable| {
        starts.keep_in_time(out, table, JobId(1), owner, Box::default());
        out.journal.write(table);
        assert_eq!(out.journal.trouble(), None);
        assert!(out.durable.turn_over(false).is_empty(), "none of it waits for the disk");
    };
    again(&mut out, &mut table);
    let stored = |out: &mut Outbox, job| out.journal.stored_row(JobId(job));
    let says = |row: &Option<JobRow>| {
        row.as_ref()
            .and_then(|row| row.reason.as_ref())
            .is_some_and(|text| text.contains("will not come back"))
    };
    assert!(says(&stored(&mut out, 1)) && says(&stored(&mut out, 3)));
    assert!(stored(&mut out, 2).is_none(), "it has started");
    // Whatever is written of them after that was touched once more; one has another reason by now.
    table.values_mut().for_each(|live| live.row.requeues = 9);
    table.get_mut(&JobId(3)).expect("it is there").row.reason = None;
    again(&mut out, &mut table);
    assert_eq!(stored(&mut out, 1).expect("a row").requeues, 0, "it says so already");
    assert_eq!(stored(&mut out, 3).expect("a row").requeues, 9);
}
