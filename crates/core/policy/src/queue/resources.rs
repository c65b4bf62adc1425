//! Countable resources (licences, GPUs): what waiting jobs ask for, what is free, and for which of them some is kept.
//!
//! A job that lacks a resource does not stand in line, so that others go on with the cores. The first in the queue that
//! asks for a resource is passed over at most [`PASSED_MAX`] times by others that take of what it lacks, and not at all
//! once it has waited too long: from then on nobody else gets what it asks for. Only the first is kept something, and
//! of all that it asks for, so that no two jobs wait for what is kept for the other. Where what it lacks, of a resource or
//! of cores, is held by other jobs of its own user, that user alone decides how long this lasts: then it is kept from that
//! user's jobs and no others' (as with slots, `owner`). Absent: what jobs hold ([`crate::jobs`]), and which of several alike they are given, which is
//! the caller's.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

use crate::api::{Amount, JobId};
use crate::cores::slots;
use crate::jobs::Demand;
use crate::memory::oracle;
use crate::queue::order::{First, PASSED_MAX, RANK_AGED};
use crate::queue::owner;
use crate::rooms::Rooms;

/// How much of a resource there is.
pub(crate) fn total(rooms: &Rooms, name: &str) -> u64 {
    rooms.settings.resources.iter().find(|one| one.name == name).map_or(0, |one| one.count)
}

/// How much of it no job has. Less than none is none: there may have been more.
pub(crate) fn free(rooms: &Rooms, name: &str) -> u64 {
    total(rooms, name).saturating_sub(rooms.jobs.taken(name))
}

/// Jobs by the resource that they are first for: before all jobs (`None`), or before those of one user alone.
type Firsts<T> = BTreeMap<Option<u32>, BTreeMap<String, T>>;

/// What a user's jobs have of each resource.
fn held_by_users(rooms: &Rooms) -> BTreeMap<(u32, &str), u64> {
    let mut held = BTreeMap::new();
    for job in rooms.jobs.lives() {
        for one in &job.request.resources {
            let count: &mut u64 = held.entry((job.request.owner, one.name.as_str())).or_default();
            *count = count.saturating_add(one.count);
        }
    }
    held
}

/// The first in the queues that asks for a resource and waits for nothing else but its turn, with its rank; of all
/// resources at once, as one walk through the queues costs as much as another. One that other jobs of its own user hold up
/// is first among that user's jobs alone, as that user alone decides how long this lasts.
fn firsts(rooms: &Rooms) -> Firsts<(u8, JobId)> {
    let (room, held, slots) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
    let held = |owner: u32, name: &str| {
        held.get_or_init(|| held_by_users(rooms)).get(&(owner, name)).copied().unwrap_or(0)
    };
    let lacks_cores = |at: usize, shape: Demand| match at.checked_sub(1) {
        None => {
            let held = slots.get_or_init(|| owner::slots_by_users(rooms));
            owner::lacks_its_owners_slots(rooms, shape, held.get(&shape.owner).copied().unwrap_or(0))
        }
        Some(at) => owner::lacks_its_owners_cores(rooms, at, shape.owner, shape.cores as usize),
    };
    let mut found: Firsts<(u8, JobId)> = BTreeMap::new();
    for (at, queue) in rooms.queue.all().enumerate() {
        let waits_its_turn = |shape: Demand| {
            shape.resources > 0
                && rooms.queue.arrays().has_room(shape.array)
                // One that lacks memory as well would leave what is kept for it idle.
                && (shape.memory == 0 || oracle::has_memory_room(rooms, shape, &room))
                && match at.checked_sub(1) {
                    None => slots::is_possible(&rooms.cores, &rooms.settings, shape),
                    Some(at) => shape.cores as usize <= rooms.cores.reservations()[at].cores.len(),
                }
        };
        for (rank, shapes) in queue.firsts(waits_its_turn) {
            let mut here: BTreeMap<(Option<u32>, &str), First> = BTreeMap::new();
            for (shape, first) in shapes {
                let list = rooms.queue.wanted.list(shape.resources);
                // One that asks for more than there is waits for more to be there, and keeps nobody from what there is.
                if list.iter().any(|one| one.count > total(rooms, &one.name)) {
                    continue;
                }
                let is_held_up = |one: &Amount| {
                    let lacking = one.count.saturating_sub(free(rooms, &one.name));
                    let (own, all) = (held(shape.owner, &one.name), total(rooms, &one.name));
                    lacking > 0 && owner::are_in_the_way(own, lacking, one.count, all)
                };
                let is_held_up = list.iter().any(is_held_up) || lacks_cores(at, shape);
                let among = is_held_up.then_some(shape.owner);
                let known =
                    |one: &&Amount| found.get(&among).is_some_and(|known| known.contains_key(&one.name));
                for one in list.iter().filter(|one| !known(one)) {
                    here.entry((among, one.name.as_str()))
                        .and_modify(|known| *known = first.min(*known))
                        .or_insert(first);
                }
            }
            for ((among, name), first) in here {
                found.entry(among).or_default().insert(name.to_owned(), (rank, first.job));
            }
        }
    }
    found
}

