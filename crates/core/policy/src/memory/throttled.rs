//! Which jobs the kernel was told to throttle, and which to protect (`throttle` decides).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::{Instant, JobId};

/// A job is slowed for so long at most, and then goes on or is suspended.
pub const SLOW_FOR: Duration = Duration::from_secs(10);

/// What the kernel was told about whose memory to take.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Throttles {
    pub(super) slowed: BTreeMap<JobId, Throttled>,
    /// The job that is protected, and so many bytes of it.
    pub(super) protected: Option<(JobId, u64)>,
    pub(super) acted: Option<Instant>,
}

/// A job that is slowed.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(super) struct Throttled {
    pub(super) since: Instant,
    /// What it grew by in a second before.
    pub(super) growth: u64,
    /// What it may have in RAM, in bytes.
    pub(super) bound: u64,
    /// The kernel did not let it grow again, and is asked anew at this time.
    pub(super) asked_again: Option<Instant>,
}

impl Throttles {
    /// A job is not known any more.
    pub(super) fn forget(&mut self, id: JobId) {
        self.slowed.remove(&id);
        self.protected = self.protected.filter(|&(job, _)| job != id);
    }

    /// Since when a job is throttled.
    pub(crate) fn since(&self, id: JobId) -> Option<Instant> {
        self.slowed.get(&id).map(|one| one.since)
    }

    /// How much of a job's memory the kernel takes last, in bytes.
    pub(crate) fn protected_bytes(&self, id: JobId) -> Option<u64> {
        self.protected.filter(|&(job, _)| job == id).map(|(_, bytes)| bytes)
    }

    /// The jobs that are throttled and may be let go as far as the kernel is concerned.
    pub(super) fn due(&self, now: Instant) -> Vec<JobId> {
        let due = |one: &Throttled| one.asked_again.is_none_or(|at| at <= now);
        self.slowed.iter().filter(|(_, one)| due(one)).map(|(&id, _)| id).collect()
    }
}
