//! Invariants at the end of a step: the bounds, the token, and the cold bytes.

use std::time::Duration;

use pinfold_policy::{FULL_FOR, FrozenBy, Instant, JobId, Kind, PATIENCE, Policy, State};

use super::{Books, Entry, GREW_WITHIN, WORTH_BYTES};
use crate::violation::Violation;

/// A job that waits for more than this part of the time, in thousandths, needs its cold bytes: twice the limit on the mean.
const WAITED_MILLI: u16 = 200;
/// However little a job got on with, the next of its kind is expected to need this part, in thousandths.
const PART_MIN_MILLI: u64 = 125;

impl Books {
    /// At the end of each step: the bounds, and the token, which stays with its holder or falls to the foremost job.
    pub fn check_step(&mut self, policy: &Policy, now: Instant) -> Result<(), Violation> {
        self.check_bounds()?;
        let token = policy.memory_token();
        let keeps = |entry: &Entry| {
            // A job that checkpoints from a suspension for another cause is still suspended.
            let (by_user, for_slots) = if entry.writes { entry.wrote_from } else { (false, false) };
            let stands = entry.by_user || entry.for_slots || by_user || for_slots;
            entry.started.is_some() && !stands && !entry.ends
        };
        // A job that was suspended for long enough goes before the holder.
        let patient = |new: JobId, was: JobId| {
            let (Some(new), Some(was)) = (self.jobs.get(&new), self.jobs.get(&was)) else { return false };
            let above = u32::from(was.request.priority).saturating_sub(u32::from(new.request.priority)) + 1;
            new.stood.is_some_and(|since| now.since(since) >= PATIENCE * above)
        };
        let passes = |was, new| was != new && (patient(new, was) || self.goes_on_anyway(new, was, now));
        let passed = self.token.zip(token).is_some_and(|(was, new)| passes(was, new));
        if let Some(was) = self.token.filter(|was| self.jobs.get(was).is_some_and(keeps))
            && token != Some(was)
            && !passed
        {
            return Err(Violation::new("the token stays where it is", format!("from {was} to {token:?}")));
        }
        if token != self.token
            && !passed
            && let Some(new) = token
        {
            let key = |job: &JobId, entry: &Entry| (u8::MAX - entry.request.priority, entry.started, *job);
            let old = |entry: &Entry| keeps(entry) && entry.started < Some(now) && entry.changed < now;
            let foremost = self.jobs.iter().filter(|(_, e)| old(e)).map(|(job, e)| key(job, e)).min();
            let chosen = self.jobs.get(&new).map(|entry| key(&new, entry));
            if foremost < chosen && foremost.is_some() {
                let found = format!("job {new}, and {foremost:?} was before it");
                return Err(Violation::new("the token falls to the foremost", found));
            }
        }
        if let Some(job) = self.holder_paged.take().filter(|job| token == Some(*job)) {
            return Err(Violation::new("the token holder is not paged out", format!("job {job}")));
        }
        if let Some(job) = self.holder_frozen.take().filter(|job| token == Some(*job)) {
            return Err(Violation::new("the token holder is not frozen", format!("job {job}")));
        }
        self.token = token;
        let info = token.and_then(|job| policy.job(job));
        if let Some(info) = info.filter(|info| info.state == (State::Frozen { by: FrozenBy::Policy })) {
            // Others may have got its slots while it was suspended; it is the next then.
            let (used, slots) = policy.slots();
            if used + info.cores as usize <= slots {
                return Err(Violation::new(
                    "the token holder runs",
                    format!("job {} is suspended", info.job),
                ));
            }
        }
        self.check_returns(now)
    }

    /// Throttled jobs' bounds are reachable while there is memory. Checked after all reports of a step, as suspensions are
    /// reported after throttles.
    fn check_bounds(&mut self) -> Result<(), Violation> {
        let bounds = std::mem::take(&mut self.bounds);
        let Some(usable) = self.usable else { return Ok(()) };
        let runs = |entry: &&Entry| entry.started.is_some() && !entry.frozen;
        let held: u64 = self.jobs.values().filter(runs).map(|entry| entry.held.0).sum();
        let too_wide = bounds.into_iter().find(|(_, allowance)| *allowance > usable.saturating_sub(held));
        match too_wide {
            Some((job, allowance)) => {
                let found = format!("job {job}: {allowance} bytes more, {held} held of {usable}");
                Err(Violation::new("a bound is reached before memory is short", found))
            }
            None => Ok(()),
        }
    }

