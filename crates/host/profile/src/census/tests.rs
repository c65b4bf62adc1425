//! Histories, as the kernel would tell them, and the rows that come of them.

use super::roll::add;
use super::trees::{UNCLAIMED_KEPT, UNCLAIMED_US};
use super::*;

const KEEPER: u32 = 50;
const S: u64 = 1_000_000;

fn census() -> Census {
    let mut census = Census::default();
    census.keeper(KEEPER);
    census
}

fn end(pid: u32, parent: u32, cpu_us: u64) -> End {
    End {
        pid,
        parent,
        is_last: true,
        exit_code: Some(0),
        name: "work".to_owned(),
        lived_us: 10,
        used: Some(ProcessUsage { cpu_user_us: cpu_us, memory_peak_bytes: 100, ..ProcessUsage::default() }),
        ..End::default()
    }
}

fn cpu(rows: &[ProcessRow]) -> u64 {
    rows.iter().map(|row| row.used.cpu_user_us).sum()
}

fn count(rows: &[ProcessRow]) -> u64 {
    rows.iter().map(|row| row.count).sum()
}

#[test]
fn early_forks_belong_to_the_job() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.born(101, 100, S);
    census.ended(&end(101, 100, 5), S);
    census.born(102, 100, S);
    census.bind(100, 7, S);
    assert_eq!(census.total(7), 3);
    let rows = census.changed(7);
    assert_eq!((rows[0].job, rows[0].number, rows[0].pid, rows[0].parent), (7, 2, 101, Some(100)));
    assert_eq!(census.living(7).iter().map(|row| row.number).collect::<Vec<_>>(), [1, 3]);
    census.ended(&end(102, 100, 7), S);
    census.ended(&end(100, KEEPER, 1), S);
    let rows = census.finish(7, S);
    assert_eq!((count(&rows), cpu(&rows)), (2, 8));
    assert!(rows.iter().all(|row| row.source == ProcessSource::Exit && row.exit_code == Some(0)));
    assert!(census.is_idle());
}

#[test]
fn orphans_stay_with_their_job() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.born(101, 100, S);
    census.ended(&end(100, KEEPER, 1), S);
    // Its parent is the first process now, and it forks on.
    census.born(102, 101, S);
    census.ended(&end(101, 1, 1), S);
    census.ended(&end(102, 1, 1), S);
    assert_eq!((census.total(7), cpu(&census.finish(7, S))), (3, 3));
}

#[test]
fn others_are_nobody() {
    let mut census = census();
    census.born(200, 1, S);
    census.ended(&end(200, 1, 9), S);
    census.ended(&end(300, 1, 9), S);
    assert!(census.is_idle());
    assert!(census.members.is_empty());
}

#[test]
fn a_number_that_is_used_again_is_another_process() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.born(101, 100, S);
    // It ended, and the number went to somebody else, before anyone looked.
    census.born(101, 1, S);
    census.born(101, 100, S);
    census.ended(&end(101, 100, 1), S);
    census.ended(&end(101, 1, 1000), S);
    census.ended(&end(101, 100, 2), S);
    census.ended(&end(100, KEEPER, 4), S);
    let rows = census.finish(7, S);
    assert_eq!((count(&rows), cpu(&rows)), (3, 7));
    assert!(census.members.is_empty());
}

/// Births are read ahead of ends: 101 was somebody else's, who had children, and was over before it was this job's.
#[test]
fn a_late_end_of_an_earlier_process_is_nobody_s() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.born(101, 100, 2 * S);
    census.ended(&end(500, 101, 1000), 3 * S);
    census.ended(&End { is_last: false, ..end(101, 40, 1000) }, 3 * S);
    census.ended(&end(101, 40, 1000), 3 * S);
    // Also of a job's first process.
    census.ended(&end(100, 40, 1000), 3 * S);
    assert_eq!((census.total(7), census.living(7).len()), (2, 2));
    // Its parent is over: from now on it has another one.
    census.ended(&end(100, KEEPER, 1), 3 * S);
    census.ended(&end(101, 1, 2), 3 * S);
    let rows = census.finish(7, 3 * S);
    assert_eq!((count(&rows), cpu(&rows)), (2, 3));
    assert!(rows.iter().all(|row| row.source == ProcessSource::Exit), "{rows:?}");
    assert!(census.members.is_empty());
}

