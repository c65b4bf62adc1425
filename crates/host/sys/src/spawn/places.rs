//! Output streams of a program that are only places so far ([`crate::files::look_at`]): the child opens them.
//!
//! A FIFO opens once it has a reader. A process that opens one hears nothing else until then, and no signal that it blocks.
//! The child blocks none, so that it can be ended. Absent here: which files are places.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, fcntl_getfl, fstat, open as open_file};
use rustix::io::{Result, retry_on_intr};
use rustix::stdio;

use crate::program::Program;

/// Whether a program has one among its streams.
pub(super) fn are_in(program: &Program) -> bool {
    program.streams.iter().flatten().any(is_place)
}

fn is_place(stream: impl AsFd) -> bool {
    fcntl_getfl(stream).is_ok_and(|flags| flags.contains(OFlags::PATH))
}

/// Opens, in the child, standard output and standard error where they are places. One that is both is opened once.
///
/// # Errors
/// What the kernel says, such as that it may not be written.
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

/// What is at a place, to be written.
fn at(place: BorrowedFd<'_>) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    retry_on_intr(|| open_file(&path, OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC, Mode::empty()))
}

fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Result<bool> {
    let (one, other) = (fstat(one)?, fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}
