//! What `status`, `why`, `report` and `batch` print as JSON: names as outside scripts rely on them, keys in
//! snake case with the unit last, absent values `null`.

mod batch;
mod doctor;
mod neighbours;
mod resources;
mod slots;

use serde::{Deserialize, Serialize};

use crate::host::HostPoint;
use crate::job::{JobClass, JobState, OwnNodesView, PlaceView};
use crate::resource::Resource;
use crate::terms::End;

pub use batch::{BatchResultView, BatchView};
pub use doctor::{AbilityView, DoctorView, FindingView, LongestTurnView, LoopView};
pub use neighbours::NeighboursView;
pub use resources::{DeviceView, ResourceView};
pub use slots::{MemoryView, OtherLoadView, SlotsView};

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

/// What a project has, and what is its own when it wants it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProjectView {
    /// Its name; `None`: the jobs of no project, whose is what no project is guaranteed.
    pub project: Option<String>,
    /// Who may run jobs in it; `None`: everybody.
    pub users: Option<Vec<String>>,
    /// Cores that are its own when it wants them; `None`: it has none beside those of no project.
    pub cores_guaranteed: Option<u64>,
    /// Home cores that its jobs have.
    pub cores_used: u64,
    /// Of these, those that are lent to it.
    pub cores_borrowed: Option<u64>,
    /// Cores that are its own, that it wants, and that it does not have.
    pub cores_owed: u64,
    /// Memory that is its own when it wants it; `None`: it has none beside that of no project.
    pub memory_guaranteed_bytes: Option<u64>,
    /// Memory that its jobs hold, swap included.
    pub memory_used_bytes: u64,
    /// Of that, what is lent to it.
    pub memory_borrowed_bytes: Option<u64>,
    /// Memory that is its own, that its next job waits for, and that it does not have.
    pub memory_owed_bytes: u64,
    /// Its jobs that have started.
    pub jobs_started: u64,
    /// Its jobs that have not.
    pub jobs_waiting: u64,
}

/// Who changed what on a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditView {
    /// [`VERSION`].
    pub version: u32,
    /// The records, oldest first.
    pub records: Vec<AuditRecord>,
    /// Whether the chain holds, when that was asked for.
    pub intact: Option<bool>,
    /// Why it does not.
    pub broken: Option<String>,
    /// What else is to be known of the records: that one was interrupted, that some wait for room on the disk, that the
    /// oldest are not kept any more.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One change and who made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Its number, from 1.
    pub number: u64,
    /// When, in Unix seconds.
    pub time_s: f64,
    /// The user, by the kernel's word.
    pub uid: u32,
    /// That user's name.
    pub user: String,
    /// What was done: `config`, `save`, `drain`, `undrain`, `cancel` ...
    pub action: String,
    /// To what, and from what to what.
    pub detail: String,
    /// SHA-256 over the chain so far and this record, in hexadecimal.
    pub chain: String,
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

/// Which PUs belong to what, as the daemon knows it; `pinfold map` adds how they lie.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapView {
    /// [`VERSION`].
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
    /// [`VERSION`].
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

/// `pinfold why JOB --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhyView {
    /// [`VERSION`].
    pub version: u32,
    /// The job.
    pub job: u64,
    /// Its state.
    pub state: JobState,
    /// The cause of that state.
    pub cause: String,
    /// The numbers behind it.
    pub numbers: Vec<NumberView>,
    /// What would change it.
    pub change: String,
    /// The decisions so far, oldest first.
    pub decisions: Vec<DecisionView>,
}

/// A number behind a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberView {
    /// What it counts.
    pub name: String,
    /// Its value, with the unit.
    pub value: String,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionView {
    /// When, in Unix seconds.
    pub time_s: f64,
    /// What was decided.
    pub action: String,
    /// Why.
    pub reason: String,
}

