//! What running jobs are about to hold. Read only.
//!
//! A known job is believed to stop where its class usually does, until it has passed that; an unknown one grows on as
//! it did.

use std::time::Duration;

use crate::jobs::{Job, WORTH_BYTES, grown};
use crate::memory::forecast::estimate;
use crate::memory::room::{HORIZON, Memory};
use crate::rooms::Rooms;

/// A job of which nothing is known may grow while it is younger than this, though it does not yet.
const YOUNG: Duration = Duration::from_secs(5);

/// What a job grows by between the reading and the bound is not the bound's failure.
const SLACK: Duration = Duration::from_millis(250);

/// What a running job is expected to grow by: to what it usually needs, if that is known; else as it grew, for as
/// long as the horizon is.
pub(crate) fn ahead(rooms: &Rooms, job: &Job) -> u64 {
    ahead_within(rooms, job, HORIZON)
}

/// The same, over another time.
pub(crate) fn ahead_within(rooms: &Rooms, job: &Job, horizon: Duration) -> u64 {
    let soon = grown(growth_of(&rooms.memory, job), horizon);
    let claim = if rooms.settings.memory.prediction { estimate::claim_of(rooms, job) } else { None };
    let total = job.held.total();
    let Some(claim) = claim.filter(|claim| claim.most_bytes > total) else { return soon };
    let usual = claim.usual_bytes.saturating_sub(job.held.needs());
    // Beside one that started early it counts when it comes.
    let usual = if rooms.memory.stretched { usual.min(soon) } else { usual };
    // Of what others of its kind hold by now nobody knows that it is the most.
    let left = if estimate::is_known(rooms, job) { claim.most_bytes - total } else { u64::MAX };
    if is_as_usual(rooms, job) { usual } else { soon.min(left).max(usual) }
}

/// Whether a job holds no more than its kind usually comes to hold, and a little: until it has passed that it is
/// believed to stop there, however fast it grows. What it may need above is safe to give in any case.
fn is_as_usual(rooms: &Rooms, job: &Job) -> bool {
    let learned = job.request.kind.and_then(|kind| rooms.memory.learned.get(kind.key()));
    let near = learned.map(|claim| claim.usual_bytes.saturating_add(claim.usual_bytes / 32));
    near.is_some_and(|near| job.held.needs() <= near)
}

/// What a running job is about to have in RAM: what it holds, what of that is in swap, and what it grows by; but no
/// more than its bound if it is slowed.
pub(crate) fn about_to_hold(rooms: &Rooms, job: &Job, horizon: Duration) -> u64 {
    let all = job.held.needs().saturating_add(ahead_within(rooms, job, horizon));
    bound_of(rooms, job).map_or(all, |bound| all.min(bound))
}

/// What a running job grows by within the horizon; in RAM, if it is slowed.
pub(crate) fn soon(rooms: &Rooms, job: &Job) -> u64 {
    let soon = ahead(rooms, job).min(grown(job.held.growth, HORIZON));
    bound_of(rooms, job).map_or(soon, |bound| soon.min(bound.saturating_sub(job.held.resident)))
}

/// Whether a job is about to grow, or may begin to.
pub(crate) fn may_grow(rooms: &Rooms, job: &Job) -> bool {
    ahead(rooms, job) >= WORTH_BYTES || (estimate::claim_of(rooms, job).is_none() && is_young(rooms, job))
}

/// Whether a job has not run for long since it started or returned.
pub(crate) fn is_young(rooms: &Rooms, job: &Job) -> bool {
    let since = job.live().map_or(rooms.now, |live| live.started).max(job.held.resumed);
    rooms.now.since(since) < YOUNG
}

/// What one that returns grows by until it could be suspended again, if it grows as it did before, within the most that
/// its kind needs: one that had to be suspended again at once need not return.
pub(crate) fn grows_again(rooms: &Rooms, job: &Job) -> u64 {
    let claim = if estimate::is_known(rooms, job) { estimate::claim_of(rooms, job) } else { None };
    let most = claim.map_or(u64::MAX, |claim| claim.most_bytes);
    grown(job.held.growth_before, HORIZON).min(most.saturating_sub(job.held.total()))
}

/// What a job has still to grow by to the most that its kind needs; `None` if nobody knows, or it has outgrown that.
pub(crate) fn left_to_grow(rooms: &Rooms, job: &Job) -> Option<u64> {
    let claim = estimate::claim_of(rooms, job).filter(|_| estimate::is_known(rooms, job))?;
    claim.most_bytes.checked_sub(job.held.total()).filter(|&left| left > 0)
}

/// What a running job counts for, or what it is about to hold if that is more.
pub(crate) fn about_to_take(rooms: &Rooms, job: &Job) -> u64 {
    estimate::counts_for(rooms, job).max(about_to_hold(rooms, job, HORIZON))
}

/// What a job grows by in a second: of one that is slowed, what it did before.
pub(crate) fn growth_of(memory: &Memory, job: &Job) -> u64 {
    let before = memory.throttles.slowed.get(&job.id()).map_or(0, |one| one.growth);
    job.held.growth.max(before)
}

/// What a slowed job may have in RAM; `None`: it is not slowed, or the kernel does not hold it there.
fn bound_of(rooms: &Rooms, job: &Job) -> Option<u64> {
    let one = rooms.memory.throttles.slowed.get(&job.id()).filter(|one| one.asked_again.is_none())?;
    let slack = grown(one.growth, SLACK).max(WORTH_BYTES);
    let holds = job.held.resident <= one.bound.saturating_add(slack);
    holds.then(|| one.bound.max(job.held.resident))
}

/// Whether anybody is slowed now.
pub(crate) fn is_throttling(rooms: &Rooms) -> bool {
    rooms.memory.throttles.slowed.values().any(|one| one.asked_again.is_none())
}
