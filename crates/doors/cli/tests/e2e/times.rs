//! What a job ran, for how long it was frozen, and since when it waits, is the same for the daemon that comes after: whatever
//! the system's clock shows by then, and whoever thawed the job meanwhile.

use std::path::PathBuf;
use std::time::Instant;

use pinfold_profile::store::Store;
use pinfold_proto::row::JobRow;
use pinfold_proto::{End, JobState};

use crate::host::{Host, status_field};
use crate::kind::{Kind, tests};
use crate::wait::{eventually, no_rescue};

tests! {
    Each: frozen_until_the_guard_thawed_it;
    Best: a_timeout_does_not_count_time_in_which_the_host_slept,
        a_timeout_counts_though_the_clock_was_set_back, a_timeout_does_not_count_time_in_the_queue,
        a_wait_goes_on_when_the_daemon_is_restarted, a_job_goes_first_no_sooner_than_earlier_ones_allow;
}

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";
const HOUR_US: i64 = 3_600_000_000;

/// The row of a job, changed while no daemon runs.
fn change(host: &Host, job: u64, change: impl FnOnce(&mut JobRow)) -> JobRow {
    let mut store = Store::open(&host.state()).expect("the daemon's store").store;
    let mut row = store.job(job).expect("it can be read").expect("it is there");
    change(&mut row);
    store.update_job(&row).expect("it can be written");
    row
}

/// A job that started so much earlier than it did, in microseconds.
fn earlier(row: &mut JobRow, by_us: i64) {
    row.submitted_us = row.submitted_us.saturating_add_signed(-by_us);
    row.started_us = row.started_us.map(|at| at.saturating_add_signed(-by_us));
}

/// The clock of the daemon that was stopped showed so much less than it did, in microseconds.
fn behind(host: &Host, by_us: i64) {
    let path = host.state().join("clock");
    let text = std::fs::read_to_string(&path).expect("the daemon noted its clock");
    let (us, monotonic_us) = text.trim().split_once(' ').expect("by two clocks");
    let us: i64 = us.parse().expect("a number");
    std::fs::write(&path, format!("{} {monotonic_us}\n", us - by_us)).expect("it can be written");
}

/// Whether any process of the job is held by the freezer or stopped by a signal.
pub(crate) fn is_frozen(host: &Host, pids: &[u32]) -> bool {
    let frozen_group = |group: PathBuf| {
        let read = |file: &str| std::fs::read_to_string(group.join(file)).unwrap_or_default();
        read("cgroup.events").contains("frozen 1") || read("freezer.state").trim() == "FROZEN"
    };
    let stopped = |pid: &u32| status_field(*pid, "State").is_some_and(|state| state.starts_with('T'));
    host.job_groups().into_iter().any(frozen_group) || pids.iter().any(stopped)
}

/// Waits until the kernel has frozen a job, or is about to: what was decided is carried out later if its keeper has
/// not told of its process yet.
pub(crate) fn until_frozen(host: &Host, job: u64) {
    // What runs in the kernel stops on its way out.
    let is_told = |group: PathBuf| {
        std::fs::read_to_string(group.join("freezer.state")).is_ok_and(|state| state.trim() == "FREEZING")
    };
    eventually(&format!("job {job} is frozen"), || {
        let pids = host.until(job, JobState::Frozen).pids;
        let frozen = is_frozen(host, &pids) || host.job_groups().into_iter().any(is_told);
        if frozen { Ok(()) } else { Err(format!("{pids:?} run")) }
    });
}

/// The daemon's clock does not advance while the host sleeps; that of the next one begins with the system's.
fn a_timeout_does_not_count_time_in_which_the_host_slept(kind: Kind) {
    let mut host = Host::new(kind);
    let job = host.submit(&["--timeout", "1h"], &format!("{WAIT}; exit 3"));
    host.until(job, JobState::Running);
    assert_eq!(host.stop(), Some(0));
    change(&host, job, |row| earlier(row, 2 * HOUR_US));
    behind(&host, 2 * HOUR_US);
    host.start_daemon();
    host.until(job, JobState::Running);
    // It counts once, however often the daemon is restarted.
    assert_eq!(host.stop(), Some(0));
    host.start_daemon();
    let slept_s = host.report(job).suspended_s;
    assert!((7199.0..7201.0).contains(&slept_s), "{slept_s}");
    host.make("go");
    host.until_exit_code(job, 3);
}

