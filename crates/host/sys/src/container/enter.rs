//! Entry of processes into a container: moved by the daemon, or by themselves through self-attach files.

use std::sync::Arc;

use super::{Container, ContainerError, Doors, Entered, Share};
use crate::identity::Process;

impl Container {
    /// Moves the process with this number and its later children into the container. The number must stay taken
    /// meanwhile, as it does for a parent's unreaped child; else see [`Container::enter_process`].
    pub fn enter(&self, pid: u32) -> Result<Entered, ContainerError> {
        match Process::open(&self.shared.proc, pid)? {
            Some(process) => self.enter_process(&process),
            None => Ok(Entered::Gone),
        }
    }

    /// Moves exactly this process and its later children into the container. The kernel moves processes by number: if
    /// this process ended meanwhile and another process got its number, the other process is moved back and the answer
    /// is [`Entered::Gone`].
    pub fn enter_process(&self, process: &Process) -> Result<Entered, ContainerError> {
        self.make_tree(true)?;
        let proc = &self.shared.proc;
        let whence = self.whence(process)?;
        if !process.is_alive(proc)? {
            return Ok(Entered::Gone);
        }
        let entered = self.enter_all(process);
        // Alive still, its number was its own all the time.
        if process.is_alive(proc)? {
            return entered;
        }
        self.turn_out(process, &whence)?;
        Ok(Entered::Gone)
    }

    fn enter_all(&self, process: &Process) -> Result<Entered, ContainerError> {
        if self.enter_groups(process)? == Entered::Gone {
            return Ok(Entered::Gone);
        }
        if let Some(mut family) = self.family()
            && !family.take_in(&self.shared.proc, process.pid(), process.start_ticks())?
        {
            return Ok(Entered::Gone);
        }
        self.enter_settings(process.pid())?;
        Ok(Entered::Yes)
    }

    /// Moves processes that are in only some of the job's groups into all of them: a first-generation group that loses
    /// its last PU loses its processes too.
    pub fn gather(&self) -> Result<(), ContainerError> {
        self.complete_entries()
    }

    /// Files through which a process moves *itself* into the container: it writes `0` into each before it executes its
    /// command. Empty where the host lacks these files; then use [`Container::enter`].
    ///
    /// To move another process, the kernel waits until no fork is under way anywhere, an RCU grace period: 11 ms here
    /// after some milliseconds without a move. A process that moves itself by the `tasks` file of the first generation
    /// does not wait (`cgroup_procs_write_start` in the kernel's `cgroup.c`): 70 us for three hierarchies. The unified
    /// hierarchy has no `tasks` file, so a process that moved itself is missing there until [`Container::close_doors`].
    /// The kernel checks the rights of the process that opened the files.
    pub fn doors(&self) -> Result<Doors, ContainerError> {
        if let Some(doors) = self.doors.get() {
            return Ok(Arc::clone(doors));
        }
        let doors = self.open_doors()?;
        Ok(Arc::clone(self.doors.get_or_init(|| doors.into())))
    }

    /// Moves processes that came through the self-attach files into the unified hierarchy too, at the cost of an entry.
    pub fn close_doors(&self) -> Result<(), ContainerError> {
        if self.is_missing_in_tree() {
            self.make_tree(true)?;
            self.complete_entries()?;
            if self.share == Some(Share::Idle) {
                self.set_io_idle(true)?;
            }
        }
        Ok(())
    }
}
