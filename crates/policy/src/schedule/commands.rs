//! What a user or operator says to a job.

use std::time::Duration;

use crate::api::{Command, JobId, Reason};
use crate::cores::assign;
use crate::jobs::{Stage, SuspendReason};
use crate::memory::requeue;
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::{end, reprioritize};

/// How long a job that got a signal may use it undisturbed, and without a slot if it had none.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) fn command(rooms: &mut Rooms, id: JobId, command: Command) {
    let Some(job) = rooms.jobs.get(&id) else { return };
    let waits = job.live().is_none();
    match command {
        Command::Suspend | Command::Hold if waits => hold(rooms, id, true),
        Command::Resume | Command::Release if waits => hold(rooms, id, false),
        Command::Suspend => suspend(rooms, id),
        Command::Resume => resume(rooms, id),
        Command::Hold | Command::Release => {}
        Command::Cancel { .. } if waits => end::drop_waiting(rooms, id, false, Reason::Asked),
        Command::Cancel { signal } => cancel(rooms, id, signal),
        Command::Requeue => requeue::on_request(rooms, id),
        Command::SetMemory(bytes) => set_memory(rooms, id, bytes),
        Command::SetPriority(priority) => set_priority(rooms, id, priority.clamp(1, 16)),
    }
}

fn hold(rooms: &mut Rooms, id: JobId, hold: bool) {
    let now = rooms.now;
    let Some(job) = rooms.jobs.get_mut(&id) else { return };
    let Stage::Waiting(waiting) = &mut job.stage else { return };
    if waiting.held == hold {
        return;
    }
    waiting.held = hold;
    // What it was held for does not count as waiting, neither for its right to go first nor against it.
    (job.since, job.aged) = (now, false);
    let array = job.request.array;
    line::dequeue(rooms, id);
    line::enqueue(rooms, id);
    line::next_members_wait(rooms, array);
}

fn suspend(rooms: &mut Rooms, id: JobId) {
    let Some(live) = rooms.jobs.live_mut(id).filter(|live| !live.suspended) else { return };
    live.suspended = true;
    if live.starting || live.requeuing {
        return; // it is frozen once it has started, or held once it waits again
    }
    line::dequeue(rooms, id);
    rooms.memory.forget(id);
    assign::suspend_and_release(rooms, id, SuspendReason::Suspended, Reason::Asked);
}

fn resume(rooms: &mut Rooms, id: JobId) {
    let now = rooms.now;
    let Some(job) = rooms.jobs.get_mut(&id) else { return };
    let Some(live) = job.live_mut().filter(|live| live.suspended) else { return };
    live.suspended = false;
    if live.out.is_some() && !live.requeuing {
        job.since = now;
        line::enqueue(rooms, id);
    }
}

fn cancel(rooms: &mut Rooms, id: JobId, signal: i32) {
    let until = rooms.now.after(GRACE);
    let dying = rooms.jobs.is_dying(id);
    let Some(live) = rooms.jobs.live_mut(id) else { return };
    live.signal = Some(signal);
    live.suspended = false;
    // What it would write down is of no use any more.
    live.requeuing &= live.checkpoints.until.take().is_none();
    if live.starting || live.requeuing {
        return; // it gets its signal once it has started, or is struck off once it waits again
    }
    // Who signals again and again does not keep a job running without a slot.
    if !dying {
        live.grace = Some(until);
    }
    // A frozen job cannot die of a signal, so it is thawed even without a slot.
    if live.out.take().is_some() {
        line::dequeue(rooms, id);
        rooms.memory.forget(id);
        rooms.jobs.thaw_to_die(id);
    }
    rooms.pending.request_update(id, Reason::Asked);
    line::rearm(rooms, id);
}

fn set_priority(rooms: &mut Rooms, id: JobId, priority: u8) {
    line::dequeue(rooms, id);
    let Some(job) = rooms.jobs.get_mut(&id) else { return };
    job.request.priority = priority;
    if let Some(live) = job.live_mut() {
        rooms.cores.set_priority(live, priority);
        rooms.pending.request_update(id, Reason::PriorityChanged { priority });
    }
    line::enqueue(rooms, id);
    reprioritize::priority_changed(rooms, id);
}

fn set_memory(rooms: &mut Rooms, id: JobId, bytes: u64) {
    line::dequeue(rooms, id);
    if let Some(job) = rooms.jobs.get_mut(&id) {
        job.request.memory = Some(bytes);
    }
    line::enqueue(rooms, id);
}
