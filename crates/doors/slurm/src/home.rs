//! Recorded facts of jobs in Slurm's words that the daemon does not keep: labels, the spooled script, steps,
//! cancellations. JSON lines in the user's own journal, a journal per daemon; the last line about a job counts.
//!
//! Absent here: facts kept by the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use pinfold_sys::{paths, peer};
use serde::{Deserialize, Serialize};

use crate::private;
use crate::warning::Warning;

/// Names the directory, for programs started without the XDG variables.
pub(crate) const VARIABLE: &str = "PINFOLD_SLURM_DIR";

/// The files in a job's directory: its label,
pub(crate) const JOB_FILE: &str = "job.json";
/// and its script.
pub(crate) const SCRIPT_FILE: &str = "slurm_script";

/// Above this size the older half of a journal is dropped, except for living jobs.
const JOURNAL_MAX_BYTES: u64 = 32 << 20;

/// How long a spooled script is kept at least; the second is for scripts of this daemon that no journal names.
const SPOOL_AGE: Duration = Duration::from_secs(60);
const SPOOL_AGE_UNKNOWN: Duration = Duration::from_secs(24 * 3600);

/// The recorded options of a job in Slurm's words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Label {
    /// The job's number, or the array's.
    pub job: u64,
    /// When it was submitted, in Unix seconds.
    pub submitted_s: u64,
    /// The array's indexes as typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub partition: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub account: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub qos: String,
    /// `None`: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<u64>,
    pub ntasks: u32,
    pub cpus_per_task: u32,
    /// Whether `--cpus-per-task` was said.
    pub cpus_per_task_said: bool,
    /// The value of `--ntasks-per-node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ntasks_per_node: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_bytes: Option<u64>,
    /// Whether memory was asked for by CPU.
    pub mem_per_cpu: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub dependency: String,
    pub exclusive: bool,
    /// The host may requeue the job when memory is short.
    pub requeue: bool,
    /// Requeueing is refused, even for the user.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_requeue: bool,
    /// The script or command for display.
    pub command: String,
    pub directory: String,
    /// Path patterns of its streams.
    pub output: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    pub append: bool,
    pub submit_directory: String,
    pub submit_host: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub submit_line: String,
    /// The directory of its script.
    pub spool: PathBuf,
    /// The signal requested before its time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<Warning>,
    /// Whether its number is announced at the start (salloc).
    pub granted: bool,
    /// Whether sbatch submitted a script; otherwise a command of srun or salloc.
    pub batch: bool,
}

impl Label {
    /// The numbers of jobs in its dependency.
    pub(crate) fn named_in_dependency(&self) -> impl Iterator<Item = u64> {
        let parts = self.dependency.split([',', ':']).map(|part| part.split('_').next().unwrap_or(part));
        parts.filter_map(|part| part.parse().ok())
    }

    /// Whether it starts after all earlier jobs of its name.
    pub(crate) fn is_singleton(&self) -> bool {
        self.dependency.split(',').any(|part| part.split(':').next() == Some("singleton"))
    }
}

/// An ended step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub job: u64,
    pub step: u32,
    pub name: String,
    pub ntasks: u32,
    pub cpus: u32,
    pub started_s: f64,
    pub ended_s: f64,
    pub exit_code: i32,
    pub signal: i32,
    pub cpu_s: f64,
    pub rss_peak_bytes: u64,
}

/// A line of a journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Job(Box<Label>),
    Step(Step),
    Cancelled { job: u64, at_s: f64 },
    Set { job: u64, key: String, value: String },
}

/// The content of a journal.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub labels: BTreeMap<u64, Rc<Label>>,
    pub steps: BTreeMap<u64, Vec<Step>>,
    /// Time of each cancellation, in Unix seconds.
    pub cancelled: BTreeMap<u64, f64>,
}

/// This user's directory, and a daemon's journal in it.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    directory: PathBuf,
    journal: PathBuf,
}

/// The directory for this user's records. Without a usable home or a named place: a private directory below `/tmp`;
/// for root, root's home, because below `/tmp` another user could create the directory first.
pub(crate) fn directory() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name);
    let named = variable(VARIABLE).map(PathBuf::from).filter(|path| path.is_absolute());
    named
        .or_else(|| Some(paths::user_state(variable)?.join("slurm")))
        .unwrap_or_else(|| homeless(peer::own_uid()))
}

/// The directory of a user without a home in the environment.
fn homeless(uid: u32) -> PathBuf {
    match uid {
        0 => PathBuf::from("/root/.local/state/pinfold/slurm"),
        uid => PathBuf::from(format!("/tmp/pinfold-{uid}/slurm")),
    }
}

/// Makes a directory if missing; see [`private::make`].
///
/// # Errors
/// With the part of the path that other users can replace, and the way out.
pub(crate) fn make(directory: &Path) -> Result<(), String> {
    private::make(directory).map_err(|why| refusal(directory, &why))
}

