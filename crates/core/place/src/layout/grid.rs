//! A host as the layout sees it: sockets x cores x threads, numbered socket by socket, core by core, thread
//! by thread, whatever the kernel's numbers are.

use std::collections::BTreeMap;

use pinfold_topo::{CpuSet, PuOs, Topology};

/// Which of the two ways to count what a job holds: whole cores, or single CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Select {
    /// Whole cores (Slurm's `CR_Core`), dealt out over the sockets as the distribution says.
    #[default]
    Core,
    /// Single CPUs (Slurm's `CR_CPU`), from as few sockets as possible whatever the distribution.
    Cpu,
}

/// A host that a request may be laid out on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its topology.
    pub topology: Topology,
    /// Its PUs that nobody holds.
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

/// A host as a regular grid. Machines are not always regular: a socket with fewer cores than others is
/// filled up with cores that are never free, and of cores with more threads than the poorest core the
/// further threads belong to the last one that counts.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    pub(super) sockets: usize,
    /// Cores of each socket.
    pub(super) cores: usize,
    /// Threads of each core.
    pub(super) threads: usize,
    /// The PUs of each core; empty for one that does not exist.
    pus: Vec<Vec<PuOs>>,
    /// Whether nobody holds any of a core. A core held in part is given to no further job, also where CPUs
    /// are counted singly: jobs then share the count, not the core.
    free: Vec<bool>,
    /// The PUs of each NUMA node, by the kernel's number of the node.
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

    /// All cores, those that do not exist included.
    pub(super) fn core_count(&self) -> usize {
        self.pus.len()
    }

    /// The CPUs of the host, free or not.
    pub(super) fn cpu_count(&self) -> usize {
        self.pus.iter().filter(|core| !core.is_empty()).count() * self.threads
    }

    /// Which cores a job could have if nothing ran here.
    pub(super) fn existing(&self) -> Vec<bool> {
        self.pus.iter().map(|core| !core.is_empty()).collect()
    }

    /// Which cores a job could have now.
    pub(super) fn free(&self) -> Vec<bool> {
        self.free.clone()
    }

    /// Whether nobody holds any of it.
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

    /// The NUMA nodes by the kernel's number, those without a usable PU left out.
    pub(super) fn ldoms(&self) -> Vec<(u32, &CpuSet)> {
        self.ldoms.iter().filter(|(_, pus)| !pus.is_empty()).map(|(&os, pus)| (os, pus)).collect()
    }
}
