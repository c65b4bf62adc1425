//! Processes that outlive their job's command or keeper: the job is over with the last of them, however seldom jobs are
//! sampled.

use pinfold_proto::JobState;
use pinfold_proto::view::JobView;
use rustix::process::Signal;

use crate::host::{Host, send};
use crate::kind::{Kind, tests};
use crate::site::WAIT;
use crate::wait::{eventually, looked_at, no_rescue};

tests! {
    Each: a_job_is_over_with_its_last_process, a_cancelled_job_is_over_with_its_last_process,
        a_job_whose_keeper_died_is_over_with_its_last_process,
        a_job_found_by_the_next_daemon_is_over_with_its_last_process,
        adopted_processes_are_over_with_the_last_of_them;
}

/// No sample comes to help.
const SELDOM: &str = "profile.interval=1h";

/// It is not over, though it is known how its command ended.
#[track_caller]
fn until_it_lingers(host: &Host, job: u64, ended: impl Fn(&JobView) -> bool) {
    eventually("its command's end is known, and the job is not over", || {
        let view = host.job(job);
        if view.state != JobState::Exited && ended(&view) { Ok(()) } else { Err(format!("{view:?}")) }
    });
}

/// How its command ended is known, whatever became of its keeper since.
fn lives_on(view: &JobView) -> bool {
    let why = view.reason.as_deref();
    let told = why == Some("its command ended with exit code 3; processes that it started live on");
    view.exit_code == Some(3) && told
}

fn a_job_is_over_with_its_last_process(kind: Kind) {
    let host = Host::with(kind, &[SELDOM]);
    let job = host.submit(&[], &format!("({WAIT}) & exit 3"));
    until_it_lingers(&host, job, lives_on);
    host.make("go");
    host.until_exit_code(job, 3);
}

fn a_cancelled_job_is_over_with_its_last_process(kind: Kind) {
    let _signalled = no_rescue();
    let host = Host::with(kind, &[SELDOM]);
    let job = host.submit(&[], &format!("(trap '' TERM; : >deaf; {WAIT}) & wait"));
    host.until_made("deaf");
    host.succeeds(["cancel", &job.to_string()]);
    until_it_lingers(&host, job, |view| view.signal == Some(15));
    host.make("go");
    host.until(job, JobState::Exited);
}

fn a_job_whose_keeper_died_is_over_with_its_last_process(kind: Kind) {
    let host = Host::with(kind, &[SELDOM]);
    let keeper = host.start(["run", "--", "/bin/sh", "-c", &format!(": >started; {WAIT}")]);
    host.until_made("started");
    send(keeper.pid(), Signal::KILL);
    keeper.wait();
    // By its connection or by its process, whichever is heard of first.
    let killed = |view: &JobView| {
        view.reason
            .as_deref()
            .is_some_and(|reason| reason.contains("its keeper") || reason.contains("its client"))
    };
    until_it_lingers(&host, 1, killed);
    host.make("go");
    host.until(1, JobState::Exited);
}

/// Its command's end was heard by the daemon before.
fn a_job_found_by_the_next_daemon_is_over_with_its_last_process(kind: Kind) {
    let mut host = Host::with(kind, &[SELDOM]);
    let job = host.submit(&[], &format!("({WAIT}) & exit 3"));
    until_it_lingers(&host, job, lives_on);
    host.crash();
    host.start_daemon();
    until_it_lingers(&host, job, |view| view.exit_code == Some(3));
    host.make("go");
    host.until_exit_code(job, 3);
}

fn adopted_processes_are_over_with_the_last_of_them(kind: Kind) {
    let host = Host::with(kind, &[SELDOM]);
    let mut command = host.command("/bin/sh");
    command.args(["-c", &format!("({WAIT}) & : >started; until [ -e first ]; do sleep 0.05; done")]);
    let outside = host.spawn(command);
    host.until_made("started");
    let done = looked_at(|| host.pinfold(["adopt", "--pid", &outside.pid().to_string()]));
    assert_eq!(done.code, Some(0), "{done:?}");
    host.make("first");
    outside.wait();
    assert_ne!(host.job(1).state, JobState::Exited, "one of its processes lives");
    host.make("go");
    host.until(1, JobState::Exited);
}
