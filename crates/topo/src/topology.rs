//! How PUs share cores, caches, memory and sockets.

use std::collections::BTreeMap;

use crate::cpuset::CpuSet;
use crate::index::{PuLogical, PuOs};

/// One hardware thread and what it belongs to. Cores, caches, NUMA nodes and sockets are numbered logically:
/// 0, 1, 2 ... over the whole machine, in the order in which its PUs come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pu {
    /// The kernel's number.
    pub os: PuOs,
    /// The position in the topology.
    pub logical: PuLogical,
    /// The core it is a thread of.
    pub core: u32,
    /// The last-level cache it shares, where the machine has one at that level.
    pub l3: Option<u32>,
    /// The NUMA node nearest to it.
    pub numa: u32,
    /// The socket (package) that holds it.
    pub socket: u32,
    /// Online, and in the set that this process was allowed when it looked.
    pub usable: bool,
}

/// A machine: its PUs in logical order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pus: Vec<Pu>,
    numa_nodes: u32,
}

/// Why a list of PUs is not a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// There is no PU at all.
    #[error("the machine has no PU")]
    Empty,
    /// Two PUs have one OS index.
    #[error("the OS index {0} stands twice")]
    Twice(PuOs),
    /// PUs of one core lie in several sockets, NUMA nodes or caches, or apart from each other.
    #[error("core {0} does not lie within one {1}")]
    Split(u32, &'static str),
}

impl Topology {
    /// A machine from its PUs in logical order; `numa_nodes` counts also nodes that have memory and no PU.
    ///
    /// # Errors
    /// When the PUs contradict each other; see [`TopologyError`].
    pub fn new(mut pus: Vec<Pu>, numa_nodes: u32) -> Result<Self, TopologyError> {
        let mut seen = CpuSet::new();
        let mut cores: BTreeMap<u32, (u32, Option<u32>, u32)> = BTreeMap::new();
        for (i, pu) in (0u32..).zip(pus.iter_mut()) {
            pu.logical = PuLogical(i);
            if !seen.insert(pu.os) {
                return Err(TopologyError::Twice(pu.os));
            }
            let (socket, l3, numa) = *cores.entry(pu.core).or_insert((pu.socket, pu.l3, pu.numa));
            for (same, level) in
                [(socket == pu.socket, "socket"), (l3 == pu.l3, "L3"), (numa == pu.numa, "NUMA node")]
            {
                if !same {
                    return Err(TopologyError::Split(pu.core, level));
                }
            }
        }
        let highest = pus.iter().map(|pu| pu.numa + 1).max().ok_or(TopologyError::Empty)?;
        Ok(Self { pus, numa_nodes: numa_nodes.max(highest) })
    }

    /// A machine of which only the usable PUs are known: each its own core, all in one socket. What remains
    /// when discovery fails.
    ///
    /// # Errors
    /// [`TopologyError::Empty`] when `usable` is empty.
    pub fn flat(usable: &CpuSet) -> Result<Self, TopologyError> {
        let pu = |(i, os): (u32, PuOs)| Pu {
            os,
            logical: PuLogical(i),
            core: i,
            l3: None,
            numa: 0,
            socket: 0,
            usable: true,
        };
        Self::new((0u32..).zip(usable.iter()).map(pu).collect(), 1)
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

    /// The usable PUs of each core that has one, in logical order, restricted to `within`.
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

    /// How many NUMA nodes, those without a PU included.
    #[must_use]
    pub fn numa_nodes(&self) -> u32 {
        self.numa_nodes
    }

    /// How many last-level caches.
    #[must_use]
    pub fn l3(&self) -> u32 {
        self.count(|pu| pu.l3)
    }

    /// How many cores.
    #[must_use]
    pub fn cores(&self) -> u32 {
        self.count(|pu| Some(pu.core))
    }

    fn count(&self, of: impl Fn(&Pu) -> Option<u32>) -> u32 {
        let distinct: std::collections::BTreeSet<u32> = self.pus.iter().filter_map(of).collect();
        u32::try_from(distinct.len()).expect("no more than PUs, which are bounded")
    }
}
