//! When a job is frozen for memory: what a reading says of a shortage, and which job is frozen for it.
//!
//! The rungs of the ladder, each for a nearer shortage: probe and page out (`probe`, `page_out`), throttle
//! (`throttle`), freeze (`freeze`), checkpoint (`checkpoint`), requeue (`requeue`). `schedule::relieve` goes through
//! them. Read only, but for since when memory is short.

use std::time::Duration;

use crate::api::{Instant, JobId};
use crate::jobs::{Job, WORTH_BYTES};
use crate::memory::ladder::freeze;
use crate::memory::ladder::step::Step;
use crate::memory::room::{FULL_FOR, HORIZON, Memory, THRASH_MILLI};
use crate::memory::{forecast, oracle, rank};
use crate::rooms::Rooms;

/// The least time between two steps against a shortage, when growth is not predicted.
const PAUSE: Duration = Duration::from_millis(250);
/// A host that stalls is dealt with once it did for so long.
const THRASH_FOR: Duration = Duration::from_secs(1);

/// A shortage of memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shortage {
    /// By how much running jobs will soon exceed what is usable.
    over: u64,
    /// They grow faster than others can be moved out of the way.
    pub(crate) overrun: bool,
    thrashes: bool,
}

/// Whether memory is short.
pub(crate) fn shortage(rooms: &Rooms, usable: u64) -> Option<Shortage> {
    let over = oracle::shortage(rooms, usable);
    let overrun = rooms.settings.memory.prediction && oracle::overrun(rooms, usable) > 0;
    let thrashes = rooms.memory.stalled_milli >= THRASH_MILLI && rooms.memory.returning.is_empty();
    (over > 0 || overrun || thrashes).then_some(Shortage { over, overrun, thrashes })
}

/// Notes whether memory is short; gives since when it is.
pub(crate) fn note_shortage(memory: &mut Memory, now: Instant, is_short: bool) -> Instant {
    if !is_short {
        memory.short_since = None;
        return now;
    }
    *memory.short_since.get_or_insert(now)
}

impl Shortage {
    /// Whether jobs are frozen for growth that is predicted, until the others fit; how many bytes they exceed.
    pub(crate) fn predicted(self, rooms: &Rooms) -> Option<u64> {
        (self.over > 0 && rooms.settings.memory.prediction).then_some(self.over)
    }

    /// One job is frozen for what is measured.
    pub(crate) fn measured(self, rooms: &Rooms, since: Instant) -> Option<Step> {
        let rested = rooms.memory.acted.is_none_or(|at| rooms.now.since(at) >= PAUSE);
        let lasts = self.over > 0 || rooms.now.since(since) >= THRASH_FOR;
        let victim = || rank::victim(rooms).map(|(victim, _)| victim);
        freeze::for_shortage(rooms, (rested && lasts).then(victim)??)
    }

    /// All stall, and no job but the token holder could be frozen: the token passes to the highest rank of those that
    /// may never be, for they go on in any case, and the holder can then be frozen for them.
    pub(crate) fn token_for_the_unfreezable(self, rooms: &Rooms, since: Instant) -> Option<JobId> {
        let thrashes = (self.thrashes && rooms.now.since(since) >= THRASH_FOR)
            || (self.over > 0 && seems_to_thrash(rooms));
        if !thrashes || rank::victim(rooms).is_some() {
            return None;
        }
        rooms.memory.token.filter(|&holder| rooms.jobs.may_freeze(holder))?;
        rank::first_unfreezable(rooms)
    }
}

/// A job is frozen that grows faster than others can be moved out of the way. None twice for that, for it could not
/// come to its end where paging out is always slower.
pub(crate) fn stop_overrun(rooms: &Rooms, usable: u64) -> Option<Step> {
    if oracle::overrun(rooms, usable) == 0 {
        return None;
    }
    let grows = |job: &Job| job.held.freezes == 0 && forecast::soon(rooms, job) >= WORTH_BYTES;
    freeze::for_shortage(rooms, rank::last_to_be_kept(rooms, grows).map(Job::id)?)
}

/// Whether next to nothing was free for long, with nothing done against it that could have helped, where the kernel
/// does not say which job stalls.
fn seems_to_thrash(rooms: &Rooms) -> bool {
    let long = |since: Instant| rooms.now.since(since) >= FULL_FOR;
    !rooms.memory.tells_stalls
        && rooms.memory.full_since.is_some_and(long)
        && rooms.memory.acted.is_none_or(long)
        && rooms.memory.returning.is_empty()
}

/// A job is frozen that would soon hold what the token holder, or one that holds the token later, may come to need and
/// swap does not take.
pub(crate) fn keep_safe(rooms: &Rooms, usable: u64) -> Option<Step> {
    // However slowly: no job gives back what it holds.
    if oracle::beyond_safety(rooms, usable, HORIZON) == 0 {
        return None;
    }
    freeze::for_shortage(rooms, rank::last_that_grows(rooms)?)
}
