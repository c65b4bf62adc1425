//! Who stood still for memory returns: the foremost first, when what it needs fits beside the others.
//!
//! From swap one at a time (`memory.swap_slot`), for all of them would wait for one device; and for long enough that the
//! return was worth what it took. Whoever is let go has still to get a slot, and is counted as on its way until then.
//!
//! Absent: who stands still, and who holds the token (`governor`).

use std::time::Duration;

use crate::JobId;
use crate::governor::{HORIZON, THRASH_MILLI, WORTH_BYTES, order};
use crate::job::{Job, Out};
use crate::memory::grown;
use crate::policy::Policy;

/// A job returns from swap only to a host that stalls less than this; nobody returns to one that thrashes.
const CALM_MILLI: u16 = 100;
/// The least time a job runs after it returned; longer when it comes from swap.
const RUN: Duration = Duration::from_secs(1);
/// A job that came from swap runs at least this many times as long as that took.
const RUN_PER_SWAP_IN: u32 = 10;

impl Policy {
    /// The foremost of those frozen for memory.
    fn first_to_return(&self) -> Option<&Job> {
        let borrowed = self.memory_borrowers();
        self.frozen_for_memory().min_by_key(|job| (job.has_borrowed(&borrowed), order(job)))
    }

    /// What must be free for a job that stands still so that it can go on: all that it holds, and what it will grow by.
    pub(crate) fn need_to_return(&self, job: &Job) -> u64 {
        let known = self.settings.memory.prediction && self.claim_of(job).is_some();
        let growth = if known { 0 } else { grown(job.held.growth_before, HORIZON * 2) };
        self.counts_for(job).saturating_add(growth)
    }

    /// Lets those return that may, and sees to it that the token holder runs. At the end of each step, for an exit
    /// may have made room.
    pub(crate) fn let_return(&mut self) {
        if !self.governs() {
            for id in std::mem::take(&mut self.memory.frozen) {
                self.let_go(id);
            }
            return;
        }
        // Also while nobody stands still: whoever starts next is held against what the token holder may need.
        self.choose_token();
        if self.memory.frozen.is_empty() {
            return;
        }
        if let Some(token) = self.memory.token.filter(|token| self.memory.frozen.contains(token)) {
            self.let_go(token);
        }
        while let Some(first) = self.first_to_return().filter(|first| self.may_return(first)).map(Job::id) {
            self.let_go(first);
        }
    }

    /// Whether one that was let go finds as many coming back as may by the time it gets its slot: it had nothing in swap by
    /// the readings of then, or another was let go meanwhile to write down what it has done, and did not wait for its turn.
    pub(crate) fn finds_swap_busy(&self, job: &Job) -> bool {
        let returning = &self.memory.returning;
        let others = || returning.iter().filter(|(id, until)| **id != job.id() && until.is_some()).count();
        let busy = match returning.contains_key(&job.id()) {
            true => others() >= self.swap_slots(),
            false => self.swap_is_busy(),
        };
        busy && job.held.missing() >= WORTH_BYTES && self.memory.token != Some(job.id())
    }

    /// Whether as many come back from swap as may at a time.
    fn swap_is_busy(&self) -> bool {
        self.memory.returning.len() >= self.swap_slots()
    }

    fn swap_slots(&self) -> usize {
        self.settings.memory.swap_slot.max(1) as usize
    }

    /// What those will come to need in RAM and to hold, beyond what they do, who return before one and have not got their
    /// slot yet.
    fn let_go_before(&self, first: &Job) -> (u64, u64) {
        let on_its_way = |job: &&Job| {
            let out = job.live().and_then(|live| live.out);
            job.id() != first.id()
                && job.queued.is_some()
                && out.is_some_and(Out::is_memory)
                && !self.memory.frozen.contains(&job.id())
        };
        self.standing().filter(on_its_way).fold((0, 0), |(need, hold), job| {
            let needs = self.need_to_return(job).saturating_sub(job.held.resident);
            (need.saturating_add(needs), hold.saturating_add(self.grows_on_return(job)))
        })
    }

