//! Why memory keeps a job from its start, if it does. Read only.

use std::cell::OnceCell;

use crate::api::JobId;
use crate::cores::sets;
use crate::jobs::{Demand, Job, SuspendReason, bucket_ceiling, grown};
use crate::memory::forecast;
use crate::memory::oracle::{capacity, fit, overcommit, safety};
use crate::memory::room::HORIZON;
use crate::rooms::Rooms;
use crate::shares::memory_pool;

/// Why memory keeps a job from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deficit {
    /// What it usually needs is not free.
    Room {
        /// What it usually needs.
        wanted: u64,
        /// What the running jobs leave.
        free: u64,
    },
    /// Those who run are about to grow into what it usually needs.
    Growth {
        /// What it usually needs.
        wanted: u64,
        /// What they will leave.
        free: u64,
    },
    /// Memory runs short now.
    Short,
    /// It would keep one that is suspended from returning.
    Frozen {
        /// The first that returns.
        first: JobId,
    },
    /// The token holder, or who holds the token after it, could not be given all that it may need.
    Unsafe,
}

/// Whether memory should be read often: it is short, or could be within seconds.
pub(crate) fn memory_is_tight(rooms: &Rooms) -> bool {
    if !capacity::is_governed(rooms) {
        return false;
    }
    let usable = rooms.memory.usable.unwrap_or(u64::MAX);
    let free = capacity::free_memory(rooms);
    let growth = rooms.jobs.sum_of_running(|job| job.held.growth);
    rooms.memory.short_since.is_some()
        || !rooms.memory.frozen.is_empty()
        || forecast::is_throttling(rooms)
        || free < usable / 4
        || grown(growth, HORIZON * 4) > free
        || safety::beyond_safety(rooms, usable, HORIZON * 4) > 0
        // Of a young job nobody knows yet how fast it grows: a second is enough to fill a small host.
        || rooms.jobs.running().any(|job| !forecast::is_known(rooms, job) && forecast::is_young(rooms, job))
        || rooms.jobs.running().any(|job| job.held.grows_unseen())
        || rooms.jobs.running().any(|job| job.held.cold.is_cool())
        || rooms.memory.stretched
}

/// Why memory keeps a job from its start, if it does.
pub(crate) fn lacks_memory(rooms: &Rooms, id: JobId) -> Option<Deficit> {
    let job = rooms.jobs.get(&id)?;
    // Beside one that writes down what it has done nobody starts alone: it holds what it does until it ends.
    if !capacity::is_governed(rooms) || (sets::nobody_runs(&rooms.cores) && rooms.jobs.writers().is_empty()) {
        return None;
    }
    if job.live().is_some() {
        // A job that was suspended for another cause returns as one that was for memory does; those were looked at already.
        let let_go = job.suspend_reason().is_none_or(SuspendReason::is_memory);
        let lacks = if let_go { fit::finds_swap_busy(rooms, job) } else { !fit::may_resume(rooms, job) };
        return lacks.then_some(Deficit::Short);
    }
    let usable = rooms.memory.usable?;
    let wanted = forecast::counts_for(rooms, job);
    if wanted == 0 && rooms.memory.frozen.is_empty() {
        // Of most jobs nothing is known, and memory is not short: no need to look at all that run.
        let kept = memory_pool::kept_beside(rooms, job.pools.memory);
        let free = usable.saturating_sub(rooms.memory.resident).saturating_sub(kept);
        if is_short(rooms) {
            return Some(Deficit::Short);
        }
        return (free < usable / 20).then_some(Deficit::Room { wanted: usable / 20, free });
    }
    let (wanted, free) = overcommit::room_for(rooms, job, usable);
    let early = wanted > free;
    if early && !overcommit::may_overcommit(rooms, job, wanted, usable) {
        return Some(Deficit::Room { wanted, free });
    }
    if is_short(rooms) {
        return Some(Deficit::Short);
    }
    // It would be the first to be suspended, and the next would start in its place; unless it goes before others that
    // borrowed what is its project's own.
    let own = |job| memory_pool::memory_is_its_own(rooms, job, wanted);
    if !early && capacity::shortage(rooms, usable.saturating_sub(wanted)) > 0 && !own(job) {
        let taken = rooms.jobs.sum_of_running(|job| forecast::counts_for(rooms, job));
        let grown = rooms.jobs.sum_of_running(|job| forecast::about_to_take(rooms, job));
        return Some(Deficit::Growth { wanted, free: free.saturating_sub(grown.saturating_sub(taken)) });
    }
    // A job of which nothing is known waits until no job is suspended; the others only if they would keep one
    // that does from returning.
    let known = forecast::is_known(rooms, job);
    if let Some(first) = memory_pool::first_kept_waiting_by(rooms, job, wanted) {
        let token = rooms
            .memory
            .token
            .and_then(|id| rooms.jobs.get(&id))
            .map_or(0, |job| forecast::counts_for(rooms, job));
        let taken = rooms.jobs.sum_of_running(|job| forecast::counts_for(rooms, job));
        let beside = taken.saturating_sub(token).saturating_add(fit::need_to_resume(rooms, first));
        // The one that is suspended returns with a margin only.
        let beside = beside.saturating_add(fit::margin(usable));
        // Who stays within what is its project's own waits for nobody who could not return without it either.
        let waits = beside <= usable || !memory_pool::memory_is_its_own(rooms, job, wanted);
        if !known || (waits && beside.saturating_add(wanted) > usable) {
            return Some(Deficit::Frozen { first: first.id() });
        }
    }
    safety::is_unsafe(rooms, job, forecast::comes_to_hold(rooms, job), usable).then_some(Deficit::Unsafe)
}

