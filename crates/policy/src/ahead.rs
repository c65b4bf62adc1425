//! What the jobs that run are about to hold, and by how much that is more than there is.
//!
//! Who is known is believed to stop where its kind usually does, until it has passed that; who is not known grows on as
//! it did. Two shortages follow from it: they come to hold more than is usable, with all that stands still moved to swap
//! (`shortage`); or they are faster than it can be moved there (`overrun`).
//!
//! Absent: what is done about it (`governor`, `slow`, `checkpoint`).

use std::time::Duration;

use crate::JobId;
use crate::governor::{HORIZON, WORTH_BYTES};
use crate::job::Job;
use crate::memory::grown;
use crate::policy::Policy;

/// A job of which nothing is known may grow while it is younger than this, though it does not yet.
const YOUNG: Duration = Duration::from_secs(5);

impl Policy {
    /// What a running job is expected to grow by: to what it usually needs, if that is known; else as it grew, for as
    /// long as the horizon is.
    pub(crate) fn ahead(&self, job: &Job) -> u64 {
        self.ahead_within(job, HORIZON)
    }

    /// The same, over another time.
    pub(crate) fn ahead_within(&self, job: &Job, horizon: Duration) -> u64 {
        let soon = grown(self.growth_of(job), horizon);
        let claim = if self.settings.memory.prediction { self.claim_of(job) } else { None };
        let total = job.held.total();
        let Some(claim) = claim.filter(|claim| claim.most_bytes > total) else { return soon };
        let usual = claim.usual_bytes.saturating_sub(job.held.needs());
        // Beside one that started early it counts when it comes.
        let usual = if self.memory.stretched { usual.min(soon) } else { usual };
        // Of what others of its kind hold by now nobody knows that it is the most.
        let left = if self.is_known(job) { claim.most_bytes - total } else { u64::MAX };
        if self.is_as_usual(job) { usual } else { soon.min(left).max(usual) }
    }

    /// Whether a job holds no more than its kind usually comes to hold, and a little: until it has passed that it is
    /// believed to stop there, however fast it grows. What it may need above is safe to give in any case.
    fn is_as_usual(&self, job: &Job) -> bool {
        let learned = job.request.kind.and_then(|kind| self.memory.learned.get(kind.key()));
        let near = learned.map(|claim| claim.usual_bytes.saturating_add(claim.usual_bytes / 32));
        near.is_some_and(|near| job.held.needs() <= near)
    }

    /// By how much those who run will soon exceed what is usable, if they go on as they do.
    pub(crate) fn shortage(&self, usable: u64) -> u64 {
        self.shortage_within(usable, HORIZON)
    }

    /// The same, over another time.
    pub(crate) fn shortage_within(&self, usable: u64, horizon: Duration) -> u64 {
        self.shortage_of(usable, horizon, |job| self.about_to_hold(job, horizon))
    }

    /// The same if one that is slowed were let go.
    pub(crate) fn shortage_without_bound(&self, slowed: JobId, usable: u64, horizon: Duration) -> u64 {
        self.shortage_of(usable, horizon, |job| {
            let grows_on = || job.held.needs().saturating_add(self.ahead_within(job, horizon));
            if job.id() == slowed { grows_on() } else { self.about_to_hold(job, horizon) }
        })
    }

    /// The same if they grow by so much in all.
    pub(crate) fn shortage_if_they_grow_by(&self, bytes: u64, usable: u64) -> u64 {
        self.shortage_of(usable.saturating_sub(bytes), HORIZON, |job| job.held.needs())
    }

    /// What a running job is about to have in RAM: what it holds, what of that is in swap, and what it grows by; but no
    /// more than its bound if it is slowed.
    pub(crate) fn about_to_hold(&self, job: &Job, horizon: Duration) -> u64 {
        let all = job.held.needs().saturating_add(self.ahead_within(job, horizon));
        self.bound_of(job).map_or(all, |bound| all.min(bound))
    }

    fn shortage_of(&self, usable: u64, horizon: Duration, wants: impl Fn(&Job) -> u64) -> u64 {
        let wanted = self.running().map(wants).fold(0, u64::saturating_add);
        // What stands still counts as far as it cannot be moved to swap.
        let standing: u64 = self.standing().map(|job| job.held.resident).fold(0, u64::saturating_add);
        let stuck = standing.saturating_sub(self.memory.swap_free);
        wanted.saturating_add(stuck).saturating_sub(usable.saturating_add(self.movable(horizon)))
    }

    /// By how much RAM will run over within the horizon, since what stands still cannot be paged out as fast as those who
    /// run grow: they would wait for the kernel in the middle of their steps, and nobody in there stands still at once.
    pub(crate) fn overrun(&self, usable: u64) -> u64 {
        let soon = self.running().map(|job| self.soon(job)).fold(0, u64::saturating_add);
        let standing: u64 = self.standing().map(|job| job.held.resident).fold(0, u64::saturating_add);
        let cool = self.cool().map(Job::can_give).fold(0, u64::saturating_add);
        let there = standing.saturating_add(cool).min(self.memory.swap_free);
        let moved = grown(self.page_out_rate(), HORIZON).min(there);
        self.resident().saturating_add(soon).saturating_sub(usable.saturating_add(moved))
    }

    /// What a running job grows by within the horizon; in RAM, if it is slowed.
    pub(crate) fn soon(&self, job: &Job) -> u64 {
        let soon = self.ahead(job).min(grown(job.held.growth, HORIZON));
        self.bound_of(job).map_or(soon, |bound| soon.min(bound.saturating_sub(job.held.resident)))
    }

    /// Whether a job is about to grow, or may begin to.
    pub(crate) fn may_grow(&self, job: &Job) -> bool {
        self.ahead(job) >= WORTH_BYTES || (self.claim_of(job).is_none() && self.is_young(job))
    }

    /// Whether a job has not run for long since it started or returned.
    pub(crate) fn is_young(&self, job: &Job) -> bool {
        let since = job.live().map_or(self.now, |live| live.started).max(job.held.resumed);
        self.now.since(since) < YOUNG
    }

    /// What one that returns grows by until it could stand still again, if it grows as it did before, within the most that
    /// its kind needs: whoever had to stand still again at once need not return.
    pub(crate) fn grows_again(&self, job: &Job) -> u64 {
        let claim = if self.is_known(job) { self.claim_of(job) } else { None };
        let most = claim.map_or(u64::MAX, |claim| claim.most_bytes);
        grown(job.held.growth_before, HORIZON).min(most.saturating_sub(job.held.total()))
    }
}
