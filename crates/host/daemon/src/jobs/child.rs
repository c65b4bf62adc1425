//! The process that a keeper hands over to become its job. A client names it by its number, which may be another
//! process's by the time the job starts: so it is opened at once, known by number and start from then on, and asked anew
//! whose child it is right before it is taken in.
//!
//! Owns the descriptors of those that wait, as many as this process has to spare; the others are known by number and
//! start alone, and opened for the moment in which they are taken in. Keepers that are watched have theirs of the same
//! number. Absent here: the kernel's part
//! (`sys::identity`, `sys::container`).

use std::sync::Arc;

use pinfold_proto::row::ProcessId;
use pinfold_sys::identity::Process;

/// A child that waits to become a job, or a keeper that is watched.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) process: Process,
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

    /// Keeps a child that waits, by a descriptor if there is one to spare.
    pub(crate) fn keep(&self, mut process: Process) -> Child {
        // One is this one's own.
        let has_room = Arc::strong_count(&self.shares) - 1 < self.most;
        if !has_room {
            process.let_go();
        }
        Child { process, _share: has_room.then(|| Arc::clone(&self.shares)) }
    }
}

/// Number and start, as they are stored.
pub(crate) fn id(process: &Process) -> ProcessId {
    ProcessId { pid: process.pid(), start_ticks: process.start_ticks() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};

    use pinfold_sys::procfs::Proc;

    use super::*;

    #[test]
    fn descriptors_are_bounded_and_given_back() {
        let proc = Proc::open(Path::new("/proc")).unwrap();
        let mut sleeper = Command::new("/bin/sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
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
}
