//! What the store keeps: one row a job, one a sample, one a decision. Times are microseconds since the Unix
//! epoch, sizes bytes, CPU times microseconds, all whole numbers; absent values are `None`.

mod found;

use std::collections::BTreeMap;

pub use found::ProcessesFrom;

use serde::{Deserialize, Serialize};

use crate::job::{Ending, JobClass, JobPlace, JobSpec, JobState};
use crate::terms::End;

/// A process by number and start time, so that a number used again is not taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    /// The process number.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks after boot.
    pub start_ticks: u64,
}

/// All that is known of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Since when it has waited for its turn, by which its expiry and its right to go first are counted: when it was asked
    /// for, when a hold, a time or other jobs ceased to keep it, or when it was put back in the queue. That stays when it
    /// starts. `None`: it is held, or waits for a time or other jobs; or nobody noted it.
    pub waits_since_us: Option<u64>,
    /// When it started to run.
    pub started_us: Option<u64>,
    /// When it was over.
    pub ended_us: Option<u64>,
    /// How long it has been frozen, finished intervals only, or the host slept, as far as a later daemon found that out.
    pub suspended_us: u64,
    /// Since when it has been frozen, while it is.
    pub frozen_since_us: Option<u64>,
    /// Whether a user or operator suspended it after its start and has not resumed it. It stays so when the daemon ends.
    pub suspended: bool,
    /// The PUs it is bound to, as a kernel list; `None`: unbound or not started.
    pub cpus: Option<String>,
    /// The process that keeps it: starts its command and waits for it.
    pub keeper: Option<ProcessId>,
    /// Its first process.
    pub main: Option<ProcessId>,
    /// How its command ended.
    pub ending: Option<Ending>,
    /// What ended it, where its exit status does not say it.
    pub end: Option<End>,
    /// How often it was ended to be begun anew.
    pub requeues: u32,
    /// How often it was ended after it had written down what it had done.
    pub checkpoints: u32,
    /// Whether it is being ended for that.
    pub requeuing: bool,
    /// Why it is in its state, in words.
    pub reason: Option<String>,
    /// How its cores lay, if they could have lain otherwise and did not change from its start to its end.
    pub lay: Option<Lay>,
    /// The most memory that it had to have in RAM, in bytes, where it or other jobs of its class did not refault a part of
    /// what they held; known when it is over.
    pub needed_bytes: Option<u64>,
    /// What it used.
    pub usage: Usage,
}

impl JobRow {
    /// A job that was asked for at that moment and has done nothing yet.
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

    /// The same job, over: it ran all the time until then, and exited with code 0.
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

    /// Whether it ended well ([`crate::ended_well`]). One that never ran did not, nor one whose end nobody knows.
    #[must_use]
    pub fn ended_well(&self) -> bool {
        self.ending.is_some_and(|ending| crate::ended_well(ending.exit_code, self.end))
    }

    /// The set of cores that it runs in, or is to; one of its own if it is isolated.
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
    /// In how many they lay.
    pub domains: u32,
}

/// What a job used, so far or in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    /// The kernel's own peak of all that was charged to the job, page cache and kernel memory included.
    pub memory_peak_kernel_bytes: Option<u64>,
    /// How long it was stalled; `None` where the kernel does not tell it of one job.
    pub stalls: Option<Stalls>,
    /// How its processes were found.
    pub processes_from: ProcessesFrom,
    /// The most anonymous memory it held at a reading; `None` in these three: not told apart.
    pub anonymous_peak_bytes: Option<u64>,
    /// The most shared memory: mappings shared by processes, and files in memory.
    pub shared_peak_bytes: Option<u64>,
    /// The most page cache that its processes had mapped.
    pub mapped_peak_bytes: Option<u64>,
    /// What its processes did, counted.
    pub counts: Counts,
}

/// What processes did, counted since the job's start; `None`: not told, or not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Calls that read, from storage or from memory.
    pub io_read_calls: Option<u64>,
    /// Calls that wrote.
    pub io_write_calls: Option<u64>,
    /// Page faults met from memory.
    pub faults_minor: Option<u64>,
    /// Page faults that waited for storage.
    pub faults_major: Option<u64>,
    /// Times they gave a processor up.
    pub switches_voluntary: Option<u64>,
    /// Times they were taken off one.
    pub switches_forced: Option<u64>,
    /// How long they were ready and waited for a processor, in microseconds.
    pub waited_us: Option<u64>,
}

impl Counts {
    /// The larger of each: two sources, of which neither counts what did not happen.
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

/// How long a job waited for what it could not have at once, in microseconds since its start (the kernel's PSI):
/// *some* of its threads, or all of them (*full*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// Some of its threads waited for a processor.
    pub cpu_us: u64,
    /// Some waited for memory.
    pub memory_us: u64,
    /// All waited for memory.
    pub memory_full_us: u64,
    /// Some waited for storage.
    pub io_us: u64,
    /// All waited for storage.
    pub io_full_us: u64,
}

