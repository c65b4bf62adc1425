//! Whether standard output goes anywhere.
//!
//! If it is closed (`>&-`), Rust's start-up opens `/dev/null` in its place, and if it is not open for writing
//! (`1<file`), Rust ignores the kernel's error (EBADF). In both cases all writes seem to succeed. So the check runs
//! before that start-up. Absent here: the output.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{OFlags, fcntl_getfl};

use crate::fork::close_on_exec;

/// Whether it was closed as this process began.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// The C library calls the functions in this section once, before `main` and so before Rust's start-up. This function
// does not need that start-up: it makes one system call and stores a flag.
#[used]
#[expect(unsafe_code, reason = "only what runs before Rust's start-up finds standard output closed")]
#[unsafe(link_section = ".init_array")]
static AT_FIRST: extern "C" fn() = look;

extern "C" fn look() {
    WAS_CLOSED.store(close_on_exec(1).is_none(), Ordering::Relaxed);
}

/// Whether standard output was open as this process began, and is open for writing; it may lack a reader all the same.
#[must_use]
pub fn is_open() -> bool {
    let flags = fcntl_getfl(rustix::stdio::stdout());
    !WAS_CLOSED.load(Ordering::Relaxed) && flags.is_ok_and(|flags| flags & OFlags::RWMODE != OFlags::RDONLY)
}
