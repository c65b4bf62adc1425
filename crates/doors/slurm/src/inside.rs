//! The first process of a job of these commands: sets Slurm's variables, opens the job's files, and becomes the
//! script or command. With `--signal` it stays as the parent.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use pinfold_client::Dial;
use pinfold_client::outputs::{self, SUBMITTED};
use pinfold_proto::wire::Verb;
use pinfold_sys::signals;

use crate::cluster::Cluster;
use crate::commands;
use crate::environment;
use crate::home::{self, Home, JOB_FILE, Label, SCRIPT_FILE};
use crate::pattern::{Meant, expand};
use crate::trouble::{Trouble, failed_to_execute};

/// The word before a job's directory that selects this mode.
pub(crate) const INSIDE: &str = "--inside";
/// Names the directory in the job's environment.
pub(crate) const SPOOL: &str = "PINFOLD_SLURM_JOB";

/// The exit status where the script cannot be read.
const UNUSABLE: u8 = 53;
/// The signal that ends a job with unusable files: Slurm's accounting shows this as FAILED, `0:53`.
const UNOPENED: i32 = 53;

/// The job of this process: its number, and its array and index.
pub(crate) fn own() -> Option<(u64, Option<(u64, u32)>)> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let job = number("PINFOLD_JOB_ID")?;
    let index = number("PINFOLD_ARRAY_INDEX").and_then(|index| u32::try_from(index).ok());
    Some((job, number("PINFOLD_ARRAY_ID").zip(index)))
}

fn unusable(text: String) -> Trouble {
    Trouble { status: UNUSABLE, ..Trouble::new(text) }
}

/// `--inside SPOOL [ARGUMENTS...]`.
///
/// # Errors
/// When the script or command cannot be executed.
pub(crate) fn inside(arguments: &[OsString]) -> Result<u8, Trouble> {
    let spool = PathBuf::from(arguments.first().ok_or_else(|| unusable("no job is named".to_owned()))?);
    // The checks of the submission may be outdated: /tmp may have been swept since, and files planted by another
    // user.
    let text = home::read_spooled(&spool, JOB_FILE).map_err(unusable)?;
    let mut label: Label = serde_json::from_slice(&text)
        .map_err(|error| unusable(format!("{}: {error}", spool.join(JOB_FILE).display())))?;
    let (job, member) = own().ok_or_else(|| unusable("this is no job of pinfold's".to_owned()))?;
    let host = pinfold_sys::peer::host_name();
    let restarts = home::note_start(&spool, job);
    // The submitter did not know its number, or was killed before recording it.
    if !label.batch || !home::is_in_journal(&spool) {
        label.job = member.map_or(job, |(array, _)| array);
        let instance = std::env::var("PINFOLD_INSTANCE").unwrap_or_default();
        if Home::of(&instance).add(&label).is_ok() {
            home::note_in_journal(&spool);
        }
        if label.granted {
            crate::say::info("salloc", &format!("Granted job allocation {job}"));
        }
    }
    let mut variables = environment::of_job(&label, job, member, restarts, &host);
    if let Ok(cpus) = std::env::var("PINFOLD_CPUS") {
        variables.insert("SLURM_JOB_CPUS".to_owned(), cpus);
    }
    if label.exclusive
        && let Ok(topology) = pinfold_sys::discover::host()
    {
        environment::of_whole_host(&mut variables, topology.cores_within(&topology.usable()).len());
    }
    let first =
        || arguments.get(1).map(PathBuf::from).ok_or_else(|| unusable("no command is named".to_owned()));
    let program = if label.batch { spool.join(SCRIPT_FILE) } else { first()? };
    let words = if label.batch { &arguments[1..] } else { arguments.get(2..).unwrap_or_default() };
    let mut command = Command::new(&program);
    command.args(words);
    dress(&mut command, &variables, &spool);
    if label.batch {
        let user = variables.get("SLURM_JOB_USER").map(String::as_str).unwrap_or_default();
        redirect(&mut command, &label, job, member, (&host, user), restarts > 0)
            .inspect_err(|trouble| end_unopened(job, &trouble.text))?;
    }
    if let Some(wanted) = label.signal.filter(|_| label.limit_s.is_some()) {
        return crate::batch_step::attend(command, &program, &label, wanted);
    }
    let error = command.exec();
    Err(failed_to_execute(&program, &error))
}

/// Gives a command a job's environment.
fn dress(command: &mut Command, variables: &BTreeMap<String, String>, spool: &Path) {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in environment::stale(names) {
        command.env_remove(name);
    }
    command.envs(variables).env(SPOOL, spool);
    if let Some(path) = commands::path_with() {
        command.env("PATH", path);
    }
}

fn redirect(
    command: &mut Command,
    label: &Label,
    job: u64,
    member: Option<(u64, u32)>,
    (host, user): (&str, &str),
    again: bool,
) -> Result<(), Trouble> {
    let meant = Meant {
        job,
        array: member.map_or(job, |(array, _)| array),
        index: member.map(|(_, index)| index),
        user,
        name: &label.name,
        host,
        ..Meant::default()
    };
    let append = label.append || again;
    let output = expand(&label.output, &meant);
    let error = label.error.as_ref().map_or_else(|| output.clone(), |error| expand(error, &meant));
    let out = open("stdout", &output, append)?;
    let err = if error == output {
        out.try_clone().map_err(|error| unusable(format!("failed to share the output file: {error}")))?
    } else {
        open("stderr", &error, append)?
    };
    outputs::keep(SUBMITTED, Dial::new(None, true).socket(), job, false, output.as_ref(), error.as_ref());
    let input = label.input.as_ref().map_or_else(|| "/dev/null".to_owned(), |input| expand(input, &meant));
    let input = File::open(&input)
        .map_err(|error| unusable(format!("Could not open stdin file {input}: {error}")))?;
    command.stdin(input).stdout(out).stderr(err);
    Ok(())
}

/// Ends this process as Slurm ends a job with unusable files. This process's own streams have no reader, so
/// the cause goes to the job's comment, which `why`, `report` and `scontrol show job` print.
fn end_unopened(job: u64, cause: &str) {
    if let Ok(mut cluster) = Cluster::connect()
        && let Ok(jobs) = cluster.named(&[job])
    {
        let before = jobs.first().map(|job| job.comment.as_str()).filter(|text| !text.is_empty());
        let comment = before.map_or_else(|| cause.to_owned(), |before| format!("{before}; {cause}"));
        let _ = cluster.control(job, Verb::Comment(comment));
    }
    signals::send_with(std::process::id(), UNOPENED, 0);
}

/// Opens an output file; the error names `stream`. Both streams may share a file, so text is appended.
pub(crate) fn open(stream: &str, name: impl AsRef<Path>, append: bool) -> Result<File, Trouble> {
    let name = name.as_ref();
    let path = if name == Path::new("none") { Path::new("/dev/null") } else { name };
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    let file = options.open(path);
    let file = match file {
        Ok(file) if !append && file.metadata().is_ok_and(|found| found.is_file()) => {
            file.set_len(0).map(|()| file)
        }
        other => other,
    };
    file.map_err(|error| unusable(format!("Could not open {stream} file {}: {error}", path.display())))
}
