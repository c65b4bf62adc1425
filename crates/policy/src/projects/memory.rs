//! Memory that is a project's own: what is kept for it, and how it is taken back from those who borrowed it.

use crate::governor::{Lack, WORTH_BYTES, has_slot, order};
use crate::job::{Job, Out};
use crate::policy::Policy;
use crate::projects::divide;
use crate::rules::Plan;
use crate::{Class, JobId, Reason};

/// Whether a pool has more memory than is its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Borrowed {
    /// Its jobs hold it.
    holds: bool,
    /// They hold it, or are expected to come to hold it.
    expected: bool,
}

impl Job {
    /// Whether it is of a pool that holds more than is its own, or stands still so that this one does not come to.
    pub(crate) fn has_borrowed(&self, borrowed: &[Borrowed]) -> bool {
        let pool = borrowed.get(usize::from(self.pools.memory));
        pool.is_some_and(|pool| pool.holds || (pool.expected && self.held.taken_back))
    }
}

impl Policy {
    /// Which pools hold more memory than is their own, or are expected to; empty when none is guaranteed any.
    pub(crate) fn memory_borrowers(&self) -> Vec<Borrowed> {
        if !self.pools.split_memory() {
            return Vec::new();
        }
        let mut used = vec![(0u64, 0u64); self.pools.memory.len()];
        for job in self.lives.iter().filter_map(|id| self.jobs.get(id)) {
            // Who stands still for want of memory goes on as soon as there is what it needs, and not before.
            let needs = job.live().is_some_and(|live| live.out.is_none_or(Out::is_memory));
            let (held, expected) = &mut used[usize::from(job.pools.memory)];
            let holds = job.held.total();
            *held = held.saturating_add(holds);
            *expected = expected.saturating_add(if needs { self.counts_for(job) } else { holds });
        }
        let own = used.into_iter().zip(self.memory_shares());
        own.map(|((held, expected), own)| Borrowed { holds: held > own, expected: expected > own }).collect()
    }

    pub(super) fn memory_shares(&self) -> Vec<u64> {
        divide(self.memory.usable.unwrap_or(u64::MAX), &self.pools.memory)
    }

    /// What the running jobs of each memory pool count for, and what the others of it hold in RAM.
    fn memory_counted(&self) -> Vec<u64> {
        self.memory_by_pool(|job| if has_slot(job) { self.counts_for(job) } else { job.held.resident })
    }

    fn memory_by_pool(&self, bytes: impl Fn(&Job) -> u64) -> Vec<u64> {
        let mut counted = vec![0u64; self.pools.memory.len()];
        for job in self.lives.iter().filter_map(|id| self.jobs.get(id)) {
            let bytes = bytes(job);
            let counted = &mut counted[usize::from(job.pools.memory)];
            *counted = counted.saturating_add(bytes);
        }
        counted
    }

    /// Memory that is kept for other pools than this: what is their own, they do not use, and swap could not take from
    /// whoever had borrowed it.
    pub(crate) fn kept_beside(&self, pool: u16) -> u64 {
        if !self.pools.split_memory() {
            return 0;
        }
        self.unused_beside(pool, self.memory_counted())
    }

    /// The same for one that starts before those of other pools have come to need what is their own.
    pub(crate) fn kept_beside_early(&self, pool: u16) -> u64 {
        if !self.pools.split_memory() {
            return 0;
        }
        self.unused_beside(pool, self.memory_by_pool(|job| job.held.resident))
    }

    fn unused_beside(&self, pool: u16, counted: Vec<u64>) -> u64 {
        let shares = self.memory_shares().into_iter().zip(counted).enumerate();
        // What no project is guaranteed is kept for nobody.
        let others = shares.filter(|&(other, _)| other != 0 && other != usize::from(pool));
        let unused = others.map(|(_, (share, counted))| share.saturating_sub(counted));
        unused.fold(0, u64::saturating_add).saturating_sub(self.memory.swap_free)
    }

    /// Whether a job that waits would stay within what is its pool's own.
    pub(crate) fn memory_is_its_own(&self, job: &Job, wanted: u64) -> bool {
        let pool = usize::from(job.pools.memory);
        self.pools.split_memory()
            && pool != 0
            && self.memory_counted()[pool].saturating_add(wanted) <= self.memory_shares()[pool]
    }

    /// The foremost of those frozen for memory that one which waits must not keep from returning: all of them, but those who
    /// had borrowed what is its own, and, if it is known what the newcomer needs, those who would come to.
    pub(crate) fn first_kept_waiting_by(&self, job: &Job, wanted: u64) -> Option<&Job> {
        let borrowed = self.memory_borrowers();
        let (takes_back, known) = (self.memory_is_its_own(job, wanted), self.is_known(job));
        let borrows = |frozen: &Job| {
            let expected =
                || borrowed.get(usize::from(frozen.pools.memory)).is_some_and(|pool| pool.expected);
            frozen.has_borrowed(&borrowed) || (known && expected())
        };
        let lent = |frozen: &&Job| takes_back && frozen.pools.memory != job.pools.memory && borrows(frozen);
        let kept = self.frozen_for_memory().filter(|frozen| !lent(frozen));
        kept.min_by_key(|frozen| (frozen.has_borrowed(&borrowed), order(frozen)))
    }

