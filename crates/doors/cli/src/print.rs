//! How commands print: sentences for people, a terminal's size and colours, JSON and text; moments as people name them.
//!
//! Absent here: the printed content.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::time::SystemTime;

use clap::Args;
use pinfold_profile::report;
use pinfold_proto::ExitCode;
use pinfold_proto::quantity::parse_duration;
use pinfold_proto::text::{plain, plain_json};
use pinfold_proto::view::VERSION;

use pinfold_client::Failure;

/// A sentence for people, on standard error; a failed write is ignored. Names by other users cannot control the
/// terminal.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "pinfold: {}", plain_lines(text));
}

/// The lines of a text, in which a terminal acts upon nothing but their ends.
fn plain_lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A moment as people name it, in microseconds since the Unix epoch: a duration ago, a date, or Unix seconds after an
/// `@`.
pub(crate) fn moment(option: &str, text: &str) -> Result<u64, Failure> {
    moment_as_of(SystemTime::now(), option, text)
}

/// The same with a common `now` for several moments.
pub(crate) fn moment_as_of(now: SystemTime, option: &str, text: &str) -> Result<u64, Failure> {
    let bad = || {
        Failure::new(
            ExitCode::Usage,
            format!(
                "{option} {text}: a duration (2h), a date (2026-11-21, or 2026-11-21 22:10) or Unix seconds \
                 (@1790000000) is wanted"
            ),
        )
    };
    if let Some(seconds) = text.strip_prefix('@') {
        // Seconds with a fraction, as in JSON, are accepted too.
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
        let micros: u64 = digits.parse().map_err(|_| bad())?;
        return Ok(whole.saturating_mul(1_000_000).saturating_add(micros));
    }
    if let Some(unix_s) = report::parse_date(text) {
        return Ok(unix_s.saturating_mul(1_000_000));
    }
    let ago = parse_duration(text).map_err(|_| bad())?;
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(now.saturating_sub(ago).as_micros()).unwrap_or(0))
}

/// Whether standard output shows colours, and wants them.
pub(crate) fn colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !refused && !is_dumb()
}

/// Whether the terminal only writes lines below each other.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

/// Whether the terminal's font has some hundred signs, without bars of eighths: a console of the kernel.
pub(crate) fn has_few_signs() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name.to_string_lossy().starts_with("linux"))
}

/// Columns and lines of the terminal as they are.
pub(crate) fn screen() -> (usize, usize) {
    size().map_or((80, 24), |(columns, rows)| (columns, rows.max(1)))
}

/// Columns of the terminal, or a page's where there is none.
pub(crate) fn width() -> usize {
    size().map_or(100, |(columns, _)| columns.max(40))
}

/// Lines of the terminal.
pub(crate) fn rows() -> usize {
    size().map_or(24, |(_, rows)| rows)
}

fn size() -> Option<(usize, usize)> {
    pinfold_sys::terminal::size()
}

/// Prints a JSON object on a line.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print_text(|out| write_json(value, out))
}

/// Writes a JSON object on a line to standard output. Names in it are users' own; no terminal acts upon them.
pub(crate) fn write_json(value: &impl serde::Serialize, out: &mut dyn Write) -> io::Result<()> {
    if io::stdout().is_terminal() {
        let text = serde_json::to_string(value)?;
        return writeln!(out, "{}", plain_json(&text));
    }
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

/// Refuses to print to a closed standard output, where writes seem to succeed.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn is_open() -> Result<(), Failure> {
    match pinfold_sys::stdout::is_open() {
        true => Ok(()),
        false => Err(Failure::new(ExitCode::Failed, "standard output is closed")),
    }
}

/// Prints to standard output, as [`printed`] says.
pub(crate) fn print_text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    is_open()?;
    let mut out = BufWriter::new(io::stdout().lock());
    printed(write(&mut out).and_then(|()| out.flush()))
}

/// The result of writing to standard output. A reader that stops early (`| head`) is success.
pub(crate) fn printed(done: io::Result<()>) -> Result<(), Failure> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::doing("standard output", &error))
        }
        _ => Ok(()),
    }
}

/// Refuses a long-running print (`what`) to a closed standard output.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn needs_output(what: &str) -> Result<(), Failure> {
    is_open().map_err(|closed| Failure::new(closed.code, format!("{what}: {closed}")))
}

/// The version that JSON made here carries.
pub(crate) const JSON_VERSION: u32 = VERSION;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_does_nothing_to_a_terminal() {
        let path = "start it with `pinfoldd --state-dir '/x\u{1b}[31m'`\nor not\r";
        assert_eq!(plain_lines(path), "start it with `pinfoldd --state-dir '/x?[31m'`\nor not?");
    }
}
