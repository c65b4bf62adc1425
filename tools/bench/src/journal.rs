//! The journal of a run's jobs, in the same form under every launcher.
//!
//! Every job runs below the hidden command `exec` of this program, which appends a line when the job starts and another
//! when it ends. So start, end, exit status and CPU time of a job are measured the same way under every launcher, and never
//! taken from the launcher under test. The file belongs to a single run.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Mark {
    /// The job's wrapper is there and about to start the job.
    Started {
        /// Name of the job.
        name: String,
        /// The wrapper's pid; the job is its descendants.
        pid: i32,
        /// Monotonic clock, microseconds.
        at_us: u64,
    },
    /// The job is over and its processes are reaped.
    Ended(Ending),
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ending {
    /// Name of the job.
    pub(crate) name: String,
    /// Monotonic clock, microseconds.
    pub(crate) at_us: u64,
    /// Wall time from the wrapper's start, microseconds.
    pub(crate) wall_us: u64,
    /// CPU time of the job and its reaped descendants, microseconds.
    pub(crate) cpu_us: u64,
    /// Largest resident set of any of its processes, bytes.
    pub(crate) rss_peak_bytes: u64,
    /// Disk reads and writes of the job and its reaped descendants, bytes.
    pub(crate) io_bytes: u64,
    /// Exit code, if it exited.
    pub(crate) exit_code: Option<i32>,
    /// Signal that ended it, if any.
    pub(crate) signal: Option<i32>,
}

impl Ending {
    /// Whether the job succeeded.
    pub(crate) fn succeeded(&self) -> bool {
        self.exit_code == Some(0)
    }
}

/// Arguments of the hidden command `exec`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExecArgs {
    /// Journal to append to.
    #[arg(long)]
    journal: PathBuf,
    /// Name of the job.
    #[arg(long)]
    name: String,
    /// PU to pin the job to.
    #[arg(long)]
    pin: Option<usize>,
    /// Directory in which the job runs; its output goes to `stdout` and `stderr` there.
    #[arg(long)]
    directory: PathBuf,
    /// Shell script to run.
    script: PathBuf,
}

/// The kernel counts disk reads and writes in blocks of this size.
const BLOCK_BYTES: u64 = 512;

/// Microseconds of the monotonic clock, common to all processes of the machine.
pub(crate) fn now_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000
}

/// Runs a job and journals it. Returns the exit status that a shell would return for it.
pub(crate) fn exec(args: &ExecArgs) -> anyhow::Result<u8> {
    if let Some(pu) = args.pin {
        let mut set = rustix::thread::CpuSet::new();
        set.set(pu);
        rustix::thread::sched_setaffinity(None, &set).with_context(|| format!("failed to pin to PU {pu}"))?;
    }
    let started_us = now_us();
    let pid = i32::try_from(std::process::id()).context("a pid fits 31 bits")?;
    append(&args.journal, &Mark::Started { name: args.name.clone(), pid, at_us: started_us })?;
    let stream = |name: &str| File::create(args.directory.join(name)).map(Stdio::from);
    let status = Command::new("sh")
        .args(["-e".as_ref(), args.script.as_os_str()])
        .current_dir(&args.directory)
        .stdin(Stdio::null())
        .stdout(stream("stdout").context("failed to create the job's stdout")?)
        .stderr(stream("stderr").context("failed to create the job's stderr")?)
        .status()
        .with_context(|| format!("failed to run {}", args.script.display()))?;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("failed to read the usage of children")?;
    let micros = |time: nix::sys::time::TimeVal| {
        u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec()).unwrap_or(0)
    };
    let at_us = now_us();
    append(
        &args.journal,
        &Mark::Ended(Ending {
            name: args.name.clone(),
            at_us,
            wall_us: at_us - started_us,
            cpu_us: micros(usage.user_time()) + micros(usage.system_time()),
            rss_peak_bytes: u64::try_from(usage.max_rss()).unwrap_or(0) * 1024,
            io_bytes: u64::try_from(usage.block_reads() + usage.block_writes()).unwrap_or(0) * BLOCK_BYTES,
            exit_code: status.code(),
            signal: status.signal(),
        }),
    )?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(u8::try_from(code).unwrap_or(255))
}

/// Appends `mark` in a single write, so that lines of jobs that end together never mix.
fn append(journal: &Path, mark: &Mark) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(mark).context("failed to encode a journal line")?;
    line.push(b'\n');
    let file = OpenOptions::new().append(true).open(journal);
    file.and_then(|mut file| file.write_all(&line))
        .with_context(|| format!("failed to append to journal {}", journal.display()))
}

/// Follows a growing journal.
#[derive(Debug)]
pub(crate) struct Follower {
    file: File,
    rest: Vec<u8>,
}

impl Follower {
    /// Creates an empty journal at `path` and follows it.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        File::create(path).with_context(|| format!("failed to create journal {}", path.display()))?;
        let file = File::open(path).with_context(|| format!("failed to open journal {}", path.display()))?;
        Ok(Self { file, rest: Vec::new() })
    }

    /// The lines that were completed since the last call.
    pub(crate) fn read(&mut self) -> anyhow::Result<Vec<Mark>> {
        self.file.read_to_end(&mut self.rest).context("failed to read the journal")?;
        let mut marks = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            marks.push(serde_json::from_slice(&line).context("failed to decode a journal line")?);
        }
        Ok(marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follower_gives_whole_lines_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let mut follower = Follower::create(&path).unwrap();
        assert_eq!(follower.read().unwrap(), vec![]);
        let mark = Mark::Started { name: "a".into(), pid: 7, at_us: 9 };
        append(&path, &mark).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"event\":\"sta").unwrap();
        assert_eq!(follower.read().unwrap(), vec![mark]);
        OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"rted\",\"name\":\"b\",\"pid\":8,\"at_us\":1}\n")
            .unwrap();
        assert_eq!(follower.read().unwrap(), vec![Mark::Started { name: "b".into(), pid: 8, at_us: 1 }]);
    }

    #[test]
    fn a_missing_journal_is_an_error_not_a_new_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none");
        assert!(append(&path, &Mark::Started { name: "a".into(), pid: 7, at_us: 9 }).is_err());
        assert!(!path.exists());
    }
}
