//! What is due by the time: a job ages, expires, is tried again, or has had its grace after a signal.

use crate::api::{AgainReason, Class, JobId, QueueReason, Reason, SlotReason};
use crate::cores::{assign, slots};
use crate::jobs::Fired;
use crate::queue::{ageing, line};
use crate::rooms::Rooms;
use crate::schedule::{end, enqueue};

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
    if let Some((at, ttl)) = ageing::expires_at(&rooms.settings, job)
        && at <= now
    {
        return end::drop_waiting(rooms, id, true, Reason::Queue(QueueReason::Expired { ttl }));
    }
    let aged = job.aged || ageing::ages_at(rooms.queue.arrays(), job).is_some_and(|at| at <= now);
    let slots = slots::total(&rooms.cores, &rooms.settings);
    let Fired { requeue, retry, survived } = rooms.jobs.fire(id, now, aged);
    let mut reason = retry.map(|error| Reason::Again(AgainReason::Retry { error }));
    if survived {
        reason = Some(Reason::Slot(SlotReason::SlotsShrank { slots }));
        // It needs a slot, or has one too many if it may not be frozen.
        if rooms.jobs[&id].request.no_suspend {
            assign::occupy(
                &mut rooms.cores,
                &mut rooms.jobs,
                &rooms.settings,
                id,
                Class::Backfill,
                Vec::new(),
            );
        } else {
            rooms.jobs.wait_from(id, now);
            enqueue::enqueue(rooms, id);
        }
    }
    if let Some(reason) = reason {
        rooms.pending.request_due(id, reason);
    }
    if requeue {
        enqueue::reenqueue(rooms, id);
    } else {
        line::rearm(&mut rooms.jobs, &rooms.queue, &rooms.settings, id);
    }
}
