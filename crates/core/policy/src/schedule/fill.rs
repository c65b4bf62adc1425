//! Free slots go to the next in the queue.

use std::cell::OnceCell;

use crate::api::{Class, JobId};
use crate::cores::slots;
use crate::jobs::Demand;
use crate::memory::oracle;
use crate::queue::head::{self, Left};
use crate::queue::{owner, resources};
use crate::rooms::Rooms;
use crate::schedule::hold_back::HoldBack;
use crate::schedule::plan::Plan;
use crate::schedule::{hold_back, plan, promote, start, token};
use crate::shares::{core_pool, memory_pool};

/// A best-effort job stands first in line and has to wait. The first of the others that can have cores of its own gets
/// them now, if best-effort jobs make the room; says whether one did.
fn pass_best_effort(rooms: &mut Rooms) -> bool {
    let left = Left::default();
    let others = |shape: Demand| {
        shape.class != Some(Class::Backfill) && head::is_in_line(rooms, shape) && left.suffices(rooms, shape)
    };
    let Some((_, next)) = rooms.queue.host().first(others) else { return false };
    if rooms.jobs[&next].request.class == Some(Class::Exclusive) {
        return start::start_exclusive(rooms, next);
    }
    if oracle::lacks_memory(rooms, next).is_some() {
        return false;
    }
    let Some(plan) = plan::plan(rooms, next, true) else { return false };
    start::admit(rooms, next, plan);
    promote::promote(rooms);
    true
}

/// A job that can start on memory that is its project's own and is free, and how; whoever of others stands before it
/// in the queue.
fn next_on_its_own(rooms: &Rooms) -> Option<(JobId, Plan)> {
    rooms.memory.claims().iter().find_map(|&(id, wanted)| {
        let job = rooms.jobs.get(&id).filter(|job| job.live().is_none() && job.queued.is_some())?;
        let exclusive = job.request.class == Some(Class::Exclusive);
        let may = !exclusive
            && memory_pool::memory_is_its_own(rooms, job, wanted)
            && resources::lacking(rooms, id).is_none()
            && oracle::lacks_memory(rooms, id).is_none();
        may.then(|| plan::plan(rooms, id, false)).flatten().map(|plan| (id, plan))
    })
}

/// The first job cannot start. Another that can does so in its place, unless that would keep the first waiting for
/// ever; says whether there may be a further one.
fn pass(rooms: &mut Rooms, rank: u8, head: JobId) -> bool {
    if slots::free_slots(&rooms.cores, &rooms.settings) == 0 {
        return false;
    }
    let held = hold_back::of(rooms, rank, head);
    let own = match held {
        HoldBack::Nothing => owner::held_up_by_its_own(rooms, head),
        HoldBack::OwnersJobs(owner) => Some(owner),
        HoldBack::Homes(_) => None,
        HoldBack::All => return false,
    };
    let (room, left) = (OnceCell::new(), Left::default());
    let fits = |shape: Demand| {
        held.lets_start(rooms, shape)
            && plan::fits(rooms, shape)
            && rooms.queue.arrays().has_room(shape.array)
            && left.suffices(rooms, shape)
            && (shape.memory == 0 || oracle::has_memory_room(rooms, shape, &room))
    };
    let Some((_, next)) = rooms.queue.host().first(fits).filter(|&(_, next)| next != head) else {
        return false;
    };
    if oracle::lacks_memory(rooms, next).is_some() {
        if rooms.jobs.live(next).is_some() {
            token::wait_for_memory(rooms, next);
            return true;
        }
        return false;
    }
    let Some(plan) = plan::plan(rooms, next, false) else { return false };
    start::admit(rooms, next, Plan { beside: held.kept_homes(), ..plan });
    // Jobs of others that pass take nothing from one that its own user's jobs hold up.
    let counts = own.is_none_or(|owner| rooms.jobs.get(&next).is_none_or(|job| job.request.owner == owner));
    if counts {
        rooms.jobs.pass_over(head);
    }
    true
}

/// Gives free slots to those that are next.
pub(crate) fn fill(rooms: &mut Rooms) {
    while rooms.cores.exclusive().is_none() {
        let Some((rank, head)) = head::head(rooms) else { return };
        let exclusive = rooms.jobs[&head].request.class == Some(Class::Exclusive);
        if exclusive {
            if start::start_exclusive(rooms, head) {
                return;
            }
            if !core_pool::waits_for_guaranteed(rooms, head) {
                return;
            }
        }
        let lack = oracle::lacks_memory(rooms, head);
        if lack.is_some() && rooms.jobs.live(head).is_some() && !exclusive {
            token::wait_for_memory(rooms, head);
            continue;
        }
        if lack.is_none()
            && !exclusive
            && let Some(plan) = plan::plan(rooms, head, true)
        {
            start::admit(rooms, head, plan);
            // Those that gave way may have left more homes than the newcomer needs.
            promote::promote(rooms);
            continue;
        }
        if rooms.jobs.asks_for_idle_cycles(head) && pass_best_effort(rooms) {
            continue;
        }
        if rooms.jobs.live(head).is_none()
            && let Some((own, plan)) = next_on_its_own(rooms)
        {
            start::admit(rooms, own, plan);
            continue;
        }
        if !pass(rooms, rank, head) {
            return;
        }
    }
}