/// It ran for three hours by the clock of one daemon, and that of the next one shows two hours less.
fn a_timeout_counts_though_the_clock_was_set_back(kind: Kind) {
    let mut host = Host::new(kind);
    let job = host.submit(&["--timeout", "2h"], WAIT);
    host.until(job, JobState::Running);
    assert_eq!(host.stop(), Some(0));
    change(&host, job, |row| earlier(row, HOUR_US));
    behind(&host, -2 * HOUR_US);
    host.start_daemon();
    let view = host.until(job, JobState::Exited);
    assert_eq!(view.end, Some(End::Timeout), "{view:?}");
}

/// The daemon died before it could write when a job started, which had waited for two hours.
fn a_timeout_does_not_count_time_in_the_queue(kind: Kind) {
    let mut host = Host::new(kind);
    let job = host.submit(&["--timeout", "1h"], &format!(": >begun; {WAIT}; exit 3"));
    host.until(job, JobState::Running);
    host.until_made("begun");
    host.crash();
    change(&host, job, |row| {
        earlier(row, 2 * HOUR_US);
        (row.started_us, row.state) = (None, JobState::Queued);
    });
    host.start_daemon();
    host.until(job, JobState::Running);
    host.make("go");
    host.until_exit_code(job, 3);
}

fn frozen_until_the_guard_thawed_it(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = Host::new(kind);
    let job = host.submit(&[], &format!("{WAIT}; exit 3"));
    host.until(job, JobState::Running);
    host.succeeds(["suspend", &job.to_string()]);
    until_frozen(&host, job);
    host.crash();
    let note = host.state().join("thawed");
    let thawed_us: u64 = eventually("the guard thaws it and notes when", || {
        let text = std::fs::read_to_string(&note).map_err(|error| error.to_string())?;
        text.trim().parse::<u64>().map_err(|error| error.to_string())
    });
    // As if it was the scheduler's wish: it runs on then.
    let row = change(&host, job, |row| row.suspended = false);
    let frozen_us =
        thawed_us - row.frozen_since_us.expect("it was frozen as the daemon died") + row.suspended_us;
    host.start_daemon();
    host.until(job, JobState::Running);
    let (counted_s, frozen_s) = (host.report(job).suspended_s, frozen_us as f64 / 1e6);
    assert!((counted_s - frozen_s).abs() < 0.01, "{counted_s} s, and it was {frozen_s} s");
    assert!(!note.exists(), "it is heeded once");
    host.make("go");
    host.until_exit_code(job, 3);
}

/// What a job says of its time counts no less after a restart if earlier ones of its user took longer.
fn a_job_goes_first_no_sooner_than_earlier_ones_allow(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let ran = host.submit(&[], "true");
    host.until_exit_code(ran, 0);
    let first = host.submit(&[], WAIT);
    host.until(first, JobState::Running);
    let job = host.submit(&["--time", "1s"], "true");
    assert_eq!(host.stop(), Some(0));
    // It took half a minute: jobs of its class go first after ten times that.
    change(&host, ran, |row| earlier(row, 30_000_000));
    host.start_daemon();
    let done = host.succeeds(["why", "--json", &job.to_string()]);
    let why: serde_json::Value = serde_json::from_str(&done.out).expect("JSON");
    let left_s = why["figures"]["goes_first_in_s"].as_f64();
    assert!(left_s.is_some_and(|left_s| (100.0..301.0).contains(&left_s)), "{why}");
    host.make("go");
    host.until_exit_code(job, 0);
}

/// By how much the jobs below are made to have waited longer than they did, in microseconds.
const LONGER_US: u64 = 200_000_000;

/// The row of a job, while no daemon runs.
fn row(host: &Host, job: u64) -> JobRow {
    change(host, job, |_| {})
}

/// The figures of `why` that tell for how long a job has waited for its turn, in seconds.
fn waited_s(host: &Host, job: u64) -> Result<[f64; 2], String> {
    let done = host.succeeds(["why", "--json", &job.to_string()]);
    let why: serde_json::Value = serde_json::from_str(&done.out).expect("JSON");
    let figure = |name: &str| why["figures"][name].as_f64().ok_or_else(|| format!("{name}: {why}"));
    // It waits for a day at most, and goes first after ten minutes.
    Ok([86_400.0 - figure("expires_in_s")?, 600.0 - figure("goes_first_in_s")?])
}