    /// What one that stands still comes to hold beyond what it does, once it returns, swap included: also what it may get on
    /// without has to be somewhere.
    fn grows_on_return(&self, job: &Job) -> u64 {
        self.need_to_return(job).max(self.comes_to_hold(job)).saturating_sub(job.held.total())
    }

    /// Whether one that stands still may go on: the host is calm, it rested, no more come back from swap than may, what it
    /// needs fits beside the others, and with all that it will hold all can still end.
    pub(crate) fn may_return(&self, first: &Job) -> bool {
        let from_swap = first.held.missing() >= WORTH_BYTES;
        let calm = if from_swap { CALM_MILLI } else { THRASH_MILLI };
        if self.memory.stalled_milli >= calm || (from_swap && self.swap_is_busy()) {
            return false;
        }
        if self.now < first.held.rests_until {
            return false;
        }
        let usable = self.memory.usable.unwrap_or(u64::MAX);
        let margin = usable / 20;
        let taken: u64 = self
            .running()
            .map(|job| job.held.needs().saturating_add(self.ahead(job)))
            .fold(0, u64::saturating_add);
        // The others that stand still can be paged out, as far as swap takes them.
        let pinned = self.standing().filter(|job| job.id() != first.id()).map(|job| job.held.resident);
        let pinned = pinned.fold(0, u64::saturating_add).saturating_sub(self.memory.swap_free);
        // Those who were let go before it, in this step as well, and have no slot yet.
        let (needed_before, held_before) = self.let_go_before(first);
        let need = self.need_to_return(first).saturating_add(needed_before);
        let all = taken.saturating_add(need).saturating_add(pinned);
        let is_token = self.memory.token == Some(first.id());
        let comes = self.grows_on_return(first).max(self.grows_again(first)).saturating_add(held_before);
        let safe = is_token || !self.is_unsafe(first, comes, usable);
        // Who borrowed does not take what was taken from him before the other has it.
        let wanted = !is_token && self.lent_memory_is_wanted(first);
        let margin = margin.saturating_add(if wanted { self.claimed() } else { 0 });
        all.saturating_add(margin) <= usable && (safe || !self.settings.memory.prediction)
    }

    /// A job that stood still for another cause does not find the memory that it needs to go on: from now on it stands
    /// still for that.
    pub(crate) fn rest_for_memory(&mut self, id: JobId) {
        // The one that runs may have started just now.
        self.choose_token();
        self.dequeue(id);
        self.memory.frozen.insert(id);
        let token = self.memory.token.unwrap_or(id);
        if let Some(live) = self.live_mut(id) {
            live.out = Some(Out::Memory { token });
        }
        // With nobody else to hold the token it goes on.
        self.choose_token();
    }

    /// A job that was frozen for memory may return: it is given the next slot.
    pub(crate) fn let_go(&mut self, id: JobId) {
        self.memory.frozen.remove(&id);
        if self.jobs.get(&id).is_some_and(|job| job.held.missing() >= WORTH_BYTES) {
            self.memory.returning.insert(id, None);
        }
        self.enqueue(id);
    }

    /// A job goes on after it stood still, now that it has its slot.
    pub(crate) fn returns(&mut self, id: JobId) {
        let now = self.now;
        let rate = self.swap_rate();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let swap_in = Duration::from_micros(job.held.missing().saturating_mul(1_000_000) / rate);
        (job.held.resumed, job.held.taken_back) = (now, false);
        job.held.runs_until = now.after(RUN.max(swap_in * RUN_PER_SWAP_IN));
        self.comes_from_swap(id);
    }

    /// What a job has in swap comes back with its next steps: the others wait for that long.
    pub(crate) fn comes_from_swap(&mut self, id: JobId) {
        let (now, rate) = (self.now, self.swap_rate());
        let swapped = self.jobs.get(&id).map_or(0, |job| job.held.missing());
        if swapped >= WORTH_BYTES {
            let swap_in = Duration::from_micros(swapped.saturating_mul(1_000_000) / rate);
            let before = self.memory.returning.get(&id).copied().flatten();
            self.memory.returning.insert(id, before.max(Some(now.after(swap_in * 2))));
        }
    }
}
