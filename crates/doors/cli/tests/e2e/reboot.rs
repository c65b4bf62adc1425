//! The host is restarted, or keepers are killed: jobs that were submitted come back, in the directory and environment
//! that they were handed over in. A restart is played: all processes of the host are killed, and the state directory is
//! of another boot.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use pinfold_proto::start::Start;
use pinfold_proto::{End, JobState};
use rustix::process::Signal;

use crate::host::{Host, processes_with, send, status_field};
use crate::kind::{Kind, become_nobody, tests};
use crate::users::shared_in;
use crate::wait::eventually;

tests! {
    Best: the_host_is_restarted, a_keeper_killed_in_the_queue_is_replaced,
        a_keeper_told_to_end_in_the_queue_is_replaced, what_was_submitted_comes_back,
        what_comes_back_waits_for_what_it_was_to_wait_for, members_come_back_with_their_array,
        a_damaged_note_of_the_boot_is_no_restart;
    Once: jobs_of_other_users_come_back_as_theirs;
}

/// As a restart of the host leaves it, with a new daemon.
fn restart(host: &mut Host) {
    go_down(host);
    host.start_daemon();
}

/// Nothing runs any more, and the next daemon is of another boot.
pub(crate) fn go_down(host: &mut Host) {
    let socket = host.socket().display().to_string();
    host.crash();
    eventually("all that ran is gone", || {
        // What one of them starts while the others are killed shows at the next look.
        let left = processes_with(&socket);
        let alive = |pid: &u32| status_field(*pid, "State").is_some_and(|state| !state.starts_with('Z'));
        let left: Vec<u32> = left.into_iter().filter(alive).collect();
        left.iter().for_each(|&pid| send(pid, Signal::KILL));
        left.first().map_or(Ok(()), |pid| Err(*pid))
    });
    let boot = host.state().join("boot");
    std::fs::write(boot, "00000000-0000-0000-0000-000000000000\n").expect("a note of another boot");
}

/// Submits a script with a variable of its own and output by the usual rule; gives its number.
fn submit(host: &Host, options: &[&str], script: &str) -> u64 {
    let mut command = host.command(host.programs().join("pinfold"));
    command.env("KEPT", "a  b").arg("submit").args(options).args(["--", "/bin/sh", "-c", script]);
    let done = host.spawn(command).wait();
    assert_eq!(done.code, Some(0), "{done:?}");
    done.out.trim().parse().unwrap_or_else(|_| panic!("a job's number: {done:?}"))
}

/// What another keeper needs in the place of theirs is with the daemon: it is told after a job has its number.
fn are_kept(host: &Host, jobs: &[u64]) {
    let missing = |job: &&u64| !host.state().join(format!("starts/{job}")).exists();
    eventually("their starts are kept", || jobs.iter().find(missing).map_or(Ok(()), |job| Err(*job)));
}

