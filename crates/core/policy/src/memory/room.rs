//! The memory room's state: what the host can give, the token, which jobs are frozen for memory, and what is known of
//! classes of jobs. Its constants too, as far as several files share them.
//!
//! One job, the *token holder*, is never frozen or paged out for another: the job of highest rank when the token fell
//! free, and it keeps it until it ends. So one job always goes on, and as long as each fits into RAM beside nothing and
//! swap takes the others, all of them end one after the other at the worst (Jiang and Zhang's swap token, 2005). Above
//! that floor: admission counts with what jobs usually need; growing jobs are watched; before memory is short the
//! youngest are frozen; suspended jobs are paged out only as far as running jobs need memory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::{Claim, Instant, JobId, Kind};
use crate::jobs::{COLD_REST, JobTable, Remembered, WORTH_BYTES};
use crate::memory::throttled::Throttles;

/// A shortage is dealt with when growth would use up what is free within this time.
///
/// Readings come ten times a second then and a freeze takes some milliseconds, so this is several times what it takes.
/// Twice as long froze jobs on a 2 GiB host that would just have fitted (docs/memory.md).
pub(crate) const HORIZON: Duration = Duration::from_secs(1);

/// All jobs were stalled for this part of the time: the host thrashes, whatever the figures say.
pub(crate) const THRASH_MILLI: u16 = 500;

/// Where the kernel does not say which job stalls, a shortage with next to nothing free for so long is taken for that.
pub const FULL_FOR: Duration = Duration::from_secs(10);

/// Kinds of jobs that are known at most, so that nobody can fill memory with them.
pub(crate) const KINDS_MAX: usize = 10_000;

/// One that is suspended for want of memory gains a priority each time that this has gone by, and with it the right to
/// hold the token: else it would stand for ever behind a job that does not end, or that waits for it.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Pages are asked for in one step for so long.
pub(crate) const PAGE_OUT_FOR: Duration = Duration::from_millis(500);

/// What is known of kinds of jobs; of so many at most, each some tens of bytes.
pub(crate) type Kinds<V> = Remembered<V, KINDS_MAX>;

/// The memory side of the scheduler.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Memory {
    /// What all jobs together may hold in RAM as things are; `None` before the first reading.
    pub(super) usable: Option<u64>,
    /// When memory was last read.
    pub(super) read: Option<Instant>,
    /// What all jobs held in RAM at the last reading.
    pub(super) resident: u64,
    pub(super) swap_free: u64,
    pub(super) swap_rate: u64,
    pub(super) stalled_milli: u16,
    /// The job that is never frozen or paged out for another.
    pub(super) token: Option<JobId>,
    /// Jobs frozen for memory that may not return yet.
    pub(super) frozen: BTreeSet<JobId>,
    /// Jobs that come back from swap, and until when they are given time for that; `None`: it waits for its slot.
    pub(super) returning: BTreeMap<JobId, Option<Instant>>,
    /// Who waits for memory that is their project's own, and for how much.
    pub(super) claims: Vec<(JobId, u64)>,
    /// Until when the swap device is busy with what it was last asked for.
    pub(super) paging_until: Option<Instant>,
    /// When the last step was taken against a shortage.
    pub(super) acted: Option<Instant>,
    /// Since when readings show a shortage.
    pub(super) short_since: Option<Instant>,
    /// Since when next to nothing was free at each reading.
    pub(super) full_since: Option<Instant>,
    /// Whether a reading ever told of a stall: elsewhere the kernel may not say.
    pub(super) tells_stalls: bool,
    /// Whether, at the last reading or since, a job was writing down what it has done because memory will be short.
    pub(super) writing: bool,
    /// The most that any job of a kind was seen to hold, of kinds with jobs that are not over.
    pub(super) peaks: Kinds<u64>,
    /// With what part of what they hold in RAM, in thousandths, some of a kind were seen to get on.
    pub(super) cool: Kinds<u16>,
    /// Kinds of which one missed what had gone out: none of them is probed before this, and how often that was so.
    pub(super) warm: Kinds<(Instant, u32)>,
    /// Kinds of which one that started early had to be suspended: none of them does before this, and how often that was
    /// so.
    pub(super) early: Kinds<(Instant, u32)>,
    /// Whether one that started early may run.
    pub(super) stretched: bool,
    /// When one was last probed.
    pub(super) probed: Option<Instant>,
    /// What is known of kinds of jobs.
    pub(super) learned: Kinds<Claim>,
    pub(super) throttles: Throttles,
}

impl Memory {
    pub(crate) fn usable(&self) -> Option<u64> {
        self.usable
    }

    pub(crate) fn swap_free(&self) -> u64 {
        self.swap_free
    }

    pub(crate) fn token(&self) -> Option<JobId> {
        self.token
    }

    pub(crate) fn frozen(&self) -> &BTreeSet<JobId> {
        &self.frozen
    }

    pub(crate) fn throttles(&self) -> &Throttles {
        &self.throttles
    }

    /// Jobs that wait for memory that is their project's own, and for how much.
    pub(crate) fn claims(&self) -> &[(JobId, u64)] {
        &self.claims
    }

    pub(crate) fn clear_claims(&mut self) {
        self.claims.clear();
    }

    /// A job waits for so many bytes that are its project's own.
    pub(crate) fn claim(&mut self, job: JobId, bytes: u64) {
        self.claims.push((job, bytes));
    }

    /// The token is this job's now; `None`: no job's.
    pub(crate) fn give_token(&mut self, token: Option<JobId>) {
        self.token = token;
    }

    /// A job is frozen already, and waits for memory from now on.
    pub(crate) fn wait_frozen(&mut self, id: JobId) {
        self.frozen.insert(id);
    }

    /// A job that was frozen for memory may return.
    pub(crate) fn readmit(&mut self, jobs: &JobTable, id: JobId) {
        self.frozen.remove(&id);
        if jobs.get(&id).is_some_and(|job| job.held.missing() >= WORTH_BYTES) {
            self.returning.insert(id, None);
        }
    }

    /// Notes whether nobody starts for the sake of a checkpoint.
    pub(crate) fn note_writers(&mut self, writing: bool) {
        self.writing = writing;
    }

    /// Forgets a job that is over or is not to be governed any more.
    pub(crate) fn forget(&mut self, id: JobId) {
        self.frozen.remove(&id);
        self.returning.remove(&id);
        if self.token == Some(id) {
            self.token = None;
        }
    }

    /// A job has no processes any more, and nothing is told of it.
    pub(crate) fn forget_steering(&mut self, id: JobId) {
        self.throttles.forget(id);
    }
}

/// Leaves a kind alone for [`COLD_REST`], twice as long after each further time.
pub(crate) fn rest_kind(kinds: &mut Kinds<(Instant, u32)>, kind: Kind, now: Instant) {
    let (until, times) = kinds.of(kind.key(), Default::default);
    *until = now.after(COLD_REST.after(*times));
    *times = times.saturating_add(1);
}
