//! A job is submitted, and answers that it has started.

use crate::api::{Action, Decision, Instant, JobId, QueueReason, Reason, Request};
use crate::jobs::{Job, SuspendReason};
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::{end, enqueue, transition};

pub(crate) fn submit(rooms: &mut Rooms, mut request: Request) -> Option<JobId> {
    request.cores = request.cores.max(1);
    request.priority = request.priority.clamp(1, 16);
    let set = request
        .aside
        .as_ref()
        .and_then(|name| rooms.cores.reservations().iter().find(|set| set.name == *name));
    let with_neighbours = |cores: usize| cores + rooms.cores.machine().neighbours_cores;
    let cores = set.map_or(rooms.cores.cores_in_time(), |set| with_neighbours(set.cores.len()));
    let job = request.job;
    if rooms.jobs.contains_key(&job) {
        return None;
    }
    if cores > 0 && request.cores as usize > cores {
        let reason = Reason::Queue(QueueReason::TooLarge { asked: request.cores, cores });
        rooms.pending.decide(Decision { job, action: Action::Drop { refused: true }, reason });
        return None;
    }
    add_waiting(rooms, request, rooms.now);
    Some(job)
}

pub(crate) fn add_waiting(rooms: &mut Rooms, request: Request, submitted: Instant) {
    let id = request.job;
    // After a restart not all jobs are known yet.
    let known = |id: &&JobId| rooms.jobs.is_adopting() || rooms.jobs.contains_key(id);
    let after = request.after.iter().filter(known).copied().collect();
    let pools = rooms.shares.of(request.project.as_deref());
    let job = Job::waiting(request, submitted, after, pools);
    rooms.queue.arrays_mut().join(&job.request, rooms.now);
    rooms.jobs.insert(job);
    enqueue::enqueue(rooms, id);
}

/// Only after the rules had their say: who starts at once does not wait.
pub(crate) fn refuse_if_full(rooms: &mut Rooms, job: JobId) -> bool {
    let cores = rooms.cores.grid().len() + rooms.cores.machine().neighbours_cores;
    let depth = (rooms.settings.queue_depth as usize).saturating_mul(cores.max(1));
    let is_full =
        rooms.jobs.waiting() > depth && rooms.jobs.get(&job).is_some_and(|job| job.live().is_none());
    if is_full {
        end::drop_waiting(rooms, job, true, Reason::Queue(QueueReason::QueueFull { depth }));
    }
    is_full
}

/// The caller lets a waiting job start, or does not yet. The time until then does not count as waiting, neither for its
/// right to go first nor against it.
pub(crate) fn gate(rooms: &mut Rooms, id: JobId, closed: bool) {
    let now = rooms.now;
    if !rooms.jobs.gate(id, closed, now) {
        return;
    }
    let array = rooms.jobs.get(&id).and_then(|job| job.request.array);
    enqueue::reenqueue(rooms, id);
    line::next_members_wait(&mut rooms.jobs, &mut rooms.queue, &rooms.settings, array);
}

pub(crate) fn started(rooms: &mut Rooms, id: JobId) {
    let Some(suspend) = rooms.jobs.started(id) else { return };
    rooms.nodes.touch();
    if suspend {
        transition::suspend_and_release(rooms, id, SuspendReason::Suspended, Reason::ASKED);
    } else if rooms.jobs.live(id).is_some_and(|live| live.signal.is_some()) {
        rooms.pending.request_update(id, Reason::ASKED);
    }
}
