//! Which job is frozen for memory, and what that means for it: the last in rank of those that may be.

use std::time::Duration;

use pinfold_backoff::Backoff;

use crate::api::{JobId, MemoryReason, Reason, ShareReason};
use crate::cores::assign;
use crate::jobs::{Job, SuspendReason, WORTH_BYTES};
use crate::memory::room::HORIZON;
use crate::memory::{forecast, overcommit};
use crate::rooms::Rooms;
use crate::shares::memory_pool;

/// The least time a job rests, doubled with each time it is frozen.
const REST: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1 << 6));

/// The next to be frozen, and what that is worth: the youngest of those that grow or may begin to, else the
/// youngest that holds anything; never the token holder, and one that has just returned only if there is no
/// other.
pub(crate) fn victim(rooms: &Rooms) -> Option<(JobId, u64)> {
    let worth = |job: &Job| job.held.total() >= WORTH_BYTES || forecast::may_grow(rooms, job);
    let job = last_to_be_kept(rooms, worth)?;
    // Frozen, it neither grows, nor is what it holds needed, but for what swap does not take.
    let stuck = job.held.resident.saturating_sub(rooms.memory.swap_free);
    Some((job.id(), forecast::about_to_hold(rooms, job, HORIZON).saturating_sub(stuck).max(1)))
}

/// The last of these to be left running: never the token holder, and one that has just returned only if there is no
/// other.
pub(crate) fn last_to_be_kept(rooms: &Rooms, worth: impl Fn(&Job) -> bool) -> Option<&Job> {
    let may =
        |job: &&Job| Some(job.id()) != rooms.memory.token && rooms.jobs.may_freeze(job.id()) && worth(job);
    let borrowed = memory_pool::memory_borrowers(rooms);
    let key = |job: &&Job| {
        let rested = rooms.now >= job.held.runs_until;
        (job.has_borrowed(&borrowed), job.held.early, rested, forecast::may_grow(rooms, job), job.rank_key())
    };
    rooms.jobs.running().filter(may).max_by_key(key)
}

pub(crate) fn freeze_for_memory(rooms: &mut Rooms, id: JobId) {
    let free = forecast::free_memory(rooms);
    let growth: u64 =
        rooms.jobs.running().map(|job| forecast::growth_of(rooms, job)).fold(0, u64::saturating_add);
    let Some(token) = rooms.memory.token else { return };
    freeze(rooms, id, Reason::Memory(MemoryReason::Short { free, growth, token }));
}

/// Freezes a job, until memory suffices for it again.
pub(crate) fn freeze(rooms: &mut Rooms, id: JobId, reason: Reason) {
    let now = rooms.now;
    let Some(token) = rooms.memory.token else { return };
    let taken_back = matches!(reason, Reason::Share(ShareReason::MemoryReclaimed { .. }));
    overcommit::overcommit_failed(rooms, id);
    rooms.memory.frozen.insert(id);
    assign::suspend_and_release(rooms, id, SuspendReason::Memory { token }, reason);
    rooms.memory.acted = Some(now);
    rooms.memory.returning.remove(&id);
    let growth = rooms.jobs.get(&id).map_or(0, |job| forecast::growth_of(rooms, job));
    let Some(job) = rooms.jobs.get(&id) else { return };
    // One that does not refault most of it costs little each time.
    let before = if job.held.cold.is_cool() { 0 } else { job.held.freezes };
    rooms.jobs.freeze_for_memory(id, growth, now.after(REST.after(before)), taken_back);
}
