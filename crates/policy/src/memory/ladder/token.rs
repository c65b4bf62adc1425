//! Which job holds the token: the highest rank when it fell free, until it ends or another was frozen for too long.

use crate::api::{JobId, MemoryReason, Reason};
use crate::jobs::{SuspendReason, WORTH_BYTES};
use crate::memory::ladder::checkpoint;
use crate::memory::rank;
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::enqueue;

/// The token stays with who has it until it ends or a user stops it, or another stood still for very long; then it
/// goes to the foremost, who may stand still.
pub(crate) fn choose_token(rooms: &mut Rooms) {
    let keeps = |id: &JobId| rooms.jobs.get(id).is_some_and(rank::may_hold_token);
    if let Some(token) = rooms.memory.token.filter(keeps) {
        if let Some(next) = rank::out_of_patience(rooms, token) {
            rooms.memory.token = Some(next);
            readmit(rooms, next);
        }
        return;
    }
    rooms.memory.token = rank::first_for_token(rooms);
    if let Some(token) = rooms.memory.token {
        checkpoint::stop_checkpoint(rooms, token, Reason::Memory(MemoryReason::GoesFirst));
    }
    // Who holds it does not stand still, also when it fell to him in the midst of starts.
    if let Some(token) = rooms.memory.token.filter(|token| rooms.memory.frozen.contains(token)) {
        readmit(rooms, token);
    }
}

/// All stall, and nobody but the token holder could be frozen: the token passes to the foremost of those who may never
/// be, for they go on in any case, and the holder can then stand still for them.
pub(crate) fn give_way_to_the_unfreezable(rooms: &mut Rooms) {
    if !rooms.memory.token.is_some_and(|holder| rooms.jobs.may_freeze(holder)) {
        return;
    }
    if let Some(next) = rank::first_unfreezable(rooms) {
        rooms.memory.token = Some(next);
    }
}

/// A job that stood still for another cause does not find the memory that it needs to go on: from now on it stands
/// still for that.
pub(crate) fn wait_for_memory(rooms: &mut Rooms, id: JobId) {
    // The one that runs may have started just now.
    choose_token(rooms);
    line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
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
    enqueue::enqueue(rooms, id);
}
