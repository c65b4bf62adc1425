//! Signals while a step starts its tasks, and what is blocked in those.

use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

use super::{call, said, script, shell, until};
use crate::host::{Host, send};
use crate::kind::{Kind, tests};
use crate::wait::eventually;

/// A FIFO in the directory where commands run.
fn fifo(host: &Host, name: &str) {
    let path = host.work(name);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe with a name");
    Kind::Rootless.give(&path);
}

/// The process that a script wrote down.
fn process(host: &Host, name: &str) -> u32 {
    host.wrote(name).trim().parse().expect("a process number")
}

/// A step that is told to end before all of its tasks have their files ends those that have. Here nobody ever reads
/// what the second one writes.
fn a_step_that_ends_while_it_starts_leaves_no_task() {
    let host = Host::new(Kind::Rootless);
    fifo(&host, "out-1");
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
    // Both have started by the time at which the step reads its signals.
    send(process(&host, "step"), Signal::TERM);
    until(&host, job.trim(), "COMPLETED");
    assert_eq!((host.wrote("got"), host.wrote("code")), ("heard\n".to_owned(), "143\n".to_owned()));
    let told = host.wrote("told");
    assert!(told.contains("task 0: Exited with exit code 3"), "{told}");
    assert!(told.contains("task 1: Terminated"), "{told}");
}

/// Also where it is the only one; `scancel` finds such a step.
fn a_step_whose_files_have_no_other_end_is_ended() {
    let host = Host::new(Kind::Rootless);
    fifo(&host, "in");
    script(&host, "s.sh", "#!/bin/sh\nsrun -i in cat 2>told\necho $? >code\n");
    let job = said(&host, &["sbatch", "--parsable", "-o", "/dev/null", "s.sh"]);
    let step = format!("{}.0", job.trim());
    // Until the step is there, there is nothing to cancel.
    eventually("the step is cancelled", || match call(&host, &["scancel", &step]) {
        done if done.code == Some(0) => Ok(()),
        done => Err(format!("{done:?}")),
    });
    until(&host, job.trim(), "COMPLETED");
    assert_eq!(host.wrote("code"), "143\n");
    assert!(host.wrote("told").contains("task 0: Terminated"), "{}", host.wrote("told"));
}

/// Each task has its own, of whatever kind and however it is started, and none waits for another's.
fn tasks_read_and_write_fifos() {
    let host = Host::new(Kind::Rootless);
    ["in-0", "in-1", "out-0", "out-1", "bound", "both"].into_iter().for_each(|name| fifo(&host, name));
    script(
        &host,
        "s.sh",
        "#!/bin/sh\nunset SLURM_CPUS_ON_NODE\n\
         srun -n 2 -i in-%t -o out-%t -e err-%t sh -c 'read line; echo \"$SLURM_PROCID $line\"; echo err >&2' &\n\
         cat out-1 >got-1 &\necho one >in-1\nwait $!\ncat out-0 >got-0 &\necho two >in-0\nwait\n\
         cat bound >got-bound &\nsrun --cpu-bind=cores -o bound echo bound\nwait\n\
         cat both >got-both &\nsrun -o both -e both sh -c 'echo out; echo err >&2'\nwait\n\
         srun -o both none-such & cat both\nwait $!\necho $? >code\n",
    );
    let job = said(&host, &["sbatch", "--parsable", "-o", "/dev/null", "s.sh"]);
    until(&host, job.trim(), "COMPLETED");
    let got =
        ["got-0", "got-1", "err-0", "err-1", "got-bound", "got-both", "code"].map(|name| host.wrote(name));
    assert_eq!(got, ["0 two\n", "1 one\n", "err\n", "err\n", "bound\n", "out\nerr\n", "127\n"]);
}

/// Where a later task cannot be started, the step ends after those that could be; here they do not mind being told.
fn a_step_that_cannot_start_ends_with_its_tasks() {
    let host = Host::new(Kind::Rootless);
    let step = "trap '' TERM; unset SLURM_CPUS_ON_NODE; mkdir out-1; srun -n 2 -o out-%t sleep 1000";
    let done = shell(&host, &format!("srun sh -c '{}'", step.replace('\'', "'\\''")));
    assert_eq!(done.code, Some(53), "{done:?}");
    assert!(done.err.contains("out-1") && done.err.contains("task 0: Killed"), "{done:?}");
}

/// What a task leaves behind may have its output open without end: the step waits for that, and can be ended still.
fn a_step_that_reads_what_is_left_of_a_task_is_ended() {
    let host = Host::new(Kind::Rootless);
    script(
        &host,
        "s.sh",
        "#!/bin/sh\nsrun -l sh -c 'sleep 1000 & echo $! >left; echo $PPID >step; echo $$ >task'\n\
         echo $? >code\nkill $(cat left)\n",
    );
    let job = said(&host, &["sbatch", "--parsable", "-o", "/dev/null", "s.sh"]);
    eventually("the task is over", || match host.wrote("task").trim() {
        "" => Err("not begun".to_owned()),
        task if Path::new("/proc").join(task).exists() => Err(format!("{task} is there")),
        _ => Ok(()),
    });
    send(process(&host, "step"), Signal::TERM);
    until(&host, job.trim(), "COMPLETED");
    assert_eq!(host.wrote("code"), "143\n");
}

/// What a step or the parent of a script blocks, to hear of it itself, its tasks and the script do not.
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

tests! {
    Once: a_step_that_ends_while_it_starts_leaves_no_task, a_step_whose_files_have_no_other_end_is_ended,
        tasks_read_and_write_fifos, a_step_that_cannot_start_ends_with_its_tasks,
        a_step_that_reads_what_is_left_of_a_task_is_ended, tasks_hear_all_signals;
}
