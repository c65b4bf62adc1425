//! Medians, and the conclusions that few runs permit.
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

/// The median of `values` with the narrowest symmetric order-statistic interval of at least 95 %, or, with fewer than 6
/// values, the whole range and its confidence. `None` without values.
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

/// Mean and standard deviation of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// Their mean.
    pub(crate) mean: f64,
    /// Their standard deviation, of a sample.
    pub(crate) deviation: f64,
    /// The number of values.
    pub(crate) count: usize,
}

impl Spread {
    /// The statistics of these values; `None` for fewer than two.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count < 2 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        Some(Self { mean, deviation: (squares / (count - 1) as f64).sqrt(), count })
    }

    /// The interval that holds the true mean with 90 %, as two one-sided tests at 5 % require (Schuirmann 1987).
    pub(crate) fn mean_interval_90(&self) -> (f64, f64) {
        let half = student_95(self.count - 1) * self.deviation / (self.count as f64).sqrt();
        (self.mean - half, self.mean + half)
    }
}

/// The 95 % quantile of Student's distribution (Abramowitz and Stegun 26.7.5), below 5 degrees of freedom as tabulated.
fn student_95(freedom: usize) -> f64 {
    const FEW: [f64; 5] = [f64::INFINITY, 6.314, 2.920, 2.353, 2.132];
    const Z: f64 = 1.644_853_627;
    if let Some(known) = FEW.get(freedom) {
        return *known;
    }
    let n = freedom as f64;
    let g1 = (Z.powi(3) + Z) / 4.0;
    let g2 = (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / 96.0;
    let g3 = (3.0 * Z.powi(7) + 19.0 * Z.powi(5) + 17.0 * Z.powi(3) - 15.0 * Z) / 384.0;
    Z + g1 / n + g2 / n.powi(2) + g3 / n.powi(3)
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
    fn intervals_of_means_match_the_tables() {
        for (freedom, known) in [(1, 6.314), (4, 2.132), (5, 2.015), (9, 1.833), (29, 1.699), (99, 1.660)] {
            assert!((student_95(freedom) - known).abs() < 2e-3, "{freedom}: {}", student_95(freedom));
        }
        let spread = Spread::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((spread.mean, spread.count), (3.0, 5));
        assert!((spread.deviation - 2.5f64.sqrt()).abs() < 1e-12);
        let (low, high) = spread.mean_interval_90();
        assert!((high - 4.5075).abs() < 1e-3 && (low - 1.4925).abs() < 1e-3, "{low} {high}");
        assert_eq!(Spread::of(&[1.0]), None);
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
