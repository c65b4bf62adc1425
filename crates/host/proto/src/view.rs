//! The JSON of `status`, `why`, `report` and `batch`: stable names for scripts, keys in snake case with the unit
//! last, absent values `null`.

mod audit;
mod batch;
mod doctor;
mod map;
mod neighbours;
mod parts;
mod project;
mod report;
mod resources;
mod slots;
mod summary;
mod why;

use serde::{Deserialize, Serialize};

use crate::host::HostPoint;
use crate::job::{JobClass, JobState, OwnNodesView, PlaceView};
use crate::resource::Resource;
use crate::terms::End;

pub use audit::{AuditRecord, AuditView};
pub use batch::{BatchResultView, BatchView};
pub use doctor::{AbilityView, DoctorView, FindingView, LongestTurnView, LoopView};
pub use map::{ChunkView, MapView, SetAsideView, SetKind, SetView, SetsView};
pub use neighbours::NeighboursView;
pub use parts::{FileView, PointView, ProcessView, ThreadView};
pub use project::ProjectView;
pub use report::{NodeView, ReportView};
pub use resources::{DeviceView, ResourceView};
pub use slots::{MemoryView, OtherLoadView, SlotsView};
pub use summary::{GroupView, SpreadView, SummaryView};
pub use why::{DecisionView, LeftOutView, NumberView, WhyView};

/// The version in every top-level object.
pub const VERSION: u32 = 1;

/// `pinfold status --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    /// [`VERSION`].
    pub version: u32,
    /// The host's name.
    pub host: String,
    /// `v2`, `hybrid` or `rootless`.
    pub mode: String,
    /// The slots.
    pub slots: SlotsView,
    /// The memory.
    pub memory: MemoryView,
    /// The projects, if any; the jobs without a project come last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub projects: Vec<ProjectView>,
    /// The countable resources, by name.
    #[serde(default)]
    pub resources: Vec<ResourceView>,
    /// Load of processes that are no jobs, where it reduces the slots; `None`: not counted, or unknown.
    #[serde(default)]
    pub other_load: Option<OtherLoadView>,
    /// This user's share of the host, where several users' daemons may share it; `None`: the whole host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Box<NeighboursView>>,
    /// The past moment of this view, in Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_s: Option<f64>,
    /// The host's last reading within ten minutes; `None`: no reading.
    pub reading: Option<Box<HostPoint>>,
    /// Whether an operator drains the host, so that no job starts.
    #[serde(default)]
    pub draining: bool,
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// Warnings for an operator, for example a store that cannot be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A job in `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    /// Its number.
    pub job: u64,
    /// Its name.
    pub name: String,
    /// Its user.
    pub user: String,
    /// Its project.
    pub project: Option<String>,
    /// Its state.
    pub state: JobState,
    /// Its class.
    pub class: JobClass,
    /// 1 to 16.
    pub priority: u8,
    /// Its PUs, as a kernel list.
    pub cpus: Option<String>,
    /// Its requested set of cores, if any.
    #[serde(default)]
    pub set: Option<String>,
    /// The number of its array.
    #[serde(default)]
    pub array_id: Option<u64>,
    /// Its index in the array.
    #[serde(default)]
    pub array_index: Option<u32>,
    /// Its name in the workload manager that dispatched it.
    #[serde(default)]
    pub external: Option<String>,
    /// The command of a line of a list, cut where it is long.
    #[serde(default)]
    pub command: Option<String>,
    /// Its anonymous and shared memory now.
    pub memory_bytes: Option<u64>,
    /// Its swap now.
    pub swap_bytes: Option<u64>,
    /// Its processes now.
    pub pids: Vec<u32>,
    /// Its CPU time so far, while running.
    #[serde(default)]
    pub cpu_s: Option<f64>,
    /// Time of that reading, in Unix seconds.
    #[serde(default)]
    pub seen_s: Option<f64>,
    /// Cores in use between the last two samples; of a moment in the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// When it was submitted, in Unix seconds.
    pub submitted_s: f64,
    /// When it started.
    pub started_s: Option<f64>,
    /// When it ended.
    pub ended_s: Option<f64>,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The cause of its end, where exit code and signal do not show it.
    #[serde(default)]
    pub end: Option<End>,
    /// Why it is in its state.
    pub reason: Option<String>,
    /// Longest run time, without frozen time.
    #[serde(default)]
    pub timeout_s: Option<f64>,
    /// CPU time limit.
    #[serde(default)]
    pub cpu_limit_s: Option<f64>,
    /// Earliest start, in Unix seconds.
    #[serde(default)]
    pub begin_s: Option<f64>,
    /// The user's comment.
    #[serde(default)]
    pub comment: Option<String>,
    /// The path of its standard output as the client knows it; kept for some thousands of the latest `submit` jobs.
    #[serde(default)]
    pub output: Option<String>,
    /// The path of its standard error; equal to `output` where both share a file.
    #[serde(default)]
    pub error_output: Option<String>,
    /// Its countable resources, with the numbers of its devices.
    #[serde(default)]
    pub resources: Vec<Resource>,
    /// The placement of its cores, where there is a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<PlaceView>,
    /// The exclusive NUMA nodes of its set, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_nodes: Option<OwnNodesView>,
}

impl JobView {
    /// Whether it ended well ([`crate::ended_well`]).
    #[must_use]
    pub fn ended_well(&self) -> bool {
        crate::ended_well(self.exit_code, self.end)
    }
}

/// Seconds, of whole microseconds; exact to the microsecond for 285 years.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "below 2^53 microseconds, that is 285 years, nothing is lost")]
pub fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
