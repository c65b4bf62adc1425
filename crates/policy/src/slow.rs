//! The first step of the ladder, where the kernel can take it: whoever grew youngest is slowed before anybody has to stand
//! still; and the memory of the token holder is the last that the kernel takes.
//!
//! A slowed job may grow by what the others leave within the next second. Beyond that the kernel moves its own pages
//! out at each page that it asks for, so that it grows as fast as swap takes them. This holds between two readings too,
//! while a freeze comes after one. As long as it holds, no more of such a job is expected in RAM than its bound, so that
//! nobody stands still for what it would grow by; once it is let go, it would grow as it did before, and stands still
//! if there is no room for that. It is of no use to a job whose pages have nowhere to go, and such a job would stall
//! for hours without getting on: then, and where the kernel has no such bound (`memory.high`), jobs are frozen at once.
//! Nor is it done for long, for a job that moves its own pages in a circle gets on more slowly than one that waits for
//! its turn.
//!
//! Owns who is slowed and who is protected. Absent: who is frozen (`governor`).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::carry::RETRY;
use crate::code::Unthrottled;
use crate::governor::{HORIZON, WORTH_BYTES, has_slot, order};
use crate::job::Job;
use crate::memory::grown;
use crate::policy::Policy;
use crate::{Action, Decision, Instant, JobId, Reason};

/// A job is slowed for so long at most, and then goes on or stands still.
pub const SLOW_FOR: Duration = Duration::from_secs(10);
/// Growth is looked at this far ahead for it, twice as far as for a freeze.
const AHEAD: Duration = Duration::from_secs(2);
/// One that was slowed is not again before this has gone by.
const AGAIN: Duration = Duration::from_secs(30);
/// The least time between two steps.
const STEP: Duration = Duration::from_millis(250);
/// What a job grows by between the reading and the bound is not the bound's failure.
const SLACK: Duration = Duration::from_millis(250);

/// What the kernel was told about whose memory to take.
#[derive(Debug, Default)]
pub(crate) struct Steering {
    slowed: BTreeMap<JobId, Slowed>,
    /// The job that is protected, and so many bytes of it.
    protected: Option<(JobId, u64)>,
    acted: Option<Instant>,
}

/// A job that is slowed.
#[derive(Debug, Clone, Copy)]
struct Slowed {
    since: Instant,
    /// What it grew by in a second before.
    growth: u64,
    /// What it may have in RAM, in bytes.
    bound: u64,
    /// The kernel did not let it grow again, and is asked anew at this time.
    asked_again: Option<Instant>,
}

impl Steering {
    /// Who is slowed and may be let go as far as the kernel is concerned.
    fn due(&self, now: Instant) -> Vec<(JobId, Slowed)> {
        let due = |one: &Slowed| one.asked_again.is_none_or(|at| at <= now);
        self.slowed.iter().filter(|(_, one)| due(one)).map(|(&id, &one)| (id, one)).collect()
    }
}

