//! When a job is frozen for memory: the ladder of what is done against a shortage.
//!
//! In this order, each rung for a nearer shortage: probe and page out (`probe`, `page_out`), throttle (`throttle`), freeze
//! (`freeze`), checkpoint (`checkpoint`), requeue (`requeue`).

use std::time::Duration;

use crate::api::Instant;
use crate::jobs::{Job, WORTH_BYTES};
use crate::memory::ladder::{checkpoint, freeze, page_out, probe, requeue, throttle, token};
use crate::memory::room::{FULL_FOR, HORIZON, THRASH_MILLI};
use crate::memory::{forecast, oracle, rank};
use crate::rooms::Rooms;

/// The least time between two steps against a shortage, when growth is not predicted.
const STEP: Duration = Duration::from_millis(250);
/// ... for so long.
const THRASH_FOR: Duration = Duration::from_secs(1);

/// Deals with a shortage: freezes the youngest until the others fit, and pages out those who stand still.
pub(crate) fn relieve(rooms: &mut Rooms) {
    let now = rooms.now;
    let usable = rooms.memory.usable.unwrap_or(u64::MAX);
    keep_safe(rooms, usable);
    checkpoint::checkpoint_for_memory(rooms, usable);
    let over = oracle::shortage(rooms, usable);
    let overrun = rooms.settings.memory.prediction && oracle::overrun(rooms, usable) > 0;
    let thrashes = rooms.memory.stalled_milli >= THRASH_MILLI && rooms.memory.returning.is_empty();
    if over == 0 && !overrun && !thrashes {
        rooms.memory.short_since = None;
        probe::probe(rooms, usable);
        throttle::throttle_growth(rooms, usable);
        page_out::page_out(rooms);
        probe::make_room_for_next(rooms);
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
    } else if rooms.memory.acted.is_none_or(|at| now.since(at) >= STEP)
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
    page_out::page_out(rooms);
    requeue::requeue_for_memory(rooms, usable);
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
