//! The daemon dies and comes back: every job is known again, ends as it ends, what its user suspended is suspended again,
//! and nothing else stays frozen.

use std::process::Stdio;
use std::time::{Duration, Instant};

use pinfold_profile::store::Store;
use pinfold_proto::row::{Codes, DecisionRow};
use pinfold_proto::view::BatchView;
use pinfold_proto::{Ending, JobState};
use rustix::process::Signal;

use crate::host::{Host, processes_with, send};
use crate::kind::{Kind, tests};
use crate::times::{is_frozen, until_frozen};
use crate::wait::{PATIENCE, eventually, no_rescue, rescue, within};

tests! {
    Each: killed_while_jobs_run_wait_and_are_suspended, ended_while_no_daemon_ran,
        killed_for_good_the_guard_thaws, killed_and_replaced_for_a_moment_the_guard_thaws,
        killed_with_its_guard_rescue_thaws, rescued_before_its_guard_acts_nothing_is_left,
        cancelled_as_the_daemon_died;
    Best: stopped_in_order, killed_again_and_again_under_a_batch, a_client_killed_while_its_job_waits,
        a_client_killed_while_its_job_runs, a_client_and_the_daemon_killed_together,
        what_others_have_is_given_to_nobody, ended_to_be_requeued_as_the_daemon_died,
        asked_to_be_requeued_as_the_daemon_died, one_that_was_started_by_hand_is_waited_for,
        one_whose_state_is_elsewhere_is_replaced_by_none;
}

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";

