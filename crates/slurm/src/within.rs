//! The directory that has these commands and nothing else, and programs started with it before all others in their search
//! path: `pinfold slurm --dir`, `pinfold slurm -- COMMAND`.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use pinfold_client::Dial;

use crate::environment::COMMANDS;
use crate::home;
use crate::inside::failed_to_execute;
use crate::say;
use crate::trouble::Trouble;

/// The words by which `pinfold slurm` calls.
pub(crate) const DIR: &str = "--dir";
/// And to start a command.
pub(crate) const WITHIN: &str = "--within";

/// Makes the directory where it is missing, and puts right what is in it.
pub(crate) fn directory(names: &[&str]) -> Result<PathBuf, Trouble> {
    let own = std::env::current_exe().map_err(|error| format!("failed to find this program: {error}"))?;
    let directory = home::directory().join("bin");
    let no = |error: io::Error| Trouble::new(format!("failed to make {}: {error}", directory.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(no)?;
    let found = fs::symlink_metadata(&directory).map_err(no)?;
    if found.uid() != pinfold_sys::peer::own_uid() || found.mode() & 0o022 != 0 {
        let text = format!("{} can be written by others; set {}", directory.display(), home::VARIABLE);
        return Err(Trouble::new(text));
    }
    for name in names {
        link(&own, &directory.join(name)).map_err(no)?;
    }
    Ok(directory)
}

fn link(to: &Path, name: &Path) -> io::Result<()> {
    if fs::read_link(name).is_ok_and(|found| found == to) {
        return Ok(());
    }
    // In one step, for others may be calling it.
    let new = name.with_extension(format!("{}", std::process::id()));
    symlink(to, &new)?;
    fs::rename(&new, name)
}

/// Prints the directory.
pub(crate) fn dir(names: &[&str]) -> Result<u8, Trouble> {
    say::out(&format!("{}\n", directory(names)?.display())).map(|()| 0)
}

/// Becomes a command that finds these commands first. What says where the daemon and the jobs' records are is named in so
/// many words, for some engines drop the variables from which that follows.
pub(crate) fn within(names: &[&str], words: &[OsString]) -> Result<u8, Trouble> {
    let words = if words.first().is_some_and(|word| word == "--") { &words[1..] } else { words };
    let program =
        words.first().ok_or_else(|| Trouble::new("no command is named: pinfold slurm -- COMMAND"))?;
    let directory = directory(names)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let rest = std::env::split_paths(&path).filter(|dir| *dir != directory);
    let path = std::env::join_paths([directory.clone()].into_iter().chain(rest))
        .map_err(|error| Trouble::new(format!("{}: {error}", directory.display())))?;
    let dial = Dial::new(None, false);
    let mut command = Command::new(program);
    command.args(&words[1..]).env(COMMANDS, &directory).env(home::VARIABLE, home::directory());
    command.env("PINFOLD_SOCKET", dial.socket()).env("PINFOLD_STATE_DIR", dial.state());
    // The new path counts for the command itself as well: `pinfold slurm -- sbatch ...`.
    command.env("PATH", path);
    Err(failed_to_execute(Path::new(program), &command.exec()))
}