#[test]
fn after_a_loss_an_end_is_taken_at_its_word() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.born(101, 100, S);
    census.untrace();
    // Born unheard; and one of which the parent's end may be lost.
    census.ended(&end(500, 100, 1), S);
    census.ended(&end(101, 1, 2), S);
    census.ended(&end(100, 1, 4), S);
    let rows = census.finish(7, S);
    assert_eq!((count(&rows), cpu(&rows)), (3, 7));
    assert!(rows.iter().all(|row| row.source == ProcessSource::Exit), "{rows:?}");
}

/// Of a parent with several threads a child can have another parent before the last of them ends.
#[test]
fn a_parent_of_which_a_thread_ended_may_be_over() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.born(101, 100, S);
    census.ended(&End { is_last: false, ..end(100, KEEPER, 1) }, S);
    census.ended(&end(101, 1, 2), S);
    census.ended(&end(100, KEEPER, 4), S);
    let rows = census.finish(7, S);
    assert_eq!((count(&rows), cpu(&rows)), (2, 7));
}

#[test]
fn a_keeper_that_ended_leaves_its_child_to_another_parent() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.ended(&end(KEEPER, 1, 1), S);
    census.ended(&end(100, 1, 2), S);
    let rows = census.finish(7, S);
    assert_eq!((count(&rows), cpu(&rows)), (1, 2));
}

/// Job 7, of whose processes 100, 101 and 102, each the next one's parent, the second is over.
fn with_an_orphan() -> Census {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.born(101, 100, S);
    census.born(102, 101, S);
    census.ended(&end(101, 100, 1), S);
    census
}

/// The parent is over, and a later process of the job has its number.
#[test]
fn a_number_that_came_round_is_not_the_parent() {
    let mut census = with_an_orphan();
    census.born(101, 100, 9 * S);
    census.ended(&end(102, 1, 2), 9 * S);
    census.ended(&end(101, 100, 4), 9 * S);
    census.ended(&end(100, KEEPER, 8), 9 * S);
    let rows = census.finish(7, 9 * S);
    assert_eq!((count(&rows), cpu(&rows)), (4, 15));
}

/// The parent is over, and a later keeper has its number.
#[test]
fn a_keeper_with_the_number_of_the_parent_is_not_the_parent() {
    let mut census = with_an_orphan();
    census.keeper(101);
    census.ended(&end(102, 1, 2), 9 * S);
    // So it is with a job's first process.
    census.ended(&end(KEEPER, 1, 8), 9 * S);
    census.keeper(KEEPER);
    census.ended(&end(100, 1, 4), 9 * S);
    let rows = census.finish(7, 9 * S);
    assert_eq!((count(&rows), cpu(&rows)), (3, 7));
    assert!(rows.iter().all(|row| row.source == ProcessSource::Exit), "{rows:?}");
}

#[test]
fn threads_are_summed_and_the_peak_is_the_process_s() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    for _ in 0..3 {
        census.ended(&End { is_last: false, exit_code: None, ..end(100, KEEPER, 10) }, S);
    }
    census.ended(&end(100, KEEPER, 1), S);
    let rows = census.finish(7, S);
    let [row] = &rows[..] else { panic!("one process: {rows:?}") };
    assert_eq!((row.used.cpu_user_us, row.used.memory_peak_bytes, row.threads), (31, 100, 4));
}

#[test]
fn two_keepers_jobs_are_kept_apart() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.born(110, KEEPER, S);
    census.born(111, 110, S);
    census.bind(110, 2, S);
    census.bind(100, 1, S);
    assert_eq!((census.total(1), census.total(2)), (1, 2));
    census.finish(2, S);
    assert_eq!((census.total(1), census.total(2)), (1, 0));
}

