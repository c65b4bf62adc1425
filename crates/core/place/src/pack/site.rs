//! A machine as nested domains of cores: machine, sockets, NUMA nodes, L3 caches, in the machine's order of
//! containment. Built once; each query passes the free cores.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_topo::{CpuSet, Pu, Topology};

/// The kind of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Level {
    /// The PUs behind a level 3 cache.
    L3,
    /// The PUs nearest to a NUMA node.
    Numa,
    /// A socket.
    Socket,
    /// The whole machine.
    Machine,
}

/// The cores of a machine and their domains.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Site {
    pub(super) cores: Vec<Core>,
    /// From the smallest domains to the machine.
    pub(super) levels: Vec<(Level, Vec<Domain>)>,
}

/// A core of a site.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Core {
    /// Its usable PUs.
    pub(super) pus: CpuSet,
    /// The nearest NUMA node.
    pub(super) node: u32,
    /// Key of its memory bandwidth: the number of its L3, or of its node where the machine has no L3.
    pub(super) bandwidth: u32,
}

/// A domain of a site.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Domain {
    /// Its cores, ascending.
    pub(super) cores: Vec<usize>,
    /// Its domains on the level below.
    pub(super) children: Vec<usize>,
    /// The domain around it on the level above, if any.
    pub(super) parent: Option<usize>,
}

impl Site {
    /// The usable cores of a machine.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        let mut pus: BTreeMap<u32, (CpuSet, &Pu)> = BTreeMap::new();
        for pu in topology.pus().iter().filter(|pu| pu.usable) {
            pus.entry(pu.core).or_insert_with(|| (CpuSet::new(), pu)).0.insert(pu.os);
        }
        let firsts: Vec<&Pu> = pus.values().map(|(_, first)| *first).collect();
        let core = |(pus, first): (CpuSet, &Pu)| Core {
            pus,
            node: first.numa,
            bandwidth: first.l3.unwrap_or(first.numa),
        };
        let mut levels: Vec<(Level, Vec<Domain>)> = [Level::L3, Level::Numa, Level::Socket]
            .into_iter()
            .filter_map(|level| Some((level, domains(&firsts, level)?)))
            .collect();
        // A NUMA node may hold sockets or a socket NUMA nodes: the level with more domains is the lower.
        levels.sort_by_key(|(level, domains)| (std::cmp::Reverse(domains.len()), *level));
        levels.dedup_by(|upper, lower| upper.1 == lower.1);
        let all = Domain { cores: (0..firsts.len()).collect(), children: Vec::new(), parent: None };
        levels.push((Level::Machine, vec![all]));
        let mut site = Self { cores: pus.into_values().map(core).collect(), levels };
        site.link();
        site
    }

    /// A machine of `cores` with unknown topology.
    #[must_use]
    pub fn flat(cores: &[CpuSet]) -> Self {
        let core = |pus: &CpuSet| Core { pus: pus.clone(), node: 0, bandwidth: 0 };
        let all = Domain { cores: (0..cores.len()).collect(), children: Vec::new(), parent: None };
        Self { cores: cores.iter().map(core).collect(), levels: vec![(Level::Machine, vec![all])] }
    }

    /// How many cores the machine has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cores.len()
    }

    /// Whether the machine has no core.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cores.is_empty()
    }

    /// The usable PUs of each core, in logical order.
    pub fn cores(&self) -> impl Iterator<Item = &CpuSet> {
        self.cores.iter().map(|core| &core.pus)
    }

    fn link(&mut self) {
        for at in 1..self.levels.len() {
            let mut home = vec![usize::MAX; self.cores.len()];
            for (number, domain) in self.levels[at].1.iter().enumerate() {
                domain.cores.iter().for_each(|&core| home[core] = number);
            }
            let (below, above) = self.levels.split_at_mut(at);
            for (number, child) in below[at - 1].1.iter_mut().enumerate() {
                let parent = home[child.cores[0]];
                if child.cores.iter().all(|&core| home[core] == parent) {
                    above[0].1[parent].children.push(number);
                    child.parent = Some(parent);
                }
            }
        }
    }

    /// The domains around a domain, from the next larger on: their level and index.
    pub(super) fn around(&self, level: usize, domain: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let up = |&(level, domain): &(usize, usize)| {
            let parent: Option<usize> = self.levels[level].1[domain].parent;
            parent.map(|parent| (level + 1, parent))
        };
        std::iter::successors(Some((level, domain)), up).skip(1)
    }

    /// The level of the smallest domain that holds all of `cores`.
    pub(super) fn level_of(&self, cores: &[usize]) -> Level {
        let holds = |domain: &Domain| cores.iter().all(|core| domain.cores.binary_search(core).is_ok());
        let found = self.levels.iter().find(|(_, domains)| domains.iter().any(holds));
        found.map_or(Level::Machine, |(level, _)| *level)
    }
}

