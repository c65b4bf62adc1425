//! What can go wrong with the store, told apart by what the caller can do about it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// `SQLITE_IOERR_SHMSIZE`: the index of the log cannot grow, which is how a full disk shows before anything is
/// written.
const IOERR_SHMSIZE: i32 = 4874;

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No room on the disk. Nothing of the open transaction is kept; the same rows can be written again later.
    #[error("failed to {operation} in {}: no room on the disk", .path.display())]
    Full {
        /// What was tried.
        operation: &'static str,
        /// The store's file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The file does not hold what it should. [`Store::replace_damaged`](super::Store::replace_damaged) is the
    /// way out.
    #[error("failed to {operation} in {}: the file is damaged", .path.display())]
    Damaged {
        /// What was tried.
        operation: &'static str,
        /// The store's file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The file was written by a newer pinfold. It is left as it is.
    #[error("{} has schema version {found}, and the newest known here is {known}", .path.display())]
    Newer {
        /// The store's file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest that this build knows.
        known: u32,
    },
    /// `begin` inside an open transaction, or an operation that cannot run inside one.
    #[error("failed to {operation} in {}: a transaction is open", .path.display())]
    InTransaction {
        /// What was tried.
        operation: &'static str,
        /// The store's file.
        path: PathBuf,
    },
    /// `commit` without `begin`.
    #[error("failed to commit in {}: no transaction is open", .path.display())]
    NoTransaction {
        /// The store's file.
        path: PathBuf,
    },
    /// A write after another write of the same transaction failed: that transaction is already undone.
    #[error("failed to {operation} in {}: the transaction is undone after an earlier failure", .path.display())]
    Undone {
        /// What was tried.
        operation: &'static str,
        /// The store's file.
        path: PathBuf,
        /// Whether that failure was for want of room.
        full: bool,
    },
    /// A job that the store does not hold.
    #[error("failed to update job {job} in {}: there is no such job", .path.display())]
    NoSuchJob {
        /// The job.
        job: u64,
        /// The store's file.
        path: PathBuf,
    },
    /// Anything else that SQLite refuses: another process holds the file locked, the medium fails.
    #[error("failed to {operation} in {}", .path.display())]
    Other {
        /// What was tried.
        operation: &'static str,
        /// The store's file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The file system refuses.
    #[error("failed to {operation} {}", .path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
}

impl StoreError {
    /// Sorts an error of SQLite's by what can be done about it.
    pub(super) fn of(operation: &'static str, path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let (code, extended) = match &source {
            rusqlite::Error::SqliteFailure(error, _) => (Some(error.code), error.extended_code),
            _ => (None, 0),
        };
        match code {
            Some(ErrorCode::DiskFull) => Self::Full { operation, path, source },
            _ if extended == IOERR_SHMSIZE => Self::Full { operation, path, source },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { operation, path, source }
            }
            _ => Self::Other { operation, path, source },
        }
    }

    /// The same for an error of the file system's.
    pub(super) fn file(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { operation, path: path.to_owned(), source }
    }

    /// Whether room on the disk is what is missing, so that trying again later makes sense.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } | Self::Undone { full: true, .. } => true,
            Self::File { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }

    /// Whether the store refuses this one row, for what it holds or for what is there already: the same row fails again
    /// whenever it is written, and others do not fail for it.
    #[must_use]
    pub fn is_about_the_row(&self) -> bool {
        match self {
            Self::NoSuchJob { .. } => true,
            Self::Other { source, .. } => refuses_the_row(source),
            _ => false,
        }
    }

    /// Whether the file itself is damaged.
    #[must_use]
    pub const fn is_damaged(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

/// See [`StoreError::is_about_the_row`]. An error that is not SQLite's own is one of turning a value into one of SQLite's.
pub(super) fn refuses_the_row(source: &rusqlite::Error) -> bool {
    match source.sqlite_error_code() {
        Some(code) => matches!(
            code,
            ErrorCode::ConstraintViolation
                | ErrorCode::TooBig
                | ErrorCode::TypeMismatch
                | ErrorCode::ParameterOutOfRange
        ),
        None => true,
    }
}
