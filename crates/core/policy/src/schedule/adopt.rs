//! A job found again after a restart: what it has is kept where it fits, and put right where it does not.
//!
//! Nothing is asked for here: two jobs that claim the same core may still both be followed by a third. The first event
//! of another kind settles it. One that is known already is put right: it may be found once by its group, and told of
//! later by its keeper.

use crate::api::{Adopted, AgainReason, Class, JobId, Reason, Running};
use crate::cores::{assign, sets, shape};
use crate::jobs::{Applied, Live, Phase, SuspendReason};
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::{end, enqueue, start, submit};

pub(crate) fn adopt(rooms: &mut Rooms, adopted: Adopted) {
    let Adopted { mut request, submitted, waits_since, array_room_since, running } = adopted;
    request.cores = request.cores.max(1);
    request.priority = request.priority.clamp(1, 16);
    let id = request.job;
    // Whoever keeps it knows better than the disk and the kernel whether it runs.
    if rooms.jobs.contains_key(&id) {
        end::unlearn(rooms, id);
    }
    if let Some(since) = array_room_since {
        rooms.queue.arrays_mut().found(&request, since);
    }
    let slots = request.cores as usize;
    let Some(running) = running else {
        submit::add_waiting(rooms, request, submitted);
        if let Some(since) = waits_since {
            rooms.jobs.wait_from(id, since);
            line::rearm(&mut rooms.jobs, &rooms.queue, &rooms.settings, id);
        }
        return;
    };
    request.held = true; // keeps it out of the queue until it lives
    submit::add_waiting(rooms, request, submitted);
    let phase = match (running.suspended, running.frozen) {
        (true, _) => Phase::Suspended { why: SuspendReason::Suspended, by_user: true },
        (false, true) => Phase::Suspended { why: SuspendReason::Found, by_user: false },
        (false, false) => Phase::Running { grace: None },
    };
    let live = Live {
        // Its weight cannot be read back for sure: the priority may have changed just before the end.
        applied: Applied { weight: None, cpus: Some(running.cpus.clone()), frozen: Some(running.frozen) },
        ..Live::new(phase, running.started, running.class)
    };
    start::start_job(&mut rooms.jobs, &mut rooms.queue, id, live);
    rooms.nodes.unsure_of(id);
    let shape = shape::shape_found(&rooms.settings, &rooms.jobs[&id]);
    rooms.jobs.set_shape(id, shape);
    let mut reason = Reason::Again(AgainReason::Restored);
    if phase.suspend_reason().is_some() {
        rooms.jobs.wait_from(id, rooms.now);
        enqueue::enqueue(rooms, id);
    } else {
        let (class, cores, fits) = match sets::reservation_of(&rooms.cores, &rooms.jobs[&id]) {
            Some(at) => claim_in(rooms, at, id, &running),
            None => claim(rooms, id, &running, slots),
        };
        assign::occupy(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, id, class, cores);
        if fits {
            reason = Reason::Again(AgainReason::Adopted);
        }
    }
    rooms.pending.request_update(id, reason);
}

/// The cores that a running job keeps in its set, and whether these are what it had.
fn claim_in(rooms: &Rooms, at: usize, id: JobId, running: &Running) -> (Class, Vec<usize>, bool) {
    let room =
        sets::room_in(&rooms.cores, at, &rooms.jobs[&id], &running.cpus).filter(|_| rooms.settings.schedule);
    let fits =
        room.as_ref().is_some_and(|room| rooms.cores.reservations()[at].cores.cpus(room) == running.cpus);
    (Class::Primary, room.unwrap_or_default(), fits)
}

/// The class and the cores that a running job keeps, and whether that is what it had.
fn claim(rooms: &Rooms, id: JobId, running: &Running, slots: usize) -> (Class, Vec<usize>, bool) {
    if !rooms.settings.schedule {
        return (Class::Primary, Vec::new(), running.class == Class::Primary);
    }
    let had = rooms.cores.grid().touched_by(&running.cpus);
    match running.class {
        Class::Exclusive if rooms.cores.exclusive().is_none() => {
            (Class::Exclusive, (0..rooms.cores.grid().len()).collect(), true)
        }
        Class::Primary
            if had.len() == slots
                && had.iter().all(|&core| rooms.cores.grid().get(core).home_of.is_none()) =>
        {
            (Class::Primary, had, true)
        }
        Class::Backfill if had.len() == slots => (Class::Backfill, had, true),
        Class::Backfill if had.len() > 1 && rooms.jobs[&id].request.wish.is_none() && slots == 1 => {
            // It was free to move among them.
            let load = |core: usize| {
                (rooms.cores.grid().get(core).backfillers, rooms.cores.grid().crowd_milli(core))
            };
            let cores: Vec<usize> = had.into_iter().min_by_key(|&core| load(core)).into_iter().collect();
            let fits = rooms.cores.grid().around(&cores) == running.cpus;
            (Class::Backfill, cores, fits)
        }
        // Placed once all are known; a home, if one is free then.
        Class::Primary | Class::Backfill | Class::Exclusive => (Class::Backfill, Vec::new(), false),
    }
}
