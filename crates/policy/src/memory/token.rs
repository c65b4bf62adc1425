//! Which job holds the token: the highest rank when it fell free, until it ends or another was frozen for too long.

use std::time::Duration;

use crate::api::{JobId, MemoryReason, Reason};
use crate::jobs::{Job, Live, SuspendReason, WORTH_BYTES};
use crate::memory::room::PATIENCE;
use crate::memory::{checkpoint, safety};
use crate::queue::line;
use crate::rooms::Rooms;
use crate::shares::memory_pool;

/// The token stays with who has it until it ends or a user stops it, or another stood still for very long; then it
/// goes to the foremost, who may stand still.
pub(crate) fn choose_token(rooms: &mut Rooms) {
    let keeps = |id: &JobId| {
        let live = rooms.jobs.get(id).and_then(|job| job.live());
        let holds = |live: &Live| {
            live.key.is_some() || live.phase.suspend_reason().is_some_and(SuspendReason::is_memory)
        };
        let ends = rooms.jobs.get(id).is_some_and(|job| job.is_ending());
        live.is_some_and(|live| holds(live) && !ends)
    };
    if let Some(token) = rooms.memory.token.filter(keeps) {
        if let Some(next) = out_of_patience(rooms, token) {
            rooms.memory.token = Some(next);
            readmit(rooms, next);
        }
        return;
    }
    let all = rooms.jobs.live_ids().iter().filter(|id| keeps(id)).filter_map(|id| rooms.jobs.get(id));
    rooms.memory.token = all.min_by_key(|job| job.rank_key()).map(|job| job.id());
    if let Some(token) = rooms.memory.token {
        checkpoint::stop_checkpoint(rooms, token, Reason::Memory(MemoryReason::GoesFirst));
    }
    // Who holds it does not stand still, also when it fell to him in the midst of starts.
    if let Some(token) = rooms.memory.token.filter(|token| rooms.memory.frozen.contains(token)) {
        readmit(rooms, token);
    }
}

/// One that stood still for so long that it goes before the token holder now; if all others, the holder among them,
/// can be moved out of its way. What the holder had in swap is not brought back for nothing: it runs for as long first
/// as anybody does who returned.
fn out_of_patience(rooms: &Rooms, token: JobId) -> Option<JobId> {
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
    all.into_iter().find(|job| safety::is_safe_first(rooms, job, usable)).map(Job::id)
}

/// The priority of a job that stands still for want of memory, with what it gained by that.
fn priority_gained(rooms: &Rooms, job: &Job) -> u64 {
    u64::from(job.request.priority) + rooms.now.since(job.since).as_secs() / PATIENCE.as_secs()
}

/// How long a job that stands still for want of memory has to wait before it goes before one of this priority.
pub(crate) fn patience_left(rooms: &Rooms, job: &Job, holder: u8) -> Duration {
    let above = u32::from(holder).saturating_sub(u32::from(job.request.priority)) + 1;
    (PATIENCE * above).saturating_sub(rooms.now.since(job.since))
}

/// All stall, and nobody but the token holder could be frozen: the token passes to the foremost of those who may never
/// be, for they go on in any case, and the holder can then stand still for them.
pub(crate) fn give_way_to_the_unfreezable(rooms: &mut Rooms) {
    if !rooms.memory.token.is_some_and(|holder| rooms.jobs.may_freeze(holder)) {
        return;
    }
    let stays = |job: &&Job| job.request.no_suspend && job.held.total() >= WORTH_BYTES && !job.is_ending();
    if let Some(next) = rooms.jobs.running().filter(stays).min_by_key(|job| job.rank_key()).map(Job::id) {
        rooms.memory.token = Some(next);
    }
}

/// A job that stood still for another cause does not find the memory that it needs to go on: from now on it stands
/// still for that.
pub(crate) fn wait_for_memory(rooms: &mut Rooms, id: JobId) {
    // The one that runs may have started just now.
    choose_token(rooms);
    line::dequeue(rooms, id);
    rooms.memory.frozen.insert(id);
    let token = rooms.memory.token.unwrap_or(id);
    rooms.jobs.set_suspend_reason(id, SuspendReason::Memory { token });
    // With nobody else to hold the token it goes on.
    choose_token(rooms);
}

/// A job that was frozen for memory may return: it is given the next slot.
pub(crate) fn readmit(rooms: &mut Rooms, id: JobId) {
    rooms.memory.frozen.remove(&id);
    if rooms.jobs.get(&id).is_some_and(|job| job.held.missing() >= WORTH_BYTES) {
        rooms.memory.returning.insert(id, None);
    }
    line::enqueue(rooms, id);
}
