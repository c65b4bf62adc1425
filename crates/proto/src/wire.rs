//! Requests, replies, and the frames they travel in: four bytes of length, little endian, then one JSON value.
//!
//! A connection begins with [`Request::Hello`], answered by [`Reply::Welcome`] or [`Reply::Error`]; a client need not
//! wait for that before it says more. After that a *command* connection sends one request at a time and gets one reply each. A *keeper's* connection
//! submits jobs and is told of each as things happen; replies then name the job, in no fixed order.

use serde::{Deserialize, Serialize};

use crate::array::JobName;
use crate::exit::ExitCode;
use crate::external::ExternalName;
use crate::host::HostView;
use crate::job::{Ending, JobSpec};
use crate::start::{Start, StartOf};
use crate::terms::{End, TimeoutSignal};
use crate::view::{DoctorView, MapView, PointView, ReportView, SetsView, StatusView, WhyView};
use crate::voucher::Voucher;

mod frame;

pub use frame::{Decoder, FrameError, encode, json_bytes};

/// The version of the wire. A daemon refuses a client of another version with words that say which is older.
pub const WIRE_VERSION: u32 = 17;

/// The oldest version of which a daemon still hears keepers, so that jobs outlive an upgrade: what a keeper says of jobs
/// that it has ([`Request::is_of_an_older_keeper`]) has had one form since then. Everything else is refused it, as another
/// version is; so its jobs end and start, and new ones are for commands of the daemon's version.
pub const WIRE_VERSION_OLDEST: u32 = 14;

/// The longest frame a daemon reads, in bytes. A client that announces more is cut off.
pub const REQUEST_MAX_BYTES: usize = 256 * 1024;

/// The longest frame a client reads, in bytes.
pub const REPLY_MAX_BYTES: usize = 256 * 1024 * 1024;

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// First of all.
    Hello {
        /// [`WIRE_VERSION`].
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
    /// How long the sender's jobs with these commands usually ran. Answered by `Lengths`.
    Lengths {
        /// Each the words of one, as in [`JobSpec::command`].
        commands: Vec<Vec<String>>,
    },
    /// Where the daemon keeps its state. Answered by `Where`.
    Where,
    /// Who the sender is, signed for others to read. Answered by `Vouched`.
    Vouch {
        /// For whom.
        audience: String,
        /// For which request of theirs.
        request: String,
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
        /// Each as it was read, as many as one answer holds, the oldest: who wants the next asks again from behind the
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
    /// Whether a keeper of an older version ([`WIRE_VERSION_OLDEST`]) may say this.
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

/// The jobs that a name means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// Whether it is the name of an array as a whole.
    pub array: bool,
    /// The jobs, of an array in the order of their indexes; one that is not known is here all the same, unless it is
    /// named as a member.
    pub jobs: Vec<Member>,
}

/// A job that a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number.
    pub job: u64,
    /// Its index, if it is a member of an array.
    pub index: Option<u32>,
    /// Whether it is over.
    pub over: bool,
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
    /// Change its priority.
    Priority(u8),
    /// Change what it is expected to need, in bytes.
    Memory(u64),
    /// Change how long it may run, in microseconds without frozen time; `None`: as long as it likes.
    Timeout(Option<u64>),
    /// Change which signal it gets before that; `None`: none.
    TimeoutSignal(Option<TimeoutSignal>),
    /// Change before when it does not start, in microseconds since the Unix epoch; `None`: it may at once.
    Begin(Option<u64>),
    /// Change what is remarked about it; an empty text removes it.
    Comment(String),
}

