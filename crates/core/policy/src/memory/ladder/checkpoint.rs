//! The rung before the last: a job that can write a checkpoint (`--checkpoint`) is asked to, when memory will soon be
//! had in no other way. Once it has, it is ended and requeued, to go on from there; if it cannot, it is suspended as
//! before.
//!
//! It runs meanwhile, without a slot, for most programs write their state themselves once a signal tells them to. So
//! this begins earlier than the last rung, which needs no time. Absent: how the state is written.

use std::time::Duration;

use pinfold_topo::backoff::Backoff;

use crate::api::{Instant, JobId, MemoryReason, Reason};
use crate::jobs::{Attempt, Job, JobTable, Live, WORTH_BYTES};
use crate::memory::ladder::page_out;
use crate::memory::ladder::step::Step;
use crate::memory::room::Memory;
use crate::memory::{forecast, oracle, rank};
use crate::rooms::Rooms;

/// What those that run may come to hold within this time, as things go, must not fit.
const AHEAD: Duration = Duration::from_secs(5);
/// or as far ahead as writing may take, but no further than this, for growth does not go on as it was for ever.
const AHEAD_MAX: Duration = Duration::from_secs(30);

/// How much longer than it may take it is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// For so long after a checkpoint was begun nobody starts for its sake.
const HOLDS_STARTS: Duration = Duration::from_secs(30);

/// One whose checkpoint failed is not asked again before this has gone by, doubled with each failure.
const REST: Backoff = Backoff::new(Duration::from_secs(60), Duration::from_secs(60 << 6));

/// Whether a checkpoint may be of use: what running jobs come to need may exceed what there is.
pub(crate) fn may_be_due(rooms: &Rooms, usable: u64) -> bool {
    oracle::shortage_within(rooms, usable, AHEAD_MAX) > 0
}

/// The youngest job that can writes down what it has done, if those that run may soon need more than there is, no job
/// that runs can be frozen for them, and swap does not take what suspended jobs hold.
pub(crate) fn due(rooms: &Rooms, usable: u64) -> Option<Step> {
    let lives = || rooms.jobs.lives();
    let one_ends = lives().filter_map(Job::live).any(|live| live.phase.is_leaving());
    let froze = rooms.memory.acted == Some(rooms.now);
    if one_ends || froze || rooms.memory.swap_free >= WORTH_BYTES || rank::victim(rooms).is_some() {
        return None;
    }
    // Who is let go on only to be stopped at once has grown by then, and written nothing.
    if oracle::lacking_at_once(rooms, usable) > 0 {
        return None;
    }
    let may = |job: &&Job| {
        let ready = job.live().is_some_and(|live| {
            let rested = rooms.now >= live.checkpoints.rests_until;
            // A job that its user alone may suspend is not let go on, for it could not be stopped again.
            let stoppable = live.phase.suspend_reason().is_none() || !job.request.no_suspend;
            // One that could not be stopped is stopped first, and one that could not be told to go on is told.
            let told = [Attempt::Freeze, Attempt::Thaw].iter().all(|kind| !live.failed.contains_key(kind));
            let on_its_way = live.phase.is_starting() || live.phase.is_suspended_by_user();
            rested && stoppable && told && !on_its_way && live.signal.is_none()
        });
        let helps = job.held.resident >= WORTH_BYTES && Some(job.id()) != rooms.memory.token;
        ready && helps && job.request.checkpoint.is_some()
    };
    let youngest = lives().filter(may).max_by_key(|job| job.rank_key())?;
    let within = youngest.request.checkpoint.unwrap_or_default().clamp(AHEAD, AHEAD_MAX);
    let lacking = oracle::shortage_within(rooms, usable, within);
    if lacking == 0 || costs_more_than_lacks(rooms, youngest, usable) {
        return None;
    }
    let reason = Reason::Memory(MemoryReason::NoRoomSoon { lacking, within });
    Some(Step::Checkpoint { job: youngest.id(), reason })
}

