//! What a keeper may say of its jobs, and when: that one runs or ended follows only from a start that the daemon decided.
//! And what a keeper that says nothing may hold, for it is stopped, of another version, or does not care: no slot.

use std::process::Child;

use pinfold_proto::JobClass;
use pinfold_proto::start::Start;
use pinfold_proto::view::StatusView;
use pinfold_proto::wire::{WIRE_VERSION, WIRE_VERSION_OLDEST};
use pinfold_testkit::ignore;

use super::*;
use crate::kind::tests;

tests! {
    Each: what_is_left_of_a_job_does_not_wait;
    Best: nothing_runs_that_was_not_started, nothing_ended_that_was_not_started, what_runs_does_not_wait,
        what_ran_counts_whatever_its_keeper_says, no_group_is_left_of_a_job_that_waits_again,
        a_start_that_is_on_disk_is_believed, an_end_just_as_the_keeper_comes_is_believed,
        an_older_keeper_tells_of_its_jobs_and_no_more, an_end_of_an_earlier_run_is_none_of_the_next,
        no_slot_is_left_to_a_keeper_that_is_refused, no_slot_is_left_to_a_keeper_that_does_not_tell,
        no_slot_is_left_to_a_keeper_that_is_stopped,
        no_slot_is_left_to_one_that_is_stopped_as_the_daemon_dies,
        no_slot_is_left_to_one_whose_job_ended_between_two_daemons,
        no_slot_is_left_to_one_that_does_not_come_back, a_slot_is_not_left_to_one_that_never_answers,
        suspended_jobs_are_no_more_than_a_user_may_have;
}

fn sleeper(user: u32) -> Killed {
    let mut command = Command::new("/bin/sleep");
    command.arg("3600").uid(user).gid(user).stdin(Stdio::null());
    Killed(command.spawn().expect("a process"))
}

/// One that is known by its environment where there are no groups: the process of the first job.
fn first_jobs(host: &Host) -> Killed {
    let mut command = Command::new("/bin/sleep");
    command.arg("3600").uid(ATTACKER).gid(ATTACKER).stdin(Stdio::null());
    command.env("PINFOLD_JOB_ID", "1").env("PINFOLD_INSTANCE", host.instance());
    Killed(command.spawn().expect("a process"))
}

fn end(mut child: Killed) {
    let child: &mut Child = &mut child.0;
    let _ = child.kill();
    let _ = child.wait();
}

/// A connection of the attacker's for this process, which has the rights to start anybody's processes.
fn attackers_connection(host: &Host) -> Wire {
    speak_as(host, ATTACKER, |wire| wire)
}

fn submit(wire: &mut Wire, spec: JobSpec, pid: Option<u32>) -> u64 {
    wire.send(&Request::Submit { ticket: 7, spec: Box::new(spec), pid });
    match wire.hear() {
        Some(Reply::Queued { job, .. }) => job,
        other => panic!("it is queued: {other:?}"),
    }
}

#[track_caller]
fn is_refused(wire: &mut Wire, request: &Request) {
    wire.send(request);
    let reply = wire.hear();
    assert!(matches!(reply, Some(Reply::Error { code: ErrorCode::Refused, .. })), "{request:?}: {reply:?}");
}

/// Past the queue, a drain, and the site's programs.
fn nothing_runs_that_was_not_started(kind: Kind) {
    let mut host = shared(kind, &["slots.factor=4", "access.exclusive=*"]);
    host.succeeds(["drain"]);
    let child = sleeper(ATTACKER);
    let pid = child.0.id();
    let groups = || std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it lives");
    let before = groups();
    let phases = [Phase::Running { pid }, Phase::Ended { ending: Ending::default(), run: None }];
    let mut wire = attackers_connection(&host);
    let exclusive = JobSpec { class: Some(JobClass::Exclusive), ..spec() };
    let held = submit(&mut wire, JobSpec { held: true, ..exclusive.clone() }, None);
    let queued = submit(&mut wire, exclusive, Some(pid));
    let stand = |host: &Host| {
        assert_eq!((host.job(held).state, host.job(queued).state), (JobState::Held, JobState::Queued));
        assert_eq!(groups(), before);
    };
    for job in [held, queued] {
        for phase in phases {
            is_refused(&mut wire, &Request::Attach { job, phase });
            stand(&host);
        }
    }
    // A daemon that comes after believes what is on disk, and no start is.
    host.crash();
    host.start_daemon();
    let mut wire = attackers_connection(&host);
    for job in [held, queued] {
        for phase in phases {
            wire.send(&Request::Attach { job, phase });
            assert_eq!(wire.hear(), Some(Reply::Unknown { job }));
            stand(&host);
        }
        wire.send(&Request::Attach { job, phase: Phase::Waiting { pid: None } });
        assert_eq!(wire.hear(), Some(Reply::Attached { job }), "it is known as what it is");
        stand(&host);
    }
}

