//! The first rung of the ladder, where the kernel can take it: the youngest job that grows is throttled before any is
//! frozen; and the memory of the token holder is the last that the kernel takes.
//!
//! A throttled job may grow by what the others leave within the next second. Beyond that the kernel moves its own pages
//! out at each page that it asks for, so that it grows as fast as swap takes them. This holds between two readings too,
//! while a freeze comes after one. As long as it holds, no more of such a job is expected in RAM than its bound, so
//! that no job is frozen for what it would grow by; once it is let go, it would grow as it did before, and is frozen if
//! there is no room for that. It is of no use to a job whose pages have nowhere to go: then, and where the kernel has
//! no such bound (`memory.high`), jobs are frozen at once. Nor is it done for long, for a job that moves its own pages
//! in a circle runs more slowly than one that waits for its turn.

use std::time::Duration;

use crate::api::{Instant, JobId, MemoryReason, Reason, Unthrottled};
use crate::jobs::{Job, JobTable, RETRY, WORTH_BYTES, grown};
use crate::memory::ladder::step::Step;
use crate::memory::ladder::{freeze, page_out};
use crate::memory::room::{HORIZON, Memory};
use crate::memory::throttled::{SLOW_FOR, Throttled};
use crate::memory::{forecast, oracle};
use crate::rooms::Rooms;

/// Growth is looked at this far ahead for it, twice as far as for a freeze.
const AHEAD: Duration = Duration::from_secs(2);

/// One that was slowed is not again before this has gone by.
const AGAIN: Duration = Duration::from_secs(30);

/// The least time between two steps.
const PAUSE: Duration = Duration::from_millis(250);

const _: () = assert!(AHEAD.as_secs() > HORIZON.as_secs(), "slowing comes before freezing");

/// Those that are throttled and are to be looked at again. One that is frozen is let go at the end of the scheduler's
/// step.
pub(crate) fn throttled(rooms: &Rooms) -> Vec<JobId> {
    let runs = |id: JobId| rooms.jobs.live(id).is_some_and(|live| live.phase.suspend_reason().is_none());
    let looks = |id: &JobId| steers(rooms) && runs(*id) && is_open(rooms, *id);
    rooms.memory.throttles.due(rooms.now).into_iter().filter(looks).collect()
}

/// The youngest that grows is throttled, if memory would run short soon as things go.
pub(crate) fn due(rooms: &Rooms, usable: u64) -> Option<Step> {
    let over = oracle::shortage_within(rooms, usable, AHEAD);
    let rests = rooms.memory.throttles.acted.is_some_and(|at| rooms.now.since(at) < PAUSE);
    if over == 0 || rests || !rooms.settings.memory.prediction || !steers(rooms) {
        return None;
    }
    let may = |job: &&Job| {
        let again = job.held.slowed_until.is_none_or(|until| rooms.now >= until);
        let grows = job.held.growth_now >= WORTH_BYTES && job.held.growth >= WORTH_BYTES;
        let free =
            Some(job.id()) != rooms.memory.token && !rooms.memory.throttles.slowed.contains_key(&job.id());
        again && grows && free && rooms.jobs.may_freeze(job.id()) && can_give_up(rooms, job)
    };
    let job = rooms.jobs.running().filter(may).max_by_key(|job| job.rank_key())?;
    let growth = job.held.growth;
    // It is held back before it would be frozen, so what is for that stays free.
    let freezes_at = over.saturating_add(grown(growth, HORIZON));
    // Who writes down what it has done has no slot, but what it holds is in use meanwhile.
    let writers = rooms.jobs.writers();
    let writers = writers.iter().filter_map(|id| rooms.jobs.get(id));
    let in_use =
        rooms.jobs.running().chain(writers).map(|job| job.held.resident).fold(0, u64::saturating_add);
    let room = forecast::ahead_within(rooms, job, AHEAD)
        .saturating_sub(freezes_at)
        .min(usable.saturating_sub(in_use));
    // Its page cache is the first that it gives up, and makes room for as much within the kernel's bound.
    let allowance = room.saturating_sub(job.held.cache);
    let bound = job.held.resident.saturating_add(room.max(job.held.cache));
    let token = rooms.memory.token?;
    let reason =
        Reason::Memory(MemoryReason::GrowsTooFast { free: oracle::free_memory(rooms), growth, token });
    Some(Step::Throttle { job: job.id(), allowance, bound, growth, reason })
}

/// A job is throttled.
pub(crate) fn begin(memory: &mut Memory, now: Instant, id: JobId, bound: u64, growth: u64) {
    let one = Throttled { since: now, growth, bound, asked_again: None };
    memory.throttles.slowed.insert(id, one);
    memory.throttles.acted = Some(now);
}

