//! How idle the host is.

use std::collections::VecDeque;
use std::time::Duration;

use crate::api::Instant;

/// Idleness is looked at over this long.
const OVER: Duration = Duration::from_secs(5);

/// How idle the host is.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Idleness {
    /// Cores that primaries and others leave, in thousandths, sample by sample.
    pub(super) recent: VecDeque<(Instant, u64)>,
    /// Backfillers there may be now, by that.
    pub(super) allowed: usize,
    /// Since when there is room for one more.
    pub(super) more_since: Option<Instant>,
}

impl Idleness {
    pub(super) fn push(&mut self, now: Instant, left_milli: u64) {
        self.recent.push_back((now, left_milli));
        while self.recent.front().is_some_and(|(at, _)| now.since(*at) > OVER) {
            self.recent.pop_front();
        }
    }

    /// The mean of what is left.
    pub(super) fn left_milli(&self) -> Option<u64> {
        let count = self.recent.len() as u64;
        let sum: u64 = self.recent.iter().map(|(_, left)| left).sum();
        sum.checked_div(count)
    }
}
