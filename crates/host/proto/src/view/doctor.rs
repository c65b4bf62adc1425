//! What `doctor` says of a host: what pinfold can do there, and what would change that.

use serde::{Deserialize, Serialize};

/// `pinfold doctor --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DoctorView {
    /// [`super::VERSION`].
    pub version: u32,
    /// `v2`, `hybrid` or `rootless`.
    pub mode: String,
    /// Why this mode.
    pub reason: String,
    /// Every ability, in a fixed order.
    pub abilities: Vec<AbilityView>,
    /// Other facts and findings worth knowing, with a way out for each that is not well.
    pub findings: Vec<FindingView>,
    /// How long turns of the daemon's loop take; `None`: no daemon was asked.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub turns: Option<LoopView>,
}

/// The turns of the daemon's loop since it started: each is the time from one wait for events to the next. Times are in
/// seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopView {
    /// How many.
    pub turns: u64,
    /// Half of them took at most so long; as the next two, at most a 32nd (or 128 ns) above the exact one.
    pub p50_s: f64,
    /// All but one in a hundred.
    pub p99_s: f64,
    /// All but one in a thousand.
    pub p999_s: f64,
    /// The longest,
    pub max_s: f64,
    /// when it ended, since the Unix epoch,
    pub max_at_s: f64,
    /// and the kind of request, event or effect that took most of it: words for people.
    pub max_busy_with: String,
    /// The longest that ended in the last minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_minute: Option<LongestTurnView>,
}

/// The longest of some turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LongestTurnView {
    /// How long it took.
    pub max_s: f64,
    /// When it ended, since the Unix epoch.
    pub max_at_s: f64,
    /// What took most of it.
    pub max_busy_with: String,
}

/// One ability of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbilityView {
    /// `weigh`, `idle_class`, `pin`, `freeze`, `limit`, `page_out`, `kill`, `measure`.
    pub ability: String,
    /// Whether it is real here.
    pub real: bool,
    /// By what means, or why not.
    pub how: String,
    /// What would make it real, or more exact.
    pub change: Option<String>,
}

/// A fact that doctor found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingView {
    /// What was looked at.
    pub subject: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub change: Option<String>,
}
