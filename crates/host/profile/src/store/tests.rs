//! Rows for the tests of the store, and the tests of its ordinary use; damage, death and full disks beside.

mod compact;
mod damage;
mod full;
mod host;
mod killed;
mod migration;
mod moment;
mod offline;

use std::os::unix::fs::PermissionsExt;

use pinfold_proto::Resource;
use pinfold_proto::row::{
    Codes, Counts, DecisionRow, JobRow, Lay, ProcessId, ProcessRow, ProcessShare, ProcessSource,
    ProcessUsage, ProcessesFrom, SampleRow, Stalls, Usage,
};
use pinfold_proto::{
    Adopted, After, AfterEnd, Allocation, Checkpoint, End, Ending, GroupLimit, InPlace, JobArray, JobClass,
    JobLayout, JobPlace, JobSpec, JobState, Parent, Terms, TimeoutSignal,
};
use proptest::prelude::*;

use super::*;

/// A job as the daemon writes it when it is asked for.
fn queued(job: u64) -> JobRow {
    let spec = JobSpec {
        name: "sort".to_owned(),
        command: vec!["sort".to_owned(), "-n".to_owned(), format!("data {job}")],
        directory: "/home/ada".to_owned(),
        cores: 1,
        ..JobSpec::default()
    };
    JobRow {
        keeper: Some(ProcessId { pid: 77, start_ticks: 12_345 }),
        reason: Some("no slot is free".to_owned()),
        ..JobRow::asked_for(job, 1000, "ada".to_owned(), spec, 1_000_000 + job)
    }
}

/// The same job when it is over.
fn exited(job: u64) -> JobRow {
    let mut row = queued(job);
    row.state = JobState::Exited;
    row.started_us = Some(row.submitted_us + 5);
    row.ended_us = Some(row.submitted_us + 500);
    row.ending = Some(Ending { exit_code: Some(0), ended_us: row.submitted_us + 499, ..Ending::default() });
    row.usage = Usage { cpu_user_us: 480, memory_peak_bytes: 1 << 20, samples: 2, ..Usage::default() };
    row.reason = None;
    row
}

#[test]
fn jobs_of_the_last_day_keep_all_as_long_as_older_ones_have_anything() {
    const DAY_US: u64 = 86_400_000_000;
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.begin().unwrap();
    for job in 1..=200 {
        // Each within a minute of its own.
        let begin_us = job * 60_000_000 + if job <= 100 { 0 } else { 3 * DAY_US };
        let ended_us = Some(begin_us + 60_000_000);
        store.insert_job(&JobRow { submitted_us: begin_us, ended_us, ..exited(job) }).unwrap();
        for at in 1..=50 {
            let memory_bytes = (at * 7919 * job) % 1_000_003;
            store.add_sample(&SampleRow { memory_bytes, ..sample(job, begin_us + at * 1_000_000) }).unwrap();
        }
    }
    store.commit().unwrap();
    let left = |store: &Store, jobs: std::ops::RangeInclusive<u64>| {
        let of = |job| (store.job(job).unwrap().is_some(), store.samples(job).unwrap().len());
        jobs.map(of).collect::<Vec<_>>()
    };
    let mut struck = false;
    while let Some(loss) = store.bound(1).unwrap().loss {
        let old = left(&store, 1..=100);
        if old.iter().any(|(there, _)| *there) {
            assert_eq!(left(&store, 101..=200), vec![(true, 50); 100], "after {loss:?}");
            assert!(old.is_sorted(), "the oldest have least: {old:?}");
        } else {
            struck = true;
        }
    }
    assert!(struck && left(&store, 1..=200).iter().all(|left| *left == (false, 0)));
    assert_eq!(store.next_job(), 201);
}

