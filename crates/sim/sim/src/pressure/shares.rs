//! Projects' own memory: it is lent only as far as swap could take it, and a job within its project's share starts within
//! the time that swap takes for the borrowed memory.
//!
//! Counted from the books alone. No promise holds while an exempt job holds memory (the token holder, jobs that may never
//! be frozen), while swap cannot take the borrowed memory, or while a job of the project itself is suspended and returns
//! first.

use std::collections::BTreeMap;

use pinfold_policy::{Instant, JobId, Policy};

use crate::pressure::books::{Books, Entry};
use crate::violation::Violation;

/// The time of freezes, readings and starts, with failures and lost readings.
const ACTIONS_US: u64 = 30_000_000;
/// Pages move at four fifths of the device's speed, shared with other transfers.
const TIMES: u64 = 3;

/// Jobs that wait for their project's own memory.
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
    /// The memory of each project with a share, scaled to the usable memory.
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

    /// The project whose memory a job takes; `None`: no project's.
    fn pool<'a>(shares: &BTreeMap<&'a str, u64>, entry: &Entry) -> Option<&'a str> {
        let name = entry.request.project.as_deref()?;
        shares.keys().copied().find(|known| *known == name)
    }

    /// The memory counted for a pool's started jobs: full needs of running jobs, RAM of the others.
    fn counted(&self, shares: &BTreeMap<&str, u64>, pool: &str) -> u64 {
        self.counted_if(shares, pool, stands)
    }

    fn counted_if(&self, shares: &BTreeMap<&str, u64>, pool: &str, stands: impl Fn(&Entry) -> bool) -> u64 {
        let mine = self.jobs.values().filter(|e| e.started.is_some() && Self::pool(shares, e) == Some(pool));
        mine.map(|entry| if stands(entry) { entry.held.0 } else { self.counts_for(entry) }).sum()
    }

    /// Unused memory of other projects than a newcomer's that swap could not take from borrowers.
    pub(super) fn kept_beside(&self, newcomer: &Entry) -> u64 {
        let shares = self.shares();
        let own = Self::pool(&shares, newcomer);
        let others = shares.iter().filter(|&(&name, _)| Some(name) != own);
        let unused: u64 = others.map(|(name, share)| share.saturating_sub(self.counted(&shares, name))).sum();
        unused.saturating_sub(self.swap_free)
    }

    /// Whether `frozen` borrowed memory, or was frozen so that its pool would not, and `newcomer` is of another project,
    /// within its share; by the suspensions before this step, as starts are reported last.
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

    /// The next job of each project, if it waits only for its project's own memory, and borrowers can return it; with the
    /// borrowers' RAM.
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

/// Whether a started job has no slot any more: a job that checkpoints before its kill does so from its suspended state.
fn stands(entry: &Entry) -> bool {
    entry.frozen || entry.ends || entry.writes
}