fn killed_while_jobs_run_wait_and_are_suspended(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = Host::with(kind, &["slots.factor=3", "host.cpus=0"]);
    let foreground = host.start(["--no-autostart", "run", "--", "/bin/sh", "-c", &format!("{WAIT}; exit 3")]);
    host.until(1, JobState::Running);
    let suspended = host.submit(&[], &format!("{WAIT}; exit 4"));
    host.until(suspended, JobState::Running);
    host.succeeds(["suspend", "2"]);
    let frozen = host.until(suspended, JobState::Frozen);
    let third = host.submit(&[], &format!("{WAIT}; exit 5"));
    host.until(third, JobState::Running);
    let waiting = host.start(["--no-autostart", "run", "--primary", "--", "/bin/sh", "-c", "exit 6"]);
    host.until(4, JobState::Queued);
    let held = host.submit(&["--hold"], "exit 7");
    host.crash();
    host.start_daemon();
    for job in [1, 3] {
        host.until(job, JobState::Running);
    }
    host.until(suspended, JobState::Frozen);
    until_suspended_as_asked(&host, suspended, &frozen.pids);
    eventually("the waiting job waits again", || match host.job(4).state {
        JobState::Queued => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(host.job(held).state, JobState::Held);
    host.make("go");
    let done = foreground.wait();
    assert_eq!(done.code, Some(3), "{done:?}");
    waiting.wait().ended_with(6);
    host.succeeds(["release", "5"]);
    let view = host.job(suspended);
    let why = host.pinfold(["why", "2"]).out;
    assert_eq!(view.state, JobState::Frozen, "it stays so: {view:?}\n{why}\n{:?}", frozen.pids);
    host.succeeds(["resume", "2"]);
    for (job, code) in [(1, 3), (2, 4), (3, 5), (4, 6), (5, 7)] {
        host.until_exit_code(job, code);
    }
    assert!(host.report(suspended).suspended_s > 0.0);
}

/// A job is frozen in the kernel, and the daemon says that its user wants it so.
fn until_suspended_as_asked(host: &Host, job: u64, pids: &[u32]) {
    eventually("it is frozen", || if is_frozen(host, pids) { Ok(()) } else { Err("not frozen") });
    let why = host.pinfold(["why", &job.to_string()]).out;
    assert!(why.contains("a user or operator suspended it"), "{why}");
    assert!(why.contains("suspended it before the daemon was restarted"), "{why}");
}

/// A daemon that is stopped leaves its jobs running and thawed, and its successor suspends again what a user had suspended:
/// once more and once more, until that user resumes it; what was resumed stays so.
fn stopped_in_order(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = Host::new(kind);
    let job = host.submit(&[], &format!("{WAIT}; exit 3"));
    host.until(job, JobState::Running);
    host.succeeds(["suspend", "1"]);
    let frozen = host.until(job, JobState::Frozen);
    assert_eq!(host.stop(), Some(0));
    assert!(!host.socket().exists(), "the socket is gone with the daemon");
    assert!(!is_frozen(&host, &frozen.pids));
    // Its shell does; what that waits for comes and goes, and has the smaller number when numbers begin anew.
    let lives = |pid: &u32| crate::host::status_field(*pid, "State").is_some();
    assert!(frozen.pids.iter().any(lives), "it lives");
    host.start_daemon();
    host.until(job, JobState::Frozen);
    until_suspended_as_asked(&host, job, &frozen.pids);
    assert_eq!(host.stop(), Some(0));
    host.start_daemon();
    host.until(job, JobState::Frozen);
    host.succeeds(["resume", "1"]);
    host.until(job, JobState::Running);
    assert_eq!(host.stop(), Some(0));
    host.start_daemon();
    assert_eq!(host.job(job).state, JobState::Running);
    host.make("go");
    host.until_exit_code(job, 3);
}

fn ended_while_no_daemon_ran(kind: Kind) {
    let mut host = Host::new(kind);
    let foreground = host.start(["--no-autostart", "run", "--", "/bin/sh", "-c", &format!("{WAIT}; exit 3")]);
    host.until(1, JobState::Running);
    let detached = host.submit(&[], &format!("{WAIT}; echo ended >ended; kill -KILL $$"));
    host.until(detached, JobState::Running);
    host.crash();
    host.make("go");
    // Nobody is kept waiting for want of a daemon. Keepers may start one themselves only where the socket is
    // theirs by default, and that is checked elsewhere; here it is this test's.
    let done = foreground.wait();
    assert_eq!(done.code, Some(3), "{done:?}");
    host.until_made("ended");
    host.start_daemon();
    host.until_exit_code(1, 3);
    eventually("the signal is known", || match host.until(detached, JobState::Exited).signal {
        Some(9) => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

fn killed_again_and_again_under_a_batch(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=1"]);
    // Five end after each kill: however slow this is beside them, they are not over before the last of it.
    let line = |i: u32| {
        let wait = format!("until [ -e kill-{} ]; do sleep 0.05; done", i / 5);
        format!("echo {i} >>ran; {wait}; sleep 0.1; exit {}\n", i % 5)
    };
    let lines: String = (0..60).map(line).collect();
    host.make("kill-0");
    std::fs::write(host.work("lines"), lines).expect("a file");
    let mut batch = host.start(["--no-autostart", "batch", "--json", "lines"]);
    let mut kills = 0;
    while kills < 20 && batch.runs() {
        // At a different moment each time: as soon as one more job has begun.
        let begun = host.wrote("ran").lines().count();
        within(Duration::from_secs(2), || {
            (host.wrote("ran").lines().count() > begun || !batch.runs()).then_some(())
        });
        host.crash();
        host.start_daemon();
        kills += 1;
        host.make(&format!("kill-{kills}"));
    }
    let done = batch
        .wait_at_most(PATIENCE)
        .unwrap_or_else(|| panic!("it hangs: {}", host.pinfold(["status", "--all", "--json"]).out));
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(kills >= 10, "{kills} kills only");
    let view: BatchView = serde_json::from_str(&done.out).expect("JSON");
    let codes: Vec<_> = view.results.iter().map(|result| result.exit_code).collect();
    assert_eq!(codes, (0..60).map(|i| Some(i % 5)).collect::<Vec<_>>());
    let mut ran: Vec<u32> = host.wrote("ran").lines().map(|line| line.parse().expect("a number")).collect();
    ran.sort_unstable();
    assert_eq!(ran, (0..60).collect::<Vec<u32>>(), "each ran exactly once");
    for (result, want) in view.results.iter().zip(codes) {
        let job = result.job.expect("a number");
        host.until_exit_code(job, want.expect("it ran"));
    }
    assert!(host.status(&[]).jobs.is_empty());
}

fn killed_for_good_the_guard_thaws(kind: Kind) {
    let frozen = no_rescue();
    let mut host = Host::new(kind);
    let mut running =
        host.start(["--no-autostart", "run", "--", "/bin/sh", "-c", &format!(": >started; {WAIT}; exit 5")]);
    host.until_made("started");
    host.succeeds(["suspend", "1"]);
    until_frozen(&host, 1);
    host.make("go");
    assert!(within(Duration::from_millis(200), || (!running.runs()).then_some(())).is_none(), "it is frozen");
    host.crash();
    let done = running.wait();
    assert_eq!(done.code, Some(5), "{done:?}");
    host.start_daemon();
    host.until_exit_code(1, 5);
    suspended_though_the_guard_thawed(&mut host);
    // From here on it rescues: without control groups that thaws the jobs of every daemon.
    drop(frozen);
    let _alone = rescue();
    // One that lives goes on; one that is gone for good leaves nothing.
    let value = rescued(&host, kind);
    let lives = value["alive"].as_array().expect("a list").iter().any(|name| *name == host.instance());
    // Without control groups a daemon leaves no mark.
    assert_eq!(lives, kind == Kind::Groups, "{value}");
    let next = host.submit(&[], "exit 6");
    host.until_exit_code(next, 6);
    host.crash();
    eventually("nothing of it is left in the kernel", || {
        // Its guard may look at the groups for a moment.
        let done = host.pinfold(["rescue"]);
        let left = host.groups();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} {done:?}")) }
    });
    host.start_daemon();
    let again = host.submit(&[], "exit 7");
    host.until_exit_code(again, 7);
}

/// A daemon that comes in time, and ends before it has found its jobs again, leaves them to the guard of the one before it.
fn killed_and_replaced_for_a_moment_the_guard_thaws(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = Host::new(kind);
    let job = host.submit(&[], "until [ -e on ]; do echo >>ticks; sleep 0.05; done; exit 8");
    host.until_made("ticks");
    host.succeeds(["suspend", &job.to_string()]);
    until_frozen(&host, job);
    // What was in the kernel as it was stopped may have come to its end there.
    let mut last = (host.wrote("ticks").len(), Instant::now());
    eventually("it ticks no more", || {
        let now = host.wrote("ticks").len();
        if now > last.0 {
            last = (now, Instant::now());
        }
        if last.1.elapsed() > Duration::from_millis(300) { Ok(()) } else { Err(now) }
    });
    let guard = guard_of(&host);
    let lock = std::fs::File::options().read(true).write(true).open(host.state().join("lock"));
    let lock = lock.expect("the state directory's lock");
    // It does not begin to count before the next daemon is there.
    send(guard, Signal::STOP);
    host.crash();
    lock.lock().expect("as a daemon has it");
    send(guard, Signal::CONT);
    let ticks = host.wrote("ticks").len();
    let goes_on = || (host.wrote("ticks").len() > ticks).then_some(());
    assert!(within(Duration::from_millis(1500), goes_on).is_none(), "it is frozen");
    drop(lock);
    eventually("the guard thaws it", || goes_on().ok_or("frozen"));
    host.start_daemon();
    host.until(job, JobState::Frozen);
    host.make("on");
    host.succeeds(["resume", &job.to_string()]);
    host.until_exit_code(job, 8);
}

/// The guard thaws what nobody could thaw otherwise; the user's wish is on disk all the same.
fn suspended_though_the_guard_thawed(host: &mut Host) {
    let job = host.submit(&[], "until [ -e on ]; do echo >>ticks; sleep 0.05; done; exit 8");
    host.until_made("ticks");
    host.succeeds(["suspend", &job.to_string()]);
    let frozen = host.until(job, JobState::Frozen);
    host.crash();
    let ticks = host.wrote("ticks").len();
    eventually(
        "the guard thaws it",
        || if host.wrote("ticks").len() > ticks { Ok(()) } else { Err("frozen") },
    );
    host.start_daemon();
    host.until(job, JobState::Frozen);
    until_suspended_as_asked(host, job, &frozen.pids);
    host.make("on");
    host.succeeds(["resume", &job.to_string()]);
    host.until_exit_code(job, 8);
}

/// The guards of a host's daemons. They have the daemon's command line, being forked from it.
fn guards(host: &Host) -> Vec<u32> {
    let named = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "pinfold-guard")
    };
    processes_with(&host.socket().display().to_string()).into_iter().filter(named).collect()
}

/// The one beside the daemon, once it bears its own name.
pub(crate) fn guard_of(host: &Host) -> u32 {
    eventually("one guard beside the daemon", || match guards(host).as_slice() {
        [guard] => Ok(*guard),
        found => Err(format!("{found:?}")),
    })
}

/// What a rescue says that let go of all that it may. A user's tells of what root's daemons hold, which are dead at this
/// moment, as other tests have them: it may not write to their groups, nor signal their processes.
fn rescued(host: &Host, kind: Kind) -> serde_json::Value {
    let done = host.pinfold(["rescue", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&done.out).expect("JSON");
    let instance = host.instance();
    let of_root = |said: &str| {
        let denied = said.ends_with("Permission denied (os error 13)") || said.ends_with("may not signal it");
        kind.is_other_user() && denied && !said.contains(&instance)
    };
    let said = value["rescued"].as_array().expect("a list").iter().filter_map(|one| one.as_str());
    let held: Vec<&str> = said.filter(|said| said.contains(": not ")).collect();
    assert!(held.iter().all(|said| of_root(said)), "{done:?}");
    assert_eq!(done.code, Some(i32::from(!held.is_empty())), "{done:?}");
    value
}

fn killed_with_its_guard_rescue_thaws(kind: Kind) {
    let _alone = rescue();
    let mut host = Host::new(kind);
    let mut running =
        host.start(["--no-autostart", "run", "--", "/bin/sh", "-c", &format!(": >started; {WAIT}; exit 5")]);
    host.until_made("started");
    host.succeeds(["suspend", "1"]);
    until_frozen(&host, 1);
    send(guard_of(&host), Signal::KILL);
    host.crash();
    host.make("go");
    assert!(
        within(Duration::from_millis(1500), || (!running.runs()).then_some(())).is_none(),
        "it stays frozen"
    );
    let value = rescued(&host, kind);
    assert_eq!(value["version"], 1);
    assert!(!value["rescued"].as_array().expect("a list").is_empty(), "{value}");
    let done = running.wait();
    assert_eq!(done.code, Some(5), "{done:?}");
    host.start_daemon();
    host.until_exit_code(1, 5);
}

fn rescued_before_its_guard_acts_nothing_is_left(kind: Kind) {
    let _alone = rescue();
    let mut host = Host::new(kind);
    let running =
        host.start(["--no-autostart", "run", "--", "/bin/sh", "-c", &format!(": >started; {WAIT}; exit 5")]);
    host.until_made("started");
    host.succeeds(["suspend", "1"]);
    until_frozen(&host, 1);
    host.make("go");
    host.crash();
    eventually("nothing of it is left in the kernel", || {
        let done = host.pinfold(["rescue"]);
        let left = host.groups();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} {done:?}")) }
    });
    eventually("its guard is gone", || match guards(&host).len() {
        0 => Ok(()),
        left => Err(left),
    });
    assert_eq!(host.groups(), Vec::<std::path::PathBuf>::new(), "the guard makes none");
    host.start_daemon();
    let done = running.wait();
    assert_eq!(done.code, Some(5), "{done:?}");
}

fn a_client_killed_while_its_job_waits(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    host.submit(&[], WAIT);
    host.until(1, JobState::Running);
    let waiting = host.start(["--no-autostart", "run", "--", "/bin/sh", "-c", "echo never >never"]);
    host.until(2, JobState::Queued);
    waiting.signal(Signal::KILL);
    let view = host.until(2, JobState::Exited);
    assert_eq!((view.started_s, view.exit_code), (None, None));
    assert_eq!(view.reason.as_deref(), Some("its client is gone"));
    host.make("go");
    host.until(1, JobState::Exited);
    assert!(!host.work("never").exists());
}

fn a_client_killed_while_its_job_runs(kind: Kind) {
    let host = Host::new(kind);
    let running = host.start([
        "--no-autostart",
        "run",
        "--",
        "/bin/sh",
        "-c",
        &format!(": >started; {WAIT}; echo end >end; exit 5"),
    ]);
    host.until_made("started");
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, None);
    assert_eq!(host.job(1).state, JobState::Running);
    host.make("go");
    let view = host.until(1, JobState::Exited);
    assert!(host.work("end").exists(), "it went on to its end");
    // Nobody was there to see the status, and none is made up.
    assert_eq!((view.exit_code, view.signal), (None, None));
    assert!(view.ended_s.is_some() && view.reason.is_some(), "{view:?}");
    assert_eq!(host.pinfold(["wait", "1"]).code, Some(1));
}

fn a_client_and_the_daemon_killed_together(kind: Kind) {
    let mut host = Host::new(kind);
    let running =
        host.start(["--no-autostart", "run", "--", "/bin/sh", "-c", &format!(": >started; {WAIT}; exit 5")]);
    host.until_made("started");
    host.crash();
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, None);
    host.start_daemon();
    assert_eq!(host.job(1).state, JobState::Running, "its processes are found again");
    host.make("go");
    let view = host.until(1, JobState::Exited);
    assert_eq!((view.exit_code, view.signal), (None, None));
}

