//! How many backfillers there may be when primaries are protected (`cpu.protect`): as many as cores are idle, what
//! backfillers themselves use counted as idle, but for a part of each core that is kept free.
//!
//! One more after two seconds in which there was room for it, fewer at once. Without protection the slots alone say how
//! many: the idle class takes next to nothing from a primary, and a slot that waits for measured idleness is idle itself.

use std::collections::VecDeque;
use std::time::Duration;

use crate::policy::Policy;
use crate::{Instant, Reason, Sample};

/// Idleness is looked at over this long.
const OVER: Duration = Duration::from_secs(5);
/// There must have been room for one more for this long.
const EVIDENCE: Duration = Duration::from_secs(2);

/// How idle the host is.
#[derive(Debug, Default)]
pub(crate) struct Idleness {
    /// Cores that primaries and others leave, in thousandths, sample by sample.
    recent: VecDeque<(Instant, u64)>,
    /// Backfillers there may be now, by that.
    allowed: usize,
    /// Since when there is room for one more.
    more_since: Option<Instant>,
}

impl Idleness {
    fn push(&mut self, now: Instant, left_milli: u64) {
        self.recent.push_back((now, left_milli));
        while self.recent.front().is_some_and(|(at, _)| now.since(*at) > OVER) {
            self.recent.pop_front();
        }
    }

    /// The mean of what is left.
    fn left_milli(&self) -> Option<u64> {
        let count = self.recent.len() as u64;
        let sum: u64 = self.recent.iter().map(|(_, left)| left).sum();
        sum.checked_div(count)
    }
}

impl Policy {
    /// Takes idleness in.
    pub(crate) fn measure_idleness(&mut self, sample: &Sample) {
        let idle: u64 = sample.idle_milli.iter().copied().map(u64::from).sum();
        self.idleness.push(self.now, idle.saturating_add(u64::from(sample.backfill_milli)));
        self.protect();
    }

    /// Sets how many backfillers there may be.
    pub(crate) fn protect(&mut self) {
        let (now, room) = (self.now, self.backfillers_room());
        let idleness = &mut self.idleness;
        let before = idleness.allowed;
        if self.settings.protect_milli == 0 {
            (idleness.allowed, idleness.more_since) = (0, None);
        } else if room <= idleness.allowed {
            (idleness.allowed, idleness.more_since) = (room, None);
        } else {
            let since = *idleness.more_since.get_or_insert(now);
            if now.since(since) >= EVIDENCE {
                idleness.allowed += 1;
                idleness.more_since = Some(now);
            }
        }
        if idleness.allowed != before {
            self.clip();
        }
    }

    /// The backfillers that what is left has room for, of those that the slots allow.
    fn backfillers_room(&self) -> usize {
        let cores = self.cores.len();
        let kept = u64::from(self.settings.protect_milli) * cores as u64;
        let left = self.idleness.left_milli().unwrap_or(0).saturating_sub(kept);
        let most = self.settings.slots(cores).saturating_sub(cores);
        usize::try_from(left.saturating_add(500) / 1000).unwrap_or(usize::MAX).min(most)
    }

    /// Slots where primaries are protected.
    pub(crate) fn protected(&self, slots: usize) -> usize {
        if self.settings.protect_milli == 0 {
            return slots;
        }
        slots.min(self.cores.len() + self.idleness.allowed)
    }

    /// Why there are not more slots than these.
    pub(crate) fn why_fewer(&self, slots: usize) -> Reason {
        match self.explain_protection() {
            Some(_) => Reason::Protected { allowed: self.idleness.allowed },
            None => Reason::SlotsShrank { slots },
        }
    }

    /// What keeps backfillers from running, in words and figures; `None`: nothing does.
    pub(crate) fn explain_protection(&self) -> Option<(&'static str, String)> {
        let most = self.settings.slots(self.cores.len()).saturating_sub(self.cores.len());
        if self.settings.protect_milli == 0 || !self.settings.backfill || self.idleness.allowed >= most {
            return None;
        }
        let part = |milli: u64| format!("{}.{}", milli / 1000, milli % 1000 / 100);
        let left = self.idleness.left_milli().map_or_else(|| "not known how many".to_owned(), part);
        let kept = part(u64::from(self.settings.protect_milli) * self.cores.len() as u64);
        let text = format!(
            "{} of {most}: {left} cores are idle, {kept} of that are kept free (`cpu.protect`)",
            self.idleness.allowed
        );
        Some(("backfillers allowed", text))
    }
}
