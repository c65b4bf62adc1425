//! The step before the last: a job that can write down what it has done (`--checkpoint`) is asked to, when memory will
//! soon be had in no other way. Once it has, it is ended and begins anew from there; if it cannot, it stands still as
//! before.
//!
//! It is let go on meanwhile, without a slot, for most programs write their state themselves once a signal tells them
//! to. So this begins earlier than the last step, which needs no time. Absent: how the state is written, and the last
//! step (`requeue`).

use std::time::Duration;

use crate::governor::{WORTH_BYTES, order};
use crate::job::{Job, Kind};
use crate::policy::Policy;
use crate::{Action, Decision, Instant, JobId, Reason};

/// What those who run may come to hold within this time, as things go, must not fit.
const AHEAD: Duration = Duration::from_secs(5);
/// or as far ahead as writing may take, but no further than this, for growth does not go on as it was for ever.
const AHEAD_MAX: Duration = Duration::from_secs(30);
/// How much longer than it may take it is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// One whose checkpoint failed is not asked again before this has gone by, doubled with each failure,
const REST: Duration = Duration::from_secs(60);
/// up to 2^6 times.
const REST_DOUBLINGS_MAX: u32 = 6;

/// What is known of a job's checkpoints.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Checkpoints {
    /// One is being written, and is given up at this time.
    pub(crate) until: Option<Instant>,
    /// Not to be asked again before this.
    rests_until: Instant,
    /// Those that failed, since its start.
    failures: u32,
}

impl Policy {
    /// Asks the youngest job that can to write down what it has done, if those who run may soon need more than there is,
    /// nobody who runs can be frozen for them, and swap does not take what those hold who stand still.
    pub(crate) fn checkpoint_for_memory(&mut self, usable: u64) {
        self.give_checkpoints_up();
        self.memory.writing = !self.writers().is_empty();
        if self.shortage_within(usable, AHEAD_MAX) == 0 {
            return self.stop_needless_checkpoints();
        }
        let lives = || self.lives.iter().filter_map(|id| self.jobs.get(id)).map(|job| &**job);
        let one_ends = lives().any(|job| job.live().is_some_and(|live| live.requeuing));
        let froze = self.memory.acted == Some(self.now);
        if one_ends || froze || self.memory.swap_free >= WORTH_BYTES || self.victim().is_some() {
            return;
        }
        // Who is let go on only to be stopped at once has grown by then, and written nothing.
        if self.lacking_at_once(usable) > 0 {
            return;
        }
        let may = |job: &&Job| {
            let ready = job.live().is_some_and(|live| {
                let rested = self.now >= live.checkpoints.rests_until;
                // Whom its user alone may let stand still is not let go on, for it could not be stopped again.
                let stoppable = live.out.is_none() || !job.request.no_suspend;
                // One that could not be stopped is stopped first, and one that could not be told to go on is told.
                let told = [Kind::Freeze, Kind::Thaw].iter().all(|kind| !live.failed.contains_key(kind));
                rested && stoppable && told && !live.starting && !live.suspended && live.signal.is_none()
            });
            let helps = job.held.resident >= WORTH_BYTES && Some(job.id()) != self.memory.token;
            ready && helps && job.request.checkpoint.is_some()
        };
        let Some(youngest) = lives().filter(may).max_by_key(|job| order(job)) else { return };
        let within = youngest.request.checkpoint.unwrap_or_default().clamp(AHEAD, AHEAD_MAX);
        let lacking = self.shortage_within(usable, within);
        if lacking == 0 || self.costs_more_than_lacks(youngest, usable) {
            return;
        }
        let id = youngest.id();
        self.ask_for_checkpoint(id, Reason::NoRoomSoon { lacking, within });
    }

    /// Whether all that those who run may ever come to lack, as they are known, is less than what a job may grow by while it
    /// writes: then it stands still, for if it could not write, it would have made the shortage that it was to end.
    fn costs_more_than_lacks(&self, writer: &Job, usable: u64) -> bool {
        let Some(grows) = self.left_to_grow(writer) else { return false };
        let left: Option<u64> = self.running().map(|job| self.left_to_grow(job)).sum();
        left.is_some_and(|left| self.shortage_if_they_grow_by(left, usable) < grows)
    }

    /// What a job has still to grow by to the most that its kind needs; `None` if nobody knows, or it has outgrown that.
    fn left_to_grow(&self, job: &Job) -> Option<u64> {
        let claim = self.claim_of(job).filter(|_| self.is_known(job))?;
        claim.most_bytes.checked_sub(job.held.total()).filter(|&left| left > 0)
    }