/// One job ended while no daemon ran, and nobody is left to tell how. The new daemon sees that before it has found again
/// the job that has the licence which a third one waits for.
fn what_others_have_is_given_to_nobody(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=4", "host.cpus=0", "resources.licence=1"]);
    let waits = host.submit(&["--hold", "--resource", "licence=1"], ": >begun");
    let ends = host.start(["--no-autostart", "run", "--", "/bin/sh", "-c", &WAIT.replace("go", "end")]);
    host.until(2, JobState::Running);
    let has = host.submit(&["--resource", "licence=1"], WAIT);
    host.until(has, JobState::Running);
    host.succeeds(["release", "1"]);
    host.until(waits, JobState::Queued);
    let pids = host.job(2).pids;
    host.crash();
    ends.signal(Signal::KILL);
    assert_eq!(ends.wait().code, None);
    host.make("end");
    eventually("it has ended", || {
        let state = |pid: &u32| crate::host::status_field(*pid, "State");
        let lives = |pid: &&u32| state(pid).is_some_and(|state| !state.starts_with('Z'));
        pids.iter().find(lives).map_or(Ok(()), |pid| Err(*pid))
    });
    host.start_daemon();
    host.until(2, JobState::Exited);
    host.until(has, JobState::Running);
    let view = host.job(waits);
    assert!(view.state == JobState::Queued && !host.work("begun").exists(), "{view:?}");
    host.make("go");
    host.until_exit_code(waits, 0);
}

