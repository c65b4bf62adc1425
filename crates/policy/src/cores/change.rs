//! The machine changed: PUs came or went, cores were reserved, scheduling was turned on or off. Running jobs stay where
//! that is possible. Absent: what follows for primaries that lost their homes (`schedule`).

use pinfold_topo::CpuSet;

use crate::api::{Aside, Class, CoreReason, JobId, Machine, Reason, SlotReason};
use crate::cores::grid::Grid;
use crate::cores::reservation::Reservation;
use crate::cores::{assign, binding, headroom, pick, resize, sets};
use crate::jobs::Live;
use crate::queue::line;
use crate::rooms::Rooms;

/// The sets are now these. Whoever was in one has no place until [`place_in_reservations`]; gives them with the
/// PUs they had.
fn renew_reservations(rooms: &mut Rooms, sets: &[Aside]) -> Vec<(JobId, CpuSet)> {
    let asking: Vec<JobId> =
        rooms.jobs.values().filter(|job| job.request.aside.is_some()).map(|job| job.id()).collect();
    asking.iter().for_each(|&job| line::dequeue(rooms, job));
    let had =
        |job: JobId| (job, rooms.jobs.get(&job).map(|job| binding::cpus_of(rooms, job)).unwrap_or_default());
    let moved: Vec<(JobId, CpuSet)> = sets::in_reservations(rooms).into_iter().map(had).collect();
    for &(job, _) in &moved {
        assign::release(rooms, job);
    }
    let mut sets: Vec<&Aside> = sets.iter().collect();
    sets.sort_by(|a, b| a.name.cmp(&b.name));
    rooms.queue.renew_reserved(sets.len());
    rooms.cores.reservations = sets.into_iter().map(Reservation::new).collect();
    moved
}

/// Gives those who were in sets their places again: where they were, if that is there and free; whose set is gone
/// goes on beside all others.
fn place_in_reservations(rooms: &mut Rooms, moved: Vec<(JobId, CpuSet)>) {
    for (id, had) in moved {
        let job = &rooms.jobs[&id];
        let Some(at) = sets::reservation_of(rooms, job) else {
            assign::occupy(rooms, id, Class::Backfill, Vec::new());
            rooms.pending.request_update(id, Reason::Core(CoreReason::CpusGone));
            continue;
        };
        let cores = sets::room_in(rooms, at, job, &had).unwrap_or_default();
        assign::occupy(rooms, id, Class::Primary, cores);
        let wanted = binding::cpus_of(rooms, &rooms.jobs[&id]);
        // Its set may be there again, and it had been a backfiller beside it.
        let changed = |live: &Live| {
            let other = live.applied.weight.is_some_and(|(class, ..)| class != live.class);
            other || live.applied.cpus.as_ref() != Some(&wanted)
        };
        if rooms.jobs.live(id).is_some_and(changed) {
            rooms.pending.request_update(id, Reason::Core(CoreReason::CpusChanged));
        }
    }
    let asking: Vec<JobId> =
        rooms.jobs.values().filter(|job| job.request.aside.is_some()).map(|job| job.id()).collect();
    asking.into_iter().for_each(|job| line::enqueue(rooms, job));
}

/// The machine changed. A job stays on the cores that still have a PU it was bound to; a primary whose
/// home is gone becomes a backfiller until a home is free.
pub(crate) fn set_machine(rooms: &mut Rooms, machine: Machine) {
    let mut in_sets = renew_reservations(rooms, &machine.asides);
    let old = std::mem::replace(&mut rooms.cores.grid, Grid::new(&machine));
    rooms.cores.machine = machine;
    rooms.nodes.renew(rooms.cores.machine.topology.as_deref());
    let count = rooms.cores.grid.len();
    for job in pick::highest_first(rooms) {
        let slots = rooms.jobs[&job].slots();
        let Some(class) = rooms.jobs.live(job).map(|live| live.class) else { continue };
        let cores = rooms.jobs.take_cores(job);
        let had = old.cpus(&cores);
        if sets::reservation_of(rooms, &rooms.jobs[&job]).is_some() {
            assign::release(rooms, job); // its set is there again
            in_sets.push((job, had));
            continue;
        }
        let mut kept = survivors(rooms, &old, &cores, class == Class::Primary);
        let (class_now, kept) = match class {
            Class::Exclusive => (class, (0..count).collect()),
            _ if !rooms.settings.schedule => (class, Vec::new()),
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
        assign::release(rooms, job);
        assign::occupy(rooms, job, class_now, kept);
        let Some(live) = rooms.jobs.live(job) else { continue };
        let taken = |set: &&Reservation| set.cores.iter().any(|core| !core.cpus.is_disjoint(&had));
        let cpus = binding::cpus_of(rooms, &rooms.jobs[&job]);
        if !stays {
            let set = rooms
                .cores
                .reservations
                .iter()
                .find(taken)
                .map(|set| Reason::Core(CoreReason::SetAside { set: set.name.clone() }));
            rooms.pending.request_update(job, set.unwrap_or(Reason::Core(CoreReason::CpusGone)));
        } else if live.applied.cpus.as_ref() != Some(&cpus) {
            rooms.pending.request_update(job, Reason::Core(CoreReason::CpusChanged));
        }
    }
    place_in_reservations(rooms, in_sets);
    line::requeue_constrained(rooms);
    headroom::set_headroom(rooms);
    resize::clip(rooms);
}

/// Where `cores` of the old machine are in the new one; `homes`: only where nobody is at home.
fn survivors(rooms: &Rooms, old: &Grid, cores: &[usize], homes: bool) -> Vec<usize> {
    let mut kept = Vec::new();
    for &core in cores {
        let found = rooms
            .cores
            .grid
            .touched_by(&old.get(core).cpus)
            .into_iter()
            .find(|now| !(kept.contains(now) || homes && rooms.cores.grid.get(*now).home_of.is_some()));
        kept.extend(found);
    }
    kept.sort_unstable();
    kept
}

/// Scheduling went off: holders lose their homes. It went on: the highest and oldest get them.
pub(crate) fn reclass_all(rooms: &mut Rooms) {
    let schedule = rooms.settings.schedule;
    let all = pick::highest_first(rooms);
    for &job in &all {
        assign::release(rooms, job);
    }
    for job in sets::in_reservations(rooms) {
        assign::release(rooms, job);
        let asks = &rooms.jobs[&job];
        let room =
            sets::reservation_of(rooms, asks).and_then(|at| sets::room_in(rooms, at, asks, &CpuSet::new()));
        assign::occupy(rooms, job, Class::Primary, room.filter(|_| schedule).unwrap_or_default());
        rooms.pending.request_update(
            job,
            if schedule { Reason::ASKED } else { Reason::Slot(SlotReason::Unscheduled) },
        );
    }
    for job in all {
        let request = &rooms.jobs[&job].request;
        let (slots, backfill) = (request.cores as usize, request.class == Some(Class::Backfill));
        let (wish, shape) = (request.wish.as_deref(), rooms.jobs[&job].shape());
        let (class, cores) = match rooms.cores.grid.choose_homes(slots, &[], wish, shape) {
            _ if !schedule => (Class::Primary, Vec::new()),
            Some(homes) if !backfill => (Class::Primary, homes),
            _ => (Class::Backfill, Vec::new()),
        };
        assign::occupy(rooms, job, class, cores);
        rooms.pending.request_update(
            job,
            if schedule { Reason::ASKED } else { Reason::Slot(SlotReason::Unscheduled) },
        );
    }
}
