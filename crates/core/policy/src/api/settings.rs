//! What an operator may set of the scheduler; checked where it is read (the daemon), used as it is here.

use std::time::Duration;

use crate::api::event::Place;
use crate::api::memory::MemorySettings;
use crate::api::resource::Amount;

/// What a newcomer of higher priority does to a running job of lower priority when no slot is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Preemption {
    /// The lowest running job gives up its slot at once: it is frozen until a slot is free again.
    Hard,
    /// The lowest primary gives up its home core and goes on as a backfiller; the lowest job that is then one too many
    /// for the slots is frozen until a slot is free again.
    Soft,
    /// Nothing: the newcomer waits for the next free slot.
    Off,
}

/// A project, and what is its when it wants it; others have it meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Project {
    /// Its name; no other project has it.
    pub name: String,
    /// Home cores; `None`: it shares those that no project is guaranteed with jobs of no project.
    pub cores: Option<u32>,
    /// Memory in bytes; `None`: as with cores.
    pub memory_bytes: Option<u64>,
}

/// The settings of the scheduler; all may change while jobs run.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Settings {
    /// Slots per core in thousandths, 0 to 4000; 0 holds everything.
    pub factor_milli: u32,
    /// Jobs that may wait, per core; a further one is refused.
    pub queue_depth: u32,
    /// How long a job may wait before it expires; `None`: for ever. A job's own time-to-live is shorter
    /// or longer as it says.
    pub queue_ttl: Option<Duration>,
    /// Whether jobs are pinned to cores at all.
    pub affinity: bool,
    /// How the cores of a job lie that does not say.
    pub place: Place,
    /// Whether slots beyond the cores are used, by backfillers.
    pub backfill: bool,
    /// The part of each core, in thousandths, that backfillers leave free for primaries; 0: as many backfillers run as
    /// there are slots.
    pub protect_milli: u32,
    /// Whether backfillers give way where a primary waits for a core more than is usual for it.
    pub hold_back: bool,
    /// What a job of higher priority may do to one of lower.
    pub preemption: Preemption,
    /// Whether jobs wait for slots at all; off: every job starts at once and is only measured.
    pub schedule: bool,
    /// Whether nothing new starts: the host is to become free. What runs goes on, what is suspended returns.
    pub drain: bool,
    /// What the directories in memory of all jobs that were started may come to, in bytes.
    pub tmp_total_bytes: u64,
    /// What of that directories take whose jobs are over and that are not gone yet, in bytes.
    pub tmp_left_bytes: u64,
    /// The countable resources that there are, each name once; of any other there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Amount>,
    /// How memory is governed.
    pub memory: MemorySettings,
    /// The projects, in whatever order.
    pub projects: Vec<Project>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            factor_milli: 1500,
            queue_depth: 100_000,
            queue_ttl: None,
            affinity: true,
            place: Place::Auto,
            backfill: true,
            protect_milli: 0,
            hold_back: false,
            preemption: Preemption::Soft,
            schedule: true,
            drain: false,
            tmp_total_bytes: u64::MAX,
            tmp_left_bytes: 0,
            resources: Vec::new(),
            memory: MemorySettings::default(),
            projects: Vec::new(),
        }
    }
}

impl Settings {
    /// The slots of a host with `cores` cores: factor x cores, rounded to the nearest whole slot (halves up).
    #[must_use]
    pub fn slots(&self, cores: usize) -> usize {
        let milli = (self.factor_milli as usize).saturating_mul(cores);
        milli.saturating_add(500) / 1000
    }
}
