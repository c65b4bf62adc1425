//! What follows from overcommitted starts: whether any runs, and what becomes of its class when memory runs short after
//! all. Absent: whether a job may start so ([`crate::memory::oracle`]).

use crate::api::{Instant, JobId, MemoryReason, Reason};
use crate::cores::sets;
use crate::jobs::{Job, JobTable};
use crate::memory::room::{Memory, rest_kind};
use crate::memory::{forecast, oracle};
use crate::rooms::Rooms;

/// Whether a job that is to start now does so early, and why.
#[derive(Debug)]
pub(crate) struct Start {
    early: Option<Reason>,
}

/// Whether a job that is to start now, before any job gives way to it, does so early; `None`: that is not asked of it.
pub(crate) fn start_of(rooms: &Rooms, id: JobId) -> Option<Start> {
    let usable = rooms.memory.usable.filter(|_| oracle::is_governed(rooms))?;
    let job = rooms.jobs.get(&id).filter(|job| job.live().is_none() && !sets::nobody_runs(&rooms.cores))?;
    let (wanted, free) = oracle::room_for(rooms, job, usable);
    let early = wanted > free && oracle::may_overcommit(rooms, job, wanted, usable);
    let reason = || Reason::Memory(MemoryReason::Overcommitted { wanted, lacking: wanted - free });
    Some(Start { early: early.then(reason) })
}

/// Notes how a job starts; gives the reason for which it may, if it does so early.
pub(crate) fn note(memory: &mut Memory, jobs: &mut JobTable, id: JobId, start: Start) -> Option<Reason> {
    jobs.set_overcommitted(id, start.early.is_some());
    memory.stretched |= start.early.is_some();
    start.early
}

/// What all jobs are expected to need, and whether that is more than there is.
#[derive(Debug)]
pub(crate) struct Expected {
    /// Running jobs that started early.
    early: Vec<JobId>,
    exceeds: bool,
}

/// Memory was read, and a job that started early may run; `None`: none does.
pub(crate) fn expected(rooms: &Rooms, usable: u64) -> Option<Expected> {
    if !rooms.memory.stretched {
        return None;
    }
    let early: Vec<JobId> = rooms.jobs.running().filter(|job| job.held.early).map(Job::id).collect();
    // Also of one that is cold-tolerant: it may come to hold more before that is moved out.
    let comes = |job: &Job| {
        let usual = forecast::claim_of(rooms, job).map_or(0, |claim| claim.usual_bytes);
        forecast::counts_for(rooms, job).max(usual)
    };
    let running = rooms.jobs.running().map(comes);
    let all = running.chain(rooms.jobs.suspended().map(|job| job.held.resident)).fold(0, u64::saturating_add);
    Some(Expected { early, exceeds: all > usable })
}

/// Once all fit, none counts as early.
pub(crate) fn settle(memory: &mut Memory, jobs: &mut JobTable, expected: Expected) {
    memory.stretched = !expected.early.is_empty() && expected.exceeds;
    if !expected.exceeds {
        expected.early.into_iter().for_each(|id| jobs.set_overcommitted(id, false));
    }
}

/// A job is frozen for memory: if it started early, no job of its class does for a while.
pub(super) fn failed(memory: &mut Memory, jobs: &mut JobTable, now: Instant, id: JobId) {
    let Some(job) = jobs.get(&id).filter(|job| job.held.early) else { return };
    let kind = job.request.kind;
    jobs.set_overcommitted(id, false);
    let Some(kind) = kind else { return };
    rest_kind(&mut memory.early, kind, now);
}
