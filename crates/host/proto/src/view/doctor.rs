//! The report of `doctor`: pinfold's abilities on a host, and how to extend them.

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
    /// Further facts and findings; each problem has a remedy.
    pub findings: Vec<FindingView>,
    /// Durations of the daemon's loop turns; `None`: no daemon was asked.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub turns: Option<LoopView>,
}

/// Turns of the daemon's loop since its start: a turn is the time from one wait for events to the next. Times are in
/// seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopView {
    /// How many.
    pub turns: u64,
    /// Median; this and the next two are at most 1/32 (or 128 ns) above the exact value.
    pub p50_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// 99.9th percentile.
    pub p999_s: f64,
    /// The longest,
    pub max_s: f64,
    /// the time of its end, since the Unix epoch,
    pub max_at_s: f64,
    /// and the request, event or effect with the largest part of it, in words.
    pub max_busy_with: String,
    /// The longest turn that ended in the last minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_minute: Option<LongestTurnView>,
}

/// The longest of some turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LongestTurnView {
    /// Its duration.
    pub max_s: f64,
    /// Time of its end, since the Unix epoch.
    pub max_at_s: f64,
    /// The request, event or effect with the largest part of it.
    pub max_busy_with: String,
}

/// An ability of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbilityView {
    /// `weigh`, `idle_class`, `pin`, `freeze`, `limit`, `page_out`, `kill`, `measure`.
    pub ability: String,
    /// Whether the ability is real here.
    pub real: bool,
    /// The mechanism, or why there is none.
    pub how: String,
    /// What would make the ability real, or more exact.
    pub change: Option<String>,
}

/// A fact that doctor found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingView {
    /// The subject.
    pub subject: String,
    /// Whether the fact is as it should be.
    pub ok: bool,
    /// The finding.
    pub found: String,
    /// The remedy.
    pub change: Option<String>,
}
