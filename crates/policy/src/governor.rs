//! The memory governor: who may start, who is frozen when memory runs short, who is paged out.
//!
//! One job, the *token holder*, is never frozen or paged out for another: the foremost when the token fell free, and
//! it keeps it until it ends. So one job always goes on, and as long as each fits into RAM beside nothing and swap
//! takes the others, all of them end one after the other at the worst (Jiang and Zhang's swap token, 2005). Above
//! that floor: admission counts with what jobs usually need; who grows is watched; before memory is short the
//! youngest stand still; what stands still is paged out only as far as those who run need it.
//!
//! Absent: how anything is measured; who returns, and when (`returns`); and the slots: a job that is frozen for memory has
//! none.

use std::time::Duration;

use crate::job::{Job, Out};
use crate::memory::{Claim, Held, JobMemory, Kind, MemorySample, bucket, grown};
use crate::policy::Policy;
use crate::{Instant, JobId, Reason};

/// A shortage is dealt with when growth would use up what is free within this time.
///
/// Readings come ten times a second then and a freeze takes some milliseconds, so this is several times what it takes.
/// Twice as long froze jobs on a 2 GiB host that would just have fitted (docs/memory.md).
pub(crate) const HORIZON: Duration = Duration::from_secs(1);
/// The least time between two steps against a shortage, when growth is not predicted.
const STEP: Duration = Duration::from_millis(250);
/// All jobs stood still for this part of the time: the host thrashes, whatever the figures say.
pub(crate) const THRASH_MILLI: u16 = 500;
/// ... for so long.
const THRASH_FOR: Duration = Duration::from_secs(1);
/// Where the kernel does not say who stalls, a shortage with next to nothing free for so long is taken for that.
pub const FULL_FOR: Duration = Duration::from_secs(10);
/// Nobody below this is frozen for memory or paged out: it would not help.
pub(crate) const WORTH_BYTES: u64 = 4 << 20;
/// Who grows by so much from one reading to the next does not stand still yet, though it was told to.
const SETTLED_BYTES: u64 = 1 << 20;
/// Kinds of jobs that are known at most, so that nobody can fill memory with them.
pub(crate) const KINDS_MAX: usize = 10_000;
/// The least time a job rests, doubled with each time it is frozen,
const REST: Duration = Duration::from_secs(1);
/// up to 2^6 times.
const REST_DOUBLINGS_MAX: u32 = 6;
/// The rate of a swap device that was not measured: that of a slow disk.
const SWAP_RATE_ASSUMED: u64 = 50 << 20;
/// The part of the swap device's rate that paging out may use, in thousandths.
const PAGE_OUT_MILLI: u64 = 800;
/// One that stands still for want of memory gains a priority each time that this has gone by, and with it the right to
/// hold the token: else it would stand for ever behind a job that does not end, or that waits for it.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// Pages are asked for in one step for so long.
pub(crate) const PAGE_OUT_FOR: Duration = Duration::from_millis(500);

