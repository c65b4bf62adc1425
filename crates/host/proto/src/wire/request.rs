//! What clients and keepers ask of the daemon.

use serde::{Deserialize, Serialize};

use crate::array::JobName;
use crate::external::ExternalName;
use crate::job::{Ending, JobClass, JobSpec};
use crate::learned::Signed;
use crate::start::Start;
use crate::terms::TimeoutSignal;

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// First of all.
    Hello {
        /// [`super::WIRE_VERSION`].
        version: u32,
    },
    /// Run a job, some time. Answered by `Queued` or `Refused`, later by `Grant` or `Go`.
    Submit {
        /// The client's own number for this request; names it in the answer.
        ticket: u64,
        /// What to run. Boxed, for it is many times as large as any other request.
        spec: Box<JobSpec>,
        /// The process, a child of the sender, that waits to become the job.
        pid: Option<u32>,
    },
    /// Make a job of processes that run already. Answered by `Adopted`.
    Adopt {
        /// Which.
        which: Adoptee,
        /// The job; its name and its command are theirs where it says none. Boxed as in `Submit`.
        spec: Box<JobSpec>,
        /// They stay in the groups that a workload manager made; if a job of theirs by the external name of `spec` runs
        /// or waits already, they become part of it.
        #[serde(default)]
        in_place: bool,
    },
    /// Wait until a job that was adopted has started. Answered by `Begun`.
    Begin {
        /// The job.
        job: u64,
    },
    /// Which jobs have these names in their workload managers. Answered by `Externals`.
    Externals {
        /// The names.
        names: Vec<ExternalName>,
    },
    /// What another keeper would need in the sender's place. Not answered.
    Keep {
        /// The job; of an array, any of its members, for all of them.
        job: u64,
        /// That. Boxed, for it is many times as large as any other request.
        start: Box<Start>,
    },
    /// Which jobs wait for a keeper: the sender's own, for root all. Answered by `Starts`.
    Starts,
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
        /// How it stands.
        phase: Phase,
    },
    /// After a daemon's restart: the sender has presented all that it keeps. What else waits in its name it does not
    /// know of, for the daemon before died when it was about to answer; that is struck off. Not answered.
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
        /// Why the checkpoint is not to be relied upon; `None`: it is.
        error: Option<String>,
    },
    /// The command could not be started, or nobody wants it any more. Answered by `Recorded`.
    Withdraw {
        /// The job.
        job: u64,
        /// Why, in words.
        reason: String,
    },
    /// The terminal sent the job a signal; a frozen job must be thawed to hear it. Not answered.
    Interrupted {
        /// The job.
        job: u64,
    },
    /// `pinfold status`.
    Status {
        /// These jobs; none: all that are not over.
        jobs: Vec<u64>,
        /// Also those that are over, and other users' jobs where the sender may see them.
        all: bool,
        /// As it was then, in microseconds since the Unix epoch, from the store; as it is now.
        #[serde(default)]
        at_us: Option<u64>,
    },
    /// Which jobs are meant. Answered by `Members`.
    Members {
        /// As people name them.
        names: Vec<JobName>,
    },
    /// `pinfold why`.
    Why {
        /// The job.
        job: u64,
        /// As it stood then, in microseconds since the Unix epoch; as it stands now.
        #[serde(default)]
        at_us: Option<u64>,
    },
    /// `pinfold report`, `pinfold plot`.
    Report {
        /// Which jobs.
        select: Select,
        /// With the series of each.
        series: bool,
        /// With the processes of each.
        #[serde(default)]
        processes: bool,
        /// With the threads of each that runs.
        #[serde(default)]
        threads: bool,
        /// With the files of each.
        #[serde(default)]
        files: bool,
        /// Also other users' jobs; for operators.
        #[serde(default)]
        all: bool,
        /// Answered by any number of `Piece`, all of one moment, instead of by one `Report`, which is refused when it
        /// would be long.
        #[serde(default)]
        pieces: bool,
    },
    /// Which jobs of the sender's have these names. Answered by `Named`.
    Named {
        /// Each the name of a job or of an array.
        names: Vec<String>,
    },
    /// Which jobs of the sender's have these names, where several may have one. Answered by `AllNamed`.
    AllNamed {
        /// Each the name of jobs or of arrays, as the lines of a batch have one name.
        names: Vec<String>,
    },
    /// How long the sender's jobs with these commands usually ran. Answered by `Lengths`.
    Lengths {
        /// Each the words of one, as in [`JobSpec::command`].
        commands: Vec<Vec<String>>,
    },
    /// Where the daemon keeps its state. Answered by `Where`.
    Where,
    /// Which job the sending process is a part of. Everybody may ask, of itself alone: the process that opened the
    /// connection is meant, by the kernel's word. Answered by `Part`.
    Part,
    /// Who the sender is, signed for others to read. Answered by `Vouched`.
    Vouch {
        /// For whom.
        audience: String,
        /// For which request of theirs.
        request: String,
    },
    /// What classes of jobs held on other hosts, by a hub's word; for operators. Answered by `Done`.
    Learn {
        /// The table and its signature.
        signed: Signed,
    },
    /// `pinfold wait`: answered by `Report` when all are over.
    Wait {
        /// The jobs.
        jobs: Vec<u64>,
    },
    /// Change a job. Answered by `Done`.
    Control {
        /// The job.
        job: u64,
        /// What to do.
        verb: Verb,
    },
    /// Take some of a running job's memory away, once, as far as the kernel can, and tell what it holds. Answered by
    /// `Squeezed`.
    Squeeze {
        /// The job.
        job: u64,
        /// How many bytes, at most one in a hundred of what it holds; 0: only tell.
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
        /// Write it to the daemon's own file; else only give the text.
        write: bool,
        /// The text of the file that is to be kept up with, comments and all, when it is not the daemon's own.
        text: Option<String>,
    },
    /// Who changed what. Answered by `Audit`.
    Audit {
        /// Recompute the chain from the first record on.
        verify: bool,
    },
    /// Start nothing new (`on`), or again. Answered by `Done`.
    Drain {
        /// Which.
        on: bool,
    },
    /// Set cores aside. Answered by `SetMade`.
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
        /// And up to then; `None`: all that came later.
        until_us: Option<u64>,
        /// Each as it was read, as many as one answer holds, the oldest: the next are asked for from behind the
        /// last. Otherwise, of many, several are put together as one.
        each: bool,
    },
    /// Change the live configuration, all or nothing. Answered by `Config`.
    ConfigSet {
        /// Keys and values, as `KEY=VALUE`.
        changes: Vec<String>,
    },
}

