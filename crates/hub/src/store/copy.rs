//! Copies of the database: made while the hub serves, verified before they have their name, and put back while it does not.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, backup::Backup};

use super::{DbError, StoreError, db, schema};

/// Pages that are copied at once.
const PAGES: std::ffi::c_int = 1_000;

/// What a copy holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The version of its tables.
    pub version: u32,
    /// Hosts.
    pub hosts: u64,
    /// Jobs.
    pub jobs: u64,
}

/// Copies a database, also one that a hub serves. The copy is verified, and has its name only then.
///
/// # Errors
/// When either cannot be used, the copy is there already, or it is damaged.
pub fn backup(database: &Path, copy: &Path) -> Result<Copied, StoreError> {
    if copy.exists() {
        let source = std::io::ErrorKind::AlreadyExists.into();
        return Err(StoreError::File { what: "make", path: copy.to_owned(), source });
    }
    let unfinished = beside(copy, ".unfinished");
    let done = copy_to(database, &unfinished).and_then(|()| verify(&unfinished));
    let done = done.and_then(|copied| named(&unfinished, copy).map(|()| copied));
    if done.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    done
}

/// Puts a copy in the place of a database that no hub serves. What was there before stays beside it as `FILE.before`. At
/// each instant there is a database of that name: the former one, or the copy.
///
/// # Errors
/// When the copy is damaged, there is a `FILE.before` from earlier, or the files cannot be moved.
pub fn restore(database: &Path, copy: &Path) -> Result<Copied, StoreError> {
    let copied = verify(copy)?;
    let unfinished = beside(database, ".unfinished");
    copy_to(copy, &unfinished)?;
    if database.exists()
        && let Err(error) = keep_former(database, &beside(database, ".before"))
    {
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    for log in ["-wal", "-shm"] {
        let _ = fs::remove_file(beside(database, log));
    }
    named(&unfinished, database)?;
    Ok(copied)
}

/// Gives the database that is replaced a second name.
fn keep_former(database: &Path, before: &Path) -> Result<(), StoreError> {
    let failed =
        |source| StoreError::File { what: "keep the former database as", path: before.to_owned(), source };
    // One that was cut short here has given it that name already.
    if before.exists() && !same_file(database, before).map_err(failed)? {
        return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
    }
    // What is in the log belongs to the file: it goes back into it first. A damaged file may not take it.
    let closed = Connection::open(database).and_then(|old| {
        old.pragma_update_and_check(None, "wal_checkpoint", "TRUNCATE", |_| Ok(()))?;
        old.close().map_err(|(_, error)| error)
    });
    let log = beside(database, "-wal");
    if closed.is_err() && log.exists() {
        named(&log, &beside(before, "-wal"))?;
    }
    if !before.exists() {
        fs::hard_link(database, before).map_err(failed)?;
    }
    Ok(())
}

fn same_file(one: &Path, other: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let (one, other) = (fs::metadata(one)?, fs::metadata(other)?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Looks through a whole database for damage.
///
/// # Errors
/// When it is damaged, of a later version, or none.
pub fn verify(path: &Path) -> Result<Copied, StoreError> {
    let failed = database_failed("look through the database");
    let damaged = |what: String| StoreError::Damaged { path: path.to_owned(), what };
    if !path.is_file() {
        let source = std::io::ErrorKind::NotFound.into();
        return Err(StoreError::File { what: "read", path: path.to_owned(), source });
    }
    let connection = db::open_read_only(path).map_err(StoreError::doing("open the database"))?;
    let word: String = connection
        .pragma_query_value(None, "integrity_check", |row| row.get(0))
        .map_err(|error| damaged(error.to_string()))?;
    if word != "ok" {
        return Err(damaged(word));
    }
    let version: u32 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(&failed)?;
    if version > schema::VERSION {
        return Err(StoreError::Later {
            name: path.display().to_string(),
            found: version,
            known: schema::VERSION,
        });
    }
    let count = |table: &str| {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0))
    };
    let not_ours = |error: rusqlite::Error| damaged(format!("it is no hub's database: {error}"));
    let (hosts, jobs) = (count("hosts").map_err(not_ours)?, count("jobs").map_err(not_ours)?);
    let natural = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(Copied { version, hosts: natural(hosts), jobs: natural(jobs) })
}

fn database_failed(what: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| StoreError::doing(what)(DbError::from(error))
}

fn copy_to(from: &Path, to: &Path) -> Result<(), StoreError> {
    let failed = database_failed("copy the database");
    if !from.is_file() {
        let source = std::io::ErrorKind::NotFound.into();
        return Err(StoreError::File { what: "read", path: from.to_owned(), source });
    }
    let _ = fs::remove_file(to);
    let source = db::open_read_only(from).map_err(StoreError::doing("open the database"))?;
    db::private(to).map_err(|source| StoreError::File { what: "make", path: to.to_owned(), source })?;
    let mut target = Connection::open(to).map_err(&failed)?;
    // All of it as it is now. Without a transaction of its own each change by others would begin the copy anew, and one of a
    // hub that is never idle would not end.
    source.execute_batch("BEGIN").map_err(&failed)?;
    source.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(&failed)?;
    let copy = Backup::new(&source, &mut target).map_err(&failed)?;
    copy.run_to_completion(PAGES, Duration::from_millis(1), None).map_err(&failed)?;
    drop(copy);
    // One file, without a log beside it.
    target.pragma_update(None, "journal_mode", "delete").map_err(&failed)
}

/// Gives a file its name, on disk.
fn named(from: &Path, to: &Path) -> Result<(), StoreError> {
    let moved = File::open(from).and_then(|file| file.sync_all()).and_then(|()| fs::rename(from, to));
    let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = moved.and_then(|()| File::open(dir)?.sync_all());
    synced.map_err(|source| StoreError::File { what: "name", path: to.to_owned(), source })
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
