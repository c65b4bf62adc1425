//! The leader of a job with several tasks: one process inside the job's container that starts and binds the tasks,
//! forwards signals, waits for all, and ends as the worst of them did.
//!
//! For the daemon the leader is the job's process, so a job of a thousand tasks starts, freezes and ends like a job of
//! one task. When the job is bound to other PUs, the leader sees the change of its own set, plans again and moves its tasks.
//! Owner of state: the processes of the tasks. Absent here: the plan itself, and any message to the daemon.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use pinfold_topo::CpuSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::affinity;
use crate::fork::{self, Side};
use crate::procfs::{Proc, ProcError};
use crate::program::{Program, become_program_now};
use crate::signals::{
    SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, Signals,
    end_self_by,
};

pub use crate::tasks::{TaskPlan, TaskStart};

/// The period of a leader's check that its tasks are still bound as planned.
const LOOK_EVERY_MS: i64 = 500;

/// The signals of the keeper that go on to the tasks.
const PASSED_ON: [i32; 9] = [SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH];

#[derive(Debug)]
struct Task {
    pid: u32,
    cpus: Option<CpuSet>,
    ended: bool,
}

/// The worst end of a task so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Worst {
    /// As in a shell: the exit code, or 128 plus the signal's number.
    status: i32,
    signal: Option<i32>,
}

/// See the module's page.
#[derive(Debug)]
struct Leader<'a> {
    plan: &'a TaskPlan,
    cores: CpuSet,
    tasks: Vec<Task>,
    worst: Worst,
    signals: Signals,
    keeper: i32,
    /// A job in a session of its own gets its signals as a process group.
    passes_on: bool,
}

/// Becomes the tasks of `program`: never returns. `variables` are the job's.
pub(crate) fn become_tasks(program: &Program, variables: &[CString], plan: &TaskPlan) -> ! {
    let cores = affinity::of(0).ok().flatten().unwrap_or_default();
    let starts = match plan.starts(&cores) {
        Ok(starts) => starts,
        Err(why) => give_up(&why, 1),
    };
    if let [only] = starts.as_slice()
        && only.cpus.as_ref().is_none_or(|cpus| *cpus == cores)
    {
        // Wherever the job is bound later, so is its only task.
        become_program_now(program, &merged(variables, &only.variables));
    }
    match start_all(program, variables, plan, cores, starts) {
        Ok(leader) => leader.run(),
        Err(error) => give_up(&format!("the tasks cannot be started: {error}"), 126),
    }
}

fn give_up(why: &str, status: i32) -> ! {
    let _ = rustix::io::write(rustix::stdio::stderr(), format!("pinfold: {why}\n").as_bytes());
    fork::leave(status)
}

fn start_all<'a>(
    program: &Program,
    variables: &[CString],
    plan: &'a TaskPlan,
    cores: CpuSet,
    starts: Vec<TaskStart>,
) -> io::Result<Leader<'a>> {
    let signals = Signals::block(&PASSED_ON)?;
    let keeper = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let passes_on = !program.own_session;
    let tasks = Vec::with_capacity(starts.len());
    let mut leader = Leader { plan, cores, tasks, worst: Worst::default(), signals, keeper, passes_on };
    for (number, start) in starts.into_iter().enumerate() {
        match fork::fork() {
            Ok(Side::Child) => become_task(program, variables, number, &start),
            Ok(Side::Parent(pid)) => leader.tasks.push(Task { pid, cpus: start.cpus, ended: false }),
            Err(error) => {
                leader.send(SIGKILL);
                return Err(error);
            }
        }
    }
    Ok(leader)
}

/// A task's side: never returns.
fn become_task(program: &Program, variables: &[CString], number: usize, start: &TaskStart) -> ! {
    fork::end_with_parent();
    // Only one task can read the job's input; others would take pieces of it.
    if number > 0
        && let Ok(null) = File::open("/dev/null")
    {
        let _ = rustix::stdio::dup2_stdin(&null);
    }
    if let Some(cpus) = &start.cpus
        && let Err(errno) = affinity::set(0, cpus)
    {
        give_up(&format!("task {number} cannot be bound to {cpus}: {errno}"), 126);
    }
    become_program_now(program, &merged(variables, &start.variables))
}

