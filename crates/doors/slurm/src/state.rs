//! A job's state in Slurm's words. Absent here: its derivation (`jobs`).

/// A job's state in Slurm's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Pending,
    Running,
    Suspended,
    Completed,
    Cancelled,
    Failed,
    Timeout,
    NodeFail,
    OutOfMemory,
}

impl State {
    pub(crate) const ALL: [Self; 9] = [
        Self::Pending,
        Self::Running,
        Self::Suspended,
        Self::Completed,
        Self::Cancelled,
        Self::Failed,
        Self::Timeout,
        Self::NodeFail,
        Self::OutOfMemory,
    ];

    pub(crate) const fn long(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Suspended => "SUSPENDED",
            Self::Completed => "COMPLETED",
            Self::Cancelled => "CANCELLED",
            Self::Failed => "FAILED",
            Self::Timeout => "TIMEOUT",
            Self::NodeFail => "NODE_FAIL",
            Self::OutOfMemory => "OUT_OF_MEMORY",
        }
    }

    pub(crate) const fn compact(self) -> &'static str {
        match self {
            Self::Pending => "PD",
            Self::Running => "R",
            Self::Suspended => "S",
            Self::Completed => "CD",
            Self::Cancelled => "CA",
            Self::Failed => "F",
            Self::Timeout => "TO",
            Self::NodeFail => "NF",
            Self::OutOfMemory => "OOM",
        }
    }

    pub(crate) const fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Suspended)
    }
}
