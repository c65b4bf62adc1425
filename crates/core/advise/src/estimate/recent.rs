//! The largest of the latest runs: where the needs of a class drift, older runs mislead.

use super::{Fit, Model};
use crate::history::{Run, largest_peak};

pub(super) fn fit(runs: &[Run], count: usize) -> Option<Fit> {
    if runs.len() < 4 {
        return None;
    }
    let before = |end: usize| largest_peak(&runs[end.saturating_sub(count)..end]);
    // Nothing comes before the first: it is taken to be known, and adds no error.
    let left_out = (0..runs.len()).map(|at| if at == 0 { runs[0].peak } else { before(at) }).collect();
    Some(Fit::new(Model::Constant(before(runs.len())), left_out))
}
