//! The pass after each event: too many running jobs are suspended, free homes are given to the oldest backfillers, free
//! slots to the next in the queue, slots are taken from lower priorities.
//!
//! A slot is filled in the step in which it fell free. Each rule leads away from the state in which it applies, so the
//! loops end: a promotion uses up a free home, a start uses up a queued job, and a job that is suspended for a start
//! has a lower priority than the job that is started.

use crate::api::{Class, JobId, Reason, SlotReason};
use crate::cores::{assign, interference, slots};
use crate::jobs::{Demand, SuspendReason};
use crate::queue::order::ROUNDS_MAX;
use crate::queue::resources::ResourcesLeft;
use crate::rooms::Rooms;
use crate::schedule::plan::Plan;
use crate::schedule::{fill, lend, promote, reservations, resize, start, token, transition};
use crate::shares::pools::Count;
use crate::shares::{core_pool, reclaim, reclaim_memory};

pub(crate) fn schedule_pass(rooms: &mut Rooms) {
    if rooms.settings.schedule {
        end_suspensions(rooms);
        clear_exclusive(rooms);
        lend::give_back(&mut rooms.cores, &mut rooms.jobs, &rooms.settings);
        shrink(rooms);
        reclaim::reclaim_guaranteed(rooms);
        promote::promote(rooms);
        if promote::place_backfillers(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, &rooms.pending) {
            // On cores of its own it may be at home.
            promote::promote(rooms);
        }
        reclaim_memory::reclaim_memory(rooms);
        token::resume_frozen(rooms);
        reservations::fill_reservations(rooms);
        fill::fill(rooms);
        // One that started as a backfiller may have a right to a home. One that gave its home up may have left more
        // than that, or a job may have been suspended for its sake.
        for _ in 0..ROUNDS_MAX {
            let (ended, kept) = (end_suspensions(rooms), reclaim::reclaim_guaranteed(rooms));
            if !ended && !kept {
                break;
            }
            promote::promote(rooms);
            fill::fill(rooms);
        }
        while let Some((id, lenders, plan)) = lend::next(rooms) {
            for lender in lenders {
                assign::set_lent(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, lender, true);
            }
            start::admit(rooms, id, plan);
        }
    } else {
        token::resume_frozen(rooms);
        reservations::fill_reservations(rooms);
        start_all(rooms);
    }
}

/// Backfillers need not rest any more for primaries that are none now; says whether there were any.
fn end_suspensions(rooms: &mut Rooms) -> bool {
    let ended = interference::end_suspensions(&mut rooms.cores, &rooms.jobs);
    if ended.uncapped {
        resize::clip(rooms);
    }
    let any = !ended.over.is_empty();
    transition::apply(rooms, ended.over);
    any
}

/// Nobody runs beside an exclusive job; matters after a restart between two of its freezes.
fn clear_exclusive(rooms: &mut Rooms) {
    let Some(by) = rooms.cores.exclusive() else { return };
    if rooms.cores.running().len() > 1 {
        let others: Vec<JobId> = rooms.cores.running().lowest_first().map(|(_, job)| job).collect();
        for job in others.into_iter().filter(|&job| job != by) {
            if rooms.jobs.may_freeze(job) {
                transition::suspend_and_release(
                    rooms,
                    job,
                    SuspendReason::Exclusive { by },
                    Reason::Slot(SlotReason::Exclusive { by }),
                );
            }
        }
    }
}

/// Freezes jobs until the slots suffice: backfillers, then primaries, the lowest priority first and among
/// equals the newest, never the foremost.
fn shrink(rooms: &mut Rooms) {
    let slots = slots::total(&rooms.cores, &rooms.settings);
    while rooms.cores.used() > slots && rooms.cores.exclusive().is_none() {
        let foremost = rooms.cores.running().foremost();
        if lend::lend_to_running(&mut rooms.cores, &mut rooms.jobs, &rooms.settings) {
            continue;
        }
        let takes = |job: &JobId| rooms.jobs.live(*job).is_some_and(|live| live.slots > 0);
        let may = |job: &JobId| Some(*job) != foremost && takes(job) && rooms.jobs.may_freeze(*job);
        let backfills = |job: &JobId| rooms.jobs.live(*job).is_some_and(|live| live.class == Class::Backfill);
        let uses = core_pool::uses(rooms);
        let borrowed = |job: &JobId| {
            rooms.shares.split_cores() && core_pool::has_borrowed(rooms, &uses, Count::Slots, *job)
        };
        let all = || rooms.cores.running().lowest_first().map(|(_, job)| job).filter(may);
        let borrower = all().filter(borrowed).find(backfills).or_else(|| all().find(borrowed));
        let any = || all().find(backfills).or_else(|| all().next());
        let Some(job) = borrower.or_else(any) else { return };
        let reason = slots::why_fewer(&rooms.cores, &rooms.settings, slots);
        transition::suspend_and_release(rooms, job, SuspendReason::SlotsShrank, reason);
    }
}

/// Scheduling is off: everyone runs; but nobody without the resources that it asks for, which others have.
fn start_all(rooms: &mut Rooms) {
    loop {
        let left = ResourcesLeft::default();
        let may = |shape: Demand| rooms.queue.arrays().has_room(shape.array) && left.suffice(rooms, shape);
        let Some((_, job)) = rooms.queue.host().first(may) else { return };
        start::admit(rooms, job, Plan::as_is(Class::Primary));
    }
}
