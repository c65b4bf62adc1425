//! `pinfold admin delegate`: an administrator has systemd hand the controllers of control groups down to each user's own
//! processes, so that private daemons limit, page out and weigh without root's rights.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use pinfold_client::Failure;
use pinfold_proto::ExitCode;
use pinfold_sys::peer;

use crate::print::say;

/// The directory in which systemd reads additions to the units of users' managers, and the file that this command writes.
const DROP_INS: &str = "etc/systemd/system/user@.service.d";
const NAME: &str = "50-pinfold.conf";
const TEXT: &str = "# Written by `pinfold admin delegate`; `pinfold admin delegate --undo` removes it.\n\
                    [Service]\nDelegate=cpu cpuset io memory pids\n";

#[derive(Debug, Args)]
pub(crate) struct DelegateArgs {
    /// Take the delegation back
    #[arg(long)]
    pub undo: bool,
}

/// `pinfold admin delegate`.
pub(crate) fn delegate(args: &DelegateArgs) -> Result<(), Failure> {
    let root = Path::new("/");
    possible(root, peer::own_uid()).map_err(|why| Failure::new(ExitCode::Refused, why))?;
    let file = change(root, args.undo).map_err(|error| Failure::doing(format!("/{DROP_INS}"), &error))?;
    let told = Command::new("systemctl").arg("daemon-reload").status();
    let told = told.map_err(|error| Failure::doing("systemctl daemon-reload", &error))?;
    if !told.success() {
        return Err(Failure::new(ExitCode::Failed, format!("systemctl daemon-reload: {told}")));
    }
    let (done, from) = if args.undo { ("removed", "loses") } else { ("written", "has") };
    say(&format!(
        "{} is {done}; a user {from} the controllers once the user's manager starts anew, with the first login after all \
         sessions have ended. In a session of ssh `systemd-run --user --scope -p Delegate=yes $SHELL` gives a shell that \
         has them",
        file.display()
    ));
    Ok(())
}

/// Whether this host can delegate, by user `uid`; the error names the way out.
fn possible(root: &Path, uid: u32) -> Result<(), &'static str> {
    if uid != 0 {
        Err("only root can delegate control groups; ask an administrator for `pinfold admin delegate`")
    } else if !root.join("run/systemd/system").is_dir() {
        Err("no systemd runs here that could hand control groups to users; run the daemon as root")
    } else if !root.join("sys/fs/cgroup/cgroup.controllers").is_file() {
        Err("this host has control groups of the first generation, which users cannot have; start it with \
             systemd.unified_cgroup_hierarchy=1")
    } else {
        Ok(())
    }
}

/// Writes or removes the addition and returns its file. A second call changes nothing.
fn change(root: &Path, undo: bool) -> io::Result<PathBuf> {
    let directory = root.join(DROP_INS);
    let file = directory.join(NAME);
    if undo {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    } else {
        fs::create_dir_all(&directory)?;
        fs::write(&file, TEXT)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_addition_is_written_and_removed() {
        let root = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let file = change(root.path(), false).unwrap();
            assert!(fs::read_to_string(file).unwrap().ends_with("Delegate=cpu cpuset io memory pids\n"));
        }
        for _ in 0..2 {
            assert!(!change(root.path(), true).unwrap().exists());
        }
    }

    #[test]
    fn a_host_that_cannot_delegate_is_told_why() {
        let root = tempfile::tempdir().unwrap();
        let why = |uid| possible(root.path(), uid).unwrap_err();
        assert!(why(7).contains("only root"));
        assert!(why(0).contains("no systemd"));
        fs::create_dir_all(root.path().join("run/systemd/system")).unwrap();
        assert!(why(0).contains("first generation"));
        fs::create_dir_all(root.path().join("sys/fs/cgroup")).unwrap();
        fs::write(root.path().join("sys/fs/cgroup/cgroup.controllers"), "cpu").unwrap();
        assert_eq!(possible(root.path(), 0), Ok(()));
    }
}
