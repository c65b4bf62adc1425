//! Lines fitted near by: local linear regression over the logarithm of the input size.
//!
//! W. S. Cleveland (Robust locally weighted regression, JASA 74, 1979) and J. Fan (Design-adaptive nonparametric
//! regression, JASA 87, 1992). Weights fall off as (1 + u^2)^-2, so that there is always something to stand on; the
//! width shrinks with n^(-1/5). Only the 64 runs around a size count, which bounds the work.

use super::{Fit, Model};
use crate::history::{Lot, Sorted};

/// Least runs.
const RUNS_MIN: usize = 6;
/// Runs on each side that count.
const SIDE: usize = 32;

/// Runs over their inputs, and the width within which they count most.
#[derive(Debug)]
pub(crate) struct Local {
    sorted: Sorted,
    width: f64,
}

impl Local {
    /// The estimate at the logarithm of an input size.
    pub(super) fn at(&self, ln_input: f64) -> f64 {
        self.without(ln_input, usize::MAX)
    }

    /// The estimate without the point at a place.
    fn without(&self, ln_input: f64, left_out: usize) -> f64 {
        let middle = self.sorted.below(ln_input);
        let points = self.sorted.points();
        let (low, high) = (middle.saturating_sub(SIDE), (middle + SIDE).min(points.len()));
        let (before, after) = match left_out {
            place if (low..high).contains(&place) => (&points[low..place], &points[place + 1..high]),
            _ => (&points[low..high], &points[high..high]),
        };
        // Sums of weights times powers of the distance, and times the peak; a little to divide by to begin with.
        let (mut w0, mut w1, mut w2, mut y0, mut y1) = (1e-9, 0.0, 1e-6, 0.0, 0.0);
        let near = 1.0 / self.width;
        for &(input, peak, _) in before.iter().chain(after) {
            let u = (input - ln_input) * near;
            let root = 1.0 + u * u;
            let weight = 1.0 / (root * root);
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

pub(super) fn fit(lot: &Lot<'_>) -> Option<Fit> {
    if lot.runs.len() < RUNS_MIN {
        return None;
    }
    let sorted = lot.by_input(|_, run| run.peak)?;
    let n = lot.runs.len() as f64;
    let inputs = || sorted.points().iter().map(|point| point.0);
    let mean = inputs().sum::<f64>() / n;
    let deviation = (inputs().map(|input| (input - mean).powi(2)).sum::<f64>() / n).sqrt();
    if deviation < 1e-9 {
        return None;
    }
    let local = Local { sorted, width: deviation * n.powf(-0.2) };
    let mut left_out = vec![0.0; lot.runs.len()];
    for (place, &(input, _, at)) in local.sorted.points().iter().enumerate() {
        left_out[at] = local.without(input, place);
    }
    Some(Fit::new(Model::Local(local), left_out))
}
