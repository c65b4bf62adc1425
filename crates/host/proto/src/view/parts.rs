//! The parts of a job: processes, threads and files, and its figures over time.

use serde::{Deserialize, Serialize};

use crate::job::JobState;

/// A process of a job, or a group of short-lived processes of the same command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessView {
    /// Its index in the job, by start time.
    pub number: u64,
    /// Its process number; of a group, the first number.
    pub pid: u32,
    /// Its parent process.
    pub parent: Option<u32>,
    /// How many processes this entry stands for.
    pub count: u64,
    /// Its command line; the kernel's name if never seen alive; of a group, the program's name.
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
    /// Time ready but waiting for a processor; `null`: not reported.
    pub waited_s: Option<f64>,
    /// The largest resident size.
    pub memory_peak_bytes: u64,
    /// The most address space; `null`: not told.
    #[serde(default)]
    pub virtual_peak_bytes: Option<u64>,
    /// Anonymous and shared memory at the last reading, each page divided by the number of processes that map it; of
    /// a group, of its largest process. `null`: never read, because the process lived too shortly, or is too large to
    /// be read without stalling it.
    #[serde(default)]
    pub pss_bytes: Option<u64>,
    /// Time of that reading, in Unix seconds.
    #[serde(default)]
    pub pss_read_s: Option<f64>,
    /// The most at any reading.
    #[serde(default)]
    pub pss_peak_bytes: Option<u64>,
    /// Bytes read from storage.
    pub io_read_bytes: u64,
    /// Bytes written to storage.
    pub io_write_bytes: u64,
    /// Read calls; rounded down to a multiple of 1,024 where no sample exists.
    pub io_read_calls: u64,
    /// Write calls.
    pub io_write_calls: u64,
    /// Page faults met from memory.
    pub faults_minor: u64,
    /// Page faults that waited for storage.
    pub faults_major: u64,
    /// Voluntary context switches; `null`: not reported.
    pub switches_voluntary: Option<u64>,
    /// Involuntary context switches; `null`: not reported.
    pub switches_forced: Option<u64>,
    /// `running`, `exit`, `sample` or `unseen`: where the figures come from.
    pub source: String,
}

/// A thread of a running job.
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
    /// Time ready but waiting for a processor.
    pub waited_s: Option<f64>,
    /// The last PU.
    pub pu: Option<u32>,
}

/// A point of a job's series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PointView {
    /// When, in Unix seconds.
    pub time_s: f64,
    /// Cores in use, mean since the point before.
    pub cpu_cores: f64,
    /// Anonymous and shared memory.
    pub memory_bytes: u64,
    /// Page cache, where reported apart.
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

/// A file in `report --files`. Bytes are distances that positions moved, capped in sum at the bytes that the job's
/// processes transferred.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileView {
    /// Its path.
    pub path: String,
    /// Whether the file was opened for reading.
    pub read: bool,
    /// Whether the file was opened for writing.
    pub written: bool,
    /// How many openings were seen.
    pub opened: u64,
    /// Bytes read through openings for reading.
    pub read_bytes: u64,
    /// Bytes written through openings for writing.
    pub write_bytes: u64,
    /// Bytes transferred through openings for both.
    pub either_bytes: u64,
    /// The largest size seen.
    pub size_bytes: u64,
    /// When the file was first seen open, in Unix seconds.
    pub first_s: f64,
    /// When the file was last seen open.
    pub last_s: f64,
}