/// Each frees its slot for the next one, and is looked at for as long as it is suspended.
fn suspended_jobs_are_no_more_than_a_user_may_have(kind: Kind) {
    let host = shared(kind, &[]);
    let mut wire = attackers_connection(&host);
    let mut children = Vec::new();
    loop {
        let child = sleeper(ATTACKER);
        let job = submit(&mut wire, spec(), Some(child.0.id()));
        assert!(matches!(wire.hear(), Some(Reply::Go { .. })));
        children.push(child);
        wire.send(&Request::Control { job, verb: Verb::Suspend });
        match wire.hear() {
            Some(Reply::Done) => {}
            Some(Reply::Error { code: ErrorCode::Refused, message }) => {
                let most = children.len() - 1;
                assert!(most >= 64 && message.starts_with(&format!("{most} jobs")), "{most}: {message}");
                assert_eq!(host.job(job).state, JobState::Running);
                // Root may.
                host.succeeds(["suspend", &job.to_string()]);
                return;
            }
            other => panic!("an answer to a word to a job, not {other:?}"),
        }
    }
}

fn nothing_ended_that_was_not_started(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let mut wire = attackers_connection(&host);
    let job = submit(&mut wire, JobSpec { held: true, ..spec() }, None);
    let ending = Ending { exit_code: Some(0), rss_peak_bytes: 1 << 50, ..Ending::default() };
    is_refused(&mut wire, &Request::Ended { job, ending });
    wire.send(&Request::Checkpointed { job, error: None });
    assert_eq!(host.job(job).state, JobState::Held);
    wire.send(&Request::Withdraw { job, reason: "it was a try".to_owned() });
    assert!(matches!(wire.hear(), Some(Reply::Recorded { .. })));
    // Nor afterwards.
    wire.send(&Request::Ended { job, ending });
    wire.hear();
    let view = host.until(job, JobState::Exited);
    assert_eq!((view.exit_code, view.signal), (None, None), "{view:?}");
}

/// It would give its slot back, and go on.
fn what_runs_does_not_wait(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let (child, other) = (sleeper(ATTACKER), sleeper(ATTACKER));
    let mut wire = attackers_connection(&host);
    let job = submit(&mut wire, spec(), Some(child.0.id()));
    assert!(matches!(wire.hear(), Some(Reply::Go { .. })));
    for pid in [None, Some(other.0.id())] {
        is_refused(&mut wire, &Request::Attach { job, phase: Phase::Waiting { pid } });
        assert_eq!(host.job(job).pids, [child.0.id()]);
    }
}

