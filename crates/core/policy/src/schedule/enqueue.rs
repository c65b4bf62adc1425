//! A job enters its queue, or has another place in it (`queue::line` says which).

use crate::api::JobId;
use crate::queue::line;
use crate::rooms::Rooms;

/// Puts a job into the queue if it wants a slot and may have one, and sets its timer.
pub(crate) fn enqueue(rooms: &mut Rooms, id: JobId) {
    if let Some(line::Place { at, mut entry }) = line::place_of(rooms, id) {
        if let Some(job) = rooms.jobs.get(&id).filter(|job| job.live().is_none()) {
            rooms.queue.ask_for(&mut entry, &job.request.resources);
        }
        rooms.jobs.enqueue(id, entry);
        rooms.queue.insert(at, &entry);
    }
    line::rearm(&mut rooms.jobs, &rooms.queue, &rooms.settings, id);
}

/// Something changed by which its place in the queue is found.
pub(crate) fn reenqueue(rooms: &mut Rooms, id: JobId) {
    line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
    enqueue(rooms, id);
}
