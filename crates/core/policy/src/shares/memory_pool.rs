//! Memory that is kept for each pool, that it borrowed, and that it waits for. Read only.

use crate::api::JobId;
use crate::jobs::{Job, SuspendReason};
use crate::memory::forecast;
use crate::rooms::Rooms;
use crate::shares::pools::divide;

/// Whether a pool has more memory than is its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Borrowed {
    /// Its jobs hold it.
    pub(super) holds: bool,
    /// They hold it, or are expected to come to hold it.
    pub(super) expected: bool,
}

impl Job {
    /// Whether it is of a pool that holds more than is its own, or is suspended so that this one does not come to.
    pub(crate) fn has_borrowed(&self, borrowed: &[Borrowed]) -> bool {
        let pool = borrowed.get(usize::from(self.pools.memory));
        pool.is_some_and(|pool| pool.holds || (pool.expected && self.held.taken_back))
    }
}

/// Jobs frozen for memory that may not return yet.
pub(crate) fn frozen_for_memory(rooms: &Rooms) -> impl Iterator<Item = &Job> {
    rooms.memory.frozen().iter().filter_map(|id| rooms.jobs.get(id))
}

/// Which pools hold more memory than is their own, or are expected to; empty when none is guaranteed any.
pub(crate) fn memory_borrowers(rooms: &Rooms) -> Vec<Borrowed> {
    if !rooms.shares.split_memory() {
        return Vec::new();
    }
    let mut used = vec![(0u64, 0u64); rooms.shares.memory.len()];
    for job in rooms.jobs.lives() {
        // A job that is suspended for want of memory goes on as soon as there is what it needs, and not before.
        let needs = job.live().is_some() && job.suspend_reason().is_none_or(SuspendReason::is_memory);
        let (held, expected) = &mut used[usize::from(job.pools.memory)];
        let holds = job.held.total();
        *held = held.saturating_add(holds);
        *expected = expected.saturating_add(if needs { forecast::counts_for(rooms, job) } else { holds });
    }
    let own = used.into_iter().zip(memory_shares(rooms));
    own.map(|((held, expected), own)| Borrowed { holds: held > own, expected: expected > own }).collect()
}

pub(crate) fn memory_shares(rooms: &Rooms) -> Vec<u64> {
    divide(rooms.memory.usable().unwrap_or(u64::MAX), &rooms.shares.memory)
}

/// What the running jobs of each memory pool count for, and what the others of it hold in RAM.
fn memory_counted(rooms: &Rooms) -> Vec<u64> {
    memory_by_pool(
        rooms,
        |job| if job.has_slot() { forecast::counts_for(rooms, job) } else { job.held.resident },
    )
}

fn memory_by_pool(rooms: &Rooms, bytes: impl Fn(&Job) -> u64) -> Vec<u64> {
    let mut counted = vec![0u64; rooms.shares.memory.len()];
    for job in rooms.jobs.lives() {
        let bytes = bytes(job);
        let counted = &mut counted[usize::from(job.pools.memory)];
        *counted = counted.saturating_add(bytes);
    }
    counted
}

/// Memory that is kept for other pools than this: what is their own, they do not use, and swap could not take from
/// whoever had borrowed it.
pub(crate) fn kept_beside(rooms: &Rooms, pool: u16) -> u64 {
    if !rooms.shares.split_memory() {
        return 0;
    }
    unused_beside(rooms, pool, memory_counted(rooms))
}

/// The same for one that starts before those of other pools have come to need what is their own.
pub(crate) fn kept_beside_early(rooms: &Rooms, pool: u16) -> u64 {
    if !rooms.shares.split_memory() {
        return 0;
    }
    unused_beside(rooms, pool, memory_by_pool(rooms, |job| job.held.resident))
}

fn unused_beside(rooms: &Rooms, pool: u16, counted: Vec<u64>) -> u64 {
    let shares = memory_shares(rooms).into_iter().zip(counted).enumerate();
    // What no project is guaranteed is kept for nobody.
    let others = shares.filter(|&(other, _)| other != 0 && other != usize::from(pool));
    let unused = others.map(|(_, (share, counted))| share.saturating_sub(counted));
    unused.fold(0, u64::saturating_add).saturating_sub(rooms.memory.swap_free())
}

/// Whether a job that waits would stay within what is its pool's own.
pub(crate) fn memory_is_its_own(rooms: &Rooms, job: &Job, wanted: u64) -> bool {
    let pool = usize::from(job.pools.memory);
    rooms.shares.split_memory()
        && pool != 0
        && memory_counted(rooms)[pool].saturating_add(wanted) <= memory_shares(rooms)[pool]
}

/// The foremost of those frozen for memory that one which waits must not keep from returning: all of them, but those
/// that had borrowed what is its own, and, if it is known what the newcomer needs, those that would come to.
pub(crate) fn first_kept_waiting_by<'a>(rooms: &'a Rooms, job: &Job, wanted: u64) -> Option<&'a Job> {
    let borrowed = memory_borrowers(rooms);
    let (takes_back, known) = (memory_is_its_own(rooms, job, wanted), forecast::is_known(rooms, job));
    let borrows = |frozen: &Job| {
        let expected = || borrowed.get(usize::from(frozen.pools.memory)).is_some_and(|pool| pool.expected);
        frozen.has_borrowed(&borrowed) || (known && expected())
    };
    let lent = |frozen: &&Job| takes_back && frozen.pools.memory != job.pools.memory && borrows(frozen);
    let kept = frozen_for_memory(rooms).filter(|frozen| !lent(frozen));
    kept.min_by_key(|frozen| (frozen.has_borrowed(&borrowed), frozen.rank_key()))
}

/// What those wait for who have a right to it, in bytes.
pub(crate) fn claimed(rooms: &Rooms) -> u64 {
    let waits = |id: &JobId| rooms.jobs.get(id).is_some_and(|job| job.live().is_none());
    let claims = rooms.memory.claims().iter().filter(|(id, _)| waits(id));
    claims.map(|&(_, wanted)| wanted).fold(0, u64::saturating_add)
}

/// Whether a job borrowed memory that a project waits for.
pub(crate) fn lent_memory_is_wanted(rooms: &Rooms, job: &Job) -> bool {
    claimed(rooms) > 0 && job.has_borrowed(&memory_borrowers(rooms))
}