impl Stalls {
    /// The larger of each: they only grow.
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
    /// How long it was stalled so far; `None` where the kernel does not tell it of one job.
    pub stalls: Option<Stalls>,
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
    /// The same for programs; `None`: a daemon of an earlier version wrote it.
    pub codes: Option<Codes>,
}

/// A decision as programs read it: what does not change when words do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Codes {
    /// The code of the action: `start`.
    pub action: String,
    /// The code of the reason: `home_core_free`.
    pub reason: String,
    /// The figures of the reason, and those of the action whose names the reason does not have. Names are in snake case with
    /// the unit last; times are in seconds.
    pub figures: Figures,
}

/// Figures by their names.
pub type Figures = BTreeMap<String, serde_json::Value>;

impl Codes {
    /// A decision that has no figures.
    #[must_use]
    pub fn plain(action: &str, reason: &str) -> Self {
        Self { action: action.to_owned(), reason: reason.to_owned(), figures: Figures::new() }
    }
}

/// One process of a job, or several of one command that lived for less than a second each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessRow {
    /// The job.
    pub job: u64,
    /// Its place in the job, by birth, from 1.
    pub number: u64,
    /// Its process number; of several, the first one's.
    pub pid: u32,
    /// The process that started it; `None`: not known.
    pub parent: Option<u32>,
    /// How many processes the row stands for.
    pub count: u64,
    /// Its command line; of one that nobody saw alive, the kernel's name of it, up to 15 bytes.
    pub command: String,
    /// When it started, as far as it is known; of several, the first one.
    pub started_us: Option<u64>,
    /// When it ended; of several, the last one.
    pub ended_us: Option<u64>,
    /// Its exit code; of several, that of the last one that exited.
    pub exit_code: Option<i32>,
    /// The signal that ended it; of several, that of the last one that a signal ended.
    pub signal: Option<i32>,
    /// How many of them did not end with exit code 0; of those whose end is known.
    pub failed: u64,
    /// Most threads seen at once, or all threads that ended, whichever is more.
    pub threads: u64,
    /// What it used; of several, the sum, but for peaks, which are the largest.
    pub used: ProcessUsage,
    /// Whether its waits for a processor and its switches were told or read; else they are 0 and unknown.
    pub counted: bool,
    /// What it held with shared memory divided; of several, of the one that held most. `None`: that was never read.
    pub share: Option<ProcessShare>,
    /// Where the figures come from.
    pub source: ProcessSource,
}

/// What a process held of memory, each page divided by the processes that had it (PSS): anonymous and shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessShare {
    /// When it was read last.
    pub time_us: u64,
    /// How much it was then.
    pub bytes: u64,
    /// The most at any reading.
    pub peak_bytes: u64,
}

/// What a process used. Of one that ended, the kernel's final figures where they could be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessUsage {
    /// CPU time in user mode.
    pub cpu_user_us: u64,
    /// CPU time in the kernel.
    pub cpu_system_us: u64,
    /// How long its threads were ready and waited for a processor.
    pub waited_us: u64,
    /// The largest resident size: anonymous, shared and mapped file pages.
    pub memory_peak_bytes: u64,
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
    /// Times it gave the processor up.
    pub switches_voluntary: u64,
    /// Times it was taken off the processor.
    pub switches_forced: u64,
    /// The most address space; `None`: not told.
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

    /// Adds another's; peaks become the larger one.
    pub fn add(&mut self, other: &Self) {
        self.each(other, u64::saturating_add);
    }

    /// Takes the larger of each figure: two sources of one process, of which neither counts what did not happen.
    pub fn raise(&mut self, other: &Self) {
        self.each(other, u64::max);
    }
}

/// A file that a job was seen to have open. Bytes are how far positions moved, and together no more than the job's
/// processes transferred.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileRow {
    /// The job.
    pub job: u64,
    /// The file.
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
    /// When it was first seen open.
    pub first_us: u64,
    /// When it was last seen open.
    pub last_us: u64,
}

/// What a job held on one NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeRow {
    /// The job.
    pub job: u64,
    /// The kernel's number of the node.
    pub node: u32,
    /// Anonymous and shared memory there, at the last sample.
    pub memory_bytes: u64,
    /// The mean of that, weighted with time.
    pub memory_mean_bytes: u64,
    /// The most of it at a sample.
    pub memory_peak_bytes: u64,
}

/// Where a process's figures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProcessSource {
    /// It runs; the last sample.
    #[default]
    Running,
    /// The kernel's record of its end.
    Exit,
    /// The last sample before its end; what came after is not in them.
    Sample,
    /// It was heard of and never seen: there are no figures.
    Unseen,
}
