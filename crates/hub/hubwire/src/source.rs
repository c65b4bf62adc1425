//! What a pusher asks its host: the jobs, and how the host is. Absent here: how a daemon is asked, and what is sent.

use std::collections::BTreeSet;

use pinfold_proto::view::{MapView, ReportView, StatusView};
use pinfold_topo::Topology;

use crate::bundle::Act;

/// What the host's store says.
pub trait Source {
    /// The instance of the daemon.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn origin(&mut self) -> Result<String, SourceError>;

    /// How far the numbers of jobs go, and what job has the number `seen`.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn numbers(&mut self, seen: u64) -> Result<Numbers, SourceError>;

    /// The host now, with those of its jobs that are not over. All that are living of the jobs noted so far are in `open`;
    /// jobs that came in since may be missing.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn look(&mut self, open: &BTreeSet<u64>) -> Result<StatusView, SourceError>;

    /// The first jobs with a number above `seen`, over or not, ascending, at most so many: none is left out up to the last
    /// of them, whatever comes in meanwhile. `submitted_us` is when the job `seen` was asked for.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn after(&mut self, seen: u64, submitted_us: u64, most: usize) -> Result<Vec<Found>, SourceError>;

    /// A job that is over, with its series and what was decided about it; `None`: the store does not know it any more.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn job(&mut self, job: u64) -> Result<Option<(ReportView, Vec<Act>)>, SourceError>;

    /// Which core belongs to what; `None`: that cannot be told.
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
    /// Which of them belong to what.
    pub map: MapView,
    /// How they lie.
    pub topology: Topology,
}

/// The numbers of a store's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// The job with the highest one; 0: there is none.
    pub highest: Found,
    /// When the job was asked for that was seen last, in microseconds since the Unix epoch; `None`: the store does not know
    /// it any more.
    pub seen_us: Option<u64>,
}

/// A job that the store knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// Its number.
    pub job: u64,
    /// When it was asked for, in microseconds since the Unix epoch.
    pub submitted_us: u64,
}

/// Why the daemon could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);
