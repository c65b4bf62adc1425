//! Carries out what rooms want to become of jobs: the one place where a change of a job reaches all rooms that it
//! concerns.

use crate::api::{JobId, Reason};
use crate::cores::assign;
use crate::jobs::{SuspendReason, Transition};
use crate::rooms::Rooms;
use crate::schedule::enqueue::{enqueue, reenqueue};

/// Carries these out, in their order.
pub(crate) fn apply(rooms: &mut Rooms, transitions: impl IntoIterator<Item = Transition>) {
    for transition in transitions {
        match transition {
            Transition::Update { job, reason } => rooms.pending.request_update(job, reason),
            Transition::Reenqueue { job } => reenqueue(rooms, job),
            Transition::EndRest { job } => {
                rooms.jobs.end_rest(job);
                enqueue(rooms, job);
            }
            Transition::Suspend { job, why, reason } => suspend_and_release(rooms, job, why, reason),
        }
    }
}

/// Takes a job's slot and freezes it; unless a user did so, it stands in the queue to return.
pub(crate) fn suspend_and_release(rooms: &mut Rooms, id: JobId, why: SuspendReason, reason: Reason) {
    assign::release(&mut rooms.cores, &mut rooms.jobs, id);
    if !rooms.jobs.contains_key(&id) {
        return;
    }
    assign::set_lent(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, id, false);
    rooms.jobs.freeze(id, why, rooms.now);
    enqueue(rooms, id);
    rooms.pending.request_update(id, reason);
}
