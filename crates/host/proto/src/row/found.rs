//! How the processes of a job were found.

use serde::{Deserialize, Serialize};

/// How the processes of a job were found, and so which of them may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ProcessesFrom {
    /// Not known: a job of an earlier version, or one that never ran.
    #[default]
    Unknown,
    /// The kernel told of each birth and each end, with figures: none is missing.
    Records,
    /// The kernel told of each birth and each end; figures are those of samples.
    Events,
    /// Samples: those that lived for less than an interval may be missing.
    Samples,
    /// The kernel told of each, but some of its words were lost, or the daemon was away for a time.
    Gaps,
}

impl ProcessesFrom {
    /// Each way.
    pub const ALL: [Self; 5] = [Self::Unknown, Self::Records, Self::Events, Self::Samples, Self::Gaps];

    /// Its word, as in JSON; `None`: it is not known.
    #[must_use]
    pub const fn word(self) -> Option<&'static str> {
        match self {
            Self::Unknown => None,
            Self::Records => Some("records"),
            Self::Events => Some("events"),
            Self::Samples => Some("samples"),
            Self::Gaps => Some("gaps"),
        }
    }
}
