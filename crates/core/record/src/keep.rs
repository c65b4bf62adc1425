//! The daemon's side of recording: the event loop queues steps and never waits; a thread writes the steps.
//!
//! The queue is bounded. When the disk is too slow, steps are dropped and a new file begins with the current state,
//! so a file has no gap. A failed write is retried after a minute.

use std::fs::{self, File};
use std::mem::size_of;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pinfold_policy::{Decision, Event, JobMemory, Policy};

use crate::frame::Step;
use crate::ring;
use crate::write::Writer;

/// The least bound, in bytes: a smaller file would hold little but its state.
pub const BOUND_BYTES_MIN: u64 = 1 << 16;
/// So many bytes of steps may wait for the thread.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Queued steps reach the file within this time.
const FLUSH_AFTER: Duration = Duration::from_secs(1);
/// After so long writing is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Told in words when writing fails.
pub type OnFailure = Box<dyn Fn(&str) + Send>;

enum Order {
    State(Box<Policy>, u64),
    Step(Box<Step>, usize),
}

#[derive(Debug, Default)]
struct Shared {
    /// The thread wants to begin a new file.
    wants_state: AtomicBool,
    /// Bytes of queued steps.
    waiting: AtomicUsize,
}

/// Records the scheduler's events. Dropping the recorder writes the queue and ends the thread.
#[derive(Debug)]
pub struct Recorder {
    orders: Option<Sender<Order>>,
    shared: Arc<Shared>,
    /// Steps were dropped: later steps are useless until the next state.
    has_hole: bool,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Starts recording into this directory; all files together stay below a bound of at least [`BOUND_BYTES_MIN`].
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(directory: &Path, bound_bytes: u64, on_failure: OnFailure) -> std::io::Result<Self> {
        let (orders, received) = channel();
        let shared = Arc::new(Shared { wants_state: AtomicBool::new(true), ..Shared::default() });
        let files = Files {
            directory: directory.to_owned(),
            bound_bytes: bound_bytes.max(BOUND_BYTES_MIN),
            on_failure,
            writer: None,
            is_asked: false,
            unseen_bytes: 0,
            failed: None,
        };
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("events".to_owned());
        let thread = thread.spawn(move || files.run(&received, &theirs))?;
        Ok(Self { orders: Some(orders), shared, has_hole: false, thread: Some(thread) })
    }

    /// To be called before the scheduler handles an event; returns whether to queue the step.
    pub fn before(&mut self, policy: &Policy, now_us: u64) -> bool {
        let waiting = self.shared.waiting.load(Ordering::Relaxed);
        if self.has_hole && waiting > WAITING_BYTES_MAX / 2 {
            return false;
        }
        if self.shared.wants_state.swap(false, Ordering::Relaxed) || self.has_hole {
            self.has_hole = false;
            self.send(Order::State(Box::new(policy.clone()), now_us));
        }
        true
    }

