//! A job's specification, its states, and its ending.

use serde::{Deserialize, Deserializer, Serialize};

use crate::external::ExternalName;
use crate::terms::{After, Terms};

/// The class of a job, as asked for and as shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobClass {
    /// Normal class, on home cores of its own.
    Primary,
    /// Idle class, in otherwise unused CPU time.
    Backfill,
    /// Every slot of the host.
    Exclusive,
}

impl JobClass {
    /// Each class.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Backfill, Self::Exclusive];

    /// Its word in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Backfill => "backfill",
            Self::Exclusive => "exclusive",
        }
    }
}

/// The state of a job, as shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waits for a slot.
    Queued,
    /// Waits for its release.
    Held,
    /// Runs.
    Running,
    /// Stopped by the freezer.
    Frozen,
    /// Frozen and paged out.
    Parked,
    /// Ended, or cancelled before its start.
    Exited,
}

impl JobState {
    /// Each state.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Held, Self::Running, Self::Frozen, Self::Parked, Self::Exited];

    /// Its word in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Held => "held",
            Self::Running => "running",
            Self::Frozen => "frozen",
            Self::Parked => "parked",
            Self::Exited => "exited",
        }
    }
}

/// Reads an optional name; blank is `None`.
fn not_blank<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    Ok(name.filter(|name| !name.trim().is_empty()))
}

/// A client's request for a job. The keeper holds the command's exact bytes, environment and directory; these fields
/// are for the record and for display.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobSpec {
    /// Its name; by default the last part of the command's path.
    pub name: String,
    /// Its project. An empty name (for example from an empty variable) means no project.
    #[serde(default, deserialize_with = "not_blank")]
    pub project: Option<String>,
    /// The command and its arguments; bytes that are not UTF-8 are replaced, long arguments cut.
    pub command: Vec<String>,
    /// The directory of the command.
    pub directory: String,
    /// 1 to 16; `None`: the host's default.
    #[serde(default)]
    pub priority: Option<u8>,
    /// The requested class; `None`: the first class with a free slot.
    #[serde(default)]
    pub class: Option<JobClass>,
    /// Cores, at least 1.
    pub cores: u32,
    /// Requested layout of its tasks, which restricts the choice of cores.
    #[serde(default)]
    pub layout: Option<JobLayout>,
    /// Expected memory, in bytes.
    #[serde(default)]
    pub claim_bytes: Option<u64>,
    /// Memory limit in the kernel, in bytes.
    #[serde(default)]
    pub limit_bytes: Option<u64>,
    /// Longest wait in the queue, in microseconds; overrides `slots.queue_ttl`.
    #[serde(default)]
    pub ttl_us: Option<u64>,
    /// Expected run time, in microseconds.
    #[serde(default)]
    pub expected_us: Option<u64>,
    /// Wait until released.
    #[serde(default)]
    pub held: bool,
    /// Never suspend the job automatically.
    #[serde(default)]
    pub no_suspend: bool,
    /// Allow killing and requeueing the job when memory is short.
    #[serde(default)]
    pub requeue: bool,
    /// How the job writes a checkpoint, if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Jobs that must end before this job starts, and their required endings; an array means all its members.
    #[serde(default)]
    pub after: Vec<After>,
    /// Start time, run-time limits and other terms.
    #[serde(default, skip_serializing_if = "Terms::is_empty")]
    pub terms: Terms,
    /// The array of this member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<JobArray>,
    /// Size of the in-memory directory in `TMPDIR`, in bytes.
    #[serde(default)]
    pub tmp_bytes: Option<u64>,
    /// Size of the disk directory in `PINFOLD_DISK_DIR`, in bytes.
    #[serde(default)]
    pub disk_bytes: Option<u64>,
    /// Whether the job gets a private `/tmp` and `/var/tmp`.
    #[serde(default)]
    pub private_tmp: bool,
    /// Whether the job gets a network namespace with loopback only.
    #[serde(default)]
    pub no_network: bool,
    /// The submitting process's allocation from another manager of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Allocation>,
    /// The line in the batch file, from 1.
    #[serde(default)]
    pub line: Option<u64>,
    /// The adopted processes, if pinfold did not start the job. Set by the daemon; a client's value is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Adopted>,
    /// The job's name in the workload manager that dispatched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalName>,
    /// Size of the input files named by the command, in bytes, as found by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<u64>,
}

/// Processes that pinfold adopted as a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Adopted {
    /// The named control group, if the user named a group instead of a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Process number and start time of each (the start time distinguishes a reused number); the named process first.
    pub processes: Vec<(u32, u64)>,
    /// User and system time before the adoption, in clock ticks.
    #[serde(default)]
    pub before_ticks: (u64, u64),
    /// An operator adopted the job: processes of other users are included.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_user: bool,
    /// Set if the processes stay in the control groups of a workload manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place: Option<InPlace>,
}

/// Processes in a workload manager's control groups; pinfold controls each process on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InPlace {
    /// The manager bound the processes to PUs; pinfold leaves that binding.
    pub bound: bool,
}

impl Adopted {
    /// The adopted group or process, in words.
    #[must_use]
    pub fn named(&self) -> String {
        match (&self.cgroup, self.processes.first()) {
            (Some(path), _) => format!("group {path}"),
            (None, Some((pid, _))) => format!("process {pid}"),
            (None, None) => "nothing".to_owned(),
        }
    }
}

