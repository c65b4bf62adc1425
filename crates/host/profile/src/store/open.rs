//! Opens a file as a store: creation, checks and settings. Also the copy for backup.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, ffi};

use super::error::StoreError;
use super::fields::whole as whole_number;
use super::schema;

/// Files up to this size are fully checked at each opening (measured: 20 ms per MiB); of larger files only the tables
/// that decide about jobs, because the daemon must be back within a second. A file with suspected damage is always
/// fully checked.
const LOOK_THROUGH_MAX_BYTES: u64 = 16 << 20;

/// Marks a store that was found damaged in use, for the next opening.
pub(super) const SUSPECT: &str = ".suspect";

/// How long a write waits for another program's lock. Readers never lock in WAL mode.
const BUSY: Duration = Duration::from_millis(500);

/// The path with an ending, as SQLite names its log.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Marks the file for a full check at the next opening. A failure only means the usual check.
pub(super) fn suspect_damage(path: &Path) {
    let _ = touch(&beside(path, SUSPECT));
}

/// A damage error with our own message.
pub(super) fn damaged(operation: &'static str, path: &Path, what: &str) -> StoreError {
    let source = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(what.to_owned()));
    StoreError::Damaged { operation, path: path.to_owned(), source }
}

/// Creates an empty file with mode 0600; an existing file is unchanged.
pub(super) fn touch(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(StoreError::file("create", path, source)),
    }
}

/// Opens or creates the file at `path`, checks it, and migrates it to the newest schema.
pub(super) fn whole_at(path: &Path, to: u32) -> Result<Connection, StoreError> {
    touch(path)?;
    check_header(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection =
        Connection::open_with_flags(path, flags).map_err(|source| StoreError::of("open", path, source))?;
    // Unchecked files are only read: closing must not apply the log.
    let sort = |source| StoreError::of("open", path, source);
    keep_log(&connection, true).map_err(sort)?;
    set_up(&mut connection, path, to).map_err(|error| suspect(path, error))?;
    keep_log(&connection, false).map_err(sort)?;
    Ok(connection)
}

/// Whether a file is an empty file or a database without tables. Read-only.
pub(super) fn has_no_tables(path: &Path) -> bool {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let look = || {
        let connection = Connection::open_with_flags(path, flags)?;
        keep_log(&connection, true)?;
        is_empty(&connection)
    };
    look().unwrap_or(false)
}

/// A read-only connection that sees the file's present state for its whole life.
pub(super) fn one_moment(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; BEGIN")?;
    // The first read fixes the moment.
    is_empty(&connection)?;
    Ok(connection)
}

/// Whether closing leaves the log instead of applying it.
pub(super) fn keep_log(connection: &Connection, keep: bool) -> rusqlite::Result<bool> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)
}

/// [`whole_at`] the newest version.
pub(super) fn whole(path: &Path) -> Result<Connection, StoreError> {
    whole_at(path, schema::VERSION)
}

/// Checks the two bytes of SQLite's header with the read and write versions; with other values SQLite silently opens
/// the file read-only.
fn check_header(path: &Path) -> Result<(), StoreError> {
    // Opening a FIFO without a writer would block.
    let found = fs::metadata(path).map_err(|source| StoreError::file("look at", path, source))?;
    if !found.is_file() {
        let what = std::io::Error::new(ErrorKind::InvalidInput, "it is no regular file");
        return Err(StoreError::file("open", path, what));
    }
    let mut header = [0u8; 20];
    let mut file = fs::File::open(path).map_err(|source| StoreError::file("open", path, source))?;
    let read = file.read(&mut header).map_err(|source| StoreError::file("read", path, source))?;
    let versions_fit = header[18..20].iter().all(|version| matches!(version, 1 | 2));
    if read == 0 || (read == 20 && header.starts_with(b"SQLite format 3\0") && versions_fit) {
        return Ok(());
    }
    Err(damaged("open", path, "it does not begin as an SQLite file does"))
}

