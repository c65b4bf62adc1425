//! Jobs that wait for a time, or for how other jobs end: checked as they are submitted, let go, or struck off once that can
//! never be.

use pinfold_policy::{Event as SchedulerEvent, JobId};
use pinfold_profile::report::date_utc;
use pinfold_proto::row::JobRow;
use pinfold_proto::view::seconds;
use pinfold_proto::wire::ErrorCode;
use pinfold_proto::{After, AfterEnd, End, JobSpec, JobState};
use pinfold_sys::peer::Peer;

use crate::clients::rights;
use crate::core::clock::wall_us;
use crate::core::{Next, Refusal, denied};
use crate::jobs::arrays::ArraysRead;
use crate::jobs::gates::{Condition, Verdict, not_before};
use crate::reactor::Daemon;

impl Daemon {
    /// How other jobs must end for this one to start, as they stand. How a job ends is told to users who may see it; of
    /// others' jobs only that they end can be waited for.
    pub(super) fn conditions(
        &mut self,
        user: Peer,
        spec: &JobSpec,
        read: &mut ArraysRead,
    ) -> Result<Vec<Condition>, Refusal> {
        let mut all = Vec::new();
        for after in spec.after.iter().filter(|after| after.end != AfterEnd::Any) {
            for job in after.jobs() {
                if !self.may_wait_for_end_of(user, JobId(job.job), read)? {
                    let end = after.end.as_str();
                    return Err(denied(&format!(
                        "--after {end}:{job}: job {job} belongs to another user; only that it ends can be waited for \
                         (any:{job})"
                    )));
                }
            }
            all.push(self.jobs.table.condition(&mut self.outbox.journal, read, after)?);
        }
        Ok(all)
    }

    fn may_wait_for_end_of(
        &mut self,
        user: Peer,
        job: JobId,
        read: &mut ArraysRead,
    ) -> Result<bool, Refusal> {
        let config = &self.ctx.configured.config;
        if let Some(live) = self.jobs.table.get(&job) {
            return Ok(rights::may_touch(config, user, &live.row));
        }
        let over = read.job(&mut self.outbox.journal, job.0)?;
        Ok(over.is_some_and(|over| rights::may_touch_jobs_of(config, user, over.uid, over.project.as_ref())))
    }

    /// Closes the gate of a new job if a time or other jobs come first; says whether it is closed.
    ///
    /// # Errors
    /// In words, if it could never start.
    pub(super) fn close_gate(
        &mut self,
        row: &mut JobRow,
        conditions: Vec<Condition>,
    ) -> Result<bool, String> {
        let (job, now_us) = (JobId(row.job), wall_us());
        let closed = self.jobs.gates.close(job, row.spec.terms.begin_us, conditions, now_us)?;
        if closed {
            row.reason = self.gate_words(job).map(|(cause, _)| cause);
        }
        Ok(closed)
    }

    /// What a job waits for there, and what would change it.
    pub(super) fn gate_words(&self, job: JobId) -> Option<(String, String)> {
        self.jobs.gates.words(job, |at_us| date_utc(seconds(at_us)))
    }

    /// A job is over: those that wait for how it ended are let go, or never start.
    pub(super) fn predecessor_over(&mut self, row: &JobRow) {
        let job = JobId(row.job);
        self.jobs.gates.forget(job);
        self.jobs.gates.over(job, row.ended_well());
        self.decide_gates();
    }

    /// Lets those go, or strikes them off, of which that is to be decided, as many as may be in a turn.
    pub(super) fn decide_gates(&mut self) {
        while let Some((follower, verdict)) = self.jobs.gates.next() {
            self.decide_gate(follower, verdict);
        }
    }

    /// The time of jobs has come.
    pub(super) fn on_begins_due(&mut self) {
        for job in self.jobs.gates.begun(wall_us()) {
            self.decide_gate(job, Verdict::Opens);
        }
    }

    fn decide_gate(&mut self, job: JobId, verdict: Verdict) {
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        if live.has_started() || live.container.is_some() {
            return;
        }
        match verdict {
            Verdict::Opens => {
                // One without a keeper waits for that still.
                if live.awaits_keeper.is_none() {
                    live.row.reason = None;
                    self.outbox.journal.touch(job);
                }
                self.outbox.step(SchedulerEvent::Gate { job, closed: false });
                self.outbox.then(Next::Isolate);
            }
            Verdict::Never(why) => {
                live.row.end = Some(End::Dependency);
                self.outbox.then(Next::NotStarted(job, why, ErrorCode::Refused));
            }
        }
    }

