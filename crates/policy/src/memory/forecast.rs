//! What running jobs are about to hold, and by how much that is more than there is. Read only.
//!
//! A known job is believed to stop where its class usually does, until it has passed that; an unknown one grows on as it
//! did. Two shortages follow from it: running jobs come to hold more than is usable, with all that is suspended moved to
//! swap (`shortage`); or they are faster than it can be moved there (`overrun`).

use std::time::Duration;

use crate::api::JobId;
use crate::jobs::{Job, WORTH_BYTES, grown};
use crate::memory::estimate;
use crate::memory::room::HORIZON;
use crate::rooms::Rooms;

/// A job of which nothing is known may grow while it is younger than this, though it does not yet.
const YOUNG: Duration = Duration::from_secs(5);

/// The rate of a swap device that was not measured: that of a slow disk.
const SWAP_RATE_ASSUMED: u64 = 50 << 20;

/// The part of the swap device's rate that paging out may use, in thousandths.
const PAGE_OUT_MILLI: u64 = 800;
/// ... and only for what those who run are about to hold within this time, as they grow at this moment: a second is
/// for what can be undone.
const IMMINENT: Duration = Duration::from_millis(500);

/// What a job grows by between the reading and the bound is not the bound's failure.
const SLACK: Duration = Duration::from_millis(250);

/// What a running job is expected to grow by: to what it usually needs, if that is known; else as it grew, for as
/// long as the horizon is.
pub(crate) fn ahead(rooms: &Rooms, job: &Job) -> u64 {
    ahead_within(rooms, job, HORIZON)
}

/// The same, over another time.
pub(crate) fn ahead_within(rooms: &Rooms, job: &Job, horizon: Duration) -> u64 {
    let soon = grown(growth_of(rooms, job), horizon);
    let claim = if rooms.settings.memory.prediction { estimate::claim_of(rooms, job) } else { None };
    let total = job.held.total();
    let Some(claim) = claim.filter(|claim| claim.most_bytes > total) else { return soon };
    let usual = claim.usual_bytes.saturating_sub(job.held.needs());
    // Beside one that started early it counts when it comes.
    let usual = if rooms.memory.stretched { usual.min(soon) } else { usual };
    // Of what others of its kind hold by now nobody knows that it is the most.
    let left = if estimate::is_known(rooms, job) { claim.most_bytes - total } else { u64::MAX };
    if is_as_usual(rooms, job) { usual } else { soon.min(left).max(usual) }
}

/// Whether a job holds no more than its kind usually comes to hold, and a little: until it has passed that it is
/// believed to stop there, however fast it grows. What it may need above is safe to give in any case.
fn is_as_usual(rooms: &Rooms, job: &Job) -> bool {
    let learned = job.request.kind.and_then(|kind| rooms.memory.learned.get(kind.key()));
    let near = learned.map(|claim| claim.usual_bytes.saturating_add(claim.usual_bytes / 32));
    near.is_some_and(|near| job.held.needs() <= near)
}

/// By how much those who run will soon exceed what is usable, if they go on as they do.
pub(crate) fn shortage(rooms: &Rooms, usable: u64) -> u64 {
    shortage_within(rooms, usable, HORIZON)
}

/// The same, over another time.
pub(crate) fn shortage_within(rooms: &Rooms, usable: u64, horizon: Duration) -> u64 {
    shortage_of(rooms, usable, horizon, |job| about_to_hold(rooms, job, horizon))
}

/// The same if one that is slowed were let go.
pub(crate) fn shortage_without_bound(rooms: &Rooms, slowed: JobId, usable: u64, horizon: Duration) -> u64 {
    shortage_of(rooms, usable, horizon, |job| {
        let grows_on = || job.held.needs().saturating_add(ahead_within(rooms, job, horizon));
        if job.id() == slowed { grows_on() } else { about_to_hold(rooms, job, horizon) }
    })
}

