//! Primaries that wait for a core beside backfill jobs, with `cpu.guard`: a backfill job gives way before long, and none
//! without need.

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_policy::{Decision, Instant, JobId, Policy, Reason, Settings, SlotReason};

use super::Violation;

/// A primary that waits half of the time or more,
const GROSS_MILLI: u16 = 500;
/// is helped within so long: three windows, begun before it waited, and some to spare.
const WITHIN_US: u64 = 30_000_000;
/// Too little waiting to freeze a job for.
const NOTHING_MILLI: u16 = 10;
/// The time for which a reading counts.
const COUNTS: Duration = Duration::from_secs(300);
/// The number of readings needed.
const READINGS: usize = 3;

/// The reported waiting of primaries.
#[derive(Debug, Default)]
pub(crate) struct Stalled {
    /// The moment since which each waits beside a job that could give way, in true time.
    gross_us: BTreeMap<JobId, u64>,
    /// The times at which each was reported to wait.
    heard: BTreeMap<JobId, Vec<Instant>>,
}

impl Stalled {
    /// Handles readings; `could` tells whether a job could give way to a primary.
    pub(crate) fn told(
        &mut self,
        stalled: &[(JobId, u16)],
        could: impl Fn(JobId) -> bool,
        now: Instant,
        now_us: u64,
    ) -> Result<(), Violation> {
        let gross = |job: &JobId| stalled.iter().any(|&(heard, milli)| heard == *job && milli >= GROSS_MILLI);
        self.gross_us.retain(|job, _| gross(job) && could(*job));
        for &(job, milli) in stalled {
            if milli >= GROSS_MILLI && could(job) {
                let since_us = *self.gross_us.entry(job).or_insert(now_us);
                if now_us - since_us > WITHIN_US {
                    let found = format!("job {job} waits for a core since {} us", now_us - since_us);
                    return Err(Violation::new(
                        "backfillers give way where a primary waits for a core",
                        found,
                    ));
                }
            }
            if milli >= NOTHING_MILLI {
                let heard = self.heard.entry(job).or_default();
                heard.retain(|at| now.since(*at) <= COUNTS);
                heard.push(now);
            }
        }
        Ok(())
    }

    /// Records a freeze.
    pub(crate) fn decided(&mut self, decision: &Decision, settings: &Settings) -> Result<(), Violation> {
        let Reason::Slot(SlotReason::Interferes { with, .. }) = decision.reason else { return Ok(()) };
        self.gross_us.clear();
        let heard = self.heard.get(&with).map_or(0, Vec::len);
        if !settings.hold_back || heard < READINGS {
            let found = format!("{decision:?}, {heard} readings, held back: {}", settings.hold_back);
            return Err(Violation::new("nobody gives way to a primary that does not wait", found));
        }
        Ok(())
    }

    /// The settings are others.
    pub(crate) fn configured(&mut self) {
        self.gross_us.clear();
    }

    /// Held-back jobs leave the number of core slots unchanged.
    pub(crate) fn check(policy: &Policy, settings: &Settings, cores: usize) -> Result<(), Violation> {
        let slots = policy.slots().1;
        if settings.hold_back && slots < settings.slots(cores).min(cores) {
            return Err(Violation::new("what is held back is backfillers' alone", format!("{slots} slots")));
        }
        Ok(())
    }
}
