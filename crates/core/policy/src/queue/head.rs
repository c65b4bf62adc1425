//! Which job is next in the host's queue, and for which of those in it there is a directory in memory and what else is
//! counted.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

use crate::api::JobId;
use crate::cores::{sets, slots};
use crate::jobs::{Demand, Job, SuspendReason};
use crate::queue::order::RANK_AGED;
use crate::queue::resources::{self, ResourcesLeft};
use crate::rooms::Rooms;

/// What is left of what is counted for jobs that are to start, for the comparison of many.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Room for directories in memory, by the user whose job is to have one.
    tmp: RefCell<BTreeMap<u32, u64>>,
    resources: ResourcesLeft,
}

impl Left {
    /// Whether there is room for such a job's directory in memory, and resources suffice for it.
    pub(crate) fn suffices(&self, rooms: &Rooms, shape: Demand) -> bool {
        let tmp =
            || *self.tmp.borrow_mut().entry(shape.owner).or_insert_with(|| tmp_left(rooms, shape.owner));
        (shape.tmp_bytes == 0 || shape.tmp_bytes <= tmp()) && self.resources.suffice(rooms, shape)
    }
}

/// Whether a job could have a directory in memory and resources as it asks for if it started now; one that has started
/// has them.
pub(crate) fn has_what_is_counted(rooms: &Rooms, job: &Job) -> bool {
    job.live().is_some()
        || (job.request.tmp_bytes == 0 || job.request.tmp_bytes <= tmp_left(rooms, job.request.owner))
            && resources::lacking(rooms, job.id()).is_none()
}

/// The first in line, and its rank. One whose directory in memory finds no room, or that lacks a resource, does not
/// stand in line: what it waits for is the end of jobs that may stand behind it, frozen.
pub(crate) fn head(rooms: &Rooms) -> Option<(u8, JobId)> {
    // Before all others who return, of whom a wide one may find too few slots.
    let returns = |job: &Job| job.suspend_reason().is_some_and(SuspendReason::is_memory);
    if let Some(token) = rooms.memory.token()
        && let Some(job) = rooms
            .jobs
            .get(&token)
            .filter(|job| returns(job) && sets::reservation_of(&rooms.cores, job).is_none())
        && let Some(entry) = job.queued.filter(|entry| is_in_line(rooms, entry.shape))
    {
        return Some((entry.rank, token));
    }
    let left = Left::default();
    rooms.queue.host().first(|shape| is_in_line(rooms, shape) && left.suffices(rooms, shape))
}

/// The largest directory in memory that a job could get now. One that is alone may exceed a bound that was lowered
/// since it was asked for.
pub(crate) fn tmp_room(rooms: &Rooms) -> u64 {
    let left = rooms.settings.tmp_left_bytes;
    match rooms.jobs.with_tmp().map(|job| job.request.tmp_bytes).fold(left, u64::saturating_add) {
        0 => u64::MAX,
        taken => rooms.settings.tmp_total_bytes.saturating_sub(taken),
    }
}

/// What a job of this user that is to start can have of it.
pub(crate) fn tmp_left(rooms: &Rooms, owner: u32) -> u64 {
    if tmp_kept_for(rooms, owner).is_some() { 0 } else { tmp_room(rooms) }
}

/// The job that waited too long for a directory in memory, of several the first: until it has its own, no other job of
/// this user is given one, or small ones would leave no room for it for ever. Those who need none go on. One of another
/// user that would have room without the directories of that user's other jobs keeps back that user's jobs alone, as that
/// user alone decides how long this lasts.
pub(crate) fn tmp_kept_for(rooms: &Rooms, owner: u32) -> Option<JobId> {
    let (room, held) = (tmp_room(rooms), OnceCell::new());
    let is_held_up = |shape: Demand| {
        let own = || held.get_or_init(|| tmp_by_users(rooms)).get(&shape.owner).copied().unwrap_or(0);
        shape.tmp_bytes > room && shape.tmp_bytes <= room.saturating_add(own())
    };
    let wants = rooms.queue.host().first(|shape| {
        shape.tmp_bytes > 0
            && slots::is_possible(&rooms.cores, &rooms.settings, shape)
            && (shape.owner == owner || !is_held_up(shape))
    });
    let (_, id) = wants.filter(|&(rank, _)| rank == RANK_AGED)?;
    (rooms.jobs[&id].request.tmp_bytes > room).then_some(id)
}

/// What the directories in memory of each user's jobs come to.
fn tmp_by_users(rooms: &Rooms) -> BTreeMap<u32, u64> {
    let mut held = BTreeMap::new();
    for job in rooms.jobs.with_tmp() {
        let bytes: &mut u64 = held.entry(job.request.owner).or_default();
        *bytes = bytes.saturating_add(job.request.tmp_bytes);
    }
    held
}

/// Whether such a job waits for nothing but its turn: it is possible, and its array does not keep it back.
pub(crate) fn is_in_line(rooms: &Rooms, shape: Demand) -> bool {
    slots::is_possible(&rooms.cores, &rooms.settings, shape) && rooms.queue.arrays.has_room(shape.array)
}