/// All is over: what it was handed over with goes once that is on disk.
fn nothing_is_kept(host: &Host) {
    eventually("nothing is kept of what is over", || {
        let entries = std::fs::read_dir(host.state().join("starts")).expect("a directory");
        let left: Vec<_> = entries.flatten().collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

/// A restart of the host leaves a state directory of another boot, and nothing of what ran.
fn the_host_is_restarted(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let running = host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    host.until(running, JobState::Running);
    // The client that waits for it in the foreground is gone as well.
    let _waits = host.start(["--no-autostart", "run", "--", "/bin/sh", "-c", "exit 0"]);
    let waiting = running + 1;
    host.until(waiting, JobState::Queued);
    let over = host.submit(&["--hold"], "exit 0");
    host.succeeds(["cancel", &over.to_string()]);
    host.until(over, JobState::Exited);
    let boot = host.state().join("boot");
    let this = std::fs::read_to_string(&boot).expect("the daemon noted the boot");
    let shown = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the kernel's name for it");
    assert_eq!(this.trim(), shown.trim());
    // Keepers and jobs: nobody is left to tell how it ended.
    go_down(&mut host);
    host.start_daemon();
    for (job, words) in [(running, "restarted while it ran"), (waiting, "restarted before it started")] {
        let view = host.until(job, JobState::Exited);
        assert_eq!((view.exit_code, view.signal), (None, None), "{view:?}");
        assert!(view.reason.as_deref().is_some_and(|reason| reason.contains(words)), "{view:?}");
    }
    assert!(host.job(over).reason.is_none_or(|reason| !reason.contains("restarted")));
    assert_eq!(std::fs::read_to_string(&boot).expect("noted anew"), this);
    // The next start on the same boot knows that nothing happened.
    let again = host.submit(&[], "exit 4");
    host.until_exit_code(again, 4);
    host.crash();
    host.start_daemon();
    assert!(!host.daemon_said().contains("the host was restarted"), "{}", host.daemon_said());
}

fn what_was_submitted_comes_back(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let script = "echo \"${PINFOLD_RESTARTS:-0} $KEPT $(pwd) ${PINFOLD_KEEPS:-none}\"; : >ran-${PINFOLD_RESTARTS:-0}; \
                  until [ -e go ]; do sleep 0.05; done; exit 6";
    let runs = submit(&host, &["--requeue"], script);
    host.until_made("ran-0");
    let queued = submit(&host, &[], "echo once; exit 5");
    let held = submit(&host, &["--hold"], "exit 7");
    host.until(queued, JobState::Queued);
    are_kept(&host, &[runs, queued, held]);
    let starts = host.state().join("starts");
    let rights = |path: &Path| std::fs::metadata(path).expect("it is kept").mode() & 0o777;
    assert_eq!((rights(&starts), rights(&starts.join(queued.to_string()))), (0o700, 0o600));
    restart(&mut host);
    host.until_made("ran-1");
    assert_eq!(host.until(runs, JobState::Running).job, runs);
    host.until(held, JobState::Held);
    host.make("go");
    host.until_exit_code(runs, 6);
    host.until_exit_code(queued, 5);
    let work = std::fs::canonicalize(host.work(".")).expect("it is there");
    let line = |times: u32| format!("{times} a  b {} none\n", work.display());
    // Behind what the run before had written.
    assert_eq!(host.wrote(&format!("pinfold-{runs}.out")), line(0) + &line(1));
    assert_eq!(host.wrote(&format!("pinfold-{queued}.out")), "once\n");
    let released = host.pinfold(["release", &held.to_string()]);
    assert_eq!(released.code, Some(0), "{released:?}");
    host.until_exit_code(held, 7);
    let report = host.report(runs);
    assert_eq!((report.requeues, report.exit_code), (1, Some(6)), "{report:?}");
    nothing_is_kept(&host);
}

/// Keepers live that asked for their jobs since the host booted: none is to be replaced, and nothing that ran is over.
fn a_damaged_note_of_the_boot_is_no_restart(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let runs = submit(&host, &[], ": >ran; until [ -e go ]; do sleep 0.05; done; exit 6");
    host.until_made("ran");
    let queued = submit(&host, &[], "exit 5");
    are_kept(&host, &[runs, queued]);
    for note in ["", "00000000-0000-0000-0000-000000000000\n"] {
        host.crash();
        std::fs::write(host.state().join("boot"), note).expect("a note");
        host.start_daemon();
        let said = host.daemon_said();
        assert!(
            said.contains("the host was not restarted") && !said.contains("the host was restarted"),
            "{said}"
        );
        host.until(runs, JobState::Running);
    }
    host.make("go");
    host.until_exit_code(runs, 6);
    host.until_exit_code(queued, 5);
}

/// For a time, and for how other jobs end. What ran and is not requeued did not end well.
fn what_comes_back_waits_for_what_it_was_to_wait_for(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let first = submit(&host, &[], ": >ran; until [ -e go ]; do sleep 0.05; done");
    host.until_made("ran");
    let good = submit(&host, &["--after", &format!("ok:{first}")], ": >good");
    let rescue = submit(&host, &["--after", &format!("failed:{first}")], "exit 4");
    let mark = format!(": mark-of-{}", host.instance());
    let late = submit(&host, &["--begin", "2099-01-01"], &format!("{mark}; : >late"));
    host.until(late, JobState::Queued);
    are_kept(&host, &[good, rescue, late]);
    restart(&mut host);
    host.until_exit_code(rescue, 4);
    let view = host.until(good, JobState::Exited);
    assert_eq!((view.end, view.exit_code), (Some(End::Dependency), None), "{view:?}");
    eventually("another keeper waits", || processes_with(&mark).first().map(drop).ok_or("none"));
    // It comes behind that one in the queue, and in the order in which keepers are started.
    let last = submit(&host, &[], "exit 5");
    host.until_exit_code(last, 5);
    eventually("it is said what the late one waits for", || {
        let view = host.job(late);
        assert_eq!(view.state, JobState::Queued, "{view:?}");
        let told = view.reason.as_deref().is_some_and(|reason| reason.contains("2099"));
        if told { Ok(()) } else { Err(format!("{view:?}")) }
    });
    assert!(!host.work("good").exists() && !host.work("late").exists());
}

/// With their indexes, and no more of them at once than before; by one keeper.
fn members_come_back_with_their_array(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=3", "host.cpus=0"]);
    let script = "echo \"$PINFOLD_ARRAY_ID $PINFOLD_ARRAY_INDEX ${PINFOLD_RESTARTS:-0} $KEPT ${PINFOLD_KEEPS:-none}\"; \
                  : >ran-$PINFOLD_ARRAY_INDEX-${PINFOLD_RESTARTS:-0}; \
                  until [ -e go-$PINFOLD_ARRAY_INDEX ]; do sleep 0.05; done; exit $((5 + PINFOLD_ARRAY_INDEX))";
    host.make("go-0");
    let array = submit(&host, &["--requeue", "--array", "0-3%1"], script);
    let member = |index: u64| array + index;
    // The next starts when the first is over.
    host.until_made("ran-1-0");
    eventually("one start is kept for all, though the first is over", || {
        let entries = std::fs::read_dir(host.state().join("starts")).into_iter().flatten().flatten();
        let kept: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        if kept == [array.to_string()] { Ok(()) } else { Err(format!("{kept:?}")) }
    });
    restart(&mut host);
    host.until_made("ran-1-1");
    let last = format!("{array}_3");
    eventually("the last waits for its array", || {
        let why = host.pinfold(["why", &last]);
        if why.out.contains("at most 1 may have started") { Ok(()) } else { Err(format!("{why:?}")) }
    });
    for index in 1..4 {
        host.make(&format!("go-{index}"));
    }
    for (index, code) in [(1, 6), (2, 7), (3, 8)] {
        host.until_exit_code(member(index), code);
    }
    let line = |index: u64, times: u32| format!("{array} {index} {times} a  b none\n");
    let out = |index: u64| host.wrote(&format!("pinfold-{array}_{index}.out"));
    // Behind what the run before had written.
    assert_eq!((out(1), out(3)), (line(1, 0) + &line(1, 1), line(3, 0)));
    nothing_is_kept(&host);
}

fn a_keeper_killed_in_the_queue_is_replaced(kind: Kind) {
    a_keeper_gone_in_the_queue_is_replaced(kind, Signal::KILL);
}

/// As all processes are when a host goes down in order.
fn a_keeper_told_to_end_in_the_queue_is_replaced(kind: Kind) {
    a_keeper_gone_in_the_queue_is_replaced(kind, Signal::TERM);
}

fn a_keeper_gone_in_the_queue_is_replaced(kind: Kind, signal: Signal) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let first = host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    host.until(first, JobState::Running);
    let mark = format!(": mark-of-{}", host.instance());
    // The job has what its submitter had, whoever keeps it.
    let script = format!(
        "{mark}; [ \"$(ionice)\" = \"best-effort: prio 7\" ] && chrt -p $$ | grep -q SCHED_BATCH && exit 5"
    );
    let submit = "exec ionice -c 2 -n 7 chrt --batch 0 pinfold submit -- sh -c";
    let second = host.shell(&format!("{submit} '{script}'")).out.trim().parse().expect("a number");
    host.until(second, JobState::Queued);
    are_kept(&host, &[second]);
    let keepers = || processes_with(&mark);
    let before = keepers();
    assert!(!before.is_empty(), "its keeper waits");
    before.iter().for_each(|&pid| send(pid, signal));
    eventually("another keeper waits", || {
        let now = keepers();
        let fresh = now.iter().any(|pid| !before.contains(pid));
        if fresh { Ok(()) } else { Err(format!("{now:?}")) }
    });
    assert_eq!(host.job(second).state, JobState::Queued);
    host.make("go");
    host.until_exit_code(second, 5);
}

fn jobs_of_other_users_come_back_as_theirs() {
    let mut host = shared_in(Kind::Groups, &["slots.factor=1", "host.cpus=0"]);
    let open = host.work("open");
    std::fs::create_dir(&open).expect("a directory");
    for path in [host.work("."), open.clone()] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).expect("it is ours");
    }
    let first = host.submit(&["--requeue"], "until [ -e go ]; do sleep 0.05; done; exit 6");
    host.until(first, JobState::Running);
    let mut command = host.command(host.programs().join("pinfold"));
    command
        .args([
            "submit",
            "--",
            "/bin/sh",
            "-c",
            "{ id -G; cat /proc/self/oom_score_adj; grep realtime.prio /proc/self/limits; } >told; exit 4",
        ])
        .stdin(Stdio::null())
        .current_dir(&open);
    become_nobody(&mut command);
    let done = host.spawn(command).wait();
    let theirs: u64 = done.out.trim().parse().unwrap_or_else(|_| panic!("{done:?}"));
    host.until(theirs, JobState::Queued);
    are_kept(&host, &[first, theirs]);
    // As a client of theirs could have sent it: spared by the kernel, and with real-time priority.
    let kept = host.state().join(format!("starts/{theirs}"));
    let mut start: Start =
        serde_json::from_str(&std::fs::read_to_string(&kept).expect("it is kept")).expect("a start");
    start.oom_score_adj = -900;
    let own = start.limits.iter_mut().find(|(name, ..)| name == "rtprio").expect("it is told");
    (own.1, own.2) = (Some(50), Some(50));
    std::fs::write(&kept, serde_json::to_string(&start).expect("JSON")).expect("it is ours");
    restart(&mut host);
    host.make("go");
    host.until_exit_code(first, 6);
    host.until_exit_code(theirs, 4);
    let written = std::fs::metadata(open.join("told")).expect("it ran");
    assert_eq!((written.uid(), written.gid()), (65534, 65534));
    let told = std::fs::read_to_string(open.join("told")).expect("it is there");
    let words: Vec<&str> = told.split_whitespace().collect();
    assert_eq!(words, ["65534", "0", "Max", "realtime", "priority", "0", "0"], "{told}");
}
