//! How jobs end: their command's status comes from the keeper, the end of their last process from the
//! container; a job is over when both are known, or when nobody is left who could tell.

use std::collections::BTreeSet;

use pinfold_policy::{Event as SchedulerEvent, JobId};
use pinfold_profile::meter::{Meter, Reading};
use pinfold_proto::row::{JobRow, ProcessId};
use pinfold_proto::wire::{ErrorCode, Reply};
use pinfold_proto::{End, Ending, JobState, OUT_OF_MEMORY};
use pinfold_sys::container::{Container, Detail, Measure};
use pinfold_topo::CpuSet;

use crate::core::{Effect, Next, is_alive};
use crate::host::allocation;
use crate::jobs::{JobRecord, endings};
use crate::meters::others::Over;
use crate::meters::sample::{reading, stalls_row};
use crate::reactor::Daemon;

/// A group that used this much CPU time, in microseconds, had more in it than a first process that waits to begin: that one
/// only reads whether it may.
const RAN_CPU_US: u64 = 100_000;

impl Daemon {
    /// The command of a job ended.
    pub(super) fn ended(&mut self, job: JobId, ending: Ending) {
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        live.row.ending = Some(ending);
        // A daemon that died in between may not have written that it started.
        live.row.started_us = live.row.started_us.or(Some(live.row.submitted_us));
        self.outbox.journal.touch(job);
        self.finish_if_empty(job);
        if self.is_requeued(job) {
            // The last of its processes are on their way out.
            self.watch_container(job);
            return self.finish_if_empty(job);
        }
        if let Some(live) = self.jobs.table.get_mut(&job).filter(|live| live.row.ending.is_some()) {
            // Some of its processes live on; the status is known and on disk all the same.
            live.lingers = true;
            live.row.reason = Some(endings::lives_on(&live.row));
            let reply = live
                .keeper
                .map(|id| (id, endings::recorded(job, Some(&live.row)), self.jobs.starts.has(&live.row)));
            if let Some((id, reply, lasting)) = reply {
                self.outbox.reply_lasting(id, reply, lasting);
            }
            self.watch_container(job);
            // It may have emptied between the look and the watch.
            self.finish_if_empty(job);
        }
    }

    /// The kernel says that a container changed.
    pub(super) fn on_container_changed(&mut self, job: JobId) {
        self.finish_if_empty(job);
    }

    /// Nobody will say any more how a job ended.
    pub(super) fn on_keeper_gone(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        if live.row.spec.adopted.is_some() {
            return self.adopted_ended(job);
        }
        live.keeper_watch = None;
        if live.container.is_none() {
            if self.awaits_new_keeper(job) {
                return;
            }
            return self.withdrawn(job, "its client is gone".to_owned());
        }
        live.orphaned = true;
        let unknown = "its keeper was killed; how its command ends will not be known".to_owned();
        live.row.reason = Some(endings::without_keeper(&live.row, unknown));
        self.outbox.journal.touch(job);
        allocation::ends_with_its_keeper(&mut self.outbox, &mut self.jobs.table, job);
        self.watch_container(job);
        self.finish_if_empty(job);
    }

    /// Ends a job whose status is known, or can no longer be, once no process of it is left.
    pub(super) fn finish_if_empty(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get(&job) else { return };
        if (live.row.ending.is_none() && !live.orphaned) || self.awaits_keeper_to_requeue(job) {
            return;
        }
        let populated = live.container.as_deref().map(Container::is_populated);
        match populated {
            // What it submitted does not wait for it, nor it for that.
            Some(Ok(true)) if self.is_requeued(job) || !self.has_keepers_alone(job) => {
                let main = self.jobs.table.get(&job).and_then(|live| live.row.main);
                if !main.is_some_and(|main| is_alive(&self.ctx.proc, main)) {
                    self.note_members(job);
                }
                self.jobs.lingering.watch(job, self.ctx.clock.now_us());
            }
            Some(Ok(true)) => self.finish(job),
            Some(Ok(false)) | None if self.is_requeued(job) => self.requeue(job),
            // The kernel is given time to tell how it ended.
            Some(Ok(false)) if self.hears_of_its_end(job) => {
                if self.jobs.table.contains_key(&job) {
                    self.jobs.lingering.watch_later(job, self.ctx.clock.now_us());
                }
            }
            Some(Ok(false)) | None => self.finish(job),
            Some(Err(error)) => {
                tracing::warn!(job = job.0, %error, "a container cannot be read; its job counts as over");
                self.finish(job);
            }
        }
    }

