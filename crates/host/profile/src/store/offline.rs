//! The store's file without its writer: checked and copied beside a working daemon, and restored into a directory
//! without a daemon. Needs only the caller's own rights to the file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Error, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::error::StoreError;
use super::{CheckReport, FILE_NAME, open, recovery, schema};

/// A copy in progress.
const PARTIAL: &str = ".restore-partial";
/// A complete store ready to replace the present store.
pub(super) const RESTORE: &str = ".restore";
/// The replaced store, with a number behind it.
pub(super) const BEFORE_RESTORE: &str = ".before-restore-";

/// Result of [`restore`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Path of the replaced file.
    pub kept: Option<PathBuf>,
    /// The content of the restored file.
    pub report: CheckReport,
}

/// Checks the whole store in `dir`, also beside a working daemon.
///
/// # Errors
/// As SQLite or the file system refuse; damage is a finding.
pub fn check(dir: &Path) -> Result<CheckReport, StoreError> {
    let path = dir.join(FILE_NAME);
    let connection = beside_its_writer(&path)?;
    super::check::report(&connection, &path)
}

/// Writes a whole and compact copy of the store in `dir` to `to`, also beside a working daemon, checks the copy, and
/// only then replaces an existing file.
///
/// # Errors
/// [`StoreError::File`] when `to` is the store itself, has a temporary name, or is a database possibly in use;
/// [`StoreError::Damaged`] when the copy fails the check; else as SQLite or the file system refuse.
pub fn backup(dir: &Path, to: &Path) -> Result<CheckReport, StoreError> {
    let path = dir.join(FILE_NAME);
    is_not_passing(&path, to)?;
    may_be_replaced(&path, to)?;
    open::backup(&beside_its_writer(&path)?, &path, to)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copy = Connection::open_with_flags(to, flags).map_err(|source| StoreError::of("open", to, source))?;
    super::check::report(&copy, to)
}

/// Refuses the temporary names beside the store: the next start or restoration removes files with these names.
fn is_not_passing(path: &Path, file: &Path) -> Result<(), StoreError> {
    let folder = |path: &Path| path.parent().and_then(|folder| folder.canonicalize().ok());
    let passing = [PARTIAL, RESTORE, recovery::SALVAGE, open::SUSPECT];
    let is_one = passing.iter().any(|kind| open::beside(path, kind).file_name() == file.file_name());
    if is_one && folder(path) == folder(file) {
        let why = "pinfold removes files of that name at its next start: give it another name";
        return Err(StoreError::file("use", file, Error::new(ErrorKind::InvalidInput, why)));
    }
    Ok(())
}

/// Replacing a store in use would leave its daemon writing to the unlinked file, and its log would be read into the
/// copy.
fn may_be_replaced(path: &Path, to: &Path) -> Result<(), StoreError> {
    let refused = |why: String| StoreError::file("replace", to, Error::new(ErrorKind::AlreadyExists, why));
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    if let Some(store) = identity(path)
        && identity(to) == Some(store)
    {
        return Err(refused("it is the store itself".to_owned()));
    }
    let log = open::beside(to, "-wal");
    match log.symlink_metadata() {
        Ok(_) => Err(refused(format!("a program may be at work on it, as there is {}", log.display()))),
        Err(_) => Ok(()),
    }
}

/// Whether a file is a job store or a copy, by its application id. Read-only.
#[must_use]
pub fn is_store(file: &Path) -> bool {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let id = Connection::open_with_flags(file, flags)
        .and_then(|store| store.query_row("PRAGMA application_id", [], |row| row.get::<_, i32>(0)));
    id.is_ok_and(|id| id == schema::APPLICATION_ID)
}

/// Replaces the store in `dir`, where no daemon may work, by a copy of the file `from`. Checks the copy before any
/// change; keeps the old store beside it.
///
/// # Errors
/// [`StoreError::Damaged`] when `from` is not a sound store, [`StoreError::Newer`]; else as SQLite or the file system
/// refuse. All files are unchanged then.
pub fn restore(from: &Path, dir: &Path) -> Result<Restored, StoreError> {
    let path = dir.join(FILE_NAME);
    is_not_passing(&path, from)?;
    // An interrupted restoration leaves a log without its file, which SQLite would apply to the copy.
    recovery::finish_interrupted(&path)?;
    let (partial, copy) = (open::beside(&path, PARTIAL), open::beside(&path, RESTORE));
    let clear = || {
        for ending in ["", "-wal", "-shm", "-journal"] {
            let _ = fs::remove_file(open::beside(&partial, ending));
        }
        let _ = fs::remove_file(&copy);
    };
    clear();
    let result = prepare(from, &partial).and_then(|report| {
        // The name marks a complete copy: a start that finds no store continues from here.
        rename("put in place", &partial, &copy)?;
        Ok(Restored { kept: exchange(&path, &copy)?, report })
    });
    if result.is_err() {
        clear();
    }
    result
}

/// Moves the store aside and puts the copy in its place; returns the old store's new path. On failure the store is
/// back in its place.
fn exchange(path: &Path, copy: &Path) -> Result<Option<PathBuf>, StoreError> {
    let kept = set_aside(path)?;
    let put = rename("put in place", copy, path);
    if let (Err(_), Some(kept)) = (&put, &kept) {
        let _ = fs::rename(kept, path);
        let _ = fs::rename(open::beside(kept, "-wal"), open::beside(path, "-wal"));
    }
    put.map(|()| kept)
}

fn rename(doing: &'static str, from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(|source| StoreError::file(doing, from, source))
}

/// A checked copy, migrated to this version. The log of a killed program belongs to it.
fn prepare(from: &Path, copy: &Path) -> Result<CheckReport, StoreError> {
    copy_file(from, copy).map_err(|source| StoreError::file("copy", from, source))?;
    let log = open::beside(from, "-wal");
    match copy_file(&log, &open::beside(copy, "-wal")) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        copied => copied.map_err(|source| StoreError::file("copy", &log, source))?,
    }
    if open::has_no_tables(copy) {
        return Err(open::damaged("restore", from, "there is nothing in it"));
    }
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

/// Copies a file's content into a file readable only by its owner, whatever the source's permissions.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    io::copy(&mut from, &mut to).map(drop)
}

/// Moves the file and its log aside; `None` without a file.
fn set_aside(path: &Path) -> Result<Option<PathBuf>, StoreError> {
    if !path.exists() {
        return Ok(None);
    }
    let kept = recovery::free_name(path, BEFORE_RESTORE)?;
    rename("move aside", path, &kept)?;
    let log = open::beside(path, "-wal");
    if log.exists()
        && let Err(error) = rename("move aside", &log, &open::beside(&kept, "-wal"))
    {
        let _ = fs::rename(&kept, path);
        return Err(error);
    }
    let _ = fs::remove_file(open::beside(path, "-shm"));
    Ok(Some(kept))
}

fn beside_its_writer(path: &Path) -> Result<Connection, StoreError> {
    match path.try_exists() {
        Ok(true) => {}
        Ok(false) => {
            return Err(StoreError::file("open", path, Error::new(ErrorKind::NotFound, "there is no store")));
        }
        // Existence is unknown, usually because the directory belongs to another user.
        Err(source) => return Err(StoreError::file("look for", path, source)),
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sort = |source| StoreError::of("open", path, source);
    let connection = Connection::open_with_flags(path, flags).map_err(sort)?;
    // Closing must not take the log of a living daemon in.
    open::keep_log(&connection, true).map_err(sort)?;
    connection.execute_batch("PRAGMA busy_timeout = 5000; PRAGMA trusted_schema = OFF;").map_err(sort)?;
    Ok(connection)
}
