//! What a room wants to become of a job, where that concerns other rooms too. `schedule::transition` carries it out.

use crate::api::{JobId, Reason};
use crate::jobs::phase::SuspendReason;

/// See the module's page.
#[derive(Debug)]
pub(crate) enum Transition {
    /// Something else may be wanted of it than was applied.
    Update {
        /// The job.
        job: JobId,
        /// Why.
        reason: Reason,
    },
    /// Its place in the queue may be another.
    Reenqueue {
        /// The job.
        job: JobId,
    },
    /// It need not rest any more for a primary's sake, and waits for a slot.
    EndRest {
        /// The job.
        job: JobId,
    },
    /// It loses its slot and is frozen.
    Suspend {
        /// The job.
        job: JobId,
        /// What for.
        why: SuspendReason,
        /// The reason of the decision.
        reason: Reason,
    },
}
