//! A job starts, or resumes, as planned.

use crate::api::{AgainReason, Class, Instant, JobId, MemoryReason, Reason, Settings, SlotReason};
use crate::cores::{assign, pick, repack, shape, slots};
use crate::jobs::{Job, JobTable, Live, Phase, SuspendReason};
use crate::memory::ladder::{overcommit, resume};
use crate::memory::numa::placement;
use crate::memory::oracle;
use crate::queue::queues::Queues;
use crate::queue::{line, resources};
use crate::rooms::Rooms;
use crate::schedule::plan::Plan;
use crate::schedule::{gives_way, token, transition};

/// Lets a job run as planned.
pub(crate) fn admit(rooms: &mut Rooms, id: JobId, plan: Plan) {
    let priority = rooms.jobs[&id].request.priority;
    let slots = rooms.jobs[&id].slots();
    // By those that run now, as it was looked at.
    let early = if plan.class == Class::Exclusive { None } else { note_overcommit(rooms, id) };
    for &job in &plan.freeze {
        transition::suspend_and_release(
            rooms,
            job,
            SuspendReason::Preempted { by: id },
            Reason::Slot(SlotReason::Preempted { by: id, priority }),
        );
    }
    for &job in &plan.demote {
        assign::release(&mut rooms.cores, &mut rooms.jobs, job);
    }
    line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
    if let Some(shape) = shape::decide_shape(&mut rooms.cores, &rooms.settings, &rooms.jobs[&id]) {
        rooms.jobs.set_shape(id, shape);
    }
    let anywhere = plan.class == Class::Primary && plan.beside.is_empty();
    let mut room = if anywhere { make_room(rooms, id) } else { None };
    if anywhere && room.is_none() && rooms.jobs.live(id).is_none() {
        room = placement::cores_near_memory(rooms, id, slots);
    }
    let (wish, shape) = (rooms.jobs[&id].request.wish.as_deref(), rooms.jobs[&id].shape());
    let cores = match (plan.class, room) {
        _ if !rooms.settings.schedule => vec![],
        (_, Some(cores)) => cores,
        (Class::Primary, None) => {
            // A frozen one returns to where it was, if it can.
            let was = rooms.jobs.live(id).and_then(|live| live.applied.cpus.as_ref());
            let own = was.map(|cpus| rooms.cores.grid().touched_by(cpus)).unwrap_or_default();
            let grid = rooms.cores.grid();
            let homes = match plan.beside.is_empty() {
                true => grid.choose_homes(slots, &own, wish, shape),
                false => grid.choose_beside(slots, &own, shape, &plan.beside),
            };
            homes.expect("planned with so many homes free")
        }
        (Class::Backfill, None) => rooms.cores.grid().choose_pinning(slots, wish, shape),
        (Class::Exclusive, None) => (0..rooms.cores.grid().len()).collect(),
    };
    begin(rooms, id, plan.class, cores, &plan.demote, early);
}

/// A job is to start now, before any job gives way to it: notes whether that is early, and says so.
pub(crate) fn note_overcommit(rooms: &mut Rooms, id: JobId) -> Option<Reason> {
    let start = overcommit::start_of(rooms, id)?;
    overcommit::note(&mut rooms.memory, &mut rooms.jobs, id, start)
}

/// Homes for a job that starts, for which others make room.
fn make_room(rooms: &mut Rooms, id: JobId) -> Option<Vec<usize>> {
    let room = repack::make_room(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, rooms.now, id)?;
    transition::apply(rooms, room.moved);
    Some(room.cores)
}

/// Lets a job run on these cores, for which others become backfillers; `early`: why it may start, if that is early.
pub(crate) fn begin(
    rooms: &mut Rooms,
    id: JobId,
    class: Class,
    cores: Vec<usize>,
    demoted: &[JobId],
    early: Option<Reason>,
) {
    let priority = rooms.jobs[&id].request.priority;
    let thaw = rooms.jobs.get(&id).and_then(Job::suspend_reason);
    let mut failed = None;
    if thaw.is_none() {
        resources::passed_by(rooms, id).into_iter().for_each(|passed| rooms.jobs.pass_over(passed));
        failed = prepare(&mut rooms.jobs, &mut rooms.queue, &rooms.settings, rooms.now, id, class);
    }
    assign::occupy(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, id, class, cores);
    if thaw.is_none()
        && let Some(lay) = shape::lay_of(&rooms.cores, &rooms.settings, &rooms.jobs[&id])
    {
        rooms.jobs.set_lay(id, lay);
    }
    // Only now, so that they are pinned where the newcomer is not.
    for &job in demoted {
        let wanted = rooms.jobs[&job].slots();
        let cores = pick::pinning_for(&rooms.cores, &rooms.jobs, job, wanted);
        assign::occupy(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, job, Class::Backfill, cores);
        rooms.pending.request_update(job, Reason::Slot(SlotReason::Preempted { by: id, priority }));
    }
    match thaw {
        Some(out) => {
            resume::resume(&mut rooms.memory, &mut rooms.jobs, rooms.now, id);
            rooms.pending.request_update(id, thaw_reason(rooms, id, out));
            line::rearm(&mut rooms.jobs, &rooms.queue, &rooms.settings, id);
        }
        None => {
            let reason = early.unwrap_or_else(|| start_reason(rooms, id, class, failed));
            rooms.pending.start(id, reason);
        }
    }
    if oracle::is_governed(rooms) {
        // The next in this step is checked against what it may need.
        token::choose_token(rooms);
    }
}

