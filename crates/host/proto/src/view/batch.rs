//! What `batch` prints as JSON.

use serde::{Deserialize, Serialize};

use crate::terms::End;

/// `pinfold batch --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchView {
    /// [`super::VERSION`].
    pub version: u32,
    /// Lines that were jobs.
    pub jobs: u64,
    /// Those that did not succeed.
    pub failed: u64,
    /// From the first submission to the last end.
    pub makespan_s: f64,
    /// One a job, in the order of the lines.
    pub results: Vec<BatchResultView>,
}

/// One job of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchResultView {
    /// Its number; `null` when it was never accepted.
    pub job: Option<u64>,
    /// Its line in the file, from 1.
    pub line: u64,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What ended it, where these do not say it.
    #[serde(default)]
    pub end: Option<End>,
    /// How long it waited.
    pub queued_s: f64,
    /// From start to end.
    pub wall_s: f64,
    /// How much of that it was frozen, or the host slept before a restart of the daemon.
    pub suspended_s: f64,
    /// CPU time, user and kernel.
    pub cpu_s: f64,
    /// The most anonymous and shared memory it held at once.
    pub memory_peak_bytes: u64,
    /// Why it did not run, or ended as it did, where that needs words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The line itself.
    #[serde(default)]
    pub command: String,
    /// The file that its standard output went to; that of standard error ends in `.err`. `null`: it had none of its own.
    #[serde(default)]
    pub output: Option<String>,
    /// How often it was started.
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
