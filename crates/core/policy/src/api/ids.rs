//! Numbers of jobs, and the classes that jobs run in.

/// A job's number: 1, 2, 3 ... never used again on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct JobId(pub u64);

impl std::fmt::Display for JobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The class a job runs in, which decides how the kernel shares a core between it and others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Class {
    /// The normal class, on home cores that no other primary has.
    Primary,
    /// The idle class: runs in the cycles that primaries leave on the cores around the one where it was put.
    Backfill,
    /// The normal class, with every slot of the host to itself.
    Exclusive,
}

impl Class {
    /// The class's code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Backfill => "backfill",
            Self::Exclusive => "exclusive",
        }
    }
}
