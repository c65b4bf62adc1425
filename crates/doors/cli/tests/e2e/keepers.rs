//! What a job's keeper has told, or is still to tell, when it or the daemon goes.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pinfold_proto::wire::{Reply, Request, Verb};
use pinfold_proto::{JobSpec, JobState};
use rustix::process::Signal;

use crate::host::{Host, processes_with, send, status_field};
use crate::kind::{Kind, tests};
use crate::process::{Killed, full_pipe};
use crate::site::WAIT;
use crate::wait::eventually;
use crate::wire::{Wire, spec};

tests! {
    Each: an_end_is_not_given_up_while_its_keeper_lives;
    Best: a_job_follows_one_of_which_the_keeper_is_to_tell, jobs_outlast_a_daemon_with_few_files,
        what_brings_a_job_back_is_sent_before_its_number, an_end_that_no_daemon_hears_of_is_noted,
        an_end_of_a_job_that_no_daemon_knows_is_noted, a_keeper_ends_with_its_job_where_the_state_was_removed,
        a_hold_beside_a_stopped_keeper_outlasts_the_daemon,
        a_release_without_a_keeper_outlasts_the_daemon;
}

/// The keeper lives and does not connect again; what it tells in the end is written down.
fn an_end_is_not_given_up_while_its_keeper_lives(kind: Kind) {
    let mut host = Host::new(kind);
    let mark = format!(": mark-of-{}", host.instance());
    let job = host.submit(&[], &format!("{mark}; : >begun; {WAIT}; exit 3"));
    let keeper = keeper(&host, &mark);
    let pids = host.until(job, JobState::Running).pids;
    host.crash();
    send(keeper, Signal::STOP);
    host.make("go");
    until_ended(&pids);
    let start = Instant::now();
    host.start_daemon();
    // Without control groups only its keeper knows which processes are the job's.
    if kind == Kind::Groups {
        host.until(job, JobState::Exited);
        let passed = start.elapsed();
        assert!(passed >= Duration::from_secs(10), "its keeper has 10 s, and had {passed:?}");
    }
    send(keeper, Signal::CONT);
    host.until_exit_code(job, 3);
}

/// Those of a keeper that is stopped are not waited for.
#[track_caller]
fn until_ended(pids: &[u32]) {
    eventually("its processes ended", || {
        let lives = |pid: &&u32| status_field(**pid, "State").is_some_and(|state| !state.starts_with('Z'));
        pids.iter().find(lives).map_or(Ok(()), |pid| Err(*pid))
    });
}

/// The keeper of the job whose script has this in it, once it began.
#[track_caller]
fn keeper(host: &Host, mark: &str) -> u32 {
    // Until then it may have no process yet, or one that has not executed the shell and looks as its keeper does.
    host.until_made("begun");
    waiting_keeper(mark)
}

/// The keeper of the job whose script has this in it.
#[track_caller]
fn waiting_keeper(mark: &str) -> u32 {
    let is_keeper = |pid: &u32| status_field(*pid, "Name").is_some_and(|name| name == "pinfold");
    let keepers: Vec<u32> = processes_with(mark).into_iter().filter(is_keeper).collect();
    assert_eq!(keepers.len(), 1, "{keepers:?}");
    keepers[0]
}

/// A job whose standard error has its usual name, and its keeper.
fn with_usual_files(host: &Host, options: &[&str]) -> u32 {
    let mark = format!(": mark-of-{}", host.instance());
    let script = format!("{mark}; : >begun; echo own >&2; {WAIT}; exit 3");
    let command = ["--", "/bin/sh", "-c", &script];
    host.succeeds([&["--no-autostart", "submit"], options, &command].concat());
    let keeper = keeper(host, &mark);
    host.until(1, JobState::Running);
    keeper
}

#[track_caller]
fn until_noted(host: &Host, file: &str, want: &str) {
    eventually("it is noted", || match host.wrote(file) {
        said if said.lines().count() == 2 && said.starts_with("own\n") && said.contains(want) => Ok(()),
        said => Err(said),
    });
}

