//! Who is where: each core's primary, its backfillers, and how idle it was in the last sample.
//!
//! Absent: the judgement who comes to a core, and the choice which core it is (`choice`).

use std::sync::Arc;

use pinfold_place::pack::Site;
use pinfold_topo::{CpuSet, Topology};

use crate::{JobId, Machine};

#[derive(Debug, Clone, Default)]
pub(crate) struct Core {
    /// Its usable PUs.
    pub(crate) cpus: CpuSet,
    /// The primary whose home it is.
    pub(crate) home_of: Option<JobId>,
    /// Backfillers pinned to it.
    pub(crate) backfillers: usize,
    /// The part of the time it was idle, in thousandths.
    pub(crate) idle_milli: u16,
}

/// The cores that jobs may use, by their place in [`Machine::cores`].
#[derive(Debug)]
pub(crate) struct Cores {
    pub(crate) cores: Vec<Core>,
    free_homes: usize,
    /// How close they are to each other.
    pub(crate) site: Site,
    pub(crate) topology: Option<Arc<Topology>>,
}

impl Default for Cores {
    fn default() -> Self {
        Self::new(&Machine::default())
    }
}

impl Cores {
    pub(crate) fn new(machine: &Machine) -> Self {
        Self::with(&machine.cores, machine.topology.clone())
    }

    /// These cores, which lie as `topology` says.
    pub(crate) fn with(pus: &[CpuSet], topology: Option<Arc<Topology>>) -> Self {
        let cores: Vec<Core> =
            pus.iter().map(|cpus| Core { cpus: cpus.clone(), ..Core::default() }).collect();
        let known = topology.as_deref().map(Site::new).filter(|site| site.cores().eq(pus));
        let site = known.unwrap_or_else(|| Site::flat(pus));
        Self { free_homes: cores.len(), cores, site, topology }
    }

    pub(crate) fn len(&self) -> usize {
        self.cores.len()
    }

    pub(crate) fn free_homes(&self) -> usize {
        self.free_homes
    }

    pub(crate) fn get(&self, core: usize) -> &Core {
        &self.cores[core]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Core> {
        self.cores.iter()
    }

    /// The PUs of these cores.
    pub(crate) fn cpus(&self, cores: &[usize]) -> CpuSet {
        match cores {
            [] => CpuSet::new(),
            [core] => self.cores[*core].cpus.clone(),
            _ => cores.iter().flat_map(|&core| self.cores[core].cpus.iter()).collect(),
        }
    }

    /// The cores that share a PU with `cpus`.
    pub(crate) fn touched_by(&self, cpus: &CpuSet) -> Vec<usize> {
        (0..self.cores.len()).filter(|&core| !self.cores[core].cpus.is_disjoint(cpus)).collect()
    }

    pub(crate) fn take_homes(&mut self, job: JobId, cores: &[usize]) {
        for &core in cores {
            let home_of = &mut self.cores[core].home_of;
            debug_assert!(home_of.is_none(), "a core is home to one primary at most");
            self.free_homes -= usize::from(home_of.is_none());
            *home_of = Some(job);
        }
    }

    pub(crate) fn leave_homes(&mut self, job: JobId, cores: &[usize]) {
        for &core in cores {
            if self.cores[core].home_of == Some(job) {
                self.cores[core].home_of = None;
                self.free_homes += 1;
            }
        }
    }

    pub(crate) fn pin(&mut self, cores: &[usize]) {
        for &core in cores {
            self.cores[core].backfillers += 1;
        }
    }

    pub(crate) fn unpin(&mut self, cores: &[usize]) {
        for &core in cores {
            self.cores[core].backfillers -= 1;
        }
    }

    /// Says of two cores that each is as idle as the other was.
    pub(crate) fn swap_idle(&mut self, a: usize, b: usize) {
        let idle_milli = self.cores[a].idle_milli;
        self.cores[a].idle_milli = std::mem::replace(&mut self.cores[b].idle_milli, idle_milli);
    }

    /// Takes in a sample; a core it does not speak of counts as busy.
    pub(crate) fn sample(&mut self, idle_milli: &[u16]) {
        for (index, core) in self.cores.iter_mut().enumerate() {
            core.idle_milli = idle_milli.get(index).copied().unwrap_or(0);
        }
    }
}