#[test]
fn samples_alone_find_processes_and_lose_them() {
    let mut census = Census::default();
    census.bind(100, 7, S);
    let seen = |pid, cpu_us| Seen {
        pid,
        parent: 100,
        command: Some(format!("/bin/p{pid} -x")),
        started_us: S,
        threads: 2,
        used: ProcessUsage { cpu_user_us: cpu_us, ..ProcessUsage::default() },
    };
    census.sampled(7, &[100, 101], &[seen(100, 1), seen(101, 5)], Told::Nothing, 2 * S);
    census.sampled(7, &[100], &[seen(100, 2)], Told::Nothing, 3 * S);
    let rows = census.changed(7);
    let [row] = &rows[..] else { panic!("one is over: {rows:?}") };
    assert_eq!((row.pid, row.source, row.exit_code), (101, ProcessSource::Sample, None));
    assert_eq!((row.command.as_str(), row.ended_us, row.failed), ("/bin/p101 -x", Some(3 * S), 0));
    let rows = census.finish(7, 4 * S);
    assert_eq!((count(&rows), cpu(&rows), rows[0].threads), (1, 2, 2));
}

#[test]
fn a_missed_process_may_have_an_end_still_unread() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.sampled(7, &[], &[], Told::All, 2 * S);
    census.ended(&end(100, KEEPER, 3), 2 * S);
    let rows = census.finish(7, 2 * S);
    assert_eq!(rows[0].source, ProcessSource::Exit);
}

/// Several samples may have what is alive from one look at the host.
#[test]
fn a_process_born_after_the_look_is_not_missed() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.born(101, 100, 9 * S);
    for _ in 0..3 {
        census.sampled(7, &[100], &[], Told::All, 9 * S);
    }
    census.ended(&end(101, 100, 3), 9 * S);
    let rows = census.changed(7);
    assert_eq!((rows.len(), rows[0].source, cpu(&rows)), (1, ProcessSource::Exit, 3));
    // One that is not seen for long is over.
    census.born(102, 100, 9 * S);
    for at in [11, 12] {
        census.sampled(7, &[100], &[], Told::All, at * S);
    }
    assert_eq!(census.changed(7)[0].source, ProcessSource::Unseen);
}

#[test]
fn while_words_wait_to_be_read_samples_end_and_begin_nobody() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    for at in 2..10 {
        census.sampled(7, &[101], &[], Told::InPart, at * S);
    }
    census.born(101, 100, S);
    census.ended(&end(100, KEEPER, 3), 10 * S);
    census.ended(&end(101, 100, 5), 10 * S);
    assert_eq!(census.total(7), 2);
    let rows = census.finish(7, 10 * S);
    assert!(rows.iter().all(|row| row.source == ProcessSource::Exit), "{rows:?}");
}

#[test]
fn a_process_first_seen_by_a_sample_is_counted_once() {
    let mut census = census();
    // Named by its keeper before its birth was heard.
    census.bind(100, 7, S);
    census.born(100, KEEPER, S);
    assert_eq!(census.total(7), 1);
    // Forked between the hearing and the sample.
    census.sampled(7, &[100, 101], &[], Told::All, 2 * S);
    census.born(101, 100, S);
    census.ended(&end(101, 100, 5), 2 * S);
    // Its end was heard, but it is still being taken down.
    census.sampled(7, &[100, 101], &[], Told::All, 3 * S);
    census.sampled(7, &[100], &[], Told::All, 4 * S);
    assert_eq!((census.total(7), cpu(&census.finish(7, 4 * S))), (2, 5));
}

#[test]
fn a_process_with_a_slow_exit_is_counted_once() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.born(101, 100, S);
    census.ended(&end(101, 100, 5), 2 * S);
    for at in 2..20 {
        census.sampled(7, &[100, 101], &[], Told::All, at * S);
    }
    assert_eq!(census.total(7), 2);
    // The sample that finds it gone may be from before its birth; two are not.
    census.sampled(7, &[100], &[], Told::All, 20 * S);
    census.sampled(7, &[100, 101], &[], Told::All, 21 * S);
    census.sampled(7, &[100, 101], &[], Told::All, 22 * S);
    assert_eq!(census.total(7), 2);
    census.sampled(7, &[100], &[], Told::All, 23 * S);
    census.sampled(7, &[100], &[], Told::All, 24 * S);
    // The number comes round, and nobody told of it.
    census.sampled(7, &[100, 101], &[], Told::All, 25 * S);
    census.sampled(7, &[100, 101], &[], Told::All, 26 * S);
    assert_eq!((census.total(7), cpu(&census.finish(7, 27 * S))), (3, 5));
}