/// The end of its command is on disk, and what came of its other processes was not seen any more.
fn ended_to_be_requeued_as_the_daemon_died(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let job = host.submit(&["--requeue"], &format!("echo >>begun; {WAIT}; exit 6"));
    eventually("it runs", || host.job(job).pids.first().copied().ok_or("no process"));
    host.until_made("begun");
    let pids = host.job(job).pids;
    host.crash();
    pids.iter().for_each(|&pid| send(pid, Signal::KILL));
    let mut store = Store::open(&host.state()).expect("the daemon's store").store;
    let mut row = store.job(job).expect("it can be read").expect("it is there");
    (row.requeuing, row.requeues) = (true, 1);
    row.ending = Some(Ending { signal: Some(9), ..Ending::default() });
    store.update_job(&row).expect("it can be written");
    drop(store);
    host.start_daemon();
    host.make("go");
    host.until_exit_code(job, 6);
    assert_eq!((host.wrote("begun").lines().count(), host.report(job).requeues), (2, 1));
}

/// It was about to end it.
fn asked_to_be_requeued_as_the_daemon_died(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let job = host.submit(&[], &format!("echo >>begun; {WAIT}; exit 6"));
    host.until_made("begun");
    host.crash();
    let mut store = Store::open(&host.state()).expect("the daemon's store").store;
    let mut row = store.job(job).expect("it can be read").expect("it is there");
    (row.requeuing, row.requeues) = (true, 1);
    store.begin().expect("it can be written");
    store.update_job(&row).expect("it can be written");
    let asked = DecisionRow {
        job,
        time_us: row.submitted_us,
        action: "end it and requeue it".to_owned(),
        reason: "a user or operator asked for it".to_owned(),
        codes: Some(Codes::plain("requeue", "asked")),
    };
    store.add_decision(&asked).expect("it can be written");
    store.commit().expect("it can be written");
    drop(store);
    host.start_daemon();
    eventually("it begins anew", || match host.wrote("begun").lines().count() {
        2 => Ok(()),
        other => Err(other),
    });
    host.make("go");
    host.until_exit_code(job, 6);
    let why = host.pinfold(["why", &job.to_string()]).out;
    assert!(!why.contains("memory could be had"), "nobody was short of any: {why}");
    assert_eq!((host.wrote("begun").lines().count(), host.report(job).requeues), (2, 1));
}

