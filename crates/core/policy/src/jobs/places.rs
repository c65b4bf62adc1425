//! Where a job stands: in a queue, in the running set, and in which pools.

use std::cmp::Reverse;

use crate::api::{Class, Instant, JobId};

/// The lowest priority first, among equals the newest.
pub(crate) type Lowest = (u8, Reverse<(Instant, JobId)>);

/// What the orders are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Key {
    pub(crate) priority: u8,
    pub(crate) started: Instant,
    pub(crate) job: JobId,
    pub(crate) class: Class,
    /// What it needs to become a primary; `None` if it may not.
    pub(crate) promotable: Option<Promotable>,
}

/// The home cores that a backfiller needs to become a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Promotable {
    /// So many.
    To(usize),
    /// Such as it wishes.
    ToWished,
}

impl Key {
    pub(crate) fn lowest(&self) -> Lowest {
        (self.priority, Reverse((self.started, self.job)))
    }
}

/// The pools that a job takes from: 0 is what no project is guaranteed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize,
)]
pub(crate) struct PoolIds {
    pub(crate) cores: u16,
    pub(crate) memory: u16,
}

/// What a job asks for; equal shapes fit or do not fit alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) struct Demand {
    /// The user whose job it is.
    #[serde(default)]
    pub(crate) owner: u32,
    /// The slots that it takes; of one that has started no more than there are.
    pub(crate) cores: u32,
    /// The home cores that it needs to be a primary, whether there are so many or not.
    pub(crate) homes: u32,
    pub(crate) class: Option<Class>,
    /// Not any cores do.
    pub(crate) wishes: bool,
    /// The size class of the memory it is expected to need; 0: unknown, or no matter.
    pub(crate) memory: u16,
    /// The directory in memory that it gets when it starts, in bytes.
    pub(crate) tmp_bytes: u64,
    /// The countable resources that it gets when it starts, by the number of their list; 0: none.
    #[serde(default)]
    pub(crate) resources: u64,
    /// Whose cores and memory it takes.
    pub(crate) pools: PoolIds,
    /// The array that it waits for as well, see `arrays`.
    pub(crate) array: Option<u64>,
    /// Its parent, if it is nested.
    #[serde(default)]
    pub(crate) parent: Option<JobId>,
}

/// The place of one job in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Entry {
    /// Its priority, or [`crate::queue::order::RANK_AGED`].
    pub(crate) rank: u8,
    pub(crate) shape: Demand,
    /// A new job, not a frozen one that is to return.
    pub(crate) new: bool,
    /// The expected length in microseconds; matters for new jobs only.
    pub(crate) expected_us: Option<u64>,
    pub(crate) job: JobId,
}

/// Position by arrival: frozen jobs first.
pub(crate) type ByArrival = (bool, JobId);

/// Position by length: frozen jobs first, then the longest.
pub(crate) type ByLength = (bool, Reverse<u64>, JobId);

impl Entry {
    pub(crate) fn by_arrival(&self) -> ByArrival {
        (self.new, self.job)
    }

    pub(crate) fn by_length(&self) -> ByLength {
        let expected_us = if self.new { self.expected_us.unwrap_or(0) } else { 0 };
        (self.new, Reverse(expected_us), self.job)
    }

    pub(crate) fn unknown(&self) -> usize {
        usize::from(self.new && self.expected_us.is_none())
    }
}