    /// Whether all that is left of a job are processes that keep other jobs, which were submitted within it.
    fn has_keepers_alone(&self, job: JobId) -> bool {
        let Some(live) = self.jobs.table.get(&job) else { return false };
        let others = self.jobs.table.values().filter(|live| live.id() != job);
        let kept: BTreeSet<u32> = others.filter_map(|live| Some(live.row.keeper?.pid)).collect();
        // Without groups, which processes are left takes a look at the whole host. While the first one lives, none is
        // needed.
        let works = |main: ProcessId| !kept.contains(&main.pid) && is_alive(&self.ctx.proc, main);
        if kept.is_empty() || live.row.main.is_some_and(works) {
            return false;
        }
        let Some(Ok(left)) = live.container.as_deref().map(Container::pids) else { return false };
        !left.is_empty() && left.iter().all(|pid| kept.contains(pid))
    }

    /// The job is over: last figures, last row, and the slot to the next.
    fn finish(&mut self, job: JobId) {
        if self.meters.processes.enabled() {
            self.meters.catch_up(&self.ctx, &mut self.jobs, job);
        }
        let now_us = self.ctx.clock.now_us();
        let Some(mut live) = self.jobs.table.remove(job) else { return };
        let mut meter = live.meter.take().unwrap_or_else(|| Box::new(Meter::new(job.0)));
        meter.processes_total(self.meters.processes.total(job));
        let (counts, rows) = self.meters.processes.finish(job, now_us);
        meter.counts(counts);
        rows.into_iter().for_each(|row| self.outbox.journal.process(row));
        live.set_state(JobState::Exited, now_us);
        let container = live.container.take();
        // A script tells of a program of its own that was killed by its exit code.
        let peaceful =
            live.row.ending.is_some_and(|ending| ending.signal.is_none() && ending.exit_code == Some(0));
        let detail = if peaceful { Detail::Left } else { Detail::Totals };
        let measured = container.as_ref().and_then(|container| container.measure(detail).ok());
        live.group_cpu_us = self.group_cpu_us(&live, measured.as_ref());
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
        live.row.ended_us = Some(endings::plausible_end(&live.row, command_end.unwrap_or(now_us), now_us));
        if let Some(measure) = measured
            && measure.oom_kills.is_some_and(|kills| kills > 0)
        {
            live.row.reason = Some(format!("{OUT_OF_MEMORY} (its limit, or the host's)"));
        } else if live.killed && !live.row.end.is_some_and(End::is_limit) {
            live.row.reason = Some(endings::KILLED.to_owned());
        } else {
            live.row.reason = Some(endings::how_it_ended(&live.row));
        }
        // A client that hears that one is over which would have come back may rely on it.
        let lasting = self.jobs.starts.end_start(&mut self.outbox, &live.row);
        // One that was not heard will still tell, and is answered then.
        if let Some(id) = live.keeper.filter(|_| !live.untold || live.row.ending.is_some()) {
            self.outbox.reply_lasting(id, endings::recorded(job, Some(&live.row)), lasting);
        }
        if let Some(Err(error)) = container.as_ref().map(|container| container.share_again()) {
            tracing::warn!(job = job.0, %error, "PUs of an isolated job are kept from others until its group is gone");
        }
        self.meters.name_after_work(&mut self.outbox.journal, &mut live.row);
        self.meters.learned.learn_from_end(&self.ctx, &mut self.outbox, &mut live.row, measured_bytes);
        self.outbox.step(SchedulerEvent::Exited(job));
        self.job_over(live, container, lasting);
    }