/// A step looks at what is next, not at all that there is: also where nothing is left to be given up but jobs.
#[test]
fn many_jobs_are_not_looked_at_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.begin().unwrap();
    for job in 1..=5_000 {
        store.insert_job(&JobRow { ended_us: Some(job), ..exited(job) }).unwrap();
    }
    store.commit().unwrap();
    let mut steps = 0;
    while store.job(1).unwrap().is_some() {
        assert!(store.bound(1).unwrap().loss.is_some());
        steps += 1;
    }
    // Six kinds, 5,000 jobs, 2,048 at a look; then the first jobs go.
    assert_eq!(steps, 6 * 3 + 1);
    store.bound(1).unwrap();
    assert!(
        store.job(16).unwrap().is_none() && store.job(17).unwrap().is_some(),
        "no look goes before the next"
    );
}

#[test]
fn the_store_keeps_below_a_size_and_loses_what_is_missed_least() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.begin().unwrap();
    for job in 1..=60 {
        let over = exited(job);
        let unfinished = JobRow { state: JobState::Running, ended_us: None, ending: None, ..over.clone() };
        store.insert_job(if job > 55 { &unfinished } else { &over }).unwrap();
        store.add_decision(&decision(job, "start")).unwrap();
        for at in 1..=400 {
            // No two differences are alike, so that packing does not do all of it.
            let memory_bytes = (at * 7919 * job) % 1_000_003;
            store.add_sample(&SampleRow { memory_bytes, ..sample(job, at * 1_000_000) }).unwrap();
        }
        let process = ProcessRow { job, number: 1, command: "x".repeat(500), ..ProcessRow::default() };
        store.put_process(&process).unwrap();
    }
    store.commit().unwrap();
    let unfinished = |store: &Store| {
        (56..=60).all(|job| {
            let rows = (store.samples(job).unwrap().len(), store.processes(job).unwrap().len());
            rows == (400, 1) && store.job(job).unwrap().is_some()
        })
    };
    let mut losses = Vec::new();
    let before = store.used_bytes().unwrap();
    // A bound that cannot be met: step by step all goes that may go.
    for _ in 0..1_000 {
        let done = store.bound(1).unwrap();
        assert!(unfinished(&store), "after {losses:?}");
        let Some(loss) = done.loss else { break };
        losses.push(loss);
        if loss == bound::Loss::ToHours {
            assert!(store.samples(1).unwrap().len() == 1, "the oldest are thinned first");
            let most = store.samples(1).unwrap()[0].memory_bytes;
            assert_eq!(most, (1..=400).map(|at| (at * 7919) % 1_000_003).max().unwrap(), "peaks stay");
        }
    }
    assert!(losses.is_sorted(), "{losses:?}");
    losses.dedup();
    assert_eq!(losses.len(), 6, "each kind of loss in its turn: {losses:?}");
    assert!((1..=55).all(|job| store.job(job).unwrap().is_none()));
    assert_eq!(store.unfinished().unwrap().len(), 5);
    assert!(store.used_bytes().unwrap() < before / 2);
    assert!(store.checkpoint().unwrap());
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
    assert_eq!(store.next_job(), 61, "numbers are not used again");
    // A bound that is met takes nothing.
    let bounded = store.bound(1 << 30).unwrap();
    assert_eq!((bounded.jobs, bounded.loss), (0, None));
}

fn decision(job: u64, action: &str) -> DecisionRow {
    DecisionRow {
        job,
        time_us: 1_000_000 + job,
        action: action.to_owned(),
        reason: "a slot is free".to_owned(),
        codes: Some(Codes::plain("start", "slot_free")),
    }
}

fn sample(job: u64, time_us: u64) -> SampleRow {
    SampleRow {
        job,
        time_us,
        state: JobState::Running,
        cpu_user_us: time_us / 2,
        cpu_system_us: 7,
        memory_bytes: 1 << 20,
        cache_bytes: None,
        swap_bytes: 0,
        virtual_bytes: 1 << 24,
        io_read_bytes: 0,
        io_write_bytes: 512,
        processes: 2,
        threads: 3,
        stalls: None,
    }
}

