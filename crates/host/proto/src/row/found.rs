//! How the processes of a job were found.

use serde::{Deserialize, Serialize};

/// How the processes of a job were found, and so which processes may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ProcessesFrom {
    /// Unknown: a job of an earlier version, or a job that never ran.
    #[default]
    Unknown,
    /// The kernel reported each birth and each end, with figures: complete.
    Records,
    /// The kernel reported each birth and each end; figures come from samples.
    Events,
    /// Samples: processes that lived for less than an interval may be missing.
    Samples,
    /// The kernel reported each process, but some reports were lost, or the daemon was away for a time.
    Gaps,
}

impl ProcessesFrom {
    /// Each way.
    pub const ALL: [Self; 5] = [Self::Unknown, Self::Records, Self::Events, Self::Samples, Self::Gaps];

    /// Its word in JSON; `None`: unknown.
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
