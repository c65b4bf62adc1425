//! The mean of the runs with the most similar inputs (k nearest neighbours, over the logarithm of the size).

use super::{Fit, Model};
use crate::history::Lot;

pub(super) fn fit(lot: &Lot<'_>, count: usize) -> Option<Fit> {
    if lot.runs.len() < count + 3 {
        return None;
    }
    let sorted = lot.by_input(|_, run| run.peak)?;
    let left_out = lot.nearest_means(&sorted, count)?;
    Some(Fit::new(Model::Near(sorted, count), left_out))
}
