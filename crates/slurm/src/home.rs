//! What is known of jobs in Slurm's words and not kept by the daemon: labels, the spooled script, steps, cancellations.
//! Lines of JSON in a journal of the user's own, one journal for each daemon; the last word on a job counts.
//!
//! Absent here: anything the daemon knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use pinfold_sys::peer;
use serde::{Deserialize, Serialize};

use crate::warning::Warning;

/// Names the directory, so that programs which are started without the variables of XDG find it too.
pub(crate) const VARIABLE: &str = "PINFOLD_SLURM_DIR";

/// Above this the older half of a journal goes, but for jobs that are not over.
const JOURNAL_MAX_BYTES: u64 = 32 << 20;

/// How long a spooled script is kept at least, and one that no journal names.
const SPOOL_AGE: Duration = Duration::from_secs(60);
const SPOOL_AGE_UNKNOWN: Duration = Duration::from_secs(24 * 3600);

/// What is said of a job in Slurm's words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Label {
    /// The job, of an array its number.
    pub job: u64,
    /// When it was asked for, in Unix seconds.
    pub submitted_s: u64,
    /// The array as it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub partition: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub account: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub qos: String,
    /// Nothing: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<u64>,
    pub ntasks: u32,
    pub cpus_per_task: u32,
    /// Whether `--cpus-per-task` was said.
    pub cpus_per_task_said: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_bytes: Option<u64>,
    /// Whether memory was asked for by CPU.
    pub mem_per_cpu: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub dependency: String,
    pub exclusive: bool,
    /// The host may end it for others' memory, to begin it anew.
    pub requeue: bool,
    /// Nobody may, its user neither.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_requeue: bool,
    /// The script or command, as people know it.
    pub command: String,
    pub directory: String,
    /// Where its streams go, with patterns.
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
    /// Where its script is.
    pub spool: PathBuf,
    /// The signal that it wants before its time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<Warning>,
    /// Whether its number is said as it starts (salloc).
    pub granted: bool,
    /// Whether it is a script that sbatch took; else a command of srun's or salloc's.
    pub batch: bool,
}

impl Label {
    /// The jobs that its dependency names by numbers.
    pub(crate) fn named_in_dependency(&self) -> impl Iterator<Item = u64> {
        let parts = self.dependency.split([',', ':']).map(|part| part.split('_').next().unwrap_or(part));
        parts.filter_map(|part| part.parse().ok())
    }
}

/// A step that ended.
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

/// All that a journal says.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub labels: BTreeMap<u64, Rc<Label>>,
    pub steps: BTreeMap<u64, Vec<Step>>,
    /// When each was cancelled, in Unix seconds.
    pub cancelled: BTreeMap<u64, f64>,
}

/// The directory of this user's, and the journal of one daemon in it.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    directory: PathBuf,
    journal: PathBuf,
}

/// The directory for what this user's commands keep.
pub(crate) fn directory() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|text| text.as_bytes().starts_with(b"/"));
    let state = || {
        let home = || named("HOME").map(|home| PathBuf::from(home).join(".local/state"));
        named("XDG_STATE_HOME").map(PathBuf::from).or_else(home)
    };
    let below = |state: PathBuf| state.join("pinfold/slurm");
    let private = || PathBuf::from(format!("/tmp/pinfold-{}/slurm", peer::own_uid()));
    named(VARIABLE).map(PathBuf::from).or_else(|| state().map(below)).unwrap_or_else(private)
}

/// Makes a directory for a new job's script, in the one for what this user's commands keep; nobody else can look into it.
///
/// # Errors
/// With the path, when it cannot be made, or the directory above is somebody else's.
pub(crate) fn new_spool(directory: &Path) -> Result<PathBuf, String> {
    let no = |path: &Path, error: io::Error| format!("failed to make {}: {error}", path.display());
    let above = directory.join("spool");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&above);
    made.map_err(|error| no(&above, error))?;
    let found = fs::symlink_metadata(&above).map_err(|error| no(&above, error))?;
    if found.uid() != peer::own_uid() || found.mode() & 0o022 != 0 {
        return Err(format!("{} can be written by others; set {VARIABLE}", above.display()));
    }
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

/// The most starts of a job that are counted.
const STARTS_MAX: u32 = 1000;

fn start_file(spool: &Path, job: u64, count: u32) -> PathBuf {
    spool.join(format!("start-{job}-{count}"))
}

/// Notes that a job starts, as a file in its directory; gives how often it was started before.
pub(crate) fn note_start(spool: &Path, job: u64) -> u32 {
    let make = |count: &u32| {
        let name = start_file(spool, job, *count);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(name).is_ok()
    };
    (0..STARTS_MAX).find(make).unwrap_or(0)
}

/// How often a job was started again, as far as its directory is there.
pub(crate) fn restarts(spool: &Path, job: u64) -> u32 {
    (1..STARTS_MAX)
        .take_while(|&count| start_file(spool, job, count).exists())
        .count()
        .try_into()
        .unwrap_or(0)
}

impl Home {
    /// The one for this daemon.
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

    /// Adds a step that ended.
    pub(crate) fn add_step(&self, step: &Step) -> io::Result<()> {
        self.append(&Line::Step(step.clone()))
    }