/// The same if they grow by so much in all.
pub(crate) fn shortage_if_they_grow_by(rooms: &Rooms, bytes: u64, usable: u64) -> u64 {
    shortage_of(rooms, usable.saturating_sub(bytes), HORIZON, |job| job.held.needs())
}

/// What a running job is about to have in RAM: what it holds, what of that is in swap, and what it grows by; but no
/// more than its bound if it is slowed.
pub(crate) fn about_to_hold(rooms: &Rooms, job: &Job, horizon: Duration) -> u64 {
    let all = job.held.needs().saturating_add(ahead_within(rooms, job, horizon));
    bound_of(rooms, job).map_or(all, |bound| all.min(bound))
}

fn shortage_of(rooms: &Rooms, usable: u64, horizon: Duration, wants: impl Fn(&Job) -> u64) -> u64 {
    let wanted = rooms.jobs.running().map(wants).fold(0, u64::saturating_add);
    // What stands still counts as far as it cannot be moved to swap.
    let standing: u64 = rooms.jobs.suspended().map(|job| job.held.resident).fold(0, u64::saturating_add);
    let stuck = standing.saturating_sub(rooms.memory.swap_free);
    wanted.saturating_add(stuck).saturating_sub(usable.saturating_add(movable(rooms, horizon)))
}

/// By how much RAM will run over within the horizon, since what stands still cannot be paged out as fast as those who
/// run grow: they would wait for the kernel in the middle of their steps, and nobody in there stands still at once.
pub(crate) fn overrun(rooms: &Rooms, usable: u64) -> u64 {
    let soon = rooms.jobs.running().map(|job| self::soon(rooms, job)).fold(0, u64::saturating_add);
    let standing: u64 = rooms.jobs.suspended().map(|job| job.held.resident).fold(0, u64::saturating_add);
    let cool = cold_tolerant(rooms).map(Job::can_give).fold(0, u64::saturating_add);
    let there = standing.saturating_add(cool).min(rooms.memory.swap_free);
    let moved = grown(page_out_rate(rooms), HORIZON).min(there);
    rooms.jobs.resident().saturating_add(soon).saturating_sub(usable.saturating_add(moved))
}

/// What a running job grows by within the horizon; in RAM, if it is slowed.
pub(crate) fn soon(rooms: &Rooms, job: &Job) -> u64 {
    let soon = ahead(rooms, job).min(grown(job.held.growth, HORIZON));
    bound_of(rooms, job).map_or(soon, |bound| soon.min(bound.saturating_sub(job.held.resident)))
}

/// Whether a job is about to grow, or may begin to.
pub(crate) fn may_grow(rooms: &Rooms, job: &Job) -> bool {
    ahead(rooms, job) >= WORTH_BYTES || (estimate::claim_of(rooms, job).is_none() && is_young(rooms, job))
}

/// Whether a job has not run for long since it started or returned.
pub(crate) fn is_young(rooms: &Rooms, job: &Job) -> bool {
    let since = job.live().map_or(rooms.now, |live| live.started).max(job.held.resumed);
    rooms.now.since(since) < YOUNG
}

/// What one that returns grows by until it could stand still again, if it grows as it did before, within the most that
/// its kind needs: whoever had to stand still again at once need not return.
pub(crate) fn grows_again(rooms: &Rooms, job: &Job) -> u64 {
    let claim = if estimate::is_known(rooms, job) { estimate::claim_of(rooms, job) } else { None };
    let most = claim.map_or(u64::MAX, |claim| claim.most_bytes);
    grown(job.held.growth_before, HORIZON).min(most.saturating_sub(job.held.total()))
}

/// What a job has still to grow by to the most that its kind needs; `None` if nobody knows, or it has outgrown that.
pub(crate) fn left_to_grow(rooms: &Rooms, job: &Job) -> Option<u64> {
    let claim = estimate::claim_of(rooms, job).filter(|_| estimate::is_known(rooms, job))?;
    claim.most_bytes.checked_sub(job.held.total()).filter(|&left| left > 0)
}

