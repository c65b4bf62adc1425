//! Why a job is in its state, as `why` prints it.

use serde::{Deserialize, Serialize};

use crate::job::JobState;

/// `pinfold why JOB --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhyView {
    /// [`super::VERSION`].
    pub version: u32,
    /// The job.
    pub job: u64,
    /// Its state.
    pub state: JobState,
    /// The cause of that state.
    pub cause: String,
    /// The numbers behind it.
    pub numbers: Vec<NumberView>,
    /// What would change it.
    pub change: String,
    /// The decisions so far, oldest first.
    pub decisions: Vec<DecisionView>,
}

/// A number behind a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberView {
    /// What it counts.
    pub name: String,
    /// Its value, with the unit.
    pub value: String,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionView {
    /// When, in Unix seconds.
    pub time_s: f64,
    /// What was decided.
    pub action: String,
    /// Why.
    pub reason: String,
}
