//! Countable resources (licences, GPUs): what waiting jobs ask for, what is free, and for which of them some is kept.
//!
//! A job that lacks a resource does not stand in line, so that others go on with the cores. The first in the queue that
//! asks for a resource is passed over at most [`PASSED_MAX`] times by others that take of what it lacks, and not at all once
//! it has waited too long: from then on nobody else gets what it asks for. Only the first is kept something, and of all
//! that it asks for, so that no two jobs wait for what is kept for the other. Absent: what
//! jobs hold ([`crate::jobs`]), and which of several alike they are given, which is the caller's.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::api::{Amount, JobId};
use crate::cores::slots;
use crate::jobs::Demand;
use crate::queue::order::{PASSED_MAX, Queue, RANK_AGED};
use crate::rooms::Rooms;

/// How much of a resource there is.
pub(crate) fn total(rooms: &Rooms, name: &str) -> u64 {
    rooms.settings.resources.iter().find(|one| one.name == name).map_or(0, |one| one.count)
}

/// How much of it no job has. Less than none is none: there may have been more.
pub(crate) fn free(rooms: &Rooms, name: &str) -> u64 {
    total(rooms, name).saturating_sub(rooms.jobs.taken(name))
}

/// The first in the queues that asks for a resource and waits for nothing but its turn, with its rank.
fn first(rooms: &Rooms, name: &str) -> Option<(u8, JobId)> {
    let asks = |shape: Demand| {
        let list = rooms.queue.wanted.list(shape.resources);
        // One that asks for more than there is waits for more to be there, and keeps nobody from what there is.
        list.iter().any(|one| one.name == name)
            && list.iter().all(|one| one.count <= total(rooms, &one.name))
            && rooms.queue.arrays().has_room(shape.array)
    };
    let in_queue = |(at, queue): (usize, &Queue)| {
        queue.first(|shape| {
            shape.resources > 0
                && asks(shape)
                && match at.checked_sub(1) {
                    None => slots::is_possible(rooms, shape),
                    Some(at) => shape.cores as usize <= rooms.cores.reservations()[at].cores.len(),
                }
        })
    };
    rooms.queue.all().enumerate().find_map(in_queue)
}

/// The job that some of a resource is kept for: it waited too long, or was passed over often enough.
pub(crate) fn kept_for(rooms: &Rooms, name: &str) -> Option<JobId> {
    let (rank, id) = first(rooms, name)?;
    (rank == RANK_AGED || rooms.jobs[&id].passed >= PASSED_MAX).then_some(id)
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
    job.request.resources.iter().find(|one| {
        one.count > free(rooms, &one.name)
            || one.count > left_for(rooms, id, &one.name, kept_for(rooms, &one.name))
    })
}

/// What is left for jobs that are to start, for the comparison of many.
#[derive(Debug, Default)]
pub(crate) struct ResourcesLeft {
    /// What is free of each resource that was looked at, and the job that some of it is kept for.
    known: RefCell<BTreeMap<String, (u64, Option<JobId>)>>,
}

impl ResourcesLeft {
    /// Whether they suffice for such a job. Of jobs alike the one that something is kept for comes first.
    pub(crate) fn suffice(&self, rooms: &Rooms, shape: Demand) -> bool {
        shape.resources == 0
            || rooms.queue.wanted.list(shape.resources).iter().all(|one| {
                let (free, kept) = self.of(rooms, &one.name);
                let shape_of = |id: JobId| rooms.jobs.get(&id)?.queued.map(|entry| entry.shape);
                let others = kept.filter(|&id| shape_of(id) != Some(shape));
                one.count <= free.saturating_sub(others.map_or(0, |id| asked(rooms, id, &one.name)))
            })
    }

    fn of(&self, rooms: &Rooms, name: &str) -> (u64, Option<JobId>) {
        if let Some(&known) = self.known.borrow().get(name) {
            return known;
        }
        let found = (free(rooms, name), kept_for(rooms, name));
        self.known.borrow_mut().insert(name.to_owned(), found);
        found
    }
}

/// A job is about to take what it asks for: those that are first for it, and lack it, are passed over once more.
pub(crate) fn note_passed(rooms: &mut Rooms, by: JobId) {
    let Some(job) = rooms.jobs.get(&by).filter(|job| !job.request.resources.is_empty()) else { return };
    let lacks = |name: &str| {
        let (_, id) = first(rooms, name).filter(|&(_, id)| id != by)?;
        (asked(rooms, id, name) > free(rooms, name)).then_some(id)
    };
    let mut passed: Vec<JobId> = job.request.resources.iter().filter_map(|one| lacks(&one.name)).collect();
    passed.sort_unstable();
    passed.dedup();
    for id in passed {
        rooms.jobs.pass_over(id);
    }
}

#[cfg(test)]
mod tests;
