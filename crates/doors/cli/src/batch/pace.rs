//! The time between the starts of a batch's lines, `--delay`.

use std::time::{Duration, Instant};

/// Lets a line start only a fixed time after the line before it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    delay: Duration,
    started: Option<Instant>,
}

impl Pace {
    pub(super) fn new(delay: Option<Duration>) -> Self {
        Self { delay: delay.unwrap_or_default(), started: None }
    }

    /// Whether lines are kept apart at all.
    pub(super) fn is_set(self) -> bool {
        !self.delay.is_zero()
    }

    pub(super) fn has_started(&mut self, at: Instant) {
        self.started = self.started.max(Some(at));
    }

    /// How long until the next line may be asked for; `None`: it may now.
    pub(super) fn left(self, now: Instant) -> Option<Duration> {
        let left = (self.started? + self.delay).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_apart() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let mut pace = Pace::new(Some(second * 2));
        assert_eq!(pace.left(began), None, "the first waits for none");
        pace.has_started(began + second);
        pace.has_started(began);
        assert_eq!(pace.left(began + second), Some(second * 2));
        assert_eq!(pace.left(began + second * 2), Some(second));
        assert_eq!(pace.left(began + second * 3), None);
        assert!(pace.is_set() && !Pace::new(None).is_set());
    }
}
