//! A step of the ladder, as a rung says what is due. Absent: taking it (`relieve`).

use crate::api::{JobId, Reason, Unthrottled};

/// What is to be done against a shortage, or what is not needed any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A little of a running job is moved to swap, to see whether it refaults that.
    Probe { job: JobId, bytes: u64, reason: Reason },
    /// A part of a job is moved to swap.
    PageOut { job: JobId, bytes: u64, reason: Reason },
    /// A job may grow by so much in RAM, to this bound; by how much it grows in a second.
    Throttle { job: JobId, allowance: u64, bound: u64, growth: u64, reason: Reason },
    /// A throttled job may grow again.
    Unthrottle { job: JobId, why: Unthrottled },
    /// A job is frozen.
    Freeze { job: JobId },
    /// A job writes a checkpoint, to be ended then.
    Checkpoint { job: JobId, reason: Reason },
    /// No checkpoint is waited for any more.
    GiveUpCheckpoints,
    /// A job is ended, to begin anew; what others lack, in bytes.
    Requeue { job: JobId, lacking: u64 },
}
