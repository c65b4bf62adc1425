//! A running job has another priority, or asks for another class: it takes the home cores that a new job of that
//! priority would take, and gives its own to those that go before it now.
//!
//! Slots need nothing here: the pass looks at them after every event, by the priorities of then. Absent: jobs that wish
//! certain cores or asked for idle cycles, which take nobody's home when they start either.

use crate::api::{Class, CoreReason, JobId, Preemption, Reason, SlotReason};
use crate::cores::{assign, pick};
use crate::jobs::{Key, Promotable};
use crate::rooms::Rooms;
use crate::schedule::plan;

/// Has homes change hands, after the priority of `id` changed.
pub(crate) fn priority_changed(rooms: &mut Rooms, id: JobId) {
    let takes = rooms.settings.schedule && rooms.settings.preemption != Preemption::Off;
    if !takes || rooms.cores.exclusive().is_some() {
        return;
    }
    take_homes(rooms, id, |_| true);
    for higher in pick::highest_first(&rooms.cores) {
        if take_homes(rooms, higher, |job| job == id) {
            rooms.pending.request_update(higher, Reason::Core(CoreReason::PromotedToFreeCore));
            return;
        }
    }
}

/// Has a job with a slot run as its class says, after the class that it asks for changed: a backfiller gives up its
/// home cores; a primary takes those that a new job of its priority would take, and waits for some in its slot if there
/// are none.
pub(crate) fn class_changed(rooms: &mut Rooms, id: JobId) {
    let Some(job) = rooms.jobs.get(&id) else { return };
    let (slots, wants_homes) = (job.slots(), job.request.class != Some(Class::Backfill));
    let key = job.live().filter(|live| live.aside.is_none()).and_then(|live| live.key);
    let Some(key) = key.filter(|key| key.class == Class::Backfill || !wants_homes) else { return };
    if key.class == Class::Exclusive {
        return;
    }
    // Also one that is a backfiller already: whether it may be promoted is kept with its slot.
    assign::release(&mut rooms.cores, &mut rooms.jobs, id);
    let cores = pick::pinning_for(&rooms.cores, &rooms.jobs, id, slots);
    assign::occupy(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, id, Class::Backfill, cores);
    rooms.pending.request_update(id, Reason::ASKED);
    if wants_homes {
        priority_changed(rooms, id);
    }
}

/// A backfiller becomes a primary if primaries of lower priority that `may` be demoted have the homes that it lacks;
/// says whether it did.
fn take_homes(rooms: &mut Rooms, id: JobId, may: impl Fn(JobId) -> bool) -> bool {
    let lacks = |key: &Key| {
        key.class == Class::Backfill
            && matches!(key.promotable, Some(Promotable::To(homes)) if homes > rooms.cores.grid().free_homes())
    };
    let key = rooms.jobs.live(id).filter(|live| live.aside.is_none()).and_then(|live| live.key);
    let Some(key) = key.filter(lacks) else { return false };
    let Some(demoted) = plan::to_demote(rooms, id, rooms.cores.grid().free_homes(), may) else {
        return false;
    };
    for &job in &demoted {
        assign::release(&mut rooms.cores, &mut rooms.jobs, job);
    }
    let homes = pick::homes_for(&rooms.cores, &rooms.jobs, id).expect("so many homes were given up");
    assign::release(&mut rooms.cores, &mut rooms.jobs, id);
    assign::occupy(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, id, Class::Primary, homes);
    for job in demoted {
        let cores = pick::pinning_for(&rooms.cores, &rooms.jobs, job, rooms.jobs[&job].slots());
        assign::occupy(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, job, Class::Backfill, cores);
        rooms
            .pending
            .request_update(job, Reason::Slot(SlotReason::Preempted { by: id, priority: key.priority }));
    }
    true
}
