//! The mean of the runs whose inputs were the most similar (k nearest neighbours, over the logarithm of the size).

use super::{Fit, Model};
use crate::history::{Run, Sorted};

pub(super) fn fit(runs: &[Run], count: usize) -> Option<Fit> {
    if runs.len() < count + 3 {
        return None;
    }
    let sorted = Sorted::by_input(runs, |_, run| run.peak)?;
    let left_out = |(at, run): (usize, &Run)| sorted.nearest_mean(run.ask.ln_input()?, count, Some(at));
    let left_out = runs.iter().enumerate().map(left_out).collect::<Option<Vec<_>>>()?;
    Some(Fit { model: Model::Near(sorted, count), left_out })
}
