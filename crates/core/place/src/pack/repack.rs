//! Repacking: moves running jobs so that another job finds its cores in a single domain.
//!
//! A job that would span domains although a smaller domain is large enough gets that domain, if a few jobs
//! that lie wholly inside can move elsewhere without lying further apart. The best way moves the least
//! memory, then the fewest jobs. The caller decides whether a repack is worth its cost.

use std::cmp::Reverse;

use super::site::Domain;
use super::{Level, Shape, Site};

/// So many jobs move for another at most.
pub const MOVES_MAX: usize = 4;

/// Most jobs of a domain that are candidates, by least memory.
const CANDIDATES_MAX: usize = 8;

/// So many ways to clear a domain are tried to the end.
const TRIED_MAX: usize = 8;

/// A running job that pinfold may move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mover {
    /// Its exclusive cores.
    pub cores: Vec<usize>,
    /// Its memory in bytes.
    pub memory_bytes: u64,
}

/// The moves, and their result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repack {
    /// Movers by index in the list, and their new cores, ascending.
    pub moves: Vec<(usize, Vec<usize>)>,
    /// The other job's cores after the moves, ascending.
    pub cores: Vec<usize>,
    /// The kind of domain that holds the cores.
    pub level: Level,
    /// Bytes of memory of the jobs that move to other NUMA nodes.
    pub memory_bytes: u64,
}

impl Site {
    /// The moves that free `count` cores in a domain of the smallest sufficient kind; `None` where a domain
    /// already has the cores free, or no [`MOVES_MAX`] moves of at most `memory_max` bytes suffice.
    ///
    /// # Panics
    /// If `free` is shorter than the number of cores.
    #[must_use]
    pub fn repack(&self, free: &[bool], movers: &[Mover], count: usize, memory_max: u64) -> Option<Repack> {
        let free_in = |domain: &Domain| domain.cores.iter().filter(|&&core| free[core]).count();
        for (at, (_, domains)) in self.levels.iter().enumerate() {
            if domains.iter().any(|domain| free_in(domain) >= count) {
                return None;
            }
            let large = domains.iter().enumerate().filter(|(_, domain)| domain.cores.len() >= count);
            let ways = large.filter_map(|(number, domain)| {
                let way = self.clear(at, domain, free, movers, count, memory_max)?;
                Some(((way.memory_bytes, way.moves.len(), number), way))
            });
            if let Some((_, way)) = ways.min_by_key(|(key, _)| *key) {
                return Some(way);
            }
        }
        None
    }

    /// The best way to clear a domain.
    fn clear(
        &self,
        at: usize,
        domain: &Domain,
        free: &[bool],
        movers: &[Mover],
        count: usize,
        memory_max: u64,
    ) -> Option<Repack> {
        let inside = |core: &usize| domain.cores.binary_search(core).is_ok();
        let here = domain.cores.iter().filter(|&&core| free[core]).count();
        let mut candidates: Vec<usize> =
            (0..movers.len()).filter(|&mover| movers[mover].cores.iter().all(inside)).collect();
        candidates.sort_by_key(|&mover| (movers[mover].memory_bytes, mover));
        candidates.truncate(CANDIDATES_MAX);
        let mut ways: Vec<Vec<usize>> = Vec::new();
        for mask in 1u32..1 << candidates.len() {
            let chosen =
                || candidates.iter().enumerate().filter(move |(i, _)| mask >> i & 1 == 1).map(|(_, &m)| m);
            let gain: usize = chosen().map(|mover| movers[mover].cores.len()).sum();
            // Every mover must be necessary.
            let needed = chosen().all(|mover| here + gain - movers[mover].cores.len() < count);
            if mask.count_ones() as usize <= MOVES_MAX && here + gain >= count && needed {
                ways.push(chosen().collect());
            }
        }
        let memory = |way: &[usize]| way.iter().map(|&m| movers[m].memory_bytes).fold(0, u64::saturating_add);
        ways.sort_by_key(|way| (memory(way), way.len(), way.clone()));
        let tried =
            ways.iter().take(TRIED_MAX).filter_map(|way| self.moved(at, domain, free, movers, way, count));
        tried
            .filter(|way| way.memory_bytes <= memory_max)
            .min_by_key(|way| (way.memory_bytes, way.moves.len()))
    }

    /// The new places of the jobs that leave a domain; `None` if a job would lie further apart than before.
    fn moved(
        &self,
        at: usize,
        domain: &Domain,
        free: &[bool],
        movers: &[Mover],
        way: &[usize],
        count: usize,
    ) -> Option<Repack> {
        let inside = |core: &usize| domain.cores.binary_search(core).is_ok();
        let mut outside: Vec<bool> = (0..free.len()).map(|core| free[core] && !inside(&core)).collect();
        let mut cleared: Vec<bool> = (0..free.len()).map(|core| free[core] && inside(&core)).collect();
        let mut largest_first = way.to_vec();
        largest_first.sort_by_key(|&mover| (Reverse(movers[mover].cores.len()), mover));
        let (mut moves, mut memory_bytes) = (Vec::new(), 0u64);
        for mover in largest_first {
            let old = &movers[mover].cores;
            let new = self.place(&outside, old.len(), Shape::Compact)?;
            if self.rank(&new) > self.rank(old) {
                return None;
            }
            new.iter().for_each(|&core| outside[core] = false);
            old.iter().for_each(|&core| cleared[core] = true);
            if self.nodes(&new) != self.nodes(old) {
                memory_bytes = memory_bytes.saturating_add(movers[mover].memory_bytes);
            }
            moves.push((mover, new));
        }
        let cores = self.place(&cleared, count, Shape::Compact)?;
        moves.sort_unstable();
        Some(Repack { moves, cores, level: self.levels[at].0, memory_bytes })
    }

