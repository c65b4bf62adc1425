//! Which cores a running job would get as a primary and as a backfiller, and which jobs are best-effort.

use crate::api::{Class, JobId, Reason};
use crate::cores::sets;
use crate::jobs::Job;
use crate::rooms::Rooms;

/// The best-effort jobs with a slot, the lowest priority first, among equals the newest.
pub(crate) fn best_effort(rooms: &Rooms) -> Vec<JobId> {
    rooms
        .cores
        .running
        .lowest_first()
        .map(|(_, job)| job)
        .filter(|&job| rooms.jobs.is_best_effort(job))
        .collect()
}

/// Whether best-effort jobs are suspended for a job that lacks a slot: it would be a primary, as it asked for, or as it
/// has no other wish and so many home cores are free.
pub(crate) fn comes_before_best_effort(rooms: &Rooms, job: JobId) -> bool {
    let Some(job) = rooms.jobs.get(&job) else { return false };
    let homes = |job: &Job| job.request.wish.is_none() && rooms.cores.grid.free_homes() >= job.slots();
    match job.request.class {
        Some(Class::Primary) => true,
        None => homes(job),
        Some(Class::Backfill | Class::Exclusive) => false,
    }
}

/// Homes for a backfiller.
pub(crate) fn homes_for(rooms: &Rooms, id: JobId) -> Option<Vec<usize>> {
    // One that stands still returns to where it was, if it can.
    let was =
        rooms.jobs.live(id).filter(|live| live.key.is_none()).and_then(|live| live.applied.cpus.as_ref());
    let own = match was {
        Some(cpus) => rooms.cores.grid.touched_by(cpus),
        None => rooms.jobs.live(id).map(|live| live.cores.clone()).unwrap_or_default(),
    };
    let job = &rooms.jobs[&id];
    rooms.cores.grid.choose_homes(job.slots(), &own, job.request.wish.as_deref(), job.shape())
}

/// Cores for a backfiller.
pub(crate) fn pinning_for(rooms: &Rooms, id: JobId, count: usize) -> Vec<usize> {
    let job = &rooms.jobs[&id];
    rooms.cores.grid.choose_pinning(count, job.request.wish.as_deref(), job.shape())
}

pub(crate) fn highest_first(rooms: &Rooms) -> Vec<JobId> {
    let mut all: Vec<JobId> = rooms.cores.running.lowest_first().map(|(_, job)| job).collect();
    all.reverse();
    all
}

pub(crate) fn update_running(rooms: &mut Rooms, reason: &Reason) {
    for job in highest_first(rooms).into_iter().chain(sets::in_reservations(rooms)) {
        rooms.pending.request_update(job, reason.clone());
    }
}
