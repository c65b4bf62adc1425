//! Builds a [`Topology`] from the sets of PUs that a machine reports.
//!
//! Sources contradict themselves: archived and virtual machines have caches that cut through cores, NUMA
//! nodes that all hold every PU, PUs in no socket. Assembly never fails for such contradictions: the larger
//! level wins and the smaller level is cut to fit. `sys` does the reading.

use std::collections::BTreeMap;

use crate::cpuset::CpuSet;
use crate::index::{PuLogical, PuOs};
use crate::topology::{NumaNode, Pu, Topology, TopologyError};

/// A machine's own report: per level, the sets of PUs that share an object.
///
/// Sets of a level should not overlap; an overlap goes to the first set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The online PUs.
    pub pus: CpuSet,
    /// The PUs that exist and are switched off.
    pub offline: CpuSet,
    /// The PUs that this process may use; `None` means all PUs.
    pub allowed: Option<CpuSet>,
    /// The PUs of each socket.
    pub sockets: Vec<CpuSet>,
    /// The PUs of each die.
    pub dies: Vec<CpuSet>,
    /// The PUs behind each level 3 cache.
    pub l3: Vec<CpuSet>,
    /// The PUs behind each level 2 cache.
    pub l2: Vec<CpuSet>,
    /// The PUs of each core.
    pub cores: Vec<CpuSet>,
    /// The NUMA nodes.
    pub numa: Vec<NumaNode>,
    /// The kinds of core, from the most frugal to the fastest.
    pub kinds: Vec<CpuSet>,
}

/// A level: its sets, and the position of each PU's set.
struct Level {
    sets: Vec<CpuSet>,
    of: BTreeMap<PuOs, usize>,
}

impl Level {
    fn new(sets: &[CpuSet], within: &CpuSet) -> Self {
        let mut taken = CpuSet::new();
        let mut level = Self { sets: Vec::new(), of: BTreeMap::new() };
        for set in sets {
            let set = set.intersection(within).difference(&taken);
            if set.is_empty() {
                continue;
            }
            taken = taken.union(&set);
            level.of.extend(set.iter().map(|pu| (pu, level.sets.len())));
            level.sets.push(set);
        }
        level
    }

    /// As [`Self::new`], with another set for the PUs that no set holds.
    fn total(sets: &[CpuSet], within: &CpuSet) -> Self {
        let named = sets.iter().fold(CpuSet::new(), |all, set| all.union(set));
        let mut sets = sets.to_vec();
        sets.push(within.difference(&named));
        Self::new(&sets, within)
    }

    fn of(&self, pu: PuOs) -> Option<usize> {
        self.of.get(&pu).copied()
    }
}

/// Gives logical numbers in the order of first appearance.
#[derive(Default)]
struct Numbers(BTreeMap<usize, u32>);

impl Numbers {
    fn of(&mut self, key: usize) -> u32 {
        let next = u32::try_from(self.0.len()).expect("no more objects than PUs, which are bounded");
        *self.0.entry(key).or_insert(next)
    }
}

impl Facts {
    /// The machine. Objects of a level are ordered by their lowest OS index, below their parents.
    ///
    /// # Errors
    /// [`TopologyError::Empty`] when no PU is online.
    pub fn assemble(&self) -> Result<Topology, TopologyError> {
        let sockets = Level::total(&self.sockets, &self.pus);
        let nodes: Vec<CpuSet> =
            self.smallest_nodes_first().iter().map(|&i| self.numa[i].pus.clone()).collect();
        let numa = Level::total(&nodes, &self.pus);
        let dies = Level::new(&self.dies, &self.pus);
        let [l3, l2] = [&self.l3, &self.l2].map(|sets| Level::new(&self.widened(sets), &self.pus));
        let cores = self.whole_cores(&[&sockets, &numa, &dies, &l3, &l2]);
        let levels = [&sockets, &numa, &dies, &l3, &l2, &cores];
        let mut order: Vec<PuOs> = self.pus.iter().collect();
        order.sort_by_cached_key(|&pu| path_of(pu, &levels));

        let (node_of, numa_nodes) = self.nodes_in(&order);
        let kinds = Level::new(&self.kinds, &self.pus);
        let mut numbers: [Numbers; 5] = Default::default();
        let [socket_numbers, die_numbers, l3_numbers, l2_numbers, core_numbers] = &mut numbers;
        let in_some = "every PU is in one of these sets";
        let pus = order
            .iter()
            .map(|&pu| Pu {
                os: pu,
                logical: PuLogical(0),
                core: core_numbers.of(cores.of(pu).expect(in_some)),
                l2: l2.of(pu).map(|i| l2_numbers.of(i)),
                l3: l3.of(pu).map(|i| l3_numbers.of(i)),
                numa: node_of[&pu],
                die: dies.of(pu).map(|i| die_numbers.of(i)),
                socket: socket_numbers.of(sockets.of(pu).expect(in_some)),
                efficiency: kinds.of(pu).map_or(0, |i| u8::try_from(i).unwrap_or(u8::MAX)),
                usable: self.allowed.as_ref().is_none_or(|allowed| allowed.contains(pu)),
            })
            .collect();
        Topology::with_numa(pus, numa_nodes, self.offline.clone())
    }