/// Those who run, may give pages up, and get on without some.
pub(crate) fn cold_tolerant(rooms: &Rooms) -> impl Iterator<Item = &Job> {
    rooms.jobs.running().filter(|job| job.held.cold.is_cool() && may_give(rooms, job))
}

pub(crate) fn may_give(rooms: &Rooms, job: &Job) -> bool {
    let comes = rooms.memory.returning.contains_key(&job.id());
    !comes && Some(job.id()) != rooms.memory.token && rooms.jobs.may_freeze(job.id())
}

/// What can be moved out of those who run and do without it within this time, beside what stands still.
pub(crate) fn movable(rooms: &Rooms, time: Duration) -> u64 {
    if !rooms.settings.memory.prediction {
        return 0;
    }
    let held = cold_tolerant(rooms).map(Job::can_give).fold(0, u64::saturating_add);
    let standing: u64 = rooms.jobs.suspended().map(|job| job.held.resident).fold(0, u64::saturating_add);
    let swap = rooms.memory.swap_free.saturating_sub(standing);
    held.min(grown(page_out_rate(rooms), time)).min(swap)
}

/// Whether the governor acts: it is on, and memory was read.
pub(crate) fn is_governed(rooms: &Rooms) -> bool {
    rooms.settings.memory.governor && rooms.settings.schedule && rooms.memory.usable.is_some()
}

/// What a running job counts for, or what it is about to hold if that is more.
pub(crate) fn about_to_take(rooms: &Rooms, job: &Job) -> u64 {
    estimate::counts_for(rooms, job).max(about_to_hold(rooms, job, HORIZON))
}

/// What is free for jobs in RAM.
pub(crate) fn free_memory(rooms: &Rooms) -> u64 {
    rooms.memory.usable.unwrap_or(u64::MAX).saturating_sub(rooms.jobs.resident())
}

pub(crate) fn swap_rate(rooms: &Rooms) -> u64 {
    if rooms.memory.swap_rate == 0 { SWAP_RATE_ASSUMED } else { rooms.memory.swap_rate }
}

/// What may be paged out in a second, at least 1.
pub(crate) fn page_out_rate(rooms: &Rooms) -> u64 {
    (swap_rate(rooms) / 1000).saturating_mul(PAGE_OUT_MILLI).max(1)
}

/// What those who run are about to lack before anybody could do anything about it himself.
pub(crate) fn lacking_at_once(rooms: &Rooms, usable: u64) -> u64 {
    let needed = rooms
        .jobs
        .running()
        .map(|job| job.held.total().saturating_add(grown(job.held.growth_now, IMMINENT)))
        .chain(rooms.jobs.suspended().map(|job| job.held.resident))
        .fold(0, u64::saturating_add);
    needed.saturating_sub(usable)
}

/// What a job grows by in a second: of one that is slowed, what it did before.
pub(crate) fn growth_of(rooms: &Rooms, job: &Job) -> u64 {
    let before = rooms.memory.throttles.slowed.get(&job.id()).map_or(0, |one| one.growth);
    job.held.growth.max(before)
}

/// What a slowed job may have in RAM; `None`: it is not slowed, or the kernel does not hold it there.
fn bound_of(rooms: &Rooms, job: &Job) -> Option<u64> {
    let one = rooms.memory.throttles.slowed.get(&job.id()).filter(|one| one.asked_again.is_none())?;
    let slack = grown(one.growth, SLACK).max(WORTH_BYTES);
    let holds = job.held.resident <= one.bound.saturating_add(slack);
    holds.then(|| one.bound.max(job.held.resident))
}

/// Whether anybody is slowed now.
pub(crate) fn is_throttling(rooms: &Rooms) -> bool {
    rooms.memory.throttles.slowed.values().any(|one| one.asked_again.is_none())
}
