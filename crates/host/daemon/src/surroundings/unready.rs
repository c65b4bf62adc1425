//! Why a job's surroundings are not set up: for good, or only for now.

use pinfold_policy::{Action, JobId};
use pinfold_sys::scratch::ScratchError;

use crate::core::{Event, in_full};

/// Why, in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    /// They cannot be; after several tries the job is given up.
    Failed(String),
    /// They cannot be now, which is no fault of the job's: a disk is full.
    NotNow(String),
}

impl Unready {
    /// What came of the start.
    pub(crate) fn into_event(self, job: JobId, action: Action) -> Event {
        match self {
            Self::Failed(error) => Event::NotCarried(job, action, error),
            Self::NotNow(error) => Event::PutOff(job, action, error),
        }
    }
}

impl From<ScratchError> for Unready {
    fn from(error: ScratchError) -> Self {
        let words = in_full(&error);
        if error.is_for_lack_of_room() { Self::NotNow(words) } else { Self::Failed(words) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_full_disk_is_no_fault_of_the_jobs() {
        let unready = |kind: ErrorKind| {
            let (path, source) = (PathBuf::from("/x"), Error::from(kind));
            Unready::from(ScratchError::Failed { operation: "make", path, source })
        };
        for full in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
            assert!(
                matches!(unready(full), Unready::NotNow(words) if words.starts_with("failed to make /x"))
            );
        }
        assert!(matches!(unready(ErrorKind::PermissionDenied), Unready::Failed(_)));
        let planted = ScratchError::Foreign { path: PathBuf::from("/x"), owner: Some(7) };
        assert_eq!(Unready::from(planted), Unready::Failed("/x belongs to user 7".to_owned()));
    }
}
