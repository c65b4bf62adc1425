//! How PUs share cores, caches, memory and sockets.

use std::collections::{BTreeMap, BTreeSet};

use crate::cpuset::CpuSet;
use crate::index::{PuLogical, PuOs};

/// Most NUMA nodes of a machine: the kernel's bound (`CONFIG_NODES_SHIFT` is at most 10). Each node may list
/// all PUs, so an unbounded message of another host could fill the memory.
pub const NODES_MAX: usize = 1_024;

/// A hardware thread and the objects that hold it. Cores, caches, NUMA nodes and sockets have logical
/// numbers: 0, 1, 2 ... over the whole machine, in the order of its PUs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pu {
    /// The kernel's number.
    pub os: PuOs,
    /// The position in the topology.
    pub logical: PuLogical,
    /// The core of this thread.
    pub core: u32,
    /// Its level 2 cache, where known.
    pub l2: Option<u32>,
    /// Its level 3 cache, if the machine has that level.
    pub l3: Option<u32>,
    /// The nearest NUMA node.
    pub numa: u32,
    /// The die, where the machine distinguishes dies.
    pub die: Option<u32>,
    /// The socket (package).
    pub socket: u32,
    /// The efficiency class of the core: 0 for the most frugal kind of core, larger for faster kinds; always
    /// 0 on a machine with a single kind.
    pub efficiency: u8,
    /// Online, and allowed to this process at discovery.
    pub usable: bool,
}

/// A NUMA node: memory, and the PUs nearest to it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NumaNode {
    /// The kernel's number, as in `cpuset.mems`.
    pub os: u32,
    /// Bytes of memory, where known.
    pub memory_bytes: Option<u64>,
    /// The node's local PUs. A memory-only node has no PUs, or shares PUs with other nodes.
    pub pus: CpuSet,
}

/// A machine: its PUs in logical order, and its NUMA nodes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "crate::stored::Stored", into = "crate::stored::Stored")]
pub struct Topology {
    pus: Vec<Pu>,
    numa: Vec<NumaNode>,
    offline: CpuSet,
}

/// Why a list of PUs is not a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// The machine has no PU.
    #[error("the machine has no PU")]
    Empty,
    /// Two PUs have the same OS index.
    #[error("the OS index {0} stands twice")]
    Twice(PuOs),
    /// PUs of a core lie in several sockets, dies, NUMA nodes or caches.
    #[error("core {0} does not lie within one {1}")]
    Split(u32, &'static str),
    /// A PU names an absent NUMA node.
    #[error("PU {0} names the NUMA node {1}, of which there are {2}")]
    NoSuchNode(PuOs, u32, u32),
    /// More than [`NODES_MAX`] NUMA nodes.
    #[error("the machine has more than {NODES_MAX} NUMA nodes")]
    TooManyNodes,
}

impl Topology {
    /// A machine from its PUs in logical order; `numa_nodes` includes nodes with memory and no PU. The NUMA
    /// nodes get their logical number as OS index.
    ///
    /// # Errors
    /// When the PUs contradict each other; see [`TopologyError`].
    pub fn new(pus: Vec<Pu>, numa_nodes: u32) -> Result<Self, TopologyError> {
        let highest = pus.iter().map(|pu| pu.numa + 1).max().ok_or(TopologyError::Empty)?;
        let node = |os: u32| NumaNode {
            os,
            memory_bytes: None,
            pus: pus.iter().filter(|pu| pu.numa == os).map(|pu| pu.os).collect(),
        };
        let numa = (0..numa_nodes.max(highest)).map(node).collect();
        Self::with_numa(pus, numa, CpuSet::new())
    }

