//! Requests of clients and keepers to the daemon.

use serde::{Deserialize, Serialize};

use crate::array::JobName;
use crate::external::ExternalName;
use crate::job::{Ending, JobClass, JobSpec};
use crate::learned::Signed;
use crate::start::Start;
use crate::terms::TimeoutSignal;

/// A client's request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The first message.
    Hello {
        /// [`super::WIRE_VERSION`].
        version: u32,
    },
    /// Run a job, some time. Answered by `Queued` or `Refused`, later by `Grant` or `Go`.
    Submit {
        /// The client's own number for this request, repeated in the answer.
        ticket: u64,
        /// The job. Boxed, because it is many times larger than other requests.
        spec: Box<JobSpec>,
        /// The sender's child process that waits to become the job.
        pid: Option<u32>,
    },
    /// Make a job of running processes. Answered by `Adopted`.
    Adopt {
        /// Which.
        which: Adoptee,
        /// The job; its name and command default to the processes' own. Boxed as in `Submit`.
        spec: Box<JobSpec>,
        /// The processes stay in the control groups of a workload manager; they join an existing job with the
        /// external name of `spec`.
        #[serde(default)]
        in_place: bool,
    },
    /// Wait until an adopted job has started. Answered by `Begun`.
    Begin {
        /// The job.
        job: u64,
    },
    /// The jobs with these names in workload managers. Answered by `Externals`.
    Externals {
        /// The names.
        names: Vec<ExternalName>,
    },
    /// The start record for another keeper in the sender's place. Not answered.
    Keep {
        /// The job; for an array, any of its members stands for all.
        job: u64,
        /// The record. Boxed, because it is many times larger than other requests.
        start: Box<Start>,
    },
    /// The jobs that wait for a keeper: the sender's own, for root all. Answered by `Starts`.
    Starts,
    /// How a job was submitted: for its own user and root. Answered by `Starts`, with none for a job that was not submitted.
    /// At worst one file of 120 KiB is read ([`crate::start::START_MAX_BYTES`]).
    StartOf {
        /// The job, over or not; of an array, any of its members.
        job: u64,
    },
    /// The process asked for by `Grant`. Answered by `Go`.
    Child {
        /// The job.
        job: u64,
        /// A child of the sender.
        pid: u32,
    },
    /// After a daemon's restart: the sender keeps this job. Answered by `Attached`.
    Attach {
        /// The job.
        job: u64,
        /// The job's phase.
        phase: Phase,
    },
    /// After a daemon's restart: the sender has presented all its jobs. Other jobs waiting in its name are unknown to
    /// it, because the earlier daemon died before its answer; the daemon cancels them. Not answered.
    Presented,
    /// The command ended. Answered by `Recorded`.
    Ended {
        /// The job.
        job: u64,
        /// How.
        ending: Ending,
    },
    /// To `Reply::Checkpoint`: the job's checkpoint command ended. Not answered.
    Checkpointed {
        /// The job.
        job: u64,
        /// Why the checkpoint is unreliable; `None`: it is good.
        error: Option<String>,
    },
    /// The command could not be started, or is no longer wanted. Answered by `Recorded`.
    Withdraw {
        /// The job.
        job: u64,
        /// Why, in words.
        reason: String,
    },
    /// The terminal sent the job a signal; a frozen job must be thawed to receive it. Not answered.
    Interrupted {
        /// The job.
        job: u64,
    },
    /// `pinfold status`.
    Status {
        /// The jobs; empty: all jobs that have not ended.
        jobs: Vec<u64>,
        /// Also ended jobs, and other users' jobs that the sender may see.
        all: bool,
        /// A past moment in microseconds since the Unix epoch, from the store; `None`: now.
        #[serde(default)]
        at_us: Option<u64>,
    },
    /// The jobs that names match. Answered by `Members`.
    Members {
        /// The names as typed.
        names: Vec<JobName>,
    },
    /// `pinfold why`.
    Why {
        /// The job.
        job: u64,
        /// A past moment in microseconds since the Unix epoch; `None`: now.
        #[serde(default)]
        at_us: Option<u64>,
    },
    /// `pinfold report`, `pinfold plot`.
    Report {
        /// The jobs.
        select: Select,
        /// With the series of each job.
        series: bool,
        /// With the processes of each job.
        #[serde(default)]
        processes: bool,
        /// With the threads of each running job.
        #[serde(default)]
        threads: bool,
        /// With the files of each job.
        #[serde(default)]
        files: bool,
        /// Also other users' jobs; for operators.
        #[serde(default)]
        all: bool,
        /// Answered by any number of `Piece`, all of the same moment, instead of a single `Report`, which is refused
        /// when too long.
        #[serde(default)]
        pieces: bool,
    },
    /// The sender's jobs with these names. Answered by `Named`.
    Named {
        /// Names of jobs or arrays.
        names: Vec<String>,
    },
    /// The sender's jobs with these names, which may match several jobs. Answered by `AllNamed`.
    AllNamed {
        /// Names of jobs or arrays, for example the common name of a batch's lines.
        names: Vec<String>,
    },
    /// How long the sender's jobs with these commands usually ran. Answered by `Lengths`.
    Lengths {
        /// The words of each command, as in [`JobSpec::command`].
        commands: Vec<Vec<String>>,
    },
    /// The daemon's state directory. Answered by `Where`.
    Where,
    /// The job of the sending process. Open to all users, because it concerns only the process that opened the
    /// connection, as the kernel names it. Answered by `Part`.
    Part,
    /// A signed statement of the sender's identity. Answered by `Vouched`.
    Vouch {
        /// Its reader.
        audience: String,
        /// The reader's request.
        request: String,
    },
    /// Peak memory of job classes on other hosts, from a hub; for operators. Answered by `Done`.
    Learn {
        /// The table and its signature.
        signed: Signed,
    },
    /// `pinfold wait`: answered by `Report` when all jobs have ended.
    Wait {
        /// The jobs.
        jobs: Vec<u64>,
    },
    /// Change a job. Answered by `Done`.
    Control {
        /// The job.
        job: u64,
        /// The change.
        verb: Verb,
    },
    /// Reclaim some of a running job's memory, once, as far as the kernel can, and report its memory. Answered by
    /// `Squeezed`.
    Squeeze {
        /// The job.
        job: u64,
        /// How many bytes, at most a hundredth of its memory; 0: report only.
        bytes: u64,
    },
    /// `pinfold doctor`.
    Doctor,
    /// `pinfold map`.
    Map,
    /// The live configuration. Answered by `Config`.
    ConfigGet,
    /// The live configuration as a file's text. Answered by `Saved`.
    ConfigSave {
        /// Write the daemon's own file; otherwise only return the text.
        write: bool,
        /// The text of the file to update, including comments, if not the daemon's own.
        text: Option<String>,
    },
    /// The audit log. Answered by `Audit`.
    Audit {
        /// Recompute the chain from the first record on.
        verify: bool,
    },
    /// Stop starting jobs (`on`), or resume. Answered by `Done`.
    Drain {
        /// Stop or resume.
        on: bool,
    },
    /// Reserve cores. Answered by `SetMade`.
    SetAside(SetAside),
    /// Give a set's cores back. Answered by `Done`.
    SetRemove {
        /// Its name.
        name: String,
    },
    /// `pinfold sets`.
    Sets,
    /// `pinfold host`. Answered by `Host`.
    Host {
        /// Readings since then, in microseconds since the Unix epoch.
        since_us: u64,
        /// And until then; `None`: until now.
        until_us: Option<u64>,
        /// Unchanged readings, the oldest that fit into an answer; ask for the next from the last on. Otherwise a
        /// long series is condensed.
        each: bool,
    },
    /// Change the live configuration, all or nothing. Answered by `Config`.
    ConfigSet {
        /// Keys and values, as `KEY=VALUE`.
        changes: Vec<String>,
    },
}

