//! Countable resources (licences, GPUs): what waiting jobs ask for, what is free, and for which of them some is kept.
//!
//! A job that lacks a resource does not stand in line, so that others go on with the cores. The first in the queue that
//! asks for a resource is passed over at most [`PASSED_MAX`] times by others that take of what it lacks, and not at all
//! once it has waited too long: from then on nobody else gets what it asks for. Only the first is kept something, and
//! of all that it asks for, so that no two jobs wait for what is kept for the other. Absent: what jobs hold
//! ([`crate::jobs`]), and which of several alike they are given, which is the caller's.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

use crate::api::{Amount, JobId};
use crate::cores::slots;
use crate::jobs::Demand;
use crate::memory::oracle;
use crate::queue::order::{First, PASSED_MAX, RANK_AGED};
use crate::rooms::Rooms;

/// How much of a resource there is.
pub(crate) fn total(rooms: &Rooms, name: &str) -> u64 {
    rooms.settings.resources.iter().find(|one| one.name == name).map_or(0, |one| one.count)
}

/// How much of it no job has. Less than none is none: there may have been more.
pub(crate) fn free(rooms: &Rooms, name: &str) -> u64 {
    total(rooms, name).saturating_sub(rooms.jobs.taken(name))
}

/// The first in the queues that asks for a resource and waits for nothing else but its turn, with its rank; of all
/// resources at once, as one walk through the queues costs as much as another.
fn firsts(rooms: &Rooms) -> BTreeMap<String, (u8, JobId)> {
    let room = OnceCell::new();
    let mut found = BTreeMap::new();
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
            let mut here: BTreeMap<&str, First> = BTreeMap::new();
            for (shape, first) in shapes {
                let list = rooms.queue.wanted.list(shape.resources);
                // One that asks for more than there is waits for more to be there, and keeps nobody from what there is.
                if list.iter().any(|one| one.count > total(rooms, &one.name)) {
                    continue;
                }
                for one in list.iter().filter(|one| !found.contains_key(&one.name)) {
                    here.entry(&one.name).and_modify(|known| *known = first.min(*known)).or_insert(first);
                }
            }
            found.extend(here.into_iter().map(|(name, first)| (name.to_owned(), (rank, first.job))));
        }
    }
    found
}

/// The jobs that some of a resource is kept for, by the resource: they waited too long, or were passed over often
/// enough.
fn kept(rooms: &Rooms) -> BTreeMap<String, JobId> {
    let is_kept = |&(rank, id): &(u8, JobId)| rank == RANK_AGED || rooms.jobs[&id].passed >= PASSED_MAX;
    firsts(rooms).into_iter().filter(|(_, first)| is_kept(first)).map(|(name, (_, id))| (name, id)).collect()
}

/// The job that some of a resource is kept for.
pub(crate) fn kept_for(rooms: &Rooms, name: &str) -> Option<JobId> {
    kept(rooms).remove(name)
}

fn asked(rooms: &Rooms, id: JobId, name: &str) -> u64 {
    let list = rooms.jobs.get(&id).map_or(&[][..], |job| &job.request.resources);
    list.iter().find(|one| one.name == name).map_or(0, |one| one.count)
}

/// What of a resource job `id` could have if it started now; `kept`: the job that some is kept for.
fn left_for(rooms: &Rooms, id: JobId, name: &str, kept: Option<JobId>) -> u64 {
    let kept = kept.filter(|&kept| kept != id).map_or(0, |kept| asked(rooms, kept, name));
    free(rooms, name).saturating_sub(kept)
}

/// The first resource of which a job that waits cannot have what it asks for now.
pub(crate) fn lacking(rooms: &Rooms, id: JobId) -> Option<&Amount> {
    let job = rooms.jobs.get(&id).filter(|job| job.live().is_none())?;
    let kept = OnceCell::new();
    let kept_for = |name: &str| kept.get_or_init(|| self::kept(rooms)).get(name).copied();
    let lacks = |one: &&Amount| {
        one.count > free(rooms, &one.name) || one.count > left_for(rooms, id, &one.name, kept_for(&one.name))
    };
    job.request.resources.iter().find(lacks)
}

/// What is left for jobs that are to start, for the comparison of many.
#[derive(Debug, Default)]
pub(crate) struct ResourcesLeft {
    /// The jobs that something is kept for.
    kept: OnceCell<BTreeMap<String, JobId>>,
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
        let for_others = |name: &str| kept.get(name).copied().filter(|&id| shape_of(id) != Some(shape));
        let suffices = |one: &Amount| {
            let others = for_others(&one.name).map_or(0, |id| asked(rooms, id, &one.name));
            one.count <= self.free(rooms, &one.name).saturating_sub(others)
        };
        if list.iter().any(|one| kept.contains_key(&one.name)) {
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
    let lacks = |name: &str| {
        let &(_, id) = firsts.get(name).filter(|&&(_, id)| id != by)?;
        (asked(rooms, id, name) > free(rooms, name)).then_some(id)
    };
    let mut passed: Vec<JobId> = job.request.resources.iter().filter_map(|one| lacks(&one.name)).collect();
    passed.sort_unstable();
    passed.dedup();
    passed
}

#[cfg(test)]
mod tests;
