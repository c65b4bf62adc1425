//! `--notify`: a command of the user, or a URL, that hears how a job, an array or a list ended. The process that waits for
//! the end runs the command or posts to the URL, never the daemon; a failure changes no status.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{Command, Stdio};

use pinfold_client::{Dial, Failure};
use pinfold_hubwire::courier;
use pinfold_proto::ExitCode;
use pinfold_proto::wire::Select;

use crate::names::{self, JobRef};
use crate::shell;
use crate::show::reports;

/// Hands `command` the reports of a job, or of each member of an array, a line of JSON each.
pub(crate) fn of_job(command: &str, dial: &Dial, job: u64) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let jobs = names::jobs(&mut client, &[JobRef::Number(job.into())])?;
    let mut text = Vec::new();
    for report in reports(&mut client, Select::Jobs(jobs))? {
        let written = serde_json::to_writer(&mut text, &report);
        written.map_err(|error| Failure::doing("the report of a job", &error))?;
        text.push(b'\n');
    }
    of_text(command, &text)
}

/// Runs `command` with this text on its standard input and waits for its end, or posts the text to a URL.
pub(crate) fn of_text(command: &str, text: &[u8]) -> Result<(), Failure> {
    if command.starts_with("http://") || command.starts_with("https://") {
        return courier::post_json(command, text).map_err(|error| Failure::doing("--notify", &error));
    }
    let failed = |error: std::io::Error| Failure::doing(format!("--notify `{command}`"), &error);
    let words = shell::run_text(&shell::of(None)?, OsStr::new(command));
    let mut process = Command::new(&words[0]);
    process.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = process.spawn().map_err(failed)?;
    // A command may ignore the rest of its input without failure.
    let _ = child.stdin.take().map(|mut input| input.write_all(text));
    let status = child.wait().map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(ExitCode::Failed, format!("--notify `{command}` failed: {status}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_reads_the_text_and_its_failure_is_told() {
        assert!(of_text("read line && [ \"$line\" = text ]", b"text\n").is_ok());
        let failure = of_text("exit 3", b"text\n").expect_err("it failed");
        assert!(failure.message.contains("`exit 3` failed: exit status: 3"), "{}", failure.message);
    }
}