/// The time for which a user, a time or other jobs kept a job from its turn does not count as waiting. What it waited since
/// counts, whichever daemon runs.
fn a_wait_goes_on_when_the_daemon_is_restarted(kind: Kind) {
    let begun = Instant::now();
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let waits = |options: &[&str]| host.submit(&[options, &["--ttl", "24h"]].concat(), "true");
    let array = host.submit(&["--array", "0-1"], "until [ -e over ]; do sleep 0.05; done");
    let first = host.submit(&[], WAIT);
    let doomed = waits(&["--hold"]);
    let after = |name: String| waits(&["--after", &name]);
    let followers =
        [format!("{array}"), format!("ok:{array}"), format!("{array}_1"), format!("ok:{array}_[0-1]")];
    let followers = followers.map(after);
    let fails = after(format!("failed:{doomed}"));
    let [released, held] = [(); 2].map(|()| waits(&["--hold"]));
    let [asked, later] = [(); 2].map(|()| waits(&["--begin", "+1h"]));
    let [plain, other] = [(); 2].map(|()| waits(&[]));
    let came = waits(&["--begin", "+300ms"]);
    eventually("its time comes", || waited_s(&host, came));
    let say = |words: &[&str], job: u64| host.succeeds([words, &[&job.to_string()]].concat());
    say(&["hold"], other);
    host.make("over");
    host.until(first, JobState::Running);
    say(&["cancel"], doomed);
    say(&["release"], released);
    say(&["release"], other);
    say(&["set", "--begin", "now"], asked);
    let behind = after(format!("ok:{array},{doomed}"));
    assert_eq!(host.stop(), Some(0));
    // The second member ran before the first job behind the array, and that before what was said to others.
    let [member_us, first_us] = [array + 1, first].map(|job| row(&host, job).started_us.expect("it ran"));
    let begin_us = row(&host, came).spec.terms.begin_us.expect("it had a time");
    let noted = followers.map(|job| (job, (member_us, first_us))).into_iter();
    let noted = noted.chain([fails, released, other, asked, behind].map(|job| (job, (first_us, u64::MAX))));
    let noted =
        noted.chain([(plain, (row(&host, plain).submitted_us, member_us)), (came, (begin_us, member_us))]);
    // Each has waited for longer than its daemon knew.
    let longer = |(job, (from_us, to_us))| {
        let row = change(&host, job, |row| row.waits_since_us = row.waits_since_us.map(|at| at - LONGER_US));
        let noted_us = row.waits_since_us.unwrap_or_else(|| panic!("job {job}: {row:?}")) + LONGER_US;
        assert!((from_us..=to_us).contains(&noted_us), "job {job}: {noted_us}, not {from_us} to {to_us}");
        (job, row.waits_since_us)
    };
    let since: Vec<_> = noted.map(longer).collect();
    restarted_twice(&mut host, begun, &since, held, later);
    host.make("go");
    since.iter().for_each(|(job, _)| assert_eq!(host.until(*job, JobState::Exited).exit_code, Some(0)));
}

/// These jobs of a test that began then have waited since then; one is held, and the time of one comes while no daemon
/// runs.
fn restarted_twice(host: &mut Host, begun: Instant, since: &[(u64, Option<u64>)], held: u64, later: u64) {
    assert_eq!((row(host, held).waits_since_us, row(host, later).waits_since_us), (None, None));
    let came_us = Some(row(host, later).submitted_us + 1);
    change(host, later, |row| row.spec.terms.begin_us = came_us);
    for _ in 0..2 {
        host.start_daemon();
        for (job, _) in since {
            let waited_s = waited_s(host, *job).unwrap_or_else(|error| panic!("job {job}: {error}"));
            // What this test took comes on top.
            let most_s = 200.0 + begun.elapsed().as_secs_f64() + 1.0;
            assert!(
                waited_s.iter().all(|waited_s| (200.0..most_s).contains(waited_s)),
                "job {job}: {waited_s:?}, at most {most_s}"
            );
        }
        assert_eq!(host.stop(), Some(0));
        for (job, since_us) in since.iter().chain([&(held, None), &(later, came_us)]) {
            assert_eq!(row(host, *job).waits_since_us, *since_us, "job {job}");
        }
    }
    host.start_daemon();
}
