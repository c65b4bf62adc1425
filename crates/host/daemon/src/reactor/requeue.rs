//! Jobs that are ended for others and requeued: killed on the scheduler's word, put back in the queue once their
//! last process is gone, and started again by their keepers.
//!
//! That a job is being ended for this is on disk before it is: a daemon that comes after knows that its end was not
//! its own.

use pinfold_policy::{Event as SchedulerEvent, JobId};
use pinfold_proto::Ending;
use pinfold_proto::row::{JobRow, Usage};
use pinfold_proto::wire::{Phase, Reply};
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
        self.tell_again(job);
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

    /// Whether a keeper tells of the end of an earlier run, which was dealt with: it lost the daemon before it heard that
    /// the job waits again.
    pub(super) fn ended_to_wait_anew(&self, job: JobId, phase: &Phase) -> bool {
        let Phase::Ended { ending, run } = phase else { return false };
        self.jobs.table.get(&job).is_some_and(|live| is_of_an_earlier_run(&live.row, ending, *run))
    }

    /// Tells a job's keeper that it waits again.
    pub(super) fn tell_again(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get(&job) else { return };
        let reason =
            format!("job {job}: {}", live.row.reason.as_deref().unwrap_or("it was ended for others"));
        let reply = live.keeper.map(|id| Effect::Reply(id, Box::new(Reply::Again { job: job.0, reason })));
        self.outbox.extend(reply);
    }
}

/// Which of a job's runs is the one that it has, or has next: how often it was ended, or is being, to be begun anew.
pub(super) fn run_of(row: &JobRow) -> u32 {
    row.requeues.saturating_add(row.checkpoints)
}

/// Whether a job came to this end in a run that was ended for others, and was put back in the queue since; `run`: which
/// one it was, as far as its keeper was told.
fn is_of_an_earlier_run(row: &JobRow, ending: &Ending, run: Option<u32>) -> bool {
    // By whoever was let go for the last run its first process is named, if by nobody else.
    let is_before = run.map_or(row.started_us.is_none(), |run| run < run_of(row)) && row.main.is_none();
    is_before && run_of(row) > 0 && !row.requeuing && ending.signal == Some(SIGKILL)
}

#[cfg(test)]
mod tests {
    use pinfold_proto::JobSpec;
    use pinfold_proto::row::ProcessId;

    use super::*;

    /// A job that was put back in the queue once, and waits or has been told to start again.
    fn put_back(started_us: Option<u64>) -> JobRow {
        let row = JobRow::asked_for(1, 0, String::new(), JobSpec::default(), 5);
        JobRow { requeues: 1, started_us, ..row }
    }

    #[track_caller]
    fn check(row: &JobRow, signal: i32, run: Option<u32>, want: bool) {
        let ending = Ending { signal: Some(signal), ..Ending::default() };
        assert_eq!(is_of_an_earlier_run(row, &ending, run), want, "{signal} {run:?} {row:?}");
    }

    #[test]
    fn whose_end_it_is_follows_from_the_number_of_the_run() {
        for started_us in [None, Some(7)] {
            check(&put_back(started_us), SIGKILL, Some(0), true);
            check(&put_back(started_us), SIGKILL, Some(1), false);
            // An older keeper does not know it. What may have started is not begun a second time.
            check(&put_back(started_us), SIGKILL, None, started_us.is_none());
            check(&put_back(started_us), 15, Some(0), false);
        }
        let row = JobRow { requeues: 0, checkpoints: 2, ..put_back(Some(7)) };
        check(&row, SIGKILL, Some(1), true);
        // It is being ended for that.
        check(&JobRow { requeuing: true, ..put_back(Some(7)) }, SIGKILL, Some(0), false);
        check(&JobRow { requeues: 0, ..put_back(None) }, SIGKILL, None, false);
        // It could not be ended, and runs on.
        let main = Some(ProcessId { pid: 7, start_ticks: 7 });
        check(&JobRow { main, ..put_back(Some(7)) }, SIGKILL, Some(0), false);
    }
}