    /// Caches, widened to their core where a kernel lists a cache per thread: threads of a core share its
    /// caches.
    fn widened(&self, caches: &[CpuSet]) -> Vec<CpuSet> {
        let mut core_of: BTreeMap<PuOs, &CpuSet> = BTreeMap::new();
        for core in &self.cores {
            core.iter().for_each(|pu| {
                core_of.entry(pu).or_insert(core);
            });
        }
        let core_around = |cache: &CpuSet| {
            let core = cache.iter().next().and_then(|pu| core_of.get(&pu).copied());
            core.filter(|core| cache.is_subset(core))
        };
        caches.iter().map(|cache| core_around(cache).unwrap_or(cache).clone()).collect()
    }

    /// The cores, cut where another level runs through them; a PU in no core is a core of its own.
    fn whole_cores(&self, others: &[&Level]) -> Level {
        let named = Level::new(&self.cores, &self.pus);
        // Key that two PUs of a core share: the core and their object at every other level.
        type Place = (Option<usize>, PuOs, Vec<Option<usize>>);
        let mut pieces: BTreeMap<Place, CpuSet> = BTreeMap::new();
        for pu in self.pus.iter() {
            let core = named.of(pu);
            let alone = if core.is_some() { PuOs(0) } else { pu };
            let key = (core, alone, others.iter().map(|level| level.of(pu)).collect());
            pieces.entry(key).or_default().insert(pu);
        }
        Level::new(&pieces.into_values().collect::<Vec<_>>(), &self.pus)
    }

    /// Positions of the NUMA nodes with PUs: nodes with memory first, then nodes with fewer PUs, so that a PU
    /// belongs to its most local memory; ties by OS index.
    fn smallest_nodes_first(&self) -> Vec<usize> {
        let mut nodes: Vec<usize> = (0..self.numa.len()).filter(|&i| !self.numa[i].pus.is_empty()).collect();
        nodes.sort_by_key(|&i| {
            let node = &self.numa[i];
            (node.memory_bytes == Some(0), node.pus.len(), node.os)
        });
        nodes
    }

    /// The NUMA nodes in logical order (by first PU; nodes that are nearest to no PU come last, by OS index),
    /// and the node of each PU. A machine that reports no node gets a single node; PUs in no node belong to
    /// the first.
    fn nodes_in(&self, order: &[PuOs]) -> (BTreeMap<PuOs, u32>, Vec<NumaNode>) {
        let sorted = self.smallest_nodes_first();
        let nearest = |pu: PuOs| sorted.iter().copied().find(|&i| self.numa[i].pus.contains(pu));
        let mut numbers = Numbers::default();
        let mut of: BTreeMap<PuOs, u32> = BTreeMap::new();
        for &pu in order {
            if let Some(node) = nearest(pu) {
                of.insert(pu, numbers.of(node));
            }
        }
        let mut rest: Vec<usize> = (0..self.numa.len()).filter(|i| !numbers.0.contains_key(i)).collect();
        rest.sort_by_key(|&i| self.numa[i].os);
        for node in rest {
            numbers.of(node);
        }
        let mut nodes: Vec<(u32, NumaNode)> =
            numbers.0.iter().map(|(&i, &number)| (number, self.numa[i].clone())).collect();
        nodes.sort_by_key(|(number, _)| *number);
        let mut nodes: Vec<NumaNode> = nodes.into_iter().map(|(_, node)| node).collect();
        if nodes.is_empty() {
            nodes.push(NumaNode { os: 0, memory_bytes: None, pus: self.pus.clone() });
        }
        for &pu in order {
            of.entry(pu).or_insert(0);
        }
        (of, nodes)
    }
}

/// Sort key of a PU: the lowest PU of each object that holds it, from the largest object to the smallest.
/// Objects nest, so sorting by these paths walks the tree with children in order of their lowest OS index,
/// even where a NUMA node holds sockets or a socket holds NUMA nodes.
fn path_of(pu: PuOs, levels: &[&Level]) -> Vec<PuOs> {
    let mut objects: Vec<(std::cmp::Reverse<usize>, PuOs)> = levels
        .iter()
        .filter_map(|level| level.of(pu).map(|i| &level.sets[i]))
        .map(|set| (std::cmp::Reverse(set.len()), set.first().expect("sets of a level are not empty")))
        .collect();
    objects.sort();
    objects.dedup();
    objects.into_iter().map(|(_, first)| first).chain([pu]).collect()
}
