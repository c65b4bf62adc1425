//! Free homes are given to backfillers.

use crate::api::{AgainReason, Class, CoreReason, JobId, Reason};
use crate::cores::{assign, pick};
use crate::jobs::Live;
use crate::rooms::Rooms;

/// Gives free homes to backfillers, the oldest that fits first; before all those who do with few homes only.
pub(crate) fn promote(rooms: &mut Rooms) {
    while rooms.cores.exclusive().is_none() && rooms.cores.grid().free_homes() > 0 {
        let wishing =
            rooms.cores.running().wishing().find_map(|job| Some((job, pick::homes_for(rooms, job)?)));
        let any = || {
            let job = rooms.cores.running().oldest_promotable(rooms.cores.grid().free_homes())?;
            Some((job, pick::homes_for(rooms, job).expect("so many homes are free")))
        };
        let Some((job, homes)) = wishing.or_else(any) else { return };
        assign::release(rooms, job);
        assign::occupy(rooms, job, Class::Primary, homes);
        // One that lost its home by the same event, or should have had one, is not promoted but moved.
        let moved = |reason: &Reason| {
            matches!(reason, Reason::Core(CoreReason::CpusGone) | Reason::Again(AgainReason::Restored))
        };
        if !rooms.pending.marked().iter().any(|(marked, reason)| *marked == job && moved(reason)) {
            let reason = match rooms.pending.ended() {
                Some(after) => Reason::Core(CoreReason::Promoted { after }),
                None => Reason::Core(CoreReason::PromotedToFreeCore),
            };
            rooms.pending.request_update(job, reason);
        }
    }
}

/// Finds cores for backfillers that lost theirs; says whether there was any.
pub(crate) fn place_backfillers(rooms: &mut Rooms) -> bool {
    let mut placed = false;
    let marked: Vec<JobId> = rooms.pending.marked().iter().map(|&(job, _)| job).collect();
    for job in marked {
        let wanted = rooms.jobs[&job].slots().min(rooms.cores.grid().len());
        let misplaced =
            |live: &Live| live.key.is_some() && live.class == Class::Backfill && live.cores.len() != wanted;
        if rooms.jobs.live(job).is_some_and(misplaced) {
            assign::release(rooms, job);
            let cores = pick::pinning_for(rooms, job, wanted);
            assign::occupy(rooms, job, Class::Backfill, cores);
            placed = true;
        }
    }
    placed
}
