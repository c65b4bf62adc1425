//! Processes by number and start, which together name one for good.

use pinfold_proto::row::ProcessId;
use pinfold_sys::identity::Process;
use pinfold_sys::procfs::Proc;

use crate::core::ctx::Ctx;

/// Whether this very process, not another of the same number, is alive.
pub(crate) fn is_alive(proc: &Proc, process: ProcessId) -> bool {
    let stat = proc.stat(process.pid).ok().flatten();
    stat.is_some_and(|stat| stat.start_ticks == process.start_ticks && !matches!(stat.state, 'Z' | 'X'))
}

/// Whether this very process has not ended, as far as that can be read: for want of a descriptor nobody is gone.
pub(crate) fn may_live(proc: &Proc, process: ProcessId) -> bool {
    !matches!(Process::again(proc, process.pid, process.start_ticks), Ok(None))
}

impl Ctx {
    /// A process with its start, which together name it for good.
    pub(crate) fn process(&self, pid: u32) -> Option<ProcessId> {
        let stat = self.proc.stat(pid).ok().flatten()?;
        Some(ProcessId { pid, start_ticks: stat.start_ticks })
    }

    /// The process that is named so, to be watched or taken in; `None`: it has ended.
    pub(crate) fn process_again(&self, process: ProcessId) -> Option<Process> {
        Process::again(&self.proc, process.pid, process.start_ticks).ok().flatten()
    }
}
