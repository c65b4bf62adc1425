//! Which groups and free nodes together have room for a job. Read only.
//!
//! The candidates are few, and each is looked at once; of each way to join them only sums are made.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pinfold_place::chunk;

use crate::memory::numa::groups::RESERVE_MILLI;
use crate::memory::numa::survey::{Part, Survey, capped};

/// Ways to join nodes are tried among so many candidates at most, those with the most room.
const CANDIDATES_MAX: usize = 12;

/// What a job wants of the nodes that it is to be bound to.
pub(super) struct Want<'a> {
    /// So many bytes that nobody else takes.
    pub(super) claim: u64,
    /// Of each node so much of something,
    pub(super) count: &'a dyn Fn(u32) -> u64,
    /// of which this much, of all nodes together, will do.
    pub(super) suffices: &'a dyn Fn(u128) -> bool,
}

/// Parts as one.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    nodes: usize,
    free: u128,
    taken: u128,
    wanted: u128,
    spilled: u128,
    counted: u128,
}

impl Sum {
    fn add(&mut self, part: &Part<'_>, want: &Want<'_>) {
        self.nodes += part.count();
        self.free += part.free;
        self.taken += u128::from(part.taken);
        self.wanted += u128::from(part.wanted);
        self.spilled += u128::from(part.spilled);
        self.counted += part.nodes().map(|node| u128::from((want.count)(node))).sum::<u128>();
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            nodes: self.nodes + other.nodes,
            free: self.free + other.free,
            taken: self.taken + other.taken,
            wanted: self.wanted + other.wanted,
            spilled: self.spilled + other.spilled,
            counted: self.counted + other.counted,
        }
    }
}

/// What is always among the nodes, at the first place, and what may be joined with it.
struct Candidates<'a> {
    survey: &'a Survey<'a>,
    sums: Vec<Sum>,
    /// What the jobs of each have on the nodes of each.
    held: Vec<Vec<u128>>,
}

impl<'a> Candidates<'a> {
    fn new(survey: &'a Survey<'a>, base: &[usize], others: &[usize], want: &Want<'_>) -> Self {
        let sets = || std::iter::once(base).chain(others.chunks(1));
        let (mut sums, mut place_of) = (Vec::new(), BTreeMap::new());
        for (place, set) in sets().enumerate() {
            let mut sum = Sum::default();
            for part in set.iter().map(|&at| &survey.parts[at]) {
                sum.add(part, want);
                place_of.extend(part.nodes().map(|node| (node, place)));
            }
            sums.push(sum);
        }
        let mut held = vec![vec![0; sums.len()]; sums.len()];
        for (place, set) in sets().enumerate() {
            let jobs = set.iter().filter_map(|&at| survey.parts[at].group).flat_map(|group| &group.jobs);
            for (node, bytes) in jobs.filter_map(|job| survey.rooms.nodes.held.get(job)).flatten() {
                if let Some(&at) = place_of.get(node) {
                    held[place][at] += u128::from(*bytes);
                }
            }
        }
        Self { survey, sums, held }
    }

    /// Those at these places as one, and the room that they have.
    fn joined(&self, places: &[usize]) -> (Sum, u64) {
        let sum = places.iter().fold(Sum::default(), |sum, &place| sum.plus(&self.sums[place]));
        let of = |&one: &usize| places.iter().map(|&other| self.held[one][other]).sum::<u128>();
        let held: u128 = places.iter().map(of).sum();
        (sum, capped(sum.free + held).saturating_sub(capped(sum.taken)))
    }

    fn suffice(&self, sum: &Sum, room: u64, want: &Want<'_>) -> bool {
        (want.suffices)(sum.counted)
            && room >= want.claim.saturating_add(self.survey.reach(sum.wanted, sum.spilled))
    }
}

impl Survey<'_> {
    /// Whether these parts together are what a job wants.
    pub(super) fn suffice(&self, parts: &[usize], want: &Want<'_>) -> bool {
        let candidates = Candidates::new(self, parts, &[], want);
        let (sum, room) = candidates.joined(&[0]);
        candidates.suffice(&sum, room, want)
    }

    /// `base` with some of `others` that together are what a job wants: the fewest nodes, then the least room left over,
    /// and no more nodes than are worth it for jobs of that claim unless there is no other way.
    pub(super) fn joined(&self, base: &[usize], others: Vec<usize>, want: &Want<'_>) -> Option<Vec<usize>> {
        let nodes = &self.rooms.nodes.nodes;
        let count = u64::try_from(nodes.len()).unwrap_or(u64::MAX).max(1);
        let all = nodes.values().map(|node| node.capacity).fold(0, u64::saturating_add);
        let mean = all / count / 1000 * (1000 - RESERVE_MILLI);
        let own: usize = base.iter().map(|&at| self.parts[at].count()).sum();
        let worth = chunk::nodes_for(want.claim, mean).max(own);
        let mut others = others;
        others.sort_by_cached_key(|&at| Reverse(self.parts[at].room()));
        // Bound to many nodes it is at least counted there; bound to none it could take the room of all who are.
        [worth, nodes.len()].into_iter().find_map(|most| {
            let small = others.iter().copied().filter(|&at| self.parts[at].count() <= most);
            let small: Vec<usize> = small.take(CANDIDATES_MAX).collect();
            self.joined_within(most, base, &small, want)
        })
    }

    /// As [`Self::joined`], of `most` nodes at most.
    fn joined_within(
        &self,
        most: usize,
        base: &[usize],
        others: &[usize],
        want: &Want<'_>,
    ) -> Option<Vec<usize>> {
        let candidates = Candidates::new(self, base, others, want);
        let mut best: Option<((usize, u64), u32)> = None;
        // A part has a node at least.
        let few = |mask: &u32| mask.count_ones() as usize + base.len() <= most;
        let chosen = |mask: u32| (0..others.len()).filter(move |at| mask >> at & 1 == 1);
        let mut places = Vec::with_capacity(1 + others.len());
        for mask in (1u32..(1 << others.len())).filter(few) {
            places.clear();
            places.push(0);
            places.extend(chosen(mask).map(|at| at + 1));
            let (sum, room) = candidates.joined(&places);
            let beaten = best.as_ref().is_some_and(|((fewest, _), _)| sum.nodes > *fewest);
            if sum.nodes > most || beaten || !candidates.suffice(&sum, room, want) {
                continue;
            }
            let key = (sum.nodes, room);
            if best.as_ref().is_none_or(|(known, _)| key < *known) {
                best = Some((key, mask));
            }
        }
        best.map(|(_, mask)| base.iter().copied().chain(chosen(mask).map(|at| others[at])).collect())
    }
}
