//! The process that `sbatch` starts stays as the job's keeper: what it has of its caller, and what its caller has of it.

use std::process::Stdio;

use pinfold_proto::JobState;
use pinfold_testkit::ignore;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

use super::{said, shell, until};
use crate::host::{Host, processes_with, send, status_field};
use crate::kind::{Kind, tests};
use crate::process::Done;
use crate::relay::Between;
use crate::wait::eventually;

tests! {
    Best: ends_are_heard_of_where_the_caller_ignores_them, nothing_that_the_caller_has_open_is_held,
        signals_that_the_caller_ignores_reach_the_job, a_daemon_that_is_replaced_meanwhile_gets_the_job,
        a_keeper_that_is_killed_before_it_tells_the_number;
    Once: sbatch_returns_with_few_descriptors, sbatch_needs_no_thread;
}

/// A job that waits for the file `go`.
const WAITS: &str = "--wrap 'until [ -e go ]; do sleep 0.05; done'";

/// A shell script below this command, with Slurm's commands on its search path.
fn below(host: &Host, command: &[&str], script: &str) -> Done {
    let mut started = host.command(command[0]);
    started.args(&command[1..]).args(["/bin/sh", "-c", script]).stdin(Stdio::null());
    host.spawn(started).wait()
}

/// The kernel does not keep how a child ended for a process that ignores SIGCHLD, which a program inherits.
fn ends_are_heard_of_where_the_caller_ignores_them(kind: Kind) {
    let host = Host::new(kind);
    let ignoring = ["env", "--ignore-signal=CHLD"];
    if below(&host, &ignoring, "true").code != Some(0) {
        ignore!("this env cannot have a signal ignored");
    }
    // Without a shell in between, which would hear of its own.
    let exec = |program: &str, words: &[&str]| {
        let mut started = host.command(ignoring[0]);
        started.arg(ignoring[1]).arg(host.programs().join(program)).args(words).stdin(Stdio::null());
        host.spawn(started).wait()
    };
    exec("pinfold-slurm", &["sbatch", "-o", "/dev/null", "--wrap", "exit 3"]).ended_with(0);
    until(&host, "1", "FAILED");
    assert_eq!(said(&host, &["sacct", "-X", "-n", "-P", "-o", "ExitCode", "-j", "1"]), "3:0\n");
    exec("pinfold", &["run", "--", "/bin/sh", "-c", "exit 4"]).ended_with(4);
    // What is refused is told in words, which go by the keeper's end.
    let done = exec("pinfold-slurm", &["sbatch", "-c", "1000", "--wrap", "true"]);
    assert!(done.code == Some(1) && done.err.contains("Requested node configuration"), "{done:?}");
}

/// A lock, or a pipe that somebody reads to its end.
fn nothing_that_the_caller_has_open_is_held(kind: Kind) {
    let host = Host::new(kind);
    let done = shell(&host, &format!("(sbatch -o /dev/null {WAITS} 9>&1 >said) | cat"));
    done.ended_with(0);
    assert_eq!(host.wrote("said"), "Submitted batch job 1\n");
    host.until(1, JobState::Running);
    let done = shell(&host, "pinfold submit -o /dev/null -e /dev/null -- sleep 1000 9>&1 >said | cat");
    done.ended_with(0);
    host.make("go");
    until(&host, "1", "COMPLETED");
}

/// As below `nohup`, or in the background of a script: a shell cannot trap what it was started to ignore, and a job is told to
/// end by signals.
fn signals_that_the_caller_ignores_reach_the_job(kind: Kind) {
    let host = Host::new(kind);
    let script = "sbatch -o /dev/null --wrap 'grep SigIgn /proc/self/status >ignored'";
    shell(&host, &format!("trap '' HUP INT QUIT TERM USR1 USR2; {script}")).ended_with(0);
    until(&host, "1", "COMPLETED");
    let text = host.wrote("ignored");
    let mask = text.trim().strip_prefix("SigIgn:").expect("a mask").trim();
    let ignored = u64::from_str_radix(mask, 16).expect("a mask");
    for signal in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2"] {
        let number = pinfold_sys::signals::number(signal).expect("a signal");
        assert_eq!(ignored >> (number - 1) & 1, 0, "{signal}: {text}");
    }
}