impl Request {
    /// Whether a keeper of an older version ([`super::WIRE_VERSION_OLDEST`]) may send this request.
    #[must_use]
    pub const fn is_of_an_older_keeper(&self) -> bool {
        matches!(
            self,
            Self::Hello { .. }
                | Self::Attach { .. }
                | Self::Presented
                | Self::Child { .. }
                | Self::Ended { .. }
                | Self::Checkpointed { .. }
                | Self::Withdraw { .. }
                | Self::Interrupted { .. }
        )
    }
}

/// A reservation of cores.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SetAside {
    /// Its name; `None`: idle cores, under a name made by the daemon.
    pub name: Option<String>,
    /// Its PUs, as a kernel list.
    pub cpus: Option<String>,
    /// Or how many cores, close together.
    pub cores: Option<u32>,
    /// Memory in bytes that other jobs leave free for the set's jobs.
    pub memory_bytes: Option<u64>,
    /// Other jobs may use its cores as well.
    pub shared: bool,
    /// No job may use its cores.
    pub housekeeping: bool,
    /// Allowed users; empty: all users, but for idle cores their user alone.
    pub users: Vec<String>,
    /// How long idle cores stay without a job, in microseconds.
    pub hold_us: Option<u64>,
}

/// Processes to adopt as a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adoptee {
    /// A process and its descendants.
    Process(u32),
    /// The processes of a control group and of groups below it, and their descendants.
    Group(String),
}

/// A job's phase when its keeper presents it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The job waits; its process, if it exists.
    Waiting {
        /// A child of the sender.
        pid: Option<u32>,
    },
    /// The job runs.
    Running {
        /// A child of the sender.
        pid: u32,
    },
    /// Its command has ended.
    Ended {
        /// Its ending.
        ending: Ending,
        /// The number of the run, from `Go`; `None`: `Go` had none.
        #[serde(default)]
        run: Option<u32>,
    },
}

/// Which jobs a report is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Select {
    /// Jobs by number.
    Jobs(Vec<u64>),
    /// The last jobs of the sender, this many.
    Last(u32),
    /// The sender's jobs submitted since then, in microseconds since the Unix epoch.
    Since(u64),
}

/// A change of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Freeze the job.
    Suspend,
    /// Thaw the job.
    Resume,
    /// Prevent the start.
    Hold,
    /// Allow the start.
    Release,
    /// End the job with this signal.
    Cancel {
        /// The signal's number.
        signal: i32,
    },
    /// End the job and put it back in the queue, to run again from its beginning.
    Requeue,
    /// Change its priority.
    Priority(u8),
    /// Change its expected memory, in bytes.
    Memory(u64),
    /// Change its requested class: primary or backfill; `None`: the first class with a free slot.
    Class(Option<JobClass>),
    /// Change its longest run time, in microseconds without frozen time; `None`: unlimited.
    Timeout(Option<u64>),
    /// Change the signal before its timeout; `None`: no signal.
    TimeoutSignal(Option<TimeoutSignal>),
    /// Change its CPU time limit, in microseconds; `None`: unlimited.
    CpuLimit(Option<u64>),
    /// Change its earliest start, in microseconds since the Unix epoch; `None`: at once.
    Begin(Option<u64>),
    /// Change its comment; an empty text removes it.
    Comment(String),
}
