//! A machine as nested domains of free cores: machine, sockets, NUMA nodes, L3 caches, in the order in which
//! they contain each other on this machine.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_topo::{CpuSet, Pu, Topology};

use super::Room;

/// What a domain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The PUs behind one level 3 cache.
    L3,
    /// The PUs nearest to one NUMA node.
    Numa,
    /// A socket.
    Socket,
    /// The whole machine.
    Machine,
}

/// One domain and what is free in it.
#[derive(Debug, Clone)]
pub(super) struct Domain {
    /// Free cores, by their place in [`Tree::cores`].
    pub(super) cores: Vec<usize>,
    /// Whether all of it is free.
    pub(super) whole: bool,
    /// The NUMA nodes nearest to its free cores.
    pub(super) nodes: BTreeSet<u32>,
}

/// The levels from the smallest domains to the machine.
#[derive(Debug)]
pub(super) struct Tree {
    /// The free PUs of each free core.
    pub(super) cores: Vec<CpuSet>,
    pub(super) levels: Vec<(Level, Vec<Domain>)>,
}

impl Tree {
    /// The free cores of `room`: those free as a whole; when `n` are more than those, also cores of which a
    /// thread is held.
    pub(super) fn new(room: &Room<'_>, n: usize) -> Self {
        let mut free: BTreeMap<u32, CpuSet> = BTreeMap::new();
        let mut held: BTreeSet<u32> = BTreeSet::new();
        for pu in room.topology.pus().iter().filter(|pu| pu.usable) {
            if room.free.contains(pu.os) {
                free.entry(pu.core).or_default().insert(pu.os);
            } else {
                held.insert(pu.core);
            }
        }
        let whole = free.keys().filter(|core| !held.contains(core)).count();
        if whole >= n {
            free.retain(|core, _| !held.contains(core));
        }
        let places: BTreeMap<u32, usize> = free.keys().copied().zip(0..).collect();
        let mut levels: Vec<(Level, Vec<Domain>)> = [Level::L3, Level::Numa, Level::Socket]
            .into_iter()
            .filter_map(|level| Some((level, domains(room.topology, level, &places, &held)?)))
            .collect();
        // A NUMA node may hold sockets or a socket NUMA nodes: the level with more domains is the lower.
        levels.sort_by_key(|(level, domains)| (std::cmp::Reverse(domains.len()), *level));
        levels.dedup_by(|upper, lower| same_cores(&upper.1, &lower.1));
        levels.push((Level::Machine, vec![machine(room.topology, &places, &held)]));
        Self { cores: free.into_values().collect(), levels }
    }

    /// Memory that is free in some NUMA nodes, in bytes.
    pub(super) fn memory_bytes(room: &Room<'_>, nodes: &BTreeSet<u32>) -> u64 {
        nodes.iter().fold(0, |sum, &node| {
            let free = room.memory_free_bytes.get(node as usize).copied().unwrap_or(u64::MAX);
            sum.saturating_add(free)
        })
    }

    /// The domains of the level below `level` that lie in `domain`.
    pub(super) fn children(&self, level: usize, domain: &Domain) -> Vec<Domain> {
        let Some(below) = level.checked_sub(1) else { return Vec::new() };
        let inside = |child: &&Domain| child.cores.iter().all(|core| domain.cores.contains(core));
        let children: Vec<Domain> = self.levels[below].1.iter().filter(inside).cloned().collect();
        let covered: usize = children.iter().map(|child| child.cores.len()).sum();
        if covered == domain.cores.len() { children } else { Vec::new() }
    }
}

fn same_cores(one: &[Domain], other: &[Domain]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.cores == other.cores)
}

/// The domains of a level that have free cores; `None` where the machine does not have that level for every
/// PU.
fn domains(
    topology: &Topology,
    level: Level,
    places: &BTreeMap<u32, usize>,
    held: &BTreeSet<u32>,
) -> Option<Vec<Domain>> {
    let of = |pu: &Pu| match level {
        Level::L3 => pu.l3,
        Level::Numa => Some(pu.numa),
        Level::Socket => Some(pu.socket),
        Level::Machine => Some(0),
    };
    let mut domains: BTreeMap<u32, Domain> = BTreeMap::new();
    for pu in topology.pus().iter().filter(|pu| pu.usable) {
        let empty = || Domain { cores: Vec::new(), whole: true, nodes: BTreeSet::new() };
        let domain = domains.entry(of(pu)?).or_insert_with(empty);
        match places.get(&pu.core) {
            Some(&core) => {
                domain.nodes.insert(pu.numa);
                if domain.cores.last() != Some(&core) {
                    domain.cores.push(core);
                }
            }
            None => domain.whole = false,
        }
        domain.whole &= !held.contains(&pu.core);
    }
    domains.retain(|_, domain| !domain.cores.is_empty());
    for domain in domains.values_mut() {
        domain.cores.sort_unstable();
        domain.cores.dedup();
    }
    Some(domains.into_values().collect())
}

fn machine(topology: &Topology, places: &BTreeMap<u32, usize>, held: &BTreeSet<u32>) -> Domain {
    let all = domains(topology, Level::Machine, places, held).and_then(|all| all.into_iter().next());
    all.unwrap_or_else(|| Domain { cores: Vec::new(), whole: false, nodes: BTreeSet::new() })
}
