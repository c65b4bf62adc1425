//! Which cores of a host a job gets when it names none: close together, or apart.
//!
//! The machine is a tree of domains (machine, sockets, NUMA nodes, L3 caches, in the order in which they
//! contain each other), each with its free cores and the memory near to them. Compact takes the lowest level
//! that holds cores and memory; spread deals cores out over the lowest level by the bandwidth left. Owns no
//! state: who holds what is the caller's. The same room and the same demand give the same placement.

mod compact;
mod spread;
mod tree;

use pinfold_topo::{CpuSet, Topology};

pub use tree::Level;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    fn new(room: &Room<'_>, level: Level, cores: Vec<CpuSet>) -> Self {
        let pus = room.topology.pus().iter();
        let near = pus.filter(|pu| cores.iter().any(|core| core.contains(pu.os))).map(|pu| pu.numa);
        let numa: std::collections::BTreeSet<u32> = near.collect();
        Self { cores, numa: numa.into_iter().collect(), level }
    }

    /// All its PUs.
    #[must_use]
    pub fn pus(&self) -> CpuSet {
        self.cores.iter().fold(CpuSet::new(), |all, core| all.union(core))
    }
}

impl Room<'_> {
    /// The number under which the bandwidth of a core is kept.
    fn bandwidth_id(&self, core: &CpuSet) -> Option<u32> {
        let first = core.first()?;
        let pu = self.topology.pus().iter().find(|pu| pu.os == first)?;
        Some(pu.l3.unwrap_or(pu.numa))
    }
}

/// Where a job with `demand` goes in `room`; `None` when the host cannot hold it now. Whole cores come before
/// cores of which a thread is held.
#[must_use]
pub fn pack(room: &Room<'_>, demand: &Demand) -> Option<Placement> {
    if demand.cores == 0 {
        return None;
    }
    match demand.shape {
        Shape::Compact => compact::place(room, demand),
        Shape::Spread => spread::place(room, demand),
    }
}
