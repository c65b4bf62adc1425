//! Copies of the database: made while the hub serves, named once verified, and restored while no hub serves.
//!
//! A restored copy is of an earlier time. Tokens revoked since are revoked in the copy too, as far as the former
//! database can be read; all sessions end; and a new generation has hosts send again the data that the copy lacks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, backup::Backup};

use super::{DbError, StoreError, TokenRow, db, generation, is_there, schema, whole};

/// Pages copied at a time.
const PAGES: std::ffi::c_int = 1_000;

/// Contents of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The schema version.
    pub version: u32,
    /// Number of hosts.
    pub hosts: u64,
    /// Number of jobs.
    pub jobs: u64,
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Contents of the copy.
    pub copied: Copied,
    /// Tokens revoked after the copy was made, and now revoked in it.
    pub revoked: Vec<TokenRow>,
    /// Valid tokens of the former database that the copy lacks.
    pub missing: Vec<TokenRow>,
    /// Tokens now valid in the copy.
    pub valid: Vec<TokenRow>,
    /// Whether the former database could be read for revoked tokens; otherwise its revoked tokens are valid again.
    pub former_read: bool,
}

/// Copies a database, even a served database. The copy gets its name only after it is verified.
///
/// # Errors
/// When either cannot be used, the copy exists already, or the copy is damaged.
pub fn backup(database: &Path, copy: &Path) -> Result<Copied, StoreError> {
    if copy.exists() {
        return Err(StoreError::Refused(format!(
            "{} is there already, and no copy is written over it: name another file, or move that one away",
            copy.display()
        )));
    }
    let unfinished = beside(copy, ".unfinished");
    let done = copy_to(database, &unfinished).and_then(|()| verify(&unfinished));
    let done = done.and_then(|copied| named(&unfinished, copy).map(|()| copied));
    if done.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    done
}

/// Puts a copy in the place of a database that no hub serves. The former database stays beside it as `FILE.before`. At
/// each instant a database of that name exists: the former database, or the copy.
///
/// # Errors
/// When the copy is damaged, a `FILE.before` of an earlier restore exists, or the files cannot be moved.
pub fn restore(database: &Path, copy: &Path, who: &str, now_us: u64) -> Result<Restored, StoreError> {
    // A missing copy is reported as a missing file, not as a missing hub's database.
    fs::metadata(copy).map_err(|source| StoreError::File { what: "read", path: copy.to_owned(), source })?;
    let copied = verify(copy)?;
    let unfinished = beside(database, ".unfinished");
    copy_to(copy, &unfinished)?;
    let former = database.is_file().then(|| former_tokens(database)).flatten();
    let bring = || -> Result<Restored, StoreError> {
        let failed = database_failed("bring the copy up to date");
        let restored = up_to_date(&unfinished, copied, former.as_ref(), (who, now_us)).map_err(failed)?;
        if database.exists() {
            keep_former(database, &beside(database, ".before"))?;
        }
        Ok(restored)
    };
    let restored = bring().inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
    for log in ["-wal", "-shm"] {
        let _ = fs::remove_file(beside(database, log));
    }
    named(&unfinished, database)?;
    Ok(restored)
}

/// Tokens by their hashes.
type Tokens = BTreeMap<Vec<u8>, TokenRow>;

/// Tokens of a database that may be damaged.
fn former_tokens(database: &Path) -> Option<Tokens> {
    let connection = db::open_read_only(database).ok()?;
    tokens(&connection).ok()
}

fn tokens(connection: &Connection) -> rusqlite::Result<Tokens> {
    let mut find = connection.prepare("SELECT hash, id, kind, name, made_us, revoked_us FROM tokens")?;
    let rows = find.query_map([], |row| {
        let token = TokenRow {
            id: row.get(1)?,
            kind: row.get(2)?,
            name: row.get(3)?,
            made_us: natural(row.get(4)?),
            revoked_us: row.get::<_, Option<i64>>(5)?.map(natural),
        };
        Ok((row.get(0)?, token))
    })?;
    rows.collect()
}

