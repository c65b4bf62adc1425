//! Operating the host as a whole: draining, the record of changes, and the configuration as a file.

use std::fs::File;
use std::io;
use std::path::Path;

use clap::Args;
use pinfold_profile::report::{date_here, plain, with_dates_here};
use pinfold_proto::ExitCode;
use pinfold_proto::view::{AuditRecord, AuditView};
use pinfold_proto::wire::{Reply, Request};

use crate::input;
use crate::print::{print_json, print_text, say};
use pinfold_client::{Dial, Failure, unexpected};

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Check that nothing was changed in the records
    #[arg(long)]
    pub verify: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `pinfold drain` and `undrain`.
pub(crate) fn drain(dial: &Dial, on: bool) -> Result<(), Failure> {
    answer!(dial.connect()?.ask(&Request::Drain { on })?, Done)
}

/// `pinfold audit`.
pub(crate) fn audit(dial: &Dial, args: &AuditArgs) -> Result<(), Failure> {
    let view = records(dial, args.verify)?;
    if args.json {
        print_json(&view)?;
    } else {
        print(&view.records)?;
        view.notes.iter().for_each(|note| say(note));
    }
    match (view.intact, &view.broken) {
        (Some(false), why) => {
            let why = why.as_deref().unwrap_or("the chain is broken");
            Err(Failure::new(ExitCode::Failed, format!("the audit was tampered with: {why}")))
        }
        (Some(true), _) if !args.json => {
            say("the chain of records holds");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// `pinfold config history`.
pub(crate) fn history(dial: &Dial, json: bool) -> Result<(), Failure> {
    let mut view = records(dial, false)?;
    view.records.retain(|record| matches!(record.action.as_str(), "config" | "save"));
    if json { print_json(&view) } else { print(&view.records) }
}

/// `pinfold config save`.
pub(crate) fn save(dial: &Dial, file: Option<&Path>) -> Result<(), Failure> {
    let failed = |what: &str, path: &Path, error: &io::Error| {
        Failure::new(ExitCode::Failed, format!("failed to {what} {}: {error}", path.display()))
    };
    // Another file is this user's affair: read and written with this user's rights.
    let text =
        file.map(|path| what_is_there(path).map_err(|error| failed("read", path, &error))).transpose()?;
    let request = Request::ConfigSave { write: file.is_none(), text };
    match (dial.connect()?.ask(&request)?, file) {
        (Reply::Saved { text, .. }, Some(path)) => {
            crate::output::write(path, text.as_bytes()).map_err(|error| failed("write", path, &error))?;
            say(&format!("written to {}", path.display()));
            Ok(())
        }
        (Reply::Saved { path, .. }, None) => {
            say(&format!("written to {}", path.unwrap_or_default()));
            Ok(())
        }
        (other, _) => Err(unexpected(&other)),
    }
}

/// The text of a configuration file into which values are written; empty for a new file, and for a pipe or a device,
/// which may have no end.
fn what_is_there(path: &Path) -> io::Result<String> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() => Ok(String::new()),
        Ok(_) => File::open(path).and_then(|file| input::text(file, input::BY_HAND_MAX)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

fn records(dial: &Dial, verify: bool) -> Result<AuditView, Failure> {
    answer!(dial.connect()?.ask(&Request::Audit { verify })?, Audit)
}

fn print(records: &[AuditRecord]) -> Result<(), Failure> {
    print_text(|out| {
        for record in records {
            writeln!(
                out,
                "{:>5}  {}  {:<12} {:<8} {}",
                record.number,
                date_here(record.time_s),
                plain(&record.user),
                plain(&record.action),
                plain(&with_dates_here(&record.detail))
            )?;
        }
        Ok(())
    })
}
