//! Which job holds the token: the highest rank when it fell free, until it ends or another was frozen for too long; and
//! which frozen jobs are readmitted.

use crate::api::{JobId, MemoryReason, Reason};
use crate::jobs::{Job, SuspendReason};
use crate::memory::{oracle, rank};
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::{enqueue, relieve};

/// The token stays with the job that has it until that ends or a user stops it, or another was frozen for very long;
/// then it goes to the highest rank, which may be frozen.
pub(crate) fn choose_token(rooms: &mut Rooms) {
    let keeps = |id: &JobId| rooms.jobs.get(id).is_some_and(rank::may_hold_token);
    if let Some(token) = rooms.memory.token().filter(keeps) {
        if let Some(next) = rank::out_of_patience(rooms, token) {
            rooms.memory.give_token(Some(next));
            readmit(rooms, next);
        }
        return;
    }
    rooms.memory.give_token(rank::first_for_token(rooms));
    if let Some(token) = rooms.memory.token() {
        relieve::stop_checkpoint(rooms, token, Reason::Memory(MemoryReason::GoesFirst));
    }
    readmit_token(rooms);
}

/// The token holder does not stay frozen, also where the token fell to it in the midst of starts.
fn readmit_token(rooms: &mut Rooms) {
    if let Some(token) = rooms.memory.token().filter(|token| rooms.memory.frozen().contains(token)) {
        readmit(rooms, token);
    }
}

/// A job that was frozen for another cause does not find the memory that it needs to go on: from now on it waits for
/// that.
pub(crate) fn wait_for_memory(rooms: &mut Rooms, id: JobId) {
    // The one that runs may have started just now.
    choose_token(rooms);
    line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
    rooms.memory.wait_frozen(id);
    let token = rooms.memory.token().unwrap_or(id);
    rooms.jobs.set_suspend_reason(id, SuspendReason::Memory { token });
    // Where no other job is there to hold the token it goes on.
    choose_token(rooms);
}

/// A job that was frozen for memory may return: it is given the next slot.
fn readmit(rooms: &mut Rooms, id: JobId) {
    rooms.memory.readmit(&rooms.jobs, id);
    enqueue::enqueue(rooms, id);
}

/// Lets frozen jobs return that may, and sees to it that the token holder runs. At the end of each step, for an exit
/// may have made room.
pub(crate) fn resume_frozen(rooms: &mut Rooms) {
    if !oracle::is_governed(rooms) {
        for id in rooms.memory.frozen().clone() {
            readmit(rooms, id);
        }
        return;
    }
    // Also while no job is frozen: the next to start is checked against what the token holder may need.
    choose_token(rooms);
    if rooms.memory.frozen().is_empty() {
        return;
    }
    readmit_token(rooms);
    while let Some(first) =
        rank::first_to_resume(rooms).filter(|first| oracle::may_resume(rooms, first)).map(Job::id)
    {
        readmit(rooms, first);
    }
}
