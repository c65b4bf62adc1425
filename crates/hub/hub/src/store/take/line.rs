//! The queue of messages to write, in order of arrival: a sender that finds no thread writing writes for all senders. A
//! host has few places, so that its many bundles do not delay other hosts' bundles.
//!
//! Owner of state: the queue. Absent here: the writing.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{Outcome, Sent, StoreError};

/// The most messages and parts in a transaction.
const SENT_AT_ONCE: usize = 128;
const PARTS_AT_ONCE: usize = 1_024;

/// The most messages of a host in the queue: its further messages wait beside the queue, so that other hosts come next.
const OF_A_HOST: usize = 2;

/// Waiting messages, and the outcomes of written messages.
#[derive(Debug, Default)]
pub(in super::super) struct Line {
    state: Mutex<State>,
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, Sent>,
    /// Number of senders beside the queue.
    beside: usize,
    done: HashMap<u64, Outcome>,
    /// Whether a thread writes.
    writing: bool,
}

impl State {
    /// Whether the queue has a place for another message of this host.
    fn has_place(&self, host: i64) -> bool {
        self.waiting.values().filter(|sent| sent.host().0 == host).count() < OF_A_HOST
    }

    /// The first messages, as many as a transaction writes.
    fn batch(&mut self) -> Vec<(u64, Sent)> {
        let (mut batch, mut parts) = (Vec::new(), 0);
        while let Some(next) = self.waiting.first_entry() {
            parts += next.get().parts();
            if !batch.is_empty() && (parts > PARTS_AT_ONCE || batch.len() >= SENT_AT_ONCE) {
                break;
            }
            batch.push(next.remove_entry());
        }
        batch
    }
}

/// The writer's role; a drop, also by a panic, frees it for another thread.
struct Writing<'a>(&'a Line);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.state().writing = false;
        self.0.written.notify_all();
    }
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the next writer, possibly this thread, has written the message.
    pub(super) fn pass(&self, sent: Sent, write: impl Fn(&[Sent]) -> Vec<Outcome>) -> Outcome {
        let mut state = self.state();
        // The host's messages in the queue have threads of their own that get them written.
        while !state.has_place(sent.host().0) {
            state.beside += 1;
            state = self.written.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.beside -= 1;
        }
        let ticket = state.next;
        state.next += 1;
        state.waiting.insert(ticket, sent);
        loop {
            if let Some(outcome) = state.done.remove(&ticket) {
                return outcome;
            }
            if state.writing {
                state = self.written.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if !state.waiting.contains_key(&ticket) {
                // The thread that wrote the message panicked.
                return Err(StoreError::Refused("it was not written: send it again".to_owned()).into());
            }
            let (tickets, batch): (Vec<u64>, Vec<Sent>) = state.batch().into_iter().unzip();
            state.writing = true;
            let writing = Writing(self);
            drop(state);
            let outcomes = write(&batch);
            self.state().done.extend(tickets.into_iter().zip(outcomes));
            drop(writing);
            state = self.state();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NOTHING, Told};
    use super::*;

    fn told(host: i64) -> Sent {
        Sent::Live(Told {
            host,
            boot: String::new(),
            now_us: 0,
            ahead_us: 0,
            packed: Vec::new(),
            point: None,
        })
    }

    #[test]
    fn what_comes_meanwhile_is_written_together() {
        let line = Line::default();
        let sizes = Mutex::new(Vec::new());
        let (begun, first) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let write = |batch: &[Sent]| {
            let mut sizes = sizes.lock().unwrap();
            if sizes.is_empty() {
                begun.send(()).unwrap();
                wait.lock().unwrap().recv().unwrap();
            }
            sizes.push(batch.len());
            batch.iter().map(|_| Ok(NOTHING)).collect()
        };
        let write = &write;
        std::thread::scope(|scope| {
            let line = &line;
            scope.spawn(move || line.pass(told(0), write).unwrap());
            first.recv().unwrap();
            for host in 1..=5 {
                scope.spawn(move || line.pass(told(host), write).unwrap());
            }
            while line.state().waiting.len() < 5 {
                std::thread::yield_now();
            }
            go.send(()).unwrap();
        });
        assert_eq!(*sizes.lock().unwrap(), [1, 5]);
    }

    #[test]
    fn a_host_has_two_in_the_line_and_others_come_before_the_rest_of_it() {
        let line = Line::default();
        let batches = Mutex::new(Vec::new());
        let (begun, first) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let write = |batch: &[Sent]| {
            let mut batches = batches.lock().unwrap();
            if batches.is_empty() {
                begun.send(()).unwrap();
                wait.lock().unwrap().recv().unwrap();
            }
            batches.push(batch.iter().map(|sent| sent.host().0).collect::<Vec<_>>());
            batch.iter().map(|_| Ok(NOTHING)).collect()
        };
        let write = &write;
        std::thread::scope(|scope| {
            let line = &line;
            scope.spawn(move || line.pass(told(0), write).unwrap());
            first.recv().unwrap();
            let of = |host: i64, arrived: usize| {
                scope.spawn(move || line.pass(told(host), write).unwrap());
                let all = |state: &State| state.waiting.len() + state.beside;
                while all(&line.state()) < arrived {
                    std::thread::yield_now();
                }
            };
            (1..=5).for_each(|arrived| of(1, arrived));
            of(2, 6);
            go.send(()).unwrap();
        });
        let batches = batches.into_inner().unwrap();
        assert_eq!(batches[1], [1, 1, 2]);
        assert_eq!(batches.iter().flatten().filter(|host| **host == 1).count(), 5);
        assert!(batches.iter().all(|batch| batch.iter().filter(|host| **host == 1).count() <= 2));
    }

    #[test]
    fn a_panic_holds_nobody_up() {
        let line = Line::default();
        let panicked = std::thread::scope(|scope| {
            scope.spawn(|| line.pass(told(0), |_| panic!("the disk is gone"))).join().is_err()
        });
        assert!(panicked);
        assert!(line.pass(told(1), |batch| batch.iter().map(|_| Ok(NOTHING)).collect()).is_ok());
    }
}