    /// A job of an earlier life waits for what it was asked to wait for, until all jobs are known again: unless that was over
    /// as its daemon ended, or only its time was to come and has. To open its gate later would have it wait anew.
    pub(super) fn close_gate_again(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        if live.has_started() {
            return;
        }
        if live.row.requeues > 0 || live.row.checkpoints > 0 {
            return self.close_gate_of_requeued(job);
        }
        if !has_gate(&live.row.spec) {
            return;
        }
        let is_early = live.row.spec.terms.begin_us.is_some_and(|at| at > wall_us());
        match (is_early, live.row.waits_since_us) {
            (false, Some(_)) => {}
            (false, None) if !has_conditions(&live.row.spec) => live.row.reason = None,
            _ => self.jobs.gates.close_for_now(job),
        }
    }

    /// A job that was requeued had all that it was asked to wait for: only a time that was set since can keep it.
    fn close_gate_of_requeued(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        let Some(begin_us) = live.row.spec.terms.begin_us else { return };
        let closed = self.jobs.gates.close(job, Some(begin_us), Vec::new(), wall_us());
        if closed == Ok(false) && live.row.reason == Some(not_before(&date_utc(seconds(begin_us)))) {
            // It came while no daemon ran.
            live.row.reason = None;
        }
    }

    /// All jobs are known again: which of them wait on.
    pub(super) fn restore_gates(&mut self) {
        let now_us = wall_us();
        // Many may wait for the members of the same arrays, each of which is read once.
        let (mut read, mut last): (_, Option<Condition>) = (ArraysRead::for_restore(), None);
        for job in self.jobs.gates.closed_for_now() {
            let Some(live) = self.jobs.table.get(&job) else { continue };
            let (begin_us, after): (_, Vec<After>) =
                (live.row.spec.terms.begin_us, live.row.spec.after.clone());
            let mut stands = |after: &After| {
                let (journal, table) = (&mut self.outbox.journal, &self.jobs.table);
                let same = last.take().filter(|last| last.after == *after).map(Ok);
                let stands = same.unwrap_or_else(|| table.condition(journal, &mut read, after))?;
                Ok(last.insert(stands).clone())
            };
            let conditions = after.iter().filter(|after| after.end != AfterEnd::Any).map(&mut stands);
            let conditions = match conditions.collect::<Result<Vec<_>, Refusal>>() {
                Ok(conditions) => conditions,
                // What is not known opens no gate. It stays closed until a daemon can read.
                Err((_, why)) => {
                    tracing::error!(job = job.0, why, "it is not known what the job waits for");
                    self.jobs.set_reason(&mut self.outbox.journal, job, why);
                    continue;
                }
            };
            match self.jobs.gates.close(job, begin_us, conditions, now_us) {
                Ok(true) => {
                    let words = self.gate_words(job).map(|(cause, _)| cause).unwrap_or_default();
                    self.jobs.set_reason(&mut self.outbox.journal, job, words);
                }
                Ok(false) => self.decide_gate(job, Verdict::Opens),
                Err(why) => {
                    self.jobs.gates.forget(job);
                    self.decide_gate(job, Verdict::Never(why));
                }
            }
        }
    }

    /// `pinfold set --begin`.
    pub(super) fn set_begin(&mut self, job: JobId, begin_us: Option<u64>) -> Result<(), Refusal> {
        let now_us = wall_us();
        let Some(live) = self.jobs.table.get_mut(&job) else { return Ok(()) };
        if !matches!(live.row.state, JobState::Queued | JobState::Held) || live.granted {
            return Err((ErrorCode::Failed, format!("job {job} has begun already")));
        }
        live.row.spec.terms.begin_us = begin_us;
        let closed = self.jobs.gates.set_begin(job, begin_us, now_us);
        let words = self.gate_words(job).map(|(cause, _)| cause);
        if let Some(live) = self.jobs.table.get_mut(&job) {
            live.row.reason = words;
        }
        self.outbox.journal.touch(job);
        self.outbox.step(SchedulerEvent::Gate { job, closed });
        self.outbox.then(Next::Follow(job));
        self.outbox.then(Next::Isolate);
        Ok(())
    }
}

fn has_gate(spec: &JobSpec) -> bool {
    spec.terms.begin_us.is_some() || has_conditions(spec)
}

fn has_conditions(spec: &JobSpec) -> bool {
    spec.after.iter().any(|after| after.end != AfterEnd::Any)
}