/// A store that must be new or sound.
fn open(dir: &Path) -> Store {
    let Opened { store, recovered } = Store::open(dir).unwrap();
    assert_eq!(recovered, None);
    store
}

prop_compose! {
    fn any_spec()(
        (name, directory, project) in (".*", ".*", proptest::option::of(".*")).boxed(),
        command in proptest::collection::vec(".*", 0..4).boxed(),
        (priority, class, cores) in (any::<Option<u8>>(), proptest::option::of(any_class()), any::<u32>()).boxed(),
        numbers in proptest::array::uniform6(any_maybe()),
        (held, no_suspend, private_tmp, requeue, no_network) in any::<(bool, bool, bool, bool, bool)>(),
        after in proptest::collection::vec((any::<u64>(), 0u8..3), 0..4).boxed(),
        terms in proptest::option::of((any_maybe(), any_maybe(), proptest::option::of((any::<i32>(), any_number())), any::<Option<String>>())).boxed(),
        checkpoint in proptest::option::of((".*", any_number())).boxed(),
        array in proptest::option::of((any_maybe(), any::<u32>(), any::<Option<u32>>())).boxed(),
        layout in proptest::option::of((any::<Vec<(String, String)>>(), any::<Option<String>>())).boxed(),
        allocation in proptest::option::of((any::<[Option<String>; 3]>(), any_maybe())).boxed(),
        limits in proptest::collection::vec((".*", any_number(), ".*"), 0..3).boxed(),
        (disk_bytes, input_bytes) in (any_maybe(), any_maybe()),
        adopted in proptest::option::of((any::<Option<String>>(), any::<Vec<(u32, u64)>>(), any::<(u64, u64)>(), any::<bool>(), any::<Option<bool>>())).boxed(),
        external in proptest::option::of("[a-z]{1,8}:[0-9]{1,6}(\\.[a-z]{1,8})?").boxed(),
    ) -> JobSpec {
        JobSpec {
            name, project, command, directory, priority, class, cores, held, no_suspend, private_tmp,
            checkpoint: checkpoint.map(|(command, limit_us)| Checkpoint { command, limit_us }),
            requeue,
            no_network,
            after: after.iter().map(|(job, end)| After { job: (*job).into(), with: Vec::new(), end: [AfterEnd::Any, AfterEnd::Ok, AfterEnd::Failed][usize::from(*end)] }).collect(),
            terms: terms.map_or_else(Terms::default, |(timeout_us, begin_us, signal, comment)| Terms {
                parent: comment.clone().zip(begin_us).map(|(instance, job)| Parent { instance, job }),
                resources: comment.iter().map(|text| Resource { numbers: vec![0, 7], ..Resource::asked(text, 2) }).collect(),
                runs_again: requeue, timeout_us, cpu_limit_us: begin_us, begin_us, comment, timeout_signal: signal.map(|(signal, before_us)| TimeoutSignal { signal, before_us }),
            }),
            array: array.map(|(array, index, at_most)| JobArray { array, index, at_most }),
            layout: layout.map(|(options, cpus)| JobLayout {
                options, cpus, set: Some("db".to_owned()), isolated: true, place: Some(JobPlace::Spread),
            }),
            claim_bytes: numbers[0],
            limit_bytes: numbers[1],
            ttl_us: numbers[2],
            expected_us: numbers[3],
            line: numbers[4],
            tmp_bytes: numbers[5],
            disk_bytes,
            input_bytes,
            adopted: adopted.map(|(cgroup, processes, before_ticks, any_user, bound)| Adopted {
                cgroup, processes, before_ticks, any_user, in_place: bound.map(|bound| InPlace { bound }),
            }),
            external: external.map(|name| name.parse().unwrap()),
            allocation: allocation.map(|([manager, cpus, memory_group], memory_bytes)| Allocation {
                manager, cpus, memory_bytes, memory_group, limits: limits.iter().cloned().map(|(what, most, group)| GroupLimit { what, most, group }).collect(),
            }),
        }
    }
}

