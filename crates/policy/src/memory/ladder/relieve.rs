//! When a job is frozen for memory: the ladder of what is done against a shortage.
//!
//! In this order, each rung for a nearer shortage: probe and page out (`probe`, `page_out`), throttle (`throttle`), freeze
//! (`freeze`), checkpoint (`checkpoint`), requeue (`requeue`).

use std::time::Duration;

use crate::api::{Action, Decision, Instant};
use crate::jobs::{Job, WORTH_BYTES};
use crate::memory::ladder::step::Step;
use crate::memory::ladder::{checkpoint, freeze, page_out, probe, requeue, throttle, token};
use crate::memory::room::{FULL_FOR, HORIZON, THRASH_MILLI};
use crate::memory::{forecast, oracle, rank};
use crate::rooms::Rooms;

/// The least time between two steps against a shortage, when growth is not predicted.
const PAUSE: Duration = Duration::from_millis(250);
/// A host that stalls is dealt with once it did for so long.
const THRASH_FOR: Duration = Duration::from_secs(1);

/// Deals with a shortage: freezes the youngest until the others fit, and pages out those who stand still.
pub(crate) fn relieve(rooms: &mut Rooms) {
    let now = rooms.now;
    let usable = rooms.memory.usable.unwrap_or(u64::MAX);
    keep_safe(rooms, usable);
    if checkpoint::review(rooms, usable) {
        take(rooms, checkpoint::due(rooms, usable));
    }
    let over = oracle::shortage(rooms, usable);
    let overrun = rooms.settings.memory.prediction && oracle::overrun(rooms, usable) > 0;
    let thrashes = rooms.memory.stalled_milli >= THRASH_MILLI && rooms.memory.returning.is_empty();
    if over == 0 && !overrun && !thrashes {
        rooms.memory.short_since = None;
        take(rooms, probe::due(rooms, usable));
        for (job, one) in throttle::throttled(rooms) {
            take(rooms, throttle::review(rooms, job, one, usable));
        }
        take(rooms, throttle::due(rooms, usable));
        take(rooms, page_out::due(rooms));
        take(rooms, probe::due_for_next(rooms));
        return;
    }
    let since = *rooms.memory.short_since.get_or_insert(now);
    if over > 0 && rooms.settings.memory.prediction {
        let mut left = over;
        while left > 0
            && let Some((victim, gain)) = rank::victim(rooms)
        {
            freeze::freeze_for_memory(rooms, victim);
            left = left.saturating_sub(gain);
        }
    } else if rooms.memory.acted.is_none_or(|at| now.since(at) >= PAUSE)
        && (over > 0 || now.since(since) >= THRASH_FOR)
        && let Some((victim, _)) = rank::victim(rooms)
    {
        freeze::freeze_for_memory(rooms, victim);
    }
    if overrun {
        stop_overrun(rooms, usable);
    }
    if ((thrashes && now.since(since) >= THRASH_FOR) || (over > 0 && seems_to_thrash(rooms)))
        && rank::victim(rooms).is_none()
    {
        token::give_way_to_the_unfreezable(rooms);
    }
    take(rooms, page_out::due(rooms));
    take(rooms, requeue::due(rooms, usable));
}

/// Takes the steps that are due.
fn take(rooms: &mut Rooms, steps: impl IntoIterator<Item = Step>) {
    for step in steps {
        match step {
            Step::Probe { job, bytes, reason } => {
                probe::begin(rooms, job);
                page_out::begin(rooms, job, bytes, reason);
            }
            Step::PageOut { job, bytes, reason } => page_out::begin(rooms, job, bytes, reason),
            Step::Throttle { job, allowance, bound, growth, reason } => {
                let action = Action::Slow { allowance: Some(allowance) };
                rooms.pending.decide(Decision { job, action, reason });
                throttle::begin(rooms, job, bound, growth);
            }
            Step::Unthrottle { job, why } => throttle::unthrottle(rooms, job, why),
            Step::Freeze { job } => freeze::freeze_for_memory(rooms, job),
            Step::Checkpoint { job, reason } => checkpoint::begin(rooms, job, reason),
            Step::GiveUpCheckpoints => checkpoint::give_up(rooms),
            Step::Requeue { job, lacking } => requeue::begin(rooms, job, lacking),
        }
    }
}

/// Freezes who grows faster than others can be moved out of the way; nobody twice for that, for he could not come to
/// his end where paging out is always slower.
fn stop_overrun(rooms: &mut Rooms, usable: u64) {
    while oracle::overrun(rooms, usable) > 0 {
        let grows = |job: &Job| job.held.freezes == 0 && forecast::soon(rooms, job) >= WORTH_BYTES;
        let Some(id) = rank::last_to_be_kept(rooms, grows).map(Job::id) else { return };
        freeze::freeze_for_memory(rooms, id);
    }
}

/// Whether next to nothing was free for long, with nothing done against it that could have helped, where the kernel does
/// not say who stalls.
fn seems_to_thrash(rooms: &Rooms) -> bool {
    let long = |since: Instant| rooms.now.since(since) >= FULL_FOR;
    !rooms.memory.tells_stalls
        && rooms.memory.full_since.is_some_and(long)
        && rooms.memory.acted.is_none_or(long)
        && rooms.memory.returning.is_empty()
}

/// Freezes who would soon hold what the token holder, or one who holds the token later, may come to need and swap
/// does not take.
fn keep_safe(rooms: &mut Rooms, usable: u64) {
    // However slowly: nobody gives back what he holds.
    while oracle::beyond_safety(rooms, usable, HORIZON) > 0 {
        let Some(youngest) = rank::last_that_grows(rooms) else { return };
        freeze::freeze_for_memory(rooms, youngest);
    }
}
