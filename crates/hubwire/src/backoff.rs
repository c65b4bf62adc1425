//! How long to wait after a failure: twice as long each time, up to a bound, and by chance between half of it and all, so
//! that hosts that lost the hub together do not come back together.

use std::time::Duration;

/// The wait after the first failure.
const FIRST: Duration = Duration::from_secs(1);

/// The longest wait.
pub const LONGEST: Duration = Duration::from_secs(120);

/// Failures in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// It worked.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// It failed: how long to wait. `chance` is any number drawn at random.
    #[must_use]
    pub fn failed(&mut self, chance: u32) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let half = whole / 2;
        half + half.mul_f64(f64::from(chance) / f64::from(u32::MAX))
    }

    /// Failures since it worked last.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew() {
        let mut backoff = Backoff::default();
        let waits: Vec<f64> = (0..10).map(|_| backoff.failed(u32::MAX).as_secs_f64()).collect();
        assert_eq!(waits[..4], [1.0, 2.0, 4.0, 8.0]);
        assert_eq!(waits[9..], [LONGEST.as_secs_f64()]);
        backoff.succeeded();
        assert_eq!(backoff.failed(0), FIRST / 2);
    }
}
