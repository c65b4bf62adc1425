//! Jobs that are ended for others and requeued: killed on the scheduler's word, put back in the queue once their
//! last process is gone, and started again by their keepers.
//!
//! That a job is being ended for this is on disk before it is: a daemon that comes after knows that its end was not
//! its own.

use pinfold_policy::{Event as SchedulerEvent, JobId};
use pinfold_proto::Ending;
use pinfold_proto::row::Usage;
use pinfold_proto::wire::Reply;
use pinfold_sys::signals::SIGKILL;

use crate::core::{Effect, Next};
use crate::jobs::JobRecord;
use crate::reactor::Daemon;

impl Daemon {
    /// Whether a job that ended was ended to be requeued, and there is a keeper to do so.
    pub(super) fn is_requeued(&self, job: JobId) -> bool {
        let live = self.jobs.table.get(&job);
        live.is_some_and(|live| live.is_ended_to_be_requeued() && live.keeper.is_some())
    }

    /// Whether such a job waits for its keeper, which is to come: it told of the end, and lost the daemon, or its
    /// connection, before it heard that the job waits again.
    pub(super) fn awaits_keeper_to_requeue(&self, job: JobId) -> bool {
        let awaits = |live: &JobRecord| live.keeper.is_none() && !live.orphaned;
        self.jobs.table.get(&job).is_some_and(|live| live.is_ended_to_be_requeued() && awaits(live))
    }

    /// No process of such a job is left: it waits again, as it did before its start.
    pub(super) fn requeue(&mut self, job: JobId) {
        if self.meters.processes.enabled() {
            self.meters.catch_up(&self.ctx, &mut self.jobs, job);
        }
        let now_us = self.ctx.clock.now_us();
        // Those of the time that counts take their places in the store.
        let _ = self.meters.processes.finish(job, now_us);
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        let container = live.container.take();
        live.meter = None;
        live.members = Default::default();
        (live.child, live.granted, live.asked_child, live.lingers) = (None, false, false, false);
        (live.found_granted, live.emptied_us) = (false, None);
        live.deferred.clear();
        live.waits_anew(now_us);
        let Some(live) = self.jobs.table.get(&job) else { return };
        let over = self.over(live);
        self.meters.others.run_over(over);
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        let row = &mut live.row;
        (row.requeuing, row.started_us, row.main, row.cpus, row.ending) = (false, None, None, None, None);
        (row.suspended_us, row.usage, row.waits_since_us) = (0, Usage::default(), Some(now_us));
        crate::jobs::bounds::forget_numbers(&mut row.spec);
        let reason = format!("job {job}: {}", row.reason.as_deref().unwrap_or("it was ended for others"));
        let reply = live.keeper.map(|id| Effect::Reply(id, Box::new(Reply::Again { job: job.0, reason })));
        self.outbox.extend(reply);
        self.run_over(job, container);
        self.surroundings.hooks.close(job);
        self.outbox.journal.touch(job);
        if self.ctx.policy.job(job).is_some() {
            self.outbox.step(SchedulerEvent::Requeued(job));
        } else {
            // Ended while no daemon ran.
            self.adopt(job, false);
        }
        self.outbox.then(Next::Follow(job));
    }

    /// Whether this can be the end of a job that was dealt with already: the job waits again.
    pub(super) fn may_be_requeued_already(&self, job: JobId, ending: &Ending) -> bool {
        let requeue = |row: &pinfold_proto::row::JobRow| {
            (row.requeues > 0 || row.checkpoints > 0)
                && !row.requeuing
                && row.started_us.is_none()
                && ending.signal == Some(SIGKILL)
        };
        self.jobs.table.get(&job).is_some_and(|live| requeue(&live.row))
    }

    /// Whether a keeper tells of such an end: it lost the daemon before it heard that the job waits again. Tells it again
    /// then.
    pub(super) fn is_requeued_already(&mut self, job: JobId, ending: &Ending) -> bool {
        if !self.may_be_requeued_already(job, ending) {
            return false;
        }
        let Some(live) = self.jobs.table.get(&job) else { return false };
        let reason =
            format!("job {job}: {}", live.row.reason.as_deref().unwrap_or("it was ended for others"));
        self.outbox
            .extend(live.keeper.map(|id| Effect::Reply(id, Box::new(Reply::Again { job: job.0, reason }))));
        true
    }
}
