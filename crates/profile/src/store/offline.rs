//! The store's file without its writer: looked through and copied beside a daemon that works on it, and put back
//! into a directory where none does. The caller needs the rights to the file; nobody else's are used.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::error::StoreError;
use super::{CheckReport, FILE_NAME, open, schema};

/// What [`restore`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Where the file that was there before is kept.
    pub kept: Option<PathBuf>,
    /// What the restored file holds.
    pub report: CheckReport,
}

/// Looks through the whole store in `dir`, also while a daemon works on it.
///
/// # Errors
/// As SQLite or the file system refuse; damage is a finding.
pub fn check(dir: &Path) -> Result<CheckReport, StoreError> {
    let path = dir.join(FILE_NAME);
    let connection = beside_its_writer(&path)?;
    super::check::report(&connection, &path)
}

/// Writes a whole and compact copy of the store in `dir` to `to`, also while a daemon works on it, looks through
/// the copy, and only then puts it in place of what was there.
///
/// # Errors
/// [`StoreError::Damaged`] when the copy does not pass; else as SQLite or the file system refuse.
pub fn backup(dir: &Path, to: &Path) -> Result<CheckReport, StoreError> {
    let path = dir.join(FILE_NAME);
    open::backup(&beside_its_writer(&path)?, &path, to)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copy = Connection::open_with_flags(to, flags).map_err(|source| StoreError::of("open", to, source))?;
    super::check::report(&copy, to)
}

/// Whether a file is a job store or a copy of one, by its application's number. Only looks.
#[must_use]
pub fn is_store(file: &Path) -> bool {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let id = Connection::open_with_flags(file, flags)
        .and_then(|store| store.query_row("PRAGMA application_id", [], |row| row.get::<_, i32>(0)));
    id.is_ok_and(|id| id == schema::APPLICATION_ID)
}

/// Puts a copy of the file `from` in place of the store in `dir`, where no daemon may be at work. The copy is
/// looked through before anything changes; what was there is kept beside it.
///
/// # Errors
/// [`StoreError::Damaged`] when `from` is not a sound store, [`StoreError::Newer`]; else as SQLite or the file
/// system refuse. Nothing has changed then.
pub fn restore(from: &Path, dir: &Path) -> Result<Restored, StoreError> {
    let path = dir.join(FILE_NAME);
    let copy = open::beside(&path, ".restore");
    for ending in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(open::beside(&copy, ending));
    }
    let result = prepare(from, &copy).and_then(|report| {
        let kept = set_aside(&path)?;
        fs::rename(&copy, &path).map_err(|source| StoreError::file("put in place", &path, source))?;
        Ok(Restored { kept, report })
    });
    if result.is_err() {
        let _ = fs::remove_file(&copy);
    }
    result
}

/// A copy that was looked through and is of this version.
fn prepare(from: &Path, copy: &Path) -> Result<CheckReport, StoreError> {
    open::touch(copy)?;
    fs::copy(from, copy).map_err(|source| StoreError::file("copy", from, source))?;
    let connection = open::whole(copy)?;
    let report = super::check::report(&connection, copy)?;
    if let Some(first) = report.problems.first() {
        return Err(open::damaged("restore", from, first));
    }
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        .map_err(|source| StoreError::of("restore", copy, source))?;
    drop(connection);
    for ending in ["-wal", "-shm"] {
        let _ = fs::remove_file(open::beside(copy, ending));
    }
    fs::File::open(copy)
        .and_then(|file| file.sync_all())
        .map_err(|source| StoreError::file("write", copy, source))?;
    Ok(report)
}

/// Moves the file and its log aside; `None`: there is none.
fn set_aside(path: &Path) -> Result<Option<PathBuf>, StoreError> {
    if !path.exists() {
        return Ok(None);
    }
    let free = (1u32..).map(|number| open::beside(path, &format!(".before-restore-{number}")));
    let kept = free.into_iter().find(|name| !name.exists()).expect("numbers do not end");
    fs::rename(path, &kept).map_err(|source| StoreError::file("move aside", path, source))?;
    let log = open::beside(path, "-wal");
    if log.exists() {
        fs::rename(&log, open::beside(&kept, "-wal"))
            .map_err(|source| StoreError::file("move aside", &log, source))?;
    }
    let _ = fs::remove_file(open::beside(path, "-shm"));
    Ok(Some(kept))
}

fn beside_its_writer(path: &Path) -> Result<Connection, StoreError> {
    if !path.exists() {
        return Err(StoreError::file(
            "open",
            path,
            std::io::Error::new(std::io::ErrorKind::NotFound, "there is no store"),
        ));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sort = |source| StoreError::of("open", path, source);
    let connection = Connection::open_with_flags(path, flags).map_err(sort)?;
    // Closing must not take the log of a living daemon in.
    open::keep_log(&connection, true).map_err(sort)?;
    connection.execute_batch("PRAGMA busy_timeout = 5000; PRAGMA trusted_schema = OFF;").map_err(sort)?;
    Ok(connection)
}
