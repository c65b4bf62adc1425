//! From what is wanted of a job to the actions that bring it about.
//!
//! Nothing here decides what is wanted. An action is asked for once; it counts as applied unless its failure is reported,
//! and then it is asked for again after [`crate::jobs::RETRY`], as long as it is still wanted.

use crate::api::{Action, Class, Decision, JobId, Reason};
use crate::cores::binding;
use crate::jobs::{Applied, Wanted};
use crate::rooms::Rooms;

/// Asks for all that is wanted now. Only at the end of a step, so that what was changed there and back
/// within the step is not asked for at all. First of all those who give way, the starts last.
pub(crate) fn reconcile_all(rooms: &mut Rooms) {
    let mut marked = std::mem::take(&mut rooms.pending.marked);
    marked.sort_by_key(|&(job, _)| match rooms.jobs.live(job) {
        Some(live) if live.phase.suspend_reason().is_some() => 0,
        Some(live) if live.applied.frozen != Some(false) => 3,
        Some(live) if live.class == Class::Backfill => 1,
        _ => 2,
    });
    let mut starts = std::mem::take(&mut rooms.pending.starts);
    // A job that is starting or being ended is asked for nothing before it has answered.
    let (later, now): (Vec<_>, Vec<_>) = marked
        .into_iter()
        .partition(|&(job, _)| rooms.jobs.live(job).is_some_and(|live| !live.phase.is_open()));
    rooms.pending.marked = later;
    now.iter().for_each(|(job, reason)| reconcile(rooms, *job, reason));
    for (job, reason) in starts.drain(..) {
        start(rooms, job, reason);
    }
    rooms.pending.starts = starts;
}

fn start(rooms: &mut Rooms, id: JobId, reason: Reason) {
    let Some(job) = rooms.jobs.get(&id) else { return };
    let Some(live) = job.live() else { return };
    let (class, cpus, priority) =
        (live.class, binding::cpus_of(&rooms.cores, &rooms.settings, job), job.request.priority);
    let applied =
        Applied { weight: Some((class, priority, false)), cpus: Some(cpus.clone()), frozen: Some(false) };
    rooms.jobs.set_applied(id, applied);
    rooms.pending.decide(Decision { job: id, action: Action::Start { class, cpus, priority }, reason });
}

/// Asks for the difference between what is wanted of a job and what it was told.
fn reconcile(rooms: &mut Rooms, id: JobId, reason: &Reason) {
    let Some(job) = rooms.jobs.get(&id) else { return };
    let Some(live) = job.live() else { return };
    let wanted = Wanted {
        weight: (live.class, job.request.priority, binding::shares_evenly(&rooms.cores, job)),
        cpus: binding::cpus_of(&rooms.cores, &rooms.settings, job),
        frozen: live.phase.suspend_reason().is_some(),
    };
    let actions = rooms.jobs.apply(id, wanted);
    for action in actions {
        rooms.pending.decide(Decision { job: id, action, reason: reason.clone() });
    }
}
