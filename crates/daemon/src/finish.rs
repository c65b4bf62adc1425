//! How jobs end: their command's status comes from the keeper, the end of their last process from the
//! container; a job is over when both are known, or when nobody is left who could tell.

use std::collections::BTreeMap;

use pinfold_policy::{Event as Judged, JobId};
use pinfold_profile::meter::{Meter, Reading};
use pinfold_proto::row::JobRow;
use pinfold_proto::wire::{self, ErrorCode, Reply};
use pinfold_proto::{Ending, JobState};
use pinfold_sys::container::{Container, Detail};

use crate::answer::Wanted;
use crate::cost::ANSWER_MAX_BYTES;
use crate::daemon::Daemon;
use crate::event::Effect;
use crate::intake::recorded;
use crate::sample::{reading, stalls_row};

/// How many questions of one connection may wait for jobs to end.
const WAITS_MAX: usize = 16;

/// So many waits of one user are registered at a time, for so many jobs in all: each end of a job looks at each of them.
const WAITS_OF_USER_MAX: usize = 4096;
const WAITED_FOR_MAX: usize = 1_000_000;

impl Daemon {
    /// The command of a job ended.
    pub(crate) fn ended(&mut self, job: JobId, ending: Ending) {
        let Some(live) = self.jobs.get_mut(&job) else { return };
        live.row.ending = Some(ending);
        // A daemon that died in between may not have written that it started.
        live.row.started_us = live.row.started_us.or(Some(live.row.submitted_us));
        self.journal.touch(job);
        self.finish_if_empty(job);
        if self.begins_anew(job) {
            // The last of its processes are on their way out.
            self.watch_container(job);
            return self.finish_if_empty(job);
        }
        if let Some(live) = self.jobs.get_mut(&job).filter(|live| live.row.ending.is_some()) {
            // Some of its processes live on; the status is known and on disk all the same.
            live.lingers = true;
            let reply =
                live.keeper.map(|id| (id, recorded(job, Some(&live.row)), self.starts.has(&live.row)));
            if let Some((id, reply, lasting)) = reply {
                self.reply_lasting(id, reply, lasting);
            }
            self.watch_container(job);
            // It may have emptied between the look and the watch.
            self.finish_if_empty(job);
        }
    }

    /// The kernel says that a container changed.
    pub(crate) fn container_changed(&mut self, job: JobId) {
        self.finish_if_empty(job);
    }

    /// Nobody will say any more how a job ended.
    pub(crate) fn keeper_gone(&mut self, job: JobId) {
        let Some(live) = self.jobs.get_mut(&job) else { return };
        if live.row.spec.adopted.is_some() {
            return self.adopted_ended(job);
        }
        live.keeper_watch = None;
        live.orphaned = true;
        if live.container.is_none() {
            if self.awaits_another(job) {
                return;
            }
            return self.withdrawn(job, "its client is gone".to_owned());
        }
        live.row.reason = Some("its keeper was killed; how its command ends will not be known".to_owned());
        self.journal.touch(job);
        self.ends_with_its_keeper(job);
        self.watch_container(job);
        self.finish_if_empty(job);
    }

    /// Ends a job whose status is known, or can no longer be, once no process of it is left.
    pub(crate) fn finish_if_empty(&mut self, job: JobId) {
        let Some(live) = self.jobs.get(&job) else { return };
        if live.row.ending.is_none() && !live.orphaned {
            return;
        }
        let populated = live.container.as_deref().map(Container::is_populated);
        match populated {
            Some(Ok(true)) => self.lingering.watch(job, self.clock.now_us()),
            Some(Ok(false)) | None if self.begins_anew(job) => self.put_back(job),
            // The kernel is given time to tell how it ended.
            Some(Ok(false)) if self.hears_of_its_end(job) => {
                if self.jobs.contains_key(&job) {
                    self.lingering.watch_later(job, self.clock.now_us());
                }
            }
            Some(Ok(false)) | None => self.finish(job),
            Some(Err(error)) => {
                tracing::warn!(job = job.0, %error, "a container cannot be read; its job counts as over");
                self.finish(job);
            }
        }
    }

