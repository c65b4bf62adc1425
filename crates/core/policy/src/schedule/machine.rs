//! The machine changed: jobs are put where they can be, and what depends on the cores is looked at again.

use crate::api::{JobId, Machine};
use crate::cores::{change, headroom};
use crate::jobs::JobTable;
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::{enqueue, resize, transition};

/// The jobs that ask for a reservation.
fn asking(jobs: &JobTable) -> Vec<JobId> {
    jobs.values().filter(|job| job.request.aside.is_some()).map(|job| job.id()).collect()
}

pub(crate) fn set_machine(rooms: &mut Rooms, machine: Machine) {
    for job in asking(&rooms.jobs) {
        line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, job);
    }
    let mut moved = change::leave_reservations(&mut rooms.cores, &mut rooms.jobs, &rooms.settings);
    rooms.queue.renew_reserved(machine.asides.len());
    let old = change::renew(&mut rooms.cores, machine);
    rooms.nodes.renew(rooms.cores.machine().topology.as_deref());
    let changed = change::place_on_host(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, &old);
    moved.extend(changed.moved);
    transition::apply(rooms, changed.updates);
    let placed = change::place_in_reservations(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, moved);
    transition::apply(rooms, placed);
    for job in asking(&rooms.jobs) {
        enqueue::enqueue(rooms, job);
    }
    transition::apply(rooms, line::requeue_constrained(&rooms.jobs));
    if headroom::set_headroom(&mut rooms.cores, &rooms.settings, rooms.now) {
        resize::clip(rooms);
    }
    resize::clip(rooms);
}
