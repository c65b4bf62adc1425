//! Frozen jobs resume: the highest rank first, as `fit` allows, and for long enough that it was worth its cost.

use std::time::Duration;

use crate::api::JobId;
use crate::jobs::Job;
use crate::memory::ladder::{page_out, token};
use crate::memory::{oracle, rank};
use crate::rooms::Rooms;

/// The least time a job runs after it returned; longer when it comes from swap.
const RUN: Duration = Duration::from_secs(1);

/// A job that came from swap runs at least this many times as long as that took.
const RUN_PER_SWAP_IN: u32 = 10;

/// Lets those return that may, and sees to it that the token holder runs. At the end of each step, for an exit
/// may have made room.
pub(crate) fn resume_frozen(rooms: &mut Rooms) {
    if !oracle::is_governed(rooms) {
        for id in std::mem::take(&mut rooms.memory.frozen) {
            token::readmit(rooms, id);
        }
        return;
    }
    // Also while nobody stands still: whoever starts next is held against what the token holder may need.
    token::choose_token(rooms);
    if rooms.memory.frozen.is_empty() {
        return;
    }
    if let Some(token) = rooms.memory.token.filter(|token| rooms.memory.frozen.contains(token)) {
        token::readmit(rooms, token);
    }
    while let Some(first) =
        rank::first_to_resume(rooms).filter(|first| oracle::may_resume(rooms, first)).map(Job::id)
    {
        token::readmit(rooms, first);
    }
}

/// A job goes on after it stood still, now that it has its slot.
pub(crate) fn resume(rooms: &mut Rooms, id: JobId) {
    let now = rooms.now;
    let rate = oracle::swap_rate(rooms);
    let Some(job) = rooms.jobs.get(&id) else { return };
    let swap_in = Duration::from_micros(job.held.missing().saturating_mul(1_000_000) / rate);
    rooms.jobs.resume_in_memory(id, now, now.after(RUN.max(swap_in * RUN_PER_SWAP_IN)));
    page_out::swaps_in(rooms, id);
}