/// It had its 10 seconds to end by itself, and was to be killed then.
fn cancelled_as_the_daemon_died(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let job = host.submit(&[], &format!("trap '' TERM; : >begun; {WAIT}"));
    host.until_made("begun");
    host.succeeds(["cancel", "1"]);
    host.crash();
    host.start_daemon();
    // Its keeper may find the next daemon later than that one finds it ended.
    eventually("it was killed", || {
        let view = host.until(job, JobState::Exited);
        if (view.exit_code, view.signal) == (None, Some(9)) { Ok(()) } else { Err(format!("{view:?}")) }
    });
}

/// The clients of a daemon on a state directory of its own must not start a private one in its place.
fn one_that_was_started_by_hand_is_waited_for(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let first = host.submit(&[], WAIT);
    host.until(first, JobState::Running);
    let waits = host.start(["run", "--", "/bin/sh", "-c", "exit 6"]);
    host.until(2, JobState::Queued);
    host.crash();
    eventually("it says that the daemon stays away", || {
        let said = waits.said("err");
        if said.contains("is still away") { Ok(()) } else { Err(said) }
    });
    assert!(!host.socket().with_extension("state").exists(), "no private daemon took its place");
    host.start_daemon();
    host.until(first, JobState::Running);
    host.until(2, JobState::Queued);
    host.make("go");
    waits.wait().ended_with(6);
    host.until_exit_code(first, 0);
}