/// What a job held on one NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NodeView {
    /// The kernel's number of the node.
    pub node: u32,
    /// Whether it is a node of the cores that the job was last bound to; `null`: it is not bound.
    pub local: Option<bool>,
    /// Anonymous and shared memory there now; `null`: the job is over.
    pub memory_bytes: Option<u64>,
    /// The mean of that, weighted with time.
    pub memory_mean_bytes: u64,
    /// The most of it at a sample.
    pub memory_peak_bytes: u64,
}

/// One job in `report --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportView {
    /// [`VERSION`].
    pub version: u32,
    /// Its number.
    pub job: u64,
    /// Its name.
    pub name: String,
    /// The command and its arguments.
    pub command: Vec<String>,
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
    /// The PUs it is, or was last, bound to.
    pub cpus: Option<String>,
    /// The number of the array that it is a member of.
    #[serde(default)]
    pub array_id: Option<u64>,
    /// Its index there.
    #[serde(default)]
    pub array_index: Option<u32>,
    /// The name that it has in the workload manager which dispatched it.
    #[serde(default)]
    pub external: Option<String>,
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
    /// Why it ended or is as it is.
    pub reason: Option<String>,
    /// How long it might run, without frozen time.
    #[serde(default)]
    pub timeout_s: Option<f64>,
    /// How much CPU time it might use.
    #[serde(default)]
    pub cpu_limit_s: Option<f64>,
    /// Before when it was not to start, in Unix seconds.
    #[serde(default)]
    pub begin_s: Option<f64>,
    /// What its user remarks about it.
    #[serde(default)]
    pub comment: Option<String>,
    /// The countable resources that it asked for, with the numbers of the devices that it has or had.
    #[serde(default)]
    pub resources: Vec<Resource>,
    /// How long it waited.
    pub queued_s: f64,
    /// From start to end, or until now.
    pub wall_s: Option<f64>,
    /// How much of that it was frozen.
    pub suspended_s: f64,
    /// How often it was ended to be begun anew; the figures are those of the last time.
    #[serde(default)]
    pub requeues: u32,
    /// How often it was ended after it had written down what it had done, to go on from there.
    #[serde(default)]
    pub checkpoints: u32,
    /// CPU time in user mode.
    pub cpu_user_s: f64,
    /// CPU time in the kernel.
    pub cpu_system_s: f64,
    /// Cores it asked for.
    #[serde(default)]
    pub cores: u32,
    /// Memory it was expected to need.
    pub claim_bytes: Option<u64>,
    /// Memory the kernel let it have.
    #[serde(default)]
    pub limit_bytes: Option<u64>,
    /// The most anonymous and shared memory it held at once.
    pub memory_peak_bytes: u64,
    /// The mean of that memory.
    pub memory_mean_bytes: u64,
    /// The most page cache charged to it.
    pub cache_peak_bytes: Option<u64>,
    /// The most swap it had.
    pub swap_peak_bytes: u64,
    /// The most address space its processes had together.
    pub virtual_peak_bytes: u64,
    /// Bytes read from storage.
    pub io_read_bytes: u64,
    /// Bytes written to storage.
    pub io_write_bytes: u64,
    /// Processes seen in all.
    pub processes_total: u64,
    /// Most processes at once.
    pub processes_peak: u64,
    /// Most threads at once.
    pub threads_peak: u64,
    /// How many samples were taken.
    pub samples: u64,
    /// Its memory on each NUMA node, where the host has several and the kernel tells them apart.
    #[serde(default)]
    pub numa: Option<Vec<NodeView>>,
    /// The part of its memory, in the mean, that lay on nodes of the cores it was last bound to, 0 to 1.
    #[serde(default)]
    pub numa_local: Option<f64>,
    /// Its files, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileView>>,
    /// How they were found: `samples`; `null`: they were not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_from: Option<String>,
    /// How many further files there were, as far as they were counted; while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_left_out: Option<u64>,
    /// The kernel's own peak of all that was charged to it, page cache and kernel memory included.
    #[serde(default)]
    pub memory_peak_kernel_bytes: Option<u64>,
    /// How long some of its threads waited for a processor.
    #[serde(default)]
    pub cpu_stalled_s: Option<f64>,
    /// How long some waited for memory.
    #[serde(default)]
    pub memory_stalled_s: Option<f64>,
    /// How long all waited for memory.
    #[serde(default)]
    pub memory_full_stalled_s: Option<f64>,
    /// How long some waited for storage.
    #[serde(default)]
    pub io_stalled_s: Option<f64>,
    /// How long all waited for storage.
    #[serde(default)]
    pub io_full_stalled_s: Option<f64>,
    /// The most anonymous memory it held at a reading; `null` in these three: not told apart.
    #[serde(default)]
    pub anonymous_peak_bytes: Option<u64>,
    /// The most shared memory: mappings shared by processes, and files in memory.
    #[serde(default)]
    pub shared_peak_bytes: Option<u64>,
    /// The most page cache that its processes had mapped.
    #[serde(default)]
    pub mapped_peak_bytes: Option<u64>,
    /// Calls that read, from storage or from memory; of processes that lived between two samples alone and were not
    /// waited for, a multiple of 1,024.
    #[serde(default)]
    pub io_read_calls: Option<u64>,
    /// Calls that wrote.
    #[serde(default)]
    pub io_write_calls: Option<u64>,
    /// Page faults met from memory.
    #[serde(default)]
    pub faults_minor: Option<u64>,
    /// Page faults that waited for storage.
    #[serde(default)]
    pub faults_major: Option<u64>,
    /// Times its threads gave a processor up; `null` while it runs.
    #[serde(default)]
    pub switches_voluntary: Option<u64>,
    /// Times they were taken off one; `null` while it runs.
    #[serde(default)]
    pub switches_forced: Option<u64>,
    /// How long its threads were ready and waited for a processor, added up; `null` where the kernel did not tell it of
    /// each process.
    #[serde(default)]
    pub waited_s: Option<f64>,
    /// How its processes were found: `records`, `events`, `samples` or `gaps`.
    #[serde(default)]
    pub processes_from: Option<String>,
    /// Its processes, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<ProcessView>>,
    /// The threads of its processes that run, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Vec<ThreadView>>,
    /// The series, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Vec<PointView>>,
    /// What was asked for beside what was used, in plain words; nothing where it fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// `pinfold report --by ... --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryView {
    /// [`VERSION`].
    pub version: u32,
    /// `name`, `user`, `project`, `class` or `day`.
    pub by: String,
    /// The groups, by name.
    pub groups: Vec<GroupView>,
}

