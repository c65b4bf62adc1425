//! The same estimate for every job: the median of the peaks.
//!
//! With a margin of the errors above it this is split conformal prediction over the peaks themselves (Vovk, Gammerman
//! and Shafer, Algorithmic Learning in a Random World, 2005), and with a small risk the largest peak times a margin.

use super::{Fit, Model};
use crate::history::{Run, median_peak};

pub(super) fn fit(runs: &[Run]) -> Fit {
    let median = median_peak(runs);
    Fit { model: Model::Constant(median), left_out: vec![median; runs.len()] }
}
