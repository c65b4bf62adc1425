//! A job that stands first and cannot start holds back those behind it, so that it starts at last. Where what it lacks
//! is held by other jobs of its own user, that user alone decides how long this lasts: then it holds back that user's
//! jobs and no others. Absent: how many may pass a job that others hold up (`order`).

use std::collections::BTreeMap;

use crate::api::{Class, JobId};
use crate::cores::{sets, slots};
use crate::jobs::{Demand, Job};
use crate::memory::forecast;
use crate::memory::oracle::{self, Deficit};
use crate::rooms::Rooms;

/// Whether jobs of its own user are why a job lacks so much of what there is: they have that much, or as long as they have
/// what they do it could never have what it wants, whatever all others hold.
pub(super) fn are_in_the_way(own: u64, lacking: u64, wanted: u64, all: u64) -> bool {
    lacking <= own || own > 0 && wanted > all.saturating_sub(own)
}

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
    if lacks_homes && let Some(homes) = only_homes(rooms, job) {
        return lacks_its_owners_homes(rooms, job, &homes).then_some(owner);
    }
    let lacks_cores = if lacks_homes { job.slots() } else { lacks_slots };
    let (all_slots, all_homes) = (slots::total(&rooms.cores, &rooms.settings), rooms.cores.grid().len());
    let never_at_home = own_homes > 0 && lacks_homes && job.slots() > all_homes.saturating_sub(own_homes);
    let slots = are_in_the_way(own_slots as u64, lacks_cores as u64, job.slots() as u64, all_slots as u64);
    let usable = rooms.memory.usable().unwrap_or(u64::MAX);
    let memory = are_in_the_way(own_bytes, lacking_bytes, forecast::counts_for(rooms, job), usable);
    ((slots || never_at_home) && memory).then_some(owner)
}

/// The home cores that alone a job may have; `None`: any of the host's.
pub(crate) fn only_homes(rooms: &Rooms, job: &Job) -> Option<Vec<usize>> {
    rooms.cores.grid().only_homes(job.slots(), job.request.wish.as_deref()?)
}

/// Whether a job lacks some of the home cores that alone it may have, and its own user's jobs are why.
fn lacks_its_owners_homes(rooms: &Rooms, job: &Job, homes: &[usize]) -> bool {
    let owner_of = |core: &usize| {
        let primary = rooms.cores.grid().get(*core).home_of?;
        rooms.jobs.get(&primary).map(|job| job.request.owner)
    };
    let taken: Vec<u32> = homes.iter().filter_map(owner_of).collect();
    let own = taken.iter().filter(|&&owner| owner == job.request.owner).count();
    let lacking = job.slots().saturating_sub(homes.len() - taken.len());
    lacking > 0 && are_in_the_way(own as u64, lacking as u64, job.slots() as u64, homes.len() as u64)
}

/// What each user's jobs have of the host's slots.
pub(super) fn slots_by_users(rooms: &Rooms) -> BTreeMap<u32, usize> {
    let mut held = BTreeMap::new();
    for job in rooms.jobs.lives() {
        if let Some(live) = job.live().filter(|live| live.aside.is_none()) {
            *held.entry(job.request.owner).or_default() += live.slots;
        }
    }
    held
}

/// Whether a job of this shape that has not started lacks slots, and its own user's jobs, which have `own` of them, are why.
pub(super) fn lacks_its_owners_slots(rooms: &Rooms, shape: Demand, own: usize) -> bool {
    let wanted = shape.cores as usize;
    let lacking = wanted.saturating_sub(slots::free_slots(&rooms.cores, &rooms.settings));
    let all = slots::total(&rooms.cores, &rooms.settings);
    shape.class != Some(Class::Exclusive)
        && lacking > 0
        && are_in_the_way(own as u64, lacking as u64, wanted as u64, all as u64)
}

/// The same in a set of cores, where other jobs of its user have the cores that it lacks.
pub(crate) fn held_up_in_set(rooms: &Rooms, at: usize, id: JobId) -> Option<u32> {
    let job = rooms.jobs.get(&id)?;
    let (owner, wanted) = (job.request.owner, sets::wanted_in(&rooms.cores, job, at));
    lacks_its_owners_cores(rooms, at, owner, wanted).then_some(owner)
}

/// Whether so many cores of a set are not free, and jobs of this user are why.
pub(super) fn lacks_its_owners_cores(rooms: &Rooms, at: usize, owner: u32, wanted: usize) -> bool {
    let set = &rooms.cores.reservations()[at];
    let lacking = wanted.saturating_sub(set.cores.free_homes());
    let held = set.holders.iter().filter(|&&holder| rooms.jobs[&holder].request.owner == owner);
    let held: usize = held.filter_map(|&holder| rooms.jobs.live(holder)).map(|live| live.cores.len()).sum();
    lacking > 0 && are_in_the_way(held as u64, lacking as u64, wanted as u64, set.cores.len() as u64)
}

#[cfg(test)]
mod tests;
