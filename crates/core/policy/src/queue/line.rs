//! When a job enters and leaves its queue, with what demand, and when its timer is due.

use crate::api::{ArrayLimit, Class, Instant, JobId, Settings};
use crate::cores::host::Host;
use crate::cores::{borders, sets, slots};
use crate::jobs::{Demand, Entry, Job, JobTable, Phase, Stage, SuspendReason, Transition};
use crate::memory::forecast;
use crate::queue::ageing;
use crate::queue::order::{Queue, RANK_AGED};
use crate::queue::queues::Queues;
use crate::rooms::Rooms;

/// Whether a job may start as far as its array goes; one that has started may go on in any case.
pub(crate) fn has_room_in_array(rooms: &Rooms, job: JobId) -> bool {
    let Some(job) = rooms.jobs.get(&job).filter(|job| job.live().is_none()) else { return true };
    rooms.queue.arrays.has_room(job.request.array.map(|array| array.array))
}

/// How many jobs could have a slot or memory now if there were any.
pub(crate) fn ready(rooms: &Rooms) -> usize {
    let frozen = rooms.memory.frozen();
    let has_room = |job: &Job| has_room_in_array(rooms, job.id());
    rooms
        .jobs
        .values()
        .filter(|job| frozen.contains(&job.id()) || job.queued.is_some() && has_room(job))
        .count()
}

/// A member of an array is over, waits again or is held: how long those wait that are next counts from now.
pub(crate) fn next_members_wait(
    jobs: &mut JobTable,
    queue: &mut Queues,
    settings: &Settings,
    array: Option<ArrayLimit>,
) {
    let Some(array) = array else { return };
    let next = queue.arrays.next_untimed(array.array);
    next.into_iter().for_each(|job| rearm(jobs, queue, settings, job));
}

/// The queue that a job stands in.
pub(crate) fn queue_of<'a>(rooms: &'a Rooms, job: &Job) -> &'a Queue {
    rooms.queue.of(sets::reservation_of(&rooms.cores, job))
}

/// The cores are others now: a job that they kept out may have its place, and the other way round.
pub(crate) fn requeue_constrained(jobs: &JobTable) -> Vec<Transition> {
    let bordered = |job: &&Job| job.request.wish.as_ref().is_some_and(|wish| !wish.within.is_empty());
    jobs.values().filter(bordered).map(|job| Transition::Reenqueue { job: job.id() }).collect()
}

/// Where a job stands.
#[derive(Debug)]
pub(crate) struct Place {
    /// The queue: that of a reservation, by its place among all; `None`: the host's.
    pub(crate) at: Option<usize>,
    pub(crate) entry: Entry,
}

/// Where a job is to stand that stands in no queue; `None`: it wants no slot, or may have none.
pub(crate) fn place_of(rooms: &Rooms, id: JobId) -> Option<Place> {
    let job = rooms.jobs.get(&id).filter(|job| job.queued.is_none())?;
    let mut shape = Demand {
        owner: job.request.owner,
        cores: job.request.cores,
        homes: job.request.cores,
        class: job.request.class,
        wishes: job.request.wish.is_some(),
        memory: forecast::memory_bucket(rooms, job),
        tmp_bytes: if job.live().is_some() { 0 } else { job.request.tmp_bytes },
        resources: 0,
        pools: job.pools,
        array: job.request.array.filter(|_| job.live().is_none()).map(|array| array.array),
        parent: job.request.parent,
    };
    let first = job.aged || job.suspend_reason().is_some_and(SuspendReason::is_memory);
    let wants = match &job.stage {
        Stage::Waiting(waiting) if rooms.settings.drain || waiting.is_early() => false,
        // Its set is gone.
        Stage::Waiting(_)
            if job.request.aside.is_some() && sets::reservation_of(&rooms.cores, job).is_none() =>
        {
            false
        }
        Stage::Waiting(_) if borders::is_excluded(&rooms.cores, &rooms.settings, job) => false,
        Stage::Waiting(waiting) => !waiting.held && waiting.failed.as_ref().is_none_or(|f| f.tried),
        Stage::Live(live) => {
            let clipped =
                u32::try_from(slots::clipped(&rooms.cores, &rooms.settings, job)).unwrap_or(u32::MAX);
            let short = clipped < shape.cores || borders::is_excluded(&rooms.cores, &rooms.settings, job);
            if short && shape.class == Some(Class::Primary) {
                shape.class = None; // there are not so many homes, or not where it may have them
            }
            shape.cores = clipped;
            let returns = matches!(live.phase, Phase::Suspended { by_user: false, .. });
            returns && live.phase.rests().is_none() && !rooms.memory.frozen().contains(&id)
        }
    };
    let aside = sets::reservation_of(&rooms.cores, job);
    let clips = job.live().is_some() || shape.class == Some(Class::Exclusive); // others wait for a larger set
    if let Some(at) = aside.filter(|_| clips) {
        shape.cores = u32::try_from(sets::wanted_in(&rooms.cores, job, at)).unwrap_or(u32::MAX).max(1);
    }
    let entry = Entry {
        rank: if first { RANK_AGED } else { job.request.priority },
        shape,
        new: job.live().is_none(),
        expected_us: job.request.expected.map(|e| u64::try_from(e.as_micros()).unwrap_or(u64::MAX)),
        job: id,
    };
    wants.then_some(Place { at: aside, entry })
}

/// Takes a job out of its queue, if it stands in one.
pub(crate) fn dequeue(queue: &mut Queues, jobs: &mut JobTable, host: &Host, id: JobId) {
    if let Some(entry) = jobs.dequeue(id) {
        let at = jobs.get(&id).and_then(|job| sets::reservation_of(host, job));
        queue.remove(at, &entry);
        queue.wanted.leave(entry.shape.resources);
    }
}

/// Sets the timer of a job to the first thing that is due for it.
pub(crate) fn rearm(jobs: &mut JobTable, queue: &Queues, settings: &Settings, id: JobId) {
    let Some(job) = jobs.get(&id) else { return };
    let due = first_due(queue, settings, job);
    jobs.arm(id, due);
}

/// When the first thing is due for a job.
pub(crate) fn first_due(queue: &Queues, settings: &Settings, job: &Job) -> Option<Instant> {
    let mut due = ageing::ages_at(&queue.arrays, job);
    let mut sooner = |at: Option<Instant>| due = due.into_iter().chain(at).min();
    sooner(ageing::expires_at(settings, job).map(|(at, _)| at));
    match &job.stage {
        Stage::Waiting(waiting) => {
            sooner(waiting.failed.as_ref().filter(|f| !f.tried && !waiting.held).map(|f| f.again));
        }
        Stage::Live(live) => {
            sooner(live.phase.grace());
            sooner(live.phase.rests().map(|(_, until)| until));
            sooner(live.failed.values().filter(|f| !f.tried).map(|f| f.again).min());
        }
    }
    due
}