/// What the daemon answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To `Hello`.
    Welcome {
        /// The daemon's [`WIRE_VERSION`].
        version: u32,
        /// `v2`, `hybrid` or `rootless`.
        mode: String,
        /// Slots there are.
        slots: u64,
        /// Whether starts come with doors, so that no process need be made before its start.
        doors: bool,
        /// The daemon's instance, as its jobs have it in `PINFOLD_INSTANCE`.
        instance: String,
        /// The directory that it keeps its state in.
        #[serde(default)]
        state: String,
        /// What the user should know before anything else.
        warnings: Vec<String>,
        /// The PUs that jobs may use, as a kernel list.
        #[serde(default)]
        cpus: String,
    },
    /// The job is accepted and waits.
    Queued {
        /// The client's number for the request.
        ticket: u64,
        /// The job's number.
        job: u64,
    },
    /// To `Adopt`: the job waits, or has begun.
    Adopted {
        /// Its number.
        job: u64,
        /// How many processes it is made of.
        processes: u64,
    },
    /// To `Begin`: the job has started.
    Begun {
        /// The job.
        job: u64,
        /// Variables for the environment of its processes.
        variables: Vec<(String, String)>,
    },
    /// To `Externals`: the job that each name means.
    Externals(Vec<u64>),
    /// The job may start: make its process and name it by `Child`.
    Grant {
        /// The job.
        job: u64,
    },
    /// The job's process is in its container: let it go on to the command. With doors, files that come along with
    /// this message, there need be no process yet: make one, let it go through them, and name it by `Child`.
    Go {
        /// The job.
        job: u64,
        /// How many doors come along.
        #[serde(default)]
        doors: u32,
        /// Variables for its environment: its number, its PUs.
        variables: Vec<(String, String)>,
        /// The site's programs that the command is wrapped in, the outermost first.
        #[serde(default)]
        wrap: Vec<String>,
    },
    /// Run the job's checkpoint command; answered by `Checkpointed`.
    Checkpoint {
        /// The job.
        job: u64,
        /// Variables for its environment: the job's number, its processes.
        variables: Vec<(String, String)>,
    },
    /// A submission is refused.
    Refused {
        /// The client's number for the request.
        ticket: u64,
        /// The job's number, where it got one.
        job: Option<u64>,
        /// Why.
        reason: String,
        /// The exit code that says so.
        code: ErrorCode,
    },
    /// A waiting job was struck off.
    Struck {
        /// The job.
        job: u64,
        /// Why.
        reason: String,
        /// The exit code that says so.
        code: ErrorCode,
    },
    /// To `Attach`: known again; nothing to do but go on.
    Attached {
        /// The job.
        job: u64,
    },
    /// To `Attach`: no such job is known (another state directory, a damaged store).
    Unknown {
        /// The job.
        job: u64,
    },
    /// To `Ended`: the job was ended for others and waits again; what comes of it is told as of any that waits.
    Again {
        /// The job.
        job: u64,
        /// Why, in words.
        reason: String,
    },
    /// The end of a job is on disk. Its figures so far, for the batch's summary.
    Recorded {
        /// The job.
        job: u64,
        /// How long it was frozen, in microseconds.
        suspended_us: u64,
        /// The most anonymous and shared memory it held at once, in bytes.
        memory_peak_bytes: u64,
        /// What ended it, where its exit status does not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<End>,
    },
    /// To `Status`.
    Status(StatusView),
    /// To `Members`: for each name the jobs that are meant.
    Members(Vec<Members>),
    /// To `Named`: for each name the job that is meant; an array by its number.
    Named(Vec<u64>),
    /// To `Why`.
    Why(WhyView),
    /// To `Report` and `Wait`.
    Report(Vec<ReportView>),
    /// To `Report` in pieces.
    Piece(Piece),
    /// To `Starts`.
    Starts(Vec<StartOf>),
    /// To `Lengths`: one for each command, in microseconds; `None`: no such one ended well.
    Lengths(Vec<Option<u64>>),
    /// To `Host`.
    Host(HostView),
    /// To `Where`.
    Where {
        /// The state directory.
        state: String,
    },
    /// To `Vouch`.
    Vouched(Voucher),
    /// To `Doctor`.
    Doctor(DoctorView),
    /// To `Map`.
    Map(MapView),
    /// To `SetAside`.
    SetMade {
        /// The set's name; `None`: not so many cores are idle.
        name: Option<String>,
    },
    /// To `Sets`.
    Sets(SetsView),
    /// To `ConfigSave`: the file's text, and where it was written.
    Saved {
        /// The text.
        text: String,
        /// The file, when it was written.
        path: Option<String>,
    },
    /// To `Audit`.
    Audit(crate::view::AuditView),
    /// To `ConfigGet` and `ConfigSet`: every key with its value and where the value came from.
    Config(Vec<ConfigValue>),
    /// To `Control`.
    Done,
    /// To `Control` as well, where there is something to tell: nothing had to be done, or not what the word says.
    Noted {
        /// What is so now, and what would change it.
        note: String,
    },
    /// To any request that could not be met.
    Error {
        /// The exit code that says so.
        code: ErrorCode,
        /// What is wrong, and the way out.
        message: String,
    },
}

/// A part of a long answer. The client has it all with the last one; an `Error` in its place says why not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// Some jobs, by number. Where series are asked for it is one, whose series follows.
    Jobs(Vec<ReportView>),
    /// The next points of the last job.
    Points(Vec<PointView>),
    /// That was all.
    Last,
}

/// A configuration key as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigValue {
    /// The key, `slots.factor`.
    pub key: String,
    /// Its value, as TOML.
    pub value: String,
    /// `default`, `file`, `flag` or `set`.
    pub origin: String,
}

/// The exit codes that a daemon's refusal can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// [`ExitCode::Failed`].
    Failed,
    /// [`ExitCode::Usage`].
    Usage,
    /// [`ExitCode::Permission`].
    Permission,
    /// [`ExitCode::Refused`].
    Refused,
    /// [`ExitCode::Refused`] as well: the queue is full just now; a batch tries again.
    QueueFull,
}

impl From<ErrorCode> for ExitCode {
    fn from(code: ErrorCode) -> Self {
        match code {
            ErrorCode::Failed => Self::Failed,
            ErrorCode::Usage => Self::Usage,
            ErrorCode::Permission => Self::Permission,
            ErrorCode::Refused | ErrorCode::QueueFull => Self::Refused,
        }
    }
}
