//! What a job was made of: its processes, threads and files, and how its figures changed with time.

use serde::{Deserialize, Serialize};

use crate::job::JobState;

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
