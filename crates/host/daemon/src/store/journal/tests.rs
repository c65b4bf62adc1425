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

const ROOT: Asker = Asker { uid: 0, is_trusted: true };

fn of(uid: u32) -> Asker {
    Asker { uid, is_trusted: false }
}

/// A command as long as one may be.
fn long() -> JobSpec {
    JobSpec { command: vec!["x".repeat(38_000)], cores: 1, ..JobSpec::default() }
}

/// A journal with a spare room and a store that another program holds locked.
fn in_trouble(state: &std::path::Path) -> (Journal, JobTable, Store) {
    let (mut journal, mut jobs) = (journal(state).with_spare(Spare::open(state)), JobTable::new());
    journal.close(over(1, "done"), false);
    journal.write(&mut jobs);
    let mut other = Store::open(state).expect("the same store").store;
    other.begin().expect("it is free");
    journal.close(over(1, "again"), true);
    journal.write(&mut jobs);
    assert!(journal.trouble().is_some());
    (journal, jobs, other)
}

fn accepted(journal: &mut Journal, jobs: &mut JobTable, asker: Asker, spec: JobSpec) -> Result<u64, String> {
    let job = journal.number_for(&spec, asker)?;
    let row = JobRow::asked_for(job, asker.uid, "ann".to_owned(), spec, 1_000);
    jobs.insert(JobId(job), Box::new(JobRecord::new(row, false)));
    journal.touch(JobId(job));
    Ok(job)
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
    assert_eq!(journal.count_unwritten(), 64);
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
    assert_eq!(journal.count_unwritten(), 0, "no write was tried");
    // Another program holds the file locked.
    let mut other = Store::open(dir.path()).expect("the same store").store;
    other.begin().expect("it is free");
    journal.write(&mut jobs);
    assert!(journal.trouble().is_some());
    assert_eq!(journal.count_unwritten(), 1);
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
    assert_eq!((again.trouble(), again.count_unwritten()), (None, 0));
    drop(again);
    assert_eq!(self::journal(dir.path()).next_number(), Ok(next + 1));
}

/// Where an earlier copy of the store is put in its place, no number is given again.
#[test]
fn no_number_is_given_twice_though_the_store_is_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut before, mut jobs) = (journal(dir.path()), JobTable::new());
    for _ in 0..3 {
        let job = before.next_number().expect("a number");
        before.close(over(job, "done"), false);
    }
    before.write(&mut jobs);
    drop(before);
    for file in ["pinfold.db", "pinfold.db-wal", "pinfold.db-shm"] {
        let _ = std::fs::remove_file(dir.path().join(file));
    }
    let mut again = journal(dir.path());
    assert_eq!(again.next_number(), Ok(4));
    again.close(over(4, "done"), false);
    again.write(&mut jobs);
    drop(again);
    // What stands elsewhere tells of later ones.
    let mut last = journal(dir.path());
    last.was_given(2);
    last.was_given(6);
    assert_eq!(last.next_number(), Ok(7));
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
        match journal.number_for(&spec, ROOT) {
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
    journal.number_for(&spec, ROOT).expect("there is room");
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
    // After a try that took long it rests for a moment too.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(300);
    while let Some(trouble) = journal.trouble() {
        assert!(std::time::Instant::now() < deadline, "it is not written after five minutes: {trouble}");
        journal.write(&mut jobs);
        std::thread::yield_now();
    }
    assert_eq!(journal.all_unwritten().count(), 0);
    journal.next_number().expect("a number");
}

/// However much of its own a user changes, accepted jobs of others stay where the next daemon finds them, and so does what
/// was decided about others' jobs.
#[test]
fn what_one_user_changes_drives_out_nothing_of_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs) = (journal(dir.path()).with_spare(Spare::open(dir.path())), JobTable::new());
    let large: Vec<u64> =
        (0..30).map(|_| accepted(&mut journal, &mut jobs, of(7), long()).expect("it is taken")).collect();
    let small: Vec<u64> = (0..2_000)
        .map(|_| accepted(&mut journal, &mut jobs, of(7), JobSpec::default()).expect("it is taken"))
        .collect();
    let [to_start, to_end] =
        [(); 2].map(|()| accepted(&mut journal, &mut jobs, of(8), long()).expect("it is taken"));
    journal.write(&mut jobs);
    assert_eq!(journal.trouble(), None);
    let mut other = Store::open(dir.path()).expect("the same store").store;
    other.begin().expect("it is free");
    journal.close(over(1, "done"), true);
    jobs.remove(JobId(1));
    journal.write(&mut jobs);
    let theirs: Vec<u64> =
        (0..4).map(|_| accepted(&mut journal, &mut jobs, of(8), long()).expect("it is taken")).collect();
    journal.decided(DecisionRow { action: "start as primary on 0".to_owned(), ..decision(to_start) });
    let ended = jobs.remove(JobId(to_end)).expect("it is there").row.ran_until(9_000);
    journal.close(JobRow { state: JobState::Exited, ..ended }, true);
    journal.write(&mut jobs);
    let mut change = |journal: &mut Journal, some: &[u64], comment: &str| {
        for job in some.iter().map(|&job| JobId(job)).filter(|job| job.0 > 1) {
            jobs.get_mut(&job).expect("it is there").row.spec.terms.comment = Some(comment.to_owned());
            journal.touch(job);
        }
        journal.write(&mut jobs);
    };
    change(&mut journal, &large, "short");
    let found = |state| Spare::open(state).1.into_iter().map(|kept| kept.row.job).collect::<BTreeSet<u64>>();
    let all = found(dir.path());
    assert!(large[1..].iter().chain(&theirs).all(|job| all.contains(job)), "{all:?} {large:?} {theirs:?}");
    // Now also more than there is room for.
    for _ in 0..3 {
        change(&mut journal, &small, &"c".repeat(1_000));
    }
    let all = found(dir.path());
    let (kept, lost) = small.iter().partition::<Vec<u64>, _>(|job| all.contains(job));
    assert!(kept.len() > 100 && lost.len() > 100, "{} {}", kept.len(), lost.len());
    drop(journal);
    let mut again = self::journal(dir.path()).with_spare(Spare::open(dir.path()));
    assert_eq!(again.granted_unstored(JobId(to_start)), Some(Some(5)));
    assert_eq!(
        again.stored_row(JobId(to_end)).map(|row| (row.state, row.spec)),
        Some((JobState::Exited, long()))
    );
    let rows = again.unfinished().expect("it can be read");
    let rows: BTreeMap<u64, &JobRow> = rows.iter().map(|row| (row.job, row)).collect();
    for job in theirs.iter().chain([&to_start]) {
        assert_eq!((rows[job].uid, &rows[job].spec), (8, &long()));
    }
    assert!(!rows.contains_key(&to_end));
    let comments = kept.iter().filter(|job| rows[job].spec.terms.comment.is_some()).count();
    assert_eq!(comments, kept.len());
    drop(other);
}