    /// The job is over: last figures, last row, and the slot to the next.
    fn finish(&mut self, job: JobId) {
        if self.processes.enabled() {
            self.take_records();
        }
        let now_us = self.clock.now_us();
        let Some(mut live) = self.jobs.remove(job) else { return };
        // Whoever hears that one is over which would have come back may rely on it.
        let lasting = self.forget_start(&live.row);
        self.running.remove(&job);
        self.lingering.forget(job);
        let mut meter = live.meter.take().unwrap_or_else(|| Box::new(Meter::new(job.0)));
        meter.processes_total(self.processes.total(job));
        let (counts, rows) = self.processes.finish(job, now_us);
        meter.counts(counts);
        for row in rows {
            self.journal.process(row);
        }
        for row in self.files.finish(job) {
            self.journal.file(row);
        }
        for row in self.jobs_nodes.finish(job) {
            self.journal.node(row);
        }
        live.set_state(JobState::Exited, now_us);
        let container = live.container.take();
        let peaceful = live.row.ending.is_some_and(|ending| ending.signal.is_none());
        let detail = if peaceful { Detail::Left } else { Detail::Totals };
        let measured = container.as_ref().and_then(|container| container.measure(detail).ok());
        // A short job is spared the reading: there is nothing to compare its stalls with.
        let long = live.row.usage.samples > 0;
        let stalls =
            container.as_ref().filter(|_| long).and_then(|container| container.stalls().ok().flatten());
        let last = measured.map(|measure| Reading {
            stalls: stalls.map(stalls_row),
            ..reading(&measure, now_us, JobState::Exited)
        });
        let measured_bytes = meter.measured_peak_bytes(last.as_ref());
        live.row.usage = meter.finish(last.as_ref(), live.row.ending.as_ref());
        let command_end = live.row.ending.filter(|_| !live.lingers).map(|ending| ending.ended_us);
        live.row.ended_us = Some(plausible_end(&live.row, command_end.unwrap_or(now_us), now_us));
        if let Some(measure) = measured
            && measure.oom_kills.is_some_and(|kills| kills > 0)
        {
            live.row.reason =
                Some("the kernel killed part of it for memory (its limit, or the host's)".to_owned());
        } else if live.killed {
            live.row.reason = Some(KILLED.to_owned());
        } else {
            live.row.reason = Some(how_it_ended(&live.row));
        }
        // One that was not heard will still tell, and is answered then.
        if let Some(id) = live.keeper.filter(|_| !live.untold || live.row.ending.is_some()) {
            self.reply_lasting(id, recorded(job, Some(&live.row)), lasting);
        }
        if let Some(container) = container {
            if let Err(error) = container.share_again() {
                tracing::warn!(job = job.0, %error, "PUs of an isolated job are kept from others until its group is gone");
            }
            self.sampler.keep_finished(job, *container);
            self.effects.push(Effect::Remove(job));
        } else {
            self.drop_scratch(job);
        }
        self.guard.over(job.0);
        self.drifts.forget(job);
        self.own_nodes.forget(job);
        self.learn_from_end(&mut live.row, measured_bytes);
        self.ended.count(&live.row);
        self.left_set(&live.row);
        self.journal.close(live.row, live.stored);
        self.judge(Judged::Exited(job));
        self.end_isolation(job);
        self.tell_waiters(job, lasting);
    }

    /// A job that never ran is over.
    pub(crate) fn close_unstarted(&mut self, job: JobId, reason: &str) {
        let Some(mut live) = self.jobs.remove(job) else { return };
        live.does_not_begin();
        let lasting = self.forget_start(&live.row);
        let now_us = self.clock.now_us();
        live.set_state(JobState::Exited, now_us);
        live.row.ended_us = Some(now_us);
        live.row.cpus = None;
        live.row.reason = Some(reason.to_owned());
        self.ended.count(&live.row);
        self.left_set(&live.row);
        self.journal.close(live.row, live.stored);
        self.end_isolation(job);
        self.tell_waiters(job, lasting);
        self.drop_scratch(job);
    }

    /// A keeper takes a waiting job back, or is gone.
    pub(crate) fn withdrawn(&mut self, job: JobId, reason: String) {
        let Some(live) = self.jobs.get_mut(&job) else { return };
        let holds = |container: &Container| container.is_populated().unwrap_or(true);
        if live.container.as_deref().is_some_and(holds) {
            // Its keeper has nothing more to tell of it than this.
            live.orphaned = true;
            live.row.reason = Some(reason);
            self.journal.touch(job);
            self.ends_with_its_keeper(job);
            self.catch_up(job);
            self.watch_container(job);
            return self.finish_if_empty(job);
        }
        if let Some(container) = live.container.take() {
            // It was let go, but no process came of it, or one that ended before it heard so.
            live.row.started_us = None;
            live.row.main = None;
            self.running.remove(&job);
            self.sampler.keep_finished(job, *container);
            self.effects.push(Effect::Remove(job));
        }
        let Some(live) = self.jobs.get(&job) else { return };
        let reply = live.keeper.map(|id| (id, recorded(job, None), self.starts.has(&live.row)));
        if let Some((id, reply, lasting)) = reply {
            self.reply_lasting(id, reply, lasting);
        }
        // Closed first: the judgement's own striking-off then finds nothing to add to these words.
        self.close_unstarted(job, &reason);
        self.judge(Judged::Withdrawn(job));
        self.judge(Judged::Exited(job));
    }

    /// A job's child was gone before it could start; its keeper will say why.
    pub(crate) fn child_gone(&mut self, job: JobId) {
        if let Some(live) = self.jobs.get_mut(&job) {
            live.child = None;
            self.awaits_answer(job);
        }
    }

