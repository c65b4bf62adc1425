//! Jobs that reach their timeouts, signalled before, or have used the CPU time that they may: they are ended.

use pinfold_policy::{Command, Event as SchedulerEvent, JobId};
use pinfold_proto::row::{Codes, DecisionRow};
use pinfold_proto::wire::{ErrorCode, Verb};
use pinfold_proto::{End, Terms};
use pinfold_sys::container::Detail;
use pinfold_sys::signals::SIGTERM;
use pinfold_topo::CpuSet;

use crate::core::{Next, Refusal};
use crate::jobs::cpu_limits::{LOOK_FROZEN_US, next_look_us};
use crate::jobs::timeouts::{self, Due};
use crate::jobs::{bounds, endings};
use crate::reactor::Daemon;
use crate::reactor::control::{END_AS_ASKED, KILL_AFTER_US};

/// The signal before a timeout is recorded so; a daemon that comes after does not send it again.
const SIGNAL_BEFORE: &str = "signal it before its timeout";

impl Daemon {
    /// Looks at the jobs that may be due.
    pub(super) fn on_timeouts_due(&mut self) {
        let now_us = self.ctx.clock.now_us();
        while let Some(job) = self.jobs.timeouts.next(now_us) {
            let Some(live) = self.jobs.table.get(&job).filter(|live| live.container.is_some()) else {
                continue;
            };
            match timeouts::due(&live.row, self.jobs.timeouts.is_signalled(job), now_us) {
                Due::Later(at) => self.jobs.timeouts.look_at(job, at),
                Due::Signal(signal) => self.signal_before(job, signal),
                Due::Timeout => self.end_at_limit(job, End::Timeout, "end it at its timeout"),
            }
        }
        while let Some(job) = self.jobs.cpu_looks.next(now_us) {
            self.look_at_cpu_time(job);
        }
    }

