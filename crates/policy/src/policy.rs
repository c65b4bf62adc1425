//! The rules.

use crate::{Decision, Event, Explanation, Instant, JobId};

/// The state of the judgement.
#[derive(Debug, Default)]
pub struct Policy {}

impl Policy {
    /// Takes in what happened at `now` and says what to do.
    pub fn step(&mut self, _now: Instant, _event: Event) -> Vec<Decision> {
        Vec::new()
    }

    /// When [`Event::Tick`] is wanted next, if at all.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    /// Why `job` is in the state it is in, and what would change it; `None` for an unknown job.
    #[must_use]
    pub fn explain(&self, _now: Instant, _job: JobId) -> Option<Explanation> {
        None
    }
}