impl Policy {
    /// Slows the youngest that grows, if memory would run short soon as things go, and lets those grow again for whom
    /// there is room.
    pub(crate) fn slow_growth(&mut self, usable: u64) {
        if !self.steers() {
            return;
        }
        for (id, one) in self.steering.due(self.now) {
            // Who stands still is let go at the end of the step.
            let runs = self.live(id).is_some_and(|live| live.out.is_none());
            if runs && self.is_open(id) {
                self.end_slowing(id, one, usable);
            }
        }
        let over = self.shortage_within(usable, AHEAD);
        let rests = self.steering.acted.is_some_and(|at| self.now.since(at) < STEP);
        if over == 0 || rests || !self.settings.memory.prediction {
            return;
        }
        let may = |job: &&Job| {
            let again = job.held.slowed_until.is_none_or(|until| self.now >= until);
            let grows = job.held.growth_now >= WORTH_BYTES && job.held.growth >= WORTH_BYTES;
            let free = Some(job.id()) != self.memory.token && !self.steering.slowed.contains_key(&job.id());
            again && grows && free && self.may_freeze(job.id()) && self.can_give_up(job)
        };
        let Some(job) = self.running().filter(may).max_by_key(|job| order(job)) else { return };
        let id = job.id();
        let growth = job.held.growth;
        // It is held back before it would be frozen, so what is for that stays free.
        let freezes_at = over.saturating_add(grown(growth, HORIZON));
        // Who writes down what it has done has no slot, but what it holds is in use meanwhile.
        let writers = self.writers();
        let writers = writers.iter().filter_map(|id| self.jobs.get(id)).map(|job| &**job);
        let in_use = self.running().chain(writers).map(|job| job.held.resident).fold(0, u64::saturating_add);
        let room =
            self.ahead_within(job, AHEAD).saturating_sub(freezes_at).min(usable.saturating_sub(in_use));
        // Its page cache is the first that it gives up, and makes room for as much within the kernel's bound.
        let allowance = room.saturating_sub(job.held.cache);
        let bound = job.held.resident.saturating_add(room.max(job.held.cache));
        let Some(token) = self.memory.token else { return };
        let reason = Reason::GrowsTooFast { free: self.free_memory(), growth, token };
        self.decisions.push(Decision {
            job: id,
            action: Action::Slow { allowance: Some(allowance) },
            reason,
        });
        self.steering.slowed.insert(id, Slowed { since: self.now, growth, bound, asked_again: None });
        self.steering.acted = Some(self.now);
    }

    /// Lets a slowed job grow again if there is room for that, or has it stand still where slowing is no way any more.
    fn end_slowing(&mut self, id: JobId, one: Slowed, usable: u64) {
        let useful = self.jobs.get(&id).is_some_and(|job| self.can_give_up(job));
        // Twice as far as it was looked ahead, so that it is not slowed again at once.
        let clear = usable.saturating_sub(grown(one.growth, AHEAD));
        let why = if self.shortage_without_bound(id, clear, AHEAD) == 0 {
            Unthrottled::Suffices
        } else if !useful {
            Unthrottled::NoUse
        } else if self.now.since(one.since) >= SLOW_FOR {
            Unthrottled::LongEnough
        } else {
            return;
        };
        if self.shortage_without_bound(id, usable, HORIZON) > 0 && self.may_freeze(id) {
            self.freeze_for_memory(id); // and it is let go at the end of the step
        } else {
            self.let_grow(id, why);
        }
    }

    /// What a job grows by in a second: of one that is slowed, what it did before.
    pub(crate) fn growth_of(&self, job: &Job) -> u64 {
        let before = self.steering.slowed.get(&job.id()).map_or(0, |one| one.growth);
        job.held.growth.max(before)
    }

    /// What a slowed job may have in RAM; `None`: it is not slowed, or the kernel does not hold it there.
    pub(crate) fn bound_of(&self, job: &Job) -> Option<u64> {
        let one = self.steering.slowed.get(&job.id()).filter(|one| one.asked_again.is_none())?;
        let slack = grown(one.growth, SLACK).max(WORTH_BYTES);
        let holds = job.held.resident <= one.bound.saturating_add(slack);
        holds.then(|| one.bound.max(job.held.resident))
    }

    /// Whether anybody is slowed now.
    pub(crate) fn slows(&self) -> bool {
        self.steering.slowed.values().any(|one| one.asked_again.is_none())
    }

    /// Whether the kernel can be told whose memory to take.
    fn steers(&self) -> bool {
        self.governs() && self.settings.memory.steers
    }

    /// Whether a job that is slowed has pages that can go somewhere.
    fn can_give_up(&self, job: &Job) -> bool {
        self.memory.swap_free >= WORTH_BYTES || job.held.cache >= WORTH_BYTES
    }

