//! The slots became more or fewer: jobs wider than the host take all there is, and pools are divided anew.

use crate::api::JobId;
use crate::cores::slots;
use crate::queue::line;
use crate::rooms::Rooms;

/// The slots became more or fewer. A job that had started and is now wider than the host takes all there
/// is, so that it can go on; a new one waits until the host is large enough.
pub(crate) fn clip(rooms: &mut Rooms) {
    renew_shares(rooms);
    let all: Vec<JobId> =
        rooms.jobs.values().filter(|job| job.live().is_some()).map(|job| job.id()).collect();
    for id in all {
        let slots = slots::clipped(rooms, &rooms.jobs[&id]);
        if let Some(held) = rooms.jobs.set_slots(id, slots) {
            rooms.cores.used = rooms.cores.used + slots - held;
        }
        if rooms.jobs[&id].queued.is_some() {
            line::dequeue(rooms, id);
            line::enqueue(rooms, id);
        }
    }
}

/// The cores or the slots became more or fewer.
fn renew_shares(rooms: &mut Rooms) {
    // A home without a slot is of no use.
    let all = rooms.cores.grid.len().min(slots::total(rooms));
    rooms.shares.divide_cores(all);
}
