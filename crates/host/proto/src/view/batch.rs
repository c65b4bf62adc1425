//! The JSON of `batch`.

use serde::{Deserialize, Serialize};

use crate::terms::End;

/// `pinfold batch --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchView {
    /// [`super::VERSION`].
    pub version: u32,
    /// Lines that are jobs.
    pub jobs: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// From the first submission to the last end.
    pub makespan_s: f64,
    /// A result per job, in the order of the lines.
    pub results: Vec<BatchResultView>,
}

/// A job of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchResultView {
    /// Its number; `null` if never accepted.
    pub job: Option<u64>,
    /// Its line in the file, from 1.
    pub line: u64,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The cause of its end, where exit code and signal do not show it.
    #[serde(default)]
    pub end: Option<End>,
    /// Waiting time.
    pub queued_s: f64,
    /// From start to end.
    pub wall_s: f64,
    /// Frozen time within it, including host sleep before a restart of the daemon.
    pub suspended_s: f64,
    /// CPU time, user and kernel.
    pub cpu_s: f64,
    /// Peak of its anonymous and shared memory.
    pub memory_peak_bytes: u64,
    /// Why it did not run, or the cause of its end, if not obvious.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The line itself.
    #[serde(default)]
    pub command: String,
    /// The file of its standard output; the file of its standard error ends in `.err`. `null`: no file of its own.
    #[serde(default)]
    pub output: Option<String>,
    /// Number of starts.
    #[serde(default)]
    pub attempts: u32,
}

impl BatchResultView {
    /// Whether it ended well ([`crate::ended_well`]).
    #[must_use]
    pub fn ended_well(&self) -> bool {
        crate::ended_well(self.exit_code, self.end)
    }
}
