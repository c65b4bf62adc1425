//! Which cores of a host a job gets when it names none: close together, or apart.
//!
//! The machine is a tree of domains (machine, sockets, NUMA nodes, L3 caches, in the order in which they
//! contain each other), each with its free cores and the memory near to them. Compact takes the lowest level
//! that holds cores and memory; spread deals cores out over the lowest level by the bandwidth left. Owns no
//! state: which job holds what is the caller's. The same room and the same demand give the same placement.

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

/// What is free on a host.
#[derive(Debug, Clone, Copy)]
pub struct Room<'a> {
    /// The host.
    pub topology: &'a Topology,
    /// Its PUs that nobody holds.
    pub free: &'a CpuSet,
    /// The free memory of each NUMA node in bytes, by logical number; missing ones count as enough.
    pub memory_free_bytes: &'a [u64],
    /// The memory bandwidth left behind each L3 (where the machine has none, of each NUMA node) in bytes a
    /// second, by logical number; missing ones count as enough.
    pub bandwidth_left: &'a [u64],
}

/// How a job's cores lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Shape {
    /// As close together as possible.
    #[default]
    Compact,
    /// As far apart as possible, for jobs that wait for memory.
    Spread,
}

/// What a job needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// Whole cores.
    pub cores: usize,
    /// Memory in bytes that should be near to them.
    pub memory_bytes: u64,
    /// Memory bandwidth of each core in bytes a second; used for [`Shape::Spread`] only.
    pub bandwidth_per_core: u64,
    /// How they lie.
    pub shape: Shape,
}

/// What a job gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The free PUs of each core, in logical order.
    pub cores: Vec<CpuSet>,
    /// The NUMA nodes nearest to them, by logical number, ascending.
    pub numa: Vec<u32>,
    /// The smallest kind of domain that holds them all.
    pub level: Level,
}

impl Placement {
    /// All its PUs.
    #[must_use]
    pub fn pus(&self) -> CpuSet {
        self.cores.iter().fold(CpuSet::new(), |all, core| all.union(core))
    }
}

/// Where a job with `demand` goes in `room`; `None` when the host cannot hold it now. Whole cores come before
/// cores of which a thread is held.
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
    /// The cores for a job of `count` whole cores, of those that are `free`, ascending; `None` when there are fewer.
    ///
    /// # Panics
    /// If `free` does not speak of each core.
    #[must_use]
    pub fn place(&self, free: &[bool], count: usize, shape: Shape) -> Option<Vec<usize>> {
        if count == 1 && shape == Shape::Compact {
            return self.place_one(|core| free[core]).map(|core| vec![core]);
        }
        let demand = Demand { cores: count, shape, ..Demand::default() };
        place(&Free::new(self, free, free, &[]), &demand, &[]).map(|(_, taken)| taken)
    }

    /// One core, of those that are `free`: where the fewest of a smallest domain are, and around it, the first of those.
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
        // Of a machine that is empty all domains are alike, and around each is the same: counted once.
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