prop_compose! {
    fn any_usage()(
        numbers in proptest::array::uniform12(any_number()),
        (cache, kernel) in (any_maybe(), any_maybe()),
        (stalls, processes_from) in (any_stalls(), any_from()),
        kinds in proptest::array::uniform3(any_maybe()),
        counts in proptest::array::uniform7(any_maybe()),
    ) -> Usage {
        Usage {
            cpu_user_us: numbers[0],
            cpu_system_us: numbers[1],
            memory_peak_bytes: numbers[2],
            memory_mean_bytes: numbers[3],
            cache_peak_bytes: cache,
            swap_peak_bytes: numbers[4],
            virtual_peak_bytes: numbers[5],
            io_read_bytes: numbers[6],
            io_write_bytes: numbers[7],
            processes_total: numbers[8],
            processes_peak: numbers[9],
            threads_peak: numbers[10],
            samples: numbers[11],
            memory_peak_kernel_bytes: kernel,
            stalls,
            processes_from,
            anonymous_peak_bytes: kinds[0],
            shared_peak_bytes: kinds[1],
            mapped_peak_bytes: kinds[2],
            counts: Counts {
                io_read_calls: counts[0],
                io_write_calls: counts[1],
                faults_minor: counts[2],
                faults_major: counts[3],
                switches_voluntary: counts[4],
                switches_forced: counts[5],
                waited_us: counts[6],
            },
        }
    }
}

fn any_stalls() -> impl Strategy<Value = Option<Stalls>> {
    let some = proptest::array::uniform5(any_number()).prop_map(|numbers| Stalls {
        cpu_us: numbers[0],
        memory_us: numbers[1],
        memory_full_us: numbers[2],
        io_us: numbers[3],
        io_full_us: numbers[4],
    });
    proptest::option::of(some)
}

fn any_from() -> impl Strategy<Value = ProcessesFrom> {
    prop_oneof![
        Just(ProcessesFrom::Unknown),
        Just(ProcessesFrom::Records),
        Just(ProcessesFrom::Events),
        Just(ProcessesFrom::Samples),
        Just(ProcessesFrom::Gaps),
    ]
}

prop_compose! {
    fn any_process_row()(
        (number, pid, parent) in (any_number(), any::<u32>(), any::<Option<u32>>()),
        (command, times) in (".*", proptest::array::uniform2(any_maybe())),
        (exit_code, signal) in any::<(Option<i32>, Option<i32>)>(),
        counts in proptest::array::uniform3(any_number()),
        used in proptest::array::uniform12(any_number()),
        source in prop_oneof![
            Just(ProcessSource::Running), Just(ProcessSource::Exit), Just(ProcessSource::Sample),
            Just(ProcessSource::Unseen)
        ],
        share in proptest::option::of(proptest::array::uniform3(any_number())),
        (virtual_peak_bytes, counted) in (any_maybe(), any::<bool>()),
    ) -> ProcessRow {
        ProcessRow {
            job: 1, number, pid, parent, command, exit_code, signal, source, counted,
            count: counts[0],
            started_us: times[0],
            ended_us: times[1],
            failed: counts[1],
            threads: counts[2],
            used: ProcessUsage {
                cpu_user_us: used[0],
                cpu_system_us: used[1],
                waited_us: used[2],
                memory_peak_bytes: used[3],
                io_read_bytes: used[4],
                io_write_bytes: used[5],
                io_read_calls: used[6],
                io_write_calls: used[7],
                faults_minor: used[8],
                faults_major: used[9],
                switches_voluntary: used[10],
                switches_forced: used[11],
                virtual_peak_bytes,
            },
            share: share.map(|[time_us, bytes, peak_bytes]| ProcessShare { time_us, bytes, peak_bytes }),
        }
    }
}

