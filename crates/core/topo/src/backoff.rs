//! Delays between retries that double up to a bound.
//!
//! The caller supplies clocks and random numbers.

use std::time::Duration;

/// An exponential backoff and the number of delays it has returned.
///
/// A constant gives the delay of the nth retry ([`Self::after`]); a variable counts the retries
/// ([`Self::pause`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    times: u32,
}

impl Backoff {
    /// A backoff with delays from `first` up to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, times: 0 }
    }

    /// The delay after `others` earlier retries.
    #[must_use]
    pub fn after(&self, others: u32) -> Duration {
        self.first.saturating_mul(1u32.checked_shl(others).unwrap_or(u32::MAX)).min(self.longest)
    }

    /// The next delay; counts the retry.
    pub fn pause(&mut self) -> Duration {
        let pause = self.after(self.times);
        self.times = self.times.saturating_add(1);
        pause
    }

    /// The next delay, drawn between half and all of its length, so that clients that failed together do not
    /// retry together. `chance` is any random number.
    pub fn pause_by_chance(&mut self, chance: u32) -> Duration {
        let half = self.pause() / 2;
        half + half.mul_f64(f64::from(chance) / f64::from(u32::MAX))
    }

    /// After a success: the next delay is `first` again.
    pub fn reset(&mut self) {
        self.times = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn pauses_double_up_to_the_bound_and_begin_anew() {
        let mut backoff = Backoff::new(MS(250), MS(1500));
        let pauses: Vec<Duration> = std::iter::repeat_with(|| backoff.pause()).take(5).collect();
        assert_eq!(pauses, [250, 500, 1000, 1500, 1500].map(MS));
        backoff.reset();
        assert_eq!(backoff.pause(), MS(250));
    }

    #[test]
    fn any_number_of_pauses_has_a_next_one() {
        let hours = Backoff::new(Duration::from_secs(3600), Duration::MAX);
        for others in [31, 32, 1000, u32::MAX] {
            assert!(hours.after(others) >= hours.after(30), "{others}");
        }
        assert_eq!(Backoff::new(MS(2), MS(1)).after(0), MS(1), "the bound is one for the first too");
        assert_eq!(Backoff::new(Duration::ZERO, MS(1)).after(u32::MAX), Duration::ZERO);
    }

    #[test]
    fn chance_takes_half_of_a_pause_at_most() {
        for (chance, pauses) in [(0, [500, 1000, 1500]), (u32::MAX, [1000, 2000, 3000])] {
            let mut backoff = Backoff::new(MS(1000), MS(3000));
            assert_eq!(pauses.map(|_| backoff.pause_by_chance(chance)), pauses.map(MS));
        }
    }
}
