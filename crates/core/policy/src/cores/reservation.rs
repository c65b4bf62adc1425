//! A reservation: cores that only jobs which name it run on.
//!
//! It is a small host of its own: its cores, its queue, its jobs. Its jobs take none of the host's slots, and the host's
//! rules (backfill, preemption, exclusive jobs) do not apply in it: each job in it has cores of its own, and the next starts
//! when enough are free. Memory is one for all. Absent: which users may make and use reservations, and which cores they are
//! made of; that is the daemon's.

use pinfold_topo::CpuSet;

use crate::api::{Aside, JobId};
use crate::cores::grid::Grid;

/// A set with the jobs in it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Reservation {
    pub(crate) name: String,
    pub(crate) cores: Grid,
    pub(crate) memory_bytes: u64,
    /// Its cores are for all again by themselves, once its jobs are over.
    #[serde(default)]
    pub(crate) passes: bool,
    /// Jobs that have a place in it.
    pub(crate) holders: Vec<JobId>,
}

impl Reservation {
    pub(super) fn new(set: &Aside) -> Self {
        Self {
            name: set.name.clone(),
            cores: Grid::with(&set.cores, set.topology.clone()),
            memory_bytes: set.memory_bytes,
            passes: set.passes,
            holders: Vec::new(),
        }
    }

    pub(super) fn all(&self) -> CpuSet {
        self.cores.iter().flat_map(|core| core.cpus.iter()).collect()
    }
}
