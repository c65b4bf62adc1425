//! The exit codes of every command, in one place.

/// The exit code of a pinfold command that does not end with a job's own status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitCode {
    /// Done.
    Done,
    /// Failed; standard error gives the cause.
    Failed,
    /// Wrong usage or wrong configuration; standard error names the option or key.
    Usage,
    /// No permission.
    Permission,
    /// No daemon reachable and none could be started.
    NoDaemon,
    /// Refused (queue full, too large) or expired.
    Refused,
    /// As in shells: the command was found but cannot be executed.
    NotExecutable,
    /// As in shells: the command was not found.
    NotFound,
}

impl ExitCode {
    /// The number the process exits with.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Permission => 3,
            Self::NoDaemon => 4,
            Self::Refused => 5,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
        }
    }
}
