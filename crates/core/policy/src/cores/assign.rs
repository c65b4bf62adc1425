//! A job gets its slots and cores, and loses them. The only place that changes both the job and the running set.

use crate::api::{Class, JobId, Settings};
use crate::cores::host::Host;
use crate::cores::{sets, slots};
use crate::jobs::{JobTable, Key, Promotable, Slots};

/// Gives a job its slots, in this class, on these cores. It must have none.
pub(crate) fn occupy(
    host: &mut Host,
    jobs: &mut JobTable,
    settings: &Settings,
    id: JobId,
    class: Class,
    cores: Vec<usize>,
) {
    let Some(job) = jobs.get(&id) else { return };
    let aside = sets::reservation_of(host, job);
    let class = if aside.is_some() { Class::Primary } else { class };
    let slots = if aside.is_some() { 0 } else { slots::clipped(host, settings, job) };
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
            let reservation = &mut host.reservations[at];
            reservation.cores.take_homes(id, &cores);
            reservation.cores.lie(&cores, shape);
            reservation.holders.push(id);
        }
        (None, Class::Primary) => {
            host.grid.take_homes(id, &cores);
            host.grid.lie(&cores, shape);
        }
        (None, Class::Backfill) => host.grid.pin(&cores),
        (None, Class::Exclusive) => host.exclusive = Some(id),
    }
    jobs.occupy(id, Slots { key, cores, count: slots, aside });
    if aside.is_none() {
        host.running.insert(&key);
    }
    host.touch();
    host.used += slots;
}

/// A job lends its slots to nested jobs, or has them back.
pub(crate) fn set_lent(host: &mut Host, jobs: &mut JobTable, settings: &Settings, id: JobId, lends: bool) {
    if lends {
        host.lent.insert(id)
    } else {
        host.lent.remove(&id)
    };
    let Some(slots) = jobs.get(&id).map(|job| slots::clipped(host, settings, job)) else { return };
    if let Some(held) = jobs.set_slots(id, slots) {
        host.used = host.used + slots - held;
    }
}

/// Takes a job's slots and cores away, if it has any.
pub(crate) fn release(host: &mut Host, jobs: &mut JobTable, id: JobId) {
    host.touch();
    let Some(Slots { key, cores, count, aside }) = jobs.release(id) else { return };
    if let Some(at) = aside {
        host.reservations[at].cores.leave_homes(id, &cores);
        host.reservations[at].holders.retain(|&holder| holder != id);
        return;
    }
    match key.class {
        Class::Primary => host.grid.leave_homes(id, &cores),
        Class::Backfill => host.grid.unpin(&cores),
        Class::Exclusive => host.exclusive = None,
    }
    host.running.remove(&key);
    host.used -= count;
}
