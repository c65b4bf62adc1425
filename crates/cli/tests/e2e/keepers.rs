//! What a job's keeper has told, or is still to tell, when it or the daemon goes.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pinfold_proto::JobState;
use rustix::process::Signal;

use crate::host::{Host, processes_with, send, status_field};
use crate::kind::{Kind, any_kind, each_kind};
use crate::process::{Killed, full_pipe};
use crate::site::WAIT;
use crate::wait::eventually;

each_kind!(an_end_is_not_given_up_while_its_keeper_lives);
any_kind!(what_brings_a_job_back_is_sent_before_its_number);

/// The keeper lives and does not connect again; what it tells in the end is written down.
fn an_end_is_not_given_up_while_its_keeper_lives(kind: Kind) {
    let mut host = Host::new(kind);
    let mark = format!(": mark-of-{}", host.instance());
    let job = host.submit(&[], &format!("{mark}; : >begun; {WAIT}; exit 3"));
    // Until then it may have no process yet, or one that has not executed the shell and looks as its keeper does.
    host.until_made("begun");
    let pids = host.until(job, JobState::Running).pids;
    let is_keeper = |pid: &u32| status_field(*pid, "Name").is_some_and(|name| name == "pinfold");
    let keepers: Vec<u32> = processes_with(&mark).into_iter().filter(is_keeper).collect();
    assert_eq!(keepers.len(), 1, "{keepers:?}");
    host.crash();
    send(keepers[0], Signal::STOP);
    host.make("go");
    eventually("its processes ended", || {
        let lives = |pid: &&u32| status_field(**pid, "State").is_some_and(|state| !state.starts_with('Z'));
        pids.iter().find(lives).map_or(Ok(()), |pid| Err(*pid))
    });
    let start = Instant::now();
    host.start_daemon();
    // Without control groups only its keeper knows which processes are the job's.
    if kind == Kind::Groups {
        host.until(job, JobState::Exited);
        let passed = start.elapsed();
        assert!(passed >= Duration::from_secs(10), "its keeper has 10 s, and had {passed:?}");
    }
    send(keepers[0], Signal::CONT);
    host.until_exit_code(job, 3);
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