    fn ask_for_checkpoint(&mut self, id: JobId, reason: Reason) {
        self.dequeue(id);
        self.memory.frozen.remove(&id);
        self.memory.returning.remove(&id);
        self.comes_from_swap(id);
        self.unmark(id);
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let limit = job.request.checkpoint.unwrap_or_default();
        if let Some(live) = job.live_mut() {
            live.requeuing = true;
            live.checkpoints.until = Some(now.after(limit + PATIENCE));
            live.told.frozen = Some(false);
        }
        self.memory.writing = true;
        self.decisions.push(Decision { job: id, action: Action::Checkpoint, reason });
    }

    /// A job has written down what it has done, or could not.
    pub(crate) fn checkpointed(&mut self, id: JobId, error: Option<String>) {
        let Some(live) = self.live_mut(id).filter(|live| live.checkpoints.until.is_some()) else { return };
        if let Some(error) = error {
            return self.not_checkpointed(id, error);
        }
        live.checkpoints.until = None;
        if let Some(job) = self.jobs.get_mut(&id) {
            job.checkpoints = job.checkpoints.saturating_add(1);
        }
        self.decisions.push(Decision { job: id, action: Action::Requeue, reason: Reason::Checkpointed });
    }

    /// Those of which nothing was heard for too long.
    fn give_checkpoints_up(&mut self) {
        let over = |id: &JobId| {
            self.live(*id).and_then(|live| live.checkpoints.until).is_some_and(|until| until <= self.now)
        };
        let late: Vec<JobId> = self.lives.iter().copied().filter(over).collect();
        for id in late {
            self.not_checkpointed(id, "nothing was heard of it for too long".to_owned());
        }
    }

    /// Memory suffices again for those who write: they go on as they are, and are not ended.
    fn stop_needless_checkpoints(&mut self) {
        for id in self.writers() {
            if self.jobs.get(&id).is_some_and(|job| self.may_return(job)) {
                let swapped = self.jobs.get(&id).map_or(0, |job| job.held.swapped);
                self.stop_checkpoint(id, Reason::MemorySuffices { free: self.free_memory(), swapped });
            }
        }
    }

    pub(crate) fn writers(&self) -> Vec<JobId> {
        let writes = |id: &JobId| self.live(*id).is_some_and(|live| live.checkpoints.until.is_some());
        self.lives.iter().copied().filter(writes).collect()
    }

    /// There is no time for it: who writes holds on to what it has, and stands still as before; unless there is no room
    /// for the others then either.
    pub(crate) fn stop_checkpoints(&mut self, usable: u64) {
        if self.is_outgrown(usable) {
            return;
        }
        for id in self.writers() {
            self.not_checkpointed(id, "memory ran short meanwhile".to_owned());
        }
    }

    /// Whether those who run are known to come to need more than there is, though nobody who stands still or writes grows
    /// on. As they are chosen so that they need not, somebody has taken memory away from them since.
    fn is_outgrown(&self, usable: u64) -> bool {
        let left = |job: &Job| {
            let learned = job.request.kind.and_then(|kind| self.memory.learned.get(kind.key()))?;
            Some(learned.usual_bytes.saturating_sub(job.held.needs()))
        };
        let left = self.running().filter_map(left).fold(0, u64::saturating_add);
        left > 0 && self.shortage_if_they_grow_by(left, usable) > 0
    }

    /// It goes on as it was: where it stood still, it stands still again.
    pub(crate) fn not_checkpointed(&mut self, id: JobId, error: String) {
        let now = self.now;
        let Some(live) = self.live_mut(id) else { return };
        let known = &mut live.checkpoints;
        known.rests_until = now.after(REST * (1 << known.failures.min(REST_DOUBLINGS_MAX)));
        known.failures += 1;
        self.stop_checkpoint(id, Reason::NotCheckpointed { error });
    }

    /// What it writes is not waited for any more: whether it goes on or stands still is looked at anew.
    pub(crate) fn stop_checkpoint(&mut self, id: JobId, reason: Reason) {
        let Some(live) = self.live_mut(id).filter(|live| live.checkpoints.until.is_some()) else { return };
        live.checkpoints.until = None;
        live.told.frozen = None;
        self.goes_on(id, reason);
    }

    /// A checkpoint is of no use any more: the job is ended as it is.
    pub(crate) fn forget_checkpoint(&mut self, id: JobId) {
        if let Some(live) = self.live_mut(id) {
            live.checkpoints.until = None;
        }
    }

    /// Whether a job is being ended, and not only asked to write down what it has done.
    pub(crate) fn is_ending(job: &Job) -> bool {
        job.live().is_some_and(|live| live.requeuing && live.checkpoints.until.is_none())
    }
}
