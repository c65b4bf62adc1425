//! How a batch tells its end: a table for people, or JSON.

use std::fs::File;
use std::io::{self, Write as _};

use pinfold_client::Failure;
use pinfold_proto::view::BatchView;

use super::args::BatchArgs;
use super::outcome;
use crate::{notify, output, print};

/// The report at the end.
pub(super) struct Answer {
    form: Form,
    /// The command of `--notify`.
    notify: Option<String>,
}

/// The form of the results.
enum Form {
    /// On standard error; `quiet`: only if a line failed.
    Table { quiet: bool },
    /// In this file, or on standard output.
    Json(Option<File>),
}

impl Answer {
    /// From the options. A file is made now: a failure to make it should not wait for the batch's end.
    pub(super) fn of(args: &BatchArgs) -> Result<Self, Failure> {
        let form = match &args.json {
            None => Form::Table { quiet: args.quiet },
            Some(None) => Form::Json(None),
            Some(Some(path)) => {
                let made = output::create(path, output::Named::ByUser);
                let file =
                    made.map_err(|error| Failure::doing(format!("--json={}", path.display()), &error))?;
                Form::Json(Some(file))
            }
        };
        Ok(Self { form, notify: args.notify.clone() })
    }

    /// Prints the results of all lines.
    pub(super) fn print(&mut self, view: &BatchView) -> Result<(), Failure> {
        if let Some(command) = &self.notify {
            let mut text = Vec::new();
            let written = outcome::write_json(view, &mut text);
            let told = written.map_err(|error| Failure::doing("--notify", &error));
            told.and_then(|()| notify::of_text(command, &text))
                .unwrap_or_else(|failure| print::say(&failure.message));
        }
        let (place, printed) = match &mut self.form {
            Form::Table { quiet: true } if view.failed == 0 => return Ok(()),
            Form::Table { .. } => ("standard error", print_table(view)),
            Form::Json(None) => ("standard output", print_line(view)),
            Form::Json(Some(file)) => ("the file of --json", outcome::write_json(view, file)),
        };
        printed.map_err(|error| Failure::doing(place, &error))
    }
}

fn print_line(view: &BatchView) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    print::write_json(view, &mut out)?;
    out.flush()
}

fn print_table(view: &BatchView) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stderr().lock());
    pinfold_profile::report::write_batch(view, &mut out)?;
    out.flush()
}
