//! What a pusher asks its host: the jobs, and how the host is. Absent here: how a daemon is asked, and what is sent.

use std::collections::BTreeSet;

use pinfold_proto::JobState;
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

    /// The host now: all users' jobs that are not over, those of `open` that are, and jobs above `seen`, over or not. No job
    /// up to `seen` is living that is not in `open`.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    fn look(&mut self, seen: u64, open: &BTreeSet<u64>) -> Result<Look, SourceError>;

    /// Jobs with a number above `seen`, over or not, ascending, at most so many; `submitted_us` is when that one was asked
    /// for.
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

/// What a look at a host gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The host, with its jobs.
    pub status: StatusView,
    /// Whether all jobs above the one that was seen last are among them.
    pub complete: bool,
    /// The highest number of a job in the store; `None`: that is not known.
    pub highest: Option<u64>,
}

impl Look {
    /// A status in which the last jobs are that are over, but not all of them: it has all above `seen` if it reaches down to
    /// that.
    #[must_use]
    pub fn of_the_last(status: StatusView, seen: u64) -> Self {
        let over = status.jobs.iter().filter(|job| job.state == JobState::Exited).map(|job| job.job).min();
        let complete = over.is_none_or(|lowest| lowest <= seen.saturating_add(1));
        Self { status, complete, highest: None }
    }
}

/// A job that the store knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
