//! Reasons that speak of users and operators: they asked for it.

use std::fmt;

use crate::api::code::{Figure, figures};

/// What a user or operator did.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum UserReason {
    /// A user or operator asked for it.
    Asked,
    /// A user or operator changed its priority.
    PriorityChanged {
        /// The new priority.
        priority: u8,
    },
    /// Whoever asked for it is gone.
    Withdrawn,
}

impl UserReason {
    /// Its code and its figures.
    pub(super) fn parts(&self) -> (&'static str, Vec<Figure>) {
        match self {
            Self::Asked => ("asked", Vec::new()),
            Self::PriorityChanged { priority } => {
                ("priority_changed", figures!["priority": Number((*priority).into())])
            }
            Self::Withdrawn => ("withdrawn", Vec::new()),
        }
    }
}

impl fmt::Display for UserReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => write!(f, "a user or operator asked for it"),
            Self::PriorityChanged { priority } => write!(f, "its priority is now {priority}"),
            Self::Withdrawn => write!(f, "its client is gone"),
        }
    }
}