prop_compose! {
    fn any_ending()(
        codes in any::<(Option<i32>, Option<i32>)>(),
        numbers in proptest::array::uniform6(any_number()),
        counts in proptest::array::uniform4(any_maybe()),
    ) -> Ending {
        Ending {
            exit_code: codes.0,
            signal: codes.1,
            ended_us: numbers[0],
            cpu_user_us: numbers[1],
            cpu_system_us: numbers[2],
            rss_peak_bytes: numbers[3],
            io_read_bytes: numbers[4],
            io_write_bytes: numbers[5],
            faults_minor: counts[0],
            faults_major: counts[1],
            switches_voluntary: counts[2],
            switches_forced: counts[3],
        }
    }
}

prop_compose! {
    fn any_job()(
        (job, uid, user, spec) in (1..1u64 << 53, any::<u32>(), ".*", any_spec().boxed()),
        (priority, class, state) in (any::<u8>(), any_class(), any_state()),
        times in (any_number(), any_maybe(), any_maybe(), any_number(), any_maybe()),
        (cpus, reason) in (proptest::option::of("[0-9,-]{0,9}"), proptest::option::of(".*")),
        (keeper, main) in (any_process(), any_process()),
        (ending, usage) in (proptest::option::of(any_ending().boxed()), any_usage().boxed()),
        (requeues, checkpoints, requeuing, suspended) in any::<(u32, u32, bool, bool)>(),
        lay in proptest::option::of((any::<bool>(), any::<u32>())),
        (needed_bytes, waits_since_us) in (any_maybe(), any_maybe()),
    ) -> JobRow {
        JobRow {
            job, uid, user, spec, priority, class, state, cpus, keeper, main, ending, reason, usage,
            submitted_us: times.0,
            waits_since_us,
            started_us: times.1,
            ended_us: times.2,
            suspended_us: times.3,
            frozen_since_us: times.4,
            suspended,
            requeues,
            end: [None, Some(End::Timeout), Some(End::Dependency)][usize::try_from(requeues % 3).unwrap()],
            checkpoints,
            requeuing,
            lay: lay.map(|(apart, domains)| Lay {
                place: if apart { JobPlace::Spread } else { JobPlace::Compact }, domains,
            }),
            needed_bytes,
        }
    }
}

prop_compose! {
    fn any_sample()(
        numbers in proptest::array::uniform9(any_number()),
        (cache_bytes, state, stalls) in (any_maybe(), any_state(), any_stalls()),
        (processes, threads) in any::<(u32, u32)>(),
    ) -> SampleRow {
        SampleRow {
            job: numbers[0],
            time_us: numbers[1],
            state,
            cpu_user_us: numbers[2],
            cpu_system_us: numbers[3],
            memory_bytes: numbers[4],
            cache_bytes,
            swap_bytes: numbers[5],
            virtual_bytes: numbers[6],
            io_read_bytes: numbers[7],
            io_write_bytes: numbers[8],
            processes,
            threads,
            stalls,
        }
    }
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(i64::MAX as u64), 0..1u64 << 40]
}

fn any_maybe() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(any_number())
}

fn any_process() -> impl Strategy<Value = Option<ProcessId>> {
    proptest::option::of(
        (any::<u32>(), any_number()).prop_map(|(pid, start_ticks)| ProcessId { pid, start_ticks }),
    )
}

fn any_class() -> impl Strategy<Value = JobClass> {
    prop_oneof![Just(JobClass::Primary), Just(JobClass::Backfill), Just(JobClass::Exclusive)]
}

fn any_state() -> impl Strategy<Value = JobState> {
    prop_oneof![
        Just(JobState::Queued),
        Just(JobState::Held),
        Just(JobState::Running),
        Just(JobState::Frozen),
        Just(JobState::Parked),
        Just(JobState::Exited)
    ]
}