    /// A job that never ran is over.
    pub(super) fn close_unstarted(&mut self, job: JobId, reason: &str) {
        let Some(mut live) = self.jobs.table.remove(job) else { return };
        live.does_not_begin();
        let lasting = self.jobs.starts.end_start(&mut self.outbox, &live.row);
        let now_us = self.ctx.clock.now_us();
        live.set_state(JobState::Exited, now_us);
        live.row.ended_us = Some(now_us);
        live.row.cpus = None;
        live.row.reason = Some(reason.to_owned());
        self.job_over(live, None, lasting);
    }

    /// A job is over: every room forgets it. The only list of what that is.
    fn job_over(&mut self, live: Box<JobRecord>, container: Option<Box<Container>>, lasting: bool) {
        let job = live.id();
        let over = self.over(&live);
        self.meters.others.run_over(over);
        self.run_over(job, container);
        self.meters.job_over(job, &mut self.outbox.journal, self.ctx.clock.now_us());
        self.meters.ended.count(&live.row);
        self.host.job_over(job);
        if self.host.resources.job_over(&self.ctx.configured.config, job) {
            self.outbox.then(Next::Configure);
        }
        self.host.sets.job_left(&self.ctx, &live.row);
        self.predecessor_over(&live.row);
        self.outbox.journal.close(live.row, live.stored);
        self.host.isolated.end_isolation(
            &self.ctx,
            &mut self.outbox,
            &self.jobs.table,
            &mut self.host.sets,
            job,
        );
        self.clients.waiters.job_over(job);
        self.answer_waiters(lasting);
        self.answer_starts(job);
    }

    /// What a run that is over used is not others' load. Where a group has all of its processes, that is what the group
    /// used, and its keeper's word does not count.
    pub(super) fn over(&self, live: &JobRecord) -> Over {
        let row = &live.row;
        let own =
            row.cpus.as_deref().and_then(|cpus| cpus.parse::<CpuSet>().ok()).map_or(0, |cpus| cpus.len());
        let pus = if own > 0 { own } else { self.ctx.topology.usable().len() };
        let started_us = row.started_us.unwrap_or(row.submitted_us);
        let cpu_us = live.group_cpu_us.unwrap_or_else(|| cpu_us(row));
        let ended_us = self.ctx.clock.now_us();
        Over { job: live.id(), started_us, ended_us, pus: pus as u64, cpu_us }
    }

    /// The CPU time of a job by its group, where that has all of its processes.
    fn group_cpu_us(&self, live: &JobRecord, measured: Option<&Measure>) -> Option<u64> {
        let one_by_one = live.row.spec.adopted.as_ref().is_some_and(|adopted| self.knows_each(adopted));
        let measured = measured.filter(|_| !one_by_one && !self.is_rootless())?;
        Some(measured.cpu_user_us.saturating_add(measured.cpu_system_us))
    }

    /// A job has no process any more, as it is over or waits again: what belongs to one run of it goes, its container
    /// and what is around it once its row is committed.
    pub(super) fn run_over(&mut self, job: JobId, container: Option<Box<Container>>) {
        self.jobs.run_over(job);
        self.host.guard.over(job.0);
        match container {
            Some(container) => {
                self.jobs.finished.keep(job, *container);
                self.outbox.push(Effect::Remove(job));
            }
            None => self.surroundings.remove_surroundings(&mut self.outbox, job),
        }
    }

    /// Whether a job's group has had more processes, or used more, than the one has that is to become its command: it ran,
    /// whatever its keeper says. Without groups, what ended is not known.
    pub(super) fn is_seen_to_have_run(&self, job: JobId) -> bool {
        let container = self.jobs.table.get(&job).and_then(|live| live.container.as_deref());
        let Some(measured) = container.and_then(|container| container.measure(Detail::Left).ok()) else {
            return false;
        };
        measured.cpu_user_us.saturating_add(measured.cpu_system_us) >= RAN_CPU_US
            || self.meters.processes.total(job) > 1
    }

