//! Which cores a running job would get as a primary and as a backfiller, and which jobs are best-effort.

use crate::api::{Class, JobId};
use crate::cores::host::Host;
use crate::jobs::{Job, JobTable};

/// The best-effort jobs with a slot, the lowest priority first, among equals the newest.
pub(crate) fn best_effort(host: &Host, jobs: &JobTable) -> Vec<JobId> {
    host.running.lowest_first().map(|(_, job)| job).filter(|&job| jobs.is_best_effort(job)).collect()
}

/// Whether best-effort jobs are suspended for a job that lacks a slot: it would be a primary, as it asked for, or as it
/// has no other wish and so many home cores are free.
pub(crate) fn comes_before_best_effort(host: &Host, jobs: &JobTable, job: JobId) -> bool {
    let Some(job) = jobs.get(&job) else { return false };
    let homes = |job: &Job| job.request.wish.is_none() && host.grid.free_homes() >= job.slots();
    match job.request.class {
        Some(Class::Primary) => true,
        None => homes(job),
        Some(Class::Backfill | Class::Exclusive) => false,
    }
}

/// Homes for a backfiller.
pub(crate) fn homes_for(host: &Host, jobs: &JobTable, id: JobId) -> Option<Vec<usize>> {
    // One that is suspended returns to where it was, if it can.
    let was = jobs.live(id).filter(|live| live.key.is_none()).and_then(|live| live.applied.cpus.as_ref());
    let own = match was {
        Some(cpus) => host.grid.touched_by(cpus),
        None => jobs.live(id).map(|live| live.cores.clone()).unwrap_or_default(),
    };
    let job = &jobs[&id];
    host.grid.choose_homes(job.slots(), &own, job.request.wish.as_deref(), job.shape())
}

/// Cores for a backfiller.
pub(crate) fn pinning_for(host: &Host, jobs: &JobTable, id: JobId, count: usize) -> Vec<usize> {
    let job = &jobs[&id];
    host.grid.choose_pinning(count, job.request.wish.as_deref(), job.shape())
}

/// The jobs with a slot of the host's, the highest priority first, among equals the oldest.
pub(crate) fn highest_first(host: &Host) -> Vec<JobId> {
    let mut all: Vec<JobId> = host.running.lowest_first().map(|(_, job)| job).collect();
    all.reverse();
    all
}
