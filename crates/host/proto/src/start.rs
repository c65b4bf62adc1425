//! The start record of a job: all that a new keeper needs after the first keeper is gone.
//!
//! It may hold secrets of the user, so it passes only between that user and the daemon.

use serde::{Deserialize, Serialize};

/// How `pinfold submit` was called.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Start {
    /// The command line of `submit`.
    pub words: Vec<String>,
    /// Its environment, each as `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Its working directory.
    pub directory: String,
    /// Its umask, as in `umask(2)`.
    pub umask: u32,
    /// Its limits (`getrlimit(2)`): name, soft, hard; `None`: unlimited.
    pub limits: Vec<(String, Option<u64>, Option<u64>)>,
    /// Its `/proc/PID/oom_score_adj`.
    pub oom_score_adj: i32,
    /// Its nice value.
    #[serde(default)]
    pub nice: i32,
    /// Its I/O priority, as in `ioprio_set(2)`.
    #[serde(default)]
    pub io_priority: u32,
    /// Its scheduling class (`sched(7)`): other, batch or idle.
    #[serde(default)]
    pub scheduling: i32,
    /// Ignored signals.
    #[serde(default)]
    pub ignored: Vec<i32>,
    /// Its PUs, as a list; empty: not bound.
    #[serde(default)]
    pub cpus: String,
}

/// Most bytes of a stored start record as JSON: half of a request.
pub const START_MAX_BYTES: usize = 120 * 1024;

/// A job, or members of an array, waiting for a keeper, with the start record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartOf {
    /// The job; of members, their array.
    pub job: u64,
    /// The indexes of the members, ascending; empty for a single job.
    pub members: Vec<u32>,
    /// Its user.
    pub uid: u32,
    /// The start record.
    pub start: Start,
}