    /// A machine from its PUs and NUMA nodes in logical order ([`Pu::numa`] indexes the nodes), and its PUs
    /// that are switched off.
    ///
    /// # Errors
    /// When the PUs contradict each other or the nodes; see [`TopologyError`].
    pub fn with_numa(mut pus: Vec<Pu>, numa: Vec<NumaNode>, offline: CpuSet) -> Result<Self, TopologyError> {
        let mut seen = CpuSet::new();
        let mut cores: BTreeMap<u32, Pu> = BTreeMap::new();
        let nodes = u32::try_from(numa.len()).ok().filter(|_| numa.len() <= NODES_MAX);
        let nodes = nodes.ok_or(TopologyError::TooManyNodes)?;
        for (i, pu) in (0u32..).zip(pus.iter_mut()) {
            pu.logical = PuLogical(i);
            if !seen.insert(pu.os) {
                return Err(TopologyError::Twice(pu.os));
            }
            if pu.numa >= nodes {
                return Err(TopologyError::NoSuchNode(pu.os, pu.numa, nodes));
            }
            let first = cores.entry(pu.core).or_insert_with(|| pu.clone());
            for (same, level) in [
                (first.socket == pu.socket, "socket"),
                (first.die == pu.die, "die"),
                (first.l3 == pu.l3, "L3"),
                (first.l2 == pu.l2, "L2"),
                (first.numa == pu.numa, "NUMA node"),
            ] {
                if !same {
                    return Err(TopologyError::Split(pu.core, level));
                }
            }
        }
        if pus.is_empty() {
            return Err(TopologyError::Empty);
        }
        let offline = offline.difference(&seen);
        Ok(Self { pus, numa, offline })
    }

    /// Fallback when discovery fails: each usable PU its own core, all in a single socket.
    ///
    /// # Errors
    /// [`TopologyError::Empty`] when `usable` is empty.
    pub fn flat(usable: &CpuSet) -> Result<Self, TopologyError> {
        let pu = |(i, os): (u32, PuOs)| Pu {
            os,
            logical: PuLogical(i),
            core: i,
            l2: None,
            l3: None,
            numa: 0,
            die: None,
            socket: 0,
            efficiency: 0,
            usable: true,
        };
        Self::new((0u32..).zip(usable.iter()).map(pu).collect(), 1)
    }

    pub(crate) fn into_parts(self) -> (Vec<Pu>, Vec<NumaNode>, CpuSet) {
        (self.pus, self.numa, self.offline)
    }

    /// All PUs in logical order.
    #[must_use]
    pub fn pus(&self) -> &[Pu] {
        &self.pus
    }

    /// The usable PUs.
    #[must_use]
    pub fn usable(&self) -> CpuSet {
        self.pus.iter().filter(|pu| pu.usable).map(|pu| pu.os).collect()
    }

    /// The PUs that are switched off; [`Self::pus`] does not include them.
    #[must_use]
    pub fn offline(&self) -> &CpuSet {
        &self.offline
    }

    /// The same machine, of which only the PUs in `within` stay usable.
    #[must_use]
    pub fn restricted(mut self, within: &CpuSet) -> Self {
        for pu in &mut self.pus {
            pu.usable &= within.contains(pu.os);
        }
        self
    }

    /// The usable PUs in `within` of each core, in logical order; cores without a usable PU are left out.
    #[must_use]
    pub fn cores_within(&self, within: &CpuSet) -> Vec<CpuSet> {
        let mut cores: BTreeMap<u32, CpuSet> = BTreeMap::new();
        for pu in self.pus.iter().filter(|pu| pu.usable && within.contains(pu.os)) {
            cores.entry(pu.core).or_default().insert(pu.os);
        }
        cores.into_values().collect()
    }

    /// How many sockets.
    #[must_use]
    pub fn sockets(&self) -> u32 {
        self.count(|pu| Some(pu.socket))
    }

    /// How many dies; 0 where the machine does not distinguish dies.
    #[must_use]
    pub fn dies(&self) -> u32 {
        self.count(|pu| pu.die)
    }

    /// How many NUMA nodes, including nodes without PUs.
    #[must_use]
    pub fn numa_nodes(&self) -> u32 {
        u32::try_from(self.numa.len()).expect("checked when the machine was made")
    }

    /// The NUMA nodes in logical order.
    #[must_use]
    pub fn numa(&self) -> &[NumaNode] {
        &self.numa
    }

    /// How many last-level caches.
    #[must_use]
    pub fn l3(&self) -> u32 {
        self.count(|pu| pu.l3)
    }

    /// How many level 2 caches.
    #[must_use]
    pub fn l2(&self) -> u32 {
        self.count(|pu| pu.l2)
    }

    /// How many cores.
    #[must_use]
    pub fn cores(&self) -> u32 {
        self.count(|pu| Some(pu.core))
    }

    fn count(&self, of: impl Fn(&Pu) -> Option<u32>) -> u32 {
        let distinct: BTreeSet<u32> = self.pus.iter().filter_map(of).collect();
        u32::try_from(distinct.len()).expect("no more than PUs, which are bounded")
    }
}