fn any_codes() -> impl Strategy<Value = Option<Codes>> {
    let figures = proptest::collection::btree_map("[a-z_]{1,9}", any::<u64>(), 0..3);
    proptest::option::of(("[a-z_]+", "[a-z_]+", figures).prop_map(|(action, reason, figures)| Codes {
        figures: figures.into_iter().map(|(name, value)| (name, value.into())).collect(),
        ..Codes::plain(&action, &reason)
    }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_row_comes_back_as_it_was_written(
        first in any_job().boxed(),
        then in any_job().boxed(),
        sample in any_sample().boxed(),
        (job, time_us, action, reason) in (any_number(), any_number(), ".*", ".*"),
        codes in any_codes(),
        process in any_process_row().boxed(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let decision = DecisionRow { job, time_us, action, reason, codes };
        // What was asked for, by whom and when stays as it is, but for what may be changed later.
        let spec =
            JobSpec { claim_bytes: then.spec.claim_bytes, held: then.spec.held, ..first.spec.clone() };
        let (job_number, uid, user) = (first.job, first.uid, first.user.clone());
        let then = JobRow { job: job_number, uid, user, spec, submitted_us: first.submitted_us, ..then };
        let mut store = open(dir.path());
        store.insert_job(&first).unwrap();
        prop_assert_eq!(store.job(first.job).unwrap(), Some(first.clone()));
        store.update_job(&then).unwrap();
        store.add_sample(&sample).unwrap();
        store.add_decision(&decision).unwrap();
        store.put_process(&ProcessRow { count: 0, ..process.clone() }).unwrap();
        store.put_process(&process).unwrap();
        drop(store);
        let store = open(dir.path());
        let unfinished = store.unfinished().unwrap();
        prop_assert_eq!(unfinished.len(), usize::from(then.state != JobState::Exited));
        prop_assert_eq!(store.job(then.job).unwrap(), Some(then));
        prop_assert_eq!(store.samples(sample.job).unwrap(), vec![sample]);
        prop_assert_eq!(store.decisions(decision.job).unwrap(), vec![decision]);
        prop_assert_eq!(store.processes(process.job).unwrap(), vec![process]);
        let orphans = usize::from(job != first.job) + usize::from(first.job != 1);
        prop_assert_eq!(store.check().unwrap().problems.len(), orphans);
    }
}

/// As fast and as large as one likes: what another user did days before stays, with its samples.
#[test]
fn a_users_large_jobs_drive_out_no_other_users() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.begin().unwrap();
    for job in 1..=100 {
        store.insert_job(&exited(job)).unwrap();
        (0..50).for_each(|time_us| store.add_sample(&sample(job, time_us)).unwrap());
    }
    for job in 101..=400 {
        let mut row = JobRow { uid: 1001, user: "eve".to_owned(), ..exited(job) };
        row.ended_us = Some(4 * 86_400_000_000 + job);
        row.spec.command = vec!["x".repeat(16 << 10)];
        store.insert_job(&row).unwrap();
    }
    store.commit().unwrap();
    let whole = store.used_bytes().unwrap();
    let most = whole / 2;
    while store.bound(most).unwrap().loss.is_some() {}
    assert!(store.used_bytes().unwrap() <= most);
    let left = |store: &Store, uid| store.last(Some(uid), 1_000).unwrap().len();
    assert_eq!(left(&store, 1000), 100);
    let eves = left(&store, 1001);
    assert!((1..300).contains(&eves), "{eves}");
    assert_eq!(store.last(Some(1001), 1).unwrap()[0].job, 400, "the oldest went first");
    for job in 1..=100 {
        assert_eq!(store.samples(job).unwrap().len(), 50, "job {job}");
    }
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

#[test]
fn only_the_owner_can_read_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.insert_job(&queued(1)).unwrap();
    let backup = dir.path().join("copy.db");
    store.backup(&backup).unwrap();
    for path in [store.path().to_owned(), open::beside(store.path(), "-wal"), backup] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn a_transaction_is_kept_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    assert!(matches!(store.commit(), Err(StoreError::NoTransaction { .. })));
    store.begin().unwrap();
    assert!(matches!(store.begin(), Err(StoreError::InTransaction { .. })));
    assert!(matches!(store.backup(&dir.path().join("copy")), Err(StoreError::InTransaction { .. })));
    store.insert_job(&queued(1)).unwrap();
    // A mistake about one row is that row's alone.
    assert!(matches!(store.insert_job(&queued(1)), Err(StoreError::Other { .. })));
    assert!(matches!(store.update_job(&queued(9)), Err(StoreError::NoSuchJob { job: 9, .. })));
    store.commit().unwrap();
    store.begin().unwrap();
    store.insert_job(&queued(2)).unwrap();
    store.rollback();
    store.begin().unwrap();
    store.insert_job(&queued(3)).unwrap();
    drop(store);
    assert_eq!(open(dir.path()).unfinished().unwrap(), vec![queued(1)]);
}

/// A job may be suspended and resumed all day by its user; nothing is given up of a job that is not over.
#[test]
fn of_many_decisions_about_a_job_the_first_and_the_last_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.begin().unwrap();
    let most = details::DECISIONS_FIRST + details::DECISIONS_LAST;
    let made = |number: u64| DecisionRow { time_us: number, ..decision(7, "freeze") };
    for number in 0..most + 250 {
        store.add_decision(&made(number)).unwrap();
        store.add_decision(&DecisionRow { time_us: number, ..decision(8 + number, "start") }).unwrap();
    }
    store.commit().unwrap();
    let first = (0..details::DECISIONS_FIRST).map(made);
    let last = (most + 250 - details::DECISIONS_LAST..most + 250).map(made);
    let (shown, left_out) = crate::report::shown_decisions(store.decisions(7).unwrap());
    assert_eq!(shown, first.chain(last).collect::<Vec<_>>());
    assert_eq!(left_out, Some((details::DECISIONS_FIRST - 1, most + 250 - details::DECISIONS_LAST)));
    for number in 0..most + 250 {
        assert_eq!(store.decisions(8 + number).unwrap().len(), 1, "of other jobs nothing goes");
    }
}

/// As many as are kept are all of them.
#[test]
fn decisions_are_left_out_once_more_were_made_than_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.begin().unwrap();
    for (job, made, left_out) in [(7, 999, None), (8, 1_000, None), (9, 1_001, Some((99, 101)))] {
        for number in 0..made {
            store.add_decision(&DecisionRow { time_us: number, ..decision(job, "freeze") }).unwrap();
        }
        let (shown, gap) = crate::report::shown_decisions(store.decisions(job).unwrap());
        assert_eq!((shown.len() as u64, gap), (made.min(1_000), left_out), "{made}");
    }
    store.commit().unwrap();
}

