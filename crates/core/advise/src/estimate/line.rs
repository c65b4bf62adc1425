//! A line by least squares over the input size, or over logarithms.
//!
//! The line over sizes is that of C. Witt and others (Feedback-based resource allocation for batch scheduling of
//! scientific workflows, HPCS 2019); the logarithms make it a power or a curve that flattens. Left-out estimates come
//! in closed form from the leverage of each point (D. M. Allen's PRESS, Technometrics 16, 1974).

use super::{Fit, Model};
use crate::history::{Ask, Run};

/// Least runs.
const RUNS_MIN: usize = 4;

/// What is a logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    LogInput,
    LogLog,
}

/// peak = offset + slope x input, each in its scale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    scale: Scale,
    offset: f64,
    slope: f64,
}

impl Line {
    pub(super) fn at(&self, ask: &Ask) -> Option<f64> {
        let estimate = self.offset + self.slope * self.scale.input(ask)?;
        Some(self.scale.back(estimate))
    }
}

impl Scale {
    fn input(self, ask: &Ask) -> Option<f64> {
        if self == Self::Linear { ask.input } else { ask.ln_input }
    }

    fn peak(self, peak: f64) -> f64 {
        if self == Self::LogLog { peak.ln() } else { peak }
    }

    fn back(self, estimate: f64) -> f64 {
        // Beyond e^60 GB there is no memory to speak of, and further on no number.
        if self == Self::LogLog { estimate.min(60.0).exp() } else { estimate }
    }
}

pub(super) fn fit(runs: &[Run], scale: Scale) -> Option<Fit> {
    if runs.len() < RUNS_MIN {
        return None;
    }
    let point = |run: &Run| Some((scale.input(&run.ask)?, scale.peak(run.peak)));
    let points = runs.iter().map(point).collect::<Option<Vec<_>>>()?;
    let n = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / n;
    let spread = points.iter().map(|point| (point.0 - mean_x).powi(2)).sum::<f64>();
    if !spread.is_finite() || spread <= (1e-12 * mean_x * mean_x).max(f64::MIN_POSITIVE) {
        return None;
    }
    let slope = points.iter().map(|point| (point.0 - mean_x) * (point.1 - mean_y)).sum::<f64>() / spread;
    let offset = mean_y - slope * mean_x;
    let left_out = |&(x, y): &(f64, f64)| {
        let leverage = 1.0 / n + (x - mean_x).powi(2) / spread;
        let error = y - (offset + slope * x);
        scale.back(y - error / (1.0 - leverage).max(1e-3))
    };
    let left_out = points.iter().map(left_out).collect();
    Some(Fit::new(Model::Line(Line { scale, offset, slope }), left_out))
}