impl Policy {
    /// Takes readings in and deals with a shortage, if there is one.
    pub(crate) fn measured(&mut self, sample: &MemorySample) {
        let now = self.now;
        for memory in &sample.jobs {
            self.measured_one(now, memory);
        }
        let resident = self.resident();
        let memory = &mut self.memory;
        memory.resident = resident;
        memory.read = Some(now);
        let host = resident.saturating_add(sample.available_bytes);
        memory.usable = Some(host.min(self.settings.memory.budget_bytes));
        memory.swap_free = sample.swap_free_bytes;
        memory.swap_rate = sample.swap_bytes_per_s;
        memory.stalled_milli = sample.stalled_milli;
        memory.tells_stalls |= sample.stalled_milli > 0;
        let full = sample.available_bytes < WORTH_BYTES;
        memory.full_since = if full { memory.full_since.or(Some(now)) } else { None };
        // One that waits for its slot has not begun; unless somebody stopped it meanwhile.
        let waits = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.queued.is_some());
        memory.returning.retain(|id, until| until.map_or_else(|| waits(id), |until| until > now));
        if self.governs() {
            self.watch_early(self.memory.usable.unwrap_or(u64::MAX));
            self.choose_token();
            self.relieve();
        }
    }

    fn measured_one(&mut self, now: Instant, memory: &JobMemory) {
        let Some(job) = self.jobs.get_mut(&memory.job).filter(|job| job.live().is_some()) else { return };
        let writes = job.live().is_some_and(|live| live.checkpoints.until.is_some());
        let stands = !writes && job.live().is_some_and(|live| live.out.is_some());
        let (before, times_before) = (job.held.total(), job.held.cold.times());
        let runs = (has_slot(job) || writes) && !self.memory.returning.contains_key(&memory.job);
        job.held.read(now, memory, runs);
        job.held.settling = stands && job.held.total() >= before.saturating_add(SETTLED_BYTES);
        if stands {
            job.held.forget_growth();
        }
        if let Some(kind) = job.request.kind {
            let peak = self.memory.peaks.of(kind.key(), || 0);
            *peak = (*peak).max(job.held.peak);
        }
        self.note_cool(memory.job, times_before);
    }

    /// What is known of a kind of jobs changed: those that wait are looked at anew.
    pub(crate) fn learned(&mut self, kind: Kind, claim: Claim) {
        if self.memory.learned.insert(kind.key(), claim).map(|old| bucket(old.usual_bytes))
            == Some(bucket(claim.usual_bytes))
        {
            return;
        }
        let waits =
            |job: &&Job| job.request.kind == Some(kind) && job.live().is_none() && job.queued.is_some();
        let all = self.jobs.values().map(|job| &**job);
        let waiting: Vec<JobId> = all.filter(waits).map(Job::id).collect();
        for id in waiting {
            self.dequeue(id);
            self.enqueue(id);
        }
    }

    /// Whether the governor acts: it is on, and memory was read.
    pub(crate) fn governs(&self) -> bool {
        self.settings.memory.governor && self.settings.schedule && self.memory.usable.is_some()
    }

    /// What a job is expected to need: what its kind is known to need; what was asked for; at least what others of
    /// its kind hold right now. `None`: nobody knows.
    pub(crate) fn claim_of(&self, job: &Job) -> Option<Claim> {
        let mut claim = self.claim_on_all(job)?;
        // What its like got on without lately says more than what earlier ones held, and than what was asked for.
        claim.usual_bytes = claim.usual_bytes.min(self.part_needed(job.request.kind, claim.most_bytes));
        // Who holds more than was expected is expected to hold that.
        let usual_bytes = claim.usual_bytes.max(job.held.need_peak.min(claim.most_bytes));
        Some(Claim { usual_bytes, most_bytes: claim.most_bytes.max(job.held.peak), ..claim })
    }

    /// The same, with what it may get on without.
    fn claim_on_all(&self, job: &Job) -> Option<Claim> {
        let kind = job.request.kind;
        let learned = kind.and_then(|kind| self.memory.learned.get(kind.key())).copied();
        let asked = || job.request.memory.map(Claim::of);
        let peers =
            || kind.and_then(|kind| self.memory.peaks.get(kind.key())).copied().filter(|&peak| peak > 0);
        learned.or_else(asked).or_else(|| peers().map(Claim::of))
    }

    /// What a job is expected to come to hold, RAM and swap together: what counts for it, and what it may get on without.
    pub(crate) fn comes_to_hold(&self, job: &Job) -> u64 {
        let claim = if self.settings.memory.prediction { self.claim_on_all(job) } else { None };
        self.counts_for(job).max(claim.map_or(0, |claim| claim.held_bytes))
    }

    /// Whether anybody told what a job needs, its user or jobs of its kind that ended, and it may be used.
    pub(crate) fn is_known(&self, job: &Job) -> bool {
        let learned = || job.request.kind.is_some_and(|kind| self.memory.learned.get(kind.key()).is_some());
        self.settings.memory.prediction && (job.request.memory.is_some() || learned())
    }

    /// What a running job counts for: what it needs, or what it usually comes to need; the most it may need if it
    /// may not be frozen once it runs.
    pub(crate) fn counts_for(&self, job: &Job) -> u64 {
        if job.held.cold.is_cool() && !job.request.no_suspend {
            return job.held.needs();
        }
        let claim = if self.settings.memory.prediction { self.claim_of(job) } else { None };
        let claim = claim.unwrap_or_default();
        // Who was ended for others does not begin anew where it would be again.
        let ended = job.requeues > 0 || job.checkpoints > 0;
        let before = if ended && job.live().is_none() { job.held.peak } else { 0 };
        job.held.needs().max(before).max(if job.request.no_suspend {
            claim.most_bytes
        } else {
            claim.usual_bytes
        })
    }

    /// What a running job counts for, or what it is about to hold if that is more.
    fn about_to_take(&self, job: &Job) -> u64 {
        self.counts_for(job).max(self.about_to_hold(job, HORIZON))
    }

    /// Jobs that have a slot.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Job> {
        self.lives.iter().filter_map(|id| self.jobs.get(id)).map(|job| &**job).filter(|job| has_slot(job))
    }

    /// What all that lives holds in RAM.
    pub(crate) fn resident(&self) -> u64 {
        self.lives
            .iter()
            .filter_map(|id| self.jobs.get(id))
            .map(|job| job.held.resident)
            .fold(0, u64::saturating_add)
    }

    /// Whether memory should be read often: it is short, or could be within seconds.
    #[must_use]
    pub fn memory_is_tight(&self) -> bool {
        if !self.governs() {
            return false;
        }
        let usable = self.memory.usable.unwrap_or(u64::MAX);
        let free = self.free_memory();
        let growth: u64 = self.running().map(|job| job.held.growth).fold(0, u64::saturating_add);
        self.memory.short_since.is_some()
            || !self.memory.frozen.is_empty()
            || self.slows()
            || free < usable / 4
            || grown(growth, HORIZON * 4) > free
            || self.beyond_safety(usable, HORIZON * 4) > 0
            // Of a young job nobody knows yet how fast it grows: a second is enough to fill a small host.
            || self.running().any(|job| !self.is_known(job) && self.is_young(job))
            || self.running().any(|job| job.held.grows_unseen())
            || self.running().any(|job| job.held.cold.is_cool())
            || self.memory.stretched
    }

    /// The job that is never frozen or paged out for another, if memory is governed and any job lives.
    #[must_use]
    pub fn memory_token(&self) -> Option<JobId> {
        self.memory.token
    }

    /// What is free for jobs in RAM.
    pub(crate) fn free_memory(&self) -> u64 {
        self.memory.usable.unwrap_or(u64::MAX).saturating_sub(self.resident())
    }

    /// Why memory keeps a job from its start, if it does.
    pub(crate) fn lacks_memory(&self, id: JobId) -> Option<Lack> {
        let job = self.jobs.get(&id)?;
        // Beside one that writes down what it has done nobody starts alone: it holds what it does until it ends.
        if !self.governs() || (self.nobody_runs() && self.writers().is_empty()) {
            return None;
        }
        if let Some(live) = job.live() {
            // Who stood still for another cause returns as one that did for memory does; those were looked at already.
            let let_go = live.out.is_none_or(Out::is_memory);
            let lacks = if let_go { self.finds_swap_busy(job) } else { !self.may_return(job) };
            return lacks.then_some(Lack::Short);
        }
        let usable = self.memory.usable?;
        let wanted = self.counts_for(job);
        if wanted == 0 && self.memory.frozen.is_empty() {
            // Of most jobs nothing is known, and memory is not short: no need to look at all that run.
            let kept = self.kept_beside(job.pools.memory);
            let free = usable.saturating_sub(self.memory.resident).saturating_sub(kept);
            if self.is_short() {
                return Some(Lack::Short);
            }
            return (free < usable / 20).then_some(Lack::Room { wanted: usable / 20, free });
        }
        let (wanted, free) = self.room_for(job, usable);
        let early = wanted > free;
        if early && !self.may_start_early(job, wanted, usable) {
            return Some(Lack::Room { wanted, free });
        }
        if self.is_short() {
            return Some(Lack::Short);
        }
        // It would be the first to stand still, and the next would start in its place; unless it goes before others that
        // borrowed what is its project's own.
        let own = |job| self.memory_is_its_own(job, wanted);
        if !early && self.shortage(usable.saturating_sub(wanted)) > 0 && !own(job) {
            let taken: u64 = self.running().map(|job| self.counts_for(job)).fold(0, u64::saturating_add);
            let grown: u64 = self.running().map(|job| self.about_to_take(job)).fold(0, u64::saturating_add);
            return Some(Lack::Growth { wanted, free: free.saturating_sub(grown.saturating_sub(taken)) });
        }
        // A job of which nothing is known waits until nobody stands still; the others only if they would keep one
        // that does from returning.
        let known = self.is_known(job);
        if let Some(first) = self.first_kept_waiting_by(job, wanted) {
            let token =
                self.memory.token.and_then(|id| self.jobs.get(&id)).map_or(0, |job| self.counts_for(job));
            let taken: u64 = self.running().map(|job| self.counts_for(job)).fold(0, u64::saturating_add);
            let beside = taken.saturating_sub(token).saturating_add(self.need_to_return(first));
            // Who stays within what is its project's own waits for nobody who could not return without it either.
            let waits = beside <= usable || !self.memory_is_its_own(job, wanted);
            if !known || (waits && beside.saturating_add(wanted) > usable) {
                return Some(Lack::Frozen { first: first.id() });
            }
        }
        self.is_unsafe(job, self.comes_to_hold(job), usable).then_some(Lack::Unsafe)
    }

    /// Whether nothing new is to start for now: memory is short, or was about to be when somebody was slowed or asked for a
    /// checkpoint; or one that was told to stand still grows on, as a freeze can take its time, or was not looked at since.
    fn is_short(&self) -> bool {
        // Who was held against one that takes its own back was looked at for that.
        let unread = |job: &Job| !job.held.taken_back && self.memory.read.is_none_or(|at| job.since >= at);
        let settles = || self.frozen_for_memory().any(|job| job.held.settling || unread(job));
        self.memory.short_since.is_some() || self.memory.writing || self.slows() || settles()
    }

    /// Jobs that were started and stand still, for whatever cause.
    pub(crate) fn standing(&self) -> impl Iterator<Item = &Job> {
        self.lives.iter().filter_map(|id| self.jobs.get(id)).map(|job| &**job).filter(|job| !has_slot(job))
    }

    /// Jobs frozen for memory that may not return yet.
    pub(crate) fn frozen_for_memory(&self) -> impl Iterator<Item = &Job> {
        self.memory.frozen.iter().filter_map(|id| self.jobs.get(id)).map(|job| &**job)
    }

    /// The token stays with who has it until it ends or a user stops it, or another stood still for very long; then it
    /// goes to the foremost, who may stand still.
    pub(crate) fn choose_token(&mut self) {
        let keeps = |id: &JobId| {
            let live = self.jobs.get(id).and_then(|job| job.live());
            let holds = |live: &crate::job::Live| live.key.is_some() || live.out.is_some_and(Out::is_memory);
            let ends = self.jobs.get(id).is_some_and(|job| Self::is_ending(job));
            live.is_some_and(|live| holds(live) && !ends)
        };
        if let Some(token) = self.memory.token.filter(keeps) {
            if let Some(next) = self.who_stood_too_long(token) {
                self.memory.token = Some(next);
                self.let_go(next);
            }
            return;
        }
        let all = self.lives.iter().filter(|id| keeps(id)).filter_map(|id| self.jobs.get(id));
        self.memory.token = all.min_by_key(|job| order(job)).map(|job| job.id());
        if let Some(token) = self.memory.token {
            self.stop_checkpoint(token, Reason::GoesFirst);
        }
        // Who holds it does not stand still, also when it fell to him in the midst of starts.
        if let Some(token) = self.memory.token.filter(|token| self.memory.frozen.contains(token)) {
            self.let_go(token);
        }
    }

    /// One that stood still for so long that it goes before the token holder now; if all others, the holder among them,
    /// can be moved out of its way. What the holder had in swap is not brought back for nothing: it runs for as long first
    /// as anybody does who returned.
    fn who_stood_too_long(&self, token: JobId) -> Option<JobId> {
        let usable = self.memory.usable?;
        let holder = self.jobs.get(&token)?;
        let returned =
            holder.live().is_some_and(|live| live.out.is_none()) && self.now >= holder.held.runs_until;
        if !returned {
            return None;
        }
        let holder = holder.request.priority;
        // What was lent to one is taken back for as long as it is wanted, however long that is.
        let owed = self.frozen_for_memory().filter(|job| !self.lent_memory_is_wanted(job));
        let over = owed.filter(|job| self.patience_left(job, holder).is_zero());
        let mut all: Vec<&Job> = over.collect();
        all.sort_by_key(|job| (std::cmp::Reverse(self.priority_gained(job)), order(job)));
        all.into_iter().find(|job| self.is_safe_first(job, usable)).map(Job::id)
    }

    /// The priority of a job that stands still for want of memory, with what it gained by that.
    fn priority_gained(&self, job: &Job) -> u64 {
        u64::from(job.request.priority) + self.now.since(job.since).as_secs() / PATIENCE.as_secs()
    }

    /// How long a job that stands still for want of memory has to wait before it goes before one of this priority.
    pub(crate) fn patience_left(&self, job: &Job, holder: u8) -> Duration {
        let above = u32::from(holder).saturating_sub(u32::from(job.request.priority)) + 1;
        (PATIENCE * above).saturating_sub(self.now.since(job.since))
    }

    pub(crate) fn swap_rate(&self) -> u64 {
        if self.memory.swap_rate == 0 { SWAP_RATE_ASSUMED } else { self.memory.swap_rate }
    }

    /// What may be paged out in a second, at least 1.
    pub(crate) fn page_out_rate(&self) -> u64 {
        (self.swap_rate() / 1000).saturating_mul(PAGE_OUT_MILLI).max(1)
    }

    /// Deals with a shortage: freezes the youngest until the others fit, and pages out those who stand still.
    fn relieve(&mut self) {
        let now = self.now;
        let usable = self.memory.usable.unwrap_or(u64::MAX);
        self.keep_safe(usable);
        self.checkpoint_for_memory(usable);
        let over = self.shortage(usable);
        let overrun = self.settings.memory.prediction && self.overrun(usable) > 0;
        let thrashes = self.memory.stalled_milli >= THRASH_MILLI && self.memory.returning.is_empty();
        if over == 0 && !overrun && !thrashes {
            self.memory.short_since = None;
            self.probe(usable);
            self.slow_growth(usable);
            self.page_out();
            self.make_room_for_next();
            return;
        }
        let since = *self.memory.short_since.get_or_insert(now);
        if over > 0 && self.settings.memory.prediction {
            let mut left = over;
            while left > 0
                && let Some((victim, gain)) = self.victim()
            {
                self.freeze_for_memory(victim);
                left = left.saturating_sub(gain);
            }
        } else if self.memory.acted.is_none_or(|at| now.since(at) >= STEP)
            && (over > 0 || now.since(since) >= THRASH_FOR)
            && let Some((victim, _)) = self.victim()
        {
            self.freeze_for_memory(victim);
        }
        if overrun {
            self.stop_overrun(usable);
        }
        if ((thrashes && now.since(since) >= THRASH_FOR) || (over > 0 && self.seems_to_thrash()))
            && self.victim().is_none()
        {
            self.give_way_to_the_unfreezable();
        }
        self.page_out();
        self.begin_anew_for_memory(usable);
    }

    /// Freezes who grows faster than others can be moved out of the way; nobody twice for that, for he could not come to
    /// his end where paging out is always slower.
    fn stop_overrun(&mut self, usable: u64) {
        while self.overrun(usable) > 0 {
            let grows = |job: &Job| job.held.freezes == 0 && self.soon(job) >= WORTH_BYTES;
            let Some(id) = self.last_to_be_kept(grows).map(Job::id) else { return };
            self.freeze_for_memory(id);
        }
    }

    /// Whether next to nothing was free for long, with nothing done against it that could have helped, where the kernel does
    /// not say who stalls.
    fn seems_to_thrash(&self) -> bool {
        let long = |since: Instant| self.now.since(since) >= FULL_FOR;
        !self.memory.tells_stalls
            && self.memory.full_since.is_some_and(long)
            && self.memory.acted.is_none_or(long)
            && self.memory.returning.is_empty()
    }

    /// All stall, and nobody but the token holder could be frozen: the token passes to the foremost of those who may never
    /// be, for they go on in any case, and the holder can then stand still for them.
    fn give_way_to_the_unfreezable(&mut self) {
        if !self.memory.token.is_some_and(|holder| self.may_freeze(holder)) {
            return;
        }
        let stays =
            |job: &&Job| job.request.no_suspend && job.held.total() >= WORTH_BYTES && !Self::is_ending(job);
        if let Some(next) = self.running().filter(stays).min_by_key(|job| order(job)).map(Job::id) {
            self.memory.token = Some(next);
        }
    }

    /// Freezes who would soon hold what the token holder, or one who holds the token later, may come to need and swap
    /// does not take.
    fn keep_safe(&mut self, usable: u64) {
        // However slowly: nobody gives back what he holds.
        while self.beyond_safety(usable, HORIZON) > 0 {
            let may = |job: &&Job| {
                job.held.growth > 0 && Some(job.id()) != self.memory.token && self.may_freeze(job.id())
            };
            let borrowed = self.memory_borrowers();
            let last = |job: &&Job| (job.has_borrowed(&borrowed), order(job));
            let Some(youngest) = self.running().filter(may).max_by_key(last) else { return };
            let id = youngest.id();
            self.freeze_for_memory(id);
        }
    }

    /// The next to be frozen, and what that is worth: the youngest of those that grow or may begin to, else the
    /// youngest that holds anything; never the token holder, and one that has just returned only if there is no
    /// other.
    pub(crate) fn victim(&self) -> Option<(JobId, u64)> {
        let worth = |job: &Job| job.held.total() >= WORTH_BYTES || self.may_grow(job);
        let job = self.last_to_be_kept(worth)?;
        // Frozen, it neither grows, nor is what it holds needed, but for what swap does not take.
        let stuck = job.held.resident.saturating_sub(self.memory.swap_free);
        Some((job.id(), self.about_to_hold(job, HORIZON).saturating_sub(stuck).max(1)))
    }

    /// The last of these to be left running: never the token holder, and one that has just returned only if there is no
    /// other.
    fn last_to_be_kept(&self, worth: impl Fn(&Job) -> bool) -> Option<&Job> {
        let may = |job: &&Job| Some(job.id()) != self.memory.token && self.may_freeze(job.id()) && worth(job);
        let borrowed = self.memory_borrowers();
        let key = |job: &&Job| {
            let rested = self.now >= job.held.runs_until;
            (job.has_borrowed(&borrowed), job.held.early, rested, self.may_grow(job), order(job))
        };
        self.running().filter(may).max_by_key(key)
    }

    pub(crate) fn freeze_for_memory(&mut self, id: JobId) {
        let free = self.free_memory();
        let growth: u64 = self.running().map(|job| self.growth_of(job)).fold(0, u64::saturating_add);
        let Some(token) = self.memory.token else { return };
        self.stand_still(id, Reason::MemoryShort { free, growth, token });
    }

    /// Freezes a job, until memory suffices for it again.
    pub(crate) fn stand_still(&mut self, id: JobId, reason: Reason) {
        let now = self.now;
        let Some(token) = self.memory.token else { return };
        let taken_back = matches!(reason, Reason::MemoryTakenBack { .. });
        self.was_too_early(id);
        self.memory.frozen.insert(id);
        self.park(id, Out::Memory { token }, reason);
        self.memory.acted = Some(now);
        self.memory.returning.remove(&id);
        let growth = self.jobs.get(&id).map_or(0, |job| self.growth_of(job));
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.held.growth = growth;
        // Who gets on without most of it costs little each time.
        let doublings = if job.held.cold.is_cool() { 0 } else { job.held.freezes.min(REST_DOUBLINGS_MAX) };
        job.held.rests_until = now.after(REST * (1 << doublings));
        job.held.freezes += 1;
        job.held.taken_back = taken_back;
        job.held.growth_before = 0;
        job.held.forget_growth();
    }

    /// Pages out what stands still, then what those who run get on without, as far as the room is needed soon: the last in
    /// the order first, at a bounded rate, and never more than swap takes.
    fn page_out(&mut self) {
        let usable = self.memory.usable.unwrap_or(u64::MAX);
        // What they left in swap comes back too, as fast as the device gives it.
        let back = grown(self.swap_rate(), HORIZON);
        let needed: u64 = self
            .running()
            .map(|job| self.soon(job).saturating_add(job.held.missing().min(back)))
            .fold(usable / 50, u64::saturating_add)
            .saturating_add(self.claimed());
        // Who starts on what is its project's own is held against what the others may come to hold, not only what they do.
        let owed = match self.claims_lack() {
            0 => 0,
            lacking => lacking.max(WORTH_BYTES),
        };
        let needed = needed.max(self.free_memory().saturating_add(owed));
        let lacking = needed.saturating_sub(self.free_memory());
        let busy = self.memory.paging_until.is_some_and(|until| self.now < until);
        if lacking < WORTH_BYTES || self.memory.swap_free < WORTH_BYTES || busy {
            return;
        }
        let rate = self.page_out_rate();
        let mut bytes = lacking.min(grown(rate, PAGE_OUT_FOR)).min(self.memory.swap_free).max(WORTH_BYTES);
        let mut standing: Vec<(JobId, u64)> = {
            let worth = |job: &&Job| {
                // One that is being ended gives its memory back in a moment anyway.
                let frozen = job.live().is_some_and(|live| live.told.frozen == Some(true) && !live.requeuing);
                frozen && job.held.resident >= WORTH_BYTES && Some(job.id()) != self.memory.token
            };
            let mut all: Vec<&Job> = self.standing().filter(worth).collect();
            let borrowed = self.memory_borrowers();
            all.sort_by_key(|job| std::cmp::Reverse((job.has_borrowed(&borrowed), order(job))));
            all.into_iter().map(|job| (job.id(), job.held.resident)).collect()
        };
        // Then those who run and get on without.
        let mut cool: Vec<&Job> = self.cool().collect();
        cool.sort_by_key(|job| std::cmp::Reverse(order(job)));
        standing.extend(cool.into_iter().map(|job| (job.id(), job.can_give())));
        standing.retain(|(id, _)| !self.marked.iter().any(|(marked, _)| marked == id));
        for (job, resident) in standing {
            let part = bytes.min(resident);
            self.order_out(job, part, Reason::MemoryNeeded { needed, free: self.free_memory() });
            bytes -= part;
            if bytes < WORTH_BYTES {
                return;
            }
        }
    }

    /// Forgets a job that is over or is not to be governed any more.
    pub(crate) fn forget_memory(&mut self, id: JobId) {
        self.memory.frozen.remove(&id);
        self.memory.returning.remove(&id);
        if self.memory.token == Some(id) {
            self.memory.token = None;
        }
    }

    /// The size class in which a waiting job stands in the queue.
    pub(crate) fn memory_bucket(&self, job: &Job) -> u16 {
        if job.live().is_some() || !self.settings.memory.prediction {
            return 0;
        }
        self.claim_of(job).map_or(0, |claim| {
            bucket(if job.request.no_suspend { claim.most_bytes } else { claim.usual_bytes })
        })
    }

    /// The largest size class that could start now.
    pub(crate) fn memory_room(&self) -> u64 {
        if !self.governs() || self.nobody_runs() {
            return u64::MAX;
        }
        let taken: u64 = self.running().map(|job| self.about_to_take(job)).fold(0, u64::saturating_add);
        let standing: u64 = self.standing().map(|job| job.held.resident).fold(0, u64::saturating_add);
        let usable = self.memory.usable.unwrap_or(u64::MAX);
        usable.saturating_sub(taken).saturating_sub(standing).saturating_sub(self.promised_beside(None))
    }
}