    /// How far apart cores are: index of the lowest level with a domain that holds all `cores`.
    fn rank(&self, cores: &[usize]) -> usize {
        let holds = |domain: &Domain| cores.iter().all(|core| domain.cores.binary_search(core).is_ok());
        let lowest = self.levels.iter().position(|(_, domains)| domains.iter().any(holds));
        lowest.unwrap_or(self.levels.len())
    }

    fn nodes(&self, cores: &[usize]) -> std::collections::BTreeSet<u32> {
        cores.iter().map(|&core| self.cores[core].node).collect()
    }
}

#[cfg(test)]
mod tests {
    use pinfold_topo::synthetic;
    use proptest::prelude::*;

    use super::*;

    /// Two sockets of two L3 caches of four cores.
    fn site() -> Site {
        Site::new(&synthetic::facts_of("pack:2 numa:1 l3:2 core:4 pu:1").unwrap().assemble().unwrap())
    }

    fn mover(cores: &[usize], memory_bytes: u64) -> Mover {
        Mover { cores: cores.to_vec(), memory_bytes }
    }

    fn free(taken: &[usize]) -> Vec<bool> {
        (0..16).map(|core| !taken.contains(&core)).collect()
    }

    #[test]
    fn a_small_job_makes_room_for_a_large_job() {
        // Each cache has one job on one core; a job that moves stays in its socket or changes it.
        let movers = [mover(&[0], 50), mover(&[4], 40), mover(&[8], 20), mover(&[12], 30)];
        let repack = site().repack(&free(&[0, 4, 8, 12]), &movers, 4, 1000).unwrap();
        assert_eq!((repack.level, repack.moves.len(), repack.cores.len()), (Level::L3, 1, 4));
        // It goes to the other cache of its socket, so no memory has to follow.
        assert_eq!((repack.memory_bytes, repack.cores), (0, vec![0, 1, 2, 3]));
        assert_eq!(repack.moves, [(0, vec![5])]);
    }

    #[test]
    fn no_job_moves_where_there_is_room_or_it_does_not_pay() {
        let movers = [mover(&[0], 0), mover(&[4], 0)];
        assert_eq!(site().repack(&free(&[0, 4]), &movers, 4, 0), None, "two caches are free");
        // Its only way out is the other socket.
        let taken: Vec<usize> =
            (0..8).chain([8, 12]).filter(|&core| core != 1 && core != 2 && core != 3).collect();
        let far = [mover(&[0], 500)];
        assert_eq!(site().repack(&free(&taken), &far, 4, 499), None, "500 bytes are more than 499");
        let near = site().repack(&free(&taken), &far, 4, 500).unwrap();
        assert_eq!((near.memory_bytes, near.cores), (500, vec![0, 1, 2, 3]));
    }

    #[test]
    fn no_job_is_torn_apart_for_another() {
        // The pair could only go to two caches.
        let taken = [0, 1, 4, 5, 6, 8, 9, 10, 12, 13, 14];
        assert_eq!(site().repack(&free(&taken), &[mover(&[0, 1], 0)], 4, u64::MAX), None);
    }

    proptest! {
        #[test]
        fn everyone_lies_as_well_as_before_and_the_newcomer_better(
            owners in prop::collection::vec(0usize..8, 16),
            memory in prop::collection::vec(0u64..100, 8),
            count in 1usize..9,
            memory_max in 0u64..300,
        ) {
            let site = site();
            // Owners 0 to 2 move, 3 and 4 do not, the rest is free.
            let cores_of = |owner: usize| (0..16).filter(|&core| owners[core] == owner).collect::<Vec<_>>();
            let movers: Vec<Mover> = (0..3).map(|o| mover(&cores_of(o), memory[o])).filter(|m| !m.cores.is_empty()).collect();
            let free: Vec<bool> = owners.iter().map(|&owner| owner > 4).collect();
            let before = site.place(&free, count, Shape::Compact);
            let repack = site.repack(&free, &movers, count, memory_max);
            prop_assert_eq!(&repack, &site.repack(&free, &movers, count, memory_max));
            let Some(repack) = repack else { return Ok(()) };
            prop_assert!(repack.moves.len() <= MOVES_MAX && repack.memory_bytes <= memory_max);
            prop_assert!(!repack.moves.is_empty());
            if let Some(before) = before {
                prop_assert!(site.rank(&repack.cores) < site.rank(&before));
            }
            let mut taken: Vec<bool> = free.iter().map(|free| !free).collect();
            for (mover, _) in &repack.moves {
                movers[*mover].cores.iter().for_each(|&core| taken[core] = false);
            }
            let news = repack.moves.iter().map(|(_, new)| new).chain([&repack.cores]);
            for &core in news.flatten() {
                prop_assert!(!std::mem::replace(&mut taken[core], true), "core {} is given twice", core);
            }
            for (mover, new) in &repack.moves {
                prop_assert_eq!(new.len(), movers[*mover].cores.len());
                prop_assert!(site.rank(new) <= site.rank(&movers[*mover].cores));
            }
            prop_assert_eq!(repack.cores.len(), count);
        }
    }
}