/// Several jobs together. Figures are of those that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupView {
    /// What they have in common.
    pub group: String,
    /// How many.
    pub jobs: u64,
    /// Those that are over and did not exit with code 0.
    pub failed: u64,
    /// CPU time of all.
    pub cpu_s: f64,
    /// From start to end.
    pub wall_s: Option<SpreadView>,
    /// How long they waited.
    pub queued_s: Option<SpreadView>,
    /// Cores in use, mean while not frozen.
    pub cpu_cores: Option<SpreadView>,
    /// The most memory at once.
    pub memory_peak_bytes: Option<SpreadView>,
    /// Memory on average.
    pub memory_mean_bytes: Option<SpreadView>,
    /// CPU time used of cores asked for times the time they ran.
    pub cores_used_part: Option<f64>,
    /// Peaks of memory of claims, of those that claimed any.
    pub claim_used_part: Option<f64>,
}

/// How a figure is spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SpreadView {
    /// The least.
    pub least: f64,
    /// Half are up to this.
    pub median: f64,
    /// Nine of ten are up to this.
    pub p90: f64,
    /// The most.
    pub most: f64,
    /// The mean.
    pub mean: f64,
}

/// One process of a job, or several short-lived ones of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessView {
    /// Its place in the job, by birth.
    pub number: u64,
    /// Its process number; of several, the first one's.
    pub pid: u32,
    /// The process that started it.
    pub parent: Option<u32>,
    /// How many processes this stands for.
    pub count: u64,
    /// Its command line; of one that nobody saw alive, the kernel's name of it; of several, the program's name.
    pub command: String,
    /// When it started, in Unix seconds.
    pub started_s: Option<f64>,
    /// When it ended; `null` while it runs.
    pub ended_s: Option<f64>,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How many did not end with exit code 0.
    pub failed: u64,
    /// Most threads.
    pub threads: u64,
    /// CPU time in user mode.
    pub cpu_user_s: f64,
    /// CPU time in the kernel.
    pub cpu_system_s: f64,
    /// How long it was ready and waited for a processor; `null`: not told.
    pub waited_s: Option<f64>,
    /// The largest resident size.
    pub memory_peak_bytes: u64,
    /// The most address space; `null`: not told.
    #[serde(default)]
    pub virtual_peak_bytes: Option<u64>,
    /// Anonymous and shared memory, each page divided by the processes that have it, as it was last read; of several, of
    /// the one that held most. `null`: never read, for it lived too shortly, or is too large to be read without holding
    /// it up.
    #[serde(default)]
    pub pss_bytes: Option<u64>,
    /// When that was read, in Unix seconds.
    #[serde(default)]
    pub pss_read_s: Option<f64>,
    /// The most at any reading.
    #[serde(default)]
    pub pss_peak_bytes: Option<u64>,
    /// Bytes read from storage.
    pub io_read_bytes: u64,
    /// Bytes written to storage.
    pub io_write_bytes: u64,
    /// Calls that read; rounded down to a multiple of 1,024 where no sample was taken of them.
    pub io_read_calls: u64,
    /// Calls that wrote.
    pub io_write_calls: u64,
    /// Page faults met from memory.
    pub faults_minor: u64,
    /// Page faults that waited for storage.
    pub faults_major: u64,
    /// Times it gave the processor up; `null`: not told.
    pub switches_voluntary: Option<u64>,
    /// Times it was taken off the processor; `null`: not told.
    pub switches_forced: Option<u64>,
    /// `running`, `exit`, `sample` or `unseen`: where the figures come from.
    pub source: String,
}