fn refusal(directory: &Path, why: &str) -> String {
    format!("{} is not safe to use: {why}; set {VARIABLE} to a directory of your own", directory.display())
}

/// Reads a file of a job's directory, which no other user can have changed.
///
/// # Errors
/// With the fault.
pub(crate) fn read_spooled(spool: &Path, name: &str) -> Result<Vec<u8>, String> {
    private::check(spool)?;
    let path = spool.join(name);
    let mut text = Vec::new();
    let read =
        private::open(OpenOptions::new().read(true), &path).and_then(|mut file| file.read_to_end(&mut text));
    read.map(|_| text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes a directory for a new job's script below the user's directory, readable only by the user.
///
/// # Errors
/// With the path, when it cannot be made or the parent belongs to another user.
pub(crate) fn new_spool(directory: &Path) -> Result<PathBuf, String> {
    let no = |path: &Path, error: io::Error| format!("failed to make {}: {error}", path.display());
    let above = directory.join("spool");
    make(&above)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for round in 0..100 {
        let name = format!("{:x}-{:x}-{round}", now.as_nanos(), std::process::id());
        let spool = above.join(name);
        match DirBuilder::new().mode(0o700).create(&spool) {
            Ok(()) => return Ok(spool),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(no(&spool, error)),
        }
    }
    Err(format!("failed to find a free name in {}", above.display()))
}

/// Notes that the journal has the label of this directory's job, by removing the write permission of the label's
/// file: no further update is needed, and no additional file.
pub(crate) fn note_in_journal(spool: &Path) {
    let _ = fs::set_permissions(spool.join(JOB_FILE), Permissions::from_mode(0o400));
}

/// Whether [`note_in_journal`] was called.
pub(crate) fn is_in_journal(spool: &Path) -> bool {
    fs::metadata(spool.join(JOB_FILE)).is_ok_and(|found| found.permissions().mode() & 0o200 == 0)
}

/// The most starts of a job that are counted.
const STARTS_MAX: u32 = 1000;

fn start_file(spool: &Path, job: u64, count: u32) -> PathBuf {
    spool.join(format!("start-{job}-{count}"))
}

/// Records a start as a file in the job's directory; returns the number of earlier starts.
pub(crate) fn note_start(spool: &Path, job: u64) -> u32 {
    let make = |count: &u32| {
        let name = start_file(spool, job, *count);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(name).is_ok()
    };
    (0..STARTS_MAX).find(make).unwrap_or(0)
}

/// The number of restarts, as far as the job's directory exists.
pub(crate) fn restarts(spool: &Path, job: u64) -> u32 {
    (1..STARTS_MAX)
        .take_while(|&count| start_file(spool, job, count).exists())
        .count()
        .try_into()
        .unwrap_or(0)
}

impl Home {
    /// The home for this daemon.
    pub(crate) fn of(instance: &str) -> Self {
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let name: String = instance.chars().map(safe).collect();
        let directory = directory();
        Self { journal: directory.join(format!("jobs-{name}.jsonl")), directory }
    }

    /// Adds a job.
    pub(crate) fn add(&self, label: &Label) -> io::Result<()> {
        self.append(&Line::Job(Box::new(label.clone())))
    }

    /// Adds an ended step.
    pub(crate) fn add_step(&self, step: &Step) -> io::Result<()> {
        self.append(&Line::Step(step.clone()))
    }

    /// Records a cancellation.
    pub(crate) fn cancelled(&self, job: u64, at_s: f64) -> io::Result<()> {
        self.append(&Line::Cancelled { job, at_s })
    }

    /// Changes a label.
    pub(crate) fn set(&self, job: u64, key: &str, value: &str) -> io::Result<()> {
        self.append(&Line::Set { job, key: key.to_owned(), value: value.to_owned() })
    }

    fn append(&self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        make(&self.directory).map_err(io::Error::other)?;
        let mut file =
            private::open(OpenOptions::new().append(true).create(true).mode(0o600), &self.journal)?;
        // A single call, because the kernel keeps appended lines of several writers apart.
        file.write_all(&text)
    }

    /// Reads the journal. A missing journal is empty; torn lines are skipped.
    pub(crate) fn read(&self) -> Known {
        let read = || match fs::symlink_metadata(&self.journal) {
            Err(_) => Ok(Known::default()),
            Ok(_) => read_journal(&self.directory, &self.journal),
        };
        read().unwrap_or_else(|why| {
            crate::say::bare(&format!(
                "what was said of jobs is not read: {}",
                refusal(&self.directory, &why)
            ));
            Known::default()
        })
    }

    /// The job directories named by other daemons' journals; `None` without other journals.
    fn named_by_others(&self) -> Result<Option<BTreeSet<PathBuf>>, String> {
        let failed = |error: io::Error| format!("failed to look at {}: {error}", self.directory.display());
        let mut named: Option<BTreeSet<PathBuf>> = None;
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path != self.journal && name.starts_with("jobs-") && name.ends_with(".jsonl") {
                let known = read_journal(&self.directory, &path)?;
                let spools = known.labels.values().map(|label| label.spool.clone());
                named.get_or_insert_default().extend(spools);
            }
        }
        Ok(named)
    }

    /// Locks the sweep until the file is closed.
    ///
    /// # Errors
    /// While another process has the lock, or when the file cannot be made.
    pub(crate) fn lock_sweep(&self) -> io::Result<File> {
        let path = self.journal.with_extension("sweep");
        let file = private::open(OpenOptions::new().write(true).create(true).mode(0o600), &path)?;
        file.try_lock()?;
        Ok(file)
    }

    /// Removes the scripts of ended jobs, and shortens a long journal. `live`: the numbers of living jobs and arrays,
    /// without the arrays' members.
    ///
    /// Keeps a script named by another daemon's journal; also keeps a script that no journal names, unless only this
    /// daemon's journal exists and names each living job. Removes no script when a journal is unreadable.
    pub(crate) fn sweep(&self, live: &BTreeSet<u64>) {
        let above = self.directory.join("spool");
        if private::check(&above).is_err() {
            return;
        }
        let Ok(known) = read_journal(&self.directory, &self.journal) else { return };
        let Ok(others) = self.named_by_others() else { return };
        let spools: BTreeMap<&Path, u64> =
            known.labels.values().map(|label| (label.spool.as_path(), label.job)).collect();
        let each_is_named = live.iter().all(|job| known.labels.contains_key(job));
        for entry in fs::read_dir(&above).into_iter().flatten().flatten() {
            let path = entry.path();
            let age =
                entry.metadata().and_then(|found| found.modified()).ok().and_then(|at| at.elapsed().ok());
            let least = match spools.get(path.as_path()) {
                _ if others.as_ref().is_some_and(|named| named.contains(&path)) => continue,
                Some(job) if live.contains(job) => continue,
                Some(_) => SPOOL_AGE,
                None if others.is_none() && each_is_named => SPOOL_AGE_UNKNOWN,
                None => continue,
            };
            if age.is_some_and(|age| age >= least) {
                let _ = fs::remove_dir_all(&path);
            }
        }
        if fs::metadata(&self.journal).is_ok_and(|found| found.len() > JOURNAL_MAX_BYTES) {
            let _ = self.shorten(live);
        }
    }

    /// Lines added at the moment of the exchange may be lost.
    fn shorten(&self, live: &BTreeSet<u64>) -> io::Result<()> {
        let mut text = Vec::new();
        private::open(OpenOptions::new().read(true), &self.journal)?.read_to_end(&mut text)?;
        let half = text.len() / 2;
        let mut kept = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            at += line.len();
            let is_live =
                || matches!(serde_json::from_slice(line), Ok(Line::Job(label)) if live.contains(&label.job));
            if at > half || is_live() {
                kept.extend_from_slice(line);
            }
        }
        let beside = self.journal.with_extension("new");
        // Truncated only after the check that the file is our own.
        let mut new = private::open(OpenOptions::new().write(true).create(true).mode(0o600), &beside)?;
        new.set_len(0)?;
        new.write_all(&kept)?;
        fs::rename(&beside, &self.journal)
    }
}

