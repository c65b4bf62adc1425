//! A job gets its slots and cores, and loses them. The only place that changes both the job and the running set.

use crate::api::{Class, JobId, Reason};
use crate::cores::{sets, slots};
use crate::jobs::{Key, Promotable, Slots, SuspendReason};
use crate::queue::line;
use crate::rooms::Rooms;

/// Who has a slot, or where, changed: what follows from that is to be looked at again.
pub(crate) fn running_changed(rooms: &mut Rooms) {
    rooms.nodes.touch();
    rooms.cores.evenness.touch();
}

/// Gives a job its slots, in this class, on these cores. It must have none.
pub(crate) fn occupy(rooms: &mut Rooms, id: JobId, class: Class, cores: Vec<usize>) {
    let Some(job) = rooms.jobs.get(&id) else { return };
    let aside = sets::reservation_of(rooms, job);
    let class = if aside.is_some() { Class::Primary } else { class };
    let slots = if aside.is_some() { 0 } else { slots::clipped(rooms, job) };
    let (priority, shape) = (job.request.priority, job.shape());
    let promotable = match job.request.class {
        Some(Class::Backfill) => None,
        _ if job.request.wish.is_some() => Some(Promotable::ToWished),
        _ => Some(Promotable::To(job.slots())),
    };
    let Some(live) = job.live() else { return };
    debug_assert!(live.key.is_none(), "job {id} has its slots already");
    let key = Key { priority, started: live.started, job: id, class, promotable };
    match (aside, class) {
        (Some(at), _) => {
            rooms.cores.reservations[at].cores.take_homes(id, &cores);
            rooms.cores.reservations[at].cores.lie(&cores, shape);
            rooms.cores.reservations[at].holders.push(id);
        }
        (None, Class::Primary) => {
            rooms.cores.grid.take_homes(id, &cores);
            rooms.cores.grid.lie(&cores, shape);
        }
        (None, Class::Backfill) => rooms.cores.grid.pin(&cores),
        (None, Class::Exclusive) => rooms.cores.exclusive = Some(id),
    }
    rooms.jobs.occupy(id, Slots { key, cores, count: slots, aside });
    if aside.is_none() {
        rooms.cores.running.insert(&key);
    }
    running_changed(rooms);
    rooms.cores.used += slots;
}

/// Takes a job's slots and cores away, if it has any.
pub(crate) fn release(rooms: &mut Rooms, id: JobId) {
    running_changed(rooms);
    let Some(Slots { key, cores, count, aside }) = rooms.jobs.release(id) else { return };
    if let Some(at) = aside {
        rooms.cores.reservations[at].cores.leave_homes(id, &cores);
        rooms.cores.reservations[at].holders.retain(|&holder| holder != id);
        return;
    }
    match key.class {
        Class::Primary => rooms.cores.grid.leave_homes(id, &cores),
        Class::Backfill => rooms.cores.grid.unpin(&cores),
        Class::Exclusive => rooms.cores.exclusive = None,
    }
    rooms.cores.running.remove(&key);
    rooms.cores.used -= count;
}

/// Takes a job's slot and freezes it; unless a user did so, it stands in the queue to return.
pub(crate) fn suspend_and_release(rooms: &mut Rooms, id: JobId, out: SuspendReason, reason: Reason) {
    let now = rooms.now;
    release(rooms, id);
    if !rooms.jobs.contains_key(&id) {
        return;
    }
    rooms.jobs.freeze(id, out, now);
    line::enqueue(rooms, id);
    rooms.pending.request_update(id, reason);
}

/// Thawed for a signal, a job went on regardless: it needs a slot, or has one too many if it may not be frozen.
pub(crate) fn survive(rooms: &mut Rooms, id: JobId) {
    let now = rooms.now;
    let Some(job) = rooms.jobs.get(&id) else { return };
    if job.request.no_suspend {
        occupy(rooms, id, Class::Backfill, Vec::new());
        return;
    }
    rooms.jobs.wait_from(id, now);
    line::enqueue(rooms, id);
}
