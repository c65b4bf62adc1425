//! Programs with a known use of resources, run as jobs, and pinfold's reports on them.
//!
//! The program is Python's, which can share memory, fork and wait without unsafe code; it prints its own use. Owns only the
//! files that it writes to the given directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::daemon::Daemon;
use crate::way::installed;

/// The program's statement of its use.
#[derive(Debug, Clone, Deserialize, serde::Serialize)]
pub(crate) struct Known {
    /// The peak of its anonymous and shared memory.
    pub(crate) memory_peak_bytes: u64,
    /// The mean of that over its life.
    pub(crate) memory_mean_bytes: f64,
    /// Processor time of all its processes.
    pub(crate) cpu_s: f64,
    /// The part of the processes that it waited for.
    pub(crate) children_cpu_s: f64,
    /// Its processes.
    pub(crate) pids: Vec<i32>,
}

/// Why it cannot be run.
pub(crate) fn missing() -> Option<&'static str> {
    (!installed("python3"))
        .then_some("python3 is not installed, which the programs of this row are written in.")
}

/// The program, ready to be run from `directory`.
pub(crate) fn program(directory: &Path) -> anyhow::Result<PathBuf> {
    let path = directory.join("known.py");
    fs::write(&path, include_str!("known.py")).context("failed to write a program")?;
    Ok(path)
}

/// Runs a case as a job, or without pinfold if there is no daemon; returns its statement, and pinfold's report with all
/// processes.
pub(crate) fn run(
    daemon: Option<&Daemon>,
    directory: &Path,
    case: &str,
    size: f64,
) -> anyhow::Result<(Known, Option<Value>)> {
    let (program, said) = (program(directory)?, directory.join("said"));
    let mut command = match daemon {
        Some(daemon) => {
            let mut command = daemon.command();
            command.args(["run", "--", "python3"]);
            command
        }
        None => Command::new("python3"),
    };
    command
        .arg(program)
        .args([case, &size.to_string()])
        .arg(&said)
        .stdin(Stdio::null())
        .current_dir(directory);
    let status = command.status().context("failed to run a program")?;
    ensure!(status.success(), "the program for `{case}` ended with {status}");
    let text = fs::read_to_string(&said).context("failed to read what a program used")?;
    let known = serde_json::from_str(&text).context("failed to understand what a program used")?;
    let Some(daemon) = daemon else { return Ok((known, None)) };
    let report = daemon.command().args(["report", "--json", "--processes", "--last", "1"]).output();
    let report = report.context("failed to ask pinfold")?;
    let report: Value = serde_json::from_slice(&report.stdout).context("failed to understand a report")?;
    ensure!(report["job"].is_u64(), "no report: {report}");
    Ok((known, Some(report)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each case in its smallest form reports its use, and the report agrees with the request.
    #[test]
    fn every_case_says_what_it_used() {
        if let Some(why) = missing() {
            eprintln!("skipped: {why}");
            return;
        }
        let mib = |bytes: u64| bytes / (1 << 20);
        for (case, size, low, high, processes) in [
            ("steady", 0.1, 256, 280, 1),
            ("spike", 0.1, 256, 280, 1),
            ("shared", 0.1, 256, 310, 8),
            ("cache", 0.1, 1, 20, 1),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let (known, report) = run(None, directory.path(), case, size).unwrap();
            assert!((low..high).contains(&mib(known.memory_peak_bytes)), "{case}: {known:?}");
            assert!(known.memory_mean_bytes > 0.0, "{case}: {known:?}");
            assert!(known.memory_mean_bytes < known.memory_peak_bytes as f64, "{case}: {known:?}");
            assert!(known.cpu_s > 0.0 && report.is_none(), "{case}: {known:?}");
            assert_eq!(known.pids.len(), processes, "{case}: {known:?}");
        }
        let directory = tempfile::tempdir().unwrap();
        let (known, _) = run(None, directory.path(), "short", 3.0).unwrap();
        assert!(known.children_cpu_s > 0.0, "{known:?}");
    }
}
