//! How much primaries wait for a core, and when that is too much (`interference` acts on it).
//!
//! Each sample tells how much; it is looked at in windows of five seconds. Windows without any backfiller behind the
//! primary's cache say what is usual for it: a job with more threads than cores waits for itself. Too much is two deviations
//! more with backfillers there throughout, three times within five minutes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::api::{Instant, JobId};

/// Readings are put together over so long.
const WINDOW: Duration = Duration::from_secs(5);

/// A window over which nothing was heard for so long says nothing.
const WINDOW_MAX: Duration = Duration::from_secs(10);

/// A primary must have waited more than is usual for it in so many windows,
const HITS: usize = 3;
/// all within this time.
const HITS_WITHIN: Duration = Duration::from_secs(300);

/// So many windows without backfillers say what is usual.
const USUAL_AFTER: u64 = 3;

/// By how much more a primary must wait at least, in thousandths of the time.
const MORE_MILLI: u64 = 10;

/// What is too much as long as nobody knows what is usual.
const UNKNOWN_MILLI: u64 = 50;

/// What is known of primaries and what follows from it.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Interference {
    pub(super) watched: BTreeMap<JobId, Watched>,
    /// How many slots may be used,
    pub(super) cap: Option<usize>,
    /// until when,
    pub(super) until: Option<Instant>,
    /// and how often in a row before.
    pub(super) again: u32,
}

/// A primary.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Watched {
    /// When its window began.
    pub(super) since: Instant,
    /// Its readings in this window, in thousandths, and how many there are.
    pub(super) sum: u64,
    pub(super) count: u64,
    /// Whether backfillers were beside it at some reading, and whether at all.
    pub(super) some_beside: bool,
    pub(super) always_beside: bool,
    pub(super) usual: Usual,
    /// When it waited too much.
    pub(super) hits: VecDeque<Instant>,
}

/// What a primary waits without backfillers: the number of windows, their sum, and the sum of their squares.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Usual {
    count: u64,
    sum: u64,
    squares: u64,
}

impl Usual {
    fn add(&mut self, milli: u64) {
        self.count += 1;
        self.sum += milli;
        self.squares += milli * milli;
    }

    pub(super) fn mean(self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// Whether so much is more than the mean and two deviations, and enough more to matter.
    fn is_exceeded_by(self, milli: u64) -> bool {
        if self.count < USUAL_AFTER {
            return milli > UNKNOWN_MILLI;
        }
        // In n times the unit, so that nothing is divided.
        let above = (self.count * milli).saturating_sub(self.sum);
        let variance = (self.count * self.squares).saturating_sub(self.sum * self.sum);
        milli >= self.mean() + MORE_MILLI && u128::from(above) * u128::from(above) > 4 * u128::from(variance)
    }
}

impl Interference {
    /// Until when fewer slots may be used.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }
}

impl Watched {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            sum: 0,
            count: 0,
            some_beside: false,
            always_beside: true,
            usual: Usual::default(),
            hits: VecDeque::new(),
        }
    }

    /// Takes a reading in; says how much it waited in a window that was too much, if this closed one.
    pub(super) fn read(&mut self, now: Instant, milli: u64, beside: bool) -> Option<u64> {
        self.sum += milli;
        self.count += 1;
        self.some_beside |= beside;
        self.always_beside &= beside;
        let lasted = now.since(self.since);
        if lasted < WINDOW {
            return None;
        }
        let mean = self.sum / self.count;
        let (some, always) = (self.some_beside, self.always_beside);
        (self.since, self.sum, self.count) = (now, 0, 0);
        (self.some_beside, self.always_beside) = (false, true);
        if lasted > WINDOW_MAX {
            return None;
        }
        if !some {
            self.usual.add(mean);
        }
        if !always || !self.usual.is_exceeded_by(mean) {
            return None;
        }
        self.hits.push_back(now);
        while self.hits.front().is_some_and(|at| now.since(*at) > HITS_WITHIN) {
            self.hits.pop_front();
        }
        (self.hits.len() >= HITS).then_some(mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(windows: &[u64]) -> Usual {
        let mut usual = Usual::default();
        windows.iter().for_each(|&milli| usual.add(milli));
        usual
    }

    #[test]
    fn what_is_too_much_follows_from_what_is_usual() {
        // Nobody knows yet: a twentieth of the time.
        assert!(!usual(&[]).is_exceeded_by(50) && usual(&[0, 0]).is_exceeded_by(51));
        assert!(!usual(&[0, 0, 0]).is_exceeded_by(9) && usual(&[0, 0, 0]).is_exceeded_by(10));
        // Mean 100, deviation 8.2.
        let noisy = usual(&[90, 100, 110]);
        assert!(!noisy.is_exceeded_by(116) && noisy.is_exceeded_by(117));
        // One that waits for itself most of the time.
        assert!(!usual(&[700, 720, 680]).is_exceeded_by(720));
    }

    #[test]
    fn windows_with_and_without_backfillers_are_told_apart() {
        let mut one = Watched::new(Instant(0));
        let mut read = |seconds: u64, milli: u64, beside: bool| {
            (one.read(Instant(seconds * 1_000_000), milli, beside), one.usual.count, one.hits.len())
        };
        assert_eq!(read(1, 900, true), (None, 0, 0));
        // With and without: nothing is known of it.
        assert_eq!(read(5, 900, false), (None, 0, 0));
        assert_eq!(read(10, 2, false), (None, 1, 0));
        // Nothing was heard for too long.
        assert_eq!(read(30, 900, true), (None, 1, 0));
        assert_eq!(read(35, 300, true), (None, 1, 1));
        assert_eq!(read(40, 300, true), (None, 1, 2));
        assert_eq!(read(45, 40, true), (None, 1, 2));
        assert_eq!(read(50, 400, true), (Some(400), 1, 3));
        // Three within five minutes.
        assert_eq!(read(345, 0, true), (None, 1, 3));
        assert_eq!(read(350, 400, true), (None, 1, 2));
    }
}
