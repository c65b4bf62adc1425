//! From what is wanted of a job to the actions that bring it about.
//!
//! Nothing here decides what is wanted. An action is asked for once; it counts as applied unless its failure is
//! reported, and then it is asked for again after [`crate::jobs::RETRY`], as long as it is still wanted.

use crate::api::{Action, Class, Decision, JobId, Settings};
use crate::apply::pending::Pending;
use crate::cores::binding;
use crate::cores::host::Host;
use crate::jobs::{Applied, JobTable, Wanted};

/// Asks for all that is wanted now. Only at the end of a step, so that what was changed there and back
/// within the step is not asked for at all. First of all those that give way, the starts last.
pub(crate) fn reconcile_all(pending: &mut Pending, jobs: &mut JobTable, host: &Host, settings: &Settings) {
    let mut marked = std::mem::take(&mut pending.marked);
    marked.sort_by_key(|&(job, _)| match jobs.live(job) {
        Some(live) if live.phase.suspend_reason().is_some() => 0,
        Some(live) if live.applied.frozen != Some(false) => 3,
        Some(live) if live.class == Class::Backfill => 1,
        _ => 2,
    });
    // A job that is starting or being ended is asked for nothing before it has answered.
    let (later, now): (Vec<_>, Vec<_>) =
        marked.into_iter().partition(|&(job, _)| jobs.live(job).is_some_and(|live| !live.phase.is_open()));
    pending.marked = later;
    for (job, reason) in now {
        let Some(wanted) = wanted_of(jobs, host, settings, job) else { continue };
        for action in jobs.apply(job, wanted) {
            pending.decide(Decision { job, action, reason: reason.clone() });
        }
    }
    let mut starts = std::mem::take(&mut pending.starts);
    for (job, reason) in starts.drain(..) {
        let Some(action) = start(jobs, host, settings, job) else { continue };
        pending.decide(Decision { job, action, reason });
    }
    pending.starts = starts;
}

/// What a job is told when it starts.
fn start(jobs: &mut JobTable, host: &Host, settings: &Settings, id: JobId) -> Option<Action> {
    let job = jobs.get(&id)?;
    let (class, priority) = (job.live()?.class, job.request.priority);
    let cpus = binding::cpus_of(host, settings, job);
    let applied =
        Applied { weight: Some((class, priority, false)), cpus: Some(cpus.clone()), frozen: Some(false) };
    jobs.set_applied(id, applied);
    Some(Action::Start { class, cpus, priority })
}

/// What is wanted of a job that has started.
fn wanted_of(jobs: &JobTable, host: &Host, settings: &Settings, id: JobId) -> Option<Wanted> {
    let job = jobs.get(&id)?;
    let live = job.live()?;
    Some(Wanted {
        weight: (live.class, job.request.priority, binding::shares_evenly(host, job)),
        cpus: binding::cpus_of(host, settings, job),
        frozen: live.phase.suspend_reason().is_some(),
    })
}
