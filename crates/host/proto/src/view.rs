//! What `status`, `why`, `report` and `batch` print as JSON: names as outside scripts rely on them, keys in
//! snake case with the unit last, absent values `null`.

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

/// The version that every top object carries.
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
    /// The projects, where there are any; last the jobs of none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub projects: Vec<ProjectView>,
    /// The countable resources, by name.
    #[serde(default)]
    pub resources: Vec<ResourceView>,
    /// What processes that are no jobs use, where that is handed out less; `None`: it does not count, or is not known.
    #[serde(default)]
    pub other_load: Option<OtherLoadView>,
    /// What of the host is this user's, where daemons of several users may share it; `None`: all is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Box<NeighboursView>>,
    /// The moment it is about, in Unix seconds, when that is not now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_s: Option<f64>,
    /// What the host did up to its last reading, ten minutes before at most; `None`: it was not read then.
    pub reading: Option<Box<HostPoint>>,
    /// Whether nothing new starts, because an operator drains the host.
    #[serde(default)]
    pub draining: bool,
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// What an operator should know, such as a store that cannot be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One job in `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    /// Its number.
    pub job: u64,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// Its project.
    pub project: Option<String>,
    /// Its state.
    pub state: JobState,
    /// Its class.
    pub class: JobClass,
    /// 1 to 16.
    pub priority: u8,
    /// The PUs it is bound to, as a kernel list.
    pub cpus: Option<String>,
    /// The set of cores that it runs in, if it asked for one.
    #[serde(default)]
    pub set: Option<String>,
    /// The number of the array that it is a member of.
    #[serde(default)]
    pub array_id: Option<u64>,
    /// Its index there.
    #[serde(default)]
    pub array_index: Option<u32>,
    /// The name that it has in the workload manager which dispatched it.
    #[serde(default)]
    pub external: Option<String>,
    /// Anonymous and shared memory it holds now.
    pub memory_bytes: Option<u64>,
    /// What it has in swap now.
    pub swap_bytes: Option<u64>,
    /// Its processes now.
    pub pids: Vec<u32>,
    /// CPU time it used so far, while it runs.
    #[serde(default)]
    pub cpu_s: Option<f64>,
    /// When that was read, in Unix seconds.
    #[serde(default)]
    pub seen_s: Option<f64>,
    /// Cores in use between the last two samples; of a moment in the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// When it was asked for, in Unix seconds.
    pub submitted_s: f64,
    /// When it started.
    pub started_s: Option<f64>,
    /// When it was over.
    pub ended_s: Option<f64>,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What ended it, where these do not say it.
    #[serde(default)]
    pub end: Option<End>,
    /// Why it is in its state.
    pub reason: Option<String>,
    /// How long it may run, without frozen time.
    #[serde(default)]
    pub timeout_s: Option<f64>,
    /// How much CPU time it may use.
    #[serde(default)]
    pub cpu_limit_s: Option<f64>,
    /// Before when it does not start, in Unix seconds.
    #[serde(default)]
    pub begin_s: Option<f64>,
    /// What its user remarks about it.
    #[serde(default)]
    pub comment: Option<String>,
    /// Where its standard output goes, as its user's commands know it: of jobs of `submit`, for some thousands of the last.
    #[serde(default)]
    pub output: Option<String>,
    /// Where its standard error goes; the same where both go into one file.
    #[serde(default)]
    pub error_output: Option<String>,
    /// The countable resources that it asked for, with the numbers of the devices that it has or had.
    #[serde(default)]
    pub resources: Vec<Resource>,
    /// How its cores lie, where they could lie otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<PlaceView>,
    /// The NUMA nodes of its set, where that has some to itself.
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
