//! Arrays in a real store: how much of them is read, and how they stand.

use pinfold_profile::store::{FILE_NAME, Store};
use pinfold_proto::wire::ErrorCode;
use pinfold_proto::{Ending, JobArray};

use super::*;
use crate::jobs::JobRecord;
use crate::store::numbers::Numbers;

/// Arrays 100, 200 and 300 have so many members each.
const MEMBERS: u64 = 50;

fn row(array: u64, index: u64) -> JobRow {
    let place = JobArray { array: Some(array), index: u32::try_from(index).expect("small"), at_most: None };
    let spec = JobSpec { array: Some(place), cores: 1, ..JobSpec::default() };
    JobRow::asked_for(array + index, 7, "ann".to_owned(), spec, 1_000)
}

fn over(array: u64, index: u64, exit_code: i32) -> JobRow {
    let row = row(array, index).ran_until(9_000);
    let ending = Ending { exit_code: Some(exit_code), ..row.ending.unwrap_or_default() };
    JobRow { ending: Some(ending), ..row }
}

/// Of array 100 all live, of 200 all are over and ended well, of 300 as well but for the member with index 7.
fn arrays(state: &std::path::Path) -> (Journal, JobTable) {
    let (mut store, mut jobs) = (Store::open(state).expect("a store").store, JobTable::new());
    store.begin().expect("a transaction");
    for index in 0..MEMBERS {
        store.insert_job(&row(100, index)).expect("a row");
        store.insert_job(&over(200, index, 0)).expect("a row");
        store.insert_job(&over(300, index, i32::from(index == 7))).expect("a row");
        jobs.insert(JobId(100 + index), Box::new(JobRecord::new(row(100, index), true)));
    }
    store.commit().expect("all is kept");
    (Journal::new(store, Numbers::open(state), false), jobs)
}

fn after(text: &str) -> After {
    text.parse().expect(text)
}

/// Each array is read once for all conditions about its members, be they of one request or of all jobs that wait.
#[test]
fn an_array_is_read_once_for_all_conditions() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, jobs) = arrays(dir.path());
    let mut read = ArraysRead::for_request();
    let names: Vec<After> = (0..1024).map(|at| after(&format!("ok:100_{}", at % MEMBERS))).collect();
    assert_eq!(jobs.unheard_of(&mut journal, &mut read, &names), Ok(None));
    assert_eq!(read.rows, 0, "all of them live");
    for (at, name) in (0..).zip(&names) {
        let condition = jobs.condition(&mut journal, &mut read, name).expect("they are few");
        assert_eq!((condition.left, condition.failed), ([JobId(100 + at % MEMBERS)].into(), None));
    }
    assert_eq!(read.rows, 50);
    let all = [after("failed:100_1+200_1"), after("ok:200"), after("ok:200_[0-9]"), after("ok:300_7")];
    assert_eq!(jobs.unheard_of(&mut journal, &mut read, &all), Ok(None));
    all.iter().for_each(|name| drop(jobs.condition(&mut journal, &mut read, name)));
    assert_eq!(read.rows, 150);
}

#[test]
fn conditions_stand_as_their_members_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs) = arrays(dir.path());
    // Two are over since, of which the store knows nothing yet.
    for (index, exit_code) in [(3, 0), (4, 1)] {
        jobs.remove(JobId(100 + index));
        journal.close(over(100, index, exit_code), true);
    }
    for (name, left, failed) in [
        ("ok:100", 48, Some(104)),
        ("ok:100_3", 0, None),
        ("ok:100_[3-5]", 1, Some(104)),
        ("ok:200", 0, None),
        ("ok:200+100_0", 1, None),
        ("ok:300", 0, Some(307)),
        ("ok:300_[0-6,8-49]", 0, None),
        ("ok:301", 0, None),
        ("ok:101", 1, None),
        ("ok:999", 0, Some(999)),
    ] {
        let mut read = ArraysRead::for_request();
        let stands = jobs.condition(&mut journal, &mut read, &after(name)).expect(name);
        assert_eq!((stands.left.len(), stands.failed), (left, failed.map(JobId)), "{name}");
    }
}

/// That no member failed must not follow from a store that cannot be read.
#[test]
fn what_cannot_be_read_is_no_answer() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, jobs) = arrays(dir.path());
    let beside = rusqlite::Connection::open(dir.path().join(FILE_NAME)).expect("the same file");
    beside.execute_batch("ALTER TABLE jobs RENAME TO elsewhere").expect("nobody writes");
    for name in ["ok:200", "ok:200_3", "ok:100", "failed:100_1+300_7", "ok:999"] {
        let mut read = ArraysRead::for_restore();
        let stands = jobs.condition(&mut journal, &mut read, &after(name));
        assert_eq!(stands.map_err(|(code, _)| code), Err(ErrorCode::Failed), "{name}");
    }
    beside.execute_batch("ALTER TABLE elsewhere RENAME TO jobs").expect("nobody writes");
    let stands = jobs.condition(&mut journal, &mut ArraysRead::for_restore(), &after("ok:300"));
    assert_eq!(stands.expect("it is back").failed, Some(JobId(307)));
}

/// What was read counts, and not what was wanted of it; those jobs that a condition is about have a bound of their own.
#[test]
fn what_is_read_for_a_request_is_bounded() {
    let refused = |rows, jobs_named| {
        let mut read = ArraysRead::for_request();
        (read.rows, read.jobs_named) = (rows, jobs_named);
        read.refusal().err().map_or(String::new(), |(_, text)| text)
    };
    assert_eq!(refused(NAMED_MAX, MEMBERS_MAX), "");
    assert!(refused(NAMED_MAX + 1, 0).contains("more than 100000 members"));
    assert!(refused(0, MEMBERS_MAX + 1).contains("more than 10000 jobs"));
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, jobs) = arrays(dir.path());
    let mut read = ArraysRead::for_request();
    read.rows = NAMED_MAX - 60;
    let missing = [after("any:200_3999999")];
    assert_eq!(jobs.unheard_of(&mut journal, &mut read, &missing), Ok(Some(&missing[0].job)));
    assert!(
        jobs.condition(&mut journal, &mut read, &after("ok:300_0")).is_err(),
        "one is wanted, 50 are read"
    );
    assert!(jobs.unheard_of(&mut journal, &mut read, &missing).is_err());
}

/// A connection over which an array goes on has it counted, with those that are not written yet, and not read.
#[test]
fn members_are_counted_wherever_they_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs) = arrays(dir.path());
    jobs.insert(JobId(100 + MEMBERS), Box::new(JobRecord::new(row(100, MEMBERS), false)));
    journal.close(over(100, MEMBERS + 1, 0), false);
    let counts = [100, 200, 400].map(|array| jobs.count_members(&mut journal, array));
    assert_eq!(counts, [52, 50, 0]);
}
