//! Overcommitted starts: a job starts though running jobs may come to need the memory that it does.
//!
//! Only if what it is expected to need fits beside what they hold so far and grow by within some seconds, and if swap
//! takes it whole. It is the first to be frozen when memory runs short; none of its class is overcommitted for a while
//! then, twice as long after each time. Once what all are expected to need fits, it is a job like all others.
//!
//! Meanwhile running jobs count for what they hold and grow by, not at once for what they will come to need: else it
//! would be frozen as soon as it is looked at. What a user asked for counts whole until there is evidence for less.
//! They cannot wait for its end, so it must be one that can be moved to swap.

use std::time::Duration;

use crate::api::JobId;
use crate::cores::reservation::Reservation;
use crate::cores::sets;
use crate::jobs::{Job, grown};
use crate::memory::forecast;
use crate::memory::oracle::capacity;
use crate::rooms::Rooms;
use crate::shares::memory_pool;

/// What those that run grow by within this time must fit beside one that starts early.
const AHEAD: Duration = Duration::from_secs(4);

/// Of a younger job nobody knows how fast it grows.
const SETTLED: Duration = Duration::from_secs(1);

/// Memory that jobs in other sets than this one's were promised and do not use yet, in bytes.
pub(crate) fn promised_beside(rooms: &Rooms, of: Option<usize>) -> u64 {
    let promised = |(at, aside): (usize, &Reservation)| {
        if Some(at) == of || aside.memory_bytes == 0 {
            return 0;
        }
        let held = |id: &JobId| rooms.jobs.get(id).map_or(0, |job| forecast::counts_for(rooms, job));
        let used = aside.holders.iter().map(held).fold(0, u64::saturating_add);
        aside.memory_bytes.saturating_sub(used)
    };
    rooms.cores.reservations().iter().enumerate().map(promised).fold(0, u64::saturating_add)
}

/// What a waiting job is expected to need, and what is left for it by what all others are.
pub(crate) fn room_for(rooms: &Rooms, job: &Job, usable: u64) -> (u64, u64) {
    let taken = rooms.jobs.sum_of_running(|job| forecast::counts_for(rooms, job));
    let kept =
        stands_and_promised(rooms, job).saturating_add(memory_pool::kept_beside(rooms, job.pools.memory));
    (forecast::counts_for(rooms, job), usable.saturating_sub(taken).saturating_sub(kept))
}

/// The most that a job which has started can ask for and have: what it counts for, and what is free beside all others.
/// `None`: it waits, or memory is not governed.
pub(crate) fn may_claim(rooms: &Rooms, job: &Job) -> Option<u64> {
    job.live()?;
    let usable = rooms.memory.usable.filter(|_| capacity::is_governed(rooms))?;
    let (counts, free) = room_for(rooms, job, usable);
    // What is suspended is not among those that run, so what it comes to need is in what is free.
    let own = if job.suspend_reason().is_some() { job.held.resident } else { counts };
    Some(free.saturating_add(own).max(counts))
}

/// What a waiting job has no part in though no job that runs counts for it: what is suspended holds, and what is
/// promised to others.
fn stands_and_promised(rooms: &Rooms, job: &Job) -> u64 {
    let standing = rooms.jobs.suspended_resident();
    standing.saturating_add(promised_beside(rooms, sets::reservation_of(&rooms.cores, job)))
}

/// Whether a waiting job may start though those that run may come to need the memory that it does.
pub(crate) fn may_overcommit(rooms: &Rooms, job: &Job, wanted: u64, usable: u64) -> bool {
    let Some(kind) = job.request.kind.filter(|_| forecast::is_known(rooms, job)) else { return false };
    let rests = rooms.memory.early.get(kind.key()).is_some_and(|&(until, _)| rooms.now < until);
    let disturbs = !rooms.memory.frozen.is_empty() || !rooms.memory.returning.is_empty();
    // Whose project's own memory others borrowed has it back now, and for good.
    if rests || disturbs || job.request.no_suspend || memory_pool::memory_is_its_own(rooms, job, wanted) {
        return false;
    }
    let kept = memory_pool::kept_beside_early(rooms, job.pools.memory);
    let (mut held, mut early) = (stands_and_promised(rooms, job).saturating_add(kept), 0u64);
    for other in rooms.jobs.running() {
        let Some(so_far) = holds_so_far(rooms, other) else { return false };
        held = held.saturating_add(so_far);
        early =
            early.saturating_add(if other.held.early { forecast::comes_to_hold(rooms, other) } else { 0 });
    }
    let swap_takes = forecast::comes_to_hold(rooms, job).saturating_add(early) <= rooms.memory.swap_free;
    swap_takes && held.saturating_add(wanted) <= usable
}

/// What a running job will hold within some seconds; all that it may need if it started early itself, or asked for it
/// and nobody knows that it needs less. `None`: it is too young.
fn holds_so_far(rooms: &Rooms, job: &Job) -> Option<u64> {
    let counts = forecast::counts_for(rooms, job);
    if job.held.early {
        return Some(counts);
    }
    let since = job.live().map_or(rooms.now, |live| live.started).max(job.held.resumed);
    let read = rooms.memory.read.is_some_and(|at| at.since(since) >= SETTLED);
    if forecast::floor_of(rooms, job).is_some() {
        return read.then_some(counts);
    }
    read.then(|| {
        job.held.needs().saturating_add(grown(forecast::growth_of(&rooms.memory, job), AHEAD)).min(counts)
    })
}
