//! The order of jobs for memory: which one is frozen next, which one returns next, which one goes before the token
//! holder. Read only.

use std::time::Duration;

use crate::api::JobId;
use crate::jobs::{Job, SuspendReason, WORTH_BYTES};
use crate::memory::room::{HORIZON, PATIENCE};
use crate::memory::{forecast, oracle};
use crate::rooms::Rooms;
use crate::shares::memory_pool;

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

/// The last of those that grow and may be frozen.
pub(crate) fn last_that_grows(rooms: &Rooms) -> Option<JobId> {
    let may = |job: &&Job| {
        job.held.growth > 0 && Some(job.id()) != rooms.memory.token && rooms.jobs.may_freeze(job.id())
    };
    let borrowed = memory_pool::memory_borrowers(rooms);
    let last = |job: &&Job| (job.has_borrowed(&borrowed), job.rank_key());
    rooms.jobs.running().filter(may).max_by_key(last).map(Job::id)
}

/// The highest rank of those frozen for memory.
pub(crate) fn first_to_resume(rooms: &Rooms) -> Option<&Job> {
    let borrowed = memory_pool::memory_borrowers(rooms);
    memory_pool::frozen_for_memory(rooms).min_by_key(|job| (job.has_borrowed(&borrowed), job.rank_key()))
}

/// Whether a job may hold the token: it has a slot, or lacks nothing but memory, and is not being ended.
pub(crate) fn may_hold_token(job: &Job) -> bool {
    let holds = job.has_slot() || job.suspend_reason().is_some_and(SuspendReason::is_memory);
    holds && !job.is_ending()
}

/// The highest rank of those that may hold the token.
pub(crate) fn first_for_token(rooms: &Rooms) -> Option<JobId> {
    rooms.jobs.lives().filter(|job| may_hold_token(job)).min_by_key(|job| job.rank_key()).map(Job::id)
}

/// The highest rank of those that may never be frozen, and are not being ended.
pub(crate) fn first_unfreezable(rooms: &Rooms) -> Option<JobId> {
    let stays = |job: &&Job| job.request.no_suspend && job.held.total() >= WORTH_BYTES && !job.is_ending();
    rooms.jobs.running().filter(stays).min_by_key(|job| job.rank_key()).map(Job::id)
}

/// One that was suspended for so long that it goes before the token holder now; if all others, the holder among them,
/// can be moved out of its way. What the holder had in swap is not brought back for nothing: it runs for as long first
/// as anybody does who returned.
pub(crate) fn out_of_patience(rooms: &Rooms, token: JobId) -> Option<JobId> {
    let usable = rooms.memory.usable?;
    let holder = rooms.jobs.get(&token)?;
    let returned =
        holder.live().is_some() && holder.suspend_reason().is_none() && rooms.now >= holder.held.runs_until;
    if !returned {
        return None;
    }
    let holder = holder.request.priority;
    // What was lent to one is taken back for as long as it is wanted, however long that is.
    let owed =
        memory_pool::frozen_for_memory(rooms).filter(|job| !memory_pool::lent_memory_is_wanted(rooms, job));
    let over = owed.filter(|job| patience_left(rooms, job, holder).is_zero());
    let mut all: Vec<&Job> = over.collect();
    all.sort_by_key(|job| (std::cmp::Reverse(priority_gained(rooms, job)), job.rank_key()));
    all.into_iter().find(|job| oracle::is_safe_first(rooms, job, usable)).map(Job::id)
}

/// The priority of a job that is suspended for want of memory, with what it gained by that.
fn priority_gained(rooms: &Rooms, job: &Job) -> u64 {
    u64::from(job.request.priority) + rooms.now.since(job.since).as_secs() / PATIENCE.as_secs()
}

/// How long a job that is suspended for want of memory has to wait before it goes before one of this priority.
pub(crate) fn patience_left(rooms: &Rooms, job: &Job, holder: u8) -> Duration {
    let above = u32::from(holder).saturating_sub(u32::from(job.request.priority)) + 1;
    (PATIENCE * above).saturating_sub(rooms.now.since(job.since))
}
