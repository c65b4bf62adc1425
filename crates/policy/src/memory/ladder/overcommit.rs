//! What follows from overcommitted starts: whether any runs, and what becomes of its class when memory runs short after
//! all. Absent: whether a job may start so ([`crate::memory::oracle`]).

use crate::api::{JobId, MemoryReason, Reason};
use crate::cores::sets;
use crate::jobs::Job;
use crate::memory::room::rest_kind;
use crate::memory::{forecast, oracle};
use crate::rooms::Rooms;

/// A job is to start now, before anybody gives way to it: notes whether that is early, and says so.
pub(crate) fn note_overcommit(rooms: &mut Rooms, id: JobId) -> Option<Reason> {
    let usable = rooms.memory.usable.filter(|_| oracle::is_governed(rooms))?;
    let job = rooms.jobs.get(&id).filter(|job| job.live().is_none() && !sets::nobody_runs(&rooms.cores))?;
    let (wanted, free) = oracle::room_for(rooms, job, usable);
    let early = wanted > free && oracle::may_overcommit(rooms, job, wanted, usable);
    rooms.jobs.set_overcommitted(id, early);
    rooms.memory.stretched |= early;
    early.then(|| Reason::Memory(MemoryReason::Overcommitted { wanted, lacking: wanted - free }))
}

/// Memory was read: whether any runs that started early; none does once all fit.
pub(crate) fn watch_overcommit(rooms: &mut Rooms, usable: u64) {
    if !rooms.memory.stretched {
        return;
    }
    let early: Vec<JobId> = rooms.jobs.running().filter(|job| job.held.early).map(Job::id).collect();
    // Also of one that gets on without a part: it may come to hold more before that is moved out.
    let comes = |job: &Job| {
        let usual = forecast::claim_of(rooms, job).map_or(0, |claim| claim.usual_bytes);
        forecast::counts_for(rooms, job).max(usual)
    };
    let running = rooms.jobs.running().map(comes);
    let all = running.chain(rooms.jobs.suspended().map(|job| job.held.resident)).fold(0, u64::saturating_add);
    rooms.memory.stretched = !early.is_empty() && all > usable;
    if all <= usable {
        for id in early {
            rooms.jobs.set_overcommitted(id, false);
        }
    }
}

/// A job stands still for memory: if it started early, its like do not for a while.
pub(crate) fn overcommit_failed(rooms: &mut Rooms, id: JobId) {
    let Some(job) = rooms.jobs.get(&id).filter(|job| job.held.early) else { return };
    let kind = job.request.kind;
    rooms.jobs.set_overcommitted(id, false);
    let Some(kind) = kind else { return };
    rest_kind(&mut rooms.memory.early, kind, rooms.now);
}
