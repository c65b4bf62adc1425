//! A step of the ladder, as a rung says what is due. Absent: taking it (`schedule::relieve`).

use crate::api::{JobId, Reason, Unthrottled};

/// What is to be done against a shortage, or what is not needed any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A little of a running job is moved to swap, to see whether it refaults that.
    Probe { job: JobId, bytes: u64, reason: Reason },
    /// A part of a job is moved to swap.
    PageOut { job: JobId, bytes: u64, reason: Reason },
    /// A job may grow by so much in RAM, to this bound; by how much it grows in a second.
    Throttle { job: JobId, allowance: u64, bound: u64, growth: u64, reason: Reason },
    /// A throttled job may grow again.
    Unthrottle { job: JobId, why: Unthrottled },
    /// The kernel takes so much of the token holder's memory last.
    Protect { job: JobId, bytes: u64 },
    /// A job is the token holder no more.
    Unprotect { job: JobId },
    /// A job is frozen.
    Freeze { job: JobId, reason: Reason },
    /// A job writes a checkpoint, to be ended then.
    Checkpoint { job: JobId, reason: Reason },
    /// A job's checkpoint is written: it is ended, to go on from there.
    Checkpointed { job: JobId },
    /// A job's checkpoint failed, or is given up.
    NotCheckpointed { job: JobId, error: String },
    /// A job's checkpoint is not needed any more.
    StopCheckpoint { job: JobId, reason: Reason },
    /// A job is ended, to begin anew; what others lack, in bytes.
    Requeue { job: JobId, lacking: u64 },
}
