//! The store's errors, by the remedy of the caller.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// `SQLITE_IOERR_SHMSIZE`: the index of the log cannot grow; the first sign of a full disk.
const IOERR_SHMSIZE: i32 = 4874;

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full. The open transaction is dropped; the same rows can be written again later.
    #[error("failed to {operation} in {}: no room on the disk", .path.display())]
    Full {
        /// The failed operation.
        operation: &'static str,
        /// The store's file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The file's content is invalid. [`Store::replace_damaged`](super::Store::replace_damaged) is the way out.
    #[error("failed to {operation} in {}: the file is damaged", .path.display())]
    Damaged {
        /// The failed operation.
        operation: &'static str,
        /// The store's file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A newer pinfold wrote the file, which stays unchanged.
    #[error("{} has schema version {found}, and the newest known here is {known}", .path.display())]
    Newer {
        /// The store's file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version known to this build.
        known: u32,
    },
    /// `begin` inside an open transaction, or an operation that cannot run inside a transaction.
    #[error("failed to {operation} in {}: a transaction is open", .path.display())]
    InTransaction {
        /// The failed operation.
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
    /// A write after a failed write of the same transaction: the transaction is already undone.
    #[error("failed to {operation} in {}: the transaction is undone after an earlier failure", .path.display())]
    Undone {
        /// The failed operation.
        operation: &'static str,
        /// The store's file.
        path: PathBuf,
        /// Whether the earlier failure was a full disk.
        full: bool,
    },
    /// The store does not have the job.
    #[error("failed to update job {job} in {}: there is no such job", .path.display())]
    NoSuchJob {
        /// The job.
        job: u64,
        /// The store's file.
        path: PathBuf,
    },
    /// Other errors of SQLite: another process locks the file, the medium fails.
    #[error("failed to {operation} in {}", .path.display())]
    Other {
        /// The failed operation.
        operation: &'static str,
        /// The store's file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The file system refuses.
    #[error("failed to {operation} {}", .path.display())]
    File {
        /// The failed operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl StoreError {
    /// Classifies an SQLite error by its remedy.
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

    /// Whether the disk is full, so that a later retry may succeed.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } | Self::Undone { full: true, .. } => true,
            Self::File { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }

    /// Whether the store refuses only this row, because of its values or an existing row: the same row will fail
    /// again, and other rows are unaffected.
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

/// See [`StoreError::is_about_the_row`]. An error without an SQLite code is a failed conversion of a value.
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
