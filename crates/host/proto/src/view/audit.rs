//! Who changed what on a host, as `pinfold audit` prints it.

use serde::{Deserialize, Serialize};

/// Who changed what on a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditView {
    /// [`super::VERSION`].
    pub version: u32,
    /// The records, oldest first.
    pub records: Vec<AuditRecord>,
    /// Whether the chain holds, when that was asked for.
    pub intact: Option<bool>,
    /// Why it does not.
    pub broken: Option<String>,
    /// What else is to be known of the records: that one was interrupted, that some wait for room on the disk, that the
    /// oldest are not kept any more.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One change and who made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Its number, from 1.
    pub number: u64,
    /// When, in Unix seconds.
    pub time_s: f64,
    /// The user, by the kernel's word.
    pub uid: u32,
    /// That user's name.
    pub user: String,
    /// What was done: `config`, `save`, `drain`, `undrain`, `cancel` ...
    pub action: String,
    /// To what, and from what to what.
    pub detail: String,
    /// SHA-256 over the chain so far and this record, in hexadecimal.
    pub chain: String,
}
