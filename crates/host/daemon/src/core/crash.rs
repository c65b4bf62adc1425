//! For the tests: ends this process at the n-th point of its life, as a crash would, so that a test can try each of them.
//!
//! A point lies before and after whatever is done to a job, to the disk, or told to a keeper. They are counted from 1 over
//! one life of the daemon; `PINFOLD_CRASH_AT` names the one at which it ends. Where debug assertions are off, as in a
//! release build, there is neither the variable nor a count: [`point`] is empty. Owns the count. Absent here: where the
//! points lie.

/// Passes a point of this life, and ends it there if the environment says so; `what` is for the log.
#[cfg(debug_assertions)]
pub(crate) fn point(what: &'static str) {
    use std::io::Write as _;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static PASSED: AtomicU64 = AtomicU64::new(0);
    static LAST: LazyLock<Option<u64>> =
        LazyLock::new(|| std::env::var("PINFOLD_CRASH_AT").ok().and_then(|text| text.parse().ok()));
    let Some(last) = *LAST else { return };
    let passed = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    if passed == last {
        // Standard error is not buffered; nothing else of this process is in order now, and nothing is meant to be.
        let _ = writeln!(std::io::stderr(), "pinfoldd: ends at point {passed}, {what}");
        pinfold_sys::signals::send(std::process::id(), pinfold_sys::signals::SIGKILL);
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub(crate) fn point(_what: &'static str) {}