/// While a file is opened, an error not explained by disk, memory, lock or permission comes from the file's content.
fn suspect(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Other { operation, source, .. } => {
            let innocent = matches!(
                source.sqlite_error_code(),
                Some(
                    ErrorCode::DatabaseBusy
                        | ErrorCode::DatabaseLocked
                        | ErrorCode::PermissionDenied
                        | ErrorCode::ReadOnly
                        | ErrorCode::OutOfMemory
                        | ErrorCode::CannotOpen
                        | ErrorCode::AuthorizationForStatementDenied
                )
            );
            let medium = source.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
                && source.sqlite_error().map(|error| error.extended_code)
                    != Some(ffi::SQLITE_IOERR_SHORT_READ);
            let path = path.to_owned();
            if innocent || medium {
                StoreError::Other { operation, path, source }
            } else {
                StoreError::Damaged { operation, path, source }
            }
        }
        other => other,
    }
}

fn set_up(connection: &mut Connection, path: &Path, to: u32) -> Result<(), StoreError> {
    let sort = |source| StoreError::of("open", path, source);
    connection.busy_timeout(BUSY).map_err(sort)?;
    connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF;").map_err(sort)?;
    let found = schema::version(connection).map_err(sort)?;
    if is_empty(connection).map_err(sort)? {
        if found != 0 {
            return Err(damaged("open", path, "it has a version and no tables"));
        }
        // Only before the first table is made, and not in WAL mode, can a file be told to give pages back.
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL").map_err(sort)?;
    } else {
        check_origin(connection, path, found)?;
    }
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 8388608;",
        )
        .map_err(sort)?;
    if found > 0 {
        look_through(connection, path)?;
    }
    schema::migrate(connection, to).map_err(sort)?;
    check_schema(connection, path, to)
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(tables == 0)
}

/// Whether the file is a pinfold store of a known version. Header and `meta` both hold the version: a difference
/// shows a damaged header, not a newer pinfold.
fn check_origin(connection: &Connection, path: &Path, found: u32) -> Result<(), StoreError> {
    let sort = |source| StoreError::of("open", path, source);
    let id: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(sort)?;
    if id != schema::APPLICATION_ID {
        return Err(damaged("open", path, "it is not a store of pinfold's"));
    }
    let noted = schema::noted_version(connection).map_err(sort)?;
    if noted != Some(i64::from(found)) {
        return Err(damaged("open", path, "its header and its table `meta` name different versions"));
    }
    if found > schema::VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: schema::VERSION });
    }
    Ok(())
}

/// Compares the indexes of `jobs` with the table: a job missing from an index would be lost.
fn look_through(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let bytes = fs::metadata(path).map_err(|source| StoreError::file("look at", path, source))?.len();
    let mut problems = problems(connection, "integrity_check", "jobs");
    // Removed first: the check of a large file may take so long that the start is killed, and the next start must not
    // repeat that.
    let suspected = fs::remove_file(beside(path, SUSPECT)).is_ok();
    if bytes <= LOOK_THROUGH_MAX_BYTES || suspected {
        problems.extend(self::problems(connection, "quick_check", ""));
    } else {
        problems.extend(self::problems(connection, "quick_check", "meta"));
        problems.extend(self::problems(connection, "quick_check", "decisions"));
    }
    match problems.first() {
        None => Ok(()),
        Some(first) => Err(damaged("check", path, first)),
    }
}

/// Whether writes skip the schema's CHECKs. The row types cannot violate them, STRICT tables still check types, and
/// CHECKs cost much of an update: SQLite makes a table for each `IN`. A check of the file verifies every row.
pub(super) fn trust_writes(connection: &Connection, trust: bool) -> rusqlite::Result<()> {
    connection.pragma_update(None, "ignore_check_constraints", trust)
}

