//! The jobs of a keeper that wait: which they are, and why.

use pinfold_proto::wire::Request;

use super::{Keeper, Kept, Stage};

impl Keeper {
    /// The tickets of the jobs that do not run yet.
    pub(crate) fn waiting(&self) -> Vec<u64> {
        let waits =
            |(&ticket, kept): (&u64, &Kept)| matches!(kept.stage, Stage::Waiting(_)).then_some(ticket);
        self.jobs.iter().filter_map(waits).collect()
    }

    /// Asks the daemon why this job is in its state. The answer arrives as [`super::Told::Why`]; an absent daemon gives
    /// none, nor is there an answer for a job without a number.
    pub(crate) fn ask_why(&mut self, ticket: u64) {
        if let Some(job) = self.jobs.get(&ticket).and_then(|kept| kept.job) {
            self.send(&Request::Why { job, at_us: None });
        }
    }
}
