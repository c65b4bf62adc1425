//! The output of `pinfold why`: the state of a job, the figures behind it, and the decisions so far.

use serde::{Deserialize, Serialize};

use crate::job::JobState;
use crate::row::Figures;

/// `pinfold why JOB --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhyView {
    /// [`super::VERSION`].
    pub version: u32,
    /// The job.
    pub job: u64,
    /// Its state; where `left_out` hides that, the last state known before.
    pub state: JobState,
    /// The cause of that state.
    pub cause: String,
    /// The figures behind the state.
    pub numbers: Vec<NumberView>,
    /// All figures by name, with the unit last: `memory_free_bytes`. Names stay when words change.
    #[serde(default)]
    pub figures: Figures,
    /// The event that would change the state.
    pub change: String,
    /// The decisions so far, oldest first.
    pub decisions: Vec<DecisionView>,
    /// Omitted decisions of a job with thousands of decisions. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOutView>,
    /// Probable start of a waiting job, in Unix seconds, if the jobs before it run as long as their classes did.
    /// `null`: unknown, or the job does not wait.
    #[serde(default)]
    pub expected_start_s: Option<f64>,
}

impl WhyView {
    /// Its state in words.
    #[must_use]
    pub fn state_words(&self) -> &'static str {
        match self.left_out {
            Some(LeftOutView { hides_state: true, .. }) => "in a state that is not known",
            _ => self.state.word(),
        }
    }
}

/// Omitted decisions between the first and the last about a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LeftOutView {
    /// Time of the last decision before the omission, in Unix seconds.
    pub after_s: f64,
    /// Time of the first decision after the omission, in Unix seconds.
    pub before_s: f64,
    /// Whether the state at the moment of `--at` is unknown, because an omitted decision may have changed it.
    pub hides_state: bool,
}

/// A number behind a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberView {
    /// Its name.
    pub name: String,
    /// Its value in words, with the unit.
    #[serde(default)]
    pub text: String,
    /// Its value: an integer or number where possible, the first of several figures; otherwise the words again.
    pub value: serde_json::Value,
    /// The unit of a numeric value: `bytes`, `s`, `milli` (thousandths). `null`: a count, or words.
    #[serde(default)]
    pub unit: Option<String>,
}

impl NumberView {
    /// A value that is no number.
    #[must_use]
    pub fn words(name: &str, text: String) -> Self {
        Self { name: name.to_owned(), value: text.clone().into(), text, unit: None }
    }
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionView {
    /// When, in Unix seconds.
    pub time_s: f64,
    /// The action, in words.
    pub action: String,
    /// Why, in words.
    pub reason: String,
    /// The reason again, under the name used in other views.
    #[serde(default)]
    pub text: String,
    /// The code of the action, for example `start`; codes stay when words change. `null`: decided by an earlier
    /// version.
    #[serde(default)]
    pub action_code: Option<String>,
    /// The code of the reason, for example `home_core_free`. `null`: decided by an earlier version.
    #[serde(default)]
    pub code: Option<String>,
    /// The figures of the reason and of the action by name, with the unit last: `free_bytes`, `within_s`. May be
    /// empty.
    #[serde(default)]
    pub figures: Figures,
}
