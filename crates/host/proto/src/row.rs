//! The rows of the store: jobs, samples, decisions. Times are microseconds since the Unix epoch, sizes bytes, CPU
//! times microseconds, all whole numbers; absent values are `None`.

mod found;

use std::collections::BTreeMap;

pub use found::ProcessesFrom;

use serde::{Deserialize, Serialize};

use crate::job::{Ending, JobClass, JobPlace, JobSpec, JobState};
use crate::terms::End;

/// A process by number and start time, so that a reused number is not confused with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    /// The process number.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks after boot.
    pub start_ticks: u64,
}

/// All facts of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its number.
    pub job: u64,
    /// The user it runs as.
    pub uid: u32,
    /// That user's name, or the number in digits.
    pub user: String,
    /// The submitted specification.
    pub spec: JobSpec,
    /// Its current priority.
    pub priority: u8,
    /// Its class, or the most likely class before its start.
    pub class: JobClass,
    /// Its state.
    pub state: JobState,
    /// When it was submitted.
    pub submitted_us: u64,
    /// Start of its wait for a slot, from which expiry and precedence count: its submission, the end of a hold, of
    /// its start time or dependencies, or its requeue. Stays set after the start. `None`: the job is held, waits for
    /// a time or other jobs, or the start is unknown.
    pub waits_since_us: Option<u64>,
    /// When it started to run.
    pub started_us: Option<u64>,
    /// When it was over.
    pub ended_us: Option<u64>,
    /// Total frozen time of finished intervals, and of host sleep as far as a later daemon found it.
    pub suspended_us: u64,
    /// Start of the current freeze.
    pub frozen_since_us: Option<u64>,
    /// Whether a user or operator suspended the job after its start and has not resumed it. Survives the daemon.
    pub suspended: bool,
    /// The PUs it is bound to, as a kernel list; `None`: unbound or not started.
    pub cpus: Option<String>,
    /// Its keeper, the process that starts and reaps the command.
    pub keeper: Option<ProcessId>,
    /// Its first process.
    pub main: Option<ProcessId>,
    /// How its command ended.
    pub ending: Option<Ending>,
    /// The cause of its end, where the exit status does not show it.
    pub end: Option<End>,
    /// Number of requeues.
    pub requeues: u32,
    /// Number of ends after a checkpoint.
    pub checkpoints: u32,
    /// Whether the job is being ended for a requeue.
    pub requeuing: bool,
    /// Why it is in its state, in words.
    pub reason: Option<String>,
    /// Placement of its cores, if another placement was possible and it stayed unchanged to the end.
    pub lay: Option<Lay>,
    /// Peak of the memory that the job needed in RAM, in bytes; set after its end if the job or jobs of its class
    /// left a part without refaults.
    pub needed_bytes: Option<u64>,
    /// Its resource usage.
    pub usage: Usage,
}

impl JobRow {
    /// A job just submitted.
    #[must_use]
    pub fn asked_for(job: u64, uid: u32, user: String, spec: JobSpec, submitted_us: u64) -> Self {
        Self {
            job,
            uid,
            user,
            priority: spec.priority.unwrap_or(10),
            class: spec.class.unwrap_or(JobClass::Primary),
            state: if spec.held { JobState::Held } else { JobState::Queued },
            submitted_us,
            waits_since_us: None,
            started_us: None,
            ended_us: None,
            suspended_us: 0,
            frozen_since_us: None,
            suspended: false,
            cpus: None,
            keeper: None,
            main: None,
            ending: None,
            end: None,
            requeues: 0,
            checkpoints: 0,
            requeuing: false,
            reason: None,
            lay: None,
            needed_bytes: None,
            usage: Usage::default(),
            spec,
        }
    }

    /// The same job after its end: it ran until then and exited with code 0.
    #[must_use]
    pub fn ran_until(self, ended_us: u64) -> Self {
        Self {
            state: JobState::Exited,
            started_us: Some(self.submitted_us),
            ended_us: Some(ended_us),
            ending: Some(Ending { exit_code: Some(0), ended_us, ..Ending::default() }),
            ..self
        }
    }

    /// Whether it ended well ([`crate::ended_well`]); false for a job without a run or a known end.
    #[must_use]
    pub fn ended_well(&self) -> bool {
        self.ending.is_some_and(|ending| crate::ended_well(ending.exit_code, self.end))
    }

    /// The set of cores for the job; an isolated job's own set.
    #[must_use]
    pub fn set(&self) -> Option<String> {
        let layout = self.spec.layout.as_ref()?;
        layout.set.clone().or_else(|| layout.isolated.then(|| crate::job::isolated_set(self.job)))
    }
}

/// How the cores of a job lay: in as few L3 caches (else NUMA nodes, sockets) as so many cores fit, or in as many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lay {
    /// [`JobPlace::Compact`] or [`JobPlace::Spread`].
    pub place: JobPlace,
    /// The number of these domains.
    pub domains: u32,
}