/// The domains of a level; `None` unless every core has that level.
fn domains(cores: &[&Pu], level: Level) -> Option<Vec<Domain>> {
    let of = |pu: &Pu| match level {
        Level::L3 => pu.l3,
        Level::Numa => Some(pu.numa),
        Level::Socket => Some(pu.socket),
        Level::Machine => Some(0),
    };
    let mut domains: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (core, pu) in cores.iter().enumerate() {
        domains.entry(of(pu)?).or_default().push(core);
    }
    Some(domains.into_values().map(|cores| Domain { cores, children: Vec::new(), parent: None }).collect())
}

/// The free cores of a site, counted per domain.
#[derive(Debug)]
pub(super) struct Free<'a> {
    pub(super) site: &'a Site,
    /// Whether each core is free.
    pub(super) free: &'a [bool],
    /// Free memory in bytes of each NUMA node; missing entries count as enough.
    memory_free_bytes: &'a [u64],
    counts: Vec<Vec<Count>>,
}

/// How much of a domain is free.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) cores: usize,
    /// Whether the domain is wholly free.
    pub(super) whole: bool,
    /// The first free core.
    pub(super) first: usize,
}

impl<'a> Free<'a> {
    /// `whole` says of each core whether all its PUs are free.
    pub(super) fn new(
        site: &'a Site,
        free: &'a [bool],
        whole: &[bool],
        memory_free_bytes: &'a [u64],
    ) -> Self {
        let count = |domain: &Domain| {
            let mut count = Count { cores: 0, whole: true, first: usize::MAX };
            for &core in &domain.cores {
                count.whole &= whole[core];
                if free[core] {
                    count.cores += 1;
                    count.first = count.first.min(core);
                }
            }
            count
        };
        let counts = site.levels.iter().map(|(_, domains)| domains.iter().map(count).collect()).collect();
        Self { site, free, memory_free_bytes, counts }
    }

    pub(super) fn count(&self, level: usize, domain: usize) -> Count {
        self.counts[level][domain]
    }

    /// The free cores of the domains around a domain, the smallest first.
    pub(super) fn around(&self, level: usize, domain: usize) -> Vec<usize> {
        self.site.around(level, domain).map(|(level, domain)| self.count(level, domain).cores).collect()
    }

    /// The free cores of a domain.
    pub(super) fn cores(&self, level: usize, domain: usize) -> impl Iterator<Item = usize> + '_ {
        let cores = &self.site.levels[level].1[domain].cores;
        cores.iter().copied().filter(|&core| self.free[core])
    }

    /// The NUMA nodes nearest to the free cores of a domain.
    pub(super) fn nodes(&self, level: usize, domain: usize) -> BTreeSet<u32> {
        self.cores(level, domain).map(|core| self.site.cores[core].node).collect()
    }

    /// Free memory of the given NUMA nodes, in bytes.
    pub(super) fn memory_bytes(&self, nodes: &BTreeSet<u32>) -> u64 {
        nodes.iter().fold(0, |sum, &node| {
            let free = self.memory_free_bytes.get(node as usize).copied().unwrap_or(u64::MAX);
            sum.saturating_add(free)
        })
    }

    /// The domains of the level below with free cores; empty unless the children hold all free cores of the
    /// domain.
    pub(super) fn children(&self, level: usize, domain: usize) -> Vec<usize> {
        let Some(below) = level.checked_sub(1) else { return Vec::new() };
        let all = self.site.levels[level].1[domain].children.iter().copied();
        let children: Vec<usize> = all.filter(|&child| self.count(below, child).cores > 0).collect();
        let covered: usize = children.iter().map(|&child| self.count(below, child).cores).sum();
        if covered == self.count(level, domain).cores { children } else { Vec::new() }
    }
}
