//! Picks the cores of a job that names no cores: close together, or far apart.
//!
//! The machine is a tree of domains (machine, sockets, NUMA nodes, L3 caches, in the machine's order of
//! containment), each with its free cores and local memory. Compact takes the lowest level that holds cores
//! and memory; spread deals cores out over the lowest level by remaining bandwidth. Stateless and
//! deterministic: the caller tracks the allocations.

mod compact;
mod lie;
mod repack;
mod site;
mod spread;

use std::collections::BTreeMap;

use pinfold_topo::{CpuSet, Topology};

pub use repack::{MOVES_MAX, Mover, Repack};
pub use site::{Level, Site};

use site::Free;

/// The free resources of a host.
#[derive(Debug, Clone, Copy)]
pub struct Room<'a> {
    /// The host.
    pub topology: &'a Topology,
    /// Its free PUs.
    pub free: &'a CpuSet,
    /// Free memory in bytes of each NUMA node, by logical number; missing entries count as enough.
    pub memory_free_bytes: &'a [u64],
    /// Remaining memory bandwidth in bytes per second of each L3 (of each NUMA node where the machine has no
    /// L3), by logical number; missing entries count as enough.
    pub bandwidth_left: &'a [u64],
}

/// How a job's cores lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Shape {
    /// As close together as possible.
    #[default]
    Compact,
    /// As far apart as possible, for memory-bound jobs.
    Spread,
}

/// The resources that a job needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// Whole cores.
    pub cores: usize,
    /// Local memory in bytes.
    pub memory_bytes: u64,
    /// Memory bandwidth in bytes per second of each core; for [`Shape::Spread`] only.
    pub bandwidth_per_core: u64,
    /// Close together or far apart.
    pub shape: Shape,
}

/// The cores chosen for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The free PUs of each core, in logical order.
    pub cores: Vec<CpuSet>,
    /// The NUMA nodes nearest to the cores, by logical number, ascending.
    pub numa: Vec<u32>,
    /// The smallest kind of domain that holds all the cores.
    pub level: Level,
}

impl Placement {
    /// The PUs of all its cores.
    #[must_use]
    pub fn pus(&self) -> CpuSet {
        self.cores.iter().fold(CpuSet::new(), |all, core| all.union(core))
    }
}

/// Places a job with `demand` in `room`; `None` when the host lacks the free cores or memory. Prefers cores
/// with all PUs free to cores in partial use.
#[must_use]
pub fn pack(room: &Room<'_>, demand: &Demand) -> Option<Placement> {
    let site = Site::new(room.topology);
    let whole: Vec<bool> = site.cores().map(|core| core.is_subset(room.free)).collect();
    let enough = whole.iter().filter(|whole| **whole).count() >= demand.cores;
    let free =
        if enough { whole.clone() } else { site.cores().map(|core| !core.is_disjoint(room.free)).collect() };
    let free = Free::new(&site, &free, &whole, room.memory_free_bytes);
    let (level, taken) = place(&free, demand, room.bandwidth_left)?;
    let numa: std::collections::BTreeSet<u32> = taken.iter().map(|&core| site.cores[core].node).collect();
    let cores = taken.iter().map(|&core| site.cores[core].pus.intersection(room.free)).collect();
    Some(Placement { cores, numa: numa.into_iter().collect(), level })
}

fn place(free: &Free<'_>, demand: &Demand, bandwidth_left: &[u64]) -> Option<(Level, Vec<usize>)> {
    if demand.cores == 0 {
        return None;
    }
    match demand.shape {
        Shape::Compact => compact::place(free, demand.cores, demand.memory_bytes),
        Shape::Spread => {
            let taken = spread::place(free, demand.cores, demand.bandwidth_per_core, bandwidth_left)?;
            let near = taken.iter().map(|&core| free.site.cores[core].node).collect();
            let level = free.site.level_of(&taken);
            (free.memory_bytes(&near) >= demand.memory_bytes).then_some((level, taken))
        }
    }
}

impl Site {
    /// `count` of the `free` cores for a job, ascending; `None` when fewer are free.
    ///
    /// # Panics
    /// If `free` is shorter than the number of cores.
    #[must_use]
    pub fn place(&self, free: &[bool], count: usize, shape: Shape) -> Option<Vec<usize>> {
        if count == 1 && shape == Shape::Compact {
            return self.place_one(|core| free[core]).map(|core| vec![core]);
        }
        let demand = Demand { cores: count, shape, ..Demand::default() };
        place(&Free::new(self, free, free, &[]), &demand, &[]).map(|(_, taken)| taken)
    }

    /// A free core in the smallest domain with the fewest free cores; ties go to the domain with the fewest
    /// free cores around it, then to the first.
    #[must_use]
    pub fn place_one(&self, free: impl Fn(usize) -> bool) -> Option<usize> {
        let (mut least, mut alike) = (usize::MAX, Vec::new());
        for (number, domain) in self.levels.first()?.1.iter().enumerate() {
            let mut found = domain.cores.iter().copied().filter(|&core| free(core));
            let Some(first) = found.next() else { continue };
            let count = 1 + found.count();
            if count < least {
                (least, alike) = (count, Vec::new());
            }
            if count == least {
                alike.push((number, first));
            }
        }
        if let [(_, only)] = alike.as_slice() {
            return Some(*only);
        }
        // On an empty machine all domains tie and share their surroundings, so each count is cached.
        let mut counts = BTreeMap::new();
        let mut around = |number: usize| -> Vec<usize> {
            let count = |(level, domain): (usize, usize)| {
                let cores = &self.levels[level].1[domain].cores;
                let count = || cores.iter().filter(|&&core| free(core)).count();
                *counts.entry((level, domain)).or_insert_with(count)
            };
            self.around(0, number).map(count).collect()
        };
        alike.into_iter().min_by_key(|&(number, first)| (around(number), first)).map(|(_, first)| first)
    }
}
