//! Which job is frozen for memory, and what that means for it: the last in rank of those that may be.

use std::time::Duration;

use pinfold_topo::backoff::Backoff;

use crate::api::{Instant, JobId, MemoryReason, Reason};
use crate::jobs::JobTable;
use crate::memory::ladder::overcommit;
use crate::memory::ladder::step::Step;
use crate::memory::room::Memory;
use crate::memory::{forecast, oracle};
use crate::rooms::Rooms;

/// The least time a job rests, doubled with each time it is frozen.
const REST: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1 << 6));

/// A job is frozen because memory is short.
pub(crate) fn for_shortage(rooms: &Rooms, job: JobId) -> Option<Step> {
    let free = oracle::free_memory(rooms);
    let growth = rooms.jobs.sum_of_running(|job| forecast::growth_of(&rooms.memory, job));
    let token = rooms.memory.token?;
    Some(Step::Freeze { job, reason: Reason::Memory(MemoryReason::Short { free, growth, token }) })
}

/// A job is frozen until memory suffices for it again; `reclaimed`: for a pool's guarantee.
pub(crate) fn begin(memory: &mut Memory, jobs: &mut JobTable, now: Instant, id: JobId, reclaimed: bool) {
    overcommit::failed(memory, jobs, now, id);
    memory.frozen.insert(id);
    memory.acted = Some(now);
    memory.returning.remove(&id);
    let Some(job) = jobs.get(&id) else { return };
    let growth = forecast::growth_of(memory, job);
    // One that does not refault most of it costs little each time.
    let before = if job.held.cold.is_cool() { 0 } else { job.held.freezes };
    jobs.freeze_for_memory(id, growth, now.after(REST.after(before)), reclaimed);
}