    /// Writes down that a job was cancelled.
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
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.journal)?;
        // One call: the kernel puts lines of several writers one behind the other.
        file.write_all(&text)
    }

    /// All that is known. A journal that is not there says nothing; a line that is torn is left out.
    pub(crate) fn read(&self) -> Known {
        let mut text = Vec::new();
        let opened = File::open(&self.journal).and_then(|mut file| file.read_to_end(&mut text));
        if opened.is_err() {
            return Known::default();
        }
        let mut known = Known::default();
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            if let Ok(line) = serde_json::from_slice(line) {
                known.take(line);
            }
        }
        known
    }

    /// Removes the scripts of jobs that are over; shortens a journal that is long. `live`: the numbers of the jobs, and of
    /// the arrays of jobs, that are not over.
    pub(crate) fn sweep(&self, live: &BTreeSet<u64>) {
        let known = self.read();
        let spools: BTreeMap<&Path, u64> =
            known.labels.values().map(|label| (label.spool.as_path(), label.job)).collect();
        let above = self.directory.join("spool");
        for entry in fs::read_dir(&above).into_iter().flatten().flatten() {
            let path = entry.path();
            let age =
                entry.metadata().and_then(|found| found.modified()).ok().and_then(|at| at.elapsed().ok());
            let least = match spools.get(path.as_path()) {
                Some(job) if live.contains(job) => continue,
                Some(_) => SPOOL_AGE,
                None => SPOOL_AGE_UNKNOWN,
            };
            if age.is_some_and(|age| age >= least) {
                let _ = fs::remove_dir_all(&path);
            }
        }
        if fs::metadata(&self.journal).is_ok_and(|found| found.len() > JOURNAL_MAX_BYTES) {
            let _ = self.shorten(live);
        }
    }

    /// Lines that are added in the moment of the change may be lost with it.
    fn shorten(&self, live: &BTreeSet<u64>) -> io::Result<()> {
        let text = fs::read(&self.journal)?;
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
        let mut new = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        new.write_all(&kept)?;
        fs::rename(&beside, &self.journal)
    }
}

impl Known {
    fn take(&mut self, line: Line) {
        match line {
            Line::Job(label) => {
                // A store that was lost begins again with low numbers. What is said of this very job may stand before it.
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
mod tests {
    use super::*;

    fn home(dir: &Path) -> Home {
        Home { directory: dir.to_owned(), journal: dir.join("jobs-x.jsonl") }
    }

    #[test]
    fn the_last_word_counts_and_torn_lines_do_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = home(dir.path());
        assert!(home.read().labels.is_empty());
        let label =
            |job: u64, name: &str| Label { job, submitted_s: 10, name: name.to_owned(), ..Label::default() };
        home.add_step(&Step { job: 1, started_s: 9.0, ..Step::default() }).expect("it is added");
        home.add_step(&Step { job: 1, started_s: 11.0, ..Step::default() }).expect("it is added");
        home.add(&label(1, "a")).expect("it is added");
        home.cancelled(1, 5.0).expect("it is added");
        home.add(&label(2, "b")).expect("it is added");
        home.set(2, "qos", "é\n\"x\"").expect("it is added");
        fs::OpenOptions::new()
            .append(true)
            .open(&home.journal)
            .and_then(|mut file| file.write_all(b"{\"job\":{\"job\":3\n"))
            .expect("a torn line");
        home.add(&label(1, "again")).expect("it is added");
        let known = home.read();
        assert_eq!(known.labels[&1].name, "again");
        assert!(known.cancelled.is_empty(), "that was another job of this number");
        assert_eq!(known.steps[&1].len(), 1, "a step may end before its job is written down");
        assert_eq!(known.labels[&2].qos, "é\n\"x\"");
        assert_eq!(known.labels.len(), 2);
    }

    #[test]
    fn the_jobs_of_a_dependency() {
        let label = Label { dependency: "afterok:1:2_3,singleton,7".to_owned(), ..Label::default() };
        assert_eq!(label.named_in_dependency().collect::<Vec<_>>(), [1, 2, 7]);
    }

    #[test]
    fn a_long_journal_keeps_what_is_not_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = home(dir.path());
        for job in 1..=10 {
            home.add(&Label { job, ..Label::default() }).expect("it is added");
        }
        home.shorten(&BTreeSet::from([2])).expect("it is shortened");
        let left: Vec<u64> = home.read().labels.into_keys().collect();
        assert_eq!(left, [2, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn a_spool_of_a_job_that_is_not_over_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = home(dir.path());
        let [live, over, fresh] = [0; 3].map(|_| new_spool(&home.directory).expect("a spool"));
        for (job, spool) in [(1, &live), (2, &over), (3, &fresh)] {
            home.add(&Label { job, spool: spool.clone(), ..Label::default() }).expect("it is added");
        }
        let past = SystemTime::now() - Duration::from_secs(3600);
        for spool in [&live, &over] {
            File::open(spool).and_then(|dir| dir.set_modified(past)).expect("an older directory");
        }
        home.sweep(&BTreeSet::from([1]));
        assert_eq!([live.exists(), over.exists(), fresh.exists()], [true, false, true]);
    }
}