/// One that grows behind its acceptance takes no other's place: what its user changed is then left out.
#[test]
fn a_job_that_grows_keeps_to_its_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs, _other) = in_trouble(dir.path());
    let mut all = Vec::new();
    for uid in 7..20 {
        let spec = || JobSpec { cores: 1, ..JobSpec::default() };
        while let Ok(job) = accepted(&mut journal, &mut jobs, of(uid), spec()) {
            all.push(job);
        }
    }
    journal.write(&mut jobs);
    assert!(all.len() > 200, "{}", all.len());
    for &job in &all {
        let live = jobs.get_mut(&JobId(job)).expect("it is there");
        live.row.spec.terms.comment = Some("\u{1}".repeat(1_000));
        journal.touch(JobId(job));
    }
    journal.write(&mut jobs);
    let found: Vec<u64> = Spare::open(dir.path()).1.iter().map(|kept| kept.row.job).collect();
    assert!(all.iter().all(|job| found.contains(job)), "{} of {}", found.len(), all.len());
}

/// One user leaves room for the next, who leave some for root; and what is not needed any more, or became no job, counts no
/// more.
#[test]
fn one_user_leaves_room_for_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs, _other) = in_trouble(dir.path());
    let mut counts = Vec::new();
    let mut first = Vec::new();
    for uid in 7..17 {
        let mut count = 0;
        let refused = loop {
            let spec = if uid == 7 { long() } else { JobSpec { cores: 1, ..JobSpec::default() } };
            match accepted(&mut journal, &mut jobs, of(uid), spec) {
                Ok(job) if uid == 7 => first.push(job),
                Ok(_) => {}
                Err(refused) => break refused,
            }
            count += 1;
        };
        assert!(refused.contains("room that is kept") && refused.contains("job store: "), "{refused}");
        assert_eq!(refused.contains("jobs that you submitted since"), count > 0, "{refused}");
        counts.push(count);
    }
    assert!((7..12).contains(&counts[0]) && counts[1] > 50 && counts[2] > 20 && counts[3] > 10, "{counts:?}");
    journal.write(&mut jobs);
    accepted(&mut journal, &mut jobs, ROOT, long()).expect("there is room for root");
    for &job in &first[..2] {
        let row = jobs.remove(JobId(job)).expect("it is there").row;
        journal.close(JobRow { state: JobState::Exited, ..row }, false);
    }
    let half = JobSpec { command: vec!["x".repeat(8_000)], cores: 1, ..JobSpec::default() };
    for _ in 0..20 {
        journal.number_for(&half, of(20)).expect("there is room, since the one before became no job");
        journal.spare_rows(&jobs);
    }
}

/// All that counts is written anew only once the rest of the room is used up, however many jobs come and go; and what waits of
/// them in memory is bounded for each user.
#[test]
fn jobs_that_come_and_go_cost_little() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, mut jobs, _other) = in_trouble(dir.path());
    let mut gone = 0;
    let refused = loop {
        match accepted(&mut journal, &mut jobs, of(7), long()) {
            Ok(job) => {
                if gone < 100 {
                    journal.spare_rows(&jobs);
                }
                let row = jobs.remove(JobId(job)).expect("it is there").row;
                journal.close(JobRow { state: JobState::Exited, ..row }, false);
                if gone < 100 {
                    journal.spare_rows(&jobs);
                }
                gone += 1;
            }
            Err(refused) => break refused,
        }
    };
    assert!(refused.contains("jobs of yours that are over take"), "{refused}");
    assert!((300..500).contains(&gone), "{gone}");
    // Six long ones are added each time.
    let rewritten = journal.spared.spare.as_ref().expect("a room").rewritten();
    assert!(rewritten < 100 / 4, "{rewritten} times for 100 jobs");
    for asker in [of(8), ROOT] {
        accepted(&mut journal, &mut jobs, asker, long()).expect("others have no part in that");
    }
}
