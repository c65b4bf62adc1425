//! Pauses between tries: twice as long each time, up to a bound.

use std::time::Duration;

/// See the module's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backoff {
    next: Duration,
    most: Duration,
}

impl Backoff {
    /// Pauses that begin with `first` and are never longer than `most`.
    pub(crate) const fn new(first: Duration, most: Duration) -> Self {
        Self { next: first, most }
    }

    /// The next pause.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next.min(self.most);
        self.next = pause.saturating_mul(2);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_bound() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(250), ms(1500));
        let pauses: Vec<Duration> = std::iter::repeat_with(|| backoff.pause()).take(5).collect();
        assert_eq!(pauses, [ms(250), ms(500), ms(1000), ms(1500), ms(1500)]);
    }
}
