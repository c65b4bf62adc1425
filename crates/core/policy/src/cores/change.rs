//! The machine changed: PUs came or went, cores were reserved, scheduling was turned on or off. Running jobs stay where
//! that is possible. Absent: what follows for primaries that lost their homes, and for the queue (`schedule`).

use pinfold_topo::CpuSet;

use crate::api::{Class, CoreReason, JobId, Machine, Reason, Settings, SlotReason};
use crate::cores::grid::Grid;
use crate::cores::host::Host;
use crate::cores::reservation::Reservation;
use crate::cores::{assign, binding, pick, sets};
use crate::jobs::{JobTable, Live, Transition};

/// A job that has no place until [`place_in_reservations`], and the PUs that it had.
#[derive(Debug)]
pub(crate) struct Moved {
    job: JobId,
    had: CpuSet,
}

/// Jobs that were put elsewhere, or lost their place.
#[derive(Debug)]
pub(crate) struct Changed {
    /// Those whose reservation is there again.
    pub(crate) moved: Vec<Moved>,
    /// What is wanted of the others.
    pub(crate) updates: Vec<Transition>,
}

/// Takes the jobs in reservations out of them.
pub(crate) fn leave_reservations(host: &mut Host, jobs: &mut JobTable, settings: &Settings) -> Vec<Moved> {
    let had = |job: JobId| {
        let had = jobs.get(&job).map(|job| binding::cpus_of(host, settings, job)).unwrap_or_default();
        Moved { job, had }
    };
    let moved: Vec<Moved> = sets::in_reservations(host, jobs).into_iter().map(had).collect();
    for &Moved { job, .. } in &moved {
        assign::release(host, jobs, job);
    }
    moved
}

/// The machine is now this one; no job has its place on it yet. Gives its cores as they were.
pub(crate) fn renew(host: &mut Host, machine: Machine) -> Grid {
    let mut sets: Vec<_> = machine.asides.iter().collect();
    sets.sort_by(|a, b| a.name.cmp(&b.name));
    host.reservations = sets.into_iter().map(Reservation::new).collect();
    let old = std::mem::replace(&mut host.grid, Grid::new(&machine));
    host.machine = machine;
    old
}

/// A job stays on the cores that still have a PU it was bound to; a primary whose home is gone becomes a backfiller
/// until a home is free.
pub(crate) fn place_on_host(
    host: &mut Host,
    jobs: &mut JobTable,
    settings: &Settings,
    old: &Grid,
) -> Changed {
    let count = host.grid.len();
    let (mut moved, mut updates) = (Vec::new(), Vec::new());
    for job in pick::highest_first(host) {
        let slots = jobs[&job].slots();
        let Some(class) = jobs.live(job).map(|live| live.class) else { continue };
        let cores = jobs.take_cores(job);
        let had = old.cpus(&cores);
        if sets::reservation_of(host, &jobs[&job]).is_some() {
            assign::release(host, jobs, job); // its set is there again
            moved.push(Moved { job, had });
            continue;
        }
        let mut kept = survivors(host, old, &cores, class == Class::Primary);
        let (class_now, kept) = match class {
            Class::Exclusive => (class, (0..count).collect()),
            _ if !settings.schedule => (class, Vec::new()),
            Class::Primary if kept.len() == slots => (class, kept),
            Class::Primary => (Class::Backfill, Vec::new()),
            Class::Backfill => {
                if kept.len() < slots.min(count) {
                    kept.clear();
                }
                (class, kept)
            }
        };
        let stays = class_now == class && !kept.is_empty();
        assign::release(host, jobs, job);
        assign::occupy(host, jobs, settings, job, class_now, kept);
        let Some(live) = jobs.live(job) else { continue };
        let cpus = binding::cpus_of(host, settings, &jobs[&job]);
        if !stays {
            updates.push(Transition::Update { job, reason: why_gone(host, &had) });
        } else if live.applied.cpus.as_ref() != Some(&cpus) {
            updates.push(Transition::Update { job, reason: Reason::Core(CoreReason::CpusChanged) });
        }
    }
    Changed { moved, updates }
}

