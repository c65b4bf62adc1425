//! The changes on a host and their authors, as `pinfold audit` prints them.

use serde::{Deserialize, Serialize};

/// The changes on a host and their authors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditView {
    /// [`super::VERSION`].
    pub version: u32,
    /// The records, oldest first.
    pub records: Vec<AuditRecord>,
    /// Whether the chain is intact, if verified.
    pub intact: Option<bool>,
    /// Why the chain is broken.
    pub broken: Option<String>,
    /// Further notes: an interrupted record, records that wait for disk space, removal of the oldest records.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A change and its author.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Its number, from 1.
    pub number: u64,
    /// When, in Unix seconds.
    pub time_s: f64,
    /// The user, by the kernel's word.
    pub uid: u32,
    /// The user's name.
    pub user: String,
    /// The action: `config`, `save`, `drain`, `undrain`, `cancel` ...
    pub action: String,
    /// The object, and its old and new value.
    pub detail: String,
    /// SHA-256 over the chain so far and this record, in hexadecimal.
    pub chain: String,
}
