//! Memory as it is told from outside: settings, readings, and what a class of jobs is expected to need. In bytes.

use crate::api::ids::JobId;

/// How the governor may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MemorySettings {
    /// Whether jobs wait, are frozen and are paged out for want of memory at all.
    pub governor: bool,
    /// Whether claims and growth are used to act before memory is short, or only once it is.
    pub prediction: bool,
    /// What all jobs together may hold in RAM, at most.
    pub budget_bytes: u64,
    /// How many jobs may come back from swap at a time; at least 1.
    pub swap_slot: u32,
    /// Whether the kernel can be told whose memory to take first and whose last: growth is slowed before jobs are
    /// frozen, and the token holder is protected.
    pub steers: bool,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self { governor: true, prediction: true, budget_bytes: u64::MAX, swap_slot: 1, steers: false }
    }
}

/// What a job is expected to hold at its peak (ALGORITHMS: c50 and c99).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Claim {
    /// As likely as not it needs no more than this in RAM; what admission counts with.
    pub usual_bytes: u64,
    /// As likely as not it holds no more than this, cold memory included; what safety takes a new job for.
    /// Between the others.
    pub held_bytes: u64,
    /// It hardly ever holds more; what safety counts with. At least [`Self::held_bytes`].
    pub most_bytes: u64,
    /// How many runs that ended this rests on; 0: it is what was asked for.
    pub runs: u32,
}

/// After so many runs of a class that ended, what they needed counts in place of a larger request of a job's own. Of n
/// runs like it the next one needs more than the largest with probability 1 / (n + 1): after five that is one in six.
/// After one run, which counted before, it was every other one.
pub const EVIDENCE_RUNS: u32 = 5;

impl Claim {
    /// Of a job that needs all it holds, and so much.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        Self { usual_bytes: bytes, held_bytes: bytes, most_bytes: bytes, runs: 0 }
    }

    /// Whether it rests on enough runs to count in place of a larger request.
    #[must_use]
    pub fn is_evidence(&self) -> bool {
        self.runs >= EVIDENCE_RUNS
    }

    /// The same, but nowhere less than so much.
    #[must_use]
    pub fn at_least(self, bytes: u64) -> Self {
        Self {
            usual_bytes: self.usual_bytes.max(bytes),
            held_bytes: self.held_bytes.max(bytes),
            most_bytes: self.most_bytes.max(bytes),
            ..self
        }
    }
}

/// Jobs that are expected to need alike: one user's jobs of the same program, under the same name, on as many cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Kind {
    /// Whose jobs they are; who tells of them says what stands for all users.
    pub user: u32,
    /// A number for what they have in common.
    pub class: u64,
}

impl Kind {
    /// One of a host with a single user.
    #[must_use]
    pub fn of(class: u64) -> Self {
        Self { user: 0, class }
    }

    pub(crate) fn key(self) -> Key {
        (self.user, self.class)
    }
}

/// Readings of memory, of all jobs at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct MemorySample {
    /// What the host could still give to jobs without paging anything out, its reserve taken off.
    pub available_bytes: u64,
    /// Swap that jobs may still be paged out to.
    pub swap_free_bytes: u64,
    /// What the swap device takes in a second, as measured; 0: not known.
    pub swap_bytes_per_s: u64,
    /// The part of the time since the last sample in which every job was stalled for want of memory, in thousandths.
    pub stalled_milli: u16,
    /// What each job that lives holds.
    pub jobs: Vec<JobMemory>,
}

/// What one job holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JobMemory {
    /// The job.
    pub job: JobId,
    /// In RAM, without page cache.
    pub resident_bytes: u64,
    /// In swap.
    pub swapped_bytes: u64,
    /// Page cache that is the job's own, where that is known; it is in neither of the others.
    pub cache_bytes: u64,
    /// The part of the time since the last reading in which any of it waited for memory, in thousandths; `None`: not
    /// told.
    pub waited_milli: Option<u16>,
}

/// A user, and a number for a class of the user's jobs.
pub(crate) type Key = (u32, u64);
