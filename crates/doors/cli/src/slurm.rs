//! `pinfold slurm`: Slurm's commands for programs that call them. They are a separate program, `pinfold-slurm`, in the
//! same directory; this module calls it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;
use pinfold_client::{Failure, NO_AUTOSTART};
use pinfold_proto::ExitCode;
use pinfold_sys::spawn;

use crate::args::Reach;
use crate::print::is_open;

#[derive(Debug, Args)]
pub(crate) struct SlurmArgs {
    /// Print the directory that has sbatch, squeue and the others, and nothing else
    #[arg(long, conflicts_with = "command", required_unless_present = "command")]
    pub dir: bool,
    /// The command that is to find them first, and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Becomes `pinfold-slurm`; comes back only with why that cannot be.
pub(crate) fn slurm(reach: &Reach, args: &SlurmArgs) -> Failure {
    // The program that prints it has `/dev/null` in place of a closed output.
    if args.dir
        && let Err(closed) = is_open()
    {
        return closed;
    }
    let beside = std::env::current_exe().map(|own| own.with_file_name("pinfold-slurm"));
    let program = match beside {
        Ok(path) if path.is_file() => path,
        Ok(path) => {
            let text = format!("{} is not there: it belongs beside pinfold", path.display());
            return Failure::new(ExitCode::NotFound, text);
        }
        Err(error) => return Failure::doing("failed to find pinfold", &error),
    };
    let mut command = Command::new(&program);
    match args.dir {
        true => command.arg("--dir"),
        false => command.args(["--within", "--"]).args(&args.command),
    };
    if let Some(socket) = &reach.socket {
        command.env("PINFOLD_SOCKET", std::path::absolute(socket).unwrap_or_else(|_| socket.clone()));
    }
    if reach.no_autostart {
        command.env(NO_AUTOSTART, "1");
    }
    let error = command.exec();
    Failure::new(ExitCode::NotExecutable, spawn::refusal(&program, &error))
}
