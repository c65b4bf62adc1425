//! Which cores and memory belong to what, as `map` and `sets` print it.

use serde::{Deserialize, Serialize};

use super::ResourceView;
use crate::job::{JobClass, JobState, OwnNodesView};

/// Which PUs belong to what, as the daemon knows it; `pinfold map` adds how they lie.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapView {
    /// [`super::VERSION`].
    pub version: u32,
    /// The host's name.
    pub host: String,
    /// The PUs that jobs may use, as a kernel list.
    pub cpus: String,
    /// The sets of PUs that jobs have.
    pub sets: Vec<SetView>,
    /// The sets of cores that are set aside.
    #[serde(default)]
    pub set_asides: Vec<SetAsideView>,
    /// NUMA nodes whose memory is kept for the jobs beside them, alone or several as one.
    #[serde(default)]
    pub chunks: Vec<ChunkView>,
    /// The countable resources, by name.
    #[serde(default)]
    pub resources: Vec<ResourceView>,
}

/// A set of PUs and whose it is. Of another user's job nothing is told but that it is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetView {
    /// Its name.
    pub set: String,
    /// Its PUs, as a kernel list.
    pub cpus: String,
    /// How many cores these are on.
    pub cores: u64,
    /// Whether another set has a PU of it as well.
    pub shared: bool,
    /// The job.
    pub job: Option<u64>,
    /// The job's name.
    pub name: Option<String>,
    /// Whose it is.
    pub user: Option<String>,
    /// The job's class.
    pub class: JobClass,
    /// The job's state.
    pub state: JobState,
    /// Its processes now.
    pub pids: Vec<u32>,
}

/// NUMA nodes that are one memory for some jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunkView {
    /// The kernel's numbers of the nodes, as a kernel list.
    pub nodes: String,
    /// The jobs that are bound to them, of those that the asker may see.
    pub jobs: Vec<u64>,
    /// What all its jobs may come to need, in bytes.
    pub claimed_bytes: u64,
    /// What the nodes have for them, in bytes.
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

/// A set of cores that is set aside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetAsideView {
    /// Its name.
    pub set: String,
    /// Its PUs, as a kernel list.
    pub cpus: String,
    /// Those of its PUs that the host has and jobs may use now, as a kernel list.
    pub usable_cpus: String,
    /// On how many cores those are.
    pub cores: u64,
    /// Memory that other jobs leave free for those in it.
    pub memory_bytes: Option<u64>,
    /// Why it is there.
    pub kind: SetKind,
    /// Whether other jobs may be on its cores as well.
    pub shared: bool,
    /// Who may use it; nobody named: everybody.
    pub users: Vec<String>,
    /// Who made it.
    pub owner: String,
    /// The jobs in it, or waiting for it, that the asker may see.
    pub jobs: Vec<u64>,
    /// When it was made, in Unix seconds.
    pub made_s: f64,
    /// When it goes unless a job uses it, in Unix seconds.
    pub expires_s: Option<f64>,
    /// Its NUMA nodes, where it has some to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_nodes: Option<OwnNodesView>,
}

/// Why a set of cores is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SetKind {
    /// An operator made it, and it stays.
    Static,
    /// Somebody asked for cores that were idle; it goes when nobody uses it.
    Idle,
    /// No job is ever on it: it is for the host itself.
    Housekeeping,
    /// It is one job's (`--isolated`), and goes with it.
    Isolated,
}