/// Nor does what is left of it once its first process has ended: its slot would be another job's as well.
fn what_is_left_of_a_job_does_not_wait(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let (go, left) = (host.work("go"), host.work("left"));
    let script = format!(
        "until [ -e {go} ]; do sleep 0.02; done; sleep 3600 & echo $! >{left}.new; mv {left}.new {left}; \
         until [ -e {end} ]; do sleep 0.02; done",
        go = go.display(),
        left = left.display(),
        end = host.work("end").display()
    );
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script]).uid(ATTACKER).gid(ATTACKER).stdin(Stdio::null());
    command.env("PINFOLD_JOB_ID", "1").env("PINFOLD_INSTANCE", host.instance());
    let mut child = Killed(command.spawn().expect("a process"));
    let mut wire = attackers_connection(&host);
    let job = submit(&mut wire, spec(), Some(child.0.id()));
    assert_eq!(job, 1);
    assert!(matches!(wire.hear(), Some(Reply::Go { .. })));
    host.make("go");
    host.until_made("left");
    let left: u32 = std::fs::read_to_string(&left).expect("it is written").trim().parse().expect("a number");
    // On a busy machine a look may not tell at once whose it is; once it is known, it stays so.
    eventually("it is known", || host.job(job).pids.contains(&left).then_some(()).ok_or(left));
    host.make("end");
    child.0.wait().expect("it ends");
    for _ in 0..2 {
        is_refused(&mut wire, &Request::Attach { job, phase: Phase::Waiting { pid: None } });
    }
    assert_eq!(host.job(job).pids, [left]);
    // Nor is an end that is told again and again taken for another.
    for exit_code in [3, 4, 5] {
        let ending = Ending { exit_code: Some(exit_code), ..Ending::default() };
        wire.send(&Request::Attach { job, phase: Phase::Ended { ending, run: None } });
        assert!(matches!(wire.hear(), Some(Reply::Attached { .. })));
        assert!(matches!(wire.hear(), Some(Reply::Recorded { .. })));
        assert_eq!(host.job(job).exit_code, Some(3));
    }
    let left = rustix::process::Pid::from_raw(left.cast_signed()).expect("a number");
    rustix::process::kill_process(left, rustix::process::Signal::KILL).expect("it is the test's");
}

/// It computed and is over: taken back, or said to wait, it would count as not started, and what it used as nobody's.
fn what_ran_counts_whatever_its_keeper_says(kind: Kind) {
    if kind == Kind::Rootless {
        ignore!("without groups, what a process used is not known once it has ended");
    }
    let host = shared(kind, &["slots.factor=4"]);
    let mut wire = attackers_connection(&host);
    for waits in [false, true] {
        // It forks nothing, so that nothing but its time tells of it.
        let script = "read go; i=0; while [ $i -lt 1000000 ]; do i=$((i + 1)); done";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).uid(ATTACKER).gid(ATTACKER).stdin(Stdio::piped());
        let mut child = Killed(command.spawn().expect("a process"));
        let job = submit(&mut wire, spec(), Some(child.0.id()));
        assert!(matches!(wire.hear(), Some(Reply::Go { .. })));
        drop(child.0.stdin.take().expect("a pipe"));
        child.0.wait().expect("it ends");
        if waits {
            is_refused(&mut wire, &Request::Attach { job, phase: Phase::Waiting { pid: None } });
        }
        wire.send(&Request::Withdraw { job, reason: "it was a try".to_owned() });
        assert!(matches!(wire.hear(), Some(Reply::Recorded { .. })));
        let told = host.job(job);
        assert_eq!((told.state, told.exit_code), (JobState::Exited, None));
        let report = host.report(job);
        assert!(report.started_s.is_some(), "it counts as started");
        let used_s = report.cpu_user_s + report.cpu_system_s;
        assert!(used_s >= 0.1, "{used_s}");
    }
}

/// Its child ended before it became the job, its keeper says so, and is gone: nothing would remove the group but the next
/// daemon.
fn no_group_is_left_of_a_job_that_waits_again(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let child = first_jobs(&host);
    let mut wire = attackers_connection(&host);
    let job = submit(&mut wire, spec(), Some(child.0.id()));
    assert!(matches!(wire.hear(), Some(Reply::Go { .. })));
    end(child);
    wire.send(&Request::Attach { job, phase: Phase::Waiting { pid: None } });
    assert_eq!(wire.hear(), Some(Reply::Attached { job }));
    drop(wire);
    // Groups of the first generation are kept for the next job, under this one's name.
    let is_unified = |group: &PathBuf| group.join("cgroup.events").exists();
    eventually("its group is removed", || {
        host.job_groups().into_iter().find(is_unified).map_or(Ok(()), |left| Err(left.display().to_string()))
    });
}

/// The daemon before died between the word that a job may start and that it did.
fn a_start_that_is_on_disk_is_believed(kind: Kind) {
    let mut host = shared(kind, &["slots.factor=4"]);
    let mut wire = attackers_connection(&host);
    let job = submit(&mut wire, spec(), None);
    assert_eq!(wire.hear(), Some(Reply::Grant { job }));
    host.crash();
    host.start_daemon();
    let child = sleeper(ATTACKER);
    let mut wire = attackers_connection(&host);
    wire.send(&Request::Attach { job, phase: Phase::Running { pid: child.0.id() } });
    assert_eq!(wire.hear(), Some(Reply::Attached { job }));
    assert_eq!(host.until(job, JobState::Running).pids, [child.0.id()]);
    end(child);
    wire.send(&Request::Ended { job, ending: Ending { exit_code: Some(4), ..Ending::default() } });
    host.until_exit_code(job, 4);
}

