//! The rung before the last: a job that can write a checkpoint (`--checkpoint`) is asked to, when memory will soon be
//! had in no other way. Once it has, it is ended and requeued, to go on from there; if it cannot, it is suspended as before.
//!
//! It runs meanwhile, without a slot, for most programs write their state themselves once a signal tells them to. So this
//! begins earlier than the last rung, which needs no time. Absent: how the state is written.

use std::time::Duration;

use pinfold_backoff::Backoff;

use crate::api::{Action, Decision, JobId, MemoryReason, Reason};
use crate::jobs::{Attempt, Job, SuspendReason, WORTH_BYTES};
use crate::memory::ladder::page_out;
use crate::memory::ladder::step::Step;
use crate::memory::{forecast, oracle, rank};
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::{enqueue, transition};

/// What those who run may come to hold within this time, as things go, must not fit.
const AHEAD: Duration = Duration::from_secs(5);
/// or as far ahead as writing may take, but no further than this, for growth does not go on as it was for ever.
const AHEAD_MAX: Duration = Duration::from_secs(30);

/// How much longer than it may take it is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// One whose checkpoint failed is not asked again before this has gone by, doubled with each failure.
const REST: Backoff = Backoff::new(Duration::from_secs(60), Duration::from_secs(60 << 6));

/// Checkpoints that take too long are given up, and those that are not needed any more; says whether one may be.
pub(super) fn review(rooms: &mut Rooms, usable: u64) -> bool {
    give_checkpoints_up(rooms);
    rooms.memory.writing = !rooms.jobs.writers().is_empty();
    let may_be = oracle::shortage_within(rooms, usable, AHEAD_MAX) > 0;
    if !may_be {
        stop_needless_checkpoints(rooms);
    }
    may_be
}

