//! A job is over, is dropped, or waits again after a failed start or a requeue.

use std::time::Duration;

use pinfold_topo::backoff::Backoff;

use crate::api::{Action, Class, Decision, JobId, Reason, UserReason};
use crate::cores::assign;
use crate::jobs::{Failure, Live, REQUEUES_MAX, RETRY, Stage, Waiting};
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::enqueue;

/// The pauses before a failed start is tried again.
const START_RETRY: Backoff = Backoff::new(RETRY, Duration::from_secs(60));

/// How long it waits at least after it was ended for others.
const REQUEUE_REST: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(5 << REQUEUES_MAX));

/// A start failed: the job waits again. Its slot is free meanwhile, so that it holds nobody up.
pub(crate) fn start_failed(rooms: &mut Rooms, id: JobId, error: String) {
    assign::release(&mut rooms.cores, &mut rooms.jobs, id);
    rooms.pending.withdraw(id);
    let now = rooms.now;
    let Some(job) = rooms.jobs.get(&id) else { return };
    let Some(live) = job.live() else { return };
    let failures = live.failures + 1;
    let again = now.after(START_RETRY.after(live.failures));
    let (held, cancelled, withdrawn) =
        (live.phase.is_suspended_by_user(), live.signal.is_some(), live.withdrawn);
    let failed = Some(Failure { again, error, tried: false });
    rooms.queue.arrays_mut().returned(&job.request, now);
    let array = job.request.array;
    rooms.jobs.forget_memory(id);
    rooms.jobs.wait_again(id, Waiting { held, failures, failed, ..Waiting::default() });
    rooms.memory.forget(id);
    rooms.memory.forget_steering(id);
    line::next_members_wait(&mut rooms.jobs, &mut rooms.queue, &rooms.settings, array);
    settle_return(rooms, id, cancelled, withdrawn);
}

/// A job that came back into the queue waits for its next start, unless it was given up meanwhile.
fn settle_return(rooms: &mut Rooms, id: JobId, cancelled: bool, withdrawn: bool) {
    if cancelled {
        drop_waiting(rooms, id, false, Reason::ASKED);
    } else if withdrawn {
        drop_waiting(rooms, id, false, Reason::User(UserReason::Withdrawn));
    } else {
        line::rearm(&mut rooms.jobs, &rooms.queue, &rooms.settings, id);
    }
}

pub(crate) fn exited(rooms: &mut Rooms, id: JobId) {
    let left_home =
        |live: &Live| live.aside.is_none() && live.class == Class::Primary && !live.cores.is_empty();
    if rooms.jobs.live(id).is_some_and(left_home) {
        rooms.pending.set_ended(id);
    }
    forget(rooms, id);
}

pub(crate) fn withdrawn(rooms: &mut Rooms, id: JobId) {
    match rooms.jobs.get(&id).map(|job| &job.stage) {
        Some(Stage::Waiting(_)) => drop_waiting(rooms, id, false, Reason::User(UserReason::Withdrawn)),
        Some(Stage::Live(_)) => rooms.jobs.client_gone(id),
        None => {}
    }
}

/// A job is over: those that waited for it stand in the queue from now on, unless they wait for others too.
fn release_followers(rooms: &mut Rooms, of: JobId) {
    let now = rooms.now;
    for id in rooms.jobs.take_followers(of) {
        if rooms.jobs.predecessor_over(id, of, now) {
            enqueue::enqueue(rooms, id);
        }
    }
}

/// After a restart: jobs that nobody knows any more are over.
pub(crate) fn forget_unknown_predecessors(rooms: &mut Rooms) {
    rooms.jobs.unknown_predecessors().into_iter().for_each(|id| release_followers(rooms, id));
}

/// Strikes a waiting job off.
pub(crate) fn drop_waiting(rooms: &mut Rooms, job: JobId, refused: bool, reason: Reason) {
    forget(rooms, job);
    rooms.pending.decide(Decision { job, action: Action::Drop { refused }, reason });
}

fn forget(rooms: &mut Rooms, id: JobId) {
    unlearn(rooms, id);
    release_followers(rooms, id);
}

/// Forgets what is known of a job, but that it is not over: those that were to start after it still wait for it.
pub(crate) fn unlearn(rooms: &mut Rooms, id: JobId) {
    line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
    assign::release(&mut rooms.cores, &mut rooms.jobs, id);
    rooms.pending.withdraw(id);
    rooms.memory.forget(id);
    rooms.memory.forget_steering(id);
    rooms.nodes.forget(id);
    if let Some(job) = rooms.jobs.remove(id) {
        rooms.queue.arrays_mut().leave(&job.request, job.live().is_some(), rooms.now);
        line::next_members_wait(&mut rooms.jobs, &mut rooms.queue, &rooms.settings, job.request.array);
    }
}

/// No process of such a job is left: it waits again. Those that were to start after it still wait for it.
pub(crate) fn requeued(rooms: &mut Rooms, id: JobId) {
    if rooms.jobs.live(id).is_none_or(|live| live.phase.is_starting()) {
        return;
    }
    // One that is suspended may wait for its return, with what it holds: it holds nothing any more.
    line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
    assign::release(&mut rooms.cores, &mut rooms.jobs, id);
    rooms.pending.withdraw(id);
    let now = rooms.now;
    let Some(job) = rooms.jobs.get(&id) else { return };
    let Some(live) = job.live() else { return };
    let (held, cancelled, withdrawn) =
        (live.phase.is_suspended_by_user(), live.signal.is_some(), live.withdrawn);
    // For whom one was ended before a restart is not known: it need not rest.
    let asked = live.phase.ends_as_asked() || !live.phase.is_leaving();
    let times = job.requeues.saturating_add(job.checkpoints);
    let error = if job.checkpoints > 0 && job.requeues == 0 {
        "it has written down what it had done, and was ended because memory could be had in no other way"
    } else {
        "it was ended because memory could be had in no other way"
    };
    let again = now.after(REQUEUE_REST.after(times.saturating_sub(1)));
    let failed = (!asked).then(|| Failure { again, error: error.to_owned(), tried: false });
    rooms.queue.arrays_mut().returned(&job.request, now);
    let array = job.request.array;
    rooms.jobs.begin_anew(id, now);
    rooms.jobs.wait_again(id, Waiting { held, failed, ..Waiting::default() });
    rooms.memory.forget(id);
    rooms.memory.forget_steering(id);
    rooms.nodes.forget(id);
    line::next_members_wait(&mut rooms.jobs, &mut rooms.queue, &rooms.settings, array);
    if asked {
        enqueue::enqueue(rooms, id);
    }
    settle_return(rooms, id, cancelled, withdrawn);
}
