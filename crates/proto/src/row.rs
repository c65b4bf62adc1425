//! What the store keeps: one row a job, one a sample, one a decision. Times are microseconds since the Unix
//! epoch, sizes bytes, CPU times microseconds, all whole numbers; absent values are `None`.

use crate::job::{Ending, JobClass, JobSpec, JobState};

/// A process by number and start time, so that a number used again is not taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId {
    /// The process number.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks after boot.
    pub start_ticks: u64,
}

/// All that is known of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    /// Its number.
    pub job: u64,
    /// The user it runs as.
    pub uid: u32,
    /// That user's name, or the number in digits.
    pub user: String,
    /// What was asked for.
    pub spec: JobSpec,
    /// The priority it has now.
    pub priority: u8,
    /// The class it has now, or would most likely get.
    pub class: JobClass,
    /// Its state.
    pub state: JobState,
    /// When it was asked for.
    pub submitted_us: u64,
    /// When it started to run.
    pub started_us: Option<u64>,
    /// When it was over.
    pub ended_us: Option<u64>,
    /// How long it has been frozen, finished intervals only.
    pub suspended_us: u64,
    /// Since when it has been frozen, while it is.
    pub frozen_since_us: Option<u64>,
    /// The PUs it is bound to, as a kernel list; `None`: unbound or not started.
    pub cpus: Option<String>,
    /// The process that keeps it: starts its command and waits for it.
    pub keeper: Option<ProcessId>,
    /// Its first process.
    pub main: Option<ProcessId>,
    /// How its command ended.
    pub ending: Option<Ending>,
    /// Why it is in its state, in words.
    pub reason: Option<String>,
    /// What it used.
    pub usage: Usage,
}

/// What a job used, so far or in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time in user mode.
    pub cpu_user_us: u64,
    /// CPU time in the kernel.
    pub cpu_system_us: u64,
    /// The most memory it held at once: anonymous and shared memory, without page cache.
    pub memory_peak_bytes: u64,
    /// The mean of that memory over its samples.
    pub memory_mean_bytes: u64,
    /// The most page cache charged to it; `None` where the kernel does not tell it apart.
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
}

/// One reading of one job. CPU and I/O are totals since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRow {
    /// The job.
    pub job: u64,
    /// When.
    pub time_us: u64,
    /// Its state then.
    pub state: JobState,
    /// CPU time in user mode.
    pub cpu_user_us: u64,
    /// CPU time in the kernel.
    pub cpu_system_us: u64,
    /// Anonymous and shared memory.
    pub memory_bytes: u64,
    /// Page cache, where it is told apart.
    pub cache_bytes: Option<u64>,
    /// Swap.
    pub swap_bytes: u64,
    /// Address space of its processes together.
    pub virtual_bytes: u64,
    /// Bytes read from storage.
    pub io_read_bytes: u64,
    /// Bytes written to storage.
    pub io_write_bytes: u64,
    /// Processes now.
    pub processes: u32,
    /// Threads now.
    pub threads: u32,
}

/// One decision about a job, as it was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRow {
    /// The job.
    pub job: u64,
    /// When.
    pub time_us: u64,
    /// What was decided, in words: `start as primary on 0`.
    pub action: String,
    /// Why, in words.
    pub reason: String,
}