#[test]
fn lists_are_chosen_by_user_time_and_state() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let bobs = JobRow { uid: 1001, user: "bob".to_owned(), ..queued(3) };
    for row in [exited(1), queued(2), bobs.clone(), exited(4)] {
        store.insert_job(&row).unwrap();
    }
    assert_eq!(store.unfinished().unwrap(), vec![queued(2), bobs.clone()]);
    assert_eq!(store.last(None, 2).unwrap(), vec![bobs.clone(), exited(4)]);
    assert_eq!(store.last(Some(1000), 2).unwrap(), vec![queued(2), exited(4)]);
    // However many that wait were asked for later, and whichever number they have.
    let long = JobRow { ended_us: Some(exited(4).ended_us.unwrap() + 1), ..exited(1) };
    store.update_job(&long).unwrap();
    assert_eq!(store.last_ended(9).unwrap(), vec![exited(4), long.clone()]);
    assert_eq!(store.last_ended(1).unwrap(), vec![long]);
    assert_eq!(store.since(Some(1001), 0).unwrap(), vec![bobs.clone()]);
    assert_eq!(store.since(None, bobs.submitted_us).unwrap(), vec![bobs, exited(4)]);
    assert_eq!(store.job(5).unwrap(), None);
}

#[test]
fn a_number_is_never_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    assert_eq!((store.next_job(), store.next_job()), (1, 2));
    for job in 1..=70 {
        store.insert_job(&exited(job)).unwrap();
        store.add_sample(&sample(job, 9)).unwrap();
        store.add_decision(&decision(job, "start")).unwrap();
    }
    assert_eq!(store.next_job(), 71);
    assert_eq!(store.prune(u64::MAX).unwrap(), Pruned { jobs: PRUNE_JOBS_MAX, more: true });
    assert_eq!(store.prune(u64::MAX).unwrap(), Pruned { jobs: 70 - PRUNE_JOBS_MAX, more: false });
    let report = store.check().unwrap();
    assert_eq!((report.jobs, report.samples, report.decisions), (0, 0, 0));
    drop(store);
    assert_eq!(open(dir.path()).next_job(), 72, "the number given out last is not given again");
}

