//! The daemon's clock: Unix time in microseconds that never goes backwards, whatever is done to the system's; and the
//! system's own, for the times that users name.
//!
//! Each daemon has a clock of its own, which begins with the system's. How far the next daemon's is from it, if the host
//! slept or the system's clock was set meanwhile, follows from a [`Moment`] of each on the same boot.

use std::time::{SystemTime, UNIX_EPOCH};

use pinfold_sys::own;

/// How long at most it takes until a time that users name is compared with the system's clock again, which may have been
/// set meanwhile, or have gone on while the host slept; in microseconds.
const LOOK_US: u64 = 60_000_000;

/// Two clocks that differ by less than this, in microseconds, are taken for the same one: between the two readings with
/// which a clock begins a busy host may let some time pass.
const STEP_LEAST_US: u64 = 1_000_000;

/// Counts from the system's time at its start, by the monotonic clock.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Moment,
}

/// One moment by a daemon's clock and by the monotonic one, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// By the daemon's clock.
    pub(crate) us: u64,
    /// By the monotonic clock, which counts from the host's boot and not while it sleeps.
    pub(crate) monotonic_us: u64,
}

impl Clock {
    /// A clock that starts now, with the system's time.
    pub(crate) fn new() -> Self {
        let monotonic_us = own::monotonic_us();
        Self { start: Moment { us: wall_us(), monotonic_us } }
    }

    /// Microseconds since the Unix epoch.
    pub(crate) fn now_us(&self) -> u64 {
        let passed_us = own::monotonic_us().saturating_sub(self.start.monotonic_us);
        self.start.us.saturating_add(passed_us)
    }

    /// The moment at which it started.
    pub(crate) fn start(&self) -> Moment {
        self.start
    }

    /// When the host booted, or as much later as it has slept since.
    pub(crate) fn booted_us(&self) -> u64 {
        self.start.us.saturating_sub(self.start.monotonic_us)
    }

    /// When, by this clock, the system's is to be asked whether it shows `wall_us`; over already if it does.
    pub(crate) fn look_us(&self, wall_us: u64) -> u64 {
        look_us(wall_us, self::wall_us(), self.now_us())
    }
}

/// The system's clock, in microseconds since the Unix epoch: what users mean by a time. It can be set, also backwards.
pub(crate) fn wall_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// By how much the clock of a daemon is ahead of that of an earlier one on the same boot, in microseconds: the host slept,
/// or the system's clock was set. Negative: it is behind.
pub(crate) fn step_us(before: Moment, now: Moment) -> i64 {
    // The monotonic clock of another boot.
    let Some(passed_us) = now.monotonic_us.checked_sub(before.monotonic_us) else { return 0 };
    let difference = i128::from(now.us) - i128::from(before.us) - i128::from(passed_us);
    match i64::try_from(difference) {
        Ok(step_us) if step_us.unsigned_abs() >= STEP_LEAST_US => step_us,
        _ => 0,
    }
}

/// See [`Clock::look_us`]; the system's clock shows `wall_us`, and this one `now_us`.
fn look_us(at_us: u64, wall_us: u64, now_us: u64) -> u64 {
    match at_us.saturating_sub(wall_us) {
        0 => 0,
        left => now_us.saturating_add(left.min(LOOK_US)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The daemon started before the system's clock was set, or the host slept: its own clock is a year behind, or ahead.
    #[test]
    fn a_time_is_one_of_the_systems_clock() {
        let (year, second) = (31_536_000_000_000, 1_000_000);
        for now in [10 * year, 12 * year] {
            assert_eq!(look_us(11 * year, 11 * year, now), 0, "it is that time");
            assert_eq!(look_us(11 * year, 12 * year, now), 0, "it is later");
            assert_eq!(look_us(11 * year + 2 * second, 11 * year, now), now + 2 * second);
            assert_eq!(look_us(11 * year, 10 * year, now), now + LOOK_US, "the clock may be set meanwhile");
        }
    }

    #[test]
    fn a_step_is_what_the_monotonic_clock_does_not_tell() {
        let (second, at) = (1_000_000, |us, monotonic_us| Moment { us, monotonic_us });
        let before = at(5_000 * second, 100 * second);
        for (now, want) in [
            (at(5_060 * second, 160 * second), 0),
            (at(5_060 * second + 999_999, 160 * second), 0),
            // It slept, or its clock was set, for an hour.
            (at(8_660 * second, 160 * second), 3_600_000_000),
            (at(1_460 * second, 160 * second), -3_600_000_000),
            // Another boot.
            (at(9_000 * second, 99 * second), 0),
        ] {
            assert_eq!(step_us(before, now), want, "{now:?}");
        }
    }
}
