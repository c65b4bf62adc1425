//! What it takes to keep a job anew, once its keeper is gone: as it was handed over, word for word.
//!
//! It may hold secrets of its user's, so that it travels between that user and the daemon alone.

use serde::{Deserialize, Serialize};

/// How `pinfold submit` was called.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Start {
    /// Its own command line.
    pub words: Vec<String>,
    /// Its environment, each as `NAME=VALUE`.
    pub environment: Vec<String>,
    /// The directory it was called in.
    pub directory: String,
    /// The rights that files made by it do not have, as in `umask(2)`.
    pub umask: u32,
    /// Its limits (`getrlimit(2)`): name, soft, hard; `None`: there is none.
    pub limits: Vec<(String, Option<u64>, Option<u64>)>,
    /// What the kernel adds when it looks for whom to kill for memory (`/proc/PID/oom_score_adj`).
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
    /// The signals that it ignored.
    #[serde(default)]
    pub ignored: Vec<i32>,
    /// The PUs that it was bound to, as a list; empty: to none in particular.
    #[serde(default)]
    pub cpus: String,
}

/// The longest that is kept, in bytes as JSON: half of what one request may be.
pub const START_MAX_BYTES: usize = 120 * 1024;

/// A job, or members of an array, that wait for a keeper, with what that needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartOf {
    /// The job; of members, their array.
    pub job: u64,
    /// The indexes of the members, in rising order; none: it is a job of its own.
    pub members: Vec<u32>,
    /// Its user.
    pub uid: u32,
    /// How it was handed over.
    pub start: Start,
}