    /// Whether steps wait in the queue.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.shared.waiting.load(Ordering::Relaxed) > 0
    }

    /// Queues a step.
    pub fn step(&mut self, step: Step) {
        let bytes = bytes_of(&step);
        if self.shared.waiting.fetch_add(bytes, Ordering::Relaxed) > WAITING_BYTES_MAX {
            self.shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.has_hole = true;
            return;
        }
        self.send(Order::Step(Box::new(step), bytes));
    }

    fn send(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // Cannot fail: the thread outlives this sender.
            let _ = orders.send(order);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Approximate bytes of a step in memory.
fn bytes_of(step: &Step) -> usize {
    let listed = match &step.event {
        Event::Memory(sample) => sample.jobs.len() * size_of::<JobMemory>(),
        Event::Nodes(reading) => reading.jobs.iter().map(|(_, nodes)| 32 + nodes.len() * 16).sum(),
        Event::Sample(sample) => sample.idle_milli.len() * 2 + sample.stalled_milli.len() * 16,
        _ => 0,
    };
    size_of::<Step>() + listed + step.decisions.len() * size_of::<Decision>()
}

/// The thread's state.
struct Files {
    directory: PathBuf,
    bound_bytes: u64,
    on_failure: OnFailure,
    writer: Option<Writer<File>>,
    /// A state was asked for, to begin the next file with.
    is_asked: bool,
    /// Approximate bytes of steps since the last flush that measured the file's length.
    unseen_bytes: u64,
    failed: Option<Instant>,
}

impl Files {
    fn run(mut self, orders: &Receiver<Order>, shared: &Shared) {
        let mut flushed = Instant::now();
        let mut is_dirty = false;
        loop {
            match orders.recv_timeout(FLUSH_AFTER) {
                Ok(Order::State(state, now_us)) => {
                    self.begin(*state, now_us);
                    is_dirty = true;
                }
                Ok(Order::Step(step, bytes)) => {
                    shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
                    if self.add(*step, bytes as u64) {
                        shared.wants_state.store(true, Ordering::Relaxed);
                    }
                    is_dirty = true;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.end(),
            }
            if is_dirty && flushed.elapsed() >= FLUSH_AFTER {
                self.flush();
                (flushed, is_dirty) = (Instant::now(), false);
            }
            if self.failed.is_some_and(|failed| failed.elapsed() >= AGAIN_AFTER) {
                self.failed = None;
                shared.wants_state.store(true, Ordering::Relaxed);
            }
        }
    }

    fn begin(&mut self, state: Policy, now_us: u64) {
        self.end();
        self.is_asked = false;
        let file = ring::begin(&self.directory, self.bound_bytes);
        let begun = file.and_then(|(file, path)| {
            // A file without a state is useless, and on a full disk a new file is tried each minute.
            Writer::begin(file, state, now_us).inspect_err(|_| drop(fs::remove_file(&path)))
        });
        self.writer = self.checked(begun);
    }

    /// Adds a step; true once, when the file becomes full. Steps queued before the next state are added as well, up
    /// to twice a file's share: the event loop may be far ahead of this thread, and the bound must hold.
    fn add(&mut self, step: Step, bytes: u64) -> bool {
        let Some(writer) = &mut self.writer else { return false };
        let share = self.bound_bytes / ring::FILES;
        // The compressor holds data back in large pieces, so a small share would be exceeded before the length shows
        // it.
        self.unseen_bytes += bytes;
        let look = self.unseen_bytes >= share;
        let added = writer.step(step).and_then(|()| if look { writer.flush() } else { Ok(()) });
        let added = added.map(|()| writer.bytes());
        if look {
            self.unseen_bytes = 0;
        }
        let Some(bytes) = self.checked(added) else { return false };
        if bytes >= 2 * share {
            self.end();
        }
        bytes >= share && !std::mem::replace(&mut self.is_asked, true)
    }

    fn flush(&mut self) {
        if let Some(writer) = &mut self.writer {
            let flushed = writer.flush();
            self.checked(flushed);
        }
    }

    fn end(&mut self) {
        if let Some(writer) = self.writer.take() {
            let ended = writer.finish();
            self.checked(ended);
        }
    }

    /// Unwraps a result; a failure is reported and ends the file.
    fn checked<T>(&mut self, came: std::io::Result<T>) -> Option<T> {
        came.map_err(|error| {
            (self.on_failure)(&format!("{}: {error}", self.directory.display()));
            self.failed = Some(Instant::now());
            self.writer = None;
        })
        .ok()
    }
}

#[cfg(test)]
mod tests {
    use pinfold_policy::{Instant as Now, JobId};

    use super::*;

    #[test]
    fn a_loop_far_ahead_does_not_break_the_bound() {
        let dir = tempfile::tempdir().expect("a directory");
        let (orders, received) = channel();
        let shared = Shared::default();
        let files = Files {
            directory: dir.path().to_owned(),
            bound_bytes: BOUND_BYTES_MIN,
            on_failure: Box::new(|words| panic!("{words}")),
            writer: None,
            is_asked: false,
            unseen_bytes: 0,
            failed: None,
        };
        orders.send(Order::State(Box::default(), 0)).expect("it is received below");
        for round in 0..100_000u64 {
            let event = Event::Started(JobId(round.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            let step = Step { now: Now(round), event, decisions: Vec::new() };
            let bytes = bytes_of(&step);
            shared.waiting.fetch_add(bytes, Ordering::Relaxed);
            orders.send(Order::Step(Box::new(step), bytes)).expect("it is received below");
        }
        drop(orders);
        files.run(&received, &shared);
        let left = ring::files(dir.path()).expect("files");
        let bytes: u64 = left.iter().map(|path| path.metadata().expect("a file").len()).sum();
        assert!(left.len() == 1 && bytes <= BOUND_BYTES_MIN / 2, "{bytes} bytes in {left:?}");
        assert!(shared.wants_state.load(Ordering::Relaxed), "a state for the next file is asked for");
    }
}