/// The content of a journal that no other user can have written.
fn read_journal(directory: &Path, journal: &Path) -> Result<Known, String> {
    private::check(directory)?;
    let mut text = Vec::new();
    let read = private::open(OpenOptions::new().read(true), journal)
        .and_then(|mut file| file.read_to_end(&mut text));
    read.map_err(|error| format!("{}: {error}", journal.display()))?;
    let mut known = Known::default();
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        if let Ok(line) = serde_json::from_slice(line) {
            known.take(line);
        }
    }
    Ok(known)
}

impl Known {
    fn take(&mut self, line: Line) {
        match line {
            Line::Job(label) => {
                // A lost store restarts at low numbers, so older records of this number may belong to another job.
                let since_s = std::time::Duration::from_secs(label.submitted_s).as_secs_f64();
                if self.cancelled.get(&label.job).is_some_and(|at_s| *at_s < since_s) {
                    self.cancelled.remove(&label.job);
                }
                if let Some(steps) = self.steps.get_mut(&label.job) {
                    steps.retain(|step| step.started_s >= since_s);
                }
                self.labels.insert(label.job, Rc::new(*label));
            }
            Line::Step(step) => self.steps.entry(step.job).or_default().push(step),
            Line::Cancelled { job, at_s } => drop(self.cancelled.insert(job, at_s)),
            Line::Set { job, key, value } => {
                let label =
                    self.labels.entry(job).or_insert_with(|| Rc::new(Label { job, ..Label::default() }));
                let label = Rc::make_mut(label);
                match key.as_str() {
                    "partition" => label.partition = value,
                    "account" => label.account = value,
                    "qos" => label.qos = value,
                    "name" => label.name = value,
                    "requeue" => label.no_requeue = value == "0",
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
