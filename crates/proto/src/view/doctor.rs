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
