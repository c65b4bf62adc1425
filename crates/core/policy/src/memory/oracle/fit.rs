//! When a frozen job may resume: when its whole expected footprint fits beside the running jobs, and all can still end.
//! From swap one at a time (`memory.swap_slot`), for all of them would wait for one device. Read only.

use crate::jobs::{Job, SuspendReason, WORTH_BYTES, grown};
use crate::memory::forecast;
use crate::memory::oracle::safety;
use crate::memory::room::{HORIZON, THRASH_MILLI};
use crate::rooms::Rooms;
use crate::shares::memory_pool;

/// A job returns from swap only to a host that stalls less than this; nobody returns to one that thrashes.
const CALM_MILLI: u16 = 100;

/// What stays free beside a job that returns: one that just fits would be frozen again as soon as any job grew a little,
/// and moved to swap and back for nothing. In bytes.
pub(super) fn margin(usable: u64) -> u64 {
    usable / 20
}

/// What must be free for a job that is suspended so that it can go on: all that it holds, and what it will grow by.
pub(crate) fn need_to_resume(rooms: &Rooms, job: &Job) -> u64 {
    let known = rooms.settings.memory.prediction && forecast::claim_of(rooms, job).is_some();
    let growth = if known { 0 } else { grown(job.held.growth_before, HORIZON * 2) };
    forecast::counts_for(rooms, job).saturating_add(growth)
}

/// Whether one that was let go finds as many coming back as may by the time it gets its slot: it had nothing in swap by
/// the readings of then, or another was let go meanwhile to write down what it has done, and did not wait for its turn.
pub(crate) fn finds_swap_busy(rooms: &Rooms, job: &Job) -> bool {
    let returning = &rooms.memory.returning;
    let others = || returning.iter().filter(|(id, until)| **id != job.id() && until.is_some()).count();
    let busy = match returning.contains_key(&job.id()) {
        true => others() >= swap_slots(rooms),
        false => swap_is_busy(rooms),
    };
    busy && job.held.missing() >= WORTH_BYTES && rooms.memory.token != Some(job.id())
}

/// Whether as many come back from swap as may at a time.
fn swap_is_busy(rooms: &Rooms) -> bool {
    rooms.memory.returning.len() >= swap_slots(rooms)
}

fn swap_slots(rooms: &Rooms) -> usize {
    rooms.settings.memory.swap_slot.max(1) as usize
}

/// What those will come to need in RAM and to hold, beyond what they do, who return before one and have not got their
/// slot yet.
fn readmitted_before(rooms: &Rooms, first: &Job) -> (u64, u64) {
    let on_its_way = |job: &&Job| {
        let why = job.suspend_reason();
        job.id() != first.id()
            && job.queued.is_some()
            && why.is_some_and(SuspendReason::is_memory)
            && !rooms.memory.frozen.contains(&job.id())
    };
    rooms.jobs.suspended().filter(on_its_way).fold((0, 0), |(need, hold), job| {
        let needs = need_to_resume(rooms, job).saturating_sub(job.held.resident);
        (need.saturating_add(needs), hold.saturating_add(grows_on_resume(rooms, job)))
    })
}

/// What one that is suspended comes to hold beyond what it does, once it returns, swap included: also what it may get
/// on without has to be somewhere.
fn grows_on_resume(rooms: &Rooms, job: &Job) -> u64 {
    need_to_resume(rooms, job).max(forecast::comes_to_hold(rooms, job)).saturating_sub(job.held.total())
}

/// Whether one that is suspended may go on: the host is calm, it rested, no more come back from swap than may, what it
/// needs fits beside the others, and with all that it will hold all can still end.
pub(crate) fn may_resume(rooms: &Rooms, first: &Job) -> bool {
    let from_swap = first.held.missing() >= WORTH_BYTES;
    let calm = if from_swap { CALM_MILLI } else { THRASH_MILLI };
    if rooms.memory.stalled_milli >= calm || (from_swap && swap_is_busy(rooms)) {
        return false;
    }
    if rooms.now < first.held.rests_until {
        return false;
    }
    let usable = rooms.memory.usable.unwrap_or(u64::MAX);
    let taken: u64 =
        rooms.jobs.sum_of_running(|job| job.held.needs().saturating_add(forecast::ahead(rooms, job)));
    // The others that are suspended can be paged out, as far as swap takes them.
    let pinned = rooms.jobs.suspended().filter(|job| job.id() != first.id()).map(|job| job.held.resident);
    let pinned = pinned.fold(0, u64::saturating_add).saturating_sub(rooms.memory.swap_free);
    // Those who were let go before it, in this step as well, and have no slot yet.
    let (needed_before, held_before) = readmitted_before(rooms, first);
    let need = need_to_resume(rooms, first).saturating_add(needed_before);
    let all = taken.saturating_add(need).saturating_add(pinned);
    let is_token = rooms.memory.token == Some(first.id());
    let comes =
        grows_on_resume(rooms, first).max(forecast::grows_again(rooms, first)).saturating_add(held_before);
    let safe = is_token || !safety::is_unsafe(rooms, first, comes, usable);
    // Who borrowed does not take what was taken from him before the other has it.
    let wanted = !is_token && memory_pool::lent_memory_is_wanted(rooms, first);
    let margin = margin(usable).saturating_add(if wanted { memory_pool::claimed(rooms) } else { 0 });
    all.saturating_add(margin) <= usable && (safe || !rooms.settings.memory.prediction)
}