    /// At the end of each step: who stands still, holds the token or is not governed any more is not slowed; and the
    /// token holder, and nobody else, is protected.
    pub(crate) fn steer(&mut self) {
        if self.steering.slowed.is_empty() && self.steering.protected.is_none() && !self.steers() {
            return;
        }
        for (id, _) in self.steering.due(self.now) {
            if !self.is_open(id) {
                continue;
            }
            let stands = self.live(id).is_some_and(|live| live.out.is_some());
            if !self.steers() {
                self.let_grow(id, Unthrottled::NotGoverned);
            } else if stands {
                self.let_grow(id, Unthrottled::Suspended);
            } else if self.memory.token == Some(id) {
                self.let_grow(id, Unthrottled::Token);
            }
        }
        self.protect_token();
    }

    fn protect_token(&mut self) {
        let token = self.memory.token.filter(|_| self.steers());
        let told = self.steering.protected;
        if let Some((was, _)) = told
            && token != Some(was)
        {
            if !self.is_open(was) {
                return; // once it has answered
            }
            self.steering.protected = None;
            let reason = Reason::GoesFirstNoMore;
            self.decisions.push(Decision { job: was, action: Action::Protect { bytes: 0 }, reason });
        }
        let Some(token) = token.filter(|&token| self.is_open(token)) else { return };
        let Some(job) = self.jobs.get(&token) else { return };
        let bytes = self.counts_for(job);
        let told = self.steering.protected.map_or(0, |(_, bytes)| bytes);
        // In powers of two, so that it is told a dozen times at most while it grows.
        if bytes < WORTH_BYTES || (bytes <= told && bytes > told / 8) {
            return;
        }
        let bytes = bytes.checked_next_power_of_two().unwrap_or(bytes);
        self.steering.protected = Some((token, bytes));
        self.decisions.push(Decision {
            job: token,
            action: Action::Protect { bytes },
            reason: Reason::GoesFirst,
        });
    }

    /// Whether anything may be asked of a job: it runs, and is not on its way in or out.
    fn is_open(&self, id: JobId) -> bool {
        self.live(id).is_some_and(|live| !live.starting && !live.requeuing)
    }

    fn let_grow(&mut self, id: JobId, why: Unthrottled) {
        self.steering.slowed.remove(&id);
        let until = self.now.after(AGAIN);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.held.slowed_until = Some(until);
        }
        let reason = Reason::MayGrow { why };
        self.decisions.push(Decision { job: id, action: Action::Slow { allowance: None }, reason });
        if self.jobs.get(&id).is_some_and(|job| has_slot(job)) {
            self.comes_from_swap(id);
        }
    }

    /// The kernel did not take a bound, or did not give one back: the first is not tried again soon, the second until it
    /// succeeds.
    pub(crate) fn not_steered(&mut self, id: JobId, allowance: Option<u64>) {
        let until = self.now.after(AGAIN);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.held.slowed_until = Some(until);
        if allowance.is_some() {
            self.steering.slowed.remove(&id);
        } else {
            let asked_again = Some(self.now.after(RETRY));
            self.steering.slowed.insert(id, Slowed { since: Instant(0), growth: 0, bound: 0, asked_again });
        }
    }

    /// A job has no processes any more, and nothing is told of it.
    pub(crate) fn forget_steering(&mut self, id: JobId) {
        self.steering.slowed.remove(&id);
        self.steering.protected = self.steering.protected.filter(|&(job, _)| job != id);
    }

    /// Since when a job is slowed.
    pub(crate) fn slowed_since(&self, id: JobId) -> Option<Instant> {
        self.steering.slowed.get(&id).map(|one| one.since)
    }

    /// How much of a job's memory the kernel takes last, in bytes.
    pub(crate) fn protected_bytes(&self, id: JobId) -> Option<u64> {
        self.steering.protected.filter(|&(job, _)| job == id).map(|(_, bytes)| bytes)
    }
}

const _: () = assert!(AHEAD.as_secs() > HORIZON.as_secs(), "slowing comes before freezing");