/// One thread of a running job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadView {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub thread: u32,
    /// Its name.
    pub name: String,
    /// `R`, `S`, `D` and so on, as the kernel has it.
    pub state: String,
    /// CPU time in user mode.
    pub cpu_user_s: f64,
    /// CPU time in the kernel.
    pub cpu_system_s: f64,
    /// How long it was ready and waited for a processor.
    pub waited_s: Option<f64>,
    /// The PU it ran on last.
    pub pu: Option<u32>,
}

/// One point of a job's series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PointView {
    /// When, in Unix seconds.
    pub time_s: f64,
    /// Cores in use, mean since the point before.
    pub cpu_cores: f64,
    /// Anonymous and shared memory.
    pub memory_bytes: u64,
    /// Page cache, where it is told apart.
    pub cache_bytes: Option<u64>,
    /// Swap.
    pub swap_bytes: u64,
    /// Bytes read from storage since the start.
    pub io_read_bytes: u64,
    /// Bytes written to storage since the start.
    pub io_write_bytes: u64,
    /// Processes.
    pub processes: u32,
    /// Threads.
    pub threads: u32,
    /// State.
    pub state: JobState,
}

/// A file in `report --files`. Bytes are how far positions moved, all files together no more than the job's processes
/// transferred.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileView {
    /// Its path.
    pub path: String,
    /// Whether it was opened to be read.
    pub read: bool,
    /// Whether it was opened to be written.
    pub written: bool,
    /// How many openings of it were seen.
    pub opened: u64,
    /// Bytes read through openings for reading.
    pub read_bytes: u64,
    /// Bytes written through openings for writing.
    pub write_bytes: u64,
    /// Bytes transferred through openings for both.
    pub either_bytes: u64,
    /// The largest size seen.
    pub size_bytes: u64,
    /// When it was first seen open, in Unix seconds.
    pub first_s: f64,
    /// When it was last seen open.
    pub last_s: f64,
}

/// Seconds, of whole microseconds; exact to the microsecond for 285 years.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "below 2^53 microseconds, that is 285 years, nothing is lost")]
pub fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