/// The daemon goes after it was greeted and before it has the job. Where none is started from here, one that comes back is
/// waited for.
fn a_daemon_that_is_replaced_meanwhile_gets_the_job(kind: Kind) {
    let host = Host::new(kind);
    let between = Between::stand(&host);
    let mut command = host.command(host.programs().join("pinfold-slurm"));
    command.args(["sbatch", "-p", "long", "-o", "/dev/null", "--wrap", "exit 3"]).stdin(Stdio::null());
    command.env("PINFOLD_NO_AUTOSTART", "1");
    let sbatch = host.spawn(command);
    let greeted = between.client();
    let keeper = between.client();
    drop(between);
    drop((greeted, keeper));
    let done = sbatch.wait();
    assert_eq!(
        (done.code, &done.out[..], &done.err[..]),
        (Some(0), "Submitted batch job 1\n", ""),
        "{done:?}"
    );
    until(&host, "1", "FAILED");
    // What was said of it is kept.
    assert_eq!(said(&host, &["squeue", "-t", "all", "-h", "-o", "%P"]), "long\n");
}

/// The daemon has the job, and another keeper starts it, once. It is held, as one that is just about to start has a control
/// group already, and is struck off with its keeper.
fn a_keeper_that_is_killed_before_it_tells_the_number(kind: Kind) {
    let host = Host::new(kind);
    // Where it writes down where the output goes, nobody reads: it comes no further.
    let outputs =
        pinfold_sys::shared::of_host(host.work(".state/pinfold"), "pinfold.db").join("outputs.jsonl");
    let directory = outputs.parent().expect("a directory");
    for path in [host.work(".state"), directory.to_owned()] {
        std::fs::create_dir(&path).expect("a directory");
        kind.give(&path);
    }
    mknodat(CWD, &outputs, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe with a name");
    kind.give(&outputs);
    let mut command = host.command(host.programs().join("pinfold-slurm"));
    command.args(["sbatch", "-H", "-o", "/dev/null", "--wrap", "echo >>ran; exit 3"]).stdin(Stdio::null());
    let sbatch = host.spawn(command);
    let start = host.state().join("starts/1");
    eventually("its start is kept", || start.exists().then_some(()).ok_or("it is not there"));
    let spool = host.work(".state/pinfold/slurm/spool").display().to_string();
    let is_keeper = |pid: &u32| status_field(*pid, "Name").is_some_and(|name| name == "pinfold");
    let keepers: Vec<u32> = processes_with(&spool).into_iter().filter(is_keeper).collect();
    assert_eq!(keepers.len(), 1, "{keepers:?}");
    send(keepers[0], Signal::KILL);
    let done = sbatch.wait();
    assert!(done.code == Some(1) && done.out.is_empty() && done.err.contains("squeue says"), "{done:?}");
    // Its streams are closed before its connection, by which the daemon hears of its end.
    eventually("the keeper has ended", || match status_field(keepers[0], "State") {
        Some(state) if !state.starts_with('Z') => Err(state),
        _ => Ok(()),
    });
    // The job's own process notes its output there, too.
    std::fs::remove_file(&outputs).expect("the pipe");
    host.succeeds(["release", "1"]);
    until(&host, "1", "FAILED");
    assert_eq!(said(&host, &["sacct", "-X", "-n", "-P", "-o", "ExitCode", "-j", "1"]), "3:0\n");
    assert_eq!(host.wrote("ran"), "\n");
}

/// The keeper lets go of its streams, by which sbatch knows that it has said all, with the last descriptor that it may open.
fn sbatch_returns_with_few_descriptors() {
    let host = Host::new(Kind::Rootless);
    for most in 8..20 {
        let done = shell(&host, &format!("ulimit -n {most}; exec pinfold-slurm sbatch -o /dev/null {WAITS}"));
        assert!(done.code.is_some_and(|code| code < 2 || code == 127), "{most}: {done:?}");
    }
    host.make("go");
}

/// Where the user's processes are as many as may be, there is no thread for one of the keeper's streams. The size of its
/// stack refuses it here.
fn sbatch_needs_no_thread() {
    let host = Host::new(Kind::Rootless);
    let done = below(
        &host,
        &["env", "RUST_MIN_STACK=99999999999999"],
        "exec pinfold-slurm sbatch -o /dev/null --wrap 'exit 3'",
    );
    assert_eq!((done.code, &done.out[..]), (Some(0), "Submitted batch job 1\n"), "{done:?}");
    until(&host, "1", "FAILED");
}