/// Why memory keeps a job from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// What it usually needs is not free.
    Room {
        /// What it usually needs.
        wanted: u64,
        /// What the running jobs leave.
        free: u64,
    },
    /// Those who run are about to grow into what it usually needs.
    Growth {
        /// What it usually needs.
        wanted: u64,
        /// What they will leave.
        free: u64,
    },
    /// Memory runs short now.
    Short,
    /// It would keep one that stands still from returning.
    Frozen {
        /// The first that returns.
        first: JobId,
    },
    /// The token holder, or who holds the token after it, could not be given all that it may need.
    Unsafe,
}

pub(crate) fn has_slot(job: &Job) -> bool {
    job.live().is_some_and(|live| live.key.is_some())
}

/// The order in which jobs keep their memory: priority, then start, then number; the foremost is the least.
pub(crate) fn order(job: &Job) -> (std::cmp::Reverse<u8>, Instant, JobId) {
    let started = job.live().map_or(Instant(u64::MAX), |live| live.started);
    (std::cmp::Reverse(job.request.priority), started, job.id())
}

impl Out {
    /// Whether it was frozen for want of memory.
    pub(crate) fn is_memory(self) -> bool {
        matches!(self, Self::Memory { .. })
    }
}

impl Held {
    /// Whether most of it is in swap.
    pub(crate) fn is_parked(&self) -> bool {
        self.swapped > self.resident
    }
}
