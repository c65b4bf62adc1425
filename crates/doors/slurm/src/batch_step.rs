//! The parent of a job's script or command with `--signal`. pinfold announces the time limit to the job by SIGURG,
//! which programs ignore by default; this process sends the requested signal to the script's shell (`B:`), or to the
//! job's steps.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pinfold_sys::procfs::Proc;
use pinfold_sys::signals::{self, Signals};
use pinfold_sys::spawn;

use crate::home::Label;
use crate::trouble::{Trouble, failed_to_execute};
use crate::warning::Warning;

/// The signal by which pinfold announces the time limit to a job.
pub(crate) const TOLD: &str = "URG";

/// Value sent to a step with SIGTERM: surviving tasks are killed later.
pub(crate) const KILL_FOLLOWS: u32 = 0x6b69_6c6c;

/// Time between termination and kill of a cancelled job, as in the daemon.
pub(crate) const KILL_WAIT: Duration = Duration::from_secs(10);

/// Signals that end a process by default and that the script handles: the end of a job sends them to all its
/// processes.
const TAKEN: &[&str] = &["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM", "CHLD", TOLD];

/// Runs the script to its end, and ends with the same status.
///
/// # Errors
/// When the script cannot be started.
pub(crate) fn attend(
    mut command: Command,
    program: &Path,
    label: &Label,
    wanted: Warning,
) -> Result<u8, Trouble> {
    let numbers: Vec<i32> = TAKEN.iter().filter_map(|name| signals::number(name)).collect();
    // Before the script starts, so that no announcement is missed and no signal ends this process alone.
    let arrived = Signals::block(&numbers).map_err(|error| error.to_string())?;
    arrived.spare(&mut command);
    let child = command.spawn().map_err(|error| failed_to_execute(program, &error))?;
    let script = child.id();
    drop((child, command));
    let deliver = || {
        let to = if wanted.shell_only { vec![script] } else { steps(script) };
        to.into_iter().for_each(|pid| signals::send(pid, wanted.signal));
    };
    if !wanted.comes_later(label.limit_s) {
        // As in Slurm, if the limit is shorter than the lead time.
        deliver();
    }
    loop {
        while let Some(signal) = arrived.next() {
            if Some(signal.signal) == signals::number(TOLD) {
                deliver();
            }
        }
        while let Some(reaped) = spawn::reap() {
            if reaped.pid != script {
                continue;
            }
            if let Some(signal) = reaped.signal {
                signals::end_self_by(signal);
            }
            let code = reaped.exit_code.unwrap_or_else(|| 128 + reaped.signal.unwrap_or(0));
            return Ok(u8::try_from(code & 0xff).unwrap_or(1));
        }
        let _ = pinfold_sys::ready::readable(&arrived, None);
    }
}

/// The `srun` processes of the steps below a process.
fn steps(script: u32) -> Vec<u32> {
    let Ok(proc) = Proc::open(Path::new("/proc")) else { return Vec::new() };
    let (mut found, mut open) = (Vec::new(), vec![script]);
    while let Some(pid) = open.pop() {
        match is_step(&proc, pid) {
            true => found.push(pid),
            false => open.extend(proc.children(pid).ok().flatten().unwrap_or_default()),
        }
    }
    found
}

/// All descendants of a process.
pub(crate) fn below(proc: &Proc, pid: u32) -> Vec<u32> {
    let children = |pid: u32| proc.children(pid).ok().flatten().unwrap_or_default();
    let (mut all, mut at) = (children(pid), 0);
    while let Some(&pid) = all.get(at) {
        all.extend(children(pid));
        at += 1;
    }
    all
}

/// Whether a process is an `srun`.
pub(crate) fn is_step(proc: &Proc, pid: u32) -> bool {
    let text = proc.text(&format!("{pid}/comm")).ok().flatten().unwrap_or_default();
    text.trim() == "srun"
}
