//! The isolated cores of single jobs, as on the disk.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::JobId;
use pinfold_topo::CpuSet;

/// The cores that are single jobs' alone.
#[derive(Debug)]
pub(crate) struct Alone {
    /// The cores on line, sets included, in order.
    pub(crate) online: Vec<CpuSet>,
    /// The PUs of each set, on the disk.
    pub(crate) sets: BTreeMap<JobId, CpuSet>,
    /// Jobs that wait for cores of their own.
    pub(crate) waiting: BTreeSet<JobId>,
    /// Jobs refused for lack of enough cores that can ever be isolated.
    pub(crate) refused: u64,
    /// The daemon keeps house until this true time.
    pub(crate) until_us: u64,
}

/// The name of a job's set.
pub(crate) fn set_name(job: JobId) -> String {
    format!("isolated-{job}")
}

impl Alone {
    /// No sets yet, with these cores on line.
    pub(crate) fn new(online: &[CpuSet]) -> Self {
        Self {
            online: online.to_vec(),
            sets: BTreeMap::new(),
            waiting: BTreeSet::new(),
            refused: 0,
            until_us: 0,
        }
    }

    /// The cores of a job's set that are on line.
    pub(crate) fn cores_of(&self, job: JobId) -> Vec<CpuSet> {
        let Some(set) = self.sets.get(&job) else { return Vec::new() };
        self.online.iter().filter(|core| !core.is_disjoint(set)).cloned().collect()
    }

    /// The PUs of all sets.
    pub(crate) fn all(&self) -> CpuSet {
        self.sets.values().fold(CpuSet::new(), |all, set| all.union(set))
    }

    /// No job has cores to itself, and none waits for them.
    pub(crate) fn is_idle(&self) -> bool {
        self.sets.is_empty() && self.waiting.is_empty()
    }
}
