//! The shell that runs text of the user: lines of a batch and commands of a job's options.
//!
//! Absent here: lines that need no shell (`batch/direct`), and `--wrap`, for which Slurm names `/bin/sh`.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pinfold_client::Failure;
use pinfold_proto::{ExitCode, program};
use pinfold_sys::procfs::Proc;
use pinfold_sys::spawn::resolve;

use crate::successor::SHELL;

/// The variable that names the shell for commands without `--shell`.
pub(crate) const VARIABLE: &str = "PINFOLD_SHELL";
const USUAL: &str = "/bin/sh";
/// A longer chain of parents is followed no further.
const ANCESTORS_MAX: usize = 64;

/// The shell that `--shell` or the variable names, else the calling shell, else the user's, else `/bin/sh`.
///
/// # Errors
/// When `--shell` or the variable names no program.
pub(crate) fn of(option: Option<&Path>) -> Result<PathBuf, Failure> {
    let variable = std::env::var_os(VARIABLE).filter(|shell| !shell.is_empty());
    let named = option.map(|shell| ("--shell", shell.as_os_str().to_owned()));
    match named.or_else(|| variable.map(|shell| (VARIABLE, shell))) {
        Some((source, shell)) => resolve(&shell, std::env::var_os("PATH").as_deref())
            .map_err(|error| Failure::new(ExitCode::Usage, format!("{source}: {error}"))),
        None => Ok(unnamed()),
    }
}

/// The words that run `text` with `shell`.
pub(crate) fn run_text(shell: &Path, text: &OsStr) -> Vec<OsString> {
    vec![shell.into(), "-c".into(), text.to_owned()]
}

fn unnamed() -> PathBuf {
    // The calling shell may end while this process waits.
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    let named = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|shell| is_shell(shell));
    let found = || named(SHELL).or_else(calling).or_else(|| named("SHELL")).unwrap_or_else(|| USUAL.into());
    FOUND.get_or_init(found).clone()
}

/// The program of the nearest ancestor that is a shell.
fn calling() -> Option<PathBuf> {
    let proc = Proc::open(Path::new("/proc")).ok()?;
    let parent = |&pid: &u32| Some(proc.stat(pid).ok()??.parent).filter(|&parent| parent > 0);
    let ancestors = std::iter::successors(Some(parent_id()), parent).take(ANCESTORS_MAX);
    ancestors
        .filter_map(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok())
        .find(|path| is_shell(path))
}

fn is_shell(path: &Path) -> bool {
    path.is_file() && path.to_str().is_some_and(program::is_shell)
}
