//! Each reservation starts the next job in its queue, as far as its cores go.

use pinfold_topo::CpuSet;

use crate::api::{Class, CoreReason, JobId, Reason, Settings};
use crate::cores::host::Host;
use crate::cores::{assign, sets, shape};
use crate::jobs::{Demand, JobTable, Transition};
use crate::memory::oracle;
use crate::queue::order::PASSED_MAX;
use crate::queue::resources::ResourcesLeft;
use crate::queue::{head, line, owner};
use crate::rooms::Rooms;
use crate::schedule::{start, token, transition};

/// Starts those that are next in each set, as far as its cores go.
pub(crate) fn fill_reservations(rooms: &mut Rooms) {
    for at in 0..rooms.cores.reservations().len() {
        let settled = settle_in(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, at);
        transition::apply(rooms, settled);
        while let Some(job) = next_in(rooms, at) {
            admit_in(rooms, at, job);
        }
    }
}

/// Jobs that found no cores of their own when the set changed get them now.
fn settle_in(host: &mut Host, jobs: &mut JobTable, settings: &Settings, at: usize) -> Vec<Transition> {
    if !settings.schedule || host.reservations()[at].cores.free_homes() == 0 {
        return Vec::new();
    }
    let homeless = |id: &JobId| jobs.live(*id).is_some_and(|live| live.cores.is_empty());
    let found: Vec<JobId> = host.reservations()[at].holders.iter().copied().filter(homeless).collect();
    let settled = found.into_iter().filter_map(|job| {
        let cores = sets::room_in(host, at, &jobs[&job], &CpuSet::new())?;
        assign::release(host, jobs, job);
        assign::occupy(host, jobs, settings, job, Class::Primary, cores);
        Some(Transition::Update { job, reason: Reason::Core(CoreReason::CpusChanged) })
    });
    settled.collect()
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
            token::wait_for_memory(rooms, head);
            continue;
        }
        if fits_in(rooms, at, head) {
            return Some(head);
        }
        let own = owner::held_up_in_set(rooms, at, head);
        let holds_back = rooms.jobs[&head].passed >= PASSED_MAX;
        if holds_back && own.is_none() {
            return None;
        }
        let free = rooms.cores.reservations()[at].cores.free_homes();
        let may = |shape: Demand| !holds_back || own.is_none_or(|owner| shape.owner != owner);
        let (_, next) = rooms
            .queue
            .of(Some(at))
            .first(|shape: Demand| shape.cores as usize <= free && has_room(shape) && may(shape))?;
        if next == head || oracle::lacks_memory(rooms, next).is_some() || !fits_in(rooms, at, next) {
            return None;
        }
        // As in the queue of the host.
        if own.is_none_or(|owner| rooms.jobs[&next].request.owner == owner) {
            rooms.jobs.pass_over(head);
        }
        return Some(next);
    }
}

fn fits_in(rooms: &Rooms, at: usize, id: JobId) -> bool {
    let job = &rooms.jobs[&id];
    head::has_what_is_counted(rooms, job)
        && (!rooms.settings.schedule || sets::room_in(&rooms.cores, at, job, &CpuSet::new()).is_some())
}

fn admit_in(rooms: &mut Rooms, at: usize, id: JobId) {
    if let Some(shape) = shape::decide_shape(&mut rooms.cores, &rooms.settings, &rooms.jobs[&id]) {
        rooms.jobs.set_shape(id, shape);
    }
    let early = start::note_overcommit(rooms, id);
    let job = &rooms.jobs[&id];
    // A frozen one returns to where it was, if it can.
    let had = job.live().and_then(|live| live.applied.cpus.clone()).unwrap_or_default();
    let scheduled = rooms.settings.schedule;
    let cores =
        if scheduled { sets::room_in(&rooms.cores, at, job, &had).unwrap_or_default() } else { Vec::new() };
    line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
    start::begin(rooms, id, Class::Primary, cores, &[], early);
}
