//! What the daemon answers, and what it says to keepers unasked.

use serde::{Deserialize, Serialize};

use crate::exit::ExitCode;
use crate::host::HostView;
use crate::start::StartOf;
use crate::terms::End;
use crate::view::{AuditView, DoctorView, MapView, PointView, ReportView, SetsView, StatusView, WhyView};
use crate::voucher::Voucher;

/// What the daemon answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To `Hello`.
    Welcome {
        /// The daemon's [`super::WIRE_VERSION`].
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
        /// Which of its runs this is: how often it was ended before, to be begun anew. `None`: the daemon does not say.
        #[serde(default)]
        run: Option<u32>,
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
        /// Which limit ended it, where its exit status does not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<End>,
        /// It was cancelled while its command ran. Keepers of earlier versions know no such word in `end`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cancelled: bool,
    },
    /// To `Status`.
    Status(StatusView),
    /// To `Members`: for each name the jobs that are meant.
    Members(Vec<Members>),
    /// To `Named`: for each name the job that is meant; an array by its number.
    Named(Vec<u64>),
    /// To `AllNamed`: for each name the jobs that are meant, at least one; arrays by their numbers. Of other jobs that are
    /// over there are as many as say how they ended together.
    AllNamed(Vec<Vec<u64>>),
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
        /// Jobs whose rows the store there does not have as they are, for want of room above all.
        #[serde(default)]
        unwritten: u64,
    },
    /// To `Part`.
    Part {
        /// The job; `None`: the process is part of none of this daemon's.
        job: Option<u64>,
    },
    /// To `Vouch`.
    Vouched(Voucher),
    /// To `Squeeze`: the job as it was just before.
    Squeezed {
        /// Whether its processes are stopped, so that it misses nothing.
        frozen: bool,
        /// What it holds in RAM, page cache included, in bytes.
        ram_bytes: u64,
        /// In swap, in bytes.
        swap_bytes: u64,
        /// For how long some of its threads waited for memory since its start, in microseconds; `None`: the kernel does
        /// not account it.
        stalled_us: Option<u64>,
        /// Pages that were taken from it and that it read back, since its start.
        returned_pages: u64,
    },
    /// To `Doctor`.
    Doctor(DoctorView),
    /// To `Map`.
    Map(MapView),
    /// To `SetAside`.
    SetMade {
        /// The set's name; `None`: not so many cores are idle.
        name: Option<String>,
        /// Why there can never be so many, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        never: Option<String>,
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
    Audit(AuditView),
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
