//! The journal over a real store: rows that it refuses, and jobs that come and go in one write.

use pinfold_proto::{Ending, JobSpec, JobState};

use super::*;
use crate::jobs::record::JobRecord;
use crate::store::spare::Spare;

fn journal(state: &std::path::Path) -> Journal {
    let store = Store::open(state).expect("a store").store;
    Journal::new(store, Numbers::open(state), false)
}

fn row(job: u64) -> JobRow {
    JobRow::asked_for(job, 7, "ann".to_owned(), JobSpec { cores: 1, ..JobSpec::default() }, 1_000 + job)
}

fn over(job: u64, reason: &str) -> JobRow {
    let row = row(job).ran_until(9_000);
    JobRow { state: JobState::Exited, reason: Some(reason.to_owned()), ..row }
}

fn decision(job: u64) -> DecisionRow {
    DecisionRow {
        job,
        time_us: 5,
        action: "start".to_owned(),
        reason: "a slot is free".to_owned(),
        codes: None,
    }
}

#[test]
fn an_end_that_is_amended_before_it_was_written_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs) = (journal(dir.path()), JobTable::new());
    journal.close(over(1, "withdrawn"), false);
    let told = Some(Ending { exit_code: Some(3), ..Ending::default() });
    journal.amend(JobRow { ending: told, ..over(1, "ended") });
    journal.write(&mut jobs);
    assert_eq!(journal.trouble(), None);
    // Now it has a row, and more may be told yet.
    journal.amend(over(1, "later"));
    journal.write(&mut jobs);
    assert_eq!((journal.trouble(), journal.warnings().count()), (None, 0));
    assert_eq!(journal.store().job(1).expect("a row").expect("it is there").reason.as_deref(), Some("later"));
}

#[test]
fn a_job_that_was_struck_off_meanwhile_is_written_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs) = (journal(dir.path()), JobTable::new());
    journal.close(over(1, "lost"), false);
    journal.write(&mut jobs);
    journal.amend(over(1, "ended"));
    assert_eq!(journal.store().prune(u64::MAX).expect("it is pruned").jobs, 1);
    journal.close(over(2, "done"), false);
    journal.write(&mut jobs);
    assert_eq!(journal.warnings().count(), 0);
    let known = |journal: &mut Journal, job| journal.store().job(job).expect("it can be read").is_some();
    assert!(known(&mut journal, 1) && known(&mut journal, 2));
}

/// A number that is there already is refused by the store: that row alone is set aside.
#[test]
fn a_row_that_is_refused_keeps_no_other_from_the_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs) = (journal(dir.path()), JobTable::new());
    journal.close(over(3, "of an earlier life"), false);
    journal.write(&mut jobs);
    jobs.insert(JobId(3), Box::new(JobRecord::new(row(3), false)));
    jobs.insert(JobId(4), Box::new(JobRecord::new(row(4), false)));
    journal.touch(JobId(3));
    journal.touch(JobId(4));
    journal.close(over(2, "done"), false);
    journal.decided(decision(4));
    journal.write(&mut jobs);
    assert_eq!(journal.trouble(), None);
    let told: Vec<String> = journal.warnings().collect();
    assert!(told.len() == 1 && told[0].contains("of jobs 3,") && told[0].contains("row"), "{told:?}");
    assert!(!jobs[&JobId(3)].stored && jobs[&JobId(4)].stored);
    // Its end is refused as well, and known all the same.
    journal.close(over(3, "of this life"), false);
    journal.write(&mut jobs);
    assert_eq!(journal.trouble(), None);
    assert_eq!(journal.unwritten(JobId(3)).and_then(|row| row.reason.as_deref()), Some("of this life"));
    assert_eq!(journal.all_unwritten().count(), 1);
    drop(journal);
    let mut again = self::journal(dir.path());
    let reasons: Vec<Option<String>> = (2..=4)
        .map(|job| again.store().job(job).expect("it can be read").expect("it is there").reason)
        .collect();
    assert_eq!(reasons, [Some("done".to_owned()), Some("of an earlier life".to_owned()), None]);
    assert_eq!(again.store().decisions(4).expect("they can be read").len(), 1);
}

