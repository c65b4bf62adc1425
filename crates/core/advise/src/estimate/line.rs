//! A line by least squares over the input size: that of C. Witt and others (Feedback-based resource allocation for
//! batch scheduling of scientific workflows, HPCS 2019). Left-out estimates come in closed form from the leverage of
//! each point (D. M. Allen's PRESS, Technometrics 16, 1974).

use super::{Fit, Model};
use crate::history::Run;

/// Least runs.
const RUNS_MIN: usize = 4;

/// peak = offset + slope x input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    offset: f64,
    slope: f64,
}

impl Line {
    pub(super) fn at(self, input: f64) -> f64 {
        self.offset + self.slope * input
    }
}

pub(super) fn fit(runs: &[Run]) -> Option<Fit> {
    if runs.len() < RUNS_MIN {
        return None;
    }
    let points = runs.iter().map(|run| Some((run.ask.input?, run.peak))).collect::<Option<Vec<_>>>()?;
    let n = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / n;
    let spread = points.iter().map(|point| (point.0 - mean_x).powi(2)).sum::<f64>();
    if !spread.is_finite() || spread <= (1e-12 * mean_x * mean_x).max(f64::MIN_POSITIVE) {
        return None;
    }
    let slope = points.iter().map(|point| (point.0 - mean_x) * (point.1 - mean_y)).sum::<f64>() / spread;
    let line = Line { offset: mean_y - slope * mean_x, slope };
    let left_out = |&(x, y): &(f64, f64)| {
        let leverage = 1.0 / n + (x - mean_x).powi(2) / spread;
        y - (y - line.at(x)) / (1.0 - leverage).max(1e-3)
    };
    let left_out = points.iter().map(left_out).collect();
    Some(Fit::new(Model::Line(line), left_out))
}
