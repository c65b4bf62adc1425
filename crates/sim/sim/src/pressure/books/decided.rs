//! Invariants of a single decision, by the books.

use std::time::Duration;

use pinfold_policy::{
    Action, AgainReason, Decision, Instant, JobId, MemoryReason, REQUEUES_MAX, Reason, SLOW_FOR,
};

use super::{Books, Entry, GREW_WITHIN, Slowed, WORTH_BYTES};
use crate::violation::Violation;

/// The size of a reclaim probe.
const PROBE_BYTES: u64 = 64 << 20;
/// The window over which page-outs are summed.
const PAGE_OUT_WINDOW: Duration = Duration::from_secs(2);

impl Books {
    /// Records a decision, and returns its broken promise.
    pub fn decided(&mut self, decision: &Decision, now: Instant) -> Result<(), Violation> {
        let Decision { job, action, reason } = decision;
        let wrong = |rule| Err(Violation::new(rule, format!("job {job}: {action:?}, {reason}")));
        let Some(entry) = self.jobs.get(job) else { return wrong("decisions are about jobs there are") };
        let started = entry.started.is_some();
        match action {
            Action::Start { .. } if started => return wrong("a job starts once"),
            Action::Start { .. } => {
                let against = match reason {
                    Reason::Memory(MemoryReason::Overcommitted { .. }) => self.against_early(*job, now),
                    _ => self.against_admission(*job, now),
                };
                if let Some(found) = against {
                    return Err(Violation::new("nothing starts that memory does not suffice for", found));
                }
                self.change(*job, |entry| entry.started = Some(now));
            }
            Action::Drop { .. } => return wrong("nothing is dropped here"),
            _ if !started => return wrong("nothing is asked of a job that waits"),
            _ if entry.ends => return wrong("nothing is asked of a job that is being ended"),
            Action::Checkpoint | Action::Requeue => self.last_steps(decision, now)?,
            Action::Freeze => {
                let again = matches!(reason, Reason::Again(AgainReason::Retry { .. })) && entry.by_user;
                let asked = *reason == Reason::ASKED || again;
                if !asked && entry.request.no_suspend {
                    return wrong("who may not be frozen is not");
                }
                let for_slots = super::is_for_slots(reason);
                if let (Some(found), Reason::Memory(MemoryReason::Short { .. })) =
                    (self.too_soon(*job, now), reason)
                {
                    return Err(Violation::new("no job is suspended that a bound holds", found));
                }
                // A job that got the token while suspended stays frozen until it has its slots, and a failed freeze is
                // retried.
                let stands = entry.frozen && matches!(reason, Reason::Again(AgainReason::Retry { .. }));
                if !asked && !for_slots && !stands && self.token == Some(*job) {
                    // Unless the token passes to another job in this step, as reported at its end.
                    self.holder_frozen = Some(*job);
                }
                self.change(*job, |entry| entry.stands_still(reason, asked, now));
            }
            Action::Thaw => self.thawed(*job, now),
            Action::PageOut { bytes } => self.may_page_out(decision, *bytes, now)?,
            Action::Slow { allowance: Some(_) } => {
                if self.token == Some(*job) || entry.frozen {
                    return wrong("only who runs and does not go first is slowed");
                }
                if self.swap_free < WORTH_BYTES {
                    return wrong("nobody is slowed whose pages have nowhere to go");
                }
                self.slowed(decision, now);
            }
            Action::Slow { allowance: None } => self.change(*job, |entry| {
                if let Some(slowed) = &mut entry.slowed {
                    slowed.let_go = Some(now);
                }
            }),
            Action::Protect { .. } => {}
            Action::Near { .. } => return wrong("nobody is bound to nodes where none was read"),
            Action::Bind { .. } | Action::Weigh { .. } | Action::Signal { .. } => {}
        }
        Ok(())
    }

    /// Checks that the pages of a job may be moved out, and counts them.
    fn may_page_out(&mut self, decision: &Decision, bytes: u64, now: Instant) -> Result<(), Violation> {
        let Decision { job, action, reason } = decision;
        let Some(entry) = self.jobs.get(job) else { return Ok(()) };
        if self.token == Some(*job) {
            // Unless the token passes to another job in this step, as reported at its end.
            self.holder_paged = Some(*job);
        }
        let probed = matches!(reason, Reason::Memory(MemoryReason::Probed { .. })) && bytes <= PROBE_BYTES;
        if !entry.frozen && (entry.request.no_suspend || (entry.cold == 0 && !probed)) {
            let rule = "only what a suspended job holds, or a running one does not refault, is paged out";
            return Err(Violation::new(rule, format!("job {job}: {action:?}, {reason}")));
        }
        self.paged_out(bytes, now)
    }

    fn slowed(&mut self, decision: &Decision, now: Instant) {
        if let (Action::Slow { allowance: Some(allowance) }, Some(usable)) = (&decision.action, self.usable) {
            self.bounds.push((decision.job, *allowance));
            self.change(decision.job, |entry| {
                let bound = entry.held.0 + allowance;
                entry.slowed = Some(Slowed { since: now, bound, usable, least: usable, let_go: None });
            });
        }
    }

