//! Which jobs of the host's store are in the spool or at the hub. Absent here: the jobs themselves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::source::Numbers;

/// The version of the file.
const VERSION: u32 = 1;

/// How far the store was read. Written after the spool: a crash between the two has a job sent twice, which the hub knows
/// it by, and never one left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    version: u32,
    /// The daemon's instance whose numbers these are.
    pub origin: String,
    /// The highest number that was seen. All up to it are in the spool, or below in `open`.
    pub seen: u64,
    /// When the job of that number was asked for, in microseconds since the Unix epoch.
    pub seen_submitted_us: u64,
    /// Jobs up to `seen` that are not in the spool yet: they were not over when they were looked at.
    pub open: BTreeSet<u64>,
    /// The generation of the hub's database that these were sent to; `None`: no hub told one yet.
    #[serde(default)]
    pub generation: Option<u64>,
}

/// Why the cursor could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("failed to {what} {}", .path.display())]
pub struct CursorError {
    what: &'static str,
    path: PathBuf,
    source: std::io::Error,
}

impl Cursor {
    /// The beginning: nothing of this daemon's was seen.
    #[must_use]
    pub fn begin(origin: &str) -> Self {
        Self {
            version: VERSION,
            origin: origin.to_owned(),
            seen: 0,
            seen_submitted_us: 0,
            open: BTreeSet::new(),
            generation: None,
        }
    }

    /// Goes back to the beginning, for this daemon's jobs and the same hub.
    pub fn restart(&mut self, origin: &str) {
        *self = Self { generation: self.generation, ..Self::begin(origin) };
    }

    /// Whether these are the numbers of a store that lacks the job that was seen last, or has another one in its place.
    #[must_use]
    pub fn is_of_another_store(&self, numbers: &Numbers) -> bool {
        // 0: it is not known when that job was asked for.
        let is_other = |us: u64| self.seen_submitted_us != 0 && us != self.seen_submitted_us;
        numbers.highest < self.seen || numbers.seen_us.is_some_and(is_other)
    }

    /// As it was kept below this directory; `None`: nothing was, or it cannot be used. All jobs are then sent again, and
    /// the hub knows them.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn load(disk: &impl Disk, below: &Path) -> Result<Option<Self>, CursorError> {
        let path = path(below);
        let text = disk.read(&path).map_err(|source| CursorError { what: "read", path, source })?;
        let cursor: Option<Self> = text.and_then(|text| serde_json::from_slice(&text).ok());
        Ok(cursor.filter(|cursor| cursor.version == VERSION))
    }

    /// Keeps it below this directory.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn save(&self, disk: &impl Disk, below: &Path) -> Result<(), CursorError> {
        let path = path(below);
        let text = serde_json::to_vec(self).unwrap_or_default();
        disk.write(&path, &text).map_err(|source| CursorError { what: "write", path, source })
    }
}

fn path(below: &Path) -> PathBuf {
    below.join("cursor.json")
}