#[test]
fn a_number_that_comes_round_at_once_is_told_by_its_start() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.born(101, 100, S);
    census.ended(&end(101, 100, 5), 2 * S);
    let seen = |started_us| Seen { pid: 101, parent: 100, started_us, ..Seen::default() };
    census.sampled(7, &[100, 101], &[seen(S)], Told::All, 4 * S);
    census.sampled(7, &[100, 101], &[seen(S)], Told::All, 5 * S);
    assert_eq!(census.total(7), 2);
    census.sampled(7, &[100, 101], &[seen(6 * S)], Told::All, 7 * S);
    census.sampled(7, &[100, 101], &[seen(6 * S)], Told::All, 8 * S);
    assert_eq!(census.total(7), 3);
    // One that is born with everybody listening is another at once.
    census.ended(&end(101, 100, 5), 9 * S);
    census.born(101, 100, 9 * S);
    census.ended(&end(101, 100, 5), 9 * S);
    assert_eq!(census.total(7), 4);
}

#[test]
fn a_late_word_of_one_that_is_over_counts_nobody() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.born(101, 100, S);
    census.ended(&end(101, 100, 5), 2 * S);
    census.ended(&End { is_last: false, ..end(101, 100, 3) }, 2 * S);
    assert_eq!(census.total(7), 2);
    assert_eq!(census.living(7).len(), 1);
}

#[test]
fn an_unreported_process_is_found_by_the_second_sample() {
    let mut census = census();
    census.bind(100, 7, S);
    census.sampled(7, &[100, 101], &[], Told::All, 2 * S);
    census.sampled(7, &[100, 101], &[], Told::All, 3 * S);
    assert_eq!(census.total(7), 2);
}

#[test]
fn after_a_loss_samples_put_it_right() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.born(101, 100, S);
    census.born(101, 1, S);
    census.lost(S);
    // 101 is somebody else's now, and 105 was born unheard.
    census.sampled(7, &[100, 105], &[], Told::Nothing, 2 * S);
    assert_eq!(census.total(7), 3);
    census.ended(&end(105, 100, 3), 2 * S);
    assert_eq!(cpu(&census.finish(7, 2 * S)), 3);
    assert!(census.members.is_empty());
}

#[test]
fn many_short_ones_are_added_up_and_none_is_left_out() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    let (mut written, mut rows) = (BTreeMap::new(), 0);
    for at in 0..10_000u32 {
        let pid = 1000 + at % 500;
        census.born(pid, 100, S + u64::from(at));
        let name = format!("cmd{}", at % 150);
        census.ended(&End { name, exit_code: Some(i32::from(at % 10 == 0)), ..end(pid, 100, 3) }, 2 * S);
        if at % 1000 == 0 {
            for row in census.changed(7) {
                rows += 1;
                written.insert(row.number, row);
            }
        }
    }
    census.ended(&end(100, KEEPER, 1), 2 * S);
    written.extend(census.finish(7, 2 * S).into_iter().map(|row| (row.number, row)));
    let all: Vec<ProcessRow> = written.into_values().collect();
    assert_eq!((count(&all), cpu(&all)), (10_001, 30_001));
    assert_eq!(all.iter().map(|row| row.failed).sum::<u64>(), 1_000);
    assert!(all.len() as u64 <= SHORT_KEPT + 1 + COMMANDS_KEPT as u64 + 1, "{} rows", all.len());
    assert!(all.iter().any(|row| row.command == OTHERS && row.count > 100));
    assert!(rows < 2_000, "changed rows only: {rows}");
}

#[test]
fn a_tree_that_nobody_claims_is_dropped() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.born(101, 100, S);
    census.sweep(5 * S);
    assert!(!census.is_idle());
    census.sweep(S + UNCLAIMED_US + 1);
    assert!(census.is_idle() && census.members.is_empty());
}

/// Any user can have a keeper, and fork as fast as the host allows, for no job.
#[test]
fn forks_of_a_keeper_without_a_job_are_not_kept() {
    let mut census = census();
    for pid in 100..10_100 {
        census.born(pid, KEEPER, S);
        census.ended(&end(pid, KEEPER, 1), S);
    }
    assert!(census.is_idle() && census.members.is_empty());
}

