//! A pool reclaims memory that is its own and that its next job wants.

use crate::api::{JobId, Reason, ShareReason};
use crate::cores::slots;
use crate::jobs::{Job, WORTH_BYTES};
use crate::memory::forecast;
use crate::memory::oracle::{self, Deficit};
use crate::queue::head;
use crate::rooms::Rooms;
use crate::schedule::{relieve, token};
use crate::shares::{core_pool, memory_pool};

/// The next job of a pool, if it waits for memory that is its pool's own; what it wants and what of it it lacks.
pub(crate) fn lacks_its_memory(rooms: &Rooms, pool: u16) -> Option<(JobId, u64, u64)> {
    let (_, id) = rooms
        .queue
        .host()
        .first(|shape| shape.pools.memory == pool && shape.memory > 0 && head::is_in_line(rooms, shape))?;
    let job = rooms.jobs.get(&id).filter(|job| job.live().is_none())?;
    let may_take = rooms.shares.split_cores() && core_pool::room_left(rooms, job.pools.cores) >= job.slots();
    if slots::free_slots(&rooms.cores, &rooms.settings) < job.slots() && !may_take {
        return None; // it waits for a slot, and lends its memory meanwhile
    }
    let wanted = forecast::counts_for(rooms, job);
    if !head::has_what_is_counted(rooms, job) {
        return None;
    }
    let lacking = match oracle::lacks_memory(rooms, id) {
        Some(Deficit::Room { wanted, free }) => wanted - free,
        // It starts now, before those that gave it back return.
        _ => 0,
    };
    memory_pool::memory_is_its_own(rooms, job, wanted).then_some((id, wanted, lacking))
}

/// Freezes those that borrowed memory that a pool wants for its next job; they are paged out then.
pub(crate) fn reclaim_memory(rooms: &mut Rooms) {
    rooms.memory.clear_claims();
    if !rooms.shares.split_memory() || !oracle::is_governed(rooms) {
        return;
    }
    token::choose_token(rooms);
    for pool in 1..u16::try_from(rooms.shares.memory.len()).unwrap_or(u16::MAX) {
        let Some((by, wanted, lacking)) = lacks_its_memory(rooms, pool) else { continue };
        rooms.memory.claim(by, wanted);
        let project = rooms.shares.memory[usize::from(pool)].0.clone();
        // What is suspended already is on its way.
        let standing = rooms.jobs.suspended_resident();
        let mut swap = rooms.memory.swap_free();
        let mut left = lacking.saturating_sub(standing.min(swap));
        swap = swap.saturating_sub(standing);
        while left > 0
            && let Some((payer, movable, gain)) = memory_payer(rooms, pool, swap)
        {
            let reason =
                Reason::Share(ShareReason::MemoryReclaimed { project: project.clone(), by, lacking });
            relieve::freeze(rooms, payer, reason);
            (left, swap) = (left.saturating_sub(gain), swap - movable);
        }
    }
}

/// The youngest of those whose pool has, or is expected to come to, more than is its own, and that give some back when
/// they are suspended: how much of it swap takes, and how much that is with what it is only expected to come to hold.
fn memory_payer(rooms: &Rooms, pool: u16, swap: u64) -> Option<(JobId, u64, u64)> {
    let borrowed = memory_pool::memory_borrowers(rooms);
    let movable = |job: &Job| job.held.resident.min(swap);
    let gain = |job: &Job| {
        forecast::counts_for(rooms, job).saturating_sub(job.held.resident).saturating_add(movable(job))
    };
    let may = |job: &&Job| {
        let theirs = job.pools.memory;
        let pays = theirs != pool && borrowed[usize::from(theirs)].expected && gain(job) >= WORTH_BYTES;
        pays && Some(job.id()) != rooms.memory.token() && rooms.jobs.may_freeze(job.id())
    };
    let youngest = rooms.jobs.running().filter(may).max_by_key(|job| job.rank_key())?;
    Some((youngest.id(), movable(youngest), gain(youngest)))
}
