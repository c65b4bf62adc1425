//! The names of the commands, and a directory with only these commands. Absent here: the commands themselves.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::home;
use crate::trouble::Trouble;

/// The names of the commands.
pub(crate) const NAMES: [&str; 10] =
    ["sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "sacct", "scontrol", "sacctmgr", "sshare"];

/// Names the directory of the commands, see `pinfold slurm --dir`.
pub(crate) const VARIABLE: &str = "PINFOLD_SLURM_VARIABLE";

/// Makes the directory if missing, and repairs its links.
pub(crate) fn directory() -> Result<PathBuf, Trouble> {
    let own = std::env::current_exe().map_err(|error| format!("failed to find this program: {error}"))?;
    let directory = home::directory().join("bin");
    let no = |error: io::Error| Trouble::new(format!("failed to make {}: {error}", directory.display()));
    home::make(&directory)?;
    for name in NAMES {
        link(&own, &directory.join(name)).map_err(no)?;
    }
    Ok(directory)
}

fn link(to: &Path, name: &Path) -> io::Result<()> {
    if fs::read_link(name).is_ok_and(|found| found == to) {
        return Ok(());
    }
    // In a single step, because other processes may be calling the command.
    let new = name.with_extension(format!("{}", std::process::id()));
    symlink(to, &new)?;
    fs::rename(&new, name)
}

/// The search path with the directory of these commands first, so that a script's `srun` is ours.
pub(crate) fn path_with() -> Option<OsString> {
    let commands = found()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let rest = std::env::split_paths(&path).filter(|dir| *dir != commands);
    std::env::join_paths([commands.clone()].into_iter().chain(rest)).ok()
}

/// The directory of these commands: named by `pinfold slurm`, else the directory of the called command.
pub(crate) fn found() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|dir| !dir.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let own = std::env::current_exe().ok()?;
    let called = PathBuf::from(std::env::args_os().next()?);
    let beside = called.parent().filter(|dir| !dir.as_os_str().is_empty()).map(Path::to_path_buf);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_ours = |dir: &PathBuf| {
        dir.is_absolute() && std::fs::canonicalize(dir.join("sbatch")).is_ok_and(|found| found == own)
    };
    beside.into_iter().chain(std::env::split_paths(&path)).find(is_ours)
}
