//! A pool reclaims home cores that are its own and that it wants.

use std::collections::BTreeSet;

use crate::api::{AgainReason, Class, CoreReason, JobId, Reason, ShareReason};
use crate::cores::{assign, pick, slots};
use crate::jobs::{Demand, SuspendReason};
use crate::memory::oracle;
use crate::queue::head::{self, Left};
use crate::queue::line;
use crate::queue::order::{PASSED_MAX, RANK_AGED, ROUNDS_MAX};
use crate::rooms::Rooms;
use crate::schedule::plan::Plan;
use crate::schedule::{start, transition};
use crate::shares::core_pool;
use crate::shares::pools::Count;

/// What was taken from borrowers.
#[derive(Debug)]
struct Taken {
    /// From whom, and whether it is frozen for it.
    from: Vec<(JobId, bool)>,
    /// The homes that the job gets.
    homes: Vec<usize>,
}

/// Gives each pool the home cores that are its own and that it wants; says whether any got one.
pub(crate) fn reclaim_guaranteed(rooms: &mut Rooms) -> bool {
    if !rooms.shares.split_cores() {
        return false;
    }
    // What one takes back may leave another, who was looked at before, without what is its own. Nobody else is given
    // anything in between: those that come first would take it again.
    let mut kept = false;
    for _ in 0..ROUNDS_MAX {
        if !reclaim_guaranteed_once(rooms) {
            break;
        }
        kept = true;
    }
    kept
}

fn reclaim_guaranteed_once(rooms: &mut Rooms) -> bool {
    let (mut tried, mut kept) = (BTreeSet::new(), false);
    for pool in 0..u16::try_from(rooms.shares.cores.len()).unwrap_or(u16::MAX) {
        while let Some((id, passed)) = entitled(rooms, pool, &tried) {
            tried.insert(id);
            if !reclaim_homes(rooms, id) {
                continue;
            }
            kept = true;
            if let Some(passed) = passed {
                rooms.jobs.pass_over(passed);
            }
        }
    }
    kept
}

/// The next job of a pool that wants homes which are its pool's own, and the one of its pool that it passes.
fn entitled(rooms: &Rooms, pool: u16, tried: &BTreeSet<JobId>) -> Option<(JobId, Option<JobId>)> {
    let room = core_pool::room_left(rooms, pool);
    if room == 0 {
        return None;
    }
    let wants = |id: &JobId| {
        let job = &rooms.jobs[id];
        let asked = matches!(job.request.class, None | Some(Class::Primary));
        asked && job.pools.cores == pool && job.slots() <= room && !tried.contains(id)
    };
    let mut backfillers: Vec<JobId> =
        rooms.cores.running().backfillers_newest_first().filter(wants).collect();
    if let Some(oldest) = backfillers.pop() {
        return Some((oldest, None));
    }
    let left = Left::default();
    let mine = |shape: &Demand| {
        let placeable = left.suffices(rooms, *shape);
        let homes = shape.class != Some(Class::Backfill);
        homes && shape.pools.cores == pool && placeable && head::is_in_line(rooms, *shape)
    };
    let fits = |shape: &Demand| shape.class != Some(Class::Exclusive) && shape.homes as usize <= room;
    let (rank, head) = rooms.queue.host().first(|shape| mine(&shape))?;
    let shape = rooms.jobs[&head].queued?.shape;
    if fits(&shape) && !tried.contains(&head) {
        return Some((head, None));
    }
    let exclusive = shape.class == Some(Class::Exclusive);
    let first = exclusive || rank == RANK_AGED || rooms.jobs[&head].passed >= PASSED_MAX;
    if first && !core_pool::waits_for_guaranteed(rooms, head) {
        return None; // as in the queue of all
    }
    let next = rooms.queue.host().first(|other| mine(&other) && fits(&other) && other != shape);
    next.map(|(_, next)| (next, Some(head))).filter(|(next, _)| !tried.contains(next))
}

/// Gives a job home cores that are its pool's own, from those that borrowed them if need be; says whether it could.
fn reclaim_homes(rooms: &mut Rooms, id: JobId) -> bool {
    let waits = rooms.jobs.live(id).is_none_or(|live| live.key.is_none());
    if waits && oracle::lacks_memory(rooms, id).is_some() {
        return false;
    }
    let slots = if waits { rooms.jobs[&id].queued.map_or(0, |entry| entry.shape.cores as usize) } else { 0 };
    if waits
        && rooms.cores.exclusive().is_none()
        && slots::free_slots(&rooms.cores, &rooms.settings) >= slots
        && pick::homes_for(&rooms.cores, &rooms.jobs, id).is_some()
    {
        // Nobody has to give way.
        start::admit(rooms, id, Plan::as_is(Class::Primary));
        return true;
    }
    let early = start::note_overcommit(rooms, id);
    let Some(taken) = collect(rooms, id, slots) else { return false };
    let project = rooms.shares.name(core_pool::pool(rooms, id));
    let reason = Reason::Share(ShareReason::Reclaimed { project, by: id });
    for &(job, frozen) in &taken.from {
        if frozen {
            transition::suspend_and_release(rooms, job, SuspendReason::Lent { by: id }, reason.clone());
        }
    }
    if waits {
        line::dequeue(&mut rooms.queue, &mut rooms.jobs, &rooms.cores, id);
        start::begin(rooms, id, Class::Primary, taken.homes, &[], early);
    } else {
        assign::release(&mut rooms.cores, &mut rooms.jobs, id);
        assign::occupy(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, id, Class::Primary, taken.homes);
    }
    note_guaranteed(rooms, id);
    // Only now, so that they are pinned where the newcomer is not.
    for (job, _) in taken.from.into_iter().filter(|&(_, frozen)| !frozen) {
        let cores = pick::pinning_for(&rooms.cores, &rooms.jobs, job, rooms.jobs[&job].slots());
        assign::occupy(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, job, Class::Backfill, cores);
        rooms.pending.request_update(job, reason.clone());
    }
    true
}

