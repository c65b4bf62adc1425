//! Which jobs of the host's store are in the spool or at the hub. Absent here: the jobs themselves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::source::{Found, Numbers};

/// The version of the file.
const VERSION: u32 = 1;

/// Of so many jobs that were seen last it is kept when they were asked for: the store may strike off any of them.
const LAST_KEPT: usize = 64;

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
    /// The last ones that were seen, and when each was asked for, ascending. An earlier version kept none.
    #[serde(default)]
    last: Vec<(u64, u64)>,
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
            last: Vec::new(),
            open: BTreeSet::new(),
            generation: None,
        }
    }

    /// Goes back to the beginning, for this daemon's jobs and the same hub.
    pub fn restart(&mut self, origin: &str) {
        *self = Self { generation: self.generation, ..Self::begin(origin) };
    }

    /// These jobs were seen, up to the last of them.
    pub fn note(&mut self, new: &[Found]) {
        let Some(last) = new.last() else { return };
        (self.seen, self.seen_submitted_us) = (last.job, last.submitted_us);
        self.open.extend(new.iter().map(|found| found.job));
        self.last.extend(new.iter().map(|found| (found.job, found.submitted_us)));
        self.last.drain(..self.last.len().saturating_sub(LAST_KEPT));
    }

    /// Whether the store with these numbers is the one that was read, as far as that can be told: the highest job that was seen
    /// and is still there is the same one. Those above it were struck off, and are not counted as seen any more.
    #[must_use]
    pub fn is_of_this_store(&mut self, numbers: &Numbers) -> bool {
        let (job, now_us) = match numbers.highest {
            highest if highest.job < self.seen => (highest.job, highest.submitted_us),
            _ => match numbers.seen_us {
                Some(now_us) => (self.seen, now_us),
                // It was struck off, and there are later ones.
                None => return true,
            },
        };
        let kept = self.last.iter().find(|(kept, _)| *kept == job).map(|(_, us)| *us);
        let then_us = match kept {
            Some(then_us) => then_us,
            None if job == self.seen => self.seen_submitted_us,
            None => return false,
        };
        // 0: that is not known. A daemon that finds a job still running once the clock was set back has it asked for earlier.
        let is_same = then_us == 0 || now_us == then_us || now_us < then_us && self.open.contains(&job);
        if is_same {
            (self.seen, self.seen_submitted_us) = (job, now_us);
            self.last.retain(|(kept, _)| *kept < job);
            self.last.push((job, now_us));
        }
        is_same
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
    fn what_an_earlier_version_kept_is_read() {
        let text = r#"{"version":1,"origin":"one","seen":9,"seen_submitted_us":90,"open":[7]}"#;
        let mut cursor: Cursor = serde_json::from_str(text).expect("it is read");
        assert!(cursor.is_of_this_store(&Numbers { highest: found(12, 120), seen_us: Some(90) }));
        assert!(!cursor.is_of_this_store(&Numbers { highest: found(12, 120), seen_us: Some(91) }));
    }
}
