//! The daemon's clock: Unix time in microseconds that never goes backwards, whatever is done to the system's; and the
//! system's own, for the times that users name.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// How long at most it takes until a time that users name is compared with the system's clock again, which may have been
/// set meanwhile, or have gone on while the host slept; in microseconds.
const LOOK_US: u64 = 60_000_000;

/// Counts from the system's time at its start, by the monotonic clock.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    start_us: u64,
}

impl Clock {
    /// A clock that starts now, and not before `not_before_us` (the last time that was stored).
    pub(crate) fn new(not_before_us: u64) -> Self {
        Self { start: Instant::now(), start_us: wall_us().max(not_before_us) }
    }

    /// Microseconds since the Unix epoch.
    pub(crate) fn now_us(&self) -> u64 {
        let passed = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.start_us.saturating_add(passed)
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
}
