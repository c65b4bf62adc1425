//! Who is next: jobs that wait for a slot, new ones and frozen ones that are to return.
//!
//! Order: those that waited too long first; then the higher priority; then frozen jobs before new ones; then,
//! if the length of every job of that priority is known, the longest first; else first come, first served.
//! Jobs of one rank that ask for the same thing stand in one bucket, so that "the first that fits" is found by
//! looking at the head of each bucket and never by walking the queue.
//!
//! Absent: held jobs, suspended jobs, any judgement of what fits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::projects::PoolIds;
use crate::{Class, JobId};

/// The rank of a job that waited too long: above every priority.
pub(crate) const RANK_AGED: u8 = 17;

/// What a job asks for; equal shapes fit or do not fit alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
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
    /// Whose cores and memory it takes.
    pub(crate) pools: PoolIds,
    /// The array that it waits for as well, see `arrays`.
    pub(crate) array: Option<u64>,
}

/// The place of one job in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its priority, or [`RANK_AGED`].
    pub(crate) rank: u8,
    pub(crate) shape: Shape,
    /// A new job, not a frozen one that is to return.
    pub(crate) new: bool,
    /// The expected length in microseconds; matters for new jobs only.
    pub(crate) expected_us: Option<u64>,
    pub(crate) job: JobId,
}

/// Position by arrival: frozen jobs first.
type ByArrival = (bool, JobId);
/// Position by length: frozen jobs first, then the longest.
type ByLength = (bool, Reverse<u64>, JobId);

#[derive(Debug, Default)]
struct Bucket {
    by_arrival: BTreeSet<ByArrival>,
    by_length: BTreeSet<ByLength>,
}

#[derive(Debug, Default)]
struct Group {
    /// New jobs whose length nobody told.
    unknown: usize,
    buckets: BTreeMap<Shape, Bucket>,
}

impl Entry {
    fn by_arrival(&self) -> ByArrival {
        (self.new, self.job)
    }

    fn by_length(&self) -> ByLength {
        let expected_us = if self.new { self.expected_us.unwrap_or(0) } else { 0 };
        (self.new, Reverse(expected_us), self.job)
    }

    fn unknown(&self) -> usize {
        usize::from(self.new && self.expected_us.is_none())
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    groups: BTreeMap<Reverse<u8>, Group>,
}

impl Queue {
    pub(crate) fn insert(&mut self, entry: &Entry) {
        let group = self.groups.entry(Reverse(entry.rank)).or_default();
        group.unknown += entry.unknown();
        let bucket = group.buckets.entry(entry.shape).or_default();
        bucket.by_arrival.insert(entry.by_arrival());
        bucket.by_length.insert(entry.by_length());
    }

    pub(crate) fn remove(&mut self, entry: &Entry) {
        let Some(group) = self.groups.get_mut(&Reverse(entry.rank)) else { return };
        let Some(bucket) = group.buckets.get_mut(&entry.shape) else { return };
        bucket.by_arrival.remove(&entry.by_arrival());
        bucket.by_length.remove(&entry.by_length());
        group.unknown -= entry.unknown();
        if bucket.by_arrival.is_empty() {
            group.buckets.remove(&entry.shape);
            if group.buckets.is_empty() {
                self.groups.remove(&Reverse(entry.rank));
            }
        }
    }

    /// Whether nobody stands in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The first job whose shape `fits`, and its rank.
    pub(crate) fn first(&self, fits: impl Fn(Shape) -> bool) -> Option<(u8, JobId)> {
        self.groups.iter().find_map(|(&Reverse(rank), group)| {
            let fitting = group.buckets.iter().filter(|&(&shape, _)| fits(shape)).map(|(_, bucket)| bucket);
            let job = if group.longest_first(rank) {
                fitting.filter_map(|bucket| bucket.by_length.first()).min().map(|&(_, _, job)| job)
            } else {
                fitting.filter_map(|bucket| bucket.by_arrival.first()).min().map(|&(_, job)| job)
            };
            job.map(|job| (rank, job))
        })
    }

    /// How many jobs stand before `entry`. Walks its group: for explanations, not for rules.
    pub(crate) fn ahead_of(&self, entry: &Entry) -> usize {
        let mut ahead = 0;
        for (&Reverse(rank), group) in &self.groups {
            for bucket in group.buckets.values() {
                ahead += if rank > entry.rank {
                    bucket.by_arrival.len()
                } else if rank < entry.rank {
                    0
                } else if group.longest_first(rank) {
                    bucket.by_length.range(..entry.by_length()).count()
                } else {
                    bucket.by_arrival.range(..entry.by_arrival()).count()
                };
            }
        }
        ahead
    }
}

impl Group {
    /// Those that waited too long are past being sorted by length.
    fn longest_first(&self, rank: u8) -> bool {
        self.unknown == 0 && rank != RANK_AGED
    }
}