    /// Whether all jobs stall, or seem to without a report, only the token holder could be frozen, and `new` has the
    /// highest rank of the exempt jobs.
    fn goes_on_anyway(&self, new: JobId, was: JobId, now: Instant) -> bool {
        let seems = || self.full.is_some_and(|since| now.since(since) >= FULL_FOR);
        let stalls = self.stalled.map_or_else(seems, |at| now.since(at) <= GREW_WITHIN);
        let stays = |entry: &Entry| {
            entry.request.no_suspend && entry.started.is_some() && !entry.frozen && !entry.ends
        };
        let worth = |entry: &Entry| entry.held.0 + entry.held.1 >= WORTH_BYTES;
        let others = self.jobs.iter().filter(|(_, entry)| stays(entry) && worth(entry));
        let foremost = others.min_by_key(|(job, e)| (u8::MAX - e.request.priority, e.started, **job));
        let holder = self.jobs.get(&was).is_some_and(|entry| !entry.request.no_suspend);
        stalls
            && holder
            // A job that resumes in the same step does so after that.
            && self.could_be_frozen(new).all(|(_, entry)| entry.thawed == Some(now))
            && foremost.is_some_and(|(job, _)| *job == new)
    }

    /// Records the cold bytes of each job: the job waits for none of them, and all are in swap.
    pub(crate) fn note_cold(&mut self, policy: &Policy, now: Instant) -> Result<(), Violation> {
        for (&job, entry) in &mut self.jobs {
            entry.cold = policy.job(job).map_or(0, |info| info.cold_bytes);
            let waits = entry.waited.iter().map(|&(_, waited)| waited).min();
            // A returning job waits for its hot pages, at most twice the time that they take alone.
            let takes =
                entry.thawed.zip(entry.returns_until).map_or(Duration::ZERO, |(at, until)| until.since(at));
            let returns = entry.thawed.is_some_and(|at| now.since(at) <= GREW_WITHIN + takes * 2);
            if entry.cold > entry.held.1
                || (entry.cold > 0
                    && !entry.frozen
                    && !returns
                    && waits.is_none_or(|least| least > WAITED_MILLI))
            {
                let found = format!("job {job}: {} of {} bytes, waits {waits:?}", entry.cold, entry.held.1);
                return Err(Violation::new("what a job waits for is not cold", found));
            }
        }
        Ok(())
    }

    /// Records the expected hot part of each class: no less than that of any of its jobs.
    pub(crate) fn note_parts(&mut self, policy: &Policy) -> Result<(), Violation> {
        for entry in self.jobs.values().filter(|entry| entry.cold > 0) {
            let Some(kind) = entry.request.kind else { continue };
            let all = entry.held.0 + entry.held.1;
            let part = ((all - entry.cold.min(all)) * 1000 / all.max(1)).max(PART_MIN_MILLI);
            let least = self.least_parts.entry(kind).or_insert(part);
            *least = (*least).min(part);
        }
        self.parts.clear();
        let kinds = self.jobs.values().filter_map(|entry| entry.request.kind);
        self.parts.extend(kinds.filter_map(|kind| Some((kind, u64::from(policy.part_of(kind)?)))));
        let least = |kind: &Kind| self.least_parts.get(kind).copied();
        match self.parts.iter().find(|&(kind, &said)| least(kind).is_none_or(|least| said < least)) {
            Some((kind, said)) => {
                let found = format!("{kind:?}: {said}, {:?}", least(kind));
                Err(Violation::new("a kind gets on with no less than its jobs did", found))
            }
            None => Ok(()),
        }
    }

    /// The bound on jobs that return from swap at the same time, beside the token holder, which never waits.
    fn check_returns(&self, now: Instant) -> Result<(), Violation> {
        let comes = |entry: &Entry| {
            let returns = entry.returns_until.is_some_and(|until| until > now);
            returns && !entry.frozen && !entry.ends
        };
        let all = self.jobs.iter().filter(|(job, entry)| Some(**job) != self.token && comes(entry));
        let coming: Vec<JobId> = all.map(|(&job, _)| job).collect();
        if coming.len() > self.settings.memory.swap_slot.max(1) as usize {
            return Err(Violation::new("no more return from swap at a time than may", format!("{coming:?}")));
        }
        Ok(())
    }
}
