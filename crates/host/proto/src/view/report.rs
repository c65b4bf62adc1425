//! What a job used, as `report` prints it.

use serde::{Deserialize, Serialize};

use super::{FileView, PointView, ProcessView, ThreadView};
use crate::job::{JobClass, JobState};
use crate::resource::Resource;
use crate::terms::End;

/// One job in `report --json`.
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
    /// The directory that it was submitted in; empty: not known, of a job of an earlier version.
    #[serde(default)]
    pub directory: String,
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
    /// Where its standard output goes, as its user's commands know it: of jobs of `submit`, for some thousands of the last.
    #[serde(default)]
    pub output: Option<String>,
    /// Where its standard error goes; the same where both go into one file.
    #[serde(default)]
    pub error_output: Option<String>,
    /// The countable resources that it asked for, with the numbers of the devices that it has or had.
    #[serde(default)]
    pub resources: Vec<Resource>,
    /// How long it waited.
    pub queued_s: f64,
    /// From start to end, or until now.
    pub wall_s: Option<f64>,
    /// How much of that it was frozen, or the host slept before a restart of the daemon.
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
    /// The size of the files that its command named as inputs when it was asked for, in bytes.
    #[serde(default)]
    pub input_bytes: Option<u64>,
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
    /// How many further threads there are, by the last sample: 4,096 are told at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads_left_out: Option<u64>,
    /// The series, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Vec<PointView>>,
    /// What was asked for beside what was used, in plain words; nothing where it fits.
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