/// Limits that a workload manager or other software set on the submitting process; the job gets no more. A client
/// reports its knowledge; the daemon adds the limits of the kernel's control groups.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Allocation {
    /// The workload manager and its number of the job; the job then ends with its keeper.
    #[serde(default)]
    pub manager: Option<String>,
    /// The PUs, as a kernel list; `None`: all.
    #[serde(default)]
    pub cpus: Option<String>,
    /// Memory in bytes; also the job's limit.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// The control group that bounds the memory, or else the workload manager's job: jobs with the same group share
    /// that memory. Set by the daemon; a client's value is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_group: Option<String>,
    /// Other limits of the control groups around the submitting process. Set by the daemon; a client's value is
    /// ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<GroupLimit>,
}

/// A limit that all processes of a control group share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLimit {
    /// The limited resource: `processes` (including threads), `cpu` (in millionths of a PU), `swap` (in bytes), or
    /// `io MAJOR:MINOR RATE` of a device, with a rate of `rbps`, `wbps`, `riops` or `wiops` per second.
    pub what: String,
    /// How much.
    pub most: u64,
    /// The group's directory.
    pub group: String,
}

/// How a job writes a checkpoint, from which it continues after a requeue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The shell command, run by the job's keeper; a long command is cut in the record.
    pub command: String,
    /// Time limit, in microseconds.
    pub limit_us: u64,
}

/// A job's place in an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobArray {
    /// The array's number: the number of its first submitted member. Set by the daemon; a client's value is ignored.
    #[serde(default)]
    pub array: Option<u64>,
    /// The job's index in the array.
    pub index: u32,
    /// How many members may run concurrently; `None`: as many as there are slots.
    #[serde(default)]
    pub at_most: Option<u32>,
}

/// A job's requested layout of tasks and cores.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobLayout {
    /// The layout options as given, name and value.
    pub options: Vec<(String, String)>,
    /// Requested PUs as a kernel list: the job runs only on their cores.
    #[serde(default)]
    pub cpus: Option<String>,
    /// The set of cores for the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Whether the job gets exclusive cores: pinfold makes a set for the job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
    /// Requested placement of its cores; `None`: the host's `cpu.place`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<JobPlace>,
}

/// The placement of a job's cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobPlace {
    /// The faster placement of the job's class, by measurement.
    #[default]
    Auto,
    /// Close together.
    Compact,
    /// As far apart as possible.
    Spread,
}

impl JobPlace {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Compact => "compact",
            Self::Spread => "spread",
        }
    }

    /// The place with this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Auto, Self::Compact, Self::Spread].into_iter().find(|place| place.as_str() == word)
    }
}

/// The placement of a job's cores, and the measured run times of its class by placement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlaceView {
    /// `compact` or `spread`.
    pub lies: JobPlace,
    /// In how many L3 caches (else NUMA nodes, sockets).
    pub domains: u64,
    /// Counted runs of its class with close cores; 0 as long as pinfold does not choose, or has no data.
    pub runs_compact: u64,
    /// Counted runs with spread cores.
    pub runs_spread: u64,
    /// Whether the comparison is decided, until the next trial.
    pub settled: bool,
    /// By what part spread runs were shorter; negative: longer.
    pub gain: Option<f64>,
    /// With 95 % confidence at least,
    pub gain_low: Option<f64>,
    /// and at most.
    pub gain_high: Option<f64>,
}

/// NUMA nodes wholly owned by a set, and other jobs' memory there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnNodesView {
    /// The kernel's numbers of the nodes, as a kernel list.
    pub nodes: String,
    /// The part of the nodes' memory that other jobs held before pinfold moved it; `None`: not read.
    pub foreign_before: Option<f64>,
    /// The part left after the move.
    pub foreign_after: Option<f64>,
    /// Whether other jobs' new memory is kept off the nodes.
    pub kept: bool,
    /// These facts in words.
    pub found: String,
}

/// The name of an isolated job's set.
#[must_use]
pub fn isolated_set(job: u64) -> String {
    format!("isolated-{job}")
}

/// The ending of a job's command, from its keeper (`wait4`), with the kernel's figures of the process and all
/// descendants that were waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ending {
    /// Its exit code, if it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if any.
    pub signal: Option<i32>,
    /// When, in microseconds since the Unix epoch.
    pub ended_us: u64,
    /// CPU time in user mode, in microseconds.
    pub cpu_user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub cpu_system_us: u64,
    /// The largest resident size of any single process, in bytes.
    pub rss_peak_bytes: u64,
    /// Bytes read from storage.
    pub io_read_bytes: u64,
    /// Bytes written to storage.
    pub io_write_bytes: u64,
    /// Page faults met from memory; `None`: not reported.
    #[serde(default)]
    pub faults_minor: Option<u64>,
    /// Page faults that waited for storage.
    #[serde(default)]
    pub faults_major: Option<u64>,
    /// Voluntary context switches.
    #[serde(default)]
    pub switches_voluntary: Option<u64>,
    /// Involuntary context switches.
    #[serde(default)]
    pub switches_forced: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_without_a_name_is_none() {
        let asked = |project: Option<&str>| {
            let spec = JobSpec { project: project.map(str::to_owned), ..JobSpec::default() };
            let read: JobSpec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
            read.project
        };
        assert_eq!((asked(None), asked(Some("")), asked(Some(" \t"))), (None, None, None));
        assert_eq!(asked(Some("web 2")), Some("web 2".to_owned()));
    }
}
