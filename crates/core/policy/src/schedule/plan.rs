//! How a job can get its slot: in which class, and which jobs are suspended or demoted for it.

use crate::api::{Class, JobId, Preemption};
use crate::cores::{pick, slots};
use crate::jobs::{Demand, Job};
use crate::rooms::Rooms;
use crate::shares::core_pool;
use crate::shares::pools::Count;

/// How a job gets its slot.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) class: Class,
    /// Who is frozen for it.
    pub(crate) freeze: Vec<JobId>,
    /// Which primaries become backfillers for it.
    pub(crate) demote: Vec<JobId>,
    /// The home cores that it leaves to the first in the queue; it wishes none then.
    pub(crate) beside: Vec<usize>,
}

impl Plan {
    /// Nobody gives way.
    pub(crate) fn as_is(class: Class) -> Self {
        Self { class, freeze: Vec::new(), demote: Vec::new(), beside: Vec::new() }
    }
}

/// The first of `candidates` that together with what is `free` make up `wanted`, without those that turn out
/// to be needless; `None` if all together do not suffice.
pub(crate) fn enough(
    candidates: impl Iterator<Item = JobId>,
    free: usize,
    wanted: usize,
    gain: impl Fn(JobId) -> usize,
) -> Option<Vec<JobId>> {
    let (mut chosen, mut sum) = (Vec::new(), free);
    for job in candidates {
        if sum >= wanted {
            break;
        }
        let gain = gain(job);
        if gain > 0 {
            sum += gain;
            chosen.push(job);
        }
    }
    // A large one chosen late may make small ones before it needless.
    chosen.reverse();
    chosen.retain(|&job| {
        let needed = sum - gain(job) < wanted;
        sum -= if needed { 0 } else { gain(job) };
        needed
    });
    chosen.reverse();
    (sum >= wanted).then_some(chosen)
}

/// Whether such a job can start now without taking anything from anyone.
pub(crate) fn fits(rooms: &Rooms, shape: Demand) -> bool {
    let cores = shape.cores as usize;
    let fits = cores <= slots::free_slots(&rooms.cores, &rooms.settings) && cores <= rooms.cores.grid().len();
    fits && match shape.class {
        None | Some(Class::Backfill) => true,
        // Which homes it wishes is looked at when it is first in line, not here.
        Some(Class::Primary) => cores <= rooms.cores.grid().free_homes() && !shape.wishes,
        Some(Class::Exclusive) => false,
    }
}

/// How a job can get its slot now, if it can; `taking`: also from jobs of lower priority.
pub(crate) fn plan(rooms: &Rooms, id: JobId, taking: bool) -> Option<Plan> {
    let job = &rooms.jobs[&id];
    let priority = job.request.priority;
    let Demand { cores, class: asked, .. } = job.queued?.shape;
    let slots = cores as usize;
    let preemption = if taking { rooms.settings.preemption } else { Preemption::Off };
    let mut freeze = Vec::new();
    if slots::free_slots(&rooms.cores, &rooms.settings) < slots {
        let best_effort = if taking && pick::comes_before_best_effort(&rooms.cores, &rooms.jobs, id) {
            pick::best_effort(&rooms.cores, &rooms.jobs)
        } else {
            vec![]
        };
        if preemption == Preemption::Off && best_effort.is_empty() {
            return None;
        }
        let lower = lower_first(rooms, preemption, priority);
        // A best-effort job takes nothing from others, or two jobs would take it from each other for ever.
        let takes = |job: &JobId| asked != Some(Class::Backfill) || rooms.jobs.is_best_effort(*job);
        let lower = lower.into_iter().filter(takes);
        // A job that returns in this very step was looked at beside the jobs that run, not beside the newcomer.
        let returns =
            |job: &JobId| rooms.jobs.live(*job).is_some_and(|live| live.applied.frozen == Some(true));
        // The keeper of a nested job is frozen with the parent.
        let parents: Vec<JobId> = rooms.jobs.parents(id).map(Job::id).collect();
        let lower = lower.filter(|job| !rooms.jobs[job].aged && !returns(job) && !best_effort.contains(job));
        let mut uses = core_pool::uses(rooms);
        let victims = best_effort.iter().copied().chain(lower);
        let victims = victims.filter(|&job| {
            rooms.jobs.may_freeze(job)
                && !parents.contains(&job)
                && core_pool::pays(rooms, &mut uses, Count::Slots, job, id)
        });
        // More may be in use than there are, by jobs that may not be frozen or by the foremost.
        let wanted = slots + rooms.cores.used().saturating_sub(slots::total(&rooms.cores, &rooms.settings));
        let gain = |job: JobId| rooms.jobs.live(job).map_or(0, |live| live.slots);
        freeze = enough(victims, slots::free_slots(&rooms.cores, &rooms.settings), wanted, gain)?;
    }
    let demote = |freeze: &[JobId], free_homes| {
        let may = |job| !freeze.contains(&job);
        (preemption != Preemption::Off).then(|| to_demote(rooms, id, free_homes, may)).flatten()
    };
    on_cores(rooms, id, freeze, demote)
}

