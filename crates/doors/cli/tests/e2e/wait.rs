//! Waiting for something that must happen, with a deadline that only a fault reaches.

use std::fmt::Display;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use crate::process::Done;

/// How long anything may take. Far above what is needed, as the machine may be busy with other tests. A process that is
/// to be there all the while sleeps for longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// How often is looked.
const EVERY: Duration = Duration::from_millis(10);

/// Held for reading by a test that wants a job to stay frozen, for writing by `pinfold rescue`, which thaws the jobs of
/// every daemon on the host.
static RESCUE: RwLock<()> = RwLock::new(());

/// Nothing is rescued as long as this is held.
pub(crate) fn no_rescue() -> RwLockReadGuard<'static, ()> {
    RESCUE.read().unwrap_or_else(PoisonError::into_inner)
}

/// No other test wants a job to stay frozen as long as this is held.
pub(crate) fn rescue() -> RwLockWriteGuard<'static, ()> {
    RESCUE.write().unwrap_or_else(PoisonError::into_inner)
}

/// What is said of a process once it could be looked at: the daemon waits for that only shortly, and on a busy machine the
/// answer may be that it is to be asked again.
pub(crate) fn looked_at(mut ask: impl FnMut() -> Done) -> Done {
    eventually("the process could be looked at", || {
        let done = ask();
        if is_to_be_asked_again(&done.err) { Err(done.err) } else { Ok(done) }
    })
}

/// Whether a process could not be looked at for now.
pub(crate) fn is_to_be_asked_again(message: &str) -> bool {
    message.contains("cannot be read at present")
}

/// Looks again and again until there is something, at most so long.
pub(crate) fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::park_timeout(EVERY);
    }
}

/// Looks again and again until it is so; fails with what was seen last.
#[track_caller]
pub(crate) fn eventually<T, E: Display>(what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let mut last = String::new();
    let found = within(PATIENCE, || look().map_err(|seen| last = seen.to_string()).ok());
    found.unwrap_or_else(|| panic!("not within {} s: {what}; last: {last}", PATIENCE.as_secs()))
}