/// The job's variables with the task's own over them.
fn merged(job: &[CString], own: &[(String, String)]) -> Vec<CString> {
    let replaced = |variable: &&CString| {
        let bytes = variable.to_bytes();
        own.iter()
            .any(|(name, _)| bytes.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
    };
    let kept = job.iter().filter(|variable| !replaced(variable)).cloned();
    kept.chain(own.iter().filter_map(|(name, value)| CString::new(format!("{name}={value}")).ok())).collect()
}

impl Leader<'_> {
    fn run(mut self) -> ! {
        let bound = self.tasks.iter().any(|task| task.cpus.is_some());
        let pause = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY_MS * 1_000_000 };
        while self.tasks.iter().any(|task| !task.ended) {
            let ready = poll(
                &mut [PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN)],
                bound.then_some(&pause),
            );
            if ready == Ok(0) {
                self.look();
            }
            while let Some(arrived) = self.signals.next() {
                // Signals of the terminal or the daemon have reached the tasks as well.
                let meant = arrived.signal != SIGCHLD && !arrived.to_group && arrived.by == self.keeper;
                if meant && self.passes_on {
                    self.send(arrived.signal);
                }
            }
            self.reap();
        }
        if let Some(signal) = self.worst.signal {
            // The task has left its core dump; the leader has nothing to add.
            fork::leave_no_core();
            end_self_by(signal);
        }
        fork::leave(self.worst.status)
    }

    fn reap(&mut self) {
        while let Some(reaped) = fork::reap() {
            let Some(task) = self.tasks.iter_mut().find(|task| task.pid == reaped.pid) else { continue };
            task.ended = true;
            let status = reaped.exit_code.unwrap_or_else(|| 128 + reaped.signal.unwrap_or(0));
            self.worst = self.worst.max(Worst { status, signal: reaped.signal });
        }
    }

    fn send(&self, signal: i32) {
        use rustix::process::{Pid, Signal, kill_process};
        for task in self.tasks.iter().filter(|task| !task.ended) {
            let pid = i32::try_from(task.pid).ok().and_then(Pid::from_raw);
            if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Plans again when the job was bound to other PUs, and rebinds tasks after another program undid their binding.
    fn look(&mut self) {
        let Ok(Some(cores)) = affinity::of(0) else { return };
        if cores != self.cores {
            self.cores = cores;
            // Too few PUs for the layout: the tasks share all PUs.
            let starts = self.plan.starts(&self.cores).unwrap_or_default();
            for (number, task) in self.tasks.iter_mut().enumerate() {
                task.cpus = starts.get(number).and_then(|start| start.cpus.clone());
            }
        } else if self.tasks.iter().all(|task| task.ended || !self.undone(task)) {
            return;
        }
        let Ok(proc) = Proc::open(Path::new("/proc")) else { return };
        for task in self.tasks.iter().filter(|task| !task.ended) {
            // An unreadable process is gone or not ours; the next look finds its children.
            let _ = bind_below(&proc, task.pid, task.cpus.as_ref().unwrap_or(&self.cores));
        }
    }

    /// Whether a task may use all of the job's PUs although fewer are planned: a daemon that binds a job process by
    /// process overwrites the bindings of its tasks. A task that bound itself is left alone.
    fn undone(&self, task: &Task) -> bool {
        let planned = task.cpus.as_ref().is_some_and(|cpus| *cpus != self.cores);
        planned && matches!(affinity::of(task.pid), Ok(Some(cpus)) if cpus == self.cores)
    }
}

/// Binds a process and all its descendants to `cpus`, except threads that keep within them already.
fn bind_below(proc: &Proc, pid: u32, cpus: &CpuSet) -> Result<(), ProcError> {
    let mut waiting = vec![pid];
    while let Some(pid) = waiting.pop() {
        for thread in proc.threads(pid)?.unwrap_or_default() {
            if let Ok(Some(now)) = affinity::of(thread)
                && !now.is_subset(cpus)
            {
                let _ = affinity::set(thread, cpus);
            }
        }
        waiting.extend(proc.children(pid)?.unwrap_or_default());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_its_own_variables() {
        let job: Vec<CString> =
            ["A=1", "AB=2", "PINFOLD_TASK_ID=0"].map(|text| CString::new(text).unwrap()).into();
        let own = [("PINFOLD_TASK_ID".to_owned(), "3".to_owned()), ("A".to_owned(), "x".to_owned())];
        let merged: Vec<String> =
            merged(&job, &own).into_iter().map(|text| text.into_string().unwrap()).collect();
        assert_eq!(merged, ["AB=2", "PINFOLD_TASK_ID=3", "A=x"]);
    }

    #[test]
    fn the_highest_status_counts() {
        let by_exit = |status| Worst { status, signal: None };
        let by_signal = |signal| Worst { status: 128 + signal, signal: Some(signal) };
        assert_eq!(by_exit(3).max(by_exit(7)), by_exit(7));
        assert_eq!(by_exit(1).max(by_signal(15)), by_signal(15));
        assert_eq!(by_exit(255).max(by_signal(9)), by_exit(255));
        assert_eq!(by_exit(143).max(by_signal(15)), by_signal(15));
    }
}