/// Neither a command nor a keeper takes a daemon on another state for the one that has the jobs.
fn one_whose_state_is_elsewhere_is_replaced_by_none(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let job = host.submit(&[], &format!("{WAIT}; exit 7"));
    host.until(job, JobState::Running);
    let waits = host.start(["run", "--", "/bin/sh", "-c", "exit 6"]);
    host.until(2, JobState::Queued);
    host.crash();
    let state = host.state().display().to_string();
    for arguments in [&["status"][..], &["submit", "true"], &["--no-autostart", "status"]] {
        let done = host.pinfold(arguments);
        assert_eq!(done.code, Some(4), "{done:?}");
        let start = format!("`pinfoldd --socket {} --state-dir {state}`", host.socket().display());
        assert!(done.err.contains(&start), "{done:?}");
    }
    assert!(!host.socket().with_extension("state").exists(), "no private daemon took its place");
    // Somebody starts one by hand all the same.
    let mut stranger = host.command(host.programs().join("pinfoldd"));
    stranger.args(kind.daemon_options()).arg("--socket").arg(host.socket());
    stranger.arg("--state-dir").arg(host.path("state-2")).stdin(Stdio::null()).stdout(Stdio::null());
    let mut stranger = host.spawn(stranger);
    eventually("the client says whom it met", || {
        let said = waits.said("err");
        if said.contains("another daemon listens on") { Ok(()) } else { Err(said) }
    });
    assert!(stranger.said("err").contains(&state), "{}", stranger.said("err"));
    assert_eq!(host.status(&[]).jobs, [], "nobody gave it a job");
    assert!(stranger.runs(), "{}", stranger.said("err"));
    stranger.signal(Signal::TERM);
    stranger.wait().ended_with(0);
    let done = host.pinfold(["status"]);
    assert!(done.code == Some(4) && done.err.contains(&state), "its end brings the note back: {done:?}");
    host.start_daemon();
    host.until(job, JobState::Running);
    host.until(2, JobState::Queued);
    host.make("go");
    host.until_exit_code(job, 7);
    waits.wait().ended_with(6);
    assert_eq!(host.stop(), Some(0));
    let left = || std::fs::read_dir(host.path(".")).expect("a directory").flatten();
    let noted = left().find(|entry| entry.file_name().to_string_lossy().contains(".daemon"));
    assert!(noted.is_none(), "{noted:?}");
}