/// The reason for which a job got its homes is that they are its pool's own.
fn note_guaranteed(rooms: &mut Rooms, id: JobId) {
    let pool = core_pool::pool(rooms, id);
    let used = core_pool::uses(rooms).of(Count::Homes, pool);
    let reason = Reason::Share(ShareReason::Guaranteed {
        project: rooms.shares.name(pool),
        used,
        cores: rooms.shares.share(pool),
    });
    // One that lost its home by the same event is not favoured but moved.
    let moved = |reason: &Reason| {
        matches!(reason, Reason::Core(CoreReason::CpusGone) | Reason::Again(AgainReason::Restored))
    };
    if rooms.pending.marked().iter().any(|(job, why)| *job == id && moved(why)) {
        return;
    }
    match rooms.pending.start_reason_mut(id) {
        Some(Reason::Again(AgainReason::Retry { .. }) | Reason::Again(AgainReason::BeginsAnew { .. })) => {}
        Some(why) => *why = reason,
        None => rooms.pending.request_update(id, reason),
    }
}

/// Takes slots and homes from borrowers until a job has enough; `None`: they have not, and nothing is changed.
fn collect(rooms: &mut Rooms, id: JobId, slots: usize) -> Option<Taken> {
    let mut lifted: Vec<(JobId, Class, Vec<usize>, bool)> = Vec::new();
    let mut lift = |rooms: &mut Rooms, job: JobId, freeze: bool| {
        let live = rooms.jobs.live(job).expect("it has a slot");
        lifted.push((job, live.class, live.cores.clone(), freeze));
        assign::release(&mut rooms.cores, &mut rooms.jobs, job);
    };
    let mut enough = true;
    if let Some(exclusive) = rooms.cores.exclusive() {
        let pool = core_pool::pool(rooms, id);
        enough = pool != 0 && pool != core_pool::pool(rooms, exclusive) && rooms.jobs.may_freeze(exclusive);
        if enough {
            lift(rooms, exclusive, true);
        }
    }
    while enough && slots::free_slots(&rooms.cores, &rooms.settings) < slots {
        match self::payer(rooms, Count::Slots, id) {
            Some(payer) => lift(rooms, payer, true),
            None => enough = false,
        }
    }
    while enough && pick::homes_for(&rooms.cores, &rooms.jobs, id).is_none() {
        match self::payer(rooms, Count::Homes, id) {
            Some(payer) => lift(rooms, payer, false),
            None => enough = false,
        }
    }
    if !enough {
        for (job, class, cores, _) in lifted.into_iter().rev() {
            assign::occupy(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, job, class, cores);
        }
        return None;
    }
    // A wide one that was taken late may make others needless.
    let mut from = Vec::new();
    for (job, class, cores, freeze) in lifted {
        if !freeze {
            assign::occupy(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, job, class, cores);
            if pick::homes_for(&rooms.cores, &rooms.jobs, id).is_some() {
                continue;
            }
            assign::release(&mut rooms.cores, &mut rooms.jobs, job);
        }
        from.push((job, freeze));
    }
    let homes = pick::homes_for(&rooms.cores, &rooms.jobs, id).expect("looked at after each change");
    Some(Taken { from, homes })
}

/// Which job gives something back next: of those whose pool has borrowed, rather one whose pool keeps what is its own;
/// the lowest priority, among equals the newest.
fn payer(rooms: &Rooms, count: Count, by: JobId) -> Option<JobId> {
    let (uses, own) = (core_pool::uses(rooms), core_pool::pool(rooms, by));
    let backfills = |id: JobId| rooms.jobs.live(id).is_some_and(|live| live.class == Class::Backfill);
    let may = |&id: &JobId| {
        let has = core_pool::amount(rooms, count, id) > 0 && core_pool::has_borrowed(rooms, &uses, count, id);
        let freezable = count == Count::Homes || rooms.jobs.may_freeze(id);
        // Of the same pool only who asked for no home.
        let asked = rooms.jobs[&id].request.class == Some(Class::Backfill);
        has && freezable
            && (core_pool::pool(rooms, id) != own || (count == Count::Slots && asked && backfills(id)))
    };
    let keeps = |&id: &JobId| {
        let pool = core_pool::pool(rooms, id);
        uses.of(count, pool).saturating_sub(core_pool::amount(rooms, count, id)) >= rooms.shares.share(pool)
    };
    let all = || rooms.cores.running().lowest_first().map(|(_, id)| id).filter(may);
    let backfiller = || all().filter(keeps).find(|&id| count == Count::Slots && backfills(id));
    backfiller().or_else(|| all().find(keeps)).or_else(|| all().next())
}
