//! What a user or operator says to a job.

use std::time::Duration;

use crate::api::{Class, Command, JobId, Reason, UserReason};
use crate::jobs::{Grace, SuspendReason};
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::{end, enqueue, relieve, reprioritize, transition};

/// How long a job that got a signal may use it undisturbed, and without a slot if it had none; once a minute, or signals
/// without end would have it run so for ever.
const GRACE: Grace = Grace { lasts: Duration::from_secs(5), calm: Duration::from_secs(60) };

pub(crate) fn command(rooms: &mut Rooms, id: JobId, command: Command) {
    let Some(job) = rooms.jobs.get(&id) else { return };
    let waits = job.live().is_none();
    match command {
        Command::Suspend | Command::Hold if waits => hold(rooms, id, true),
        Command::Resume | Command::Release if waits => hold(rooms, id, false),
        Command::Suspend => suspend(rooms, id),
        Command::Resume => {
            if rooms.jobs.resume(id, rooms.now) {
                enqueue::enqueue(rooms, id);
            }
        }
        Command::Hold | Command::Release => {}
        Command::Cancel { .. } if waits => end::drop_waiting(rooms, id, false, Reason::ASKED),
        Command::Cancel { signal } => cancel(rooms, id, signal),
        // That does not count as what the host did to it.
        Command::Requeue => {
            if rooms.jobs.requeue_as_asked(id) {
                relieve::end_for_requeue(rooms, id, Reason::ASKED);
            }
        }
        Command::SetMemory(bytes) => {
            rooms.jobs.set_memory(id, bytes);
            enqueue::reenqueue(rooms, id);
        }
        Command::SetPriority(priority) => set_priority(rooms, id, priority.clamp(1, 16)),
        Command::SetClass(class) => set_class(rooms, id, class),
    }
}

fn hold(rooms: &mut Rooms, id: JobId, hold: bool) {
    let now = rooms.now;
    if !rooms.jobs.hold(id, hold, now) {
        return;
    }
    let array = rooms.jobs.get(&id).and_then(|job| job.request.array);
    enqueue::reenqueue(rooms, id);
    line::next_members_wait(&mut rooms.jobs, &mut rooms.queue, &rooms.settings, array);
}

fn suspend(rooms: &mut Rooms, id: JobId) {
    if rooms.jobs.suspend(id) != Some(true) {
        return; // it was so before, or is frozen once it has started, or held once it waits again
    }
    line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
    rooms.memory.forget(id);
    transition::suspend_and_release(rooms, id, SuspendReason::Suspended, Reason::ASKED);
}

fn cancel(rooms: &mut Rooms, id: JobId, signal: i32) {
    let Some(thawed) = rooms.jobs.cancel(id, signal, rooms.now, GRACE) else { return };
    if thawed {
        line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
        rooms.memory.forget(id);
    } else if rooms.jobs.resume(id, rooms.now) {
        // It is not thawed for this signal: it gets it once it runs again.
        enqueue::enqueue(rooms, id);
    }
    rooms.pending.request_update(id, Reason::ASKED);
    line::rearm(&mut rooms.jobs, &rooms.queue, &rooms.settings, id);
}

fn set_priority(rooms: &mut Rooms, id: JobId, priority: u8) {
    line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
    if let Some(live) = rooms.jobs.live(id) {
        rooms.cores.set_priority(live, priority);
        rooms.pending.request_update(id, Reason::User(UserReason::PriorityChanged { priority }));
    }
    rooms.jobs.set_priority(id, priority);
    enqueue::enqueue(rooms, id);
    reprioritize::priority_changed(rooms, id);
}

fn set_class(rooms: &mut Rooms, id: JobId, class: Option<Class>) {
    let asked = rooms.jobs.get(&id).and_then(|job| job.request.class);
    if asked == class || [asked, class].contains(&Some(Class::Exclusive)) {
        return;
    }
    line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
    rooms.jobs.set_class(id, class);
    enqueue::enqueue(rooms, id);
    reprioritize::class_changed(rooms, id);
}