/// Applies later revocations to a copy, ends its sessions, and begins a generation.
fn up_to_date(
    copy: &Path,
    copied: Copied,
    former: Option<&Tokens>,
    (who, now_us): (&str, u64),
) -> rusqlite::Result<Restored> {
    let mut connection = Connection::open(copy)?;
    let change = connection.transaction()?;
    change.execute_batch("DELETE FROM codes; DELETE FROM sessions")?;
    let mut own = tokens(&change)?;
    let (mut revoked, mut missing) = (Vec::new(), Vec::new());
    for (hash, token) in former.into_iter().flatten() {
        match (own.get_mut(hash), token.revoked_us) {
            (None, None) => missing.push(token.clone()),
            (Some(own), Some(since_us)) if own.revoked_us.is_none() => {
                let set = "UPDATE tokens SET revoked_us = ?2 WHERE hash = ?1";
                change.execute(set, (hash, whole(since_us)))?;
                own.revoked_us = Some(since_us);
                revoked.push(own.clone());
            }
            _ => {}
        }
    }
    let set = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    change.execute(set, (generation::KEY, now_us.to_string()))?;
    let note =
        "INSERT INTO audit (time_us, who, action, detail) VALUES (?1, ?2, 'restore', 'a copy was put back')";
    change.execute(note, (whole(now_us), who))?;
    change.commit()?;
    let mut valid: Vec<TokenRow> = own.into_values().filter(|token| token.revoked_us.is_none()).collect();
    [&mut revoked, &mut missing, &mut valid].into_iter().for_each(|list| list.sort_by_key(|token| token.id));
    Ok(Restored { copied, revoked, missing, valid, former_read: former.is_some() })
}

fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Gives the replaced database a second name.
fn keep_former(database: &Path, before: &Path) -> Result<(), StoreError> {
    let failed =
        |source| StoreError::File { what: "keep the former database as", path: before.to_owned(), source };
    // An interrupted restore has linked the database to that name already.
    if before.exists() && !same_file(database, before).map_err(failed)? {
        let words =
            format!("{} is the database of before an earlier restore: move it away first", before.display());
        return Err(StoreError::Refused(words));
    }
    // The log is part of the database: checkpoint it first. The checkpoint may fail on a damaged file.
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

/// Checks a whole database for damage.
///
/// # Errors
/// When it is damaged, of a later version, or not a hub's database.
pub fn verify(path: &Path) -> Result<Copied, StoreError> {
    let failed = database_failed("look through the database");
    let damaged = |what: String| StoreError::Damaged { path: path.to_owned(), what };
    is_there(path)?;
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
    Ok(Copied { version, hosts: natural(hosts), jobs: natural(jobs) })
}

fn database_failed(what: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| StoreError::doing(what)(DbError::from(error))
}

fn copy_to(from: &Path, to: &Path) -> Result<(), StoreError> {
    let failed = database_failed("copy the database");
    is_there(from)?;
    let _ = fs::remove_file(to);
    let source = db::open_read_only(from).map_err(StoreError::doing("open the database"))?;
    db::private(to).map_err(|source| StoreError::File { what: "make", path: to.to_owned(), source })?;
    let mut target = Connection::open(to).map_err(&failed)?;
    // Reads a single snapshot. Without a transaction each foreign change restarts the copy, and the copy of a busy
    // hub's database would not end.
    source.execute_batch("BEGIN").map_err(&failed)?;
    source.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(&failed)?;
    let copy = Backup::new(&source, &mut target).map_err(&failed)?;
    copy.run_to_completion(PAGES, Duration::from_millis(1), None).map_err(&failed)?;
    drop(copy);
    // A single file, without a log.
    target.pragma_update(None, "journal_mode", "delete").map_err(&failed)
}

/// Renames a file durably.
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
