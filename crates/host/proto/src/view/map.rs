//! The allocation of cores and memory, as `map` and `sets` print it.

use serde::{Deserialize, Serialize};

use super::ResourceView;
use crate::job::{JobClass, JobState, OwnNodesView};

/// The allocation of PUs in the daemon's view; `pinfold map` adds the topology.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapView {
    /// [`super::VERSION`].
    pub version: u32,
    /// The host's name.
    pub host: String,
    /// The PUs that jobs may use, as a kernel list.
    pub cpus: String,
    /// The PUs of each job.
    pub sets: Vec<SetView>,
    /// The sets of reserved cores.
    #[serde(default)]
    pub set_asides: Vec<SetAsideView>,
    /// NUMA nodes with memory kept for the jobs beside them, alone or joined.
    #[serde(default)]
    pub chunks: Vec<ChunkView>,
    /// The countable resources, by name.
    #[serde(default)]
    pub resources: Vec<ResourceView>,
}

/// A job's set of PUs. Another user's job shows as present, without details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetView {
    /// Its name.
    pub set: String,
    /// Its PUs, as a kernel list.
    pub cpus: String,
    /// How many cores these are on.
    pub cores: u64,
    /// Whether another set shares a PU with it.
    pub shared: bool,
    /// The job.
    pub job: Option<u64>,
    /// The job's name.
    pub name: Option<String>,
    /// The job's user.
    pub user: Option<String>,
    /// The job's class.
    pub class: JobClass,
    /// The job's state.
    pub state: JobState,
    /// Its processes now.
    pub pids: Vec<u32>,
}

/// NUMA nodes with their memory joined for some jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunkView {
    /// The kernel's numbers of the nodes, as a kernel list.
    pub nodes: String,
    /// The jobs bound to the nodes that the asker may see.
    pub jobs: Vec<u64>,
    /// Memory that all its jobs together may need, in bytes.
    pub claimed_bytes: u64,
    /// Memory of the nodes available to these jobs, in bytes.
    pub usable_bytes: u64,
}

/// `pinfold sets --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetsView {
    /// [`super::VERSION`].
    pub version: u32,
    /// By name.
    pub sets: Vec<SetAsideView>,
}

/// A set of reserved cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetAsideView {
    /// Its name.
    pub set: String,
    /// Its PUs, as a kernel list.
    pub cpus: String,
    /// Its PUs that exist and that jobs may use now, as a kernel list.
    pub usable_cpus: String,
    /// The number of their cores.
    pub cores: u64,
    /// Memory that other jobs leave free for the set's jobs.
    pub memory_bytes: Option<u64>,
    /// The kind of set.
    pub kind: SetKind,
    /// Whether other jobs may use its cores as well.
    pub shared: bool,
    /// Its allowed users; empty: all users.
    pub users: Vec<String>,
    /// The user that made it.
    pub owner: String,
    /// The jobs that run in it or wait for it and that the asker may see.
    pub jobs: Vec<u64>,
    /// When it was made, in Unix seconds.
    pub made_s: f64,
    /// When it expires unless a job uses it, in Unix seconds.
    pub expires_s: Option<f64>,
    /// Its exclusive NUMA nodes, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_nodes: Option<OwnNodesView>,
}

/// The kind of a set of cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SetKind {
    /// Made by an operator; permanent.
    Static,
    /// Made by a user from idle cores; removed when unused.
    Idle,
    /// Reserved for the host itself: no job runs there.
    Housekeeping,
    /// A single job's set (`--isolated`), removed with the job.
    Isolated,
}
