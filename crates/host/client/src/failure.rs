//! The failure of a command: an exit code, and a sentence with the fault and the way out.

use std::fmt;

use pinfold_proto::ExitCode;
use pinfold_proto::wire::ErrorCode;

/// A failed command.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: ExitCode,
    /// The message, down to the cause.
    pub message: String,
    /// Whether no daemon was reachable, for any reason.
    pub without_daemon: bool,
}

impl Failure {
    /// A failure in these words.
    pub fn new(code: ExitCode, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), without_daemon: code == ExitCode::NoDaemon }
    }

    /// A failure of the daemon's own word.
    pub fn refused(code: ErrorCode, message: String) -> Self {
        Self { code: code.into(), message, without_daemon: false }
    }

    /// A failure during the operation `what`, with the chain of its causes.
    pub fn doing(what: impl fmt::Display, cause: &dyn std::error::Error) -> Self {
        let mut message = format!("{what}: {cause}");
        let mut next = cause.source();
        while let Some(cause) = next {
            message.push_str(&format!(": {cause}"));
            next = cause.source();
        }
        Self { code: ExitCode::Failed, message, without_daemon: false }
    }

    /// No daemon was reachable, because of the fault in `code`.
    pub fn without_daemon(code: ExitCode, message: impl fmt::Display) -> Self {
        Self { without_daemon: true, ..Self::new(code, message) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}
