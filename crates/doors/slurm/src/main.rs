//! Slurm's commands on a single host, backed by pinfold: a program under many names (`sbatch`, `srun`, `squeue` ...),
//! or `pinfold-slurm COMMAND`. Supports the calls of workflow engines, with the answers that engines parse.
//!
//! Reading order: `options` (options of each command), `getopt` (parsing), `request` (a job's request), `launch` and
//! `inside` (conversion to a job of pinfold), `cluster`, `jobs` and `fields` (display of jobs), then the commands.
//! Absent here: decisions about jobs and their execution, done by `pinfold submit` and `pinfold run`.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

mod accounting;
mod batch_step;
mod cluster;
mod commands;
mod dependency;
mod environment;
mod fields;
mod form;
mod getopt;
mod home;
mod inside;
mod jobs;
mod launch;
mod options;
mod pattern;
mod private;
mod request;
mod sacct;
mod salloc;
mod say;
mod sbatch;
mod scancel;
mod scontrol;
mod script;
mod select;
mod sinfo;
mod squeue;
mod srun;
mod state;
mod trouble;
mod units;
mod users;
mod warning;
mod within;

use trouble::Trouble;

/// The program's own name, under which the first word says the command.
const OWN: &str = "pinfold-slurm";

type Do = fn(&[OsString]) -> Result<u8, Trouble>;

/// The function of a command; `None`: unknown name.
fn known(name: &str) -> Option<Do> {
    let command: Do = match name {
        "sbatch" => sbatch::sbatch,
        "srun" => srun::srun,
        "salloc" => salloc::salloc,
        "squeue" => squeue::squeue,
        "scancel" => scancel::scancel,
        "sinfo" => sinfo::sinfo,
        "sacct" => sacct::sacct,
        "scontrol" => scontrol::scontrol,
        "sacctmgr" => accounting::sacctmgr,
        "sshare" => accounting::sshare,
        _ => return None,
    };
    Some(command)
}

fn main() -> ExitCode {
    pinfold_sys::signals::hear_of_children();
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let called = words.first().map(Path::new).and_then(Path::file_name);
    let mut command = called.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if known(&command).is_none() {
        words.drain(..1.min(words.len()));
        command = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    }
    let rest = words.get(1..).unwrap_or_default();
    let done = match known(&command) {
        Some(execute) => execute(rest),
        None if command == inside::INSIDE => inside::inside(rest),
        None if command == srun::TASK => srun::task(rest),
        None if command == srun::FIFOS => srun::fifos(rest),
        None if command == within::DIR => within::dir(),
        None if command == within::WITHIN => within::within(rest),
        None => {
            let text = format!("{OWN} COMMAND ..., where COMMAND is one of {}", commands::NAMES.join(" "));
            Err(Trouble { status: 2, ..Trouble::new(text) })
        }
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(trouble) => {
            match command.as_str() {
                _ if !trouble.named => say::bare(&trouble.text),
                // The user called `pinfold slurm`.
                within::DIR | within::WITHIN => say::info("pinfold", &trouble.text),
                step if step.starts_with("--") => say::error("slurmstepd", &trouble.text),
                command => say::error(command, &trouble.text),
            }
            ExitCode::from(trouble.status)
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_name_is_a_command() {
        let missing = super::commands::NAMES.into_iter().find(|name| super::known(name).is_none());
        assert_eq!(missing, None);
    }
}
