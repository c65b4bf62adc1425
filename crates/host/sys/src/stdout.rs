//! Whether standard output goes anywhere.
//!
//! Where it is closed (`>&-`), Rust's start-up opens `/dev/null` in its place, and where it is not open for writing
//! (`1<file`), Rust drops what the kernel does not take (EBADF). In both cases all seems to be written, for ever. So
//! this looks before that start-up. Absent here: what is written.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{OFlags, fcntl_getfl};

use crate::fork::close_on_exec;

/// Whether it was closed as this process began.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// The C library calls what is listed in this section once, before `main` and so before Rust's start-up. What it calls
// here needs nothing of that: it makes one system call and stores a flag.
#[used]
#[expect(unsafe_code, reason = "only what runs before Rust's start-up finds standard output closed")]
#[unsafe(link_section = ".init_array")]
static AT_FIRST: extern "C" fn() = look;

extern "C" fn look() {
    WAS_CLOSED.store(close_on_exec(1).is_none(), Ordering::Relaxed);
}

/// Whether standard output was open as this process began, and is open for writing. Whether somebody reads it is
/// another question.
#[must_use]
pub fn is_open() -> bool {
    let flags = fcntl_getfl(rustix::stdio::stdout());
    !WAS_CLOSED.load(Ordering::Relaxed) && flags.is_ok_and(|flags| flags & OFlags::RWMODE != OFlags::RDONLY)
}
