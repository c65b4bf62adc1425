//! Capacity and rate: by how much running jobs will soon need more than there is. Read only.
//!
//! Two shortages follow from the forecast: running jobs come to hold more than is usable, with all that is suspended
//! moved to swap (`shortage`); or they are faster than it can be moved there (`overrun`).

use std::time::Duration;

use crate::api::JobId;
use crate::jobs::{Job, grown};
use crate::memory::forecast;
use crate::memory::room::{HORIZON, Memory};
use crate::rooms::Rooms;

/// The rate of a swap device that was not measured: that of a slow disk.
const SWAP_RATE_ASSUMED: u64 = 50 << 20;

/// The part of the swap device's rate that paging out may use, in thousandths.
const PAGE_OUT_MILLI: u64 = 800;

/// What cannot be undone is done only for what those that run are about to hold within this time, as they grow at this
/// moment: a second is for what can be undone.
const IMMINENT: Duration = Duration::from_millis(500);

/// By how much those that run will soon exceed what is usable, if they go on as they do.
pub(crate) fn shortage(rooms: &Rooms, usable: u64) -> u64 {
    shortage_within(rooms, usable, HORIZON)
}

/// The same, over another time.
pub(crate) fn shortage_within(rooms: &Rooms, usable: u64, horizon: Duration) -> u64 {
    shortage_of(rooms, usable, horizon, |job| forecast::about_to_hold(rooms, job, horizon))
}

/// The same if one that is slowed were let go.
pub(crate) fn shortage_without_bound(rooms: &Rooms, slowed: JobId, usable: u64, horizon: Duration) -> u64 {
    shortage_of(rooms, usable, horizon, |job| {
        let grows_on = || job.held.needs().saturating_add(forecast::ahead_within(rooms, job, horizon));
        if job.id() == slowed { grows_on() } else { forecast::about_to_hold(rooms, job, horizon) }
    })
}

/// The same if they grow by so much in all.
pub(crate) fn shortage_if_they_grow_by(rooms: &Rooms, bytes: u64, usable: u64) -> u64 {
    shortage_of(rooms, usable.saturating_sub(bytes), HORIZON, |job| job.held.needs())
}

fn shortage_of(rooms: &Rooms, usable: u64, horizon: Duration, wants: impl Fn(&Job) -> u64) -> u64 {
    let wanted = rooms.jobs.sum_of_running(wants);
    // What is suspended counts as far as it cannot be moved to swap.
    let standing = rooms.jobs.suspended_resident();
    let stuck = standing.saturating_sub(rooms.memory.swap_free);
    wanted.saturating_add(stuck).saturating_sub(usable.saturating_add(movable(rooms, horizon)))
}

/// By how much RAM will run over within the horizon, since what is suspended cannot be paged out as fast as those that
/// run grow: they would wait for the kernel in the middle of their steps, and no job there can be frozen at once.
pub(crate) fn overrun(rooms: &Rooms, usable: u64) -> u64 {
    let soon = rooms.jobs.sum_of_running(|job| forecast::soon(rooms, job));
    let standing = rooms.jobs.suspended_resident();
    let cool = cold_tolerant(rooms).map(Job::can_give).fold(0, u64::saturating_add);
    let there = standing.saturating_add(cool).min(rooms.memory.swap_free);
    let moved = grown(page_out_rate(&rooms.memory), HORIZON).min(there);
    rooms.jobs.resident().saturating_add(soon).saturating_sub(usable.saturating_add(moved))
}

/// Running jobs that may give pages up and are cold-tolerant.
pub(crate) fn cold_tolerant(rooms: &Rooms) -> impl Iterator<Item = &Job> {
    rooms.jobs.running().filter(|job| job.held.cold.is_cool() && may_give(rooms, job))
}

pub(crate) fn may_give(rooms: &Rooms, job: &Job) -> bool {
    let comes = rooms.memory.returning.contains_key(&job.id());
    !comes && Some(job.id()) != rooms.memory.token && rooms.jobs.may_freeze(job.id())
}

/// What can be moved out of those that run and do without it within this time, beside what is suspended.
pub(crate) fn movable(rooms: &Rooms, time: Duration) -> u64 {
    if !rooms.settings.memory.prediction {
        return 0;
    }
    let held = cold_tolerant(rooms).map(Job::can_give).fold(0, u64::saturating_add);
    let standing = rooms.jobs.suspended_resident();
    let swap = rooms.memory.swap_free.saturating_sub(standing);
    held.min(grown(page_out_rate(&rooms.memory), time)).min(swap)
}

/// Whether the governor acts: it is on, and memory was read.
pub(crate) fn is_governed(rooms: &Rooms) -> bool {
    rooms.settings.memory.governor && rooms.settings.schedule && rooms.memory.usable.is_some()
}

/// What is free for jobs in RAM.
pub(crate) fn free_memory(rooms: &Rooms) -> u64 {
    rooms.memory.usable.unwrap_or(u64::MAX).saturating_sub(rooms.jobs.resident())
}

pub(crate) fn swap_rate(memory: &Memory) -> u64 {
    if memory.swap_rate == 0 { SWAP_RATE_ASSUMED } else { memory.swap_rate }
}

/// What may be paged out in a second, at least 1.
pub(crate) fn page_out_rate(memory: &Memory) -> u64 {
    (swap_rate(memory) / 1000).saturating_mul(PAGE_OUT_MILLI).max(1)
}

/// What those that run are about to lack before anybody could do anything about it himself.
pub(crate) fn lacking_at_once(rooms: &Rooms, usable: u64) -> u64 {
    let needed = rooms
        .jobs
        .running()
        .map(|job| job.held.total().saturating_add(grown(job.held.growth_now, IMMINENT)))
        .chain(rooms.jobs.suspended().map(|job| job.held.resident))
        .fold(0, u64::saturating_add);
    needed.saturating_sub(usable)
}
