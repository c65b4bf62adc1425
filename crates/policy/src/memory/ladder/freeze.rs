//! Which job is frozen for memory, and what that means for it: the last in rank of those that may be.

use std::time::Duration;

use pinfold_backoff::Backoff;

use crate::api::{JobId, MemoryReason, Reason, ShareReason};
use crate::jobs::SuspendReason;
use crate::memory::ladder::overcommit;
use crate::memory::{forecast, oracle};
use crate::rooms::Rooms;
use crate::schedule::transition;

/// The least time a job rests, doubled with each time it is frozen.
const REST: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1 << 6));

pub(crate) fn freeze_for_memory(rooms: &mut Rooms, id: JobId) {
    let free = oracle::free_memory(rooms);
    let growth = rooms.jobs.sum_of_running(|job| forecast::growth_of(rooms, job));
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
    transition::suspend_and_release(rooms, id, SuspendReason::Memory { token }, reason);
    rooms.memory.acted = Some(now);
    rooms.memory.returning.remove(&id);
    let growth = rooms.jobs.get(&id).map_or(0, |job| forecast::growth_of(rooms, job));
    let Some(job) = rooms.jobs.get(&id) else { return };
    // One that does not refault most of it costs little each time.
    let before = if job.held.cold.is_cool() { 0 } else { job.held.freezes };
    rooms.jobs.freeze_for_memory(id, growth, now.after(REST.after(before)), taken_back);
}
