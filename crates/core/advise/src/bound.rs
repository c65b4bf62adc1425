//! The middle of some like values, and a bound that the next of them stays below with a stated risk: for lengths of
//! runs and peaks without features.
//!
//! Split conformal prediction (Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005): of n values
//! the ceil((n + 1)(1 - risk))-th smallest is exceeded by the next with probability `risk` at most, whatever the
//! distribution, as long as all are exchangeable. Where n is too small for that, the largest and a share of 1 / n more.

/// The bound for the value that comes after `values`, with `risk` in (0, 1) of being exceeded. Negative and
/// infinite values are left out; `None`: no value is left.
#[must_use]
pub fn bound(values: &[f64], risk: f64) -> Option<f64> {
    let mut sorted: Vec<f64> =
        values.iter().copied().filter(|value| value.is_finite() && *value >= 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    let (largest, n) = (*sorted.last()?, sorted.len());
    Some(sorted.get(rank(n, risk) - 1).copied().unwrap_or(largest * (1.0 + 1.0 / n as f64)))
}

/// Which of `n` values in ascending order, from 1, the next value exceeds with `risk` at most; `n` + 1: none of them.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and n + 1; casts of floats saturate"
)]
pub(crate) fn rank(n: usize, risk: f64) -> usize {
    let rank = ((n as f64 + 1.0) * (1.0 - risk.clamp(0.0, 1.0))).ceil() as usize;
    rank.max(1)
}

/// The middle value; of an even number the larger of the two. `None`: no values.
#[must_use]
pub fn middle(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[f64], risk: f64, want: Option<f64>) {
        assert_eq!(bound(values, risk), want, "{values:?} at {risk}");
    }

    #[test]
    fn the_bound_is_a_value_seen_or_beyond_all_of_them() {
        check(&[], 0.1, None);
        check(&[f64::NAN, -1.0, f64::INFINITY], 0.1, None);
        check(&[2.0], 0.1, Some(4.0));
        check(&[4.0, 1.0, 3.0, 2.0], 0.4, Some(3.0));
        check(&[4.0, 1.0, 3.0, 2.0], 0.01, Some(5.0));
        let many: Vec<f64> = (1..=999).map(f64::from).collect();
        check(&many, 0.01, Some(990.0));
        check(&many, 1.0, Some(1.0));
        check(&many, f64::NAN, Some(1.0));
    }

    #[test]
    fn the_middle_is_the_larger_of_two() {
        for (values, want) in
            [(&[][..], None), (&[7], Some(7)), (&[9, 7], Some(9)), (&[7, 1_000, 9], Some(9))]
        {
            assert_eq!(middle(values), want, "{values:?}");
        }
    }
}
