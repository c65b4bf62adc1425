//! Lines fitted near by: local linear regression over the logarithm of the input size.
//!
//! W. S. Cleveland (Robust locally weighted regression, JASA 74, 1979) and J. Fan (Design-adaptive nonparametric
//! regression, JASA 87, 1992). Weights fall off as (1 + u^2)^-2, so that there is always something to stand on; the
//! width shrinks with n^(-1/5). Only the 64 runs around a size count, which bounds the work.

use super::{Fit, Model};
use crate::history::{Run, Sorted};

/// Least runs.
const RUNS_MIN: usize = 6;
/// Runs on each side that count.
const SIDE: usize = 32;

/// Runs over their inputs, and the width within which they count most.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    sorted: Sorted,
    width: f64,
}

impl Local {
    /// The estimate at the logarithm of an input size, without one of the runs if it says so.
    pub(super) fn at(&self, ln_input: f64, left_out: Option<usize>) -> f64 {
        let middle = self.sorted.below(ln_input);
        let points = self.sorted.points();
        let around = &points[middle.saturating_sub(SIDE)..(middle + SIDE).min(points.len())];
        // Sums of weights times powers of the distance, and times the peak; a little to divide by to begin with.
        let (mut w0, mut w1, mut w2, mut y0, mut y1) = (1e-9, 0.0, 1e-6, 0.0, 0.0);
        for &(input, peak, _) in around.iter().filter(|point| Some(point.2) != left_out) {
            let u = (input - ln_input) / self.width;
            let weight = 1.0 / (1.0 + u * u).powi(2);
            w0 += weight;
            w1 += weight * u;
            w2 += weight * u * u;
            y0 += weight * peak;
            y1 += weight * u * peak;
        }
        let determinant = w0 * w2 - w1 * w1;
        if determinant < 1e-6 * w0 * w0 { y0 / w0 } else { (y0 * w2 - y1 * w1) / determinant }
    }
}

pub(super) fn fit(runs: &[Run]) -> Option<Fit> {
    if runs.len() < RUNS_MIN {
        return None;
    }
    let sorted = Sorted::by_input(runs, |_, run| run.peak)?;
    let n = runs.len() as f64;
    let inputs = || sorted.points().iter().map(|point| point.0);
    let mean = inputs().sum::<f64>() / n;
    let deviation = (inputs().map(|input| (input - mean).powi(2)).sum::<f64>() / n).sqrt();
    if deviation < 1e-9 {
        return None;
    }
    let local = Local { sorted, width: deviation * n.powf(-0.2) };
    let left_out = |(at, run): (usize, &Run)| Some(local.at(run.ask.ln_input()?, Some(at)));
    let left_out = runs.iter().enumerate().map(left_out).collect::<Option<Vec<_>>>()?;
    Some(Fit { model: Model::Local(local), left_out })
}