/// The command ended before the daemon looked at it, and after its keeper said that it runs.
fn an_end_just_as_the_keeper_comes_is_believed(kind: Kind) {
    let mut host = shared(kind, &["slots.factor=4"]);
    let mut wire = attackers_connection(&host);
    let granted = |wire: &mut Wire| {
        let job = submit(wire, spec(), None);
        assert_eq!(wire.hear(), Some(Reply::Grant { job }));
        job
    };
    let (job, never) = (granted(&mut wire), granted(&mut wire));
    host.crash();
    host.start_daemon();
    let child = sleeper(ATTACKER);
    send(child.0.id(), Signal::KILL);
    eventually("it is dead, and nobody has waited for it", || {
        let state = status_field(child.0.id(), "State").unwrap_or_default();
        if state.starts_with('Z') { Ok(()) } else { Err(state) }
    });
    let mut wire = attackers_connection(&host);
    wire.send(&Request::Attach { job, phase: Phase::Running { pid: child.0.id() } });
    assert_eq!(wire.hear(), Some(Reply::Attached { job }));
    wire.send(&Request::Ended { job, ending: Ending { exit_code: Some(4), ..Ending::default() } });
    let reply = wire.hear();
    assert!(matches!(reply, Some(Reply::Recorded { .. })), "{reply:?}");
    host.until_exit_code(job, 4);
    // The start of the other was not carried out, as its keeper says: no end follows from it any more.
    wire.send(&Request::Attach { job: never, phase: Phase::Waiting { pid: None } });
    wire.send(&Request::Ended { job: never, ending: Ending { exit_code: Some(4), ..Ending::default() } });
    let mut said = std::iter::from_fn(|| wire.hear());
    assert!(said.any(|reply| matches!(reply, Reply::Error { code: ErrorCode::Refused, .. })));
    assert_eq!(host.job(never).exit_code, None);
    end(child);
}

fn an_older_keeper_tells_of_its_jobs_and_no_more(kind: Kind) {
    let mut host = shared(kind, &["slots.factor=4"]);
    let child = first_jobs(&host);
    let mut wire = attackers_connection(&host);
    let job = submit(&mut wire, spec(), Some(child.0.id()));
    assert!(matches!(wire.hear(), Some(Reply::Go { .. })));
    let waiting = submit(&mut wire, JobSpec { held: true, ..spec() }, None);
    host.crash();
    host.start_daemon();
    let greeted = |version: u32| {
        let mut wire = speak_as(&host, ATTACKER, |_| Wire::connect(&host));
        wire.send(&Request::Hello { version });
        assert!(matches!(wire.hear(), Some(Reply::Welcome { version: WIRE_VERSION, .. })));
        wire
    };
    const { assert!(WIRE_VERSION_OLDEST < WIRE_VERSION) };
    let mut wire = speak_as(&host, ATTACKER, |_| greeted(WIRE_VERSION_OLDEST));
    wire.send(&Request::Attach { job, phase: Phase::Running { pid: child.0.id() } });
    assert_eq!(wire.hear(), Some(Reply::Attached { job }));
    wire.send(&Request::Attach { job: waiting, phase: Phase::Waiting { pid: None } });
    assert_eq!(wire.hear(), Some(Reply::Attached { job: waiting }));
    wire.send(&Request::Presented);
    end(child);
    wire.send(&Request::Ended { job, ending: Ending { exit_code: Some(4), ..Ending::default() } });
    assert!(matches!(wire.hear(), Some(Reply::Recorded { .. })));
    wire.send(&Request::Withdraw { job: waiting, reason: "enough".to_owned() });
    assert!(matches!(wire.hear(), Some(Reply::Recorded { .. })));
    host.until_exit_code(job, 4);
    // New jobs and questions are for those of the daemon's own version.
    for request in [
        Request::Submit { ticket: 1, spec: Box::new(spec()), pid: None },
        Request::Doctor,
        Request::Control { job, verb: Verb::Resume },
    ] {
        let mut wire = speak_as(&host, ATTACKER, |_| greeted(WIRE_VERSION_OLDEST));
        wire.send(&request);
        let Some(Reply::Error { code: ErrorCode::Failed, message }) = wire.hear() else {
            panic!("a refusal")
        };
        let words =
            format!("the command speaks version {WIRE_VERSION_OLDEST}, the daemon version {WIRE_VERSION}");
        assert!(message.starts_with(&words), "{message}");
        assert_eq!(wire.hear(), None, "and hangs up");
    }
}