#[test]
fn pruning_leaves_what_is_not_over_and_not_old() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    for row in [exited(1), queued(2), exited(3)] {
        store.insert_job(&row).unwrap();
    }
    let before_us = exited(3).ended_us.unwrap();
    assert_eq!(store.prune(before_us).unwrap(), Pruned { jobs: 1, more: false });
    assert_eq!(store.last(None, 9).unwrap(), vec![queued(2), exited(3)]);
}

#[test]
fn a_checkpoint_empties_the_log_and_gives_room_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.begin().unwrap();
    for job in 1..=60 {
        store.insert_job(&exited(job)).unwrap();
        (0..100).for_each(|time_us| store.add_sample(&sample(job, time_us)).unwrap());
    }
    store.commit().unwrap();
    assert!(store.log_bytes() > 0);
    assert!(store.checkpoint().unwrap());
    assert_eq!(store.log_bytes(), 0);
    let before = store.check().unwrap().file_bytes;
    store.prune(u64::MAX).unwrap();
    assert!(store.checkpoint().unwrap());
    let after = store.check().unwrap();
    assert!(after.file_bytes < before / 2, "{} of {before} bytes are left", after.file_bytes);
    assert_eq!(after.problems, Vec::<String>::new());
}

#[test]
fn a_backup_is_a_store_and_replaces_the_last_one() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut store = open(dir.path());
    let copy = other.path().join(FILE_NAME);
    fs::write(&copy, "what was there before").unwrap();
    store.insert_job(&queued(5)).unwrap();
    store.add_decision(&decision(5, "queue")).unwrap();
    store.backup(&copy).unwrap();
    store.insert_job(&queued(6)).unwrap();
    let mut copied = open(other.path());
    assert_eq!(copied.unfinished().unwrap(), vec![queued(5)]);
    assert_eq!(copied.decisions(5).unwrap(), vec![decision(5, "queue")]);
    assert_eq!(copied.next_job(), 6);
    assert_eq!(
        fs::read_dir(other.path()).unwrap().count(),
        3,
        "the copy, its log and its index; no partial file"
    );
}

#[test]
fn another_program_may_read_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.insert_job(&exited(1)).unwrap();
    for (time_us, cpu_user_us) in [(1_000_000, 0), (3_000_000, 1_000_000)] {
        store.add_sample(&SampleRow { cpu_user_us, ..sample(1, time_us) }).unwrap();
    }
    let reader = Connection::open(store.path()).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let look = "SELECT name, wall_s, submitted_utc FROM report";
    let row: (String, f64, String) =
        reader.query_row(look, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!(row, ("sort".to_owned(), 0.000_495, "1970-01-01 00:00:01".to_owned()));
    store.insert_job(&queued(2)).unwrap();
    assert!(!store.checkpoint().unwrap(), "the reader still needs the log");
    let cores: Vec<Option<f64>> = {
        let mut statement = reader.prepare("SELECT cpu_cores FROM series ORDER BY time_s").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(cores, vec![None, Some(0.5)]);
}