    /// Registers a client that waits until jobs are over.
    pub(crate) fn wait_for(
        &mut self,
        id: crate::event::ConnectionId,
        user: pinfold_sys::peer::Peer,
        wanted: Vec<u64>,
    ) {
        if self.waiters.iter().filter(|(waiter, ..)| *waiter == id).count() >= WAITS_MAX {
            let text = format!("{WAITS_MAX} waits on one connection are the most");
            return self.reply(id, crate::intake::error_reply((ErrorCode::Refused, text)));
        }
        let own = self
            .waiters
            .iter()
            .filter(|(waiter, ..)| self.server.peer(*waiter).is_some_and(|p| p.uid == user.uid));
        let (waits, jobs) =
            own.fold((1, wanted.len()), |(waits, jobs), (_, _, named)| (waits + 1, jobs + named.len()));
        if waits > WAITS_OF_USER_MAX || jobs > WAITED_FOR_MAX {
            let text =
                format!("{waits} waits of yours for {jobs} jobs are too many: {WAITS_OF_USER_MAX} for");
            let text = format!("{text} {WAITED_FOR_MAX} in all are the most");
            return self.reply(id, crate::intake::error_reply((ErrorCode::Refused, text)));
        }
        // Each is looked at once: a thousand may be named, and the same one a thousand times. It is told as often.
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        wanted.iter().for_each(|&job| *times.entry(job).or_default() += 1);
        let mut bytes = 0;
        for (job, times) in times {
            match self.row_for(user, JobId(job)) {
                Ok(row) => bytes += wire::json_bytes(&row.spec) * times,
                Err(refusal) => return self.reply(id, crate::intake::error_reply(refusal)),
            }
        }
        if bytes > ANSWER_MAX_BYTES {
            return self.reply(id, crate::intake::error_reply(crate::answer::too_long()));
        }
        let open = wanted.iter().map(|&job| JobId(job)).filter(|job| self.jobs.contains_key(job)).collect();
        self.waiters.push((id, open, wanted));
        // It may ask for one that was over just before.
        self.answer_waiters(self.durable.is_behind());
    }

    fn tell_waiters(&mut self, job: JobId, lasting: bool) {
        if self.waiters.is_empty() {
            return;
        }
        for (_, open, _) in &mut self.waiters {
            open.remove(&job);
        }
        self.answer_waiters(lasting);
    }

    /// Those that wait for nothing any more; if `lasting`, once that is on disk.
    fn answer_waiters(&mut self, lasting: bool) {
        let (done, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiters).into_iter().partition(|(_, open, _)| open.is_empty());
        self.waiters = waiting;
        for (id, _, wanted) in done {
            let mut told = BTreeMap::new();
            for &job in &wanted {
                told.entry(job).or_insert_with(|| self.report_of(JobId(job), Wanted::default()));
            }
            let reports = wanted.iter().filter_map(|job| told.get(job)?.clone()).collect();
            self.reply_lasting(id, Reply::Report(reports), lasting);
        }
    }

    /// The last row of a job that is over.
    pub(crate) fn stored_row(&mut self, job: JobId) -> Option<JobRow> {
        if let Some(row) = self.journal.unwritten(job) {
            return Some(row.clone());
        }
        self.journal.store().job(job.0).ok().flatten()
    }
}

/// When a job ended, if its keeper says so: not before it began, and not later than now. One that ended long ago would be
/// struck off as too old.
pub(crate) fn plausible_end(row: &JobRow, told_us: u64, now_us: u64) -> u64 {
    told_us.min(now_us).max(row.started_us.unwrap_or(row.submitted_us))
}

/// Why a job ended that was cancelled and did not end by itself.
pub(crate) const KILLED: &str = "killed: it did not end within 10 s of being cancelled";

/// How a job ended, in words, beside its status.
pub(crate) fn how_it_ended(row: &JobRow) -> String {
    let Some(ending) = row.ending else {
        let restarted = row.reason.as_deref().is_some_and(|reason| reason == crate::restore::RESTARTED);
        if row.spec.adopted.is_some() && row.started_us.is_some() && !restarted {
            return crate::adopted::END_UNKNOWN.to_owned();
        }
        return row
            .reason
            .clone()
            .unwrap_or_else(|| "its keeper was killed; how it ended is not known".to_owned());
    };
    let cancelled = row.reason.as_deref().filter(|reason| reason.starts_with("killed:"));
    match (cancelled, ending.exit_code, ending.signal) {
        (Some(reason), ..) => reason.to_owned(),
        (_, Some(0), _) => "done".to_owned(),
        (_, Some(code), _) => format!("its command ended with exit code {code}"),
        (_, _, Some(signal)) => {
            let name = pinfold_sys::signals::name(signal).map_or(signal.to_string(), str::to_owned);
            format!("its command was ended by signal {name}")
        }
        (_, None, None) => "its command ended".to_owned(),
    }
}
