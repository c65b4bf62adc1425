//! Which number in the commands of a class the peaks follow.
//!
//! A command has many numbers: sizes, seeds, ports. The number in the order most like that of the peaks is taken (C.
//! Spearman, The proof and measurement of association between two things, American Journal of Psychology 15, 1904), if
//! the likeness is more than chance explains: of n runs without any, the coefficient deviates by 1 / sqrt(n - 1) from
//! 0. Estimators over this number are then judged as all others are ([`crate::select`]).

use crate::history::Run;
use crate::types::NUMBERS;

/// Least runs.
const RUNS_MIN: usize = 6;
/// So many deviations are more than chance explains, some places being tried.
const DEVIATIONS: f64 = 2.5;

/// The place of the number that peaks follow best; `None`: they follow no number, or a run lacks it.
pub(crate) fn followed(runs: &[Run]) -> Option<usize> {
    if runs.len() < RUNS_MIN {
        return None;
    }
    let peaks: Vec<f64> = runs.iter().map(|run| run.peak).collect();
    let like = |place: usize| {
        let numbers = runs.iter().map(|run| run.ask.number(place)).collect::<Option<Vec<_>>>()?;
        Some((likeness(&numbers, &peaks)?, place))
    };
    let best = (0..NUMBERS).filter_map(like).max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
    let chance = DEVIATIONS / (runs.len() as f64 - 1.0).sqrt();
    (best.0 >= chance.min(0.999)).then_some(best.1)
}

/// How like the orders of two lists are, forwards or backwards: from 0 to 1. `None`: all values of a list are equal.
fn likeness(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    let middle = (a.len() as f64 - 1.0) / 2.0;
    let product =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum() };
    let spread = product(&a, &a) * product(&b, &b);
    (spread > 0.0).then(|| (product(&a, &b) / spread.sqrt()).abs())
}

/// The place of each value in ascending order, from 0; equal values share the mean of their places.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for equal in order.chunk_by(|&a, &b| values[a].total_cmp(&values[b]).is_eq()) {
        let rank = from as f64 + (equal.len() as f64 - 1.0) / 2.0;
        equal.iter().for_each(|&at| ranks[at] = rank);
        from += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Features, Row};

    fn runs(of: impl Fn(u32) -> ([Option<f64>; NUMBERS], u64)) -> Vec<Run> {
        let run = |n| {
            let (numbers, peak_bytes) = of(n);
            let features = Features { numbers, ..Features::default() };
            Run::of(&Row { features, peak_bytes, wall_s: 1.0 })
        };
        (1..=20).map(run).collect()
    }

    #[test]
    fn the_number_that_peaks_follow_is_found() {
        let seed = |n: u32| Some(f64::from(n * 7_919 % 101));
        let both = |n: u32| ([seed(n), Some(f64::from(n % 7)), None, None], 1_000 * u64::from(n % 7 + 1));
        assert_eq!(followed(&runs(both)), Some(1));
        let falling = |n: u32| ([Some(1.0 / f64::from(n)), seed(n), None, None], u64::from(n));
        assert_eq!(followed(&runs(falling)), Some(0));
        assert_eq!(followed(&runs(both)[..5]), None, "few runs");
    }

    #[test]
    fn chance_and_numbers_that_are_not_always_there_count_for_nothing() {
        let seed = |n: u32| ([Some(f64::from(n * 7_919 % 101)), None, None, None], u64::from(n));
        assert_eq!(followed(&runs(seed)), None);
        assert_eq!(followed(&runs(|n| ([Some(5.0), None, None, None], u64::from(n)))), None);
        let gap = |n: u32| ([(n != 9).then_some(f64::from(n)), Some(f64::NAN), None, None], u64::from(n));
        assert_eq!(followed(&runs(gap)), None);
        assert_eq!(followed(&[]), None);
    }
}
