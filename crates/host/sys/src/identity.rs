//! The identity of a process. Its number is reused once it was waited for, so that operations on a process that a
//! client named keep its start time with its number, and a descriptor if one is free.
//!
//! Owner of state: the caller, by its descriptor. Absent here: rights on the process, and operations.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::procfs::{Proc, ProcError, ProcessStat};

/// A process that was alive when it was opened.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    start_ticks: u64,
    /// Refers to this process for ever; readable once it has ended.
    handle: Option<OwnedFd>,
}

impl Process {
    /// The process with this number; `None`: no living process has it. Without a free descriptor it is identified by
    /// number and start alone.
    ///
    /// # Errors
    /// When its file below `/proc` is there and cannot be read.
    pub fn open(proc: &Proc, pid: u32) -> Result<Option<Self>, ProcError> {
        // The handle first: if it is alive after the reading, the reading is of the same process.
        let handle = raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let Some(stat) = proc.stat(pid)?.filter(|stat| pid > 0 && !stat.is_ended()) else { return Ok(None) };
        let process = Self { pid, start_ticks: stat.start_ticks, handle };
        Ok(process.is_alive(proc)?.then_some(process))
    }

    /// The process with this number and start; `None`: it has ended, even if another process has its number.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn again(proc: &Proc, pid: u32, start_ticks: u64) -> Result<Option<Self>, ProcError> {
        Ok(Self::open(proc, pid)?.filter(|process| process.start_ticks == start_ticks))
    }

    /// Its number.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Its start, in clock ticks since boot.
    #[must_use]
    pub const fn start_ticks(&self) -> u64 {
        self.start_ticks
    }

    /// Its descriptor, if any.
    #[must_use]
    pub fn handle(&self) -> Option<BorrowedFd<'_>> {
        self.handle.as_ref().map(AsFd::as_fd)
    }

    /// Closes its descriptor; number and start go on naming it.
    pub fn let_go(&mut self) {
        self.handle = None;
    }

    /// Whether it has not ended. Its number was its own until now if so.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn is_alive(&self, proc: &Proc) -> Result<bool, ProcError> {
        if let Some(handle) = &self.handle {
            let now = Timespec::default();
            return Ok(poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&now)) == Ok(0));
        }
        Ok(self.stat(proc)?.is_some())
    }

    /// Its `/proc` figures; `None`: it has ended.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn stat(&self, proc: &Proc) -> Result<Option<ProcessStat>, ProcError> {
        let its = |stat: &ProcessStat| stat.start_ticks == self.start_ticks && !stat.is_ended();
        Ok(proc.stat(self.pid)?.filter(its))
    }
}

fn raw(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn an_ended_process_is_not_found_by_its_number() {
        let proc = Proc::open(Path::new("/proc")).unwrap();
        let mut child = Command::new("/bin/sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let process = Process::open(&proc, child.id()).unwrap().unwrap();
        assert!(process.is_alive(&proc).unwrap() && process.handle().is_some());
        let (pid, start) = (process.pid(), process.start_ticks());
        let mut bare = Process::again(&proc, pid, start).unwrap().unwrap();
        bare.let_go();
        assert!(bare.is_alive(&proc).unwrap() && bare.handle().is_none());
        assert!(Process::again(&proc, pid, start + 1).unwrap().is_none(), "another of this number");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.is_alive(&proc).unwrap() && !bare.is_alive(&proc).unwrap());
        assert!(process.stat(&proc).unwrap().is_none());
        assert!(Process::open(&proc, pid).unwrap().is_none());
        assert!(Process::open(&proc, 0).unwrap().is_none(), "nobody has this number");
    }
}