#[test]
fn so_many_rows_wait_for_a_claim_and_the_rest_is_added_up() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.born(200, KEEPER, S);
    let ended = UNCLAIMED_KEPT as u64 + 1_000;
    for _ in 0..ended {
        census.born(101, 100, S);
        census.ended(&end(101, 100, 2), S);
    }
    census.born(201, 200, S);
    census.ended(&end(201, 200, 3), S);
    let kept = census.trees.values().map(|tree| tree.over.len()).sum::<usize>();
    assert_eq!((kept, census.unclaimed), (UNCLAIMED_KEPT, UNCLAIMED_KEPT));
    census.bind(100, 7, S);
    census.bind(200, 8, S);
    assert_eq!((census.unclaimed, census.total(7), census.total(8)), (0, ended + 1, 2));
    census.ended(&end(100, KEEPER, 5), S);
    census.ended(&end(200, KEEPER, 5), S);
    assert_eq!(census.counts(7).waited_us, Some(0), "all of them were counted to their end");
    let rows = census.finish(7, S);
    assert_eq!((count(&rows), cpu(&rows)), (ended + 1, 2 * ended + 5));
    assert!(rows.iter().any(|row| row.command == OTHERS && row.count == 1_000), "{rows:?}");
    let rows = census.finish(8, S);
    assert_eq!((count(&rows), cpu(&rows)), (2, 8));
    // What nobody claims makes room again.
    census.born(300, KEEPER, S);
    census.born(301, 300, S);
    census.ended(&end(301, 300, 1), S);
    assert_eq!(census.unclaimed, 1);
    census.sweep(S + UNCLAIMED_US + 1);
    assert_eq!((census.unclaimed, census.is_idle()), (0, true));
}

/// A child of a keeper may have ended in what was lost. If it is to be a job's, it is taken in when that is told.
#[test]
fn after_a_loss_what_nobody_claimed_is_not_kept() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.born(101, KEEPER, S);
    census.bind(100, 7, S);
    census.lost(S);
    assert_eq!((census.trees.len(), census.members.len()), (1, 1));
    census.bind(101, 8, S);
    census.ended(&end(101, KEEPER, 3), S);
    assert_eq!(cpu(&census.finish(8, S)), 3);
    // The end of this one was lost: its number is another's now.
    census.born(100, KEEPER, S);
    census.lost(S);
    assert_eq!((census.living(7).len(), census.members.len()), (0, 0));
}

/// Without records each sample finds some processes, and none of them is forked by one that is known.
#[test]
fn processes_that_samples_found_are_forgotten_with_their_end() {
    let mut census = Census::default();
    for pid in 100..1_100 {
        census.sampled(7, &[50, pid], &[], Told::Nothing, u64::from(pid) * S);
    }
    assert_eq!((census.total(7), census.living(7).len()), (1_001, 2));
    assert_eq!((census.trees.len(), census.jobs[&7].trees.len(), census.members.len()), (2, 2, 2));
}

#[test]
fn so_many_that_live_are_told_one_by_one() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    let all = u32::try_from(LIVING_TOLD).unwrap() + 1_000;
    (1..all).for_each(|more| census.born(100 + more, 100, S));
    let rows = census.living(7);
    assert_eq!((rows.len(), count(&rows)), (LIVING_TOLD + 1, u64::from(all)));
    assert_eq!((rows[LIVING_TOLD].command.as_str(), rows[LIVING_TOLD].count), (OTHERS, 1_000));
    assert_eq!(census.total(7), u64::from(all));
}

/// One of its connections is closed, and the other one keeps jobs.
#[test]
fn a_keeper_is_known_until_its_last_connection_is_closed() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.keeper(KEEPER);
    census.keeper_gone(KEEPER);
    census.born(101, KEEPER, S);
    for pid in [100, 101] {
        census.bind(pid, 7, S);
        // The end of an earlier process of its number: the keeper has not ended.
        census.ended(&end(pid, 40, 1_000), S);
    }
    assert_eq!(census.living(7).iter().filter(|row| row.parent == Some(KEEPER)).count(), 2);
    census.keeper_gone(KEEPER);
    census.keeper_gone(KEEPER);
    census.born(102, KEEPER, S);
    assert_eq!(census.members.len(), 2);
}

