//! Medians and what may be said about them from few runs.
//!
//! Intervals are order statistics: they assume nothing about the distribution, which on a shared machine is
//! skewed and has outliers. Owns no state. There is no mean and no standard deviation here, on purpose.

/// A median with the interval that covers it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Median {
    /// The middle value, in the unit of the values.
    pub(crate) value: f64,
    /// Lower end of the interval.
    pub(crate) low: f64,
    /// Upper end of the interval.
    pub(crate) high: f64,
    /// Probability that the interval covers the true median, 0-1. Below 0.95 with fewer than 6 values.
    pub(crate) confidence: f64,
    /// Number of values.
    pub(crate) count: usize,
}

/// The median of `values` with the narrowest symmetric order-statistic interval of at least 95 %, or, with
/// fewer than 6 values, the whole range and what it covers. `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<Median> {
    let sorted = sorted(values);
    let count = sorted.len();
    if count == 0 {
        return None;
    }
    let value = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
    let mut rank = 1;
    while rank < count.div_ceil(2) && coverage(count, rank + 1) >= 0.95 {
        rank += 1;
    }
    let confidence = coverage(count, rank);
    Some(Median { value, low: sorted[rank - 1], high: sorted[count - rank], confidence, count })
}

/// The value below which the share `share` (0-1) of `values` lies, by nearest rank. `None` without values.
pub(crate) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(values);
    let below =
        sorted.iter().enumerate().find(|(index, _)| (*index + 1) as f64 >= share * sorted.len() as f64);
    below.map(|(_, value)| *value)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Probability that the median lies between the `rank`-th smallest and the `rank`-th largest of `count` values:
/// 1 - 2 P(Binomial(count, 1/2) < rank).
fn coverage(count: usize, rank: usize) -> f64 {
    let mut term = 0.5_f64.powf(count as f64);
    let mut below = 0.0;
    for successes in 0..rank {
        below += term;
        term *= (count - successes) as f64 / (successes + 1) as f64;
    }
    (1.0 - 2.0 * below).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(count: usize, low_rank: usize, confidence: f64) {
        let values: Vec<f64> = (1..=count).map(|value| value as f64).collect();
        let median = median(&values).unwrap();
        assert!((median.low - low_rank as f64).abs() < 1e-9, "{count} values: {median:?}");
        assert!((median.high - (count + 1 - low_rank) as f64).abs() < 1e-9, "{count} values: {median:?}");
        assert!((median.confidence - confidence).abs() < 5e-5, "{count} values: {median:?}");
    }

    /// Ranks and coverages as the published tables for the median give them.
    #[test]
    fn intervals_match_the_tables() {
        check(5, 1, 0.9375);
        check(6, 1, 0.9688);
        check(8, 1, 0.9922);
        check(9, 2, 0.9609);
        check(10, 2, 0.9785);
        check(20, 6, 0.9586);
        check(30, 10, 0.9572);
    }

    #[test]
    fn edges() {
        assert_eq!(median(&[]), None);
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(median(&[3.0]).map(|m| (m.low, m.value, m.high)), Some((3.0, 3.0, 3.0)));
        assert_eq!(percentile(&[4.0, 1.0, 3.0, 2.0], 0.5), Some(2.0));
        assert_eq!(percentile(&[4.0, 1.0, 3.0, 2.0], 0.99), Some(4.0));
        assert_eq!(percentile(&[4.0, 1.0], 0.0), Some(1.0));
    }

    proptest! {
        #[test]
        fn interval_holds_the_median(values in prop::collection::vec(-1e6f64..1e6, 1..60)) {
            let median = median(&values).unwrap();
            prop_assert!(median.low <= median.value && median.value <= median.high);
            prop_assert!(values.len() < 6 || median.confidence >= 0.95);
        }
    }
}
