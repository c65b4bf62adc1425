//! The allocation after an attempt with too little memory.
//!
//! The second attempt goes a little beyond the largest peak that was seen, and at most to twice the first; later ones
//! double, and reach the request at once (as sites do: back to the request). With runs in the order of time a
//! request counts from the second failure on; shuffled, doubling alone is left, as in the published comparisons.

use crate::types::{GB, Order};

/// How much larger than the largest peak a second attempt is at most,
const BEYOND_LARGEST: f64 = 1.05;
/// unless the first was about as large: it is larger than that by this factor at least.
const BEYOND_FIRST: f64 = 1.3;

/// The rule for a job.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    largest_bytes: f64,
    request_bytes: Option<f64>,
}

impl Retry {
    pub(crate) fn new(largest_gb: f64, request_bytes: Option<u64>, order: Order) -> Self {
        let request_bytes = request_bytes.map(|bytes| bytes as f64).filter(|_| order == Order::Time);
        Self { largest_bytes: largest_gb * GB, request_bytes }
    }

    /// The next attempt after `failed` attempts, at least 1, the last of them with `last_bytes`. Always more than
    /// that.
    #[must_use]
    pub fn next(&self, last_bytes: u64, failed: u32) -> u64 {
        let last = last_bytes as f64;
        let double = last * 2.0;
        let next = match self.request_bytes {
            Some(request) if failed > 1 || last >= request => double.max(request),
            Some(request) => beyond_largest(last, self.largest_bytes).min(request),
            None if failed > 1 || self.largest_bytes <= 0.0 => double,
            None => beyond_largest(last, self.largest_bytes),
        };
        whole(next).max(last_bytes.saturating_add(1))
    }
}

/// The attempt after the first of size `first`: a little more than the largest peak, since most that fail need
/// no more than that.
fn beyond_largest(first: f64, largest: f64) -> f64 {
    (first * 2.0).min((largest * BEYOND_LARGEST).max(first * BEYOND_FIRST))
}

/// Bytes, rounded up; beyond `u64` the largest number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
pub(crate) fn whole(bytes: f64) -> u64 {
    bytes.ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(largest_gb: f64, request: Option<u64>, order: Order, last: u64, failed: u32, next: u64) {
        assert_eq!(Retry::new(largest_gb, request, order).next(last, failed), next);
    }

    #[test]
    fn attempts_grow_until_they_suffice() {
        let gb = |gb: u64| gb * 1_000_000_000;
        check(0.0, None, Order::Exchangeable, gb(4), 1, gb(8));
        check(5.0, None, Order::Exchangeable, gb(4), 1, 5_250_000_000);
        check(5.0, None, Order::Exchangeable, gb(5), 1, 6_500_000_000);
        check(5.0, None, Order::Exchangeable, gb(6), 2, gb(12));
        check(90.0, None, Order::Exchangeable, gb(4), 1, gb(8));
        check(5.0, Some(gb(64)), Order::Exchangeable, gb(4), 1, 5_250_000_000);
        check(5.0, Some(gb(64)), Order::Time, gb(4), 1, 5_250_000_000);
        check(5.0, Some(gb(64)), Order::Time, gb(6), 2, gb(64));
        check(5.0, Some(gb(64)), Order::Time, gb(64), 3, gb(128));
        check(0.0, None, Order::Time, 0, 1, 1);
        check(0.0, None, Order::Time, u64::MAX, 1, u64::MAX);
    }
}
