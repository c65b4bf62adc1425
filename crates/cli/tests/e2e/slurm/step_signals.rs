//! Signals while a step starts its tasks, and what is blocked in those.

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::Signal;

use super::{call, said, script, until};
use crate::host::{Host, send};
use crate::kind::Kind;
use crate::wait::eventually;

/// A step that is told to end before all of its tasks have started ends those that have. Here the second one's output has
/// no reader yet, so that it does not start.
#[test]
fn a_step_that_ends_while_it_starts_leaves_no_task() {
    let host = Host::new(Kind::Rootless);
    let output = host.work("out-1");
    mknodat(CWD, &output, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe with a name");
    Kind::Rootless.give(&output);
    // The step may have more tasks than the job has cores where that number is not known.
    script(
        &host,
        "s.sh",
        "#!/bin/sh\nunset SLURM_CPUS_ON_NODE\nsrun -n 2 -o out-%t sh -c 'test $SLURM_PROCID = 0 || exec sleep 1000\n\
         trap \"echo heard >got; exit 3\" TERM; echo $PPID >step; : >ready; while :; do sleep 0.05; done' 2>told\n\
         echo $? >code\n",
    );
    let job = said(&host, &["sbatch", "--parsable", "-o", "/dev/null", "s.sh"]);
    host.until_made("ready");
    send(host.wrote("step").trim().parse().expect("a process number"), Signal::TERM);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let reader = rustix::fs::open(&output, flags, Mode::empty()).expect("a reader");
    eventually("the first task heard of it", || match std::fs::read_to_string(host.work("got")) {
        Ok(text) if text == "heard\n" => Ok(()),
        other => Err(format!("{other:?}")),
    });
    until(&host, job.trim(), "COMPLETED");
    assert_eq!(host.wrote("code"), "143\n");
    let told = host.wrote("told");
    assert!(told.contains("task 0: Exited with exit code 3"), "{told}");
    assert!(told.contains("task 1: Terminated"), "{told}");
    drop(reader);
}

/// What a step or the parent of a script blocks, to hear of it itself, its tasks and the script do not.
#[test]
fn tasks_hear_all_signals() {
    let host = Host::new(Kind::Rootless);
    let mask = ["grep", "SigBlk", "/proc/self/status"];
    let none = "SigBlk:\t0000000000000000\n";
    for (options, want) in [
        (&["srun"][..], none.to_owned()),
        (&["srun", "-l"], format!("0: {none}")),
        (&["srun", "--cpu-bind=cores"], none.to_owned()),
        (&["srun", "-l", "--cpu-bind=cores"], format!("0: {none}")),
    ] {
        let done = call(&host, &[options, &mask].concat());
        assert_eq!((done.code, done.out), (Some(0), want), "{options:?}: {}", done.err);
    }
    let script = mask.join(" ");
    said(&host, &["sbatch", "--wait", "-t", "10", "--signal=USR1@60", "-o", "mask", "--wrap", &script]);
    assert_eq!(host.wrote("mask"), none);
}