/// A daemon ended it to requeue it, began it anew, and died before its keeper heard of either.
fn an_end_of_an_earlier_run_is_none_of_the_next(kind: Kind) {
    let mut host = shared(kind, &["slots.factor=1", "host.cpus=0"]);
    for user in [0, ATTACKER] {
        let mut command = Command::new("/bin/sleep");
        command.arg("3600").uid(user).gid(user).stdin(Stdio::null());
        // Where there are no groups, it is known by its environment.
        let number = if user == 0 { "1" } else { "2" };
        command.env("PINFOLD_JOB_ID", number).env("PINFOLD_INSTANCE", host.instance());
        let mut child = Killed(command.spawn().expect("a process"));
        let mut wire = speak_as(&host, user, |wire| wire);
        let job = submit(&mut wire, JobSpec { requeue: true, ..spec() }, Some(child.0.id()));
        assert!(matches!(wire.hear(), Some(Reply::Go { run: Some(0), .. })));
        // The start of one that has this is on disk before it is carried out.
        let start = Start { directory: "/".to_owned(), ..Start::default() };
        wire.send(&Request::Keep { job, start: Box::new(start) });
        wire.send(&Request::Control { job, verb: Verb::Requeue });
        assert_eq!(wire.hear(), Some(Reply::Done));
        child.0.wait().expect("it is killed");
        let ending = Ending { signal: Some(9), ..Ending::default() };
        wire.send(&Request::Ended { job, ending });
        let begins = |wire: &mut Wire| {
            let mut said = Vec::new();
            loop {
                match wire.hear() {
                    Some(Reply::Grant { .. } | Reply::Go { run: Some(1), .. }) => break,
                    Some(reply @ (Reply::Again { .. } | Reply::Attached { .. })) => said.push(reply),
                    other => panic!("{other:?} after {said:?}"),
                }
            }
            assert!(said.iter().any(|reply| matches!(reply, Reply::Again { .. })), "{said:?}");
        };
        begins(&mut wire);
        host.crash();
        host.start_daemon();
        let mut wire = speak_as(&host, user, |wire| wire);
        wire.send(&Request::Attach { job, phase: Phase::Ended { ending, run: Some(0) } });
        begins(&mut wire);
        assert_eq!(host.report(job).requeues, 1);
        // The end of the next one is its own, also if it is the same.
        host.crash();
        host.start_daemon();
        let mut wire = speak_as(&host, user, |wire| wire);
        wire.send(&Request::Attach { job, phase: Phase::Ended { ending, run: Some(1) } });
        assert_eq!(wire.hear(), Some(Reply::Attached { job }));
        assert!(matches!(wire.hear(), Some(Reply::Recorded { .. })));
        let view = host.until(job, JobState::Exited);
        assert_eq!(view.signal, Some(9), "{view:?}");
    }
}