/// Whether all that those that run may ever come to lack, as they are known, is less than what a job may grow by while
/// it writes: then it is suspended, for if it could not write, it would have made the shortage that it was to end.
fn costs_more_than_lacks(rooms: &Rooms, writer: &Job, usable: u64) -> bool {
    let Some(grows) = forecast::left_to_grow(rooms, writer) else { return false };
    let left: Option<u64> = rooms.jobs.running().map(|job| forecast::left_to_grow(rooms, job)).sum();
    left.is_some_and(|left| oracle::shortage_if_they_grow_by(rooms, left, usable) < grows)
}

/// A job writes a checkpoint.
pub(crate) fn begin(memory: &mut Memory, jobs: &mut JobTable, now: Instant, id: JobId) {
    memory.frozen.remove(&id);
    memory.returning.remove(&id);
    page_out::swaps_in(memory, jobs, now, id);
    let Some(job) = jobs.get(&id) else { return };
    let limit = job.request.checkpoint.unwrap_or_default();
    jobs.write_checkpoint(id, now.after(limit + PATIENCE));
    memory.writing = true;
}

/// Whether a job writes a checkpoint, and began so short a time ago that nobody starts for its sake. How long it may take
/// its user says, and that keeps nobody from memory that is free.
pub(crate) fn holds_starts(jobs: &JobTable, now: Instant) -> bool {
    jobs.lives().any(|job| {
        let lasts = job.request.checkpoint.unwrap_or_default() + PATIENCE;
        let until = job.live().and_then(|live| live.phase.writes_until());
        until.is_some_and(|until| now.after(lasts) < until.after(HOLDS_STARTS))
    })
}

/// A job has written its checkpoint, or could not.
pub(crate) fn answered(jobs: &JobTable, job: JobId, error: Option<String>) -> Option<Step> {
    jobs.get(&job).filter(|job| job.is_writing())?;
    Some(match error {
        Some(error) => Step::NotCheckpointed { job, error },
        None => Step::Checkpointed { job },
    })
}

/// Checkpoints of which nothing was heard for too long are given up.
pub(crate) fn late(jobs: &JobTable, now: Instant) -> Vec<Step> {
    let is_late = |live: &Live| live.phase.writes_until().is_some_and(|until| until <= now);
    let late = jobs.lives().filter(|job| job.live().is_some_and(is_late)).map(Job::id);
    late.map(|job| given_up(job, "nothing was heard of it for too long")).collect()
}

fn given_up(job: JobId, error: &str) -> Step {
    Step::NotCheckpointed { job, error: error.to_owned() }
}

/// Memory suffices again for a job that writes: it goes on as it is, and is not ended.
pub(crate) fn needless(rooms: &Rooms, job: JobId) -> Option<Step> {
    let writer = rooms.jobs.get(&job).filter(|writer| oracle::may_resume(rooms, writer))?;
    let (free, swapped) = (oracle::free_memory(rooms), writer.held.swapped);
    Some(Step::StopCheckpoint { job, reason: Reason::Memory(MemoryReason::Suffices { free, swapped }) })
}

/// There is no time for it: writers keep what they hold and stay frozen; unless there is no room for the others then
/// either.
pub(super) fn due_to_be_given_up(rooms: &Rooms, usable: u64) -> Vec<Step> {
    if is_outgrown(rooms, usable) {
        return Vec::new();
    }
    rooms.jobs.writers().into_iter().map(|job| given_up(job, "memory ran short meanwhile")).collect()
}

/// Whether the jobs that run are known to come to need more than there is, though frozen jobs and writers do not grow.
/// The running ones were chosen so that they need not, so that others have taken memory away since.
fn is_outgrown(rooms: &Rooms, usable: u64) -> bool {
    let left = |job: &Job| {
        let learned = job.request.kind.and_then(|kind| rooms.memory.learned.get(kind.key()))?;
        Some(learned.usual_bytes.saturating_sub(job.held.needs()))
    };
    let left = rooms.jobs.running().filter_map(left).fold(0, u64::saturating_add);
    left > 0 && oracle::shortage_if_they_grow_by(rooms, left, usable) > 0
}

/// A checkpoint failed: the job is not asked for one again soon.
pub(crate) fn failed(jobs: &mut JobTable, now: Instant, id: JobId) {
    let Some(live) = jobs.live(id) else { return };
    let rest = REST.after(live.checkpoints.failures);
    jobs.checkpoint_failed(id, now.after(rest));
}
