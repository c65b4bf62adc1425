//! What `pinfold why` tells: the state of a job, the numbers behind it, and the decisions so far.

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
    /// Its state; where `left_out` hides that, the last one that is known before it.
    pub state: JobState,
    /// The cause of that state.
    pub cause: String,
    /// The numbers behind it.
    pub numbers: Vec<NumberView>,
    /// All figures of these numbers by name, with the unit last: `memory_free_bytes`. Names stay when words change.
    #[serde(default)]
    pub figures: Figures,
    /// What would change it.
    pub change: String,
    /// The decisions so far, oldest first.
    pub decisions: Vec<DecisionView>,
    /// Which decisions are left out of those, of a job with thousands of them. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOutView>,
    /// When a waiting job probably starts, in Unix seconds, if the jobs before it run as long as jobs like them ran before.
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

/// Decisions that are not kept: those between the first and the last about a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LeftOutView {
    /// When the last decision before them was made, in Unix seconds.
    pub after_s: f64,
    /// When the first decision after them was made, in Unix seconds.
    pub before_s: f64,
    /// Whether the state at the moment of `--at` is not known, because one of them may have changed it.
    pub hides_state: bool,
}

/// A number behind a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberView {
    /// What it counts.
    pub name: String,
    /// Its value in words, with the unit.
    #[serde(default)]
    pub text: String,
    /// Its value: an integer or number where it is one, of several figures the first; else the words again.
    pub value: serde_json::Value,
    /// The unit of a value that is a number: `bytes`, `s`, `milli` (thousandths). `null`: a count, or words.
    #[serde(default)]
    pub unit: Option<String>,
}

impl NumberView {
    /// What is no number.
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
    /// What was decided, in words.
    pub action: String,
    /// Why, in words.
    pub reason: String,
    /// The same words under the name that other views have for them.
    #[serde(default)]
    pub text: String,
    /// The code of the action, such as `start`; codes stay when words change. `null`: decided by an earlier version.
    #[serde(default)]
    pub action_code: Option<String>,
    /// The code of the reason, such as `home_core_free`. `null`: decided by an earlier version.
    #[serde(default)]
    pub code: Option<String>,
    /// The figures of the reason and of the action by name, with the unit last: `free_bytes`, `within_s`. Empty: none.
    #[serde(default)]
    pub figures: Figures,
}
