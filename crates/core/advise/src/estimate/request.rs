//! Relative to the request: users who ask for more of one job than of another of the class often know why.

use super::{Fit, Model};
use crate::history::Run;

pub(super) fn fit(runs: &[Run]) -> Option<Fit> {
    let left_out = runs.iter().map(|run| run.ask.request).collect::<Option<Vec<_>>>()?;
    Some(Fit::new(Model::Request, left_out))
}