/// Makes a waiting job a starting one; says why its last start failed, or its last run was ended for others.
fn prepare(
    jobs: &mut JobTable,
    queue: &mut Queues,
    settings: &Settings,
    now: Instant,
    id: JobId,
    class: Class,
) -> Option<Reason> {
    let (failures, failed) = jobs.take_failure(id)?;
    let live = Live { failures, ..Live::new(Phase::Starting { suspend: false }, now, class) };
    start_job(jobs, queue, id, live);
    line::rearm(jobs, queue, settings, id);
    failed.map(|failed| match failures {
        0 => Reason::Again(AgainReason::BeginsAnew { why: failed.error }),
        _ => Reason::Again(AgainReason::Retry { error: failed.error }),
    })
}

/// Makes a job one that has started; the caller gives it its slot.
pub(crate) fn start_job(jobs: &mut JobTable, queue: &mut Queues, id: JobId, live: Live) {
    if jobs.start(id, live)
        && let Some(job) = jobs.get(&id)
    {
        queue.arrays_mut().began(&job.request);
    }
}

fn start_reason(rooms: &Rooms, id: JobId, class: Class, failed: Option<Reason>) -> Reason {
    let (used, slots) = slots::in_use(&rooms.cores, &rooms.settings);
    match (failed, class) {
        (Some(reason), _) => reason,
        _ if rooms.jobs.live(id).is_some_and(|live| live.aside.is_some()) => {
            Reason::Slot(SlotReason::SetFree {
                set: rooms.jobs[&id].request.aside.clone().unwrap_or_default(),
            })
        }
        _ if !rooms.settings.schedule => Reason::Slot(SlotReason::Unscheduled),
        (None, Class::Primary) => Reason::Slot(SlotReason::HomeCoreFree { used, slots }),
        (None, Class::Backfill) if rooms.jobs[&id].request.class == Some(class) => {
            Reason::Slot(SlotReason::BackfillAsked { used, slots })
        }
        (None, Class::Backfill) => Reason::Slot(SlotReason::BackfillSlotFree { used, slots }),
        (None, Class::Exclusive) => Reason::Slot(SlotReason::Exclusive { by: id }),
    }
}

fn thaw_reason(rooms: &Rooms, id: JobId, out: SuspendReason) -> Reason {
    match out {
        _ if !rooms.settings.schedule => Reason::Slot(SlotReason::Unscheduled),
        SuspendReason::Suspended => Reason::ASKED,
        SuspendReason::Memory { .. } => Reason::Memory(MemoryReason::Suffices {
            free: oracle::free_memory(rooms),
            swapped: rooms.jobs.get(&id).map_or(0, |job| job.held.missing()),
        }),
        SuspendReason::Exclusive { .. } => Reason::Slot(SlotReason::ExclusiveOver),
        SuspendReason::Found => Reason::Again(AgainReason::Restored),
        SuspendReason::Preempted { .. }
        | SuspendReason::Lent { .. }
        | SuspendReason::SlotsShrank
        | SuspendReason::Interferes { .. }
        | SuspendReason::Survived => Reason::Slot(SlotReason::SlotFree),
    }
}

/// Starts an exclusive job, if all others may be frozen for it.
pub(crate) fn start_exclusive(rooms: &mut Rooms, id: JobId) -> bool {
    let clears = clear_for(rooms, id);
    if clears {
        admit(rooms, id, Plan::as_is(Class::Exclusive));
    }
    clears
}

/// Freezes all others for an exclusive job, if all may be frozen for it: backfillers, then primaries, the
/// newest first. If one may not, nobody is frozen: the cores would only idle until it has ended.
fn clear_for(rooms: &mut Rooms, by: JobId) -> bool {
    if rooms.cores.running().lowest_first().any(|(_, job)| !gives_way::gives_way(rooms, job, by))
        || rooms.jobs.any_dying()
    {
        return false;
    }
    let mut others: Vec<JobId> = rooms.cores.running().backfillers_newest_first().collect();
    let mut primaries: Vec<JobId> =
        rooms.cores.running().primaries_lowest_first().map(|(_, job)| job).collect();
    primaries.sort_by_key(|&job| std::cmp::Reverse((rooms.jobs.live(job).map(|live| live.started), job)));
    others.append(&mut primaries);
    for job in others {
        transition::suspend_and_release(
            rooms,
            job,
            SuspendReason::Exclusive { by },
            Reason::Slot(SlotReason::Exclusive { by }),
        );
    }
    true
}