#[test]
fn pss_stays_with_its_process() {
    let mut census = census();
    census.born(100, KEEPER, 10 * S);
    census.bind(100, 7, 10 * S);
    census.divided(100, 9_000, 5 * S);
    assert_eq!(census.living(7)[0].share, None, "that was another process of this number");
    census.divided(100, 5_000, 11 * S);
    census.divided(100, 3_000, 12 * S);
    census.divided(999, 1, 12 * S);
    let share = Some(ProcessShare { time_us: 12 * S, bytes: 3_000, peak_bytes: 5_000 });
    assert_eq!(census.living(7)[0].share, share);
    census.ended(&End { lived_us: 2 * S, ..end(100, KEEPER, 1) }, 13 * S);
    census.divided(100, 7_000, 14 * S);
    assert_eq!(census.finish(7, 14 * S)[0].share, share, "its row is handed out with it");
    // Of several that are added up, the one that held most.
    let other = ProcessShare { time_us: S, bytes: 1, peak_bytes: 8_000 };
    let mut fold = ProcessRow { share, ..ProcessRow::default() };
    add(&mut fold, &ProcessRow { share: Some(other), ..ProcessRow::default() });
    add(&mut fold, &ProcessRow::default());
    assert_eq!(fold.share, Some(other));
}

#[test]
fn counts_of_all_processes_are_summed() {
    let used = |calls, faults, waited_us| ProcessUsage {
        io_read_calls: calls,
        faults_minor: faults,
        waited_us,
        switches_voluntary: 2,
        ..ProcessUsage::default()
    };
    let ended = |pid, parent, used| End { used: Some(used), ..end(pid, parent, 0) };
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    assert_eq!(census.counts(7), Counts::default(), "nothing is known");
    census.born(101, 100, S);
    census.ended(&ended(101, 100, used(1024, 30, 5)), S);
    let counts = census.counts(7);
    assert_eq!(
        (counts.io_read_calls, counts.faults_minor, counts.faults_major),
        (Some(1024), Some(30), Some(0))
    );
    assert_eq!((counts.waited_us, counts.io_write_calls), (None, None), "one lives, and nobody wrote");
    census.counted(100, 50, 9, 1);
    assert!(census.living(7)[0].counted);
    census.ended(&ended(100, KEEPER, used(0, 10, 70)), S);
    let counts = census.counts(7);
    assert_eq!((counts.faults_minor, counts.waited_us), (Some(40), Some(75)));
    assert_eq!(
        (counts.switches_voluntary, counts.switches_forced),
        (Some(11), Some(1)),
        "what was read counts too"
    );
    assert!(census.finish(7, S).iter().all(|row| row.counted));
    assert_eq!(census.counts(7), Counts::default(), "it is forgotten");
}

#[test]
fn waits_of_processes_whose_end_nobody_told_are_not_known() {
    let mut census = census();
    let seen = Seen { pid: 100, parent: 1, started_us: S, threads: 1, ..Seen::default() };
    census.sampled(7, &[100], &[seen], Told::Nothing, S);
    census.counted(100, 50, 9, 1);
    census.close(7, S);
    assert_eq!(census.counts(7).waited_us, None);
    let rows = census.finish(7, S);
    assert_eq!((rows[0].counted, rows[0].used.waited_us, rows[0].source), (true, 50, ProcessSource::Sample));
}

#[test]
fn a_process_with_read_waits_was_seen() {
    let mut census = census();
    census.born(100, KEEPER, S);
    census.bind(100, 7, S);
    census.counted(100, 50, 9, 1);
    census.ended(&End { used: None, ..end(100, KEEPER, 0) }, S);
    let rows = census.finish(7, S);
    assert_eq!((rows[0].counted, rows[0].source), (true, ProcessSource::Sample));
}

/// A farm of processes takes no more memory than its processes do.
#[test]
fn there_is_room_for_one_process_of_a_number() {
    let mut census = census();
    for pid in 100..1100 {
        census.born(pid, KEEPER, S);
    }
    assert!(census.members.values().all(|generations| generations.capacity() == 1));
    census.born(100, KEEPER, S);
    assert_eq!(census.members[&100].len(), 2, "and more where more are told of");
}