/// As many are set aside as come: what is kept of them is bounded.
#[test]
fn rows_that_are_refused_take_no_memory_without_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs) = (journal(dir.path()), JobTable::new());
    for job in 1..=600 {
        journal.close(over(job, "before"), false);
    }
    journal.write(&mut jobs);
    for job in 1..=600 {
        journal.close(over(job, "again"), false);
    }
    journal.write(&mut jobs);
    assert_eq!((journal.trouble(), journal.all_unwritten().count()), (None, 64));
    let told: Vec<String> = journal.warnings().collect();
    assert!(told.len() == 1 && told[0].contains("and 592 more") && told[0].len() < 500, "{told:?}");
}

/// Numbers that were told while the store could not be written are not told again after a crash.
#[test]
fn no_number_is_given_twice_though_nothing_can_be_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs) = (journal(dir.path()), JobTable::new());
    let first = journal.next_number().expect("a number");
    journal.close(over(first, "done"), false);
    // Another program holds the file locked.
    let mut other = Store::open(dir.path()).expect("the same store").store;
    other.begin().expect("it is free");
    journal.write(&mut jobs);
    assert!(journal.trouble().is_some());
    let mut last = first;
    for _ in 0..3_000 {
        last = journal.next_number().expect("a number");
    }
    drop(journal);
    drop(other);
    let mut again = self::journal(dir.path());
    let next = again.next_number().expect("a number");
    assert!(next > last && next <= last + 2_048, "{next} after {last}");
    // Once all is written again, nothing is left out any more.
    again.close(over(next, "done"), false);
    again.write(&mut jobs);
    assert_eq!(again.trouble(), None);
    drop(again);
    assert_eq!(self::journal(dir.path()).next_number(), Ok(next + 1));
}

/// What is accepted while the store cannot be written is known to the next daemon, under its number and as it stood, also
/// to one that cannot write the store either.
#[test]
fn what_a_full_disk_keeps_from_the_store_is_found_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = || journal(dir.path()).with_spare(Spare::open(dir.path()));
    let insert = |journal: &mut Journal, jobs: &mut JobTable, row: JobRow, stored| {
        journal.touch(JobId(row.job));
        jobs.insert(JobId(row.job), Box::new(JobRecord::new(row, stored)));
    };
    let (mut before, mut jobs) = (journal(), JobTable::new());
    insert(&mut before, &mut jobs, row(1), false);
    before.write(&mut jobs);
    let mut other = Store::open(dir.path()).expect("the same store").store;
    other.begin().expect("it is free");
    // The first is over, the second runs, the third was to start, and the fourth came and went.
    before.close(over(1, "done"), true);
    jobs.remove(JobId(1));
    insert(&mut before, &mut jobs, JobRow { started_us: Some(8), ..row(2) }, false);
    insert(&mut before, &mut jobs, row(3), false);
    before.decided(DecisionRow { action: "start as primary on 0".to_owned(), ..decision(3) });
    before.close(over(4, "done"), false);
    before.write(&mut jobs);
    assert!(before.trouble().is_some());
    drop(before);
    let mut rows = Vec::new();
    for _ in 0..2 {
        let (mut again, mut jobs) = (journal(), JobTable::new());
        rows = again.unfinished().expect("it can be read");
        let started: Vec<(u64, Option<u64>)> = rows.iter().map(|row| (row.job, row.started_us)).collect();
        assert_eq!(started, [(2, Some(8)), (3, None)]);
        assert_eq!(
            (again.granted_unstored(JobId(3)), again.granted_unstored(JobId(2))),
            (Some(Some(5)), None)
        );
        for job in [1, 4] {
            assert_eq!(again.stored_row(JobId(job)).and_then(|row| row.reason).as_deref(), Some("done"));
        }
        let next = again.next_number().expect("a number");
        assert!(next > 4, "{next}");
        for row in rows.clone() {
            let stored = again.has_row_of(JobId(row.job));
            insert(&mut again, &mut jobs, row, stored);
        }
        again.write(&mut jobs);
        assert!(again.trouble().is_some());
    }
    other.rollback();
    drop(other);
    let (mut last, mut jobs) = (journal(), JobTable::new());
    assert_eq!(last.unfinished().expect("it can be read"), rows);
    for row in rows {
        insert(&mut last, &mut jobs, row, false);
    }
    assert_eq!(last.take_cleared(), None);
    last.write(&mut jobs);
    assert_eq!((last.trouble(), last.warnings().count()), (None, 0));
    // Not within the write, which the loop waits for.
    assert_eq!((last.take_cleared(), last.take_cleared()), (Some(dir.path().join("spare")), None));
    assert_eq!(Spare::open(dir.path()).1, [], "the store has all of it");
    let states: Vec<Option<JobState>> =
        (1..=4).map(|job| last.store().job(job).expect("a row").map(|row| row.state)).collect();
    let (over, waits) = (Some(JobState::Exited), Some(JobState::Queued));
    assert_eq!(states, [over, waits, waits, over]);
}

