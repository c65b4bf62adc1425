//! Best-effort jobs: such as asked for the backfill class, and so for no more than the cycles that others leave.
//!
//! They make room at once for jobs that come to have cores of their own, whatever the priorities are: on the cores of an
//! isolated job they move, for a primary or an exclusive job they are suspended where there is no slot left, and they come
//! back when there is. They take no slot from others. A job that runs as a backfiller only because no core was free is
//! none of them. Absent: the rules that suspend them, which are in `rules`; how many there may be, which is in `protect`.

use std::cell::OnceCell;

use crate::job::Job;
use crate::policy::Policy;
use crate::queue::Shape;
use crate::{Class, JobId};

impl Policy {
    /// Whether a job asked for what others leave, and nothing more.
    pub(crate) fn asks_for_idle_cycles(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|job| job.request.class == Some(Class::Backfill))
    }

    /// Whether a job with a slot is a best-effort job.
    pub(crate) fn is_best_effort(&self, job: JobId) -> bool {
        self.asks_for_idle_cycles(job) && self.live(job).is_some_and(|live| live.class == Class::Backfill)
    }

    /// The best-effort jobs with a slot, the lowest priority first, among equals the newest.
    pub(crate) fn best_effort(&self) -> Vec<JobId> {
        self.holders.lowest_first().map(|(_, job)| job).filter(|&job| self.is_best_effort(job)).collect()
    }

    /// Whether best-effort jobs are suspended for a job that lacks a slot: it would be a primary, as it asked for, or as it
    /// has no other wish and so many home cores are free.
    pub(crate) fn comes_before_best_effort(&self, job: JobId) -> bool {
        let Some(job) = self.jobs.get(&job) else { return false };
        let homes = |job: &Job| job.request.wish.is_none() && self.cores.free_homes() >= job.slots();
        match job.request.class {
            Some(Class::Primary) => true,
            None => homes(job),
            Some(Class::Backfill | Class::Exclusive) => false,
        }
    }

    /// A best-effort job stands first in line and has to wait. The first of the others that can have cores of its own gets
    /// them now, if best-effort jobs make the room; says whether one did.
    pub(crate) fn pass_best_effort(&mut self) -> bool {
        let tmp_room = OnceCell::new();
        let others = |shape: Shape| {
            shape.class != Some(Class::Backfill)
                && self.is_in_line(shape)
                && self.has_tmp_room(shape, &tmp_room)
        };
        let Some((_, next)) = self.queue.first(others) else { return false };
        if self.jobs[&next].request.class == Some(Class::Exclusive) {
            return self.start_exclusive(next);
        }
        if self.lacks_memory(next).is_some() {
            return false;
        }
        let Some(plan) = self.plan(next, true) else { return false };
        self.admit(next, plan);
        self.promote();
        true
    }
}
