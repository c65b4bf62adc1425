//! The cores: each one's primary, its backfillers, and how idle it was in the last sample.
//!
//! Absent: which job comes to a core (`schedule`), and which core it is (`choice`).

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_place::pack::{Shape, Site};
use pinfold_topo::{CpuSet, Topology};

use crate::api::{JobId, Machine};

#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Core {
    /// Its usable PUs.
    pub(crate) cpus: CpuSet,
    /// The primary whose home it is.
    pub(crate) home_of: Option<JobId>,
    /// Whether that primary lies apart, for the memory's sake.
    pub(crate) apart: bool,
    /// Backfillers put on it.
    pub(crate) backfillers: usize,
    /// The part of the time it was idle, in thousandths.
    pub(crate) idle_milli: u16,
}

/// Cores among which a job loses nothing by moving.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
struct Neighbourhood {
    /// Their usable PUs.
    cpus: CpuSet,
    cores: usize,
    /// Backfillers put on any of them.
    backfillers: usize,
}

/// The cores that jobs may use, by their place in [`Machine::cores`].
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Grid {
    pub(crate) cores: Vec<Core>,
    free_homes: usize,
    /// Cores behind the same cache, or nearest to the same memory; each by itself where nothing is known of that.
    near: Vec<Neighbourhood>,
    /// The place of each core's in `near`.
    near_of: Vec<usize>,
    /// How close they are to each other.
    pub(crate) site: Site,
    pub(crate) topology: Option<Arc<Topology>>,
}

impl Default for Grid {
    fn default() -> Self {
        Self::new(&Machine::default())
    }
}

impl Grid {
    pub(crate) fn new(machine: &Machine) -> Self {
        Self::with(&machine.cores, machine.topology.clone())
    }

    /// These cores, which lie as `topology` says.
    pub(crate) fn with(pus: &[CpuSet], topology: Option<Arc<Topology>>) -> Self {
        let cores: Vec<Core> =
            pus.iter().map(|cpus| Core { cpus: cpus.clone(), ..Core::default() }).collect();
        let known = topology.as_deref().map(Site::new).filter(|site| site.cores().eq(pus));
        let site = known.unwrap_or_else(|| Site::flat(pus));
        let (near, near_of) = neighbourhoods(pus, topology.as_deref());
        Self { free_homes: cores.len(), cores, near, near_of, site, topology }
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

    /// The PUs of these cores and of those behind the same caches.
    pub(crate) fn around(&self, cores: &[usize]) -> CpuSet {
        match cores {
            [core] => self.near[self.near_of[*core]].cpus.clone(),
            _ => cores.iter().flat_map(|&core| self.near[self.near_of[core]].cpus.iter()).collect(),
        }
    }

    /// The cores around one, itself among them.
    pub(crate) fn neighbours(&self, core: usize) -> Vec<usize> {
        (0..self.len()).filter(|&other| self.near_of[other] == self.near_of[core]).collect()
    }

    /// How many backfillers there are around a core, in thousandths of the cores there.
    pub(crate) fn crowd_milli(&self, core: usize) -> usize {
        let near = &self.near[self.near_of[core]];
        near.backfillers * 1000 / near.cores
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

    /// Says how the primary lies whose homes these are.
    pub(crate) fn lie(&mut self, cores: &[usize], shape: Shape) {
        cores.iter().for_each(|&core| self.cores[core].apart = shape == Shape::Spread);
    }

    pub(crate) fn leave_homes(&mut self, job: JobId, cores: &[usize]) {
        for &core in cores {
            if self.cores[core].home_of == Some(job) {
                self.cores[core].home_of = None;
                self.cores[core].apart = false;
                self.free_homes += 1;
            }
        }
    }

    pub(crate) fn pin(&mut self, cores: &[usize]) {
        for &core in cores {
            self.cores[core].backfillers += 1;
            self.near[self.near_of[core]].backfillers += 1;
        }
    }

    pub(crate) fn unpin(&mut self, cores: &[usize]) {
        for &core in cores {
            self.cores[core].backfillers -= 1;
            self.near[self.near_of[core]].backfillers -= 1;
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

/// The cores in neighbourhoods, and each one's: behind one last-level cache; without such a cache, nearest to one NUMA
/// node.
fn neighbourhoods(cores: &[CpuSet], topology: Option<&Topology>) -> (Vec<Neighbourhood>, Vec<usize>) {
    let pus = topology.iter().flat_map(|topology| topology.pus());
    // Caches are numbered over the whole machine: where they are known the node makes no difference.
    let places: BTreeMap<_, _> =
        pus.map(|pu| (pu.os, pu.l3.map_or((None, pu.numa), |l3| (Some(l3), 0)))).collect();
    let (mut near, mut known) = (Vec::<Neighbourhood>::new(), BTreeMap::new());
    let near_of = cores.iter().map(|core| {
        let place = core.first().and_then(|pu| places.get(&pu));
        let at = match place {
            Some(place) => *known.entry(*place).or_insert(near.len()),
            None => near.len(),
        };
        if at == near.len() {
            near.push(Neighbourhood::default());
        }
        let own = &mut near[at];
        own.cores += 1;
        own.cpus = own.cpus.union(core);
        at
    });
    let near_of = near_of.collect();
    (near, near_of)
}
