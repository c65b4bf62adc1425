//! The settings changed.

use crate::api::{JobId, Reason, Settings};
use crate::cores::{assign, change, headroom, interference, pick, resize};
use crate::queue::line;
use crate::rooms::Rooms;
use crate::shares::pools::Pools;

pub(crate) fn configure(rooms: &mut Rooms, settings: Settings) {
    let old = std::mem::replace(&mut rooms.settings, settings);
    if old.projects != rooms.settings.projects {
        renew_pools(rooms);
    }
    headroom::set_headroom(rooms);
    interference::reset(rooms);
    resize::clip(rooms);
    // Which PUs a job has depends on the settings, and with them the nodes beside it.
    assign::running_changed(rooms);
    if old.schedule != rooms.settings.schedule {
        change::reclass_all(rooms);
        // Where nothing waits for slots, nobody is shut out.
        line::requeue_constrained(rooms);
    } else if old.affinity != rooms.settings.affinity {
        pick::update_running(rooms, &Reason::ASKED);
    }
    if old.drain != rooms.settings.drain {
        let all: Vec<JobId> = rooms.jobs.ids();
        for job in all {
            line::dequeue(rooms, job);
            line::enqueue(rooms, job);
        }
    }
    if old.queue_ttl != rooms.settings.queue_ttl {
        let all: Vec<JobId> = rooms.jobs.ids();
        all.into_iter().for_each(|job| line::rearm(rooms, job));
    }
}

/// The projects are now those of the settings.
fn renew_pools(rooms: &mut Rooms) {
    rooms.shares = Pools::new(&rooms.settings.projects);
    let all: Vec<JobId> = rooms.jobs.ids();
    for id in all {
        line::dequeue(rooms, id);
        if let Some(job) = rooms.jobs.get(&id) {
            let pools = rooms.shares.of(job.request.project.as_deref());
            rooms.jobs.set_pools(id, pools);
        }
        line::enqueue(rooms, id);
    }
}