/// No job is accepted that could be lost, and one is again as soon as others need no room any more.
#[test]
fn no_more_is_accepted_than_can_be_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs) = (journal(dir.path()).with_spare(Spare::open(dir.path())), JobTable::new());
    journal.close(over(1, "done"), false);
    let mut other = Store::open(dir.path()).expect("the same store").store;
    other.begin().expect("it is free");
    journal.write(&mut jobs);
    let spec = JobSpec { command: vec!["x".repeat(5_000)], cores: 1, ..JobSpec::default() };
    let mut accepted = Vec::new();
    let refused = loop {
        match journal.number_for(&spec) {
            Ok(job) => accepted.push(job),
            Err(refused) => break refused,
        }
        if accepted.len() % 7 == 0 {
            for &job in &accepted {
                let row = JobRow { spec: spec.clone(), ..row(job) };
                jobs.insert(JobId(job), Box::new(JobRecord::new(row, false)));
                journal.touch(JobId(job));
            }
            journal.write(&mut jobs);
        }
    };
    assert!(refused.contains("room") && accepted.len() > 50, "{} {refused}", accepted.len());
    let kept = Spare::open(dir.path()).1.len();
    assert!(kept >= accepted.len() / 7 * 7, "{kept} of {}", accepted.len());
    for &job in &accepted[..20] {
        jobs.remove(JobId(job));
        journal.close(over(job, "done"), false);
    }
    journal.write(&mut jobs);
    journal.number_for(&spec).expect("there is room");
}

/// A try goes through all that waits. Made in each turn, it would bring the loop to a stop where thousands of jobs ended while
/// the disk was full.
#[test]
fn the_more_waits_the_less_often_it_is_tried() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs) = (journal(dir.path()), JobTable::new());
    let mut other = Store::open(dir.path()).expect("the same store").store;
    other.begin().expect("it is free");
    let most = OVER_MAX as u64;
    (1..most).for_each(|job| journal.close(over(job, "done"), false));
    journal.write(&mut jobs);
    assert!(journal.trouble().is_some());
    journal.next_number().expect("a number");
    journal.close(over(most, "done"), false);
    let told = journal.next_number().expect_err("all of them are in memory");
    assert!(told.contains("20000 jobs"), "{told}");
    other.rollback();
    drop(other);
    let turns = (OVER_MAX - 1) / ROWS_A_TURN;
    (0..turns).for_each(|_| journal.write(&mut jobs));
    assert_eq!(journal.all_unwritten().count(), OVER_MAX);
    journal.write(&mut jobs);
    assert_eq!((journal.trouble(), journal.all_unwritten().count()), (None, 0));
    journal.next_number().expect("a number");
}
