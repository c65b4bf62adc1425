//! Free homes are given to backfillers.

use crate::api::{AgainReason, Class, CoreReason, JobId, Reason, Settings};
use crate::apply::pending::Pending;
use crate::cores::host::Host;
use crate::cores::{assign, pick};
use crate::jobs::{JobTable, Live};
use crate::rooms::Rooms;

/// Gives free homes to backfillers, the oldest that fits first; before all those that do with few homes only.
pub(crate) fn promote(rooms: &mut Rooms) {
    let promoted = promote_all(&mut rooms.cores, &mut rooms.jobs, &rooms.settings);
    // One that lost its home by the same event, or should have had one, is not promoted but moved.
    let moved = |reason: &Reason| {
        matches!(reason, Reason::Core(CoreReason::CpusGone) | Reason::Again(AgainReason::Restored))
    };
    for job in promoted {
        if !rooms.pending.is_marked_for(job, moved) {
            let reason = match rooms.pending.ended() {
                Some(after) => CoreReason::Promoted { after },
                None => CoreReason::PromotedToFreeCore,
            };
            rooms.pending.request_update(job, Reason::Core(reason));
        }
    }
}

fn promote_all(host: &mut Host, jobs: &mut JobTable, settings: &Settings) -> Vec<JobId> {
    let mut promoted = Vec::new();
    while host.exclusive().is_none() && host.grid().free_homes() > 0 {
        let wishing = host.running().wishing().find_map(|job| Some((job, pick::homes_for(host, jobs, job)?)));
        let any = || {
            let job = host.running().oldest_promotable(host.grid().free_homes())?;
            Some((job, pick::homes_for(host, jobs, job).expect("so many homes are free")))
        };
        let Some((job, homes)) = wishing.or_else(any) else { break };
        assign::release(host, jobs, job);
        assign::occupy(host, jobs, settings, job, Class::Primary, homes);
        promoted.push(job);
    }
    promoted
}

/// Finds cores for backfillers that lost theirs; says whether there was any.
pub(crate) fn place_backfillers(
    host: &mut Host,
    jobs: &mut JobTable,
    settings: &Settings,
    pending: &Pending,
) -> bool {
    let mut placed = false;
    for &(job, _) in pending.marked() {
        let wanted = jobs[&job].slots().min(host.grid().len());
        let misplaced =
            |live: &Live| live.key.is_some() && live.class == Class::Backfill && live.cores.len() != wanted;
        if jobs.live(job).is_some_and(misplaced) {
            assign::release(host, jobs, job);
            let cores = pick::pinning_for(host, jobs, job, wanted);
            assign::occupy(host, jobs, settings, job, Class::Backfill, cores);
            placed = true;
        }
    }
    placed
}
