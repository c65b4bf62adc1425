//! The largest peak among runs with no larger input: for needs that grow with the input in no simple way.

use super::{Fit, Model};
use crate::history::Lot;

/// Least runs.
const RUNS_MIN: usize = 6;

/// Inputs in ascending order, with the largest peak up to each.
#[derive(Debug)]
pub(crate) struct Envelope {
    steps: Vec<(f64, f64)>,
}

impl Envelope {
    pub(super) fn at(&self, ln_input: f64) -> f64 {
        let below = self.steps.partition_point(|step| step.0 <= ln_input);
        self.steps.get(below.saturating_sub(1)).map_or(0.0, |step| step.1)
    }
}

pub(super) fn fit(lot: &Lot<'_>) -> Option<Fit> {
    if lot.runs.len() < RUNS_MIN {
        return None;
    }
    let sorted = lot.by_input(|_, run| run.peak)?;
    let points = sorted.points();
    let mut left_out = vec![0.0; lot.runs.len()];
    let mut steps = Vec::with_capacity(points.len());
    let mut largest = 0.0;
    for (place, &(input, peak, at)) in points.iter().enumerate() {
        // The smallest has none below it: the next one's peak stands for it.
        left_out[at] = if place == 0 { points[1].1 } else { largest };
        largest = f64::max(largest, peak);
        steps.push((input, largest));
    }
    Some(Fit::new(Model::Envelope(Envelope { steps }), left_out))
}
