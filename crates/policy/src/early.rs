//! Early starts: beside jobs that have not come to need what they are expected to yet.
//!
//! A claim says what a job holds at its height. Until those who run are there, there may be room for all of another; and
//! whether all that it holds must be in RAM at all is known only once it ran beside others (`cold`). So who waits for no
//! more than what others are expected to need starts all the same, if all of its own fits beside what they hold so far
//! and grow by within some seconds, and if swap takes it whole. It is the first to stand still when memory runs short;
//! none of its kind starts early for a while then, twice as long after each time. Once what all are expected to need fits,
//! it is a job like all others.
//!
//! Meanwhile those who run count for what they hold and grow by, not at once for what they will come to need: else it
//! would stand still as soon as it is looked at. That they cannot wait for the end of who started early is why it must be
//! one who can be moved to swap.
//!
//! Absent: who stands still when memory runs short (`governor`).

use std::time::Duration;

use crate::cold::rest_kind;
use crate::job::Job;
use crate::memory::grown;
use crate::policy::Policy;
use crate::{JobId, Reason};

/// What those who run grow by within this time must fit beside one that starts early.
const AHEAD: Duration = Duration::from_secs(4);
/// Of a younger job nobody knows how fast it grows.
const SETTLED: Duration = Duration::from_secs(1);

impl Policy {
    /// What a waiting job is expected to need, and what is left for it by what all others are.
    pub(crate) fn room_for(&self, job: &Job, usable: u64) -> (u64, u64) {
        let taken = self.running().map(|job| self.counts_for(job)).fold(0, u64::saturating_add);
        let kept = self.stands_and_promised(job).saturating_add(self.kept_beside(job.pools.memory));
        (self.counts_for(job), usable.saturating_sub(taken).saturating_sub(kept))
    }

    /// What a waiting job has no part in though nobody who runs counts for it: what stands still holds, and what is promised
    /// to others.
    fn stands_and_promised(&self, job: &Job) -> u64 {
        let standing = self.standing().map(|job| job.held.resident).fold(0, u64::saturating_add);
        standing.saturating_add(self.promised_beside(self.aside_of(job)))
    }

    /// Whether a waiting job may start though those who run may come to need the memory that it does.
    pub(crate) fn may_start_early(&self, job: &Job, wanted: u64, usable: u64) -> bool {
        let Some(kind) = job.request.kind.filter(|_| self.is_known(job)) else { return false };
        let rests = self.memory.early.get(kind.key()).is_some_and(|&(until, _)| self.now < until);
        let disturbs = !self.memory.frozen.is_empty() || !self.memory.returning.is_empty();
        // Whose project's own memory others borrowed has it back now, and for good.
        if rests || disturbs || job.request.no_suspend || self.memory_is_its_own(job, wanted) {
            return false;
        }
        let kept = self.kept_beside_early(job.pools.memory);
        let (mut held, mut early) = (self.stands_and_promised(job).saturating_add(kept), 0u64);
        for other in self.running() {
            let Some(so_far) = self.holds_so_far(other) else { return false };
            held = held.saturating_add(so_far);
            early = early.saturating_add(if other.held.early { self.comes_to_hold(other) } else { 0 });
        }
        let swap_takes = self.comes_to_hold(job).saturating_add(early) <= self.memory.swap_free;
        swap_takes && held.saturating_add(wanted) <= usable
    }

    /// What a running job will hold within some seconds; all that it may need if it started early itself. `None`: it is too
    /// young.
    fn holds_so_far(&self, job: &Job) -> Option<u64> {
        let counts = self.counts_for(job);
        if job.held.early {
            return Some(counts);
        }
        let since = job.live().map_or(self.now, |live| live.started).max(job.held.resumed);
        let read = self.memory.read.is_some_and(|at| at.since(since) >= SETTLED);
        read.then(|| job.held.needs().saturating_add(grown(self.growth_of(job), AHEAD)).min(counts))
    }

    /// A job is to start now, before anybody gives way to it: notes whether that is early, and says so.
    pub(crate) fn note_early(&mut self, id: JobId) -> Option<Reason> {
        let usable = self.memory.usable.filter(|_| self.governs())?;
        let job = self.jobs.get(&id).filter(|job| job.live().is_none() && !self.nobody_runs())?;
        let (wanted, free) = self.room_for(job, usable);
        let early = wanted > free && self.may_start_early(job, wanted, usable);
        self.jobs.get_mut(&id)?.held.early = early;
        self.memory.stretched |= early;
        early.then(|| Reason::ForNow { wanted, lacking: wanted - free })
    }

    /// Memory was read: whether any runs that started early; none does once all fit.
    pub(crate) fn watch_early(&mut self, usable: u64) {
        if !self.memory.stretched {
            return;
        }
        let early: Vec<JobId> = self.running().filter(|job| job.held.early).map(Job::id).collect();
        // Also of one that gets on without a part: it may come to hold more before that is moved out.
        let comes = |job: &Job| {
            let usual = self.claim_of(job).map_or(0, |claim| claim.usual_bytes);
            self.counts_for(job).max(usual)
        };
        let running = self.running().map(comes);
        let all = running.chain(self.standing().map(|job| job.held.resident)).fold(0, u64::saturating_add);
        self.memory.stretched = !early.is_empty() && all > usable;
        if all <= usable {
            for id in early {
                self.jobs.get_mut(&id).expect("it runs").held.early = false;
            }
        }
    }

    /// A job stands still for memory: if it started early, its like do not for a while.
    pub(crate) fn was_too_early(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.held.early) else { return };
        job.held.early = false;
        let Some(kind) = job.request.kind else { return };
        rest_kind(&mut self.memory.early, kind, self.now);
    }
}
