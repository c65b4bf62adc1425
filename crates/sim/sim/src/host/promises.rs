//! Checks of the host after each step, beside the checks without a daemon.

use std::collections::BTreeSet;

use pinfold_policy::{Action, Class, Decision, Instant, JobId, JobInfo, State};

use super::Host;
use crate::checks::{Scene, Stalled};
use crate::swarm::Chaos;
use crate::violation::Violation;

/// The longest return of a lent share, beside the time of a start: the grace of a signalled job, plus the rest of a failed
/// action.
const OWED_MAX_US: u64 = 6_000_000;

impl Host {
    pub(super) fn check(&mut self) -> Result<(), Violation> {
        let Some(policy) = self.policy.as_ref().filter(|_| !self.adopting) else { return Ok(()) };
        let turn = usize::try_from(self.decisions).unwrap_or(0);
        let owed = Scene {
            policy,
            ledger: &self.ledger,
            world: &self.world,
            settings: &self.settings,
            cores: &self.cores,
            set: &self.set,
            alone: &self.alone,
            watch: &self.meddling.watch,
            unreported: &self.unreported,
            now: self.clock,
            turn,
        }
        .check()?;
        let clock = self.has_true_clock();
        self.left.check(policy, &self.settings, self.cores.len(), self.clock, clock)?;
        Stalled::check(policy, &self.settings, self.cores.len())?;
        self.owed_not_long(owed)
    }

    /// Whether the daemon's clock runs with the true time.
    pub(crate) fn has_true_clock(&self) -> bool {
        !self.options.chaos.contains(&Chaos::Clock)
    }

    /// A lent share returns to its project within the time of a start and a signal.
    fn owed_not_long(&mut self, owed: BTreeSet<JobId>) -> Result<(), Violation> {
        let now_us = self.world.now_us();
        self.owed_us.retain(|job, _| owed.contains(job));
        for job in owed {
            let since_us = *self.owed_us.entry(job).or_insert(now_us);
            let bound_us = OWED_MAX_US + self.options.start_us;
            // Set back, the daemon's clock keeps its value until it is later than before.
            if self.has_true_clock() && now_us - since_us > bound_us {
                let found = format!("job {job} waits for it since {} us", now_us - since_us);
                return Err(Violation::new("what is lent comes back in time", found));
            }
        }
        Ok(())
    }

    /// A job starts within its cpuset constraint.
    pub(super) fn inside_its_border(&self, decision: &Decision) -> Result<(), Violation> {
        let Action::Start { class, cpus, .. } = &decision.action else { return Ok(()) };
        let request = self.ledger.jobs.get(&decision.job).map(|entry| &entry.request);
        let beside = request.filter(|request| request.aside.is_none() && *class != Class::Exclusive);
        let within = beside.and_then(|request| request.wish.as_deref()).map(|wish| &wish.within);
        let kept = self.settings.schedule && self.settings.affinity;
        match within.filter(|within| kept && !within.is_empty()) {
            Some(within) if !cpus.is_subset(within) => {
                let found = format!("{decision:?}, which may be on {within}");
                Err(Violation::new("whoever starts is inside its border", found))
            }
            _ => Ok(()),
        }
    }

    /// The waiting of each primary for a core: more with a backfill job on it, by the policy's placement.
    pub(crate) fn stalled_milli(&mut self) -> Result<Vec<(JobId, u16)>, Violation> {
        let Some(policy) = &self.policy else { return Ok(Vec::new()) };
        let of = |class: Class| {
            let runs = move |info: &JobInfo| info.state == State::Running && info.class == Some(class);
            policy.jobs().filter(runs).collect::<Vec<JobInfo>>()
        };
        let (primaries, backfillers) = (of(Class::Primary), of(Class::Backfill));
        let beside = |one: &JobInfo| {
            let one = one.clone();
            backfillers.iter().filter(move |other| !other.cpus.is_disjoint(&one.cpus))
        };
        let noise = |job: JobId| {
            let turn = self.world.now_us() / 500_000;
            let noise = (job.0 * 7 + turn * 13) % (u64::from(self.options.noise_milli) + 1);
            u16::try_from(noise).unwrap_or(0)
        };
        let reading = |one: &JobInfo| {
            let stall = if beside(one).next().is_some() { self.options.stall_milli } else { 0 };
            (one.job, stall + noise(one.job))
        };
        let stalled: Vec<(JobId, u16)> = primaries.iter().map(reading).collect();
        // Jobs that may certainly be frozen: lower than the primary, without an exemption.
        let now = Instant(self.raw_clock()).max(self.clock);
        let true_clock = self.has_true_clock();
        let scheduled = self.settings.schedule && self.settings.affinity && self.settings.backfill;
        let held_back = scheduled && self.settings.hold_back;
        let could = |job: JobId| {
            let Some(one) = primaries.iter().find(|one| one.job == job) else { return false };
            // Beside a backfill job that shares evenly it waits as all jobs do.
            if beside(one).any(|other| self.ledger.jobs.get(&other.job).is_some_and(|entry| entry.even)) {
                return false;
            }
            let gives_way = |other: &&JobInfo| {
                let lower =
                    other.priority <= one.priority && (other.started, other.job) > (one.started, one.job);
                let entry = self.ledger.jobs.get(&other.job);
                lower
                    && entry.is_some_and(|entry| {
                        !entry.exempt(now) && !entry.may_be_aged(now) && entry.failed.is_empty()
                    })
            };
            let mine = |job: JobId| self.ledger.jobs.get(&job).is_some_and(|e| e.request.aside.is_none());
            true_clock
                && held_back
                && mine(job)
                && beside(one).any(|other| gives_way(&other) && mine(other.job))
        };
        let mut checked = std::mem::take(&mut self.stalled);
        let found = checked.told(&stalled, could, now, self.world.now_us());
        self.stalled = checked;
        found.map(|()| stalled)
    }
}
