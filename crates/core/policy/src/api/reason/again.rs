//! Reasons that speak of what was before: a restart of the daemon, an earlier run, a try that failed.

use std::fmt;

use crate::api::code::{Figure, figures};

/// What was before.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum AgainReason {
    /// Found again after a restart of the daemon.
    Adopted,
    /// What was found after a restart no longer fits; put right.
    Restored,
    /// It was ended for others, and starts again.
    BeginsAnew {
        /// Why it was ended.
        why: String,
    },
    /// An earlier try failed, and this makes good for it.
    Retry {
        /// Why the earlier try failed.
        error: String,
    },
}

impl AgainReason {
    /// Its code and its figures.
    pub(super) fn parts(&self) -> (&'static str, Vec<Figure>) {
        match self {
            Self::Adopted => ("adopted", Vec::new()),
            Self::Restored => ("restored", Vec::new()),
            // Programs know it by this code from before.
            Self::BeginsAnew { why: error } | Self::Retry { error } => {
                ("retry", figures!["error": Text(Some(error.clone()))])
            }
        }
    }
}

impl fmt::Display for AgainReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adopted => write!(f, "found again after a restart of the daemon"),
            Self::Restored => write!(f, "put right after a restart of the daemon"),
            Self::BeginsAnew { why } => write!(f, "it is requeued: {why}"),
            Self::Retry { error } => write!(f, "an earlier try failed: {error}"),
        }
    }
}
