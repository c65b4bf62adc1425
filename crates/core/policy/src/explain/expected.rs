//! When a waiting job probably starts: the jobs before it take slots in the order of the queue, and each job ends after its
//! usual run time.
//!
//! An estimate, never a promise. Absent: memory, preemption, jobs that come later, and how long jobs usually run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::api::{Class, Instant, JobId};
use crate::cores::{sets, slots};
use crate::memory::oracle;
use crate::queue::{head, line, resources};
use crate::rooms::Rooms;

/// The most jobs, running and waiting, that an estimate takes into account.
const JOBS_MAX: usize = 1_000;

/// Why the start of a job cannot be estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unforeseen {
    /// The job does not wait for slots alone, or the slots do not suffice.
    OtherWait,
    /// Nobody knows how long this job runs, and it must end before.
    Length(JobId),
    /// Too many jobs run or are before the job.
    TooMany,
}

/// A job as an estimate counts it.
#[derive(Debug, Clone, Copy)]
struct Taker {
    job: JobId,
    slots: usize,
    /// How long the job still runs once it has its slots, in microseconds; `u64::MAX`: unknown.
    rest_us: u64,
}

/// How long until `job` probably starts; `length`: how long a job usually runs from its start to its end.
pub(crate) fn expected_start(
    rooms: &Rooms,
    now: Instant,
    job: JobId,
    length: impl Fn(JobId) -> Option<Duration>,
) -> Result<Duration, Unforeseen> {
    let asking = rooms.jobs.get(&job).ok_or(Unforeseen::OtherWait)?;
    let entry = asking.queued.ok_or(Unforeseen::OtherWait)?;
    let needs_more = oracle::lacks_memory(rooms, job).is_some()
        || resources::lacking(rooms, job).is_some()
        || entry.shape.tmp_bytes > head::tmp_left(rooms, asking.request.owner)
        || !line::has_room_in_array(rooms, job);
    if needs_more || rooms.cores.exclusive().is_some() || sets::reservation_of(&rooms.cores, asking).is_some()
    {
        return Err(Unforeseen::OtherWait);
    }
    let queue = rooms.queue.host();
    if rooms.cores.running().len() + queue.ahead_of(&entry) > JOBS_MAX {
        return Err(Unforeseen::TooMany);
    }
    let taker = |id: JobId| {
        let job = rooms.jobs.get(&id)?;
        let ran = job.live().map_or(Duration::ZERO, |live| now.since(live.started));
        let rest = length(id).map(|length| length.saturating_sub(ran));
        let slots = match job.request.class {
            Some(Class::Exclusive) => slots::total(&rooms.cores, &rooms.settings),
            _ => slots::clipped(&rooms.cores, &rooms.settings, job),
        };
        let rest_us = rest.and_then(|rest| u64::try_from(rest.as_micros()).ok()).unwrap_or(u64::MAX);
        sets::reservation_of(&rooms.cores, job).is_none().then_some(Taker { job: id, slots, rest_us })
    };
    let running: Vec<Taker> = rooms.cores.running().lowest_first().filter_map(|(_, id)| taker(id)).collect();
    let waiting: Vec<Taker> = queue.before(&entry).into_iter().chain([job]).filter_map(taker).collect();
    start_us(slots::free_slots(&rooms.cores, &rooms.settings), &running, &waiting).map(Duration::from_micros)
}

/// When the last of the `waiting` jobs has its slots, in microseconds from now; `free`: the slots that are free now.
fn start_us(mut free: usize, running: &[Taker], waiting: &[Taker]) -> Result<u64, Unforeseen> {
    let end = |now: u64, taker: &Taker| Reverse((now.saturating_add(taker.rest_us), taker.job, taker.slots));
    let mut ends: BinaryHeap<_> = running.iter().map(|taker| end(0, taker)).collect();
    let mut now = 0;
    for taker in waiting {
        while free < taker.slots {
            let Reverse((at, job, slots)) = ends.pop().ok_or(Unforeseen::OtherWait)?;
            if at == u64::MAX {
                return Err(Unforeseen::Length(job));
            }
            now = at;
            free += slots;
        }
        free -= taker.slots;
        ends.push(end(now, taker));
    }
    Ok(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: u64 = u64::MAX;

    /// Jobs with their slots and the rests of their run times, numbered from `first` on.
    fn takers(first: u64, of: &[(usize, u64)]) -> Vec<Taker> {
        let jobs = (first..).map(JobId).zip(of);
        jobs.map(|(job, &(slots, rest_us))| Taker { job, slots, rest_us }).collect()
    }

    #[track_caller]
    fn check(free: usize, running: &[(usize, u64)], waiting: &[(usize, u64)], want: Result<u64, Unforeseen>) {
        assert_eq!(start_us(free, &takers(1, running), &takers(11, waiting)), want);
    }

    #[test]
    fn a_job_starts_when_enough_slots_are_free() {
        check(1, &[], &[(1, UNKNOWN)], Ok(0));
        check(0, &[(1, 7)], &[(1, 5)], Ok(7));
        check(0, &[(1, 7), (1, 3)], &[(1, 5)], Ok(3));
        check(0, &[(1, 7), (1, 3)], &[(2, 5)], Ok(7));
        check(0, &[(1, 0)], &[(1, 5)], Ok(0));
    }

    #[test]
    fn jobs_before_it_take_slots_first_and_in_order() {
        check(0, &[(1, 7), (1, 3)], &[(1, 10), (1, 5)], Ok(7));
        check(0, &[(1, 7), (1, 3)], &[(1, 2), (1, 5)], Ok(5));
        check(1, &[(1, 7)], &[(2, 10), (1, 5)], Ok(17));
        check(2, &[], &[(1, 4), (1, 6), (1, 1), (1, 1)], Ok(5));
    }

    #[test]
    fn an_unknown_run_time_matters_only_where_that_job_must_end() {
        check(0, &[(1, UNKNOWN), (1, 3)], &[(1, 5)], Ok(3));
        check(0, &[(1, UNKNOWN)], &[(1, 5)], Err(Unforeseen::Length(JobId(1))));
        check(1, &[], &[(1, UNKNOWN), (1, 5)], Err(Unforeseen::Length(JobId(11))));
        check(0, &[(1, UNKNOWN - 1)], &[(1, 2), (1, 5)], Err(Unforeseen::Length(JobId(11))));
    }

    #[test]
    fn too_few_slots_are_told() {
        check(1, &[(1, 3)], &[(4, 5)], Err(Unforeseen::OtherWait));
        check(0, &[], &[(1, 5)], Err(Unforeseen::OtherWait));
    }
}
