//! A job's usage, as `report` prints it.

use serde::{Deserialize, Serialize};

use super::{FileView, PointView, ProcessView, ThreadView};
use crate::job::{JobClass, JobState};
use crate::resource::Resource;
use crate::terms::End;

/// A job in `report --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportView {
    /// [`super::VERSION`].
    pub version: u32,
    /// Its number.
    pub job: u64,
    /// Its name.
    pub name: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The directory of its submission; empty: unknown, for a job of an earlier version.
    #[serde(default)]
    pub directory: String,
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
    /// Its current or last PUs.
    pub cpus: Option<String>,
    /// The number of its array.
    #[serde(default)]
    pub array_id: Option<u64>,
    /// Its index in the array.
    #[serde(default)]
    pub array_index: Option<u32>,
    /// Its name in the workload manager that dispatched it.
    #[serde(default)]
    pub external: Option<String>,
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
    /// Why it ended or has its state.
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
    /// Waiting time.
    pub queued_s: f64,
    /// From start to end, or until now.
    pub wall_s: Option<f64>,
    /// Frozen time within it, including host sleep before a restart of the daemon.
    pub suspended_s: f64,
    /// Number of requeues; the figures are of the last run.
    #[serde(default)]
    pub requeues: u32,
    /// Number of ends after a checkpoint.
    #[serde(default)]
    pub checkpoints: u32,
    /// CPU time in user mode.
    pub cpu_user_s: f64,
    /// CPU time in the kernel.
    pub cpu_system_s: f64,
    /// Requested cores.
    #[serde(default)]
    pub cores: u32,
    /// Expected memory.
    pub claim_bytes: Option<u64>,
    /// Size of the input files named by its command at submission, in bytes.
    #[serde(default)]
    pub input_bytes: Option<u64>,
    /// Memory limit.
    #[serde(default)]
    pub limit_bytes: Option<u64>,
    /// Peak of its anonymous and shared memory.
    pub memory_peak_bytes: u64,
    /// Mean of that memory.
    pub memory_mean_bytes: u64,
    /// Peak of the page cache charged to it.
    pub cache_peak_bytes: Option<u64>,
    /// Peak of its swap.
    pub swap_peak_bytes: u64,
    /// Peak of its processes' total address space.
    pub virtual_peak_bytes: u64,
    /// Bytes read from storage.
    pub io_read_bytes: u64,
    /// Bytes written to storage.
    pub io_write_bytes: u64,
    /// Number of processes seen.
    pub processes_total: u64,
    /// Most processes at once.
    pub processes_peak: u64,
    /// Most threads at once.
    pub threads_peak: u64,
    /// How many samples were taken.
    pub samples: u64,
    /// Its memory on each NUMA node, where the host has several and the kernel reports them apart.
    #[serde(default)]
    pub numa: Option<Vec<NodeView>>,
    /// The mean part of its memory on the nodes of its last cores, 0 to 1.
    #[serde(default)]
    pub numa_local: Option<f64>,
    /// Its files, on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileView>>,
    /// How the files were found: `samples`; `null`: not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_from: Option<String>,
    /// Number of further files, as far as counted; while running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_left_out: Option<u64>,
    /// The kernel's own peak of all memory charged to it, including page cache and kernel memory.
    #[serde(default)]
    pub memory_peak_kernel_bytes: Option<u64>,
    /// How long some of its threads waited for a processor.
    #[serde(default)]
    pub cpu_stalled_s: Option<f64>,
    /// How long some waited for memory.
    #[serde(default)]
    pub memory_stalled_s: Option<f64>,
    /// How long all threads waited for memory.
    #[serde(default)]
    pub memory_full_stalled_s: Option<f64>,
    /// How long some waited for storage.
    #[serde(default)]
    pub io_stalled_s: Option<f64>,
    /// How long all threads waited for storage.
    #[serde(default)]
    pub io_full_stalled_s: Option<f64>,
    /// Peak of anonymous memory at a reading; `null` in these three: not reported apart.
    #[serde(default)]
    pub anonymous_peak_bytes: Option<u64>,
    /// The most shared memory: mappings shared by processes, and files in memory.
    #[serde(default)]
    pub shared_peak_bytes: Option<u64>,
    /// Peak of page cache mapped by its processes.
    #[serde(default)]
    pub mapped_peak_bytes: Option<u64>,
    /// Read calls, from storage or from memory; a multiple of 1,024 for processes that lived between two samples and
    /// were not waited for.
    #[serde(default)]
    pub io_read_calls: Option<u64>,
    /// Write calls.
    #[serde(default)]
    pub io_write_calls: Option<u64>,
    /// Page faults met from memory.
    #[serde(default)]
    pub faults_minor: Option<u64>,
    /// Page faults that waited for storage.
    #[serde(default)]
    pub faults_major: Option<u64>,
    /// Voluntary context switches; `null` while running.
    #[serde(default)]
    pub switches_voluntary: Option<u64>,
    /// Involuntary context switches; `null` while running.
    #[serde(default)]
    pub switches_forced: Option<u64>,
    /// Total time in which its threads were ready but waited for a processor; `null` unless the kernel reported it
    /// for each process.
    #[serde(default)]
    pub waited_s: Option<f64>,
    /// How its processes were found: `records`, `events`, `samples` or `gaps`.
    #[serde(default)]
    pub processes_from: Option<String>,
    /// Its processes, on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<ProcessView>>,
    /// The threads of its running processes, on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Vec<ThreadView>>,
    /// Number of further threads at the last sample: at most 4,096 threads are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads_left_out: Option<u64>,
    /// The series, on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Vec<PointView>>,
    /// Requests that differ from the usage, in plain words; empty where they fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ReportView {
    /// Whether it ended well ([`crate::ended_well`]).
    #[must_use]
    pub fn ended_well(&self) -> bool {
        crate::ended_well(self.exit_code, self.end)
    }
}

/// A job's memory on a NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NodeView {
    /// The kernel's number of the node.
    pub node: u32,
    /// Whether the node belongs to the job's last cores; `null`: not bound.
    pub local: Option<bool>,
    /// Anonymous and shared memory there now; `null`: the job has ended.
    pub memory_bytes: Option<u64>,
    /// Time-weighted mean of that memory.
    pub memory_mean_bytes: u64,
    /// Peak of that memory at a sample.
    pub memory_peak_bytes: u64,
}
