//! Turns a request into `pinfold submit` or `pinfold run`: the files for the job's first process, and the command
//! line.
//!
//! Executes the program beside this program, never a program from the search path.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use pinfold_sys::spawn::{self, Side};

use crate::batch_step::TOLD;
use crate::cluster::Cluster;
use crate::home::{self, JOB_FILE, Label, SCRIPT_FILE};
use crate::inside::INSIDE;
use crate::request::{Memory, Request};
use crate::script::Script;
use crate::trouble::Trouble;
use crate::units::{MEMORY_MAX_BYTES, now_s, whole};

/// Every so many jobs, the scripts of ended jobs are removed.
const SWEEP_EVERY: u64 = 64;

/// The program `pinfold` beside this program.
///
/// # Errors
/// When it does not exist.
pub(crate) fn pinfold() -> Result<PathBuf, Trouble> {
    let own = std::env::current_exe().map_err(|error| format!("failed to find this program: {error}"))?;
    let beside = own.with_file_name("pinfold");
    match beside.is_file() {
        true => Ok(beside),
        false => Err(Trouble::new(format!("{} is not there", beside.display()))),
    }
}

/// A job to be handed over.
#[derive(Debug)]
pub(crate) struct Plan {
    pub label: Label,
    pub options: Vec<OsString>,
}

/// Turns a request into a label and pinfold's options. `after`: the predecessors, in the form of `--after`.
///
/// # Errors
/// When the current directory is unknown.
pub(crate) fn plan(
    request: &Request,
    name: String,
    after: &str,
    submit_line: String,
) -> Result<Plan, Trouble> {
    let here =
        std::env::current_dir().map_err(|error| format!("Unable to tell the current directory: {error}"))?;
    let directory = request.directory.as_ref().map_or_else(|| here.clone(), |dir| here.join(dir));
    let default = if request.array.is_some() { "slurm-%A_%a.out" } else { "slurm-%j.out" };
    let label = Label {
        submitted_s: whole(now_s()),
        array: request.array.clone(),
        name,
        partition: request.partition.clone(),
        account: request.account.clone(),
        qos: request.qos.clone(),
        limit_s: request.limit(),
        ntasks: request.tasks(),
        cpus_per_task: request.cpus_per_task.unwrap_or(1),
        cpus_per_task_said: request.cpus_per_task.is_some(),
        ntasks_per_node: request.ntasks_per_node,
        mem_bytes: request.memory_bytes().filter(|&bytes| bytes > 0),
        mem_per_cpu: matches!(request.mem, Some(Memory::Cpu(_))),
        dependency: request.dependency.clone(),
        // All memory of the host means the whole host.
        exclusive: request.exclusive || request.mem == Some(Memory::Node(0)),
        requeue: request.requeue == Some(true),
        no_requeue: request.requeue == Some(false),
        directory: directory.to_string_lossy().into_owned(),
        output: request.output.clone().unwrap_or_else(|| default.to_owned()),
        error: request.error.clone(),
        input: request.input.clone(),
        signal: request.warning,
        append: request.append.unwrap_or(false),
        submit_directory: here.to_string_lossy().into_owned(),
        submit_host: pinfold_sys::peer::host_name(),
        submit_line: submit_line.chars().take(4096).collect(),
        ..Label::default()
    };
    let options = options(request, &label, after)?;
    Ok(Plan { label, options })
}

