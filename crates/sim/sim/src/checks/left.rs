//! Backfill jobs beside protected primaries: no more than the idle cores have room for, and not fewer for long.

use std::collections::VecDeque;
use std::time::Duration;

use pinfold_policy::{Instant, Policy, Sample, Settings};

use super::Violation;

/// The time over which idle cores are averaged.
const OVER: Duration = Duration::from_secs(5);
/// The latest time for a further job: two seconds of evidence, and a sample.
const LATEST: Duration = Duration::from_millis(3100);

/// The reported idle cores.
#[derive(Debug, Default)]
pub(crate) struct Left {
    recent: VecDeque<(Instant, u64)>,
    /// The slots beyond the cores, whose number changes too, and the moment since which there is room for more.
    room: Option<(usize, Instant)>,
    heard: Option<Instant>,
}

impl Left {
    pub(crate) fn told(&mut self, sample: &Sample, now: Instant) {
        let idle: u64 = sample.idle_milli.iter().map(|&milli| u64::from(milli)).sum();
        self.recent.push_back((now, idle + u64::from(sample.backfill_milli)));
        self.recent.retain(|(at, _)| now.since(*at) <= OVER);
        self.heard = Some(now);
    }

    pub(crate) fn check(
        &mut self,
        policy: &Policy,
        settings: &Settings,
        cores: usize,
        now: Instant,
        clock_is_true: bool,
    ) -> Result<(), Violation> {
        let all = settings.slots(cores);
        if settings.protect_milli == 0 || !settings.backfill || all <= cores {
            self.room = None;
            return Ok(());
        }
        let sum: u64 = self.recent.iter().map(|(_, left)| left).sum();
        let mean = sum.checked_div(self.recent.len() as u64).unwrap_or(0);
        let kept = u64::from(settings.protect_milli) * cores as u64;
        let room = usize::try_from((mean.saturating_sub(kept) + 500) / 1000).unwrap_or(0);
        let (slots, most) = (policy.slots().1, all.min(cores + room));
        if !(cores..=most).contains(&slots) {
            let found = format!("{slots} slots on {cores} cores, {mean} thousandths left");
            return Err(Violation::new("no more backfillers run than what is left has room for", found));
        }
        if settings.hold_back {
            self.room = None; // slots may be nobody's for a while
            return Ok(());
        }
        let since = match self.room {
            Some((before, since)) if before == slots - cores && slots < most => since,
            _ => now,
        };
        self.room = (slots < most).then_some((slots - cores, since));
        // As of the last sample: no conclusion without a sample.
        let waited = self.heard.map_or(Duration::ZERO, |heard| heard.since(since));
        if clock_is_true && self.room.is_some() && waited > LATEST {
            let found = format!("{slots} slots of {most} for {} ms", waited.as_millis());
            return Err(Violation::new("backfillers run as soon as there is room for them", found));
        }
        Ok(())
    }
}
