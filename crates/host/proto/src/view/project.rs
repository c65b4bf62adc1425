//! A project's cores and memory, and its guarantees.

use serde::{Deserialize, Serialize};

/// A project's usage and guarantees.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProjectView {
    /// Its name; `None`: the jobs without a project.
    pub project: Option<String>,
    /// Users allowed to run jobs in it; `None`: all users.
    pub users: Option<Vec<String>>,
    /// Guaranteed cores; `None`: shares the cores of jobs without a project.
    pub cores_guaranteed: Option<u64>,
    /// Home cores of its jobs.
    pub cores_used: u64,
    /// Cores among them borrowed from other projects.
    pub cores_borrowed: Option<u64>,
    /// Guaranteed cores that it wants and lacks.
    pub cores_owed: u64,
    /// Guaranteed memory; `None`: shares the memory of jobs without a project.
    pub memory_guaranteed_bytes: Option<u64>,
    /// Memory held by its jobs, including swap.
    pub memory_used_bytes: u64,
    /// Memory among it borrowed from other projects.
    pub memory_borrowed_bytes: Option<u64>,
    /// Guaranteed memory that its next job waits for and that it lacks.
    pub memory_owed_bytes: u64,
    /// Its started jobs.
    pub jobs_started: u64,
    /// Its waiting jobs.
    pub jobs_waiting: u64,
}