    /// Looks whether a job has used the CPU time that it may, and when to look again.
    pub(super) fn look_at_cpu_time(&mut self, job: JobId) {
        let now_us = self.ctx.clock.now_us();
        let Some(live) = self.jobs.table.get(&job).filter(|live| live.row.end.is_none()) else { return };
        let (Some(limit_us), Some(container)) = (live.row.spec.terms.cpu_limit_us, &live.container) else {
            return;
        };
        let Ok(measure) = container.measure(Detail::Totals) else {
            return self.jobs.cpu_looks.look_at(job, Some(now_us + LOOK_FROZEN_US));
        };
        let used_us = measure.cpu_user_us.saturating_add(measure.cpu_system_us);
        let bound: Option<CpuSet> = live.row.cpus.as_deref().and_then(|text| text.parse().ok());
        let pus = bound.filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| self.ctx.topology.usable()).len();
        match next_look_us(limit_us, used_us, pus, live.row.frozen_since_us.is_some(), now_us) {
            None => self.end_at_limit(job, End::CpuLimit, "end it at its limit of CPU time"),
            at => self.jobs.cpu_looks.look_at(job, at),
        }
    }

    fn signal_before(&mut self, job: JobId, signal: i32) {
        let now_us = self.ctx.clock.now_us();
        let Some(live) = self.jobs.table.get(&job) else { return };
        let ran = bounds::seconds(timeouts::ran_us(&live.row, now_us));
        let most = bounds::seconds(live.row.spec.terms.timeout_us.unwrap_or(0));
        let reason = format!("it ran for {ran} of the {most} that it may (--timeout-signal)");
        self.jobs.timeouts.signals(job, reason.clone());
        let action = SIGNAL_BEFORE.to_owned();
        self.outbox.journal.decided(DecisionRow {
            job: job.0,
            time_us: now_us,
            action,
            reason: reason.clone(),
            codes: Some(Codes::plain("signal", "timeout_near")),
        });
        self.jobs.timeouts.arm(&live.row, now_us);
        self.outbox.step(SchedulerEvent::Command(job, Command::Cancel { signal }));
        self.outbox.then(Next::Reason(job, reason));
    }

    fn end_at_limit(&mut self, job: JobId, end: End, action: &str) {
        let now_us = self.ctx.clock.now_us();
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        // Where its command ended before, and only some of its processes live on, that is how it ended.
        if live.row.ending.is_none() {
            live.row.end = Some(end);
        }
        let reason = endings::at_limit(&live.row).unwrap_or_else(|| endings::how_it_ended(&live.row));
        live.row.reason = Some(reason.clone());
        self.outbox.journal.touch(job);
        let action = action.to_owned();
        let codes = Some(Codes::plain("end", endings::limit_code(&live.row)));
        self.outbox.journal.decided(DecisionRow {
            job: job.0,
            time_us: now_us,
            action,
            reason: reason.clone(),
            codes,
        });
        self.jobs.kills.insert((now_us + KILL_AFTER_US, job));
        self.outbox.step(SchedulerEvent::Command(job, Command::Cancel { signal: SIGTERM }));
        self.outbox.then(Next::Reason(job, reason));
    }

    /// A job of an earlier life runs on: its timeout counts what it ran until now, and it is ended if that had begun.
    pub(super) fn time_again(&mut self, job: JobId) {
        let now_us = self.ctx.clock.now_us();
        let Some(live) = self.jobs.table.get(&job) else { return };
        let started_us = live.row.started_us.unwrap_or(0);
        let decisions = self.outbox.journal.store().decisions(job.0).unwrap_or_default();
        let was = |action| decisions.iter().any(|row| row.action == action && row.time_us >= started_us);
        if live.row.end.is_some_and(End::is_limit) || was(END_AS_ASKED) {
            // The daemon before this one had begun to end it.
            self.jobs.kills.insert((now_us + KILL_AFTER_US, job));
            self.outbox.step(SchedulerEvent::Command(job, Command::Cancel { signal: SIGTERM }));
        }
        let terms = &live.row.spec.terms;
        if terms.timeout_us.is_none() && terms.cpu_limit_us.is_none() {
            return;
        }
        self.jobs.timeouts.set_signalled(job, was(SIGNAL_BEFORE));
        self.jobs.timeouts.arm(&live.row, now_us);
        self.look_at_cpu_time(job);
    }

    /// `pinfold set --timeout`, `--timeout-signal`, `--comment`.
    pub(super) fn set_terms(&mut self, job: JobId, verb: Verb) -> Result<(), Refusal> {
        let now_us = self.ctx.clock.now_us();
        let Some(live) = self.jobs.table.get_mut(&job) else { return Ok(()) };
        let terms = &live.row.spec.terms;
        let changed = match verb {
            Verb::Timeout(None) => Terms { timeout_us: None, timeout_signal: None, ..terms.clone() },
            Verb::Timeout(timeout_us) => Terms { timeout_us, ..terms.clone() },
            Verb::TimeoutSignal(timeout_signal) => Terms { timeout_signal, ..terms.clone() },
            Verb::CpuLimit(cpu_limit_us) => Terms { cpu_limit_us, ..terms.clone() },
            Verb::Comment(text) => {
                Terms { comment: Some(text).filter(|text| !text.is_empty()), ..terms.clone() }
            }
            _ => return Ok(()),
        };
        bounds::terms_hold(&changed)?;
        let timed = (changed.timeout_us, changed.timeout_signal) != (terms.timeout_us, terms.timeout_signal);
        let bounded = changed.cpu_limit_us != terms.cpu_limit_us;
        if (timed || bounded) && live.row.end.is_some_and(End::is_limit) {
            return Err((ErrorCode::Failed, format!("job {job} has had its time and is being ended")));
        }
        live.row.spec.terms = changed;
        self.outbox.journal.touch(job);
        if timed && live.container.is_some() {
            self.jobs.timeouts.set_signalled(job, false);
            self.jobs.timeouts.arm(&live.row, now_us);
        }
        if bounded {
            // One that has no limit any more is not looked at again.
            self.jobs.cpu_looks.look_at(job, None);
            self.look_at_cpu_time(job);
        }
        Ok(())
    }
}
