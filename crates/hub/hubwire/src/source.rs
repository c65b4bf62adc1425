//! The pusher's queries to its host: jobs and state. Absent here: the daemon's protocol, and sending.

use std::collections::BTreeSet;

use pinfold_proto::view::{MapView, ReportView, StatusView};
use pinfold_topo::Topology;

use crate::bundle::Act;

/// The host's store and state.
pub trait Source {
    /// The instance of the daemon.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn origin(&mut self) -> Result<String, SourceError>;

    /// The highest number of a job, and the job with the number `seen`.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn numbers(&mut self, seen: u64) -> Result<Numbers, SourceError>;

    /// The host now, with its living jobs. Includes every living job of `open`; newer jobs may be missing.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn look(&mut self, open: &BTreeSet<u64>) -> Result<StatusView, SourceError>;

    /// The first jobs with a number above `seen`, ended or not, ascending, at most `most`: complete up to the last,
    /// whatever arrives meanwhile. `submitted_us` is the submission time of the job `seen`.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn after(&mut self, seen: u64, submitted_us: u64, most: usize) -> Result<Vec<Found>, SourceError>;

    /// A job, living or ended, with its series and decisions; `None`: the store no longer has the job.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn job(&mut self, job: u64) -> Result<Option<(ReportView, Vec<Act>)>, SourceError>;

    /// The machine with its allocation; `None`: unknown.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn machine(&mut self) -> Result<Option<Machine>, SourceError> {
        Ok(None)
    }
}

/// A host's cores.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The allocation of cores.
    pub map: MapView,
    /// The topology.
    pub topology: Topology,
}

/// The numbers of a store's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// The job with the highest number; 0 without jobs.
    pub highest: Found,
    /// Submission time of the last job seen, in microseconds since the Unix epoch; `None`: the store no longer has
    /// the job.
    pub seen_us: Option<u64>,
}

/// A job in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// Its number.
    pub job: u64,
    /// When it was submitted, in microseconds since the Unix epoch.
    pub submitted_us: u64,
}

/// Why the daemon could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);
