//! The scheduler's own time: told from outside with every event, so that a simulator can run it faster.

use std::time::Duration;

/// Microseconds since an origin that the caller chose (the daemon: the Unix epoch, by a clock that never
/// goes backwards). Only differences and order mean anything here.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Instant(pub u64);

impl Instant {
    /// The time that went by since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// This instant moved on by `by`; stays at the end of time rather than wrapping.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)))
    }
}