/// The daemon is gone for good, and so is the keeper in the end.
fn an_end_that_no_daemon_hears_of_is_noted(kind: Kind) {
    gives_up(Host::new(kind), &[], "pinfold-1.err");
    gives_up(Host::new(kind), &["--array", "7"], "pinfold-1_7.err");
}

fn gives_up(mut host: Host, options: &[&str], file: &str) {
    let keeper = with_usual_files(&host, options);
    host.crash();
    send(keeper, Signal::TERM);
    until_noted(
        &host,
        file,
        &format!(
            "pinfold: job 1 was ended by signal TERM: its keeper was told to end (signal TERM), and no daemon on {} was \
             there to hear of it\n",
            host.socket().display()
        ),
    );
    eventually("it gave up", || match status_field(keeper, "State") {
        Some(state) if !state.starts_with('Z') => Err(state),
        _ => Ok(()),
    });
}

/// As after the purge of the package: no signal tells the keeper to end.
fn a_keeper_ends_with_its_job_where_the_state_was_removed(kind: Kind) {
    let mut host = Host::new(kind);
    let keeper = with_usual_files(&host, &[]);
    host.crash();
    std::fs::remove_dir_all(host.state()).expect("the state is removed");
    host.make("go");
    let why = "its daemon is gone, and the daemon's state directory was removed";
    until_noted(&host, "pinfold-1.err", &format!("pinfold: job 1 ended with exit code 3: {why}\n"));
    eventually("it is done", || match status_field(keeper, "State") {
        Some(state) if !state.starts_with('Z') => Err(state),
        _ => Ok(()),
    });
}

/// There is a daemon again, and its store was lost.
fn an_end_of_a_job_that_no_daemon_knows_is_noted(kind: Kind) {
    let mut host = Host::new(kind);
    let keeper = with_usual_files(&host, &[]);
    host.crash();
    for name in ["pinfold.db", "pinfold.db-wal", "pinfold.db-shm", "spare", "numbers"] {
        let _ = std::fs::remove_file(host.state().join(name));
    }
    host.start_daemon();
    let asked = host.pinfold(["report", "1"]);
    assert_ne!(asked.code, Some(0), "{asked:?}");
    host.make("go");
    let now = format!("the one on {} now does not know it\n", host.socket().display());
    until_noted(
        &host,
        "pinfold-1.err",
        &format!("pinfold: job 1 ended with exit code 3: the daemon that had it is gone, and {now}"),
    );
    eventually("it is done", || match status_field(keeper, "State") {
        Some(state) if !state.starts_with('Z') => Err(state),
        _ => Ok(()),
    });
}

/// Nobody reads the number, and the daemon has what another keeper needs all the same.
fn what_brings_a_job_back_is_sent_before_its_number(kind: Kind) {
    let host = Host::new(kind);
    let (mut reader, writer) = full_pipe();
    let mut command = host.command(host.programs().join("pinfold"));
    command.args(["submit", "--stay", "--hold", "-o", "/dev/null", "-e", "/dev/null", "true"]);
    command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
    let mut keeper = Killed(command.spawn().expect("it starts"));
    drop(command);
    let start = host.state().join("starts/1");
    eventually("its start is kept", || start.exists().then_some(()).ok_or("it is not there"));
    assert!(keeper.0.try_wait().expect("a child").is_none(), "it waits to tell the number");
    let mut said = Vec::new();
    reader.read_to_end(&mut said).expect("the number");
    assert!(said.ends_with(b"1\n"), "and its streams are let go of");
    host.succeeds(["cancel", "1"]);
    host.until(1, JobState::Exited);
    keeper.0.wait().expect("it ends with its job");
}

/// It was ended to be requeued, and its keeper has not told the next daemon of that yet.
fn a_job_follows_one_of_which_the_keeper_is_to_tell(kind: Kind) {
    let mut host = Host::new(kind);
    let mark = format!(": mark-of-{}", host.instance());
    let first = host.submit(&[], &format!("{mark}; echo first >>log; : >begun; {WAIT}"));
    let keeper = keeper(&host, &mark);
    let pids = host.until(first, JobState::Running).pids;
    let second = host.submit(&["--after", &first.to_string()], "echo second >>log");
    send(keeper, Signal::STOP);
    let mut wire = Wire::greeted(&host);
    wire.send(&Request::Control { job: first, verb: Verb::Requeue });
    assert_eq!(wire.hear(), Some(Reply::Done));
    until_ended(&pids);
    host.crash();
    host.start_daemon();
    let why = host.succeeds(["why", &second.to_string()]).out;
    assert!(why.contains(&format!("job {first}")), "{why}");
    host.make("go");
    send(keeper, Signal::CONT);
    host.until_exit_code(second, 0);
    assert_eq!(host.wrote("log"), "first\nfirst\nsecond\n");
    assert_eq!(host.report(first).requeues, 1);
}

