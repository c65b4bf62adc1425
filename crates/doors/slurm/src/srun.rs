//! `srun`: within a job, a step of the job; otherwise a job in the foreground with a single step.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::Cluster;
use crate::commands;
use crate::dependency;
use crate::getopt::{Order, parse};
use crate::home::Home;
use crate::inside::{SPOOL, own};
use crate::launch::{self, Plan};
use crate::options;
use crate::request::Request;
use crate::say;
use crate::trouble::{Trouble, failed_to_execute, words};

mod labelled;
mod step;
mod streams;

pub(crate) use streams::{FIFOS, fifos};

/// The word before a command that runs as a task, which learns its number from pinfold.
pub(crate) const TASK: &str = "--task";
/// Set for a command that already runs in its `--chdir`.
const ENTERED: &str = "PINFOLD_SLURM_ENTERED";
/// Set for a task with labelled lines.
const LABELLED: &str = "PINFOLD_SLURM_LABELLED";

/// Runs a step, or a job.
///
/// # Errors
/// In srun's words.
pub(crate) fn srun(arguments: &[OsString]) -> Result<u8, Trouble> {
    let host = pinfold_sys::peer::host_name();
    let table = options::srun();
    if arguments.iter().any(|word| word == ":") {
        return Err(Trouble::new("heterogeneous jobs are not supported"));
    }
    let (given, operands) = parse(&table, arguments, Order::Strict).map_err(say::usage("srun"))?;
    let mut request = Request::default();
    let spool = std::env::var_os(SPOOL).map(PathBuf::from);
    let inside = own().filter(|_| std::env::var_os("SLURM_JOB_ID").is_some()).zip(spool);
    if inside.is_none() {
        request.take_environment("SLURM_", &host, |name| std::env::var(name).ok())?;
    }
    request.take(&given, &host)?;
    if let Some(what) = request.help {
        return say::help("srun", what, &table);
    }
    if operands.is_empty() {
        return Err(Trouble::new("No command given to execute."));
    }
    let around = inside.as_ref().map(|((job, _), _)| job.to_string());
    if let Some(other) = request.jobid.as_ref().filter(|&job| Some(job) != around.as_ref()) {
        return Err(Trouble::new(format!(
            "--jobid={other}: a step runs within its own job here; call srun in the script of job {other}"
        )));
    }
    if let Some(((job, member), spool)) = inside {
        return step::run(&step::Of { job, member, spool, host }, &request, &operands);
    }
    let command = Path::new(&operands[0]).file_name().unwrap_or(&operands[0]);
    let name = request.name.clone().unwrap_or_else(|| command.to_string_lossy().into_owned());
    let refused = |failure: pinfold_client::Failure| {
        Trouble::new(format!("Unable to allocate resources: {}", words(&failure)))
    };
    let mut cluster = Cluster::connect().map_err(refused)?;
    let after = dependency::after(&request.dependency, &name, &mut cluster)?;
    let line = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    let plan = launch::plan(&request, name, &after, format!("srun {line}"))?;
    // Within the job srun is called again and becomes a step; the name `srun` lets scancel recognize steps.
    let again: Vec<OsString> = [commands::directory()?.join("srun").into_os_string()]
        .into_iter()
        .chain(arguments.iter().cloned())
        .collect();
    // The job already runs in the named directory, which may be relative.
    in_the_foreground(plan, &again, request.export.as_deref(), &[(ENTERED, "1")])
}

/// Becomes `pinfold run` with this command, with additional variables.
///
/// # Errors
/// When `pinfold` cannot be executed.
pub(crate) fn in_the_foreground(
    mut plan: Plan,
    words: &[OsString],
    export: Option<&str>,
    variables: &[(&str, &str)],
) -> Result<u8, Trouble> {
    plan.label.command =
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    launch::spool(&mut plan.label, None)?;
    let mut command = launch::command("run", &plan, export)?;
    let error = command.args(words).envs(variables.iter().copied()).exec();
    Err(failed_to_execute(Path::new("pinfold"), &error))
}

/// `--task COMMAND...`: a task started by pinfold.
///
/// # Errors
/// When the command cannot be executed.
pub(crate) fn task(words: &[OsString]) -> Result<u8, Trouble> {
    let number = std::env::var("PINFOLD_TASK_ID").unwrap_or_else(|_| "0".to_owned());
    let program = words.first().ok_or_else(|| Trouble::new("no command"))?;
    let mut command = Command::new(program);
    command.args(&words[1..]).env("SLURM_PROCID", &number).env("SLURM_LOCALID", &number);
    if std::env::var_os(LABELLED).is_some() {
        command.env_remove(LABELLED);
        return step::run_labelled(number.parse().unwrap_or(0), command, Path::new(program));
    }
    let error = command.exec();
    Err(failed_to_execute(Path::new(program), &error))
}

/// The journal of this job's daemon.
fn journal() -> Home {
    Home::of(&std::env::var("PINFOLD_INSTANCE").unwrap_or_default())
}