/// A job's resource usage, so far or in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode.
    pub cpu_user_us: u64,
    /// CPU time in the kernel.
    pub cpu_system_us: u64,
    /// Peak of anonymous and shared memory, without page cache.
    pub memory_peak_bytes: u64,
    /// Mean of that memory over its samples.
    pub memory_mean_bytes: u64,
    /// Peak of the page cache charged to it; `None` where the kernel does not report page cache apart.
    pub cache_peak_bytes: Option<u64>,
    /// Peak of swap.
    pub swap_peak_bytes: u64,
    /// Peak of its processes' total address space.
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
    /// The kernel's own peak of all memory charged to the job, including page cache and kernel memory.
    pub memory_peak_kernel_bytes: Option<u64>,
    /// Its stall times; `None` where the kernel does not report stalls per job.
    pub stalls: Option<Stalls>,
    /// How its processes were found.
    pub processes_from: ProcessesFrom,
    /// Peak of anonymous memory at a reading; `None` in these three: not reported apart.
    pub anonymous_peak_bytes: Option<u64>,
    /// The most shared memory: mappings shared by processes, and files in memory.
    pub shared_peak_bytes: Option<u64>,
    /// Peak of page cache mapped by its processes.
    pub mapped_peak_bytes: Option<u64>,
    /// Event counts of its processes.
    pub counts: Counts,
}

/// Event counts of processes since the job's start; `None`: not reported, or not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Read calls, from storage or from memory.
    pub io_read_calls: Option<u64>,
    /// Write calls.
    pub io_write_calls: Option<u64>,
    /// Page faults met from memory.
    pub faults_minor: Option<u64>,
    /// Page faults that waited for storage.
    pub faults_major: Option<u64>,
    /// Voluntary context switches.
    pub switches_voluntary: Option<u64>,
    /// Involuntary context switches.
    pub switches_forced: Option<u64>,
    /// Time ready but waiting for a processor, in microseconds.
    pub waited_us: Option<u64>,
}

impl Counts {
    /// The maximum of each figure: two sources, neither of which overcounts.
    #[must_use]
    pub fn raised(self, other: Self) -> Self {
        Self {
            io_read_calls: self.io_read_calls.max(other.io_read_calls),
            io_write_calls: self.io_write_calls.max(other.io_write_calls),
            faults_minor: self.faults_minor.max(other.faults_minor),
            faults_major: self.faults_major.max(other.faults_major),
            switches_voluntary: self.switches_voluntary.max(other.switches_voluntary),
            switches_forced: self.switches_forced.max(other.switches_forced),
            waited_us: self.waited_us.max(other.waited_us),
        }
    }
}

/// Stall times of a job, in microseconds since its start (the kernel's PSI): *some* of its threads waited, or all
/// threads waited (*full*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// Some of its threads waited for a processor.
    pub cpu_us: u64,
    /// Some waited for memory.
    pub memory_us: u64,
    /// All threads waited for memory.
    pub memory_full_us: u64,
    /// Some waited for storage.
    pub io_us: u64,
    /// All threads waited for storage.
    pub io_full_us: u64,
}

impl Stalls {
    /// The maximum of each figure, because stall times never decrease.
    #[must_use]
    pub fn raised(self, other: Self) -> Self {
        Self {
            cpu_us: self.cpu_us.max(other.cpu_us),
            memory_us: self.memory_us.max(other.memory_us),
            memory_full_us: self.memory_full_us.max(other.memory_full_us),
            io_us: self.io_us.max(other.io_us),
            io_full_us: self.io_full_us.max(other.io_full_us),
        }
    }
}

/// A reading of a job. CPU and I/O are totals since its start.
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
    /// Page cache, where reported apart.
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
    /// Its stall times so far; `None` where the kernel does not report stalls per job.
    pub stalls: Option<Stalls>,
}

/// A decision about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRow {
    /// The job.
    pub job: u64,
    /// When.
    pub time_us: u64,
    /// The action, in words: `start as primary on 0`.
    pub action: String,
    /// Why, in words.
    pub reason: String,
    /// Codes for programs; `None`: written by a daemon of an earlier version.
    pub codes: Option<Codes>,
}

/// A decision for programs: stable codes, independent of the words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Codes {
    /// The code of the action: `start`.
    pub action: String,
    /// The code of the reason: `home_core_free`.
    pub reason: String,
    /// The figures of the reason, and further figures of the action. Names are in snake case with the unit last;
    /// times are in seconds.
    pub figures: Figures,
}

/// Figures by their names.
pub type Figures = BTreeMap<String, serde_json::Value>;

impl Codes {
    /// A decision without figures.
    #[must_use]
    pub fn plain(action: &str, reason: &str) -> Self {
        Self { action: action.to_owned(), reason: reason.to_owned(), figures: Figures::new() }
    }
}

