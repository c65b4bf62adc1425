//! Which jobs of the host's store are in the spool or at the hub. Absent here: the jobs themselves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::source::{Found, Numbers};

/// The version of the file.
const VERSION: u32 = 1;

/// Number of recent jobs with their submission times kept, because the store may remove any of them.
const LAST_KEPT: usize = 64;

/// How far the store was read. Written after the spool, so that a crash between the two writes sends a job twice,
/// which the hub recognizes, and never skips a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    version: u32,
    /// The instance of the daemon that numbered the jobs.
    pub origin: String,
    /// The highest number seen. All jobs up to it are in the spool, or in `open`.
    pub seen: u64,
    /// When that job was submitted, in microseconds since the Unix epoch.
    pub seen_submitted_us: u64,
    /// The last jobs seen with their submission times, ascending. Absent in earlier versions.
    #[serde(default)]
    last: Vec<(u64, u64)>,
    /// Jobs up to `seen` not yet in the spool, because they had not ended when read.
    pub open: BTreeSet<u64>,
    /// The generation of the hub's database that received the jobs; `None`: no hub has reported a generation.
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
    /// The beginning: no job of this daemon was seen.
    #[must_use]
    pub fn begin(origin: &str) -> Self {
        Self {
            version: VERSION,
            origin: origin.to_owned(),
            seen: 0,
            seen_submitted_us: 0,
            last: Vec::new(),
            open: BTreeSet::new(),
            generation: None,
        }
    }

    /// Goes back to the beginning, for this daemon's jobs and the same hub.
    pub fn restart(&mut self, origin: &str) {
        *self = Self { generation: self.generation, ..Self::begin(origin) };
    }

    /// Adds jobs as seen, up to the last.
    pub fn note(&mut self, new: &[Found]) {
        let Some(last) = new.last() else { return };
        (self.seen, self.seen_submitted_us) = (last.job, last.submitted_us);
        self.open.extend(new.iter().map(|found| found.job));
        self.last.extend(new.iter().map(|found| (found.job, found.submitted_us)));
        self.last.drain(..self.last.len().saturating_sub(LAST_KEPT));
    }

    /// Whether the store with these numbers is the store read before, as far as is recognizable: the highest seen job
    /// that still exists is unchanged. Seen jobs above it were removed and no longer count.
    #[must_use]
    pub fn is_of_this_store(&mut self, numbers: &Numbers) -> bool {
        let (job, now_us) = match numbers.highest {
            highest if highest.job < self.seen => (highest.job, highest.submitted_us),
            _ => match numbers.seen_us {
                Some(now_us) => (self.seen, now_us),
                // The job was removed, and later jobs exist.
                None => return true,
            },
        };
        let kept = self.last.iter().find(|(kept, _)| *kept == job).map(|(_, us)| *us);
        let then_us = match kept {
            Some(then_us) => then_us,
            None if job == self.seen => self.seen_submitted_us,
            None => return false,
        };
        // 0 means unknown. After a backward step of the clock, a daemon reports an earlier submission for a job still
        // running.
        let is_same = then_us == 0 || now_us == then_us || now_us < then_us && self.open.contains(&job);
        if is_same {
            (self.seen, self.seen_submitted_us) = (job, now_us);
            self.last.retain(|(kept, _)| *kept < job);
            self.last.push((job, now_us));
        }
        is_same
    }

    /// Reads the cursor below this directory; `None`: missing or unusable, so all jobs are sent again and the hub
    /// recognizes them.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn load(disk: &impl Disk, below: &Path) -> Result<Option<Self>, CursorError> {
        let path = path(below);
        let text = disk.read(&path).map_err(|source| CursorError { what: "read", path, source })?;
        let cursor: Option<Self> = text.and_then(|text| serde_json::from_slice(&text).ok());
        Ok(cursor.filter(|cursor| cursor.version == VERSION))
    }

    /// Writes the cursor below this directory.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(job: u64, submitted_us: u64) -> Found {
        Found { job, submitted_us }
    }

    /// Jobs 1 to 100, asked for ten microseconds apart, of which 7 and 100 are open.
    fn cursor() -> Cursor {
        let mut cursor = Cursor::begin("one");
        cursor.note(&(1..=100).map(|job| found(job, job * 10)).collect::<Vec<_>>());
        cursor.open.retain(|job| [7, 100].contains(job));
        let text = serde_json::to_string(&cursor).expect("it is kept");
        serde_json::from_str(&text).expect("it is read")
    }

    #[test]
    fn a_store_whose_newest_jobs_were_struck_off_is_no_other_one() {
        let mut cursor = cursor();
        for highest in [99, 60, 37] {
            assert!(
                cursor.is_of_this_store(&Numbers { highest: found(highest, highest * 10), seen_us: None })
            );
            assert_eq!((cursor.seen, cursor.seen_submitted_us), (highest, highest * 10));
        }
        assert_eq!(cursor.last, [(37, 370)]);
        // New ones come behind it, one of which is struck off.
        cursor.note(&[found(101, 1_010), found(102, 1_020)]);
        assert!(cursor.is_of_this_store(&Numbers { highest: found(103, 1_030), seen_us: None }));
        assert!(cursor.is_of_this_store(&Numbers { highest: found(101, 1_010), seen_us: None }));
        assert_eq!(cursor.seen, 101);
    }

    #[test]
    fn a_store_with_other_jobs_is_another_one() {
        let other = |highest: Found, seen_us| !cursor().is_of_this_store(&Numbers { highest, seen_us });
        // There is none, it is not known any more, it is another one.
        assert!(other(Found::default(), None));
        assert!(other(found(36, 360), None));
        assert!(other(found(99, 991), None) && other(found(99, 989), None));
        assert!(other(found(100, 1_001), Some(1_001)) && other(found(200, 2_000), Some(1_001)));
        assert!(!other(found(200, 2_000), Some(1_000)));
    }

    #[test]
    fn a_job_that_runs_on_with_an_earlier_time_is_the_same_one() {
        let mut cursor = cursor();
        let numbers = Numbers { highest: found(100, 400), seen_us: Some(400) };
        assert!(cursor.is_of_this_store(&numbers));
        cursor.open.clear();
        assert!(cursor.is_of_this_store(&numbers), "{cursor:?}");
        // One that was over keeps its time.
        assert!(!cursor.is_of_this_store(&Numbers { highest: found(100, 300), seen_us: Some(300) }));
    }

    #[test]
    fn cursor_of_an_earlier_version_is_read() {
        let text = r#"{"version":1,"origin":"one","seen":9,"seen_submitted_us":90,"open":[7]}"#;
        let mut cursor: Cursor = serde_json::from_str(text).expect("it is read");
        assert!(cursor.is_of_this_store(&Numbers { highest: found(12, 120), seen_us: Some(90) }));
        assert!(!cursor.is_of_this_store(&Numbers { highest: found(12, 120), seen_us: Some(91) }));
    }
}
