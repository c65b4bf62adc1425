//! The host: its cores, NUMA nodes and countable resources, which job has which, and what else writes to the kernel's files of jobs.
//!
//! `machine` (PUs), `sets`, `isolated`, `own_nodes` (cores and nodes set aside), `allocation` (bounds of the
//! submitter), `limits`, `resources`, `drift` (other writers), `neighbours` (other users' daemons), `guard`,
//! `in_ram`.

pub(crate) mod allocation;
pub(crate) mod drift;
pub(crate) mod guard;
pub(crate) mod in_ram;
pub(crate) mod isolated;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod neighbours;
pub(crate) mod own_nodes;
pub(crate) mod resources;
pub(crate) mod sets;

use anyhow::Context as _;
use pinfold_policy::JobId;
use pinfold_proto::view::DoctorView;

use crate::host::drift::Drifts;
use crate::host::guard::Guard;
use crate::host::isolated::Isolated;
use crate::host::limits::HostProcesses;
use crate::host::machine::Seen;
use crate::host::neighbours::Neighbours;
use crate::host::own_nodes::OwnNodes;
use crate::host::resources::Resources;
use crate::host::sets::Sets;
use crate::store::state_dir::StateDir;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Host {
    /// What was seen of the machine last.
    pub(crate) seen: Seen,
    /// What other programs changed.
    pub(crate) drifts: Drifts,
    /// The process that outlives this one.
    pub(crate) guard: Guard,
    /// Reservations of cores.
    pub(crate) sets: Sets,
    /// Jobs that have cores to themselves, or wait for them.
    pub(crate) isolated: Isolated,
    /// NUMA nodes that are a set's alone.
    pub(crate) own_nodes: OwnNodes,
    /// Countable resources, and which GPUs jobs have.
    pub(crate) resources: Resources,
    /// How many processes the host can have,
    pub(crate) host_processes: HostProcesses,
    /// and how many it had when they were last counted.
    pub(crate) processes_seen: usize,
    /// Other users' daemons.
    pub(crate) neighbours: Neighbours,
    /// What doctor found of the host, and when.
    pub(crate) examined: Option<(u64, DoctorView)>,
}

impl Host {
    /// As this state directory tells of it.
    pub(crate) fn new(state: &StateDir, guard: Guard, host_processes: HostProcesses) -> anyhow::Result<Self> {
        Ok(Self {
            seen: Seen::default(),
            drifts: Drifts::default(),
            guard,
            sets: Sets::open(state.path())?,
            isolated: Isolated::new(state.instance()),
            own_nodes: OwnNodes::new().context("failed to make a pair of sockets")?,
            resources: Resources::default(),
            host_processes,
            // A guess, until they are counted.
            processes_seen: 2048,
            neighbours: Neighbours::default(),
            examined: None,
        })
    }

    /// Forgets a job.
    pub(crate) fn job_over(&mut self, job: JobId) {
        self.drifts.forget(job);
        self.own_nodes.forget(job);
    }
}
