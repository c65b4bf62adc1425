//! The runs of one class, in the units in which they are computed with: GB and hours.

use crate::types::{Features, GB, Row};

/// A run that ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// What was known before.
    pub(crate) ask: Ask,
    /// The peak, in GB; above 0.
    pub(crate) peak: f64,
    /// How long it ran, in hours.
    pub(crate) hours: f64,
}

/// What an estimator goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// The size of the inputs, in bytes.
    pub(crate) input: Option<f64>,
    /// The request, in GB.
    pub(crate) request: Option<f64>,
}

impl Ask {
    pub(crate) fn of(features: &Features) -> Self {
        let input = features.input_bytes.filter(|input| input.is_finite() && *input >= 0.0);
        let request = features.request_bytes.filter(|&bytes| bytes > 0).map(|bytes| bytes as f64 / GB);
        Self { input, request }
    }

    /// The logarithm of the input size; sizes below a byte count as one.
    pub(crate) fn ln_input(&self) -> Option<f64> {
        self.input.map(|input| input.max(1.0).ln())
    }
}

impl Run {
    pub(crate) fn of(row: &Row) -> Self {
        Self { ask: Ask::of(&row.features), peak: row.peak_bytes as f64 / GB, hours: row.wall_s / 3600.0 }
    }
}

/// The middle one of the peaks; 0 of none.
pub(crate) fn median_peak(runs: &[Run]) -> f64 {
    let mut peaks: Vec<f64> = runs.iter().map(|run| run.peak).collect();
    peaks.sort_by(f64::total_cmp);
    peaks.get(peaks.len() / 2).copied().unwrap_or(0.0)
}

/// The largest peak; 0 of none.
pub(crate) fn largest_peak(runs: &[Run]) -> f64 {
    runs.iter().map(|run| run.peak).fold(0.0, f64::max)
}

/// The largest input, in bytes; 0 of none.
pub(crate) fn largest_input(runs: &[Run]) -> f64 {
    runs.iter().filter_map(|run| run.ask.input).fold(0.0, f64::max)
}

/// Points in ascending order of their first number, each with its place among the runs.
#[derive(Debug, Clone)]
pub(crate) struct Sorted(Vec<(f64, f64, usize)>);

impl Sorted {
    /// `value` of each run over the logarithm of its input. `None` if the input of one is not known.
    pub(crate) fn by_input(runs: &[Run], value: impl Fn(usize, &Run) -> f64) -> Option<Self> {
        let point = |(at, run): (usize, &Run)| Some((run.ask.ln_input()?, value(at, run), at));
        let mut points = runs.iter().enumerate().map(point).collect::<Option<Vec<_>>>()?;
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(Self(points))
    }

    pub(crate) fn points(&self) -> &[(f64, f64, usize)] {
        &self.0
    }

    /// How many points lie below `x`.
    pub(crate) fn below(&self, x: f64) -> usize {
        self.0.partition_point(|point| point.0 < x)
    }

    /// The mean of the `count` nearest to `x`, the run `left_out` not among them; `None` if there are none.
    pub(crate) fn nearest_mean(&self, x: f64, count: usize, left_out: Option<usize>) -> Option<f64> {
        let mut high = self.below(x);
        let mut low = high;
        let (mut found, mut sum) = (0usize, 0.0);
        while found < count {
            let under = low.checked_sub(1).map(|at| (x - self.0[at].0, at));
            let over = self.0.get(high).map(|point| (point.0 - x, high));
            let at = match (under, over) {
                (Some((left, at)), Some((right, _))) if left <= right => at,
                (_, Some((_, at))) | (Some((_, at)), None) => at,
                (None, None) => break,
            };
            if at < low {
                low = at
            } else {
                high = at + 1
            }
            if Some(self.0[at].2) != left_out {
                sum += self.0[at].1;
                found += 1;
            }
        }
        (found > 0).then(|| sum / found as f64)
    }
}
