//! Memory that is a project's own: it is lent only as far as swap could take it, and a job of the project that would
//! stay within it starts within the time that swap takes for what others had borrowed.
//!
//! Counted from the books alone. Nothing is promised for the time in which somebody holds memory who may not be frozen
//! for it (the token holder, jobs that may never be), in which swap could not take what was borrowed, or in which a job
//! of the project itself is suspended and returns first.

use std::collections::BTreeMap;

use pinfold_policy::{Instant, JobId, Policy};

use crate::pressure::books::{Books, Entry};
use crate::violation::Violation;

/// What freezing, reading and starting take, failures and lost readings included.
const ACTIONS_US: u64 = 30_000_000;
/// What is moved goes at four fifths of the device's speed, and others may use it as well.
const TIMES: u64 = 3;

/// Who waits for memory that is its project's own.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// Since when, and the latest at which it is to start.
    waiting: BTreeMap<JobId, (u64, u64)>,
}

impl Owed {
    pub(crate) fn check(&mut self, books: &Books, policy: &Policy, now_us: u64) -> Result<(), Violation> {
        let owed = books.owed(policy);
        self.waiting.retain(|job, _| owed.contains_key(job));
        for (job, borrowed) in owed {
            let moved_us = borrowed.saturating_mul(1_000_000) / books.rate();
            let bound_us = ACTIONS_US + TIMES * moved_us;
            let (since_us, latest_us) = *self.waiting.entry(job).or_insert((now_us, now_us + bound_us));
            if now_us > latest_us {
                let entry = &books.jobs[&job];
                let found = format!("job {job} waits for it since {since_us} us: {entry:?}");
                return Err(Violation::new("memory that is lent comes back in time", found));
            }
        }
        Ok(())
    }
}

impl Books {
    /// The memory of each project that has any of its own, scaled to what there is.
    fn shares(&self) -> BTreeMap<&str, u64> {
        let usable = self.usable.unwrap_or(0);
        let own = self.settings.projects.iter().filter_map(|p| Some((p.name.as_str(), p.memory_bytes?)));
        let sum: u64 = own.clone().map(|(_, bytes)| bytes).sum();
        let part = |bytes: u64| match sum > usable {
            true => u64::try_from(u128::from(bytes) * u128::from(usable) / u128::from(sum)).unwrap_or(0),
            false => bytes,
        };
        own.map(|(name, bytes)| (name, part(bytes))).collect()
    }

    /// Whose memory a job takes; `None`: that of no project.
    fn pool<'a>(shares: &BTreeMap<&'a str, u64>, entry: &Entry) -> Option<&'a str> {
        let name = entry.request.project.as_deref()?;
        shares.keys().copied().find(|known| *known == name)
    }

    /// What the started jobs of a pool count for: all they may need while they run, what they hold in RAM otherwise.
    fn counted(&self, shares: &BTreeMap<&str, u64>, pool: &str) -> u64 {
        self.counted_if(shares, pool, stands)
    }

    fn counted_if(&self, shares: &BTreeMap<&str, u64>, pool: &str, stands: impl Fn(&Entry) -> bool) -> u64 {
        let mine = self.jobs.values().filter(|e| e.started.is_some() && Self::pool(shares, e) == Some(pool));
        mine.map(|entry| if stands(entry) { entry.held.0 } else { self.counts_for(entry) }).sum()
    }

    /// What other projects than a newcomer's do not use of their own, and swap could not take from those that borrow
    /// it.
    pub(super) fn kept_beside(&self, newcomer: &Entry) -> u64 {
        let shares = self.shares();
        let own = Self::pool(&shares, newcomer);
        let others = shares.iter().filter(|&(&name, _)| Some(name) != own);
        let unused: u64 = others.map(|(name, share)| share.saturating_sub(self.counted(&shares, name))).sum();
        unused.saturating_sub(self.swap_free)
    }

    /// Whether `frozen` borrowed memory, or was frozen so that its pool would not, and `newcomer` is of another
    /// project, within whose own it stays; by what was suspended before this step, for starts are told last.
    pub(super) fn gave_back(&self, frozen: &Entry, newcomer: &Entry, wanted: u64, now: Instant) -> bool {
        let shares = self.shares();
        let (theirs, ours) = (Self::pool(&shares, frozen), Self::pool(&shares, newcomer));
        let Some(pool) = ours.filter(|_| ours != theirs) else { return false };
        let rest = self.usable.unwrap_or(0).saturating_sub(shares.values().sum());
        let own = theirs.map_or(rest, |name| shares[name]);
        let used = self.jobs.values().filter(|e| e.started.is_some() && Self::pool(&shares, e) == theirs);
        let used: u64 = used.map(|entry| entry.held.0 + entry.held.1).sum();
        let stood = |entry: &Entry| stands(entry) || entry.thawed == Some(now);
        let counted = self.counted_if(&shares, pool, stood);
        (used > own || frozen.taken_back) && counted + wanted <= shares[pool]
    }

    /// The next job of each project, where it waits for nothing but memory that is the project's own, and those that
    /// have that can give it back; with what they hold in RAM.
    fn owed(&self, policy: &Policy) -> BTreeMap<JobId, u64> {
        let shares = self.shares();
        let mut owed = BTreeMap::new();
        if shares.is_empty() {
            return owed;
        }
        let (used, slots) = policy.slots();
        for (&pool, &share) in &shares {
            let mine = |entry: &&Entry| Self::pool(&shares, entry) == Some(pool);
            let waits = self.jobs.values().filter(mine).filter(|entry| entry.started.is_none());
            let known = waits.filter(|entry| self.counts_for(entry) > 0);
            let Some(next) = known.min_by_key(|e| (u8::MAX - e.request.priority, e.request.job)) else {
                continue;
            };
            let wanted = self.counts_for(next);
            let own = self.counted(&shares, pool) + wanted <= share;
            let slot = used + next.request.cores as usize <= slots;
            let returns = self.jobs.values().filter(mine).any(stands);
            let others = || self.jobs.values().filter(|e| e.started.is_some() && !mine(e));
            let stays = |entry: &Entry| {
                entry.request.no_suspend
                    || entry.ends
                    || entry.writes
                    || self.token == Some(entry.request.job)
            };
            let borrowed: u64 = others().map(|entry| entry.held.0).sum();
            let holds = self.comes_to_hold(next);
            let room = self.swap_free >= borrowed.saturating_add(holds.saturating_mul(2));
            if own && slot && !returns && room && !others().any(stays) {
                owed.insert(next.request.job, borrowed);
            }
        }
        owed
    }
}

/// Whether a started job has no slot any more: what it writes down before it is ended it writes from where it is.
fn stands(entry: &Entry) -> bool {
    entry.frozen || entry.ends || entry.writes
}
