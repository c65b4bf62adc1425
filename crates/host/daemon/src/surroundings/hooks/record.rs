//! What is known of a job that hooks were called for: kept in a file each, as those outlive the job's own
//! row, and told to the programs. Absent here: when they are called.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pinfold_proto::row::JobRow;
use pinfold_sys::container::HOOK_VARIABLE;
use serde::{Deserialize, Serialize};

use super::{RecordError, failed};
use crate::core::crash;

/// The version of the files and of what programs are told.
const VERSION: u32 = 1;

/// How many variables programs may say for a job, and how long each may be.
const VARIABLES_MAX: usize = 64;
const VARIABLE_MAX_BYTES: usize = 4096;

/// Variables that are pinfold's own to set.
const OWN: [&str; 11] = [
    "PINFOLD_JOB_ID",
    "PINFOLD_INSTANCE",
    "PINFOLD_CPUS",
    "PINFOLD_TASK_ID",
    "PINFOLD_NTASKS",
    "PINFOLD_TASK_CPUS",
    "PINFOLD_MODE",
    "PINFOLD_SOCKET",
    "PINFOLD_STATE_DIR",
    "PINFOLD_DISK_DIR",
    HOOK_VARIABLE,
];

/// What stands around one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    version: u32,
    /// Its number.
    pub job: u64,
    /// The programs that were called with `before` and not yet with `after`.
    pub begun: Vec<String>,
    /// What they said for its environment.
    #[serde(default)]
    pub variables: Vec<(String, String)>,
    about: About,
}

/// Whose job it is and what.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct About {
    pub user: String,
    pub uid: u32,
    pub name: String,
    pub project: Option<String>,
    pub command: Vec<String>,
    pub directory: String,
    pub cpus: Option<String>,
    pub tmpdir: Option<String>,
    #[serde(default)]
    pub disk: Option<String>,
}

/// How the job ended, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Ended {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub reason: Option<String>,
}

#[derive(Serialize)]
struct Told<'a> {
    version: u32,
    verb: &'a str,
    job: u64,
    #[serde(flatten)]
    about: &'a About,
    #[serde(flatten)]
    ended: &'a Ended,
}

impl About {
    pub(crate) fn of(row: &JobRow, tmpdir: Option<String>, disk: Option<String>) -> Self {
        Self {
            user: row.user.clone(),
            uid: row.uid,
            name: row.spec.name.clone(),
            project: row.spec.project.clone(),
            command: row.spec.command.clone(),
            directory: row.spec.directory.clone(),
            cpus: row.cpus.clone(),
            tmpdir,
            disk,
        }
    }
}

impl Ended {
    pub(crate) fn of(row: &JobRow) -> Self {
        Self {
            exit_code: row.ending.and_then(|ending| ending.exit_code),
            signal: row.ending.and_then(|ending| ending.signal),
            reason: row.reason.clone(),
        }
    }
}

impl Record {
    pub(crate) fn new(job: u64, about: About) -> Self {
        Self { version: VERSION, job, begun: Vec::new(), variables: Vec::new(), about }
    }

    /// Takes the lines `PINFOLD_NAME=VALUE` out of what a program said; a later one counts.
    pub(crate) fn add_variables(&mut self, said: &str) {
        for (name, value) in said.lines().filter_map(|line| line.split_once('=')) {
            let is_word = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
            if !is_word || !name.starts_with("PINFOLD_") || OWN.contains(&name) {
                continue;
            }
            self.variables.retain(|(known, _)| known != name);
            if self.variables.len() < VARIABLES_MAX && name.len() + value.len() <= VARIABLE_MAX_BYTES {
                self.variables.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    /// The environment of a call.
    pub(crate) fn environment(&self, instance: &str, ended: &Ended) -> Vec<(String, String)> {
        let about = &self.about;
        let mut all = self.variables.clone();
        let own = [
            ("PINFOLD_JOB_ID", Some(self.job.to_string())),
            ("PINFOLD_INSTANCE", Some(instance.to_owned())),
            (HOOK_VARIABLE, Some(self.job.to_string())),
            ("PINFOLD_USER", Some(about.user.clone())),
            ("PINFOLD_UID", Some(about.uid.to_string())),
            ("PINFOLD_NAME", Some(about.name.clone())),
            ("PINFOLD_PROJECT", about.project.clone()),
            ("PINFOLD_DIRECTORY", Some(about.directory.clone())),
            ("PINFOLD_CPUS", about.cpus.clone()),
            ("TMPDIR", about.tmpdir.clone()),
            ("PINFOLD_DISK_DIR", about.disk.clone()),
            ("PINFOLD_EXIT_CODE", ended.exit_code.map(|code| code.to_string())),
            ("PINFOLD_SIGNAL", ended.signal.map(|signal| signal.to_string())),
            ("PINFOLD_REASON", ended.reason.clone()),
        ];
        // Names are what users say, and no variable can hold a NUL.
        let plain = |value: String| value.replace('\0', "");
        all.extend(own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), plain(value?)))));
        all
    }

    /// What a program reads on its standard input.
    pub(crate) fn told(&self, verb: &str, ended: &Ended) -> Vec<u8> {
        let told = Told { version: VERSION, verb, job: self.job, about: &self.about, ended };
        let mut text = serde_json::to_vec(&told).expect("texts and numbers always have a JSON form");
        text.push(b'\n');
        text
    }
}

/// The files, in a directory of the state directory's; made when the first is written.
#[derive(Debug)]
pub(crate) struct Records {
    dir: PathBuf,
}

impl Records {
    pub(crate) fn new(state: &Path) -> Self {
        Self { dir: state.join("around") }
    }

    /// All that there are. One that cannot be read is left where it is, and said so.
    pub(crate) fn read(&self) -> Vec<Record> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut records = Vec::new();
        for path in entries {
            let ending = path.extension().and_then(|ending| ending.to_str());
            if ending == Some("new") {
                // What a daemon that died had begun to write.
                let _ = std::fs::remove_file(&path);
            }
            if ending != Some("json") {
                continue;
            }
            match read_one(&path) {
                Ok(record) => records.push(record),
                Err(error) => {
                    let path = path.display();
                    tracing::error!(%path, %error, "what is owed to a job that ended cannot be read");
                }
            }
        }
        records.sort_by_key(|record| record.job);
        records
    }

    /// Puts one on disk, whole.
    pub(crate) fn write(&self, record: &Record) -> Result<(), RecordError> {
        crash::point("before a record");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.map_err(|source| failed("make", &self.dir, source))?;
        let path = self.path(record.job);
        let beside = path.with_extension("new");
        let text = serde_json::to_vec(record).expect("texts and numbers always have a JSON form");
        let written = File::create(&beside).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        crash::point("before a record has its name");
        let written = written.and_then(|()| std::fs::rename(&beside, &path)).and_then(|()| self.sync());
        crash::point("after a record");
        written.map_err(|source| failed("write", &path, source))
    }

    /// Nothing is owed any more.
    pub(crate) fn remove(&self, job: u64) -> Result<(), RecordError> {
        let path = self.path(job);
        crash::point("before a record is removed");
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(failed("remove", &path, source)),
        }
    }

    fn path(&self, job: u64) -> PathBuf {
        self.dir.join(format!("job-{job}.json"))
    }

    /// The name of a file is on disk when its directory is.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

fn read_one(path: &Path) -> io::Result<Record> {
    let record: Record = serde_json::from_slice(&pinfold_sys::files::read_regular(path)?)?;
    if record.version != VERSION {
        return Err(io::Error::other(format!("it has version {}, and {VERSION} is known", record.version)));
    }
    Ok(record)
}