/// The youngest job that can writes down what it has done, if those who run may soon need more than there is, nobody who
/// runs can be frozen for them, and swap does not take what those hold who stand still.
pub(super) fn due(rooms: &Rooms, usable: u64) -> Option<Step> {
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
            // Whom its user alone may let stand still is not let go on, for it could not be stopped again.
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

/// Whether all that those who run may ever come to lack, as they are known, is less than what a job may grow by while it
/// writes: then it stands still, for if it could not write, it would have made the shortage that it was to end.
fn costs_more_than_lacks(rooms: &Rooms, writer: &Job, usable: u64) -> bool {
    let Some(grows) = forecast::left_to_grow(rooms, writer) else { return false };
    let left: Option<u64> = rooms.jobs.running().map(|job| forecast::left_to_grow(rooms, job)).sum();
    left.is_some_and(|left| oracle::shortage_if_they_grow_by(rooms, left, usable) < grows)
}

/// A job writes a checkpoint.
pub(super) fn begin(rooms: &mut Rooms, id: JobId, reason: Reason) {
    line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
    rooms.memory.frozen.remove(&id);
    rooms.memory.returning.remove(&id);
    page_out::swaps_in(rooms, id);
    rooms.pending.withdraw(id);
    let now = rooms.now;
    let Some(job) = rooms.jobs.get(&id) else { return };
    let limit = job.request.checkpoint.unwrap_or_default();
    rooms.jobs.write_checkpoint(id, now.after(limit + PATIENCE));
    rooms.memory.writing = true;
    rooms.pending.decide(Decision { job: id, action: Action::Checkpoint, reason });
}

/// A job has written down what it has done, or could not.
pub(crate) fn checkpointed(rooms: &mut Rooms, id: JobId, error: Option<String>) {
    if !rooms.jobs.get(&id).is_some_and(Job::is_writing) {
        return;
    }
    if let Some(error) = error {
        return not_checkpointed(rooms, id, error);
    }
    rooms.jobs.checkpoint_written(id);
    rooms.pending.decide(Decision {
        job: id,
        action: Action::Requeue,
        reason: Reason::Memory(MemoryReason::Checkpointed),
    });
}

/// Those of which nothing was heard for too long.
fn give_checkpoints_up(rooms: &mut Rooms) {
    let over = |id: &JobId| {
        rooms
            .jobs
            .live(*id)
            .and_then(|live| live.phase.writes_until())
            .is_some_and(|until| until <= rooms.now)
    };
    let late: Vec<JobId> = rooms.jobs.live_ids().iter().copied().filter(over).collect();
    for id in late {
        not_checkpointed(rooms, id, "nothing was heard of it for too long".to_owned());
    }
}

/// Memory suffices again for those who write: they go on as they are, and are not ended.
fn stop_needless_checkpoints(rooms: &mut Rooms) {
    for id in rooms.jobs.writers() {
        if rooms.jobs.get(&id).is_some_and(|job| oracle::may_resume(rooms, job)) {
            let swapped = rooms.jobs.get(&id).map_or(0, |job| job.held.swapped);
            stop_checkpoint(
                rooms,
                id,
                Reason::Memory(MemoryReason::Suffices { free: oracle::free_memory(rooms), swapped }),
            );
        }
    }
}

/// There is no time for it: who writes holds on to what it has, and stands still as before; unless there is no room
/// for the others then either.
pub(super) fn due_to_be_given_up(rooms: &Rooms, usable: u64) -> Option<Step> {
    (!is_outgrown(rooms, usable)).then_some(Step::GiveUpCheckpoints)
}

/// No checkpoint is waited for any more.
pub(super) fn give_up(rooms: &mut Rooms) {
    for id in rooms.jobs.writers() {
        not_checkpointed(rooms, id, "memory ran short meanwhile".to_owned());
    }
}

/// Whether those who run are known to come to need more than there is, though nobody who stands still or writes grows
/// on. As they are chosen so that they need not, somebody has taken memory away from them since.
fn is_outgrown(rooms: &Rooms, usable: u64) -> bool {
    let left = |job: &Job| {
        let learned = job.request.kind.and_then(|kind| rooms.memory.learned.get(kind.key()))?;
        Some(learned.usual_bytes.saturating_sub(job.held.needs()))
    };
    let left = rooms.jobs.running().filter_map(left).fold(0, u64::saturating_add);
    left > 0 && oracle::shortage_if_they_grow_by(rooms, left, usable) > 0
}

/// It goes on as it was: where it stood still, it stands still again.
fn not_checkpointed(rooms: &mut Rooms, id: JobId, error: String) {
    let now = rooms.now;
    let Some(live) = rooms.jobs.live(id) else { return };
    let rest = REST.after(live.checkpoints.failures);
    rooms.jobs.checkpoint_failed(id, now.after(rest));
    stop_checkpoint(rooms, id, Reason::Memory(MemoryReason::NotCheckpointed { error }));
}

/// What it writes is not waited for any more: whether it goes on or stands still is looked at anew.
pub(crate) fn stop_checkpoint(rooms: &mut Rooms, id: JobId, reason: Reason) {
    if let Some(suspend) = rooms.jobs.stop_checkpoint(id) {
        stays(rooms, id, suspend, reason);
    }
}

/// A job that was to be ended could not be: it goes on as it was.
pub(crate) fn cancel_requeue(rooms: &mut Rooms, id: JobId, reason: Reason) {
    if let Some(suspend) = rooms.jobs.cancel_requeue(id) {
        stays(rooms, id, suspend, reason);
    }
}

/// A job does not leave; `suspend`: its user suspended it, and it is not frozen.
fn stays(rooms: &mut Rooms, id: JobId, suspend: bool, reason: Reason) {
    let Some(phase) = rooms.jobs.live(id).map(|live| live.phase) else { return };
    // Whatever else held it, it stands still now for its user.
    let reason = if suspend || phase.is_suspended_by_user() { Reason::ASKED } else { reason };
    if phase.suspend_reason().is_some_and(SuspendReason::is_memory) {
        rooms.memory.frozen.insert(id);
    } else if suspend {
        transition::suspend_and_release(rooms, id, SuspendReason::Suspended, Reason::ASKED);
    }
    enqueue::enqueue(rooms, id);
    rooms.pending.request_update(id, reason);
}
