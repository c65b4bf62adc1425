//! The data from the readers of `/proc`. Plain data; absent values are `Option`, never zero.

use pinfold_topo::{CpuSet, PuOs};

/// `/proc/PID/stat`, as far as it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessStat {
    /// The process.
    pub pid: u32,
    /// `R`, `S`, `D`, `T`, `Z` and so on.
    pub state: char,
    /// Its parent; 0 for the first process.
    pub parent: u32,
    /// Page faults met from memory, of its threads.
    pub faults_minor: u64,
    /// Page faults that waited for storage, of its threads.
    pub faults_major: u64,
    /// Page faults met from memory, of children that ended and were waited for.
    pub children_faults_minor: u64,
    /// Page faults that waited for storage, of children that ended and were waited for.
    pub children_faults_major: u64,
    /// User time of its threads, in clock ticks.
    pub user_ticks: u64,
    /// System time of its threads, in clock ticks.
    pub system_ticks: u64,
    /// User time of children that ended and were waited for, in clock ticks.
    pub children_user_ticks: u64,
    /// System time of children that ended and were waited for, in clock ticks.
    pub children_system_ticks: u64,
    /// Threads.
    pub threads: u64,
    /// Its start, in clock ticks since boot. With the pid this identifies a process.
    pub start_ticks: u64,
    /// Mapped address space, in bytes.
    pub virtual_bytes: u64,
    /// Resident pages, shared and file pages included.
    pub resident_pages: u64,
}

impl ProcessStat {
    /// Whether it is stopped by a signal, or has ended so far that it cannot run any more.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        matches!(self.state, 'T' | 't') || self.is_ended()
    }

    /// Whether it has ended and only waits to be collected by its parent.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// `/proc/PID/task/TID/stat`, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadStat {
    /// Its name.
    pub name: String,
    /// `R`, `S`, `D`, `T`, `Z` and so on.
    pub state: char,
    /// User time, in microseconds.
    pub cpu_user_us: u64,
    /// System time, in microseconds.
    pub cpu_system_us: u64,
    /// The PU it ran on last.
    pub pu: Option<u32>,
}

/// `/proc/PID/status`, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStatus {
    /// The real user.
    pub user: u32,
    /// Resident anonymous memory, in bytes; a kernel thread and a zombie have none.
    pub anon_bytes: u64,
    /// Resident file pages, in bytes.
    pub file_bytes: u64,
    /// Resident shared memory, in bytes.
    pub shmem_bytes: u64,
    /// Anonymous memory in swap, in bytes.
    pub swap_bytes: u64,
    /// The PUs it may run on.
    pub cpus: CpuSet,
}

/// `/proc/PID/io`, the fields in use: reads and writes, including ended children that were waited for; for a single thread
/// its own alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessIo {
    /// Bytes fetched from storage.
    pub read_bytes: u64,
    /// Bytes sent to storage, less bytes truncated away before they got there.
    pub write_bytes: u64,
    /// Calls that read, from anywhere.
    pub read_calls: u64,
    /// Calls that wrote, to anywhere.
    pub write_calls: u64,
    /// Bytes that calls read, from storage or from memory.
    pub read_chars: u64,
    /// Bytes that calls wrote, to storage or to memory.
    pub write_chars: u64,
}

impl ProcessIo {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            write_bytes: self.write_bytes.saturating_add(other.write_bytes),
            read_calls: self.read_calls.saturating_add(other.read_calls),
            write_calls: self.write_calls.saturating_add(other.write_calls),
            read_chars: self.read_chars.saturating_add(other.read_chars),
            write_chars: self.write_chars.saturating_add(other.write_chars),
        }
    }
}

/// Scheduling figures of a process, summed over its living threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turns {
    /// The time they were ready and waited for a processor, in microseconds.
    pub waited_us: u64,
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub forced: u64,
}

/// `/proc/PID/smaps_rollup`: memory with each shared page counted by its fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rollup {
    /// Proportional anonymous memory, in bytes.
    pub anon_bytes: u64,
    /// Proportional shared memory, in bytes.
    pub shmem_bytes: u64,
    /// Proportional swap, in bytes.
    pub swap_bytes: u64,
    /// Written memory that others have as well, each page counted whole, in bytes: not program text and libraries.
    pub shared_bytes: u64,
}

/// `/proc/stat`: the times of the PUs since boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCpu {
    /// The times of each online PU, ascending.
    pub pus: Vec<PuTimes>,
}

/// The times of a PU since boot, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PuTimes {
    /// The PU.
    pub pu: PuOs,
    /// User, nice and system time together, interrupts included.
    pub busy_ticks: u64,
    /// User time of threads with a nice value above 0, a part of `busy_ticks`.
    pub nice_ticks: u64,
    /// Idle with nothing to wait for.
    pub idle_ticks: u64,
    /// Idle while a thread last seen here waited for storage.
    pub iowait_ticks: u64,
    /// Wanted to run, but the host below gave the processor to another guest.
    pub steal_ticks: u64,
}

/// `/proc/meminfo`, as far as it is used; bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Usable memory.
    pub total_bytes: u64,
    /// Unused memory.
    pub free_bytes: u64,
    /// The kernel's estimate of memory available without swapping.
    pub available_bytes: u64,
    /// Swap space.
    pub swap_total_bytes: u64,
    /// Unused swap space.
    pub swap_free_bytes: u64,
}

/// A resource of which pressure is accounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PressureResource {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Storage.
    Io,
}

impl PressureResource {
    /// The kernel's name for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}

/// A reading of pressure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    /// At least one thread waited.
    pub some: PressureLine,
    /// All runnable threads waited; `None`: the kernel does not report it (whole-host cpu before 5.13).
    pub full: Option<PressureLine>,
}

/// A line of a pressure file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PressureLine {
    /// Share of the last 10 s, 0 to 1.
    pub avg10: f64,
    /// Share of the last 60 s, 0 to 1.
    pub avg60: f64,
    /// Waited since the group or the host came up, in microseconds.
    pub total_us: u64,
}

/// `/proc/loadavg`, as far as it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Threads that ran, wanted to run or waited for storage, in the mean of the last minute, in thousandths.
    pub minute_milli: u32,
    /// Threads that run or want to run now, the reader included.
    pub running: u32,
}