/// A throttled job may grow again if there is room for that, or is frozen where a throttle is no way any more.
pub(crate) fn review(rooms: &Rooms, id: JobId, usable: u64) -> Option<Step> {
    let one = rooms.memory.throttles.slowed.get(&id)?;
    let useful = rooms.jobs.get(&id).is_some_and(|job| can_give_up(rooms, job));
    // Twice as far as it was looked ahead, so that it is not slowed again at once.
    let clear = usable.saturating_sub(grown(one.growth, AHEAD));
    let why = if oracle::shortage_without_bound(rooms, id, clear, AHEAD) == 0 {
        Unthrottled::Suffices
    } else if !useful {
        Unthrottled::NoUse
    } else if rooms.now.since(one.since) >= SLOW_FOR {
        Unthrottled::LongEnough
    } else {
        return None;
    };
    let freezes = oracle::shortage_without_bound(rooms, id, usable, HORIZON) > 0 && rooms.jobs.may_freeze(id);
    // A frozen one is let go at the end of the scheduler's step.
    if freezes { freeze::for_shortage(rooms, id) } else { Some(Step::Unthrottle { job: id, why }) }
}

/// Whether the kernel can be told whose memory to take.
fn steers(rooms: &Rooms) -> bool {
    oracle::is_governed(rooms) && rooms.settings.memory.steers
}

/// Whether a job that is slowed has pages that can go somewhere.
fn can_give_up(rooms: &Rooms, job: &Job) -> bool {
    rooms.memory.swap_free >= WORTH_BYTES || job.held.cache >= WORTH_BYTES
}

/// At the end of each step: a job that is frozen, holds the token or is not governed any more is not throttled.
pub(crate) fn outdated(rooms: &Rooms) -> Vec<Step> {
    if rooms.memory.throttles.slowed.is_empty() {
        return Vec::new();
    }
    let why = |job: JobId| {
        if !steers(rooms) {
            Some(Unthrottled::NotGoverned)
        } else if rooms.jobs.get(&job).is_some_and(|job| job.suspend_reason().is_some()) {
            Some(Unthrottled::Suspended)
        } else {
            (rooms.memory.token == Some(job)).then_some(Unthrottled::Token)
        }
    };
    let due = rooms.memory.throttles.due(rooms.now).into_iter().filter(|&job| is_open(rooms, job));
    due.filter_map(|job| Some(Step::Unthrottle { job, why: why(job)? })).collect()
}

/// The token holder, and no other job, is protected.
pub(crate) fn protection(rooms: &Rooms) -> Vec<Step> {
    let token = rooms.memory.token.filter(|_| steers(rooms));
    let (mut told, mut steps) = (rooms.memory.throttles.protected, Vec::new());
    if let Some((was, _)) = told
        && token != Some(was)
    {
        if !is_open(rooms, was) {
            return steps; // once it has answered
        }
        told = None;
        steps.push(Step::Unprotect { job: was });
    }
    let Some(job) = token.filter(|&token| is_open(rooms, token)).and_then(|token| rooms.jobs.get(&token))
    else {
        return steps;
    };
    let bytes = forecast::counts_for(rooms, job);
    let told = told.map_or(0, |(_, bytes)| bytes);
    // In powers of two, so that it is told a dozen times at most while it grows.
    if bytes >= WORTH_BYTES && (bytes > told || bytes <= told / 8) {
        let bytes = bytes.checked_next_power_of_two().unwrap_or(bytes);
        steps.push(Step::Protect { job: job.id(), bytes });
    }
    steps
}

/// The kernel is told to take so much of a job's memory last; `None`: to take it as any job's.
pub(crate) fn protect(memory: &mut Memory, protected: Option<(JobId, u64)>) {
    memory.throttles.protected = protected;
}

/// Whether anything may be asked of a job: it runs, and is not on its way in or out.
fn is_open(rooms: &Rooms, id: JobId) -> bool {
    rooms.jobs.live(id).is_some_and(|live| live.phase.is_open())
}

/// A throttled job may grow again.
pub(crate) fn unthrottle(memory: &mut Memory, jobs: &mut JobTable, now: Instant, id: JobId) {
    memory.throttles.slowed.remove(&id);
    jobs.unthrottle(id, now.after(AGAIN));
    if jobs.get(&id).is_some_and(Job::has_slot) {
        page_out::swaps_in(memory, jobs, now, id);
    }
}

/// The kernel did not take a bound, or did not give one back: the first is not tried again soon, the second until it
/// succeeds.
pub(crate) fn failed(
    memory: &mut Memory,
    jobs: &mut JobTable,
    now: Instant,
    id: JobId,
    allowance: Option<u64>,
) {
    if !jobs.contains_key(&id) {
        return;
    }
    jobs.unthrottle(id, now.after(AGAIN));
    if allowance.is_some() {
        memory.throttles.slowed.remove(&id);
    } else {
        let asked_again = Some(now.after(RETRY));
        let one = Throttled { since: Instant(0), growth: 0, bound: 0, asked_again };
        memory.throttles.slowed.insert(id, one);
    }
}
