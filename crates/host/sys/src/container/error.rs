//! Errors of containment.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::cgroup::CgroupError;
use crate::procfs::ProcError;

/// Containment failed.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// A control group could not be used.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// A file below `/proc` could not be used.
    #[error(transparent)]
    Proc(#[from] ProcError),
    /// The name cannot be a directory of ours.
    #[error("`{0}` is no name of an instance: 1 to 32 of the characters a-z, 0-9 and -")]
    Instance(String),
    /// A group that the plan was decided on is gone.
    #[error("the group {}, on which the plan rests, has vanished", .path.display())]
    BaseGone {
        /// The group.
        path: PathBuf,
    },
    /// A job of this number is still in the kernel.
    #[error("the container of job {job} is left from an earlier life and still holds processes")]
    Occupied {
        /// The job.
        job: u64,
    },
    /// A system call on a process failed for another cause than its end.
    #[error("failed to {operation} process {pid}")]
    Process {
        /// The operation.
        operation: &'static str,
        /// The process or thread.
        pid: u32,
        /// The kernel's error.
        source: io::Error,
    },
}

impl ContainerError {
    /// Whether the kernel refused a write to a group for lack of rights, for instance to move a process out of a group
    /// that another user owns.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        let Self::Cgroup(error @ CgroupError::Write { .. }) = self else { return false };
        matches!(error.errno(), Some(Errno::ACCESS | Errno::PERM))
    }
}
