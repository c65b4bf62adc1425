//! The last step of the ladder: when memory can be had in no other way, the youngest job that allows it is ended, and
//! begins anew once there is room for what it held.
//!
//! Whatever that job had done is lost, so it counts as a failure of the host in every report, and is never done to a
//! job that did not say that it may be (`--requeue`), nor to one job for ever.

use std::time::Duration;

use crate::governor::{WORTH_BYTES, order};
use crate::job::{Failure, Job, Out, Stage, Waiting};
use crate::memory::grown;
use crate::policy::Policy;
use crate::{Action, Decision, Instant, JobId, Reason};

/// How often one job may be ended to begin anew.
pub const REQUEUES_MAX: u32 = 3;
/// ... and only for what those who run are about to hold within this time, as they grow at this moment: a second is
/// for what can be undone.
const IMMINENT: Duration = Duration::from_millis(500);
/// How long it waits after the first time at least, doubled with each further one.
const REQUEUE_REST: Duration = Duration::from_secs(5);

impl Policy {
    /// Ends the youngest job that allows it, if those who run would soon need more than there is, nobody who runs can
    /// be frozen for them, and swap does not take what those hold who stand still.
    pub(crate) fn begin_anew_for_memory(&mut self, usable: u64) {
        let lives = || self.lives.iter().filter_map(|id| self.jobs.get(id)).map(|job| &**job);
        let one_ends = lives().any(Self::is_ending);
        // Whoever was frozen just now may have been enough.
        let froze = self.memory.acted == Some(self.now);
        if one_ends || froze || self.memory.swap_free >= WORTH_BYTES || self.victim().is_some() {
            return;
        }
        let lacking = self.lacking_at_once(usable);
        if lacking == 0 {
            return;
        }
        let may = |job: &&Job| {
            let ready = job.live().is_some_and(|live| !live.starting && live.signal.is_none());
            let helps = job.held.resident >= WORTH_BYTES && Some(job.id()) != self.memory.token;
            ready && helps && job.request.requeue && job.requeues < REQUEUES_MAX
        };
        match lives().filter(may).max_by_key(|job| order(job)).map(Job::id) {
            Some(youngest) => self.end_to_begin_anew(youngest, lacking),
            None => self.stop_checkpoints(usable),
        }
    }

    /// What those who run are about to lack before anybody could do anything about it himself.
    pub(crate) fn lacking_at_once(&self, usable: u64) -> u64 {
        let needed = self
            .running()
            .map(|job| job.held.total().saturating_add(grown(job.held.growth_now, IMMINENT)))
            .chain(self.standing().map(|job| job.held.resident))
            .fold(0, u64::saturating_add);
        needed.saturating_sub(usable)
    }

    fn end_to_begin_anew(&mut self, id: JobId, lacking: u64) {
        self.forget_checkpoint(id);
        self.dequeue(id);
        self.forget_memory(id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.requeues += 1;
        let times = job.requeues;
        if let Some(live) = job.live_mut() {
            live.requeuing = true;
        }
        let reason = Reason::NoOtherWay { lacking, times, most: REQUEUES_MAX };
        // What was to be done to it in this step is of no use any more.
        self.unmark(id);
        self.decisions.push(Decision { job: id, action: Action::Requeue, reason });
    }

    /// A job that was to be ended could not be: it goes on as it was.
    pub(crate) fn goes_on(&mut self, id: JobId, reason: Reason) {
        let Some(live) = self.live_mut(id).filter(|live| live.requeuing) else { return };
        live.requeuing = false;
        // Whatever else held it, it stands still now for its user.
        let reason = if live.suspended { Reason::Asked } else { reason };
        if live.out.is_some_and(Out::is_memory) {
            self.memory.frozen.insert(id);
        } else if live.suspended && live.out.is_none() {
            self.park(id, Out::Suspended, Reason::Asked);
        }
        self.enqueue(id);
        self.mark(id, reason);
    }

    /// No process of such a job is left: it waits again. Those that were to start after it still wait for it.
    pub(crate) fn requeued(&mut self, id: JobId) {
        if self.live(id).is_none_or(|live| live.starting) {
            return;
        }
        self.release(id);
        self.unmark(id);
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Stage::Live(live) = &job.stage else { return };
        let (held, cancelled, withdrawn) = (live.suspended, live.signal.is_some(), live.withdrawn);
        let times = job.requeues.saturating_add(job.checkpoints);
        let error = if job.checkpoints > 0 && job.requeues == 0 {
            "it has written down what it had done, and was ended because memory could be had in no other way"
        } else {
            "it was ended because memory could be had in no other way"
        };
        let failed = Failure { again: rests_until(now, times), error: error.to_owned(), tried: false };
        job.stage = Stage::Waiting(Waiting { held, failed: Some(failed), ..Waiting::default() });
        // What it came to hold is what it is expected to need from now on.
        job.held.begin_anew();
        job.request.memory = job.request.memory.max(Some(job.held.peak));
        (job.since, job.passed, job.aged) = (now, 0, false);
        self.arrays.returned(&job.request, now);
        let array = job.request.array;
        self.lives.remove(&id);
        self.forget_memory(id);
        self.forget_steering(id);
        self.chunks.forget(id);
        self.one_more_waits();
        self.next_members_wait(array);
        if cancelled {
            self.strike_off(id, false, Reason::Asked);
        } else if withdrawn {
            self.strike_off(id, false, Reason::Withdrawn);
        } else {
            self.rearm(id);
        }
    }
}

fn rests_until(now: Instant, times: u32) -> Instant {
    now.after(REQUEUE_REST * (1 << times.saturating_sub(1).min(REQUEUES_MAX)))
}
