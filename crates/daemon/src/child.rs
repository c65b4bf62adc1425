//! The process that a keeper hands over to become its job. A client names it by its number, which may be another
//! process's by the time the job starts: so it is opened at once, known by number and start from then on, and asked anew
//! whose child it is right before it is taken in.
//!
//! Owns the descriptors of those that wait, as many as this process has to spare; the others are known by number and
//! start alone, and opened for the moment in which they are taken in. Absent here: the kernel's part
//! (`sys::identity`, `sys::container`).

use std::sync::Arc;

use pinfold_policy::JobId;
use pinfold_proto::row::ProcessId;
use pinfold_sys::container::{Container, ContainerError, Entered, Shape};
use pinfold_sys::identity::Process;
use pinfold_sys::peer::Peer;
use pinfold_sys::procfs::{Proc, ProcError};

use crate::daemon::Daemon;
use crate::event::ConnectionId;

/// A child that waits to become a job.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    /// Its share of the descriptors, given back with it.
    _share: Option<Arc<()>>,
}

impl Child {
    /// Its number and start.
    pub(crate) fn id(&self) -> ProcessId {
        id(&self.process)
    }
}

/// How many descriptors there may be.
#[derive(Debug)]
pub(crate) struct Children {
    most: usize,
    shares: Arc<()>,
}

impl Children {
    /// So many of those that wait may have one.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, shares: Arc::new(()) }
    }

    fn keep(&self, mut process: Process) -> Child {
        // One is this one's own.
        let has_room = Arc::strong_count(&self.shares) - 1 < self.most;
        if !has_room {
            process.let_go();
        }
        Child { process, _share: has_room.then(|| Arc::clone(&self.shares)) }
    }
}

/// What becomes of a start by a child.
type Taken = Result<Option<(Container, ProcessId)>, ContainerError>;

impl Daemon {
    /// The process `pid`, if it is a child of the peer's process, run by the peer's user. Nobody can have another's
    /// process put into a job of theirs; whom the system trusts with everything need not be asked.
    pub(crate) fn child_of(&self, pid: u32, user: Peer) -> Option<Process> {
        if pid == std::process::id() {
            // This daemon may be a child of whoever started it, and is no job of theirs for that.
            return None;
        }
        let process = Process::open(&self.proc, pid).ok().flatten()?;
        is_child_of(&self.proc, &process, user).ok().filter(|is| *is).map(|_| process)
    }

    /// The same, to be kept until the job starts.
    pub(crate) fn waiting_child(&self, pid: Option<u32>, user: Peer) -> Option<Child> {
        pid.and_then(|pid| self.child_of(pid, user)).map(|process| self.children.keep(process))
    }

    /// Makes the container of a job and takes its child in; `None`: that one has ended, or is not its keeper's any more.
    pub(crate) fn take_child_in(&self, job: JobId, keeper: ConnectionId, shape: &Shape) -> Taken {
        let (Some(live), Some(user)) = (self.jobs.get(&job), self.server.peer(keeper)) else {
            return Ok(None);
        };
        let Some(child) = &live.child else { return Ok(None) };
        let known = child.id();
        // Without a descriptor so far, one for this moment.
        let opened;
        let process = match child.process.handle() {
            Some(_) => &child.process,
            None => {
                opened = Process::again(&self.proc, known.pid, known.start_ticks)?;
                let Some(process) = &opened else { return Ok(None) };
                process
            }
        };
        if !is_child_of(&self.proc, process, user)? {
            return Ok(None);
        }
        let container = self.make_container(job, shape, known.pid)?;
        // Once more: to make groups takes its time, in which it may have become another user's.
        let entered = match is_child_of(&self.proc, process, user) {
            Ok(true) => container.enter_process(process),
            Ok(false) => Ok(Entered::Gone),
            Err(error) => Err(error.into()),
        };
        match entered {
            Ok(Entered::Yes) => Ok(Some((container, known))),
            gone_or_failed => {
                // What cannot be removed shows in the list of what is left.
                let _ = container.remove();
                gone_or_failed.map(|_| None)
            }
        }
    }

    /// The process that is named so, to be watched or taken in; `None`: it has ended.
    pub(crate) fn process_again(&self, process: ProcessId) -> Option<Process> {
        Process::again(&self.proc, process.pid, process.start_ticks).ok().flatten()
    }
}

/// Whether a process is alive, a child of the peer's process, and run by the peer's user.
fn is_child_of(proc: &Proc, process: &Process, user: Peer) -> Result<bool, ProcError> {
    let Some(stat) = process.stat(proc)?.filter(|stat| stat.parent == user.pid) else { return Ok(false) };
    let owner = if user.uid == 0 { Some(0) } else { proc.status(stat.pid)?.map(|status| status.user) };
    // Last: alive still, all that was read was its own.
    Ok(owner == Some(user.uid) && process.is_alive(proc)?)
}

/// Number and start, as they are stored.
pub(crate) fn id(process: &Process) -> ProcessId {
    ProcessId { pid: process.pid(), start_ticks: process.start_ticks() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn descriptors_are_bounded_and_given_back() {
        let proc = Proc::open(Path::new("/proc")).unwrap();
        let mut sleeper = Command::new("/bin/sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let children = Children::new(2);
        let open = || children.keep(Process::open(&proc, sleeper.id()).unwrap().unwrap());
        let mut kept: Vec<Child> = (0..3).map(|_| open()).collect();
        let with_one = |kept: &[Child]| kept.iter().filter(|child| child.process.handle().is_some()).count();
        assert_eq!(with_one(&kept), 2);
        assert!(kept.iter().all(|child| child.id() == kept[0].id()), "known all the same");
        kept.truncate(1);
        kept.push(open());
        assert_eq!(with_one(&kept), 2);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn whose_child_a_process_is() {
        let proc = Proc::open(Path::new("/proc")).unwrap();
        let mut sleeper = Command::new("/bin/sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let process = Process::open(&proc, sleeper.id()).unwrap().unwrap();
        let uid = pinfold_sys::peer::own_uid();
        let own = Peer { pid: std::process::id(), uid };
        assert!(is_child_of(&proc, &process, own).unwrap());
        assert!(!is_child_of(&proc, &process, Peer { pid: 1, uid }).unwrap(), "another's");
        assert!(!is_child_of(&proc, &process, Peer { uid: 4_000_000_000, ..own }).unwrap(), "another user's");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(!is_child_of(&proc, &process, own).unwrap(), "it has ended");
    }
}
