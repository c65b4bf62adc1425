//! The settings changed.

use crate::api::{JobId, Reason, Settings};
use crate::cores::{change, headroom, interference, pick, sets};
use crate::jobs::Transition;
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::{enqueue, resize, transition};
use crate::shares::pools::Pools;

pub(crate) fn configure(rooms: &mut Rooms, settings: Settings) {
    let old = std::mem::replace(&mut rooms.settings, settings);
    if old.projects != rooms.settings.projects {
        renew_pools(rooms);
    }
    if headroom::set_headroom(&mut rooms.cores, &rooms.settings, rooms.now) {
        resize::clip(rooms);
    }
    let rested = interference::reset(&mut rooms.cores, &rooms.jobs, &rooms.settings);
    transition::apply(rooms, rested);
    resize::clip(rooms);
    // Which PUs a job has depends on the settings, and with them the nodes beside it.
    rooms.cores.touch();
    if old.schedule != rooms.settings.schedule {
        let changed = change::reclass_all(&mut rooms.cores, &mut rooms.jobs, &rooms.settings);
        transition::apply(rooms, changed);
        // Where nothing waits for slots, no job is kept out.
        transition::apply(rooms, line::requeue_constrained(&rooms.jobs));
    } else if old.affinity != rooms.settings.affinity {
        let host = pick::highest_first(&rooms.cores);
        let running = host.into_iter().chain(sets::in_reservations(&rooms.cores, &rooms.jobs));
        transition::apply(rooms, running.map(|job| Transition::Update { job, reason: Reason::ASKED }));
    }
    if old.drain != rooms.settings.drain {
        for job in rooms.jobs.ids() {
            enqueue::reenqueue(rooms, job);
        }
    }
    if old.queue_ttl != rooms.settings.queue_ttl {
        for job in rooms.jobs.ids() {
            line::rearm(&mut rooms.jobs, &rooms.queue, &rooms.settings, job);
        }
    }
}

/// The projects are now those of the settings.
fn renew_pools(rooms: &mut Rooms) {
    rooms.shares = Pools::new(&rooms.settings.projects);
    let all: Vec<JobId> = rooms.jobs.ids();
    for id in all {
        line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
        if let Some(job) = rooms.jobs.get(&id) {
            let pools = rooms.shares.of(job.request.project.as_deref());
            rooms.jobs.set_pools(id, pools);
        }
        enqueue::enqueue(rooms, id);
    }
}
