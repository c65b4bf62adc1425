//! The layout's view of a host: sockets x cores x threads, numbered socket by socket, core by core, thread by
//! thread, independent of the kernel's numbers.

use std::collections::BTreeMap;

use pinfold_topo::{CpuSet, PuOs, Topology};

/// The unit of allocation: whole cores or single CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Select {
    /// Whole cores (Slurm's `CR_Core`), dealt out over the sockets as the distribution says.
    #[default]
    Core,
    /// Single CPUs (Slurm's `CR_CPU`), from as few sockets as possible whatever the distribution.
    Cpu,
}

/// A candidate host of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its topology.
    pub topology: Topology,
    /// Its free PUs.
    pub free: CpuSet,
}

impl Host {
    /// A host of which every usable PU is free.
    #[must_use]
    pub fn idle(topology: Topology) -> Self {
        let free = topology.usable();
        Self { topology, free }
    }
}

/// A host as a regular grid. On irregular machines a socket with fewer cores gets missing cores that are
/// never free, and a core with more threads than the poorest core counts its surplus threads into its last
/// thread.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    pub(super) sockets: usize,
    /// Cores of each socket.
    pub(super) cores: usize,
    /// Threads of each core.
    pub(super) threads: usize,
    /// The PUs of each core; empty for a missing core.
    pus: Vec<Vec<PuOs>>,
    /// Whether all PUs of a core are free. A partly held core is not offered, even with single CPUs: jobs
    /// then share the count, not the core.
    free: Vec<bool>,
    /// The PUs of each NUMA node, by OS index.
    ldoms: BTreeMap<u32, CpuSet>,
}

impl Grid {
    pub(super) fn new(host: &Host) -> Self {
        let usable = host.topology.usable();
        let mut sockets: BTreeMap<u32, BTreeMap<u32, Vec<PuOs>>> = BTreeMap::new();
        for pu in host.topology.pus().iter().filter(|pu| pu.usable) {
            sockets.entry(pu.socket).or_default().entry(pu.core).or_default().push(pu.os);
        }
        let cores = sockets.values().map(BTreeMap::len).max().unwrap_or(0);
        let threads = sockets.values().flat_map(BTreeMap::values).map(Vec::len).min().unwrap_or(1);
        let mut pus: Vec<Vec<PuOs>> = Vec::new();
        for socket in sockets.values() {
            pus.extend(socket.values().cloned());
            let whole = pus.len().next_multiple_of(cores);
            pus.resize(whole, Vec::new());
        }
        let free = pus
            .iter()
            .map(|core| !core.is_empty() && core.iter().all(|&pu| host.free.contains(pu)))
            .collect();
        let ldoms =
            host.topology.numa().iter().map(|node| (node.os, node.pus.intersection(&usable))).collect();
        Self { sockets: sockets.len(), cores, threads, pus, free, ldoms }
    }

    /// All cores, including missing cores.
    pub(super) fn core_count(&self) -> usize {
        self.pus.len()
    }

    /// The CPUs of the host, free or not.
    pub(super) fn cpu_count(&self) -> usize {
        self.pus.iter().filter(|core| !core.is_empty()).count() * self.threads
    }

    /// The cores of an idle host.
    pub(super) fn existing(&self) -> Vec<bool> {
        self.pus.iter().map(|core| !core.is_empty()).collect()
    }

    /// Which cores a job could have now.
    pub(super) fn free(&self) -> Vec<bool> {
        self.free.clone()
    }

    /// Whether all cores are free.
    pub(super) fn idle(&self) -> bool {
        self.free == self.existing()
    }

    /// The PUs behind CPU `cpu` of this grid.
    pub(super) fn cpu_pus(&self, cpu: usize) -> impl Iterator<Item = PuOs> + '_ {
        let (core, thread) = (cpu / self.threads, cpu % self.threads);
        let pus = &self.pus[core];
        let end = if thread + 1 == self.threads { pus.len() } else { thread + 1 };
        pus.get(thread..end).unwrap_or_default().iter().copied()
    }

    /// The PUs behind some CPUs of this grid.
    pub(super) fn pus_of(&self, cpus: impl IntoIterator<Item = usize>) -> CpuSet {
        cpus.into_iter().flat_map(|cpu| self.cpu_pus(cpu)).collect()
    }

    /// The PUs of whole cores.
    pub(super) fn pus_of_cores(&self, cores: &[bool]) -> CpuSet {
        let taken = cores.iter().zip(&self.pus).filter(|(taken, _)| **taken);
        taken.flat_map(|(_, pus)| pus.iter().copied()).collect()
    }

    /// The NUMA nodes with usable PUs, by OS index.
    pub(super) fn ldoms(&self) -> Vec<(u32, &CpuSet)> {
        self.ldoms.iter().filter(|(_, pus)| !pus.is_empty()).map(|(&os, pus)| (os, pus)).collect()
    }
}
