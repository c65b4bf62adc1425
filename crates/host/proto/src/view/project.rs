//! What a project has, and what of that is its own.

use serde::{Deserialize, Serialize};

/// What a project has, and what is its own when it wants it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProjectView {
    /// Its name; `None`: the jobs of no project, whose is what no project is guaranteed.
    pub project: Option<String>,
    /// Who may run jobs in it; `None`: everybody.
    pub users: Option<Vec<String>>,
    /// Cores that are its own when it wants them; `None`: it has none beside those of no project.
    pub cores_guaranteed: Option<u64>,
    /// Home cores that its jobs have.
    pub cores_used: u64,
    /// Of these, those that are lent to it.
    pub cores_borrowed: Option<u64>,
    /// Cores that are its own, that it wants, and that it does not have.
    pub cores_owed: u64,
    /// Memory that is its own when it wants it; `None`: it has none beside that of no project.
    pub memory_guaranteed_bytes: Option<u64>,
    /// Memory that its jobs hold, swap included.
    pub memory_used_bytes: u64,
    /// Of that, what is lent to it.
    pub memory_borrowed_bytes: Option<u64>,
    /// Memory that is its own, that its next job waits for, and that it does not have.
    pub memory_owed_bytes: u64,
    /// Its jobs that have started.
    pub jobs_started: u64,
    /// Its jobs that have not.
    pub jobs_waiting: u64,
}
