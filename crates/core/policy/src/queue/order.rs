//! The order of the queue: jobs that wait for a slot, new ones and suspended ones that are to resume.
//!
//! Jobs that waited too long come first; then the higher priority; then suspended jobs before new ones; then, if the length
//! of every job of that priority is known, the longest first; else first come, first served. Jobs of one rank that ask for
//! the same thing stand in one bucket, so that "the first that fits" is found by looking at the head of each bucket and
//! never by walking the queue.
//!
//! Absent: held and suspended jobs, and what fits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::api::JobId;
use crate::jobs::{ByArrival, ByLength, Demand, Entry};

/// The rank of a job that waited too long: above every priority.
pub(crate) const RANK_AGED: u8 = 17;

#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
struct Bucket {
    by_arrival: BTreeSet<ByArrival>,
    by_length: BTreeSet<ByLength>,
}

/// The place of a job among those of its rank: the least comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct First {
    new: bool,
    length: Reverse<u64>,
    pub(crate) job: JobId,
}

#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
struct Group {
    /// New jobs whose length nobody told.
    unknown: usize,
    buckets: BTreeMap<Demand, Bucket>,
}

/// The queue.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
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

    /// The shapes of all jobs in the queue.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = Demand> {
        self.groups.values().flat_map(|group| group.buckets.keys().copied())
    }

    /// The first job whose shape `fits`, and its rank.
    pub(crate) fn first(&self, fits: impl Fn(Demand) -> bool) -> Option<(u8, JobId)> {
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

    /// Of each rank, highest first, the shapes that `fits` and the first job of each, in no order.
    pub(crate) fn firsts<'a>(
        &'a self,
        fits: impl Fn(Demand) -> bool + 'a,
    ) -> impl Iterator<Item = (u8, Vec<(Demand, First)>)> + 'a {
        self.groups.iter().map(move |(&Reverse(rank), group)| {
            let longest_first = group.longest_first(rank);
            let first = |bucket: &Bucket| {
                if longest_first {
                    bucket.by_length.first().map(|&(new, length, job)| First { new, length, job })
                } else {
                    let first = bucket.by_arrival.first();
                    first.map(|&(new, job)| First { new, length: Reverse(0), job })
                }
            };
            let fitting = group.buckets.iter().filter(|&(&shape, _)| fits(shape));
            (rank, fitting.filter_map(|(&shape, bucket)| Some((shape, first(bucket)?))).collect())
        })
    }

    /// The jobs that stand before `entry`, in order. Walks its group: for explanations, not for rules.
    pub(crate) fn before(&self, entry: &Entry) -> Vec<JobId> {
        let mut before = Vec::new();
        for (&Reverse(rank), group) in self.groups.iter().take_while(|(rank, _)| rank.0 >= entry.rank) {
            let by_length = group.longest_first(rank);
            let place = |(new, length, job)| (new, if by_length { length } else { Reverse(0) }, job);
            let all = group.buckets.values().flat_map(|bucket| bucket.by_length.iter().copied().map(place));
            let is_before = |first: &ByLength| rank > entry.rank || *first < place(entry.by_length());
            let mut firsts: Vec<ByLength> = all.filter(is_before).collect();
            firsts.sort_unstable();
            before.extend(firsts.into_iter().map(|(.., job)| job));
        }
        before
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

/// How many later jobs may start past a job that stands first and does not fit. Then no other starts until
/// it fits, so a wide job waits for at most as many exits as there are jobs running then.
pub(crate) const PASSED_MAX: u32 = 8;

/// How often at most the rights of projects are looked at again after others got what they left; each time somebody has
/// what was owed to them before.
pub(crate) const ROUNDS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(job: u64, rank: u8, cores: u32, expected_us: Option<u64>) -> Entry {
        let shape = Demand {
            owner: 0,
            cores,
            homes: cores,
            class: None,
            wishes: false,
            memory: 0,
            tmp_bytes: 0,
            resources: 0,
            pools: crate::jobs::PoolIds::default(),
            array: None,
            parent: None,
        };
        Entry { rank, shape, new: true, expected_us, job: JobId(job) }
    }

    #[track_caller]
    fn check(entries: &[Entry], want: &[u64]) {
        let mut queue = Queue::default();
        entries.iter().for_each(|entry| queue.insert(entry));
        let last = &entries[entries.len() - 1];
        let before = queue.before(last);
        assert_eq!(before, want.iter().map(|&job| JobId(job)).collect::<Vec<_>>());
        assert_eq!(before.len(), queue.ahead_of(last));
    }

    #[test]
    fn the_jobs_before_a_job_are_those_that_the_queue_hands_out_first() {
        check(&[entry(1, 10, 2, None), entry(2, 10, 1, Some(5)), entry(3, 10, 1, None)], &[1, 2]);
        check(&[entry(1, 10, 2, Some(3)), entry(2, 10, 1, Some(5)), entry(3, 10, 1, Some(4))], &[2]);
        check(
            &[entry(1, 9, 1, None), entry(3, 12, 2, None), entry(4, 11, 1, None), entry(2, 10, 1, None)],
            &[3, 4],
        );
        check(&[entry(5, 17, 1, Some(1)), entry(4, 17, 1, Some(9)), entry(6, 10, 1, None)], &[4, 5]);
    }
}