    /// Records a request for a checkpoint, or a kill for a requeue.
    fn last_steps(&mut self, decision: &Decision, now: Instant) -> Result<(), Violation> {
        let Decision { job, action, reason } = decision;
        let wrong = |rule| Err(Violation::new(rule, format!("job {job}: {action:?}, {reason}")));
        let Some(entry) = self.jobs.get(job) else { return Ok(()) };
        let writes = *action == Action::Checkpoint;
        if !writes && *reason == Reason::Memory(MemoryReason::Checkpointed) {
            if !entry.writes {
                return wrong("only who wrote down what it had done is ended for that");
            }
            self.change(*job, |entry| (entry.ends, entry.writes) = (true, false));
            return Ok(());
        }
        if writes && (entry.request.checkpoint.is_none() || entry.writes) {
            return wrong("only who can writes down what it has done, and once at a time");
        }
        if !writes && (!entry.request.requeue || entry.ended >= REQUEUES_MAX) {
            return wrong("only who allowed it is ended to begin anew, and not for ever");
        }
        if self.token == Some(*job) {
            return wrong("who goes first is not ended, nor asked to write");
        }
        if self.swap_free >= WORTH_BYTES {
            return wrong("nobody is ended, nor writes, while swap takes more");
        }
        if let Some((other, _)) = self.could_be_frozen(*job).next() {
            let found = format!("job {job}, and job {other} runs");
            return Err(Violation::new("nobody is ended, nor writes, while another can be frozen", found));
        }
        if writes {
            let stood = (entry.by_user, entry.for_slots);
            self.thawed(*job, now);
            self.change(*job, |entry| entry.wrote_from = stood);
        }
        self.change(*job, |entry| {
            (entry.ends, entry.writes, entry.ended) = (!writes, writes, entry.ended + u32::from(!writes));
        });
        Ok(())
    }

    /// Running jobs beside the token holder and this job that hold memory and may be frozen.
    pub(super) fn could_be_frozen(&self, but: JobId) -> impl Iterator<Item = (JobId, &Entry)> {
        let runs = |job: &JobId, entry: &Entry| {
            let held = entry.started.is_some() && entry.held.0 >= WORTH_BYTES;
            held && !entry.frozen
                && !entry.ends
                && !entry.writes
                && !entry.request.no_suspend
                // The job that gets the token in this very step is not to be frozen.
                && self.token.is_some_and(|token| token != *job)
        };
        self.jobs
            .iter()
            .filter(move |(job, entry)| **job != but && runs(job, entry))
            .map(|(&job, entry)| (job, entry))
    }

    /// Page-outs go at a bounded rate.
    fn paged_out(&mut self, bytes: u64, now: Instant) -> Result<(), Violation> {
        let takes_us = |bytes: u64| bytes * 1_000_000 / self.rate();
        let (one_us, worth_us) = (takes_us(bytes), takes_us(WORTH_BYTES));
        self.paged.push_back((now, one_us));
        while self.paged.front().is_some_and(|(at, _)| now.since(*at) > PAGE_OUT_WINDOW) {
            self.paged.pop_front();
        }
        let sum_us: u64 = self.paged.iter().map(|(_, one_us)| one_us).sum();
        // Transfers from before the window, and orders for after it.
        let most_us = u64::try_from(PAGE_OUT_WINDOW.as_micros()).unwrap_or(u64::MAX) + 2 * worth_us;
        if sum_us > most_us {
            let found = format!("{sum_us} us of the device's time in 2 s, at {} MiB/s", self.rate() >> 20);
            return Err(Violation::new("no more is paged out than the device takes", found));
        }
        Ok(())
    }

    /// Why a throttled job is frozen for memory too soon: its bound holds it, and no other job or cause could have made
    /// memory short since. Only if no job's need is known, so that growth is all that counts.
    fn too_soon(&self, job: JobId, now: Instant) -> Option<String> {
        let entry = self.jobs.get(&job)?;
        // A job that is suspended instead is unthrottled in the same step.
        let slowed = entry.slowed.filter(|slowed| slowed.let_go.is_none_or(|at| at == now))?;
        let lately = |at: Option<Instant>| at.is_some_and(|at| now.since(at) <= GREW_WITHIN);
        let holds = entry.held.0 <= slowed.bound.saturating_add(WORTH_BYTES) && self.swap_free >= WORTH_BYTES;
        let others = || self.jobs.iter().filter(|(other, entry)| **other != job && entry.started.is_some());
        let known = |entry: &Entry| entry.request.memory.is_some() || entry.request.kind.is_some();
        let came = |entry: &Entry| entry.started.max(entry.thawed).is_some_and(|at| at >= slowed.since);
        let grew = others().any(|(_, entry)| known(entry) || lately(entry.rose) || came(entry));
        // Suspended jobs' memory that swap cannot take is lost too.
        let standing: u64 = others().filter(|(_, entry)| entry.frozen).map(|(_, entry)| entry.held.0).sum();
        let other_cause = known(entry) || grew || lately(self.stalled) || slowed.least < slowed.usable;
        if !holds || other_cause || standing > self.swap_free || now.since(slowed.since) >= SLOW_FOR {
            return None;
        }
        Some(format!("job {job}, at {} of {} bytes", entry.held.0, slowed.bound))
    }
}