/// Why a job lost the PUs that it had.
fn why_gone(host: &Host, had: &CpuSet) -> Reason {
    let taken = |set: &&Reservation| set.cores.iter().any(|core| !core.cpus.is_disjoint(had));
    let set = host.reservations.iter().find(taken);
    Reason::Core(set.map_or(CoreReason::CpusGone, |set| CoreReason::SetAside { set: set.name.clone() }))
}

/// Where `cores` of the old machine are in the new one; `homes`: only where nobody is at home.
fn survivors(host: &Host, old: &Grid, cores: &[usize], homes: bool) -> Vec<usize> {
    let mut kept = Vec::new();
    for &core in cores {
        let found = host
            .grid
            .touched_by(&old.get(core).cpus)
            .into_iter()
            .find(|now| !(kept.contains(now) || homes && host.grid.get(*now).home_of.is_some()));
        kept.extend(found);
    }
    kept.sort_unstable();
    kept
}

/// Gives jobs that were in reservations their places again: where they were, if that is there and free. A job whose
/// reservation is gone goes on beside all others.
pub(crate) fn place_in_reservations(
    host: &mut Host,
    jobs: &mut JobTable,
    settings: &Settings,
    moved: Vec<Moved>,
) -> Vec<Transition> {
    let mut updates = Vec::new();
    for Moved { job: id, had } in moved {
        let job = &jobs[&id];
        let Some(at) = sets::reservation_of(host, job) else {
            assign::occupy(host, jobs, settings, id, Class::Backfill, Vec::new());
            updates.push(Transition::Update { job: id, reason: Reason::Core(CoreReason::CpusGone) });
            continue;
        };
        let cores = sets::room_in(host, at, job, &had).unwrap_or_default();
        assign::occupy(host, jobs, settings, id, Class::Primary, cores);
        let wanted = binding::cpus_of(host, settings, &jobs[&id]);
        // Its set may be there again, and it had been a backfiller beside it.
        let changed = |live: &Live| {
            let other = live.applied.weight.is_some_and(|(class, ..)| class != live.class);
            other || live.applied.cpus.as_ref() != Some(&wanted)
        };
        if jobs.live(id).is_some_and(changed) {
            updates.push(Transition::Update { job: id, reason: Reason::Core(CoreReason::CpusChanged) });
        }
    }
    updates
}

/// Scheduling went off: jobs lose their homes. It went on: the highest and oldest get them.
pub(crate) fn reclass_all(host: &mut Host, jobs: &mut JobTable, settings: &Settings) -> Vec<Transition> {
    let schedule = settings.schedule;
    let reason = if schedule { Reason::ASKED } else { Reason::Slot(SlotReason::Unscheduled) };
    let mut updates = Vec::new();
    let all = pick::highest_first(host);
    for &job in &all {
        assign::release(host, jobs, job);
    }
    for job in sets::in_reservations(host, jobs) {
        assign::release(host, jobs, job);
        let asks = &jobs[&job];
        let room =
            sets::reservation_of(host, asks).and_then(|at| sets::room_in(host, at, asks, &CpuSet::new()));
        let cores = room.filter(|_| schedule).unwrap_or_default();
        assign::occupy(host, jobs, settings, job, Class::Primary, cores);
        updates.push(Transition::Update { job, reason: reason.clone() });
    }
    for job in all {
        let request = &jobs[&job].request;
        let (slots, backfill) = (request.cores as usize, request.class == Some(Class::Backfill));
        let (wish, shape) = (request.wish.as_deref(), jobs[&job].shape());
        let (class, cores) = match host.grid.choose_homes(slots, &[], wish, shape) {
            _ if !schedule => (Class::Primary, Vec::new()),
            Some(homes) if !backfill => (Class::Primary, homes),
            _ => (Class::Backfill, Vec::new()),
        };
        assign::occupy(host, jobs, settings, job, class, cores);
        updates.push(Transition::Update { job, reason: reason.clone() });
    }
    updates
}
