//! Groups of jobs, as `report --by` prints them.

use serde::{Deserialize, Serialize};

/// `pinfold report --by ... --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryView {
    /// [`super::VERSION`].
    pub version: u32,
    /// `name`, `user`, `project`, `class` or `day`.
    pub by: String,
    /// The groups, by name.
    pub groups: Vec<GroupView>,
}

/// A group of jobs. Figures are of jobs that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupView {
    /// The common value.
    pub group: String,
    /// How many.
    pub jobs: u64,
    /// Ended jobs that failed.
    pub failed: u64,
    /// Total CPU time.
    pub cpu_s: f64,
    /// From start to end.
    pub wall_s: Option<SpreadView>,
    /// Waiting time.
    pub queued_s: Option<SpreadView>,
    /// Cores in use, mean while not frozen.
    pub cpu_cores: Option<SpreadView>,
    /// The most memory at once.
    pub memory_peak_bytes: Option<SpreadView>,
    /// Memory on average.
    pub memory_mean_bytes: Option<SpreadView>,
    /// CPU time divided by requested cores times run time.
    pub cores_used_part: Option<f64>,
    /// Memory peaks divided by claims, of jobs with a claim.
    pub claim_used_part: Option<f64>,
}

/// How a figure is spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SpreadView {
    /// The least.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The most.
    pub most: f64,
    /// The mean.
    pub mean: f64,
}
