//! A job that stands first and cannot start holds back those behind it, so that it starts at last. Where what it lacks
//! is held by other jobs of its own user, that user alone decides how long this lasts: then it holds back that user's
//! jobs and no others. Absent: how many may pass a job that others hold up (`order`).

use crate::api::{Class, JobId};
use crate::cores::{sets, slots};
use crate::memory::forecast;
use crate::memory::oracle::{self, Deficit};
use crate::rooms::Rooms;

/// The user of a job, if the job waits for what other jobs of that user hold: without those it would have the slots and
/// the memory that it lacks; or it would not have them as long as those are there, whatever all others hold. Never so for
/// an exclusive job, which all others are in the way of.
pub(crate) fn held_up_by_its_own(rooms: &Rooms, id: JobId) -> Option<u32> {
    let job = rooms.jobs.get(&id)?;
    if job.request.class == Some(Class::Exclusive) {
        return None;
    }
    let owner = job.request.owner;
    let (mut own_slots, mut own_homes, mut own_bytes) = (0, 0, 0_u64);
    for other in rooms.jobs.lives().filter(|other| other.request.owner == owner && other.id() != id) {
        if other.has_slot() {
            own_slots += other.slots();
            own_homes +=
                other.live().filter(|live| live.class == Class::Primary).map_or(0, |live| live.cores.len());
        }
        own_bytes = own_bytes.saturating_add(forecast::counts_for(rooms, other));
    }
    let free = slots::free_slots(&rooms.cores, &rooms.settings);
    let lacks_slots = job.slots().saturating_sub(free);
    let lacking_bytes = match oracle::lacks_memory(rooms, id) {
        None => 0,
        Some(Deficit::Room { wanted, free } | Deficit::Growth { wanted, free }) => {
            wanted.saturating_sub(free).max(1)
        }
        Some(_) => 1,
    };
    // It lacks neither: then it is cores of a kind that it waits for.
    let lacks_homes = lacks_slots == 0 && lacking_bytes == 0;
    let lacks_cores = if lacks_homes { job.slots() } else { lacks_slots };
    let (all_slots, all_homes) = (slots::total(&rooms.cores, &rooms.settings), rooms.cores.grid().len());
    let never_beside = own_slots > 0 && job.slots() > all_slots.saturating_sub(own_slots)
        || own_homes > 0 && lacks_homes && job.slots() > all_homes.saturating_sub(own_homes);
    let never_fits = own_bytes > 0
        && rooms.memory.usable().is_some_and(|usable| {
            lacking_bytes > 0 && forecast::counts_for(rooms, job) > usable.saturating_sub(own_bytes)
        });
    let its_own = (lacks_cores <= own_slots || never_beside) && (lacking_bytes <= own_bytes || never_fits);
    its_own.then_some(owner)
}

/// The same in a set of cores, where other jobs of its user have the cores that it lacks.
pub(crate) fn held_up_in_set(rooms: &Rooms, at: usize, id: JobId) -> Option<u32> {
    let job = rooms.jobs.get(&id)?;
    let (owner, set) = (job.request.owner, &rooms.cores.reservations()[at]);
    let held = set.holders.iter().filter(|&&holder| rooms.jobs[&holder].request.owner == owner);
    let held: usize = held.filter_map(|&holder| rooms.jobs.live(holder)).map(|live| live.cores.len()).sum();
    let lacking = sets::wanted_in(&rooms.cores, job, at).saturating_sub(set.cores.free_homes());
    (lacking > 0 && lacking <= held).then_some(owner)
}

#[cfg(test)]
mod tests;