    /// The next job of a pool, if it waits for memory that is its pool's own; what it wants and what of it it lacks.
    pub(super) fn lacks_its_memory(&self, pool: u16) -> Option<(JobId, u64, u64)> {
        let (_, id) = self
            .queue
            .first(|shape| shape.pools.memory == pool && shape.memory > 0 && self.is_in_line(shape))?;
        let job = self.jobs.get(&id).filter(|job| job.live().is_none())?;
        let may_take = self.pools.split_cores() && self.room_of(job.pools.cores) >= job.slots();
        if self.free_slots() < job.slots() && !may_take {
            return None; // it waits for a slot, and lends its memory meanwhile
        }
        let wanted = self.counts_for(job);
        if job.request.tmp_bytes > self.tmp_left() {
            return None;
        }
        let lacking = match self.lacks_memory(id) {
            Some(Lack::Room { wanted, free }) => wanted - free,
            // It starts now, before those who gave it back return.
            _ => 0,
        };
        self.memory_is_its_own(job, wanted).then_some((id, wanted, lacking))
    }

    /// Freezes those who borrowed memory that a pool wants for its next job; they are paged out then.
    pub(crate) fn take_memory_back(&mut self) {
        self.memory.claims.clear();
        if !self.pools.split_memory() || !self.governs() {
            return;
        }
        self.choose_token();
        for pool in 1..u16::try_from(self.pools.memory.len()).unwrap_or(u16::MAX) {
            let Some((by, wanted, lacking)) = self.lacks_its_memory(pool) else { continue };
            self.memory.claims.push((by, wanted));
            let project = self.pools.memory[usize::from(pool)].0.clone();
            // What stands still already is on its way.
            let standing = self.standing().map(|job| job.held.resident).fold(0, u64::saturating_add);
            let mut swap = self.memory.swap_free;
            let mut left = lacking.saturating_sub(standing.min(swap));
            swap = swap.saturating_sub(standing);
            while left > 0
                && let Some((payer, movable, gain)) = self.memory_payer(pool, swap)
            {
                let reason = Reason::MemoryTakenBack { project: project.clone(), by, lacking };
                self.stand_still(payer, reason);
                (left, swap) = (left.saturating_sub(gain), swap - movable);
            }
        }
    }

    /// A job that can start on memory that is its project's own and is free, and how; whoever of others stands before it
    /// in the queue.
    pub(crate) fn next_on_its_own(&self) -> Option<(JobId, Plan)> {
        self.memory.claims.iter().find_map(|&(id, wanted)| {
            let job = self.jobs.get(&id).filter(|job| job.live().is_none() && job.queued.is_some())?;
            let exclusive = job.request.class == Some(Class::Exclusive);
            let may = !exclusive && self.memory_is_its_own(job, wanted) && self.lacks_memory(id).is_none();
            may.then(|| self.plan(id, false)).flatten().map(|plan| (id, plan))
        })
    }

    /// What those wait for who have a right to it, in bytes.
    pub(crate) fn claimed(&self) -> u64 {
        let waits = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.live().is_none());
        let claims = self.memory.claims.iter().filter(|(id, _)| waits(id));
        claims.map(|&(_, wanted)| wanted).fold(0, u64::saturating_add)
    }

    /// What of that is not to be had as those who run are expected to come to hold.
    pub(crate) fn claims_lack(&self) -> u64 {
        let waits = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.live().is_none());
        let lacking = |id: JobId| match self.lacks_memory(id) {
            Some(Lack::Room { wanted, free }) => wanted.saturating_sub(free),
            _ => 0,
        };
        let waiting = self.memory.claims.iter().map(|&(id, _)| id).filter(waits);
        waiting.map(lacking).fold(0, u64::saturating_add)
    }

    /// Whether a job borrowed memory that a project waits for.
    pub(crate) fn lent_memory_is_wanted(&self, job: &Job) -> bool {
        self.claimed() > 0 && job.has_borrowed(&self.memory_borrowers())
    }

    /// The youngest of those whose pool has, or is expected to come to, more than is its own, and who give some back when
    /// they stand still: how much of it swap takes, and how much that is with what it is only expected to come to hold.
    fn memory_payer(&self, pool: u16, swap: u64) -> Option<(JobId, u64, u64)> {
        let borrowed = self.memory_borrowers();
        let movable = |job: &Job| job.held.resident.min(swap);
        let gain =
            |job: &Job| self.counts_for(job).saturating_sub(job.held.resident).saturating_add(movable(job));
        let may = |job: &&Job| {
            let theirs = job.pools.memory;
            let pays = theirs != pool && borrowed[usize::from(theirs)].expected && gain(job) >= WORTH_BYTES;
            pays && Some(job.id()) != self.memory.token && self.may_freeze(job.id())
        };
        let youngest = self.running().filter(may).max_by_key(|job| order(job))?;
        Some((youngest.id(), movable(youngest), gain(youngest)))
    }
}