/// How a job with enough slots gets its cores. `demote` names primaries that give up their home cores, given the jobs that
/// are frozen for this job and the number of home cores that are free then.
pub(crate) fn on_cores(
    rooms: &Rooms,
    id: JobId,
    freeze: Vec<JobId>,
    demote: impl FnOnce(&[JobId], usize) -> Option<Vec<JobId>>,
) -> Option<Plan> {
    let job = &rooms.jobs[&id];
    let (wanted, asked) = (job.slots(), job.queued?.shape.class);
    let plan = |class, freeze, demote| Some(Plan { freeze, demote, ..Plan::as_is(class) });
    if asked == Some(Class::Backfill) {
        return plan(Class::Backfill, freeze, vec![]);
    }
    if let Some(wish) = job.request.wish.as_deref() {
        // Nobody gives way for homes that are wished: how many would have to is not known beforehand.
        // Best-effort jobs have none.
        let leaves_homes = freeze.iter().any(|&job| !rooms.jobs.is_best_effort(job));
        let possible =
            !leaves_homes && rooms.cores.grid().choose_homes(wanted, &[], Some(wish), job.shape()).is_some();
        return match asked {
            _ if possible => plan(Class::Primary, freeze, vec![]),
            Some(Class::Primary) => None,
            _ => plan(Class::Backfill, freeze, vec![]),
        };
    }
    let free_homes =
        rooms.cores.grid().free_homes() + freeze.iter().map(|&job| homes(rooms, job)).sum::<usize>();
    if free_homes >= wanted {
        return plan(Class::Primary, freeze, vec![]);
    }
    if let Some(demote) = demote(&freeze, free_homes) {
        return plan(Class::Primary, freeze, demote);
    }
    if asked == Some(Class::Primary) { None } else { plan(Class::Backfill, freeze, vec![]) }
}

/// The jobs of lower priority that may lose their slots, in that order. Where home cores change hands (`soft`) a job
/// without a home goes before one of its priority that has one: the latter becomes a backfiller instead.
fn lower_first(rooms: &Rooms, preemption: Preemption, priority: u8) -> Vec<JobId> {
    if preemption == Preemption::Off {
        return Vec::new();
    }
    let mut lower: Vec<(u8, JobId)> =
        rooms.cores.running().lowest_first().take_while(|&(theirs, _)| theirs < priority).collect();
    if preemption == Preemption::Soft {
        lower.sort_by_key(|&(theirs, job)| (theirs, homes(rooms, job) > 0));
    }
    lower.into_iter().map(|(_, job)| job).collect()
}

/// The home cores of a job.
pub(crate) fn homes(rooms: &Rooms, job: JobId) -> usize {
    rooms.jobs.live(job).map_or(0, |live| if live.class == Class::Primary { live.cores.len() } else { 0 })
}

/// Which primaries of lower priority become backfillers so that with those that are free a job has home cores enough,
/// of those that `may`; `None`: all together do not suffice.
pub(crate) fn to_demote(
    rooms: &Rooms,
    id: JobId,
    free_homes: usize,
    may: impl Fn(JobId) -> bool,
) -> Option<Vec<JobId>> {
    let (wanted, priority) = (rooms.jobs[&id].slots(), rooms.jobs[&id].request.priority);
    let lower = rooms.cores.running().primaries_lowest_first().take_while(|&(theirs, _)| theirs < priority);
    let mut uses = core_pool::uses(rooms);
    let victims = lower
        .map(|(_, job)| job)
        .filter(|&job| may(job) && core_pool::pays(rooms, &mut uses, Count::Homes, job, id));
    enough(victims, free_homes, wanted, |job| homes(rooms, job))
}