    /// A keeper takes a waiting job back, or is gone.
    pub(super) fn withdrawn(&mut self, job: JobId, reason: String) {
        let has_run = self.is_seen_to_have_run(job);
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        let holds = |container: &Container| has_run || container.is_populated().unwrap_or(true);
        if live.container.as_deref().is_some_and(holds) {
            // Its keeper has nothing more to tell of it than this.
            live.orphaned = true;
            live.row.reason = Some(endings::without_keeper(&live.row, reason));
            self.outbox.journal.touch(job);
            allocation::ends_with_its_keeper(&mut self.outbox, &mut self.jobs.table, job);
            self.catch_up(job);
            self.watch_container(job);
            return self.finish_if_empty(job);
        }
        if let Some(container) = live.container.take() {
            // It was let go, but no process came of it, or one that ended before it heard so.
            live.row.started_us = None;
            live.row.main = None;
            self.run_over(job, Some(container));
        }
        let Some(live) = self.jobs.table.get(&job) else { return };
        let reply = live.keeper.map(|id| (id, endings::recorded(job, None), self.jobs.starts.has(&live.row)));
        if let Some((id, reply, lasting)) = reply {
            self.outbox.reply_lasting(id, reply, lasting);
        }
        // Closed first: the scheduler's own striking-off then finds nothing to add to these words.
        self.close_unstarted(job, &reason);
        self.outbox.step(SchedulerEvent::Withdrawn(job));
        self.outbox.step(SchedulerEvent::Exited(job));
    }

    /// A job's child was gone before it could start; its keeper will say why.
    pub(super) fn on_child_gone(&mut self, job: JobId) {
        if let Some(live) = self.jobs.table.get_mut(&job) {
            live.child = None;
            self.jobs.unheard.awaits_answer(&self.ctx, &mut self.jobs.table, job);
        }
    }

    /// A job is not started, and its client told why.
    pub(super) fn refuse_start(&mut self, job: JobId, reason: &str, code: ErrorCode) {
        tracing::warn!(job = job.0, reason, "a job is not started");
        let Some(live) = self.jobs.table.get(&job) else { return };
        if let Some(id) = live.keeper {
            let words = format!("job {job}: {reason}");
            let reply = Reply::Struck { job: job.0, reason: words, code };
            self.outbox.push(Effect::Reply(id, Box::new(reply)));
        }
        let waits = !live.granted;
        self.close_unstarted(job, reason);
        if waits {
            self.outbox.step(SchedulerEvent::Withdrawn(job));
        }
        self.outbox.step(SchedulerEvent::Exited(job));
    }

    /// Looks at the jobs that are due, for a bounded time.
    pub(super) fn on_lingering_due(&mut self) {
        let begun = std::time::Instant::now();
        let took_us = || u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let now_us = self.ctx.clock.now_us();
        while let Some(job) = self.jobs.lingering.next(now_us) {
            if self.lingers(job) {
                self.finish_if_empty(job);
            } else {
                // What stood around it is gone already, or it would not be looked at.
                self.jobs.finished.remove(&self.ctx, &mut self.jobs.lingering, job);
            }
            if !self.lingers(job) && !self.jobs.finished.has(job) {
                self.jobs.lingering.forget(job);
            }
            if took_us() >= crate::jobs::lingering::TURN_MAX_US {
                break;
            }
        }
        self.jobs.lingering.rest(took_us(), self.ctx.clock.now_us());
    }

    /// Whether only processes that live on keep a job from its end.
    fn lingers(&self, job: JobId) -> bool {
        let told = |live: &JobRecord| live.row.ending.is_some() || live.orphaned;
        self.jobs.table.get(&job).is_some_and(|live| told(live) && live.container.is_some())
    }
}

/// The CPU time of a run that is over, as far as it is known.
fn cpu_us(row: &JobRow) -> u64 {
    let measured = row.usage.cpu_user_us.saturating_add(row.usage.cpu_system_us);
    row.ending.map_or(measured, |end| measured.max(end.cpu_user_us.saturating_add(end.cpu_system_us)))
}
