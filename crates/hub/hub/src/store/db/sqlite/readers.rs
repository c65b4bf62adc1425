//! Connections for reading: a query takes the next free connection. All queries can be kept out briefly. Owner of
//! state: the free connections.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rusqlite::Connection;

use super::{DbError, lock};

#[derive(Debug)]
pub(super) struct Readers {
    connections: Vec<Mutex<Connection>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Indexes of free connections.
    free: Vec<usize>,
    /// Whether none may be taken now.
    kept_out: bool,
}

/// A taken connection, until the drop. A connection is reusable after a panic.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    readers: &'a Readers,
    at: usize,
    connection: MutexGuard<'a, Connection>,
}

impl Deref for Taken<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        lock(&self.readers.state).free.push(self.at);
        self.readers.changed.notify_all();
    }
}

/// Keeps queries out; a drop, also by a panic, readmits them.
struct KeptOut<'a>(&'a Readers);

impl Drop for KeptOut<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).kept_out = false;
        self.0.changed.notify_all();
    }
}

impl Readers {
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        let state = State { free: (0..connections.len()).collect(), kept_out: false };
        let connections = connections.into_iter().map(Mutex::new).collect();
        Self { connections, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for a condition; `None`: the time is over.
    fn wait(&self, until: Instant, is: impl Fn(&State) -> bool) -> Option<MutexGuard<'_, State>> {
        let mut state = lock(&self.state);
        while !is(&state) {
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(state)
    }

    /// Takes the next free connection.
    pub(super) fn take(&self, until: Instant) -> Result<Taken<'_>, DbError> {
        let free = self.wait(until, |state| !state.kept_out && !state.free.is_empty());
        let at = free.and_then(|mut state| state.free.pop()).ok_or(DbError::TooLong)?;
        Ok(Taken { readers: self, at, connection: lock(&self.connections[at]) })
    }

    /// Runs `work` while no connection is taken; `None`: the connections are not free in time.
    pub(super) fn kept_out<T>(&self, until: Instant, work: impl FnOnce() -> T) -> Option<T> {
        lock(&self.state).kept_out = true;
        let _kept_out = KeptOut(self);
        drop(self.wait(until, |state| state.free.len() == self.connections.len())?);
        Some(work())
    }

    /// Whether questions are kept out.
    #[cfg(test)]
    pub(super) fn are_kept_out(&self) -> bool {
        lock(&self.state).kept_out
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn two() -> Readers {
        Readers::new((0..2).map(|_| Connection::open_in_memory().unwrap()).collect())
    }

    /// Longer than any test.
    fn long() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[test]
    fn the_next_that_is_free_is_taken_whichever_it_is() {
        for freed in 0..2 {
            let readers = two();
            let mut taken: Vec<Taken<'_>> = (0..2).map(|_| readers.take(long()).unwrap()).collect();
            // All connections are taken: the query times out.
            assert!(matches!(readers.take(Instant::now()), Err(DbError::TooLong)));
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| readers.take(long()).unwrap().at);
                let free = taken.swap_remove(freed);
                let at = free.at;
                drop(free);
                assert_eq!(waiting.join().unwrap(), at);
            });
        }
    }

    #[test]
    fn questions_are_kept_out_until_the_work_is_done() {
        let readers = two();
        let taken = readers.take(long()).unwrap();
        assert_eq!(readers.kept_out(Instant::now(), || ()), None, "one is in the midst of a question");
        drop(readers.take(long()).unwrap());
        std::thread::scope(|scope| {
            let (begun, begins) = mpsc::channel();
            let (go, wait) = mpsc::channel::<()>();
            let readers = &readers;
            let work = scope.spawn(move || {
                readers.kept_out(long(), || {
                    begun.send(()).unwrap();
                    wait.recv().unwrap();
                })
            });
            drop(taken);
            begins.recv().unwrap();
            assert!(readers.are_kept_out() && readers.take(Instant::now()).is_err());
            go.send(()).unwrap();
            assert_eq!(work.join().unwrap(), Some(()));
        });
        assert!(readers.take(long()).is_ok());
    }

    #[test]
    fn a_panic_takes_no_connection_away() {
        let readers = two();
        for _ in 0..3 {
            let panicked = std::thread::scope(|scope| {
                let asks = || {
                    let _taken = readers.take(long()).unwrap();
                    panic!("the disk is gone")
                };
                scope.spawn(asks).join().is_err()
            });
            assert!(panicked);
        }
        assert_eq!((0..2).map(|_| readers.take(long()).unwrap()).collect::<Vec<_>>().len(), 2);
    }
}
