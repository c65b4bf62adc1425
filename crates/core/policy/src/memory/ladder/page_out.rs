//! Suspended jobs, then cold-tolerant ones, are paged out, only as far as running jobs need memory and swap takes it.

use std::time::Duration;

use crate::api::{Instant, JobId, MemoryReason, Reason};
use crate::jobs::{Job, JobTable, WORTH_BYTES, grown};
use crate::memory::ladder::step::Step;
use crate::memory::room::{HORIZON, Memory, PAGE_OUT_FOR};
use crate::memory::{forecast, oracle};
use crate::rooms::Rooms;
use crate::shares::memory_pool;

/// So much is paged out; the device is busy with it for a while.
pub(crate) fn begin(memory: &mut Memory, now: Instant, bytes: u64) {
    let time = Duration::from_micros(bytes.saturating_mul(1_000_000) / oracle::page_out_rate(memory));
    let begins = memory.paging_until.unwrap_or(now).max(now);
    memory.paging_until = Some(begins.after(time));
}

/// What is suspended is paged out, then more of cold-tolerant jobs, as far as the room is needed soon: the last
/// in the order first, at a bounded rate, and never more than swap takes.
pub(crate) fn due(rooms: &Rooms) -> Vec<Step> {
    let usable = rooms.memory.usable.unwrap_or(u64::MAX);
    // What they left in swap comes back too, as fast as the device gives it.
    let back = grown(oracle::swap_rate(&rooms.memory), HORIZON);
    let needed: u64 = rooms
        .jobs
        .running()
        .map(|job| forecast::soon(rooms, job).saturating_add(job.held.missing().min(back)))
        .fold(usable / 50, u64::saturating_add)
        .saturating_add(memory_pool::claimed(rooms));
    // Who starts on what is its project's own is held against what the others may come to hold, not only what they do.
    let owed = match oracle::claims_lack(rooms) {
        0 => 0,
        lacking => lacking.max(WORTH_BYTES),
    };
    let needed = needed.max(oracle::free_memory(rooms).saturating_add(owed));
    let lacking = needed.saturating_sub(oracle::free_memory(rooms));
    let busy = rooms.memory.paging_until.is_some_and(|until| rooms.now < until);
    if lacking < WORTH_BYTES || rooms.memory.swap_free < WORTH_BYTES || busy {
        return Vec::new();
    }
    let rate = oracle::page_out_rate(&rooms.memory);
    let mut bytes = lacking.min(grown(rate, PAGE_OUT_FOR)).min(rooms.memory.swap_free).max(WORTH_BYTES);
    let mut standing: Vec<(JobId, u64)> = {
        let worth = |job: &&Job| {
            // One that is being ended gives its memory back in a moment anyway.
            let frozen =
                job.live().is_some_and(|live| live.applied.frozen == Some(true) && !live.phase.is_leaving());
            frozen && job.held.resident >= WORTH_BYTES && Some(job.id()) != rooms.memory.token
        };
        let mut all: Vec<&Job> = rooms.jobs.suspended().filter(worth).collect();
        let borrowed = memory_pool::memory_borrowers(rooms);
        all.sort_by_key(|job| std::cmp::Reverse((job.has_borrowed(&borrowed), job.rank_key())));
        all.into_iter().map(|job| (job.id(), job.held.resident)).collect()
    };
    // Then the cold-tolerant ones.
    let mut cool: Vec<&Job> = oracle::cold_tolerant(rooms).collect();
    cool.sort_by_key(|job| std::cmp::Reverse(job.rank_key()));
    standing.extend(cool.into_iter().map(|job| (job.id(), job.can_give())));
    standing.retain(|(id, _)| !rooms.pending.is_marked(*id));
    let reason = Reason::Memory(MemoryReason::Needed { needed, free: oracle::free_memory(rooms) });
    let mut steps = Vec::new();
    for (job, resident) in standing {
        let part = bytes.min(resident);
        steps.push(Step::PageOut { job, bytes: part, reason: reason.clone() });
        bytes -= part;
        if bytes < WORTH_BYTES {
            break;
        }
    }
    steps
}

/// What a job has in swap comes back with its next steps: the others wait for that long.
pub(crate) fn swaps_in(memory: &mut Memory, jobs: &JobTable, now: Instant, id: JobId) {
    let rate = oracle::swap_rate(memory);
    let swapped = jobs.get(&id).map_or(0, |job| job.held.missing());
    if swapped >= WORTH_BYTES {
        let swap_in = Duration::from_micros(swapped.saturating_mul(1_000_000) / rate);
        let before = memory.returning.get(&id).copied().flatten();
        memory.returning.insert(id, before.max(Some(now.after(swap_in * 2))));
    }
}
