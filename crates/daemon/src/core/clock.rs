//! The daemon's clock: Unix time in microseconds that never goes backwards, whatever is done to the system's.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Counts from the system's time at its start, by the monotonic clock.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    start_us: u64,
}

impl Clock {
    /// A clock that starts now, and not before `not_before_us` (the last time that was stored).
    pub(crate) fn new(not_before_us: u64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        Self { start: Instant::now(), start_us: now_us.max(not_before_us) }
    }

    /// Microseconds since the Unix epoch.
    pub(crate) fn now_us(&self) -> u64 {
        let passed = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.start_us.saturating_add(passed)
    }
}