impl Request {
    /// Whether a keeper of an older version ([`super::WIRE_VERSION_OLDEST`]) may say this.
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

/// Which cores are set aside, and for whom.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SetAside {
    /// Its name; `None`: cores that no job is on now, under a name that the daemon makes.
    pub name: Option<String>,
    /// Its PUs, as a kernel list.
    pub cpus: Option<String>,
    /// Or how many cores, close together.
    pub cores: Option<u32>,
    /// Memory in bytes that other jobs leave free for those in it.
    pub memory_bytes: Option<u64>,
    /// Other jobs may be on its cores as well.
    pub shared: bool,
    /// No job may be on its cores.
    pub housekeeping: bool,
    /// Who may use it; nobody named: everybody, of idle cores their user alone.
    pub users: Vec<String>,
    /// How long idle cores stay without a job, in microseconds.
    pub hold_us: Option<u64>,
}

/// Processes that are to become a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adoptee {
    /// This one, and whatever descends from it.
    Process(u32),
    /// Those in this control group and below it, and whatever descends from them.
    Group(String),
}

/// How a job stands when its keeper presents it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It waits; its process, if it has one already.
    Waiting {
        /// A child of the sender.
        pid: Option<u32>,
    },
    /// It runs.
    Running {
        /// A child of the sender.
        pid: u32,
    },
    /// Its command ended meanwhile.
    Ended {
        /// How.
        ending: Ending,
        /// Which of the job's runs that was, as `Go` said; `None`: it did not.
        #[serde(default)]
        run: Option<u32>,
    },
}

/// Which jobs a report is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Select {
    /// These.
    Jobs(Vec<u64>),
    /// The last so many of the sender's.
    Last(u32),
    /// The sender's that were asked for since then, in microseconds since the Unix epoch.
    Since(u64),
}

/// What can be done to a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Freeze it.
    Suspend,
    /// Thaw it.
    Resume,
    /// Keep it from starting.
    Hold,
    /// Let it start.
    Release,
    /// End it, by this signal.
    Cancel {
        /// The signal's number.
        signal: i32,
    },
    /// End it and put it back in the queue, from which it runs again from its beginning.
    Requeue,
    /// Change its priority.
    Priority(u8),
    /// Change what it is expected to need, in bytes.
    Memory(u64),
    /// Change the class that it asks for: a primary or a backfiller; `None`: whichever is free first.
    Class(Option<JobClass>),
    /// Change how long it may run, in microseconds without frozen time; `None`: as long as it likes.
    Timeout(Option<u64>),
    /// Change which signal it gets before that; `None`: none.
    TimeoutSignal(Option<TimeoutSignal>),
    /// Change how much CPU time it may use, in microseconds; `None`: as much as it likes.
    CpuLimit(Option<u64>),
    /// Change before when it does not start, in microseconds since the Unix epoch; `None`: it may at once.
    Begin(Option<u64>),
    /// Change what is remarked about it; an empty text removes it.
    Comment(String),
}
