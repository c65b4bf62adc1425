//! Starts programs with the directory of these commands first in their search path: `pinfold slurm --dir`, `pinfold
//! slurm -- COMMAND`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use pinfold_client::Dial;

use crate::commands::{self, directory};
use crate::home;
use crate::say;
use crate::trouble::{Trouble, failed_to_execute};

/// The words by which `pinfold slurm` calls.
pub(crate) const DIR: &str = "--dir";
/// And to start a command.
pub(crate) const WITHIN: &str = "--within";

/// Prints the directory.
pub(crate) fn dir() -> Result<u8, Trouble> {
    say::out(&format!("{}\n", directory()?.display())).map(|()| 0)
}

/// Becomes a command that finds these commands first. Variables name the daemon and the records explicitly, because
/// some engines drop the variables from which the defaults follow.
pub(crate) fn within(words: &[OsString]) -> Result<u8, Trouble> {
    let words = if words.first().is_some_and(|word| word == "--") { &words[1..] } else { words };
    let program =
        words.first().ok_or_else(|| Trouble::new("no command is named: pinfold slurm -- COMMAND"))?;
    let directory = directory()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let rest = std::env::split_paths(&path).filter(|dir| *dir != directory);
    let path = std::env::join_paths([directory.clone()].into_iter().chain(rest))
        .map_err(|error| Trouble::new(format!("{}: {error}", directory.display())))?;
    let dial = Dial::new(None, false);
    let mut command = Command::new(program);
    command.args(&words[1..]).env(commands::VARIABLE, &directory).env(home::VARIABLE, home::directory());
    command.env("PINFOLD_SOCKET", dial.socket()).env("PINFOLD_STATE_DIR", dial.state());
    // The new path counts for the command itself as well: `pinfold slurm -- sbatch ...`.
    command.env("PATH", path);
    Err(failed_to_execute(Path::new(program), &command.exec()))
}
