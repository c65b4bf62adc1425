//! Several jobs together, as `report --by` prints them.

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

/// Several jobs together. Figures are of those that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupView {
    /// What they have in common.
    pub group: String,
    /// How many.
    pub jobs: u64,
    /// Those that are over and did not end well.
    pub failed: u64,
    /// CPU time of all.
    pub cpu_s: f64,
    /// From start to end.
    pub wall_s: Option<SpreadView>,
    /// How long they waited.
    pub queued_s: Option<SpreadView>,
    /// Cores in use, mean while not frozen.
    pub cpu_cores: Option<SpreadView>,
    /// The most memory at once.
    pub memory_peak_bytes: Option<SpreadView>,
    /// Memory on average.
    pub memory_mean_bytes: Option<SpreadView>,
    /// CPU time used of cores asked for times the time they ran.
    pub cores_used_part: Option<f64>,
    /// Peaks of memory of claims, of those that claimed any.
    pub claim_used_part: Option<f64>,
}

/// How a figure is spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SpreadView {
    /// The least.
    pub least: f64,
    /// Half are up to this.
    pub median: f64,
    /// Nine of ten are up to this.
    pub p90: f64,
    /// The most.
    pub most: f64,
    /// The mean.
    pub mean: f64,
}
