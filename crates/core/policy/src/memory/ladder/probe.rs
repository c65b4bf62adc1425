//! The reclaim probe, and room for the next job out of cold-tolerant ones (`cold` says what that is).
//!
//! Not probed is a job that grows faster than the swap device takes it, that would fill all memory by itself within
//! some seconds, that holds the token, that may not be frozen, or of which the kernel does not tell how long it waits.

use std::time::Duration;

use crate::api::{Instant, MemoryReason, Reason};
use crate::jobs::{Job, WORTH_BYTES, grown};
use crate::memory::forecast;
use crate::memory::ladder::step::Step;
use crate::memory::oracle::{self, Deficit};
use crate::memory::room::{HORIZON, Memory, PAGE_OUT_FOR};
use crate::queue::head;
use crate::rooms::Rooms;

/// Those who run are probed when memory will be short within this time.
const AHEAD: Duration = Duration::from_secs(4);

/// A job is probed no sooner than this after it began or went on.
const SETTLED: Duration = Duration::from_secs(1);

/// The least time between two probes.
const PAUSE: Duration = Duration::from_millis(250);

/// The part of what it has in RAM that a probe moves: one in so many,
const PROBE_PART: u64 = 16;
/// the least,
const PROBE_MIN: u64 = 2 * WORTH_BYTES;
/// and the most.
const PROBE_MAX: u64 = 64 << 20;

/// Who would fill all that is usable by itself within this time is about to use it.
const FILLS: Duration = Duration::from_secs(10);

/// Nobody is probed who has less than this: what it could give is not worth it.
const HELD_MIN: u64 = 64 << 20;

const _: () = assert!(AHEAD.as_secs() > HORIZON.as_secs(), "a probe comes before a freeze");

/// A little is moved out of a running job, if memory will be short, to see whether it refaults.
pub(crate) fn due(rooms: &Rooms, usable: u64) -> Option<Step> {
    let rests = rooms.memory.probed.is_some_and(|at| rooms.now.since(at) < PAUSE);
    let busy = rooms.memory.paging_until.is_some_and(|until| rooms.now < until);
    if rests || busy || !rooms.settings.memory.prediction || !fills_soon(rooms, usable) {
        return None;
    }
    // Where nothing was paged out yet, a probe is what tells how fast the device is.
    let known = rooms.memory.swap_rate > 0;
    let slow = if known { oracle::page_out_rate(&rooms.memory) } else { u64::MAX };
    let slow = slow.min(usable / FILLS.as_secs());
    let may = |job: &&Job| {
        let since = job.live().map_or(rooms.now, |live| live.started).max(job.held.resumed);
        let settled = rooms.now.since(since) >= SETTLED && rooms.now >= job.held.runs_until;
        let marked = rooms.pending.is_marked(job.id());
        let worth = job.held.resident >= HELD_MIN && forecast::growth_of(&rooms.memory, job) <= slow;
        let like_rest = job.request.kind.and_then(|kind| rooms.memory.warm.get(kind.key()));
        let like_rest = like_rest.is_some_and(|&(until, _)| rooms.now < until);
        worth
            && settled
            && !marked
            && !like_rest
            && job.held.cold.may_be_probed(rooms.now)
            && oracle::may_give(rooms, job)
    };
    let job = rooms.jobs.running().filter(may).max_by_key(|job| job.rank_key())?;
    let most = PROBE_MAX.min(grown(oracle::page_out_rate(&rooms.memory), PAGE_OUT_FOR)).max(PROBE_MIN);
    let bytes = (job.held.resident / PROBE_PART).clamp(PROBE_MIN, most);
    let reason = Reason::Memory(MemoryReason::Probed { within: AHEAD });
    (rooms.memory.swap_free / PROBE_PART >= bytes).then_some(Step::Probe { job: job.id(), bytes, reason })
}

/// A probe begins.
pub(crate) fn begin(memory: &mut Memory, now: Instant) {
    memory.probed = Some(now);
}

/// More is moved out of cold-tolerant jobs, the last first, as far as the next to start lacks
/// memory: what they have in swap is not in its way.
pub(crate) fn due_for_next(rooms: &Rooms) -> Option<Step> {
    let busy = rooms.memory.paging_until.is_some_and(|until| rooms.now < until);
    let gives = |job: &&Job| !rooms.pending.is_marked(job.id());
    let last =
        oracle::cold_tolerant(rooms).filter(gives).max_by_key(|job| job.rank_key()).filter(|_| !busy)?;
    let next = head::head(rooms).map(|(_, id)| id).filter(|&id| rooms.jobs.live(id).is_none());
    let Some(Deficit::Room { wanted, free }) = next.and_then(|id| oracle::lacks_memory(rooms, id)) else {
        return None;
    };
    let lacking = wanted - free;
    let most = grown(oracle::page_out_rate(&rooms.memory), PAGE_OUT_FOR)
        .min(rooms.memory.swap_free)
        .min(last.can_give());
    let (job, bytes) = (last.id(), lacking.max(WORTH_BYTES).min(most));
    let reason = Reason::Memory(MemoryReason::NextLacks { lacking });
    (bytes >= WORTH_BYTES).then_some(Step::PageOut { job, bytes, reason })
}

/// Whether those that run will fill what is usable soon, if they grow on as they do, wherever they may be expected to
/// stop.
fn fills_soon(rooms: &Rooms, usable: u64) -> bool {
    let wants =
        |job: &Job| job.held.needs().saturating_add(grown(forecast::growth_of(&rooms.memory, job), AHEAD));
    let wanted = rooms.jobs.sum_of_running(wants);
    wanted > usable.saturating_add(oracle::movable(rooms, AHEAD))
}
