//! When running jobs reach their timeouts, and when they get the signal before that. Time in which a job is frozen does not
//! count, so that a moment here is only when to look: what is due then follows from the job's row.
//!
//! Owns when to look at which job. Pure: the time is told.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::JobId;
use pinfold_proto::row::JobRow;

/// A frozen job is looked at no more often than this, in microseconds: so much later than its timeout it may end.
const FROZEN_LOOK_US: u64 = 1_000_000;

/// What is due for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing yet; look again then. `None`: never.
    Later(Option<u64>),
    /// The signal before its timeout.
    Signal(i32),
    /// Its end.
    Timeout,
}

/// How long a job has run without frozen time, in microseconds.
pub(crate) fn ran_us(row: &JobRow, now_us: u64) -> u64 {
    let frozen_us = row.frozen_since_us.map_or(0, |since| now_us.saturating_sub(since));
    let since_us = row.started_us.map_or(0, |started| now_us.saturating_sub(started));
    since_us.saturating_sub(row.suspended_us).saturating_sub(frozen_us)
}

/// What is due for a job that runs; `signalled`: it got its signal already.
pub(crate) fn due(row: &JobRow, signalled: bool, now_us: u64) -> Due {
    let Some(timeout_us) = row.spec.terms.timeout_us.filter(|_| row.started_us.is_some()) else {
        return Due::Later(None);
    };
    if row.end.is_some() {
        return Due::Later(None);
    }
    let ran_us = ran_us(row, now_us);
    let signal = row.spec.terms.timeout_signal.filter(|_| !signalled);
    let signal_us = signal.map_or(timeout_us, |signal| timeout_us.saturating_sub(signal.before_us));
    match signal {
        _ if ran_us >= timeout_us => Due::Timeout,
        Some(signal) if ran_us >= signal_us => Due::Signal(signal.signal),
        _ => {
            let left_us = signal_us.min(timeout_us) - ran_us;
            let frozen = row.frozen_since_us.is_some();
            let left_us = if frozen { left_us.max(FROZEN_LOOK_US) } else { left_us };
            Due::Later(Some(now_us.saturating_add(left_us)))
        }
    }
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Timeouts {
    at: BTreeMap<JobId, u64>,
    looks: BTreeSet<(u64, JobId)>,
    signalled: BTreeSet<JobId>,
    /// Why a job gets the signal before its timeout, until that is decided.
    why: BTreeMap<JobId, String>,
}

impl Timeouts {
    /// Looks at a job then, or not any more.
    pub(crate) fn look_at(&mut self, job: JobId, at_us: Option<u64>) {
        if let Some(at) = self.at.remove(&job) {
            self.looks.remove(&(at, job));
        }
        if let Some(at) = at_us {
            self.at.insert(job, at);
            self.looks.insert((at, job));
        }
    }

    /// Has the job looked at when it may be due, as its row stands.
    pub(crate) fn arm(&mut self, row: &JobRow, now_us: u64) {
        let job = JobId(row.job);
        match due(row, self.signalled.contains(&job), now_us) {
            Due::Later(at) => self.look_at(job, at),
            Due::Signal(_) | Due::Timeout => self.look_at(job, Some(now_us)),
        }
    }

    /// When to look next.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.looks.first().map(|&(at, _)| at)
    }

    /// A job that is to be looked at by now; once.
    pub(crate) fn next(&mut self, now_us: u64) -> Option<JobId> {
        let &(at, job) = self.looks.first().filter(|(at, _)| *at <= now_us)?;
        self.looks.remove(&(at, job));
        self.at.remove(&job);
        Some(job)
    }

    /// Whether a job got its signal.
    pub(crate) fn is_signalled(&self, job: JobId) -> bool {
        self.signalled.contains(&job)
    }

    /// A job got its signal, or is to get another.
    pub(crate) fn set_signalled(&mut self, job: JobId, signalled: bool) {
        match signalled {
            true => self.signalled.insert(job),
            false => self.signalled.remove(&job),
        };
    }

    /// A job is to get the signal before its timeout, for this reason.
    pub(crate) fn signals(&mut self, job: JobId, why: String) {
        self.set_signalled(job, true);
        self.why.insert(job, why);
    }

    /// Why a job gets a signal that is decided now, if it is the one before its timeout.
    pub(crate) fn take_why(&mut self, job: JobId) -> Option<String> {
        self.why.remove(&job)
    }

    /// A run of a job is over.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.look_at(job, None);
        self.signalled.remove(&job);
        self.why.remove(&job);
    }
}

#[cfg(test)]
mod tests {
    use pinfold_proto::{End, JobSpec, Terms, TimeoutSignal};

    use super::*;

    const S: u64 = 1_000_000;

    fn row(timeout_s: u64, before_s: Option<u64>) -> JobRow {
        let timeout_signal = before_s.map(|before_s| TimeoutSignal { signal: 10, before_us: before_s * S });
        let terms = Terms { timeout_us: Some(timeout_s * S), timeout_signal, ..Terms::default() };
        let spec = JobSpec { terms, ..JobSpec::default() };
        let mut row = JobRow::asked_for(1, 7, String::new(), spec, 0);
        row.started_us = Some(100 * S);
        row
    }

    #[test]
    fn frozen_time_does_not_count() {
        let mut row = row(10, None);
        assert_eq!(due(&row, false, 109 * S), Due::Later(Some(110 * S)));
        assert_eq!(due(&row, false, 110 * S), Due::Timeout);
        row.suspended_us = 5 * S;
        assert_eq!(due(&row, false, 110 * S), Due::Later(Some(115 * S)));
        // Frozen since 112 with 3 s left: thawed at once it would be due at 143, and not before.
        row.frozen_since_us = Some(112 * S);
        assert_eq!((ran_us(&row, 140 * S), due(&row, false, 140 * S)), (7 * S, Due::Later(Some(143 * S))));
        row.frozen_since_us = Some(115 * S - 1);
        assert_eq!(due(&row, false, 200 * S), Due::Later(Some(201 * S)), "not at once again");
        row.end = Some(End::Timeout);
        assert_eq!(due(&row, false, 900 * S), Due::Later(None), "once");
    }

    #[test]
    fn the_signal_comes_before_and_once() {
        let row = row(10, Some(3));
        assert_eq!(due(&row, false, 100 * S), Due::Later(Some(107 * S)));
        assert_eq!(due(&row, false, 107 * S), Due::Signal(10));
        assert_eq!(due(&row, true, 107 * S), Due::Later(Some(110 * S)));
        assert_eq!(due(&row, false, 110 * S), Due::Timeout, "too late for a signal");
        let waits = JobRow { started_us: None, ..row };
        assert_eq!(due(&waits, false, 900 * S), Due::Later(None));
    }

    #[test]
    fn each_job_is_looked_at_when_it_may_be_due() {
        let mut timeouts = Timeouts::default();
        timeouts.arm(&row(10, Some(3)), 100 * S);
        assert_eq!((timeouts.due_us(), timeouts.next(107 * S - 1)), (Some(107 * S), None));
        assert_eq!((timeouts.next(107 * S), timeouts.due_us()), (Some(JobId(1)), None));
        timeouts.set_signalled(JobId(1), true);
        timeouts.arm(&row(10, Some(3)), 107 * S);
        assert_eq!(timeouts.due_us(), Some(110 * S));
        timeouts.forget(JobId(1));
        assert!(timeouts.due_us().is_none() && !timeouts.is_signalled(JobId(1)));
    }
}