/// A process of a job, or a group of processes of the same command that each lived for less than a second.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessRow {
    /// The job.
    pub job: u64,
    /// Its index in the job by start time, from 1.
    pub number: u64,
    /// Its process number; of a group, the first number.
    pub pid: u32,
    /// Its parent process; `None`: unknown.
    pub parent: Option<u32>,
    /// How many processes the row stands for.
    pub count: u64,
    /// Its command line; the kernel's name (up to 15 bytes) if the process was never seen alive.
    pub command: String,
    /// Its start, where known; of a group, the first start.
    pub started_us: Option<u64>,
    /// Its end; of a group, the last end.
    pub ended_us: Option<u64>,
    /// Its exit code; of a group, the code of the last exited process.
    pub exit_code: Option<i32>,
    /// The signal that ended it; of a group, the signal of the last process ended by a signal.
    pub signal: Option<i32>,
    /// How many processes with a known end did not exit with code 0.
    pub failed: u64,
    /// Most concurrent threads seen, or the number of ended threads, whichever is more.
    pub threads: u64,
    /// Its usage; of a group, the sum, but the maximum of peaks.
    pub used: ProcessUsage,
    /// Whether waits and context switches are known; otherwise these figures are 0.
    pub counted: bool,
    /// Its memory with shared pages divided; of a group, of its largest process. `None`: never read.
    pub share: Option<ProcessShare>,
    /// Where the figures come from.
    pub source: ProcessSource,
}

/// A process's anonymous and shared memory, each page divided by the number of processes that map it (PSS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessShare {
    /// Time of the last reading.
    pub time_us: u64,
    /// Size at the last reading.
    pub bytes: u64,
    /// The most at any reading.
    pub peak_bytes: u64,
}

/// A process's usage; after its end, the kernel's final figures where available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessUsage {
    /// CPU time in user mode.
    pub cpu_user_us: u64,
    /// CPU time in the kernel.
    pub cpu_system_us: u64,
    /// Time in which its threads were ready but waited for a processor.
    pub waited_us: u64,
    /// The largest resident size: anonymous, shared and mapped file pages.
    pub memory_peak_bytes: u64,
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
    /// Voluntary context switches.
    pub switches_voluntary: u64,
    /// Involuntary context switches.
    pub switches_forced: u64,
    /// Peak of its address space; `None`: not reported.
    pub virtual_peak_bytes: Option<u64>,
}

impl ProcessUsage {
    fn each(&mut self, other: &Self, join: fn(u64, u64) -> u64) {
        for (own, others) in [
            (&mut self.cpu_user_us, other.cpu_user_us),
            (&mut self.cpu_system_us, other.cpu_system_us),
            (&mut self.waited_us, other.waited_us),
            (&mut self.io_read_bytes, other.io_read_bytes),
            (&mut self.io_write_bytes, other.io_write_bytes),
            (&mut self.io_read_calls, other.io_read_calls),
            (&mut self.io_write_calls, other.io_write_calls),
            (&mut self.faults_minor, other.faults_minor),
            (&mut self.faults_major, other.faults_major),
            (&mut self.switches_voluntary, other.switches_voluntary),
            (&mut self.switches_forced, other.switches_forced),
        ] {
            *own = join(*own, others);
        }
        self.memory_peak_bytes = self.memory_peak_bytes.max(other.memory_peak_bytes);
        self.virtual_peak_bytes = self.virtual_peak_bytes.max(other.virtual_peak_bytes);
    }

    /// Adds another usage; peaks become the maximum.
    pub fn add(&mut self, other: &Self) {
        self.each(other, u64::saturating_add);
    }

    /// Takes the maximum of each figure: two sources for the same process, neither of which overcounts.
    pub fn raise(&mut self, other: &Self) {
        self.each(other, u64::max);
    }
}

/// A file that a job had open. Bytes are distances that positions moved, capped in sum at the bytes that the job's
/// processes transferred.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileRow {
    /// The job.
    pub job: u64,
    /// The file.
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
    /// When the file was first seen open.
    pub first_us: u64,
    /// When the file was last seen open.
    pub last_us: u64,
}

/// A job's memory on a NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeRow {
    /// The job.
    pub job: u64,
    /// The kernel's number of the node.
    pub node: u32,
    /// Anonymous and shared memory there, at the last sample.
    pub memory_bytes: u64,
    /// Time-weighted mean of that memory.
    pub memory_mean_bytes: u64,
    /// Peak of that memory at a sample.
    pub memory_peak_bytes: u64,
}

/// Where a process's figures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProcessSource {
    /// The last sample of a running process.
    #[default]
    Running,
    /// The kernel's record of its end.
    Exit,
    /// The last sample before its end; later usage is missing.
    Sample,
    /// A process reported by the kernel but never sampled: no figures.
    Unseen,
}
