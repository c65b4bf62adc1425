//! A job starts, or resumes, as planned.

use crate::api::{AgainReason, Class, JobId, MemoryReason, Reason, SlotReason};
use crate::cores::{assign, pick, repack, shape, slots};
use crate::jobs::{Job, Live, Phase, SuspendReason};
use crate::memory::numa::placement;
use crate::memory::{ladder, oracle};
use crate::queue::{line, resources};
use crate::rooms::Rooms;
use crate::schedule::gives_way;
use crate::schedule::plan::Plan;

/// Lets a job run as planned.
pub(crate) fn admit(rooms: &mut Rooms, id: JobId, plan: Plan) {
    let priority = rooms.jobs[&id].request.priority;
    let slots = rooms.jobs[&id].slots();
    // By those who run now, as it was looked at.
    let early = if plan.class == Class::Exclusive { None } else { ladder::note_overcommit(rooms, id) };
    for &job in &plan.freeze {
        assign::suspend_and_release(
            rooms,
            job,
            SuspendReason::Preempted { by: id },
            Reason::Slot(SlotReason::Preempted { by: id, priority }),
        );
    }
    for &job in &plan.demote {
        assign::release(rooms, job);
    }
    line::dequeue(rooms, id);
    shape::decide_shape(rooms, id);
    let mut room = if plan.class == Class::Primary { repack::make_room(rooms, id) } else { None };
    if plan.class == Class::Primary && room.is_none() && rooms.jobs.live(id).is_none() {
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
            rooms
                .cores
                .grid()
                .choose_homes(slots, &own, wish, shape)
                .expect("planned with so many homes free")
        }
        (Class::Backfill, None) => rooms.cores.grid().choose_pinning(slots, wish, shape),
        (Class::Exclusive, None) => (0..rooms.cores.grid().len()).collect(),
    };
    begin(rooms, id, plan.class, cores, &plan.demote, early);
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
        resources::note_passed(rooms, id);
        failed = prepare(rooms, id, class);
    }
    assign::occupy(rooms, id, class, cores);
    if thaw.is_none() {
        shape::note_lay(rooms, id);
    }
    // Only now, so that they are pinned where the newcomer is not.
    for &job in demoted {
        let wanted = rooms.jobs[&job].slots();
        let cores = pick::pinning_for(rooms, job, wanted);
        assign::occupy(rooms, job, Class::Backfill, cores);
        rooms.pending.request_update(job, Reason::Slot(SlotReason::Preempted { by: id, priority }));
    }
    match thaw {
        Some(out) => {
            ladder::resume(rooms, id);
            rooms.pending.request_update(id, thaw_reason(rooms, id, out));
            line::rearm(rooms, id);
        }
        None => {
            let reason = early.unwrap_or_else(|| start_reason(rooms, id, class, failed));
            rooms.pending.start(id, reason);
        }
    }
    if oracle::is_governed(rooms) {
        // The next in this step is held against what it may need.
        ladder::choose_token(rooms);
    }
}

/// Makes a waiting job a starting one; says why its last start failed, or its last run was ended for others.
fn prepare(rooms: &mut Rooms, id: JobId, class: Class) -> Option<Reason> {
    let started = rooms.now;
    let (failures, failed) = rooms.jobs.take_failure(id)?;
    start_job(rooms, id, Live { failures, ..Live::new(Phase::Starting { suspend: false }, started, class) });
    line::rearm(rooms, id);
    failed.map(|failed| match failures {
        0 => Reason::Again(AgainReason::BeginsAnew { why: failed.error }),
        _ => Reason::Again(AgainReason::Retry { error: failed.error }),
    })
}

/// Makes a job one that has started; the caller gives it its slot.
pub(crate) fn start_job(rooms: &mut Rooms, id: JobId, live: Live) {
    if rooms.jobs.start(id, live)
        && let Some(job) = rooms.jobs.get(&id)
    {
        rooms.queue.arrays_mut().began(&job.request);
    }
}

fn start_reason(rooms: &Rooms, id: JobId, class: Class, failed: Option<Reason>) -> Reason {
    let (used, slots) = slots::in_use(rooms);
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
        admit(rooms, id, Plan { class: Class::Exclusive, freeze: vec![], demote: vec![] });
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
        assign::suspend_and_release(
            rooms,
            job,
            SuspendReason::Exclusive { by },
            Reason::Slot(SlotReason::Exclusive { by }),
        );
    }
    true
}
