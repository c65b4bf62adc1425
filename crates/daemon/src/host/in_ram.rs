//! Staying in RAM: what decides whom to freeze must not itself wait for the disk that memory is being moved to.
//!
//! Locks the pages of the calling process, those that it has and those that it comes to touch. Owner of state: the kernel.
//! Absent here: threads' stacks and files that are mapped but never touched, which are not read in for it.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// Locks this process's pages in RAM as it touches them, where that has no bound. A child by fork
/// does not inherit it.
///
/// Under a bound (RLIMIT_MEMLOCK, 8 MiB for users as a rule) the kernel counts all that is mapped, and would refuse the
/// first mapping beyond it: then nothing is locked.
pub(crate) fn stay() {
    let may = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    let unbounded = getrlimit(Resource::Memlock).current.is_none();
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if !(may || unbounded) || mlockall(flags).is_err() {
        tracing::debug!("the kernel may move this process's memory to swap");
    }
}