/// The jobs that some of a resource is kept for, by the resource: they waited too long, or were passed over often
/// enough.
fn kept(rooms: &Rooms) -> Firsts<JobId> {
    let is_kept = |&(rank, id): &(u8, JobId)| rank == RANK_AGED || rooms.jobs[&id].passed >= PASSED_MAX;
    let kept = firsts(rooms).into_iter().map(|(among, firsts)| {
        let kept = firsts.into_iter().filter(|(_, first)| is_kept(first));
        (among, kept.map(|(name, (_, id))| (name, id)).collect())
    });
    kept.collect()
}

/// Those of them that are before a user's jobs: of all jobs, and of that user's.
fn before<'a, T>(firsts: &'a Firsts<T>, owner: u32, name: &'a str) -> impl Iterator<Item = &'a T> {
    [None, Some(owner)].into_iter().filter_map(move |among| firsts.get(&among)?.get(name))
}

/// The job that some of a resource is kept for, of which a job of this user gets nothing; of several the first.
pub(crate) fn kept_for(rooms: &Rooms, owner: u32, name: &str) -> Option<JobId> {
    before(&kept(rooms), owner, name).next().copied()
}

fn asked(rooms: &Rooms, id: JobId, name: &str) -> u64 {
    let list = rooms.jobs.get(&id).map_or(&[][..], |job| &job.request.resources);
    list.iter().find(|one| one.name == name).map_or(0, |one| one.count)
}

/// What of a resource is kept for these jobs.
fn kept_amount<'a>(rooms: &Rooms, name: &str, kept: impl Iterator<Item = &'a JobId>) -> u64 {
    kept.map(|&id| asked(rooms, id, name)).fold(0, u64::saturating_add)
}

/// The first resource of which a job that waits cannot have what it asks for now.
pub(crate) fn lacking(rooms: &Rooms, id: JobId) -> Option<&Amount> {
    let job = rooms.jobs.get(&id).filter(|job| job.live().is_none())?;
    let kept = OnceCell::new();
    let lacks = |one: &&Amount| {
        let free = free(rooms, &one.name);
        if one.count > free {
            return true;
        }
        let kept = kept.get_or_init(|| self::kept(rooms));
        let others = before(kept, job.request.owner, &one.name).filter(|&&kept| kept != id);
        one.count > free.saturating_sub(kept_amount(rooms, &one.name, others))
    };
    job.request.resources.iter().find(lacks)
}

/// What is left for jobs that are to start, for the comparison of many.
#[derive(Debug, Default)]
pub(crate) struct ResourcesLeft {
    /// The jobs that something is kept for.
    kept: OnceCell<Firsts<JobId>>,
    /// What is free of each resource that was looked at.
    free: RefCell<BTreeMap<String, u64>>,
    /// Whether the lists that were looked at suffice, where nothing is kept for a job of that shape.
    lists: RefCell<BTreeMap<u64, bool>>,
}

impl ResourcesLeft {
    /// Whether they suffice for such a job. Of jobs alike the one that something is kept for comes first.
    pub(crate) fn suffice(&self, rooms: &Rooms, shape: Demand) -> bool {
        if shape.resources == 0 {
            return true;
        }
        let list = rooms.queue.wanted.list(shape.resources);
        let shape_of = |id: JobId| rooms.jobs.get(&id)?.queued.map(|entry| entry.shape);
        let kept = self.kept.get_or_init(|| kept(rooms));
        let suffices = |one: &Amount| {
            let others = before(kept, shape.owner, &one.name).filter(|&&id| shape_of(id) != Some(shape));
            one.count <= self.free(rooms, &one.name).saturating_sub(kept_amount(rooms, &one.name, others))
        };
        if list.iter().any(|one| before(kept, shape.owner, &one.name).next().is_some()) {
            return list.iter().all(suffices);
        }
        *self.lists.borrow_mut().entry(shape.resources).or_insert_with(|| list.iter().all(suffices))
    }

    fn free(&self, rooms: &Rooms, name: &str) -> u64 {
        if let Some(&known) = self.free.borrow().get(name) {
            return known;
        }
        let found = free(rooms, name);
        self.free.borrow_mut().insert(name.to_owned(), found);
        found
    }
}

/// A job is about to take what it asks for: those that are first for it, and lack it, are passed over once more.
pub(crate) fn passed_by(rooms: &Rooms, by: JobId) -> Vec<JobId> {
    let Some(job) = rooms.jobs.get(&by).filter(|job| !job.request.resources.is_empty()) else {
        return Vec::new();
    };
    let firsts = firsts(rooms);
    let lack = |name: &String| {
        let firsts = before(&firsts, job.request.owner, name).map(|&(_, id)| id);
        firsts.filter(|&id| id != by && asked(rooms, id, name) > free(rooms, name)).collect::<Vec<_>>()
    };
    let mut passed: Vec<JobId> = job.request.resources.iter().flat_map(|one| lack(&one.name)).collect();
    passed.sort_unstable();
    passed.dedup();
    passed
}

#[cfg(test)]
mod tests;
