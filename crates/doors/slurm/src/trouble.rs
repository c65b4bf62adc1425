//! How a command fails, in Slurm's words.

use std::path::Path;

use pinfold_client::Failure;
use pinfold_proto::ExitCode;
use pinfold_sys::spawn;

/// A command's error message and exit status.
#[derive(Debug)]
pub(crate) struct Trouble {
    /// The exit status.
    pub status: u8,
    /// The message.
    pub text: String,
    /// Whether to print `COMMAND: error: ` first.
    pub named: bool,
}

/// No daemon.
pub(crate) const CONTACT: &str = "Unable to contact slurm controller (connect failure)";
/// The daemon went away during a request; engines retry on these words.
pub(crate) const TIMED_OUT: &str = "Socket timed out on send/recv operation";
/// An unknown job.
pub(crate) const INVALID_JOB: &str = "Invalid job id specified";

impl Trouble {
    /// As `COMMAND: error: TEXT`.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { status: 1, text: text.into(), named: true }
    }

    /// The text alone.
    pub(crate) fn bare(text: impl Into<String>) -> Self {
        Self { named: false, ..Self::new(text) }
    }

    /// A list that cannot be loaded, `slurm_load_jobs error: ...`.
    pub(crate) fn of_load(what: &str, failure: &Failure) -> Self {
        Self::bare(format!("{what} error: {}", words(failure)))
    }
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// A failure in Slurm's words where possible.
pub(crate) fn words(failure: &Failure) -> String {
    match failure.code {
        ExitCode::NoDaemon if failure.message.contains("went away") => TIMED_OUT.to_owned(),
        ExitCode::NoDaemon => format!("{CONTACT}: {}", failure.message),
        ExitCode::Permission => format!("Access/permission denied: {}", failure.message),
        _ => failure.message.clone(),
    }
}

/// A job that has ended or is ending.
pub(crate) const OVER: &str = "Job/step already completing or completed";

/// Why an action on job `shown` failed.
pub(crate) fn of_job(failure: &Failure, shown: &str) -> String {
    let why = if failure.message.contains("over already") { OVER.to_owned() } else { words(failure) };
    format!("{why} for job {shown}")
}

/// A program that cannot be executed, with a shell's exit status.
pub(crate) fn failed_to_execute(program: &Path, error: &std::io::Error) -> Trouble {
    let status = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
    Trouble { status, ..Trouble::new(spawn::refusal(program, error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_once() {
        let check = |message: &str, want: &str| {
            assert_eq!(of_job(&Failure::new(ExitCode::Failed, message), "1_2"), want);
        };
        check("job 7 is over already", "Job/step already completing or completed for job 1_2");
        check("no room", "no room for job 1_2");
    }
}
