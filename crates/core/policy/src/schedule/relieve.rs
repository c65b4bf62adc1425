//! Goes through the ladder of what is done against a shortage of memory, and takes the steps that its rungs say are
//! due.

use crate::api::{Action, Decision, JobId, MemoryReason, Reason, ShareReason};
use crate::jobs::{REQUEUES_MAX, SuspendReason};
use crate::memory::ladder::step::Step;
use crate::memory::ladder::{checkpoint, freeze, page_out, probe, relieve, requeue, throttle};
use crate::memory::rank;
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::{enqueue, transition};

/// Deals with a shortage: freezes the youngest until the others fit, and pages out frozen jobs.
pub(crate) fn relieve(rooms: &mut Rooms) {
    let usable = rooms.memory.usable().unwrap_or(u64::MAX);
    while let Some(step) = relieve::keep_safe(rooms, usable) {
        take(rooms, [step]);
    }
    take(rooms, checkpoint::late(&rooms.jobs, rooms.now));
    rooms.memory.note_writers(checkpoint::holds_starts(&rooms.jobs, rooms.now));
    if checkpoint::may_be_due(rooms, usable) {
        take(rooms, checkpoint::due(rooms, usable));
    } else {
        for writer in rooms.jobs.writers() {
            take(rooms, checkpoint::needless(rooms, writer));
        }
    }
    let shortage = relieve::shortage(rooms, usable);
    let since = relieve::note_shortage(&mut rooms.memory, rooms.now, shortage.is_some());
    let Some(shortage) = shortage else {
        take(rooms, probe::due(rooms, usable));
        for job in throttle::throttled(rooms) {
            take(rooms, throttle::review(rooms, job, usable));
        }
        take(rooms, throttle::due(rooms, usable));
        take(rooms, page_out::due(rooms));
        take(rooms, probe::due_for_next(rooms));
        return;
    };
    if let Some(mut left) = shortage.predicted(rooms) {
        while left > 0
            && let Some((victim, gain)) = rank::victim(rooms)
        {
            take(rooms, freeze::for_shortage(rooms, victim));
            left = left.saturating_sub(gain);
        }
    } else {
        take(rooms, shortage.measured(rooms, since));
    }
    while shortage.overrun
        && let Some(step) = relieve::stop_overrun(rooms, usable)
    {
        take(rooms, [step]);
    }
    if let Some(next) = shortage.token_for_the_unfreezable(rooms, since) {
        rooms.memory.give_token(Some(next));
    }
    take(rooms, page_out::due(rooms));
    take(rooms, requeue::due(rooms, usable));
}

/// Takes the steps that are due.
pub(crate) fn take(rooms: &mut Rooms, steps: impl IntoIterator<Item = Step>) {
    let now = rooms.now;
    for step in steps {
        match step {
            Step::Probe { job, bytes, reason } => {
                probe::begin(&mut rooms.memory, now);
                rooms.jobs.probe(job, now);
                page_out::begin(&mut rooms.memory, now, bytes);
                rooms.pending.decide(Decision { job, action: Action::PageOut { bytes }, reason });
            }
            Step::PageOut { job, bytes, reason } => {
                page_out::begin(&mut rooms.memory, now, bytes);
                rooms.pending.decide(Decision { job, action: Action::PageOut { bytes }, reason });
            }
            Step::Throttle { job, allowance, bound, growth, reason } => {
                throttle::begin(&mut rooms.memory, now, job, bound, growth);
                let action = Action::Slow { allowance: Some(allowance) };
                rooms.pending.decide(Decision { job, action, reason });
            }
            Step::Unthrottle { job, why } => {
                throttle::unthrottle(&mut rooms.memory, &mut rooms.jobs, now, job);
                let reason = Reason::Memory(MemoryReason::MayGrow { why });
                rooms.pending.decide(Decision { job, action: Action::Slow { allowance: None }, reason });
            }
            Step::Protect { job, bytes } => {
                throttle::protect(&mut rooms.memory, Some((job, bytes)));
                let reason = Reason::Memory(MemoryReason::GoesFirst);
                rooms.pending.decide(Decision { job, action: Action::Protect { bytes }, reason });
            }
            Step::Unprotect { job } => {
                throttle::protect(&mut rooms.memory, None);
                let reason = Reason::Memory(MemoryReason::GoesFirstNoMore);
                rooms.pending.decide(Decision { job, action: Action::Protect { bytes: 0 }, reason });
            }
            Step::Freeze { job, reason } => freeze(rooms, job, reason),
            Step::Checkpoint { job, reason } => {
                line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, job);
                checkpoint::begin(&mut rooms.memory, &mut rooms.jobs, now, job);
                rooms.pending.withdraw(job);
                rooms.pending.decide(Decision { job, action: Action::Checkpoint, reason });
            }
            Step::Checkpointed { job } => {
                rooms.jobs.checkpoint_written(job);
                let reason = Reason::Memory(MemoryReason::Checkpointed);
                rooms.pending.decide(Decision { job, action: Action::Requeue, reason });
            }
            Step::NotCheckpointed { job, error } => {
                checkpoint::failed(&mut rooms.jobs, now, job);
                stop_checkpoint(rooms, job, Reason::Memory(MemoryReason::NotCheckpointed { error }));
            }
            Step::StopCheckpoint { job, reason } => stop_checkpoint(rooms, job, reason),
            Step::Requeue { job, lacking } => {
                let Some(times) = rooms.jobs.requeue(job) else { continue };
                let reason = MemoryReason::NoOtherWay { lacking, times, most: REQUEUES_MAX };
                end_for_requeue(rooms, job, Reason::Memory(reason));
            }
        }
    }
}

/// Freezes a job, until memory suffices for it again.
pub(crate) fn freeze(rooms: &mut Rooms, id: JobId, reason: Reason) {
    let Some(token) = rooms.memory.token() else { return };
    let reclaimed = matches!(reason, Reason::Share(ShareReason::MemoryReclaimed { .. }));
    freeze::begin(&mut rooms.memory, &mut rooms.jobs, rooms.now, id, reclaimed);
    transition::suspend_and_release(rooms, id, SuspendReason::Memory { token }, reason);
}

/// What a job writes is not waited for any more: whether it goes on or is frozen is looked at anew.
pub(crate) fn stop_checkpoint(rooms: &mut Rooms, id: JobId, reason: Reason) {
    if let Some(suspend) = rooms.jobs.stop_checkpoint(id) {
        stays(rooms, id, suspend, reason);
    }
}

/// A job does not leave; `suspend`: its user suspended it, and it is not frozen.
pub(crate) fn stays(rooms: &mut Rooms, id: JobId, suspend: bool, reason: Reason) {
    let Some(phase) = rooms.jobs.live(id).map(|live| live.phase) else { return };
    // Whatever else held it, it is suspended now for its user.
    let reason = if suspend || phase.is_suspended_by_user() { Reason::ASKED } else { reason };
    if phase.suspend_reason().is_some_and(SuspendReason::is_memory) {
        rooms.memory.wait_frozen(id);
    } else if suspend {
        transition::suspend_and_release(rooms, id, SuspendReason::Suspended, Reason::ASKED);
    }
    enqueue::enqueue(rooms, id);
    rooms.pending.request_update(id, reason);
}

/// A job is ended, to begin anew.
pub(crate) fn end_for_requeue(rooms: &mut Rooms, id: JobId, reason: Reason) {
    line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
    rooms.memory.forget(id);
    // What was to be done to it in this step is of no use any more.
    rooms.pending.withdraw(id);
    rooms.pending.decide(Decision { job: id, action: Action::Requeue, reason });
}