/// The findings of SQLite's own check, including CHECKs; of the whole file when `table` is empty.
pub(super) fn problems(connection: &Connection, check: &str, table: &str) -> Vec<String> {
    let trusts = |connection: &Connection| {
        connection.query_row("PRAGMA ignore_check_constraints", [], |row| row.get::<_, bool>(0))
    };
    let look = || {
        let trusts = trusts(connection)?;
        trust_writes(connection, false)?;
        let problems = all_problems(connection, check, table);
        trust_writes(connection, trusts)?;
        Ok(problems)
    };
    look().unwrap_or_else(|error: rusqlite::Error| vec![error.to_string()])
}

fn all_problems(connection: &Connection, check: &str, table: &str) -> Vec<String> {
    let sql = if table.is_empty() { format!("PRAGMA {check}") } else { format!("PRAGMA {check}({table})") };
    let run = || {
        let mut statement = connection.prepare(&sql)?;
        statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()
    };
    match run() {
        Ok(lines) => lines.into_iter().filter(|line| line != "ok").collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// All objects of the schema must exist verbatim; users' additions may stay.
fn check_schema(connection: &Connection, path: &Path, to: u32) -> Result<(), StoreError> {
    let sort = |source| StoreError::of("open", path, source);
    let mut fresh = Connection::open_in_memory().map_err(sort)?;
    schema::migrate(&mut fresh, to).map_err(sort)?;
    let there = schema::objects(connection).map_err(sort)?;
    match schema::objects(&fresh).map_err(sort)?.difference(&there).next() {
        None => Ok(()),
        Some((kind, name, _)) => {
            Err(damaged("open", path, &format!("its {kind} `{name}` is not as it was made")))
        }
    }
}

/// The number after the largest job number of the file.
pub(super) fn next_job(connection: &Connection) -> rusqlite::Result<u64> {
    let kept: Option<i64> = connection
        .query_row("SELECT value FROM meta WHERE key = 'next_job'", [], |row| row.get(0))
        .optional()?;
    let used: Option<i64> = connection.query_row("SELECT max(job) FROM jobs", [], |row| row.get(0))?;
    let next = kept.unwrap_or(1).max(used.unwrap_or(0).saturating_add(1));
    Ok(u64::try_from(next).unwrap_or(1))
}

/// Stores the next job's number.
pub(super) fn keep_next_job(connection: &Connection, next_job: u64) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES ('next_job', ?1)")?
        .execute([whole_number(next_job)])
}

/// A number stored in `meta`.
pub(super) fn noted(connection: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    let mut select = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    select.query_row([key], |row| row.get(0)).optional()
}

/// Stores a number in `meta`.
pub(super) fn note(connection: &Connection, key: &str, value: i64) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?;
    insert.execute((key, value)).map(drop)
}

/// Copies the store to `to` through a temporary file beside it.
pub(super) fn backup(connection: &Connection, path: &Path, to: &Path) -> Result<(), StoreError> {
    let partial = beside(to, ".partial");
    match fs::remove_file(&partial) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            return Err(StoreError::file("replace", &partial, source));
        }
        _ => {}
    }
    // SQLite accepts an existing empty file, with its permissions.
    touch(&partial)?;
    let copied = copy_whole(connection, path, &partial).and_then(|()| {
        fs::File::open(&partial)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&partial, to))
            .map_err(|source| StoreError::file("put in place", to, source))
    });
    if copied.is_err() {
        // The partial copy is useless; report the first error.
        let _ = fs::remove_file(&partial);
    }
    copied
}

fn copy_whole(connection: &Connection, path: &Path, partial: &Path) -> Result<(), StoreError> {
    let name = partial.to_str().ok_or_else(|| {
        StoreError::file("write a backup to", partial, std::io::Error::from(ErrorKind::InvalidFilename))
    })?;
    connection.execute("VACUUM INTO ?1", [name]).map_err(|source| StoreError::of("back up", path, source))?;
    let copy = Connection::open_with_flags(partial, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|source| StoreError::of("open the backup", partial, source))?;
    match problems(&copy, "integrity_check", "").first() {
        None => Ok(()),
        Some(first) => Err(damaged("check the backup", partial, first)),
    }
}
