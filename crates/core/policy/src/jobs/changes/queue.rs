//! Changes of a job that concern its wait: its place in the queue, since when it waits, and what it waits for.

use crate::api::{Class, Instant, JobId};
use crate::jobs::job::{Failure, Stage, Waiting};
use crate::jobs::places::{Entry, PoolIds};
use crate::jobs::table::JobTable;

/// What was due for a job.
#[derive(Debug, Default)]
pub(crate) struct Fired {
    /// Its place in the queue is another now.
    pub(crate) requeue: bool,
    /// An action is to be tried again, which failed for this.
    pub(crate) retry: Option<String>,
    /// It was to die of a signal, had its time for that, and went on.
    pub(crate) survived: bool,
}

impl JobTable {
    /// It stands in the queue from now on.
    pub(crate) fn enqueue(&mut self, id: JobId, entry: Entry) {
        if let Some(job) = self.get_mut(&id) {
            job.queued = Some(entry);
        }
    }

    /// It leaves the queue; gives the place that it had.
    pub(crate) fn dequeue(&mut self, id: JobId) -> Option<Entry> {
        self.get_mut(&id)?.queued.take()
    }

    /// A later job started while this one stood first.
    pub(crate) fn pass_over(&mut self, id: JobId) {
        if let Some(job) = self.get_mut(&id) {
            job.passed += 1;
        }
    }

    /// Its wait counts from now on.
    pub(crate) fn wait_from(&mut self, id: JobId, now: Instant) {
        if let Some(job) = self.get_mut(&id) {
            job.since = now;
        }
    }

    fn waiting_mut(&mut self, id: JobId) -> Option<&mut Waiting> {
        match &mut self.get_mut(&id)?.stage {
            Stage::Waiting(waiting) => Some(waiting),
            Stage::Live(_) => None,
        }
    }

    /// The time for which it was kept from starting does not count as waiting, neither for its right to go first nor
    /// against it.
    fn wait_anew(&mut self, id: JobId, now: Instant) {
        if let Some(job) = self.get_mut(&id) {
            (job.since, job.aged) = (now, false);
        }
        self.wait_changed(id);
    }

    /// A user holds a waiting job or releases it; says whether that is a change.
    pub(crate) fn hold(&mut self, id: JobId, held: bool, now: Instant) -> bool {
        let Some(waiting) = self.waiting_mut(id).filter(|waiting| waiting.held != held) else { return false };
        waiting.held = held;
        self.wait_anew(id, now);
        true
    }

    /// The caller lets a waiting job start, or does not yet; says whether that is a change.
    pub(crate) fn gate(&mut self, id: JobId, closed: bool, now: Instant) -> bool {
        let Some(waiting) = self.waiting_mut(id).filter(|waiting| waiting.gated != closed) else {
            return false;
        };
        waiting.gated = closed;
        self.wait_anew(id, now);
        true
    }

    /// A job that it is to start after is over; says whether it stands in the queue from now on.
    pub(crate) fn predecessor_over(&mut self, id: JobId, of: JobId, now: Instant) -> bool {
        let Some(waiting) = self.waiting_mut(id) else { return false };
        let stands = waiting.after.remove(&of) && !waiting.is_early();
        if stands {
            self.wait_from(id, now);
            self.wait_changed(id);
        }
        stands
    }

    /// How often a waiting job failed to start, and the last failure, which is forgotten; `None`: it does not wait.
    pub(crate) fn take_failure(&mut self, id: JobId) -> Option<(u32, Option<Failure>)> {
        let waiting = self.waiting_mut(id)?;
        Some((waiting.failures, waiting.failed.take()))
    }

    /// Another priority, also in the running set.
    pub(crate) fn set_priority(&mut self, id: JobId, priority: u8) {
        let Some(job) = self.get_mut(&id) else { return };
        job.request.priority = priority;
        if let Some(key) = job.live_mut().and_then(|live| live.key.as_mut()) {
            key.priority = priority;
        }
    }

    /// Its user asks for another class, or for whichever is free first.
    pub(crate) fn set_class(&mut self, id: JobId, class: Option<Class>) {
        if let Some(job) = self.get_mut(&id) {
            job.request.class = class;
        }
    }

    /// It asks for so much memory now.
    pub(crate) fn set_memory(&mut self, id: JobId, bytes: u64) {
        if let Some(job) = self.get_mut(&id) {
            job.request.memory = Some(bytes);
        }
    }

    /// Whose cores and memory it takes.
    pub(crate) fn set_pools(&mut self, id: JobId, pools: PoolIds) {
        if let Some(job) = self.get_mut(&id) {
            job.pools = pools;
        }
    }

    /// All that is due for it by now; `aged`: it has waited for long enough to go first.
    pub(crate) fn fire(&mut self, id: JobId, now: Instant, aged: bool) -> Fired {
        let mut fired = Fired::default();
        let Some(job) = self.get_mut(&id) else { return fired };
        fired.requeue = aged != job.aged;
        job.aged = aged;
        match &mut job.stage {
            Stage::Waiting(waiting) => {
                if let Some(failed) = waiting.failed.as_mut().filter(|f| !f.tried && f.again <= now) {
                    failed.tried = true;
                    fired.requeue = true;
                }
            }
            Stage::Live(live) => {
                for failed in live.failed.values_mut().filter(|f| !f.tried && f.again <= now) {
                    failed.tried = true;
                    fired.retry = Some(failed.error.clone());
                }
                let due = live.phase.fire(now);
                fired.requeue |= due.rested;
                fired.survived = due.survived;
            }
        }
        fired
    }
}
