//! A job that waits for nested jobs lends its slots to them, or such jobs could hold all slots and wait for ever.
//!
//! A job is *nested* if it was submitted from within another one, its parent. The slots of an idle parent with nested
//! jobs in a queue are lent in the step in which a nested job of its user starts: the parent runs on and takes none. It
//! has them back before anybody else, as soon as so many are free, which is when a nested job ends; so there are never
//! more slots in use than there are. Absent here: which parents are idle, which the caller tells.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::api::{Class, JobId, Settings};
use crate::cores::host::Host;
use crate::cores::{assign, slots};
use crate::jobs::{Demand, Job, JobTable};
use crate::memory::oracle;
use crate::queue::head::{self, Left};
use crate::rooms::Rooms;
use crate::schedule::plan::{self, Plan};

/// The jobs with a slot that are parents of jobs which stand in a queue or have started, at any depth.
pub(crate) fn parents(rooms: &Rooms) -> BTreeSet<JobId> {
    let queued = rooms.queue.all().flat_map(|queue| queue.shapes()).map(|shape| shape.parent);
    let direct: BTreeSet<JobId> =
        queued.chain(rooms.jobs.lives().map(|job| job.request.parent)).flatten().collect();
    let own = |id: &JobId| rooms.jobs.get(id).into_iter().chain(rooms.jobs.parents(*id));
    direct.iter().flat_map(own).filter(|job| job.has_slot()).map(Job::id).collect()
}

/// The slots that a job takes.
fn slots_of(jobs: &JobTable, id: JobId) -> usize {
    jobs.live(id).map_or(0, |live| live.slots)
}

/// The idle parents of a user and its project that take slots, in the order of their numbers.
fn lenders(rooms: &Rooms, shape: Demand) -> impl Iterator<Item = JobId> {
    let lends =
        move |job: &&Job| job.request.owner == shape.owner && job.pools == shape.pools && job.has_slot();
    let idle = rooms.cores.idle().iter().filter_map(|id| rooms.jobs.get(id));
    idle.filter(lends).map(Job::id).filter(|&id| slots_of(&rooms.jobs, id) > 0)
}

/// The next nested job that can start on lent slots, the jobs that lend them, and how it starts.
pub(crate) fn next(rooms: &Rooms) -> Option<(JobId, Vec<JobId>, Plan)> {
    if rooms.cores.idle().is_empty() || rooms.cores.exclusive().is_some() {
        return None;
    }
    let (room, left) = (OnceCell::new(), Left::default());
    let free = slots::free_slots(&rooms.cores, &rooms.settings);
    let suffice = |shape: Demand| {
        let lent: usize = lenders(rooms, shape).map(|id| slots_of(&rooms.jobs, id)).sum();
        lent > 0 && shape.cores as usize <= free + lent
    };
    let fits = |shape: Demand| {
        shape.parent.is_some()
            && shape.class != Some(Class::Exclusive)
            && suffice(shape)
            && head::is_in_line(rooms, shape)
            && left.suffices(rooms, shape)
            && (shape.memory == 0 || oracle::has_memory_room(rooms, shape, &room))
    };
    let (_, id) = rooms.queue.host().first(fits)?;
    let shape = rooms.jobs[&id].queued?.shape;
    if oracle::lacks_memory(rooms, id).is_some() {
        return None;
    }
    // Its own parents before the other parents of its user.
    let own: Vec<JobId> = rooms.jobs.parents(id).map(Job::id).collect();
    let mut all: Vec<JobId> = lenders(rooms, shape).collect();
    all.sort_by_key(|id| !own.contains(id));
    let wanted = shape.cores as usize;
    let lenders = plan::enough(all.iter().copied(), 0, wanted, |id| slots_of(&rooms.jobs, id)).unwrap_or(all);
    let homes = |id| plan::homes(rooms, id);
    let demote =
        |_: &[JobId], free| plan::enough(lenders.iter().copied(), free, rooms.jobs[&id].slots(), homes);
    let plan = plan::on_cores(rooms, id, Vec::new(), demote)?;
    Some((id, lenders, plan))
}

/// Jobs that lent their slots have them back, as far as slots are free.
pub(crate) fn give_back(host: &mut Host, jobs: &mut JobTable, settings: &Settings) {
    for id in host.lent().clone() {
        assign::set_lent(host, jobs, settings, id, false);
        if host.used() > slots::total(host, settings) && slots_of(jobs, id) > 0 {
            assign::set_lent(host, jobs, settings, id, true);
        }
    }
}

/// More slots are in use than there are: the parent of a job that runs lends its slots. Says whether there was such a parent.
pub(crate) fn lend_to_running(host: &mut Host, jobs: &mut JobTable, settings: &Settings) -> bool {
    let mut parents = host.running().lowest_first().flat_map(|(_, id)| jobs.parents(id)).map(Job::id);
    let Some(id) = parents.find(|&id| slots_of(jobs, id) > 0) else { return false };
    drop(parents);
    assign::set_lent(host, jobs, settings, id, true);
    true
}
