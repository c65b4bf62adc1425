//! The daemon's answers, and its unrequested messages to keepers.

use serde::{Deserialize, Serialize};

use crate::exit::ExitCode;
use crate::host::HostView;
use crate::start::StartOf;
use crate::terms::End;
use crate::view::{AuditView, DoctorView, MapView, PointView, ReportView, SetsView, StatusView, WhyView};
use crate::voucher::Voucher;

/// An answer of the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To `Hello`.
    Welcome {
        /// The daemon's [`super::WIRE_VERSION`].
        version: u32,
        /// `v2`, `hybrid` or `rootless`.
        mode: String,
        /// Number of slots.
        slots: u64,
        /// Whether a start passes door files, so that no process is needed before it.
        doors: bool,
        /// The daemon's instance, as in the `PINFOLD_INSTANCE` of its jobs.
        instance: String,
        /// Its state directory.
        #[serde(default)]
        state: String,
        /// Warnings that the user should see first.
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
        /// Number of its processes.
        processes: u64,
    },
    /// To `Begin`: the job has started.
    Begun {
        /// The job.
        job: u64,
        /// Variables for the environment of its processes.
        variables: Vec<(String, String)>,
    },
    /// To `Externals`: the job of each name.
    Externals(Vec<u64>),
    /// The job may start: make its process and name it by `Child`.
    Grant {
        /// The job.
        job: u64,
    },
    /// The job's process is in its container: let it proceed to the command. With doors (files passed along with this
    /// message) the process need not exist yet: make it, let it enter the doors, and name it by `Child`.
    Go {
        /// The job.
        job: u64,
        /// How many doors come along.
        #[serde(default)]
        doors: u32,
        /// Environment variables: its number, its PUs.
        variables: Vec<(String, String)>,
        /// The site's programs around the command, the outermost first.
        #[serde(default)]
        wrap: Vec<String>,
        /// The number of this run: earlier ends for a requeue. `None`: the daemon does not say.
        #[serde(default)]
        run: Option<u32>,
    },
    /// Run the job's checkpoint command; answered by `Checkpointed`.
    Checkpoint {
        /// The job.
        job: u64,
        /// Environment variables: the job's number, its processes.
        variables: Vec<(String, String)>,
    },
    /// A submission is refused.
    Refused {
        /// The client's number for the request.
        ticket: u64,
        /// The job's number, if assigned.
        job: Option<u64>,
        /// Why.
        reason: String,
        /// The exit code.
        code: ErrorCode,
    },
    /// A waiting job was struck off.
    Struck {
        /// The job.
        job: u64,
        /// Why.
        reason: String,
        /// The exit code.
        code: ErrorCode,
    },
    /// To `Attach`: recognized; the keeper continues.
    Attached {
        /// The job.
        job: u64,
    },
    /// To `Attach`: the job is unknown (another state directory, a damaged store).
    Unknown {
        /// The job.
        job: u64,
    },
    /// To `Ended`: the job was ended for other jobs and waits again; later messages are as for any waiting job.
    Again {
        /// The job.
        job: u64,
        /// Why, in words.
        reason: String,
    },
    /// The end of a job is on disk. Its figures are for the batch's summary.
    Recorded {
        /// The job.
        job: u64,
        /// Frozen time, in microseconds.
        suspended_us: u64,
        /// Peak of its anonymous and shared memory, in bytes.
        memory_peak_bytes: u64,
        /// The limit that ended it, where its exit status does not show it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<End>,
        /// The job was cancelled while its command ran. Keepers of earlier versions do not know that value of `end`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cancelled: bool,
    },
    /// To `Status`.
    Status(StatusView),
    /// To `Members`: for each name the matching jobs.
    Members(Vec<Members>),
    /// To `Named`: for each name the matching job; an array by its number.
    Named(Vec<u64>),
    /// To `AllNamed`: for each name the matching jobs, at least one; arrays by their numbers. Of further ended jobs,
    /// as many as show their common ending.
    AllNamed(Vec<Vec<u64>>),
    /// To `Why`.
    Why(WhyView),
    /// To `Report` and `Wait`.
    Report(Vec<ReportView>),
    /// To `Report` in pieces.
    Piece(Piece),
    /// To `Starts` and `StartOf`.
    Starts(Vec<StartOf>),
    /// To `Lengths`: a duration for each command, in microseconds; `None`: no such job ended well.
    Lengths(Vec<Option<u64>>),
    /// To `Host`.
    Host(HostView),
    /// To `Where`.
    Where {
        /// The state directory.
        state: String,
        /// Jobs with outdated rows in the store, mostly for lack of disk space.
        #[serde(default)]
        unwritten: u64,
    },
    /// To `Part`.
    Part {
        /// The job; `None`: the process belongs to no job of this daemon.
        job: Option<u64>,
    },
    /// To `Vouch`.
    Vouched(Voucher),
    /// To `Squeeze`: the job just before.
    Squeezed {
        /// Whether its processes are stopped, so that no refault occurs.
        frozen: bool,
        /// Its memory in RAM, including page cache, in bytes.
        ram_bytes: u64,
        /// In swap, in bytes.
        swap_bytes: u64,
        /// How long some of its threads waited for memory since its start, in microseconds; `None`: not accounted by
        /// the kernel.
        stalled_us: Option<u64>,
        /// Refaulted pages since its start.
        returned_pages: u64,
    },
    /// To `Doctor`.
    Doctor(DoctorView),
    /// To `Map`.
    Map(MapView),
    /// To `SetAside`.
    SetMade {
        /// The set's name; `None`: too few idle cores.
        name: Option<String>,
        /// Why so many cores are impossible, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        never: Option<String>,
    },
    /// To `Sets`.
    Sets(SetsView),
    /// To `ConfigSave`: the file's text and path.
    Saved {
        /// The text.
        text: String,
        /// The file, if written.
        path: Option<String>,
    },
    /// To `Audit`.
    Audit(AuditView),
    /// To `ConfigGet` and `ConfigSet`: every key with its value and origin.
    Config(Vec<ConfigValue>),
    /// To `Control`.
    Done,
    /// To `Control`, with a remark: the job was already in that state, or the effect differs from the verb.
    Noted {
        /// The present state, and how to change it.
        note: String,
    },
    /// To any request that failed.
    Error {
        /// The exit code.
        code: ErrorCode,
        /// The fault, and the way out.
        message: String,
    },
}

/// The jobs that match a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// Whether the name is that of a whole array.
    pub array: bool,
    /// The jobs, of an array in the order of their indexes; an unknown job is listed too, unless named as a member.
    pub jobs: Vec<Member>,
}

/// A job that matches a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number.
    pub job: u64,
    /// Its index in an array, if any.
    pub index: Option<u32>,
    /// Whether the job has ended.
    pub over: bool,
}

/// A part of a long answer. The answer is complete with `Last`; an `Error` in its place gives the cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// Some jobs, by number. With series, a single job, followed by its series.
    Jobs(Vec<ReportView>),
    /// The next points of the last job.
    Points(Vec<PointView>),
    /// The end of the answer.
    Last,
}

/// A configuration key with its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigValue {
    /// The key, `slots.factor`.
    pub key: String,
    /// Its value, as TOML.
    pub value: String,
    /// `default`, `file`, `flag` or `set`.
    pub origin: String,
}

/// The exit codes of a daemon's refusal.
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
