//! The job store as a file: `backup`, `restore`, `check`. The caller needs the rights to the store's files; the
//! daemon is asked only where they are.

use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::Args;
use pinfold_profile::report::size;
use pinfold_profile::store::offline;
use pinfold_profile::store::{CheckReport, StoreError};
use pinfold_proto::ExitCode;
use pinfold_sys::{files, whereabouts};
use serde_json::json;

use crate::print::{JSON_VERSION, print_json, print_text};
use pinfold_client::{Dial, Failure};

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The state directory [default: the running daemon's, or where this user's would keep it]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// The backup
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct NewBackupArgs {
    #[command(flatten)]
    pub backup: BackupArgs,
    /// Also in place of a file that is no backup
    #[arg(long)]
    pub force: bool,
}

/// `pinfold backup`.
pub(crate) fn backup(dial: &Dial, args: &NewBackupArgs) -> Result<(), Failure> {
    let NewBackupArgs { backup: BackupArgs { store, file }, force } = args;
    if !force {
        may_be_replaced(file)?;
    }
    // Asked before: later writes are in the backup.
    let (state, unwritten) = state_dir(dial, store)?;
    let report = offline::backup(&state, file).map_err(|error| failed(&error))?;
    say(
        store,
        &report,
        &format!("{} written from {} and looked through", file.display(), state.display()),
        None,
    )?;
    let Some(jobs @ 1..) = unwritten else { return Ok(()) };
    let text = format!(
        "{} lacks {jobs} jobs, or how they are now: the daemon could not write them to the store yet, and `pinfold doctor` \
         says why; make it again then",
        file.display()
    );
    Err(Failure::new(ExitCode::Failed, text))
}

/// Whether a backup may replace this file without loss: no file is there, or a backup.
fn may_be_replaced(file: &Path) -> Result<(), Failure> {
    match std::fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::doing(format!("failed to look at {}", file.display()), &error)),
        Ok(found) if found.is_file() && (found.len() == 0 || offline::is_store(file)) => return Ok(()),
        Ok(_) => {}
    }
    let text = format!("{} is there and no backup of pinfold's; --force writes over it", file.display());
    Err(Failure::new(ExitCode::Failed, text))
}

/// `pinfold restore`.
pub(crate) fn restore(dial: &Dial, args: &BackupArgs) -> Result<(), Failure> {
    let (state, unwritten) = state_dir(dial, &args.store)?;
    if unwritten.is_some() {
        let text = "a daemon is running: stop it, restore, and start it again";
        return Err(Failure::new(ExitCode::Failed, text));
    }
    // The rights that a daemon gives both: it trusts no other user.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&state)
        .map_err(|error| Failure::doing(format!("failed to make {}", state.display()), &error))?;
    // The daemon's own lock: none can start meanwhile.
    let path = whereabouts::lock(&state);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let lock = files::open_in_place(&mut options, &path);
    let lock = lock.map_err(|error| Failure::doing(format!("failed to open {}", path.display()), &error))?;
    if lock.try_lock().is_err() {
        let text = format!("a daemon works on {}: stop it first", state.display());
        return Err(Failure::new(ExitCode::Failed, text));
    }
    let restored = offline::restore(&args.file, &state).map_err(|error| failed(&error))?;
    let mut text = format!("{} restored to {}", args.file.display(), state.display());
    if let Some(kept) = &restored.kept {
        text.push_str(&format!("; what was there is kept as {}", kept.display()));
    }
    say(&args.store, &restored.report, &text, restored.kept.as_deref())
}

/// `pinfold check`.
pub(crate) fn check(dial: &Dial, args: &StoreArgs) -> Result<(), Failure> {
    let (state, _) = state_dir(dial, args)?;
    let report = offline::check(&state).map_err(|error| failed(&error))?;
    let verdict = if report.problems.is_empty() { "nothing is wrong" } else { "it is damaged" };
    say(args, &report, &format!("{}: {verdict}", state.display()), None)?;
    if report.problems.is_empty() {
        return Ok(());
    }
    let text = "the store is damaged; the daemon moves such a file aside when it starts, or restore a backup";
    Err(Failure::new(ExitCode::Failed, text))
}

/// The directory, and, if its socket shows a daemon at work there, how many jobs wait to be written.
fn state_dir(dial: &Dial, args: &StoreArgs) -> Result<(PathBuf, Option<u64>), Failure> {
    match &args.state_dir {
        Some(dir) => Ok((dir.clone(), None)),
        None => dial.state_dir(),
    }
}

fn failed(error: &StoreError) -> Failure {
    let denied =
        matches!(error, StoreError::File { source, .. } if source.kind() == ErrorKind::PermissionDenied);
    let code = if denied { ExitCode::Permission } else { ExitCode::Failed };
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    Failure::new(code, text)
}

fn say(args: &StoreArgs, report: &CheckReport, text: &str, kept: Option<&Path>) -> Result<(), Failure> {
    if args.json {
        return print_json(&json!({
            "version": JSON_VERSION,
            "problems": report.problems,
            "jobs": report.jobs,
            "samples": report.samples,
            "decisions": report.decisions,
            "file_bytes": report.file_bytes,
            "kept": kept,
        }));
    }
    print_text(|out| {
        writeln!(out, "{text}")?;
        writeln!(
            out,
            "{} jobs, {} samples, {} decisions in {}",
            report.jobs,
            report.samples,
            report.decisions,
            size(report.file_bytes)
        )?;
        report.problems.iter().try_for_each(|problem| writeln!(out, "problem: {problem}"))
    })
}
