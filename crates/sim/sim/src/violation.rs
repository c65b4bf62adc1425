//! A check's report of a broken promise.

use std::fmt;

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Violation {
    /// The promise.
    pub rule: &'static str,
    /// The finding.
    pub found: String,
}

impl Violation {
    pub(crate) fn new(rule: &'static str, found: String) -> Self {
        Self { rule, found }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {}; found: {}", self.rule, self.found)
    }
}