/// Whether nothing new is to start for now: memory is short, or was about to be when somebody was slowed or asked for a
/// checkpoint; or one that was to be suspended grows on, as a freeze can take its time, or was not looked at since.
fn is_short(rooms: &Rooms) -> bool {
    // Who was held against one that takes its own back was looked at for that.
    let unread = |job: &Job| !job.held.taken_back && rooms.memory.read.is_none_or(|at| job.since >= at);
    let settles = || memory_pool::frozen_for_memory(rooms).any(|job| job.held.settling || unread(job));
    rooms.memory.short_since.is_some() || rooms.memory.writing || forecast::is_throttling(rooms) || settles()
}

/// The largest size class that could start now.
fn memory_room(rooms: &Rooms) -> u64 {
    if !capacity::is_governed(rooms) || sets::nobody_runs(&rooms.cores) {
        return u64::MAX;
    }
    let taken = rooms.jobs.sum_of_running(|job| forecast::about_to_take(rooms, job));
    let standing = rooms.jobs.suspended_resident();
    let usable = rooms.memory.usable.unwrap_or(u64::MAX);
    usable
        .saturating_sub(taken)
        .saturating_sub(standing)
        .saturating_sub(overcommit::promised_beside(rooms, None))
}

/// What of that is not to be had as those that run are expected to come to hold.
pub(crate) fn claims_lack(rooms: &Rooms) -> u64 {
    let waits = |id: &JobId| rooms.jobs.get(id).is_some_and(|job| job.live().is_none());
    let lacking = |id: JobId| match lacks_memory(rooms, id) {
        Some(Deficit::Room { wanted, free }) => wanted.saturating_sub(free),
        _ => 0,
    };
    let waiting = rooms.memory.claims.iter().map(|&(id, _)| id).filter(waits);
    waiting.map(lacking).fold(0, u64::saturating_add)
}

pub(crate) fn has_memory_room(rooms: &Rooms, shape: Demand, room: &OnceCell<u64>) -> bool {
    let room = *room.get_or_init(|| memory_room(rooms));
    bucket_ceiling(shape.memory) <= room.saturating_sub(memory_pool::kept_beside(rooms, shape.pools.memory))
}
