//! Which running jobs give way to an exclusive one.

use crate::api::{Class, JobId};
use crate::rooms::Rooms;
use crate::shares::core_pool;

/// Whether a running job may be frozen for the exclusive job `by`: a lower one, a backfiller of the same priority
/// unless it is the foremost, and a best-effort job of any priority.
pub(crate) fn gives_way(rooms: &Rooms, job: JobId, by: JobId) -> bool {
    let (theirs, ours) = (rooms.jobs[&job].request.priority, rooms.jobs[&by].request.priority);
    let backfiller = rooms.jobs.live(job).is_some_and(|live| live.class == Class::Backfill);
    let lower =
        theirs < ours || (theirs == ours && backfiller && rooms.cores.running().foremost() != Some(job));
    let gives_way = rooms.jobs.is_best_effort(job) || (lower && !rooms.jobs[&job].aged);
    gives_way && !core_pool::is_guaranteed_beside(rooms, job, by) && rooms.jobs.may_freeze(job)
}
