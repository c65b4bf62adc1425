//! Output of the commands.

use std::io::Write as _;

use crate::getopt::{Meaning, Opt, Takes, shown};
use crate::trouble::Trouble;

/// The version of Slurm whose messages are used.
pub(crate) const VERSION: &str = "slurm 25.11.0-pinfold";

/// Writes to standard output; a closed pipe is no error.
///
/// # Errors
/// When writing fails, for example on a full disk, or standard output is closed: the text would be lost silently.
pub(crate) fn out(text: &str) -> Result<(), Trouble> {
    if !pinfold_sys::stdout::is_open() {
        return Err(Trouble::new("standard output is closed".to_owned()));
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Trouble::new(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// `COMMAND: error: TEXT` on standard error; write errors are ignored.
pub(crate) fn error(command: &str, text: &str) {
    let _ = writeln!(std::io::stderr(), "{command}: error: {text}");
}

/// `COMMAND: TEXT` on standard error.
pub(crate) fn info(command: &str, text: &str) {
    let _ = writeln!(std::io::stderr(), "{command}: {text}");
}

/// The message for a wrong option.
pub(crate) fn usage(command: &'static str) -> impl Fn(String) -> Trouble {
    move |text| {
        let is_refused = !text.contains("option");
        match is_refused {
            true => Trouble::new(text),
            false => {
                Trouble::bare(format!("{command}: {text}\nTry \"{command} --help\" for more information"))
            }
        }
    }
}

/// `--help`, `--usage` and `--version`.
///
/// # Errors
/// As [`out`].
pub(crate) fn help(command: &str, what: &str, table: &[Opt]) -> Result<u8, Trouble> {
    if what == "version" {
        return out(&format!("{VERSION}\n")).map(|()| 0);
    }
    let mut text = format!("Usage: {command} [OPTIONS...] ...\n\n");
    for opt in table {
        let letter = match (opt.long, opt.short) {
            ("", _) | (_, None) => "    ".to_owned(),
            (_, Some(letter)) => format!("-{letter}, "),
        };
        let value = match opt.takes {
            Takes::Nothing => "",
            Takes::Value => "=VALUE",
            Takes::Maybe => "[=VALUE]",
        };
        let remark = match opt.meaning {
            Meaning::Same => String::new(),
            Meaning::Ignored => "taken, and changes nothing here".to_owned(),
            Meaning::Refused(why) | Meaning::Lacking(why) => format!("refused: {why}"),
        };
        let line = format!("  {letter}{:<28} {remark}", format!("{}{value}", shown(opt)));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str("\ndocs/slurm.md says what each does here.\n");
    out(&text).map(|()| 0)
}

/// A line on standard error.
pub(crate) fn bare(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