fn options(request: &Request, label: &Label, after: &str) -> Result<Vec<OsString>, Trouble> {
    let name = within(&label.name, 250);
    let mut words = vec![format!("--name={name}"), format!("--cores={}", request.cores())];
    if let Some(bytes) = label.mem_bytes {
        if bytes > MEMORY_MAX_BYTES {
            let text = format!(
                "Invalid --mem-per-cpu specification: {} CPUs need 8388608T or more",
                request.cores()
            );
            return Err(Trouble::new(text));
        }
        words.push(format!("--mem={}KiB", bytes / 1024));
    }
    for (asked, option) in
        [(request.hold, "--hold"), (label.requeue, "--requeue"), (label.exclusive, "--exclusive")]
    {
        words.extend(asked.then(|| option.to_owned()));
    }
    if let Some(limit) = label.limit_s {
        words.push(format!("--timeout={limit}s"));
        if let Some(signal) = label.signal.filter(|signal| signal.comes_later(label.limit_s)) {
            words.push(format!("--timeout-signal={TOLD}@{}s", signal.before_s));
        }
    }
    if let Some(at) = request.begin_s {
        words.push(format!("--begin={}", crate::units::utc(at)));
    }
    if !request.comment.is_empty() {
        words.push(format!("--comment={}", within(&request.comment, 1000)));
    }
    words.extend(request.array.as_ref().map(|array| format!("--array={array}")));
    words.extend(Some(after).filter(|after| !after.is_empty()).map(|after| format!("--after={after}")));
    Ok(words.into_iter().map(OsString::from).collect())
}

/// As much of a text as so many bytes hold.
fn within(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[..end]
}

/// Writes the script and the label for the job's first process.
///
/// # Errors
/// When the files cannot be written.
pub(crate) fn spool(label: &mut Label, script: Option<&Script>) -> Result<PathBuf, Trouble> {
    let spool = home::new_spool(&home::directory())?;
    label.spool.clone_from(&spool);
    let write = |name: &str, mode: u32, text: &[u8]| {
        let path = spool.join(name);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        file.as_mut()
            .map_err(|error| std::io::Error::from(error.kind()))
            .and_then(|file| file.write_all(text))
    };
    let text = serde_json::to_vec(label).map_err(|error| error.to_string())?;
    let written = write(JOB_FILE, 0o600, &text)
        .and_then(|()| script.map_or(Ok(()), |script| write(SCRIPT_FILE, 0o700, &script.text)));
    written.map_err(|error| {
        let _ = std::fs::remove_dir_all(&spool);
        Trouble::new(format!("failed to keep the job's script in {}: {error}", spool.display()))
    })?;
    Ok(spool)
}

/// `pinfold VERB OPTIONS -- pinfold-slurm INSIDE SPOOL`, in the job's directory, with its environment.
///
/// # Errors
/// When a program is missing, or the directory cannot be entered.
pub(crate) fn command(verb: &str, plan: &Plan, export: Option<&str>) -> Result<Command, Trouble> {
    let own = std::env::current_exe().map_err(|error| format!("failed to find this program: {error}"))?;
    let mut command = Command::new(pinfold()?);
    command.arg(verb).args(&plan.options);
    if verb == "submit" {
        command.args(["--output=/dev/null", "--error=/dev/null", "--stay"]);
    }
    command.arg("--").arg(own).arg(INSIDE).arg(&plan.label.spool);
    if !Path::new(&plan.label.directory).is_dir() {
        let directory = &plan.label.directory;
        return Err(Trouble::new(format!("Unable to chdir to {directory}: No such file or directory")));
    }
    command.current_dir(&plan.label.directory);
    crate::environment::export(&mut command, export);
    Ok(command)
}

/// Occasionally removes the files of ended jobs, in a separate process so that the submission does not wait. Both
/// processes return, with nothing left to do.
pub(crate) fn sweep(cluster: &mut Cluster, job: u64) {
    if !job.is_multiple_of(SWEEP_EVERY) || !matches!(spawn::fork_away(), Ok(Side::Child)) {
        return;
    }
    // Readers of this command's output must not wait for the sweep.
    if spawn::null_streams().is_ok() {
        sweep_now(cluster);
    }
}

fn sweep_now(cluster: &mut Cluster) {
    // A single sweep is enough, and two sweeps would shorten the same journal.
    let Ok(_lock) = cluster.home.lock_sweep() else { return };
    let Ok(view) = cluster.host() else { return };
    let live = view.jobs.iter().map(|it| it.array_id.unwrap_or(it.job)).collect();
    cluster.home.sweep(&live);
}