/// Its turn came while its keeper was stopped, so that it waits for that one: `why` says so, and a hold counts.
fn a_hold_beside_a_stopped_keeper_outlasts_the_daemon(kind: Kind) {
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let mark = format!(": mark-of-{}", host.instance());
    host.submit(&[], WAIT);
    let job = host.submit(&[], &format!("{mark}; exit 3"));
    let keeper = waiting_keeper(&mark);
    send(keeper, Signal::STOP);
    host.make("go");
    eventually("its turn came", || match host.job(job).reason {
        Some(reason) if reason.contains("stopped") => Ok(()),
        reason => Err(format!("{reason:?}")),
    });
    let name = job.to_string();
    let why = host.succeeds(["why", &name]).out;
    assert!(why.contains("is stopped") && why.contains(&format!("kill -CONT {keeper}")), "{why}");
    host.succeeds(["hold", &name]);
    let why = host.succeeds(["why", &name]).out;
    assert!(why.contains(&format!("pinfold release {job}")), "{why}");
    assert_eq!(host.job(job).state, JobState::Held);
    host.crash();
    host.start_daemon();
    assert_eq!(host.job(job).state, JobState::Held);
    send(keeper, Signal::CONT);
    host.succeeds(["release", &name]);
    host.until_exit_code(job, 3);
}

/// Its keeper is gone before it started, and the daemon may not have another one started.
fn a_release_without_a_keeper_outlasts_the_daemon(kind: Kind) {
    let mut host = Host::without_daemon(kind, &[]);
    host.wrap_daemon(&["/usr/bin/setpriv", "--no-new-privs"]);
    host.start_daemon();
    let mark = format!(": mark-of-{}", host.instance());
    let job = host.submit(&["--hold"], &format!("{mark}; exit 3"));
    let start = host.state().join(format!("starts/{job}"));
    eventually("how it is started is kept", || start.exists().then_some(()).ok_or("it is not there"));
    send(waiting_keeper(&mark), Signal::KILL);
    eventually("it waits for another", || match host.job(job).reason {
        Some(reason) if reason.contains("keeper is gone") => Ok(()),
        reason => Err(format!("{reason:?}")),
    });
    for (word, state) in
        [("release", JobState::Queued), ("hold", JobState::Held), ("release", JobState::Queued)]
    {
        host.succeeds([word, &job.to_string()]);
        assert_eq!(host.job(job).state, state, "{word}");
    }
    host.crash();
    host.start_daemon();
    assert_eq!(host.job(job).state, JobState::Queued);
    host.succeeds(["keepers"]);
    host.until_exit_code(job, 3);
}

/// The next daemon has fewer than there are keepers to be watched: no job is lost for that.
fn jobs_outlast_a_daemon_with_few_files(kind: Kind) {
    const JOBS: usize = 200;
    let mut host = Host::new(kind);
    let mut wire = Wire::greeted(&host);
    let held = Box::new(JobSpec { held: true, ..spec() });
    let submit = Request::Submit { ticket: 7, spec: held, pid: None };
    wire.send_all(&vec![submit; JOBS]);
    for _ in 0..JOBS {
        assert!(matches!(wire.hear(), Some(Reply::Queued { .. })));
    }
    host.crash();
    host.wrap_daemon(&["/bin/sh", "-c", "ulimit -n 100; exec \"$@\"", "sh"]);
    host.start_daemon();
    // Its connection is lost, and this process, which lives, is their keeper.
    let waiting = host.status(&[]).jobs;
    assert!(waiting.len() == JOBS && waiting.iter().all(|job| job.state == JobState::Held), "{waiting:?}");
}
