//! Output streams of a program that the child opens itself ([`crate::files::look_at`]).
//!
//! Opening a FIFO waits for a reader. A process that waits receives nothing else, and no blocked signal. The child blocks
//! no signals, so that it can be ended. Absent here: the choice of these streams.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, fcntl_getfl, fstat, open as open_file};
use rustix::io::{Result, retry_on_intr};
use rustix::stdio;

use crate::program::Program;

/// Whether the child has to open a stream of a program.
pub(super) fn are_in(program: &Program) -> bool {
    program.streams.iter().flatten().any(is_place)
}

fn is_place(stream: impl AsFd) -> bool {
    fcntl_getfl(stream).is_ok_and(|flags| flags.contains(OFlags::PATH))
}

/// Opens, in the child, standard output and standard error if they are unopened places. A place common to both is opened
/// once.
///
/// # Errors
/// A system error, for instance for lack of permission to write.
pub(super) fn open() -> Result<()> {
    let (out, err) = (stdio::stdout(), stdio::stderr());
    let is_err = is_place(err);
    let is_both = is_err && is_place(out) && is_same(out, err)?;
    if is_place(out) {
        stdio::dup2_stdout(at(out)?)?;
    }
    if is_both {
        stdio::dup2_stderr(out)?;
    } else if is_err {
        stdio::dup2_stderr(at(err)?)?;
    }
    Ok(())
}

/// Opens the file at a place for writing.
fn at(place: BorrowedFd<'_>) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    retry_on_intr(|| open_file(&path, OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC, Mode::empty()))
}

fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Result<bool> {
    let (one, other) = (fstat(one)?, fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}
