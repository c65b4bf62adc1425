//! Printing: JSON for programs, and sentences for people. Absent here: the contents.

use std::io::{self, IsTerminal as _, Write as _};

use crate::Failure;

/// Writes a sentence for people; a failure to write has no reader either.
pub(crate) fn say(words: &str) {
    let _ = writeln!(io::stderr(), "pinfold-hub: {words}");
}

/// Writes lines for programs. A closed pipe (`| head`) is a success.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    answered(put(text))
}

/// Prints a JSON object on a line.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&json_text(value, io::stdout().is_terminal()))
}

/// Writes lines to standard output, and flushes them.
pub(crate) fn put(text: &str) -> io::Result<()> {
    // A write to a closed standard output seems to succeed.
    if !pinfold_sys::stdout::is_open() {
        return Err(io::Error::other("it is closed"));
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// The outcome of a write to standard output.
pub(crate) fn answered(done: io::Result<()>) -> Result<(), Failure> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Escapes users' names in it for terminals.
fn json_text(value: &serde_json::Value, for_terminal: bool) -> String {
    let text = value.to_string();
    if for_terminal { pinfold_proto::text::plain_json(&text) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_does_nothing_to_a_terminal() {
        let names = serde_json::json!(["a\u{9b}2J\u{202e}b"]);
        assert_eq!(json_text(&names, true), r#"["a\u009b2J\u202eb"]"#);
        assert_eq!(json_text(&names, false), "[\"a\u{9b}2J\u{202e}b\"]");
    }

    #[test]
    fn only_a_reader_that_has_seen_enough_is_no_failure() {
        assert!(answered(Ok(())).is_ok());
        assert!(answered(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        let full = answered(Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert!(full.code == 1 && full.words.starts_with("standard output: "), "{full:?}");
    }
}
