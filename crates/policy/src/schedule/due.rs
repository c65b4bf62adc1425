//! What is due by the time: a job ages, expires, is tried again, or has had its grace after a signal.

use crate::api::{AgainReason, JobId, QueueReason, Reason, SlotReason};
use crate::cores::{assign, slots};
use crate::jobs::Fired;
use crate::queue::{ageing, line};
use crate::rooms::Rooms;
use crate::schedule::end;

pub(crate) fn fire_timers(rooms: &mut Rooms) {
    while let Some(id) = rooms.jobs.pop_due(rooms.now) {
        if rooms.jobs.contains_key(&id) {
            due(rooms, id);
        }
    }
}

/// Deals with all that is due for a job, and sets its timer again.
fn due(rooms: &mut Rooms, id: JobId) {
    let now = rooms.now;
    let Some(job) = rooms.jobs.get(&id) else { return };
    if let Some((at, ttl)) = ageing::expires_at(rooms, job)
        && at <= now
    {
        return end::drop_waiting(rooms, id, true, Reason::Queue(QueueReason::Expired { ttl }));
    }
    let aged = job.aged || ageing::ages_at(rooms, job).is_some_and(|at| at <= now);
    let slots = slots::total(rooms);
    let Fired { requeue, retry, survived } = rooms.jobs.fire(id, now, aged);
    let mut reason = retry.map(|error| Reason::Again(AgainReason::Retry { error }));
    if survived {
        reason = Some(Reason::Slot(SlotReason::SlotsShrank { slots }));
        assign::survive(rooms, id);
    }
    if let Some(reason) = reason {
        rooms.pending.request_due(id, reason);
    }
    if requeue {
        line::dequeue(rooms, id);
        line::enqueue(rooms, id);
    } else {
        line::rearm(rooms, id);
    }
}
