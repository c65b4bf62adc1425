//! Each reservation starts the next job in its queue, as far as its cores go.

use pinfold_topo::CpuSet;

use crate::api::{Class, CoreReason, JobId, Reason};
use crate::cores::{assign, sets, shape};
use crate::jobs::Demand;
use crate::memory::{ladder, oracle};
use crate::queue::order::PASSED_MAX;
use crate::queue::resources::ResourcesLeft;
use crate::queue::{head, line};
use crate::rooms::Rooms;
use crate::schedule::start;

/// Starts those who are next in each set, as far as its cores go.
pub(crate) fn fill_reservations(rooms: &mut Rooms) {
    for at in 0..rooms.cores.reservations().len() {
        settle_in(rooms, at);
        while let Some(job) = next_in(rooms, at) {
            admit_in(rooms, at, job);
        }
    }
}

/// Who found no cores of its own when the set changed gets them now.
fn settle_in(rooms: &mut Rooms, at: usize) {
    if !rooms.settings.schedule || rooms.cores.reservations()[at].cores.free_homes() == 0 {
        return;
    }
    let homeless = |id: &JobId| rooms.jobs.live(*id).is_some_and(|live| live.cores.is_empty());
    let found: Vec<JobId> = rooms.cores.reservations()[at].holders.iter().copied().filter(homeless).collect();
    for id in found {
        if let Some(cores) = sets::room_in(rooms, at, &rooms.jobs[&id], &CpuSet::new()) {
            assign::release(rooms, id);
            assign::occupy(rooms, id, Class::Primary, cores);
            rooms.pending.request_update(id, Reason::Core(CoreReason::CpusChanged));
        }
    }
}

/// The next that can start in a set now. One that stands first and does not fit is passed by so many later ones.
fn next_in(rooms: &mut Rooms, at: usize) -> Option<JobId> {
    loop {
        let left = ResourcesLeft::default();
        let has_room =
            |shape: Demand| rooms.queue.arrays().has_room(shape.array) && left.suffice(rooms, shape);
        let possible = |shape: Demand| {
            shape.cores as usize <= rooms.cores.reservations()[at].cores.len() && has_room(shape)
        };
        let (_, head) = rooms.queue.of(Some(at)).first(possible)?;
        if oracle::lacks_memory(rooms, head).is_some() {
            rooms.jobs.live(head)?;
            ladder::wait_for_memory(rooms, head);
            continue;
        }
        if fits_in(rooms, at, head) {
            return Some(head);
        }
        if rooms.jobs[&head].passed >= PASSED_MAX {
            return None;
        }
        let free = rooms.cores.reservations()[at].cores.free_homes();
        let (_, next) = rooms
            .queue
            .of(Some(at))
            .first(|shape: Demand| shape.cores as usize <= free && has_room(shape))?;
        if next == head || oracle::lacks_memory(rooms, next).is_some() || !fits_in(rooms, at, next) {
            return None;
        }
        rooms.jobs.pass_over(head);
        return Some(next);
    }
}

fn fits_in(rooms: &Rooms, at: usize, id: JobId) -> bool {
    let job = &rooms.jobs[&id];
    head::has_what_is_counted(rooms, job)
        && (!rooms.settings.schedule || sets::room_in(rooms, at, job, &CpuSet::new()).is_some())
}

fn admit_in(rooms: &mut Rooms, at: usize, id: JobId) {
    shape::decide_shape(rooms, id);
    let early = ladder::note_overcommit(rooms, id);
    let job = &rooms.jobs[&id];
    // A frozen one returns to where it was, if it can.
    let had = job.live().and_then(|live| live.applied.cpus.clone()).unwrap_or_default();
    let scheduled = rooms.settings.schedule;
    let cores = if scheduled { sets::room_in(rooms, at, job, &had).unwrap_or_default() } else { Vec::new() };
    line::dequeue(rooms, id);
    start::begin(rooms, id, Class::Primary, cores, &[], early);
}