/// It lives, tries again and again, and is refused each time.
fn no_slot_is_left_to_a_keeper_that_is_refused(kind: Kind) {
    let mut host = shared(kind, &["slots.factor=1", "host.cpus=0"]);
    let child = first_jobs(&host);
    let mut wire = attackers_connection(&host);
    let job = submit(&mut wire, spec(), Some(child.0.id()));
    host.until(job, JobState::Running);
    host.crash();
    host.start_daemon();
    assert_eq!(host.job(job).state, JobState::Running, "it runs on meanwhile");
    end(child);
    let done = run_as(&host, VICTIM, &["run", "--", "/bin/sh", "-c", "exit 3"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    let view = host.job(job);
    assert_eq!((view.state, view.exit_code), (JobState::Exited, None), "{view:?}");
    // What is told late still counts.
    let mut wire = attackers_connection(&host);
    let ending = Ending { exit_code: Some(5), ..Ending::default() };
    wire.send(&Request::Attach { job, phase: Phase::Ended { ending, run: None } });
    assert!(matches!(wire.hear(), Some(Reply::Recorded { .. })));
    host.until_exit_code(job, 5);
}

/// It is connected all the time.
fn no_slot_is_left_to_a_keeper_that_does_not_tell(kind: Kind) {
    let host = shared(kind, &["slots.factor=1", "host.cpus=0"]);
    let child = sleeper(ATTACKER);
    let mut wire = attackers_connection(&host);
    let job = submit(&mut wire, spec(), Some(child.0.id()));
    host.until(job, JobState::Running);
    end(child);
    serves(&host);
    let ending = Ending { exit_code: Some(5), ..Ending::default() };
    wire.send(&Request::Ended { job, ending });
    host.until_exit_code(job, 5);
}

/// By Ctrl-Z, while it waits: the slot goes to the next, and it starts when it goes on.
fn no_slot_is_left_to_a_keeper_that_is_stopped(kind: Kind) {
    let host = shared(kind, &["slots.factor=1", "host.cpus=0"]);
    for user in [0, ATTACKER] {
        let run = |script: &str| host.spawn(command_as(&host, user, &["run", "--", "/bin/sh", "-c", script]));
        let _ = std::fs::remove_file(host.work("go"));
        let known = || {
            let done = host.pinfold(["status", "--all", "--json"]);
            let view: StatusView = serde_json::from_str(&done.out).expect("status is JSON");
            view.jobs.len()
        };
        // Those of the round before are known as well.
        let before = known();
        let queued = |count: usize| {
            eventually(&format!("{count} jobs are there beside {before} of before"), || {
                let jobs = known();
                if jobs >= before + count { Ok(()) } else { Err(jobs) }
            });
        };
        let first = run(WAIT);
        queued(1);
        let second = run("exit 4");
        queued(2);
        second.signal(Signal::STOP);
        eventually("it is stopped", || {
            let state = status_field(second.pid(), "State").expect("it lives");
            if state.starts_with('T') { Ok(()) } else { Err(state) }
        });
        host.make("go");
        first.wait().ended_with(0);
        let done = run("exit 3").wait();
        assert_eq!(done.code, Some(3), "{done:?}");
        second.signal(Signal::CONT);
        let done = second.wait();
        assert_eq!(done.code, Some(4), "it lost its turn and no more: {done:?}");
    }
}

/// It goes on when the next daemon has long been there.
fn no_slot_is_left_to_one_that_is_stopped_as_the_daemon_dies(kind: Kind) {
    let mut host = shared(kind, &["slots.factor=1", "host.cpus=0"]);
    let script = |script: &str| host.spawn(command_as(&host, 0, &["run", "--", "/bin/sh", "-c", script]));
    let first = script(WAIT);
    host.until(1, JobState::Running);
    let second = script("exit 4");
    host.until(2, JobState::Queued);
    second.signal(Signal::STOP);
    eventually("it is stopped", || {
        let state = status_field(second.pid(), "State").expect("it lives");
        if state.starts_with('T') { Ok(()) } else { Err(state) }
    });
    host.crash();
    host.start_daemon();
    host.make("go");
    first.wait().ended_with(0);
    let done = run_as(&host, VICTIM, &["run", "--", "/bin/sh", "-c", "exit 3"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    second.signal(Signal::CONT);
    let done = second.wait();
    assert_eq!(done.code, Some(4), "it lost its turn and no more: {done:?}");
}

/// Its command ended while no daemon was there, and it is stopped when the next one is.
fn no_slot_is_left_to_one_whose_job_ended_between_two_daemons(kind: Kind) {
    let mut host = shared(kind, &["slots.factor=1", "host.cpus=0"]);
    let script = format!("echo $$ >pid; {WAIT}");
    let first = host.spawn(command_as(&host, 0, &["run", "--", "/bin/sh", "-c", &script]));
    host.until(1, JobState::Running);
    let is_in = |pid: u32, wanted: char| {
        let state = status_field(pid, "State").unwrap_or_else(|| "X".to_owned());
        if state.starts_with([wanted, 'X']) { Ok(()) } else { Err(state) }
    };
    let command = eventually("it says which it is", || host.wrote("pid").trim().parse::<u32>());
    first.signal(Signal::STOP);
    eventually("its keeper is stopped", || is_in(first.pid(), 'T'));
    host.crash();
    host.make("go");
    eventually("its command has ended", || is_in(command, 'Z'));
    host.start_daemon();
    let done = run_as(&host, VICTIM, &["run", "--", "/bin/sh", "-c", "exit 3"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    first.signal(Signal::CONT);
    first.wait().ended_with(0);
    host.until_exit_code(1, 0);
}

/// It lives, and says nothing to the daemon that came after. That its job runs is believed all the same: it was told to
/// start by a daemon that died.
fn no_slot_is_left_to_one_that_does_not_come_back(kind: Kind) {
    let mut host = shared(kind, &["slots.factor=1", "host.cpus=0"]);
    let mut wire = attackers_connection(&host);
    let told = submit(&mut wire, spec(), None);
    assert_eq!(wire.hear(), Some(Reply::Grant { job: told }));
    let waits = submit(&mut wire, spec(), None);
    host.crash();
    host.start_daemon();
    serves(&host);
    for job in [told, waits] {
        let why = host.pinfold(["why", &job.to_string()]).out;
        assert!(why.contains("its keeper did not come back"), "{why}");
    }
    host.crash();
    host.start_daemon();
    let mut wire = attackers_connection(&host);
    let child = sleeper(ATTACKER);
    wire.send(&Request::Attach { job: told, phase: Phase::Running { pid: child.0.id() } });
    assert_eq!(wire.hear(), Some(Reply::Attached { job: told }));
    assert_eq!(host.until(told, JobState::Running).pids, [child.0.id()]);
    wire.send(&Request::Attach { job: waits, phase: Phase::Waiting { pid: None } });
    assert_eq!(wire.hear(), Some(Reply::Attached { job: waits }));
    end(child);
    wire.send(&Request::Ended { job: told, ending: Ending { exit_code: Some(4), ..Ending::default() } });
    let mut said = std::iter::from_fn(|| wire.hear());
    assert!(said.any(|reply| reply == Reply::Grant { job: waits }), "it starts once its keeper is there");
}

fn a_slot_is_not_left_to_one_that_never_answers(kind: Kind) {
    let host = shared(kind, &["slots.factor=1", "host.cpus=0"]);
    let mut wire = attackers_connection(&host);
    let job = submit(&mut wire, spec(), None);
    assert_eq!(wire.hear(), Some(Reply::Grant { job }));
    serves(&host);
    let view = host.job(job);
    assert_eq!(view.state, JobState::Queued, "{view:?}");
    // Nor does one that lets it go again by hand have it before its keeper speaks.
    wire.send(&Request::Control { job, verb: Verb::Release });
    assert_eq!(wire.hear(), Some(Reply::Done));
    serves(&host);
    let child = sleeper(ATTACKER);
    wire.send(&Request::Child { job, pid: child.0.id() });
    assert!(matches!(wire.hear(), Some(Reply::Go { .. })));
    assert_eq!(host.until(job, JobState::Running).pids, [child.0.id()]);
}

pub(crate) mod starts {
    //! What users leave for the next daemon: no amount of it keeps a job of anybody's from coming back.

    use std::time::{Duration, Instant};

    use pinfold_proto::start::{START_MAX_BYTES, Start};

    use super::super::*;

    tests! {
        Best: many_large_ones_come_back, more_than_a_user_may_have;
    }

    /// How many jobs wait, each with a start as long as may be: several times what one answer holds.
    const MANY: u64 = 120;

    /// A keeper may take so long to come before its job is told of again.
    const AGAIN: Duration = Duration::from_secs(20);

    fn held() -> JobSpec {
        JobSpec { held: true, ..spec() }
    }

    /// A start as long as the command keeps, of a program that is there; no variable may be longer than 128 KiB.
    fn largest() -> Start {
        let word = |bytes: usize| "x".repeat(bytes);
        Start {
            words: vec!["pinfold".to_owned(), "submit".to_owned(), "true".to_owned()],
            environment: vec![format!("A={}", word(START_MAX_BYTES - 400))],
            directory: "/".to_owned(),
            umask: 0o22,
            ..Start::default()
        }
    }

    /// Jobs that wait, with their starts.
    fn left(wire: &mut Wire, count: u64, start: &Start) -> Vec<u64> {
        let mut jobs = Vec::new();
        for ticket in 0..count {
            wire.send(&Request::Submit { ticket, spec: Box::new(held()), pid: None });
            let Some(Reply::Queued { job, .. }) = wire.hear() else { panic!("it is queued") };
            wire.send(&Request::Keep { job, start: Box::new(start.clone()) });
            jobs.push(job);
        }
        wire.send(&Request::Where);
        assert!(matches!(wire.hear(), Some(Reply::Where { .. })));
        jobs
    }

    /// The jobs of all answers until there is nothing new, and how many answers that took.
    fn told(wire: &mut Wire) -> (Vec<u64>, usize) {
        let (mut jobs, mut answers, begun) = (Vec::<u64>::new(), 0, Instant::now());
        loop {
            wire.send(&Request::Starts);
            let starts = match wire.hear() {
                Some(Reply::Starts(starts)) => starts,
                other => panic!("starts, not {other:?}"),
            };
            let named = starts.iter().map(|one| one.job);
            let new: Vec<u64> = named.filter(|job| !jobs.contains(job)).collect();
            assert!(new.len() == starts.len() || begun.elapsed() >= AGAIN, "each once: {jobs:?}, {new:?}");
            if new.is_empty() {
                return (jobs, answers);
            }
            jobs.extend(new);
            answers += 1;
        }
    }

    /// The daemon learns of the end of one connection after the other.
    fn until_all_wait_for_a_keeper(host: &Host, count: usize) {
        eventually("all wait for a keeper", || {
            let jobs = host.status(&[]).jobs;
            let waits = |reason: &String| reason.contains("it waits for another");
            let other = jobs.iter().find(|job| !job.reason.as_ref().is_some_and(waits));
            if jobs.len() == count && other.is_none() {
                return Ok(());
            }
            Err(format!("{} jobs, among them {other:?}", jobs.len()))
        });
    }

    /// Without rights to start keepers itself, the daemon leaves that to clients that ask it what waits.
    fn many_large_ones_come_back(kind: Kind) {
        if !Path::new("/usr/bin/setpriv").exists() {
            ignore!("no setpriv here");
        }
        let mut host = shared(kind, &[]);
        host.crash();
        host.wrap_daemon(&["/usr/bin/setpriv", "--no-new-privs"]);
        host.start_daemon();
        let mut wire = Wire::greeted(&host);
        let (attackers, connection) =
            speak_as(&host, ATTACKER, |mut wire| (left(&mut wire, MANY, &largest()), wire));
        let roots = left(&mut wire, 1, &Start { directory: "/".to_owned(), ..largest() });
        drop((connection, wire));
        until_all_wait_for_a_keeper(&host, attackers.len() + roots.len());
        let (jobs, answers) = told(&mut Wire::greeted(&host));
        assert!(jobs.iter().take(2).any(|job| roots.contains(job)), "users take turns: {jobs:?}");
        let mut all = jobs.clone();
        all.sort_unstable();
        assert_eq!(all, [attackers, roots].concat());
        assert!(answers >= 3, "{answers} answers for {} jobs", all.len());
    }

    /// Beyond what a user's starts may take, a job is not kept, and says so.
    fn more_than_a_user_may_have(kind: Kind) {
        let host = shared(kind, &["access.max_jobs_size=1MiB"]);
        let (jobs, mut wire) =
            speak_as(&host, ATTACKER, |mut wire| (left(&mut wire, MANY * 2, &largest()), wire));
        let kept = || std::fs::read_dir(host.state().join("starts")).expect("it is there").count();
        let most = (16 << 20) / START_MAX_BYTES;
        assert!((most - 8..=most + 8).contains(&kept()), "{} are kept", kept());
        wire.send(&Request::Why { job: jobs[jobs.len() - 1], at_us: None });
        match wire.hear() {
            Some(Reply::Why(view)) => {
                let said = format!("{view:?}");
                assert!(said.contains("will not come back if the host is restarted"), "{said}");
            }
            other => panic!("why, not {other:?}"),
        }
    }
}
