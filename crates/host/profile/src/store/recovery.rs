//! Recovers from a damaged file: makes a fresh store of the readable data, and moves the damaged file aside.
//!
//! Each step may be interrupted: the fresh store is complete, beside the damaged store, before any rename, and
//! [`finish_interrupted`] completes interrupted renames. The damaged file is only read: by SQLite as far as possible,
//! then page by page (`pages`).

mod pages;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::error::StoreError;
use super::fields::{Binder, whole};
use super::{insert, offline, open, rows, schema};
use pages::{Pages, Record};

/// The fresh store until it is complete.
pub(super) const SALVAGE: &str = ".salvage";

/// A damaged file moved aside, with a number behind it.
const DAMAGED: &str = ".damaged-";

/// How often reading is taken up again behind damaged places.
const RETRIES_MAX: u32 = 4_096;

/// Numbers tried singly behind a damaged place before steps double: more than the jobs of a page.
const ONE_BY_ONE: u32 = 64;

/// The number of columns of `jobs` in version 1; no other table has as many.
const COLUMNS_MIN: usize = 52;

/// Larger job numbers are damage: a million jobs per second would take 285 years to get there.
const JOB_MAX: i64 = 1 << 53;

/// Report on a damaged store, for the log and for `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Where the damaged file is now.
    pub kept: PathBuf,
    /// The damage.
    pub cause: String,
    /// Jobs recovered into the fresh store.
    pub jobs: u64,
    /// Recovered jobs that have not ended.
    pub unfinished: u64,
}

impl fmt::Display for Recovery {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "the store was damaged ({}) and is kept as {}; {} jobs could be read from it, {} of them not over; \
             samples and decisions of jobs that are over are only in the damaged file",
            self.cause,
            self.kept.display(),
            self.jobs,
            self.unfinished
        )
    }
}

/// Completes a recovery or restoration interrupted between its renames.
pub(super) fn finish_interrupted(path: &Path) -> Result<(), StoreError> {
    let (salvage, restored) = (open::beside(path, SALVAGE), open::beside(path, offline::RESTORE));
    if exists(path)? {
        remove(&salvage)?;
        return remove(&restored);
    }
    let next = if exists(&restored)? {
        Some((restored, offline::BEFORE_RESTORE))
    } else if exists(&salvage)? {
        Some((salvage, DAMAGED))
    } else {
        None
    };
    let log = open::beside(path, "-wal");
    if exists(&log)? {
        let moved = match &next {
            // The file was moved aside the moment before.
            Some((_, kind)) => last_name(path, kind)?,
            None => None,
        };
        let of = match moved {
            Some(moved) => moved,
            None => free_name(path, DAMAGED)?,
        };
        rename(&log, &open::beside(&of, "-wal"))?;
    }
    if let Some((next, _)) = next {
        remove(&open::beside(path, "-shm"))?;
        rename(&next, path)?;
    }
    Ok(())
}

/// Makes a fresh store of the readable data of the file at `path`, and moves that file aside.
pub(super) fn recover(path: &Path, cause: &StoreError) -> Result<Recovery, StoreError> {
    let salvage = open::beside(path, SALVAGE);
    for ending in ["", "-journal"] {
        remove(&open::beside(&salvage, ending))?;
    }
    let (jobs, unfinished) = make_fresh(path, &salvage)?;
    let kept = free_name(path, DAMAGED)?;
    rename(path, &kept)?;
    let log = open::beside(path, "-wal");
    if exists(&log)? {
        rename(&log, &open::beside(&kept, "-wal"))?;
    }
    remove(&open::beside(path, "-shm"))?;
    rename(&salvage, path)?;
    Ok(Recovery { kept, cause: cause_words(cause), jobs, unfinished })
}

fn cause_words(cause: &StoreError) -> String {
    match cause {
        StoreError::Damaged { source: rusqlite::Error::SqliteFailure(_, Some(words)), .. } => words.clone(),
        StoreError::Damaged { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

fn exists(path: &Path) -> Result<bool, StoreError> {
    path.try_exists().map_err(|source| StoreError::file("look at", path, source))
}

/// The path with `kind` and the next number after all existing files and logs, so that the last file moved aside has
/// the highest number.
pub(super) fn free_name(path: &Path, kind: &str) -> Result<PathBuf, StoreError> {
    match highest(path, kind)?.checked_add(1) {
        Some(number) => Ok(open::beside(path, &format!("{kind}{number}"))),
        None => Err(StoreError::file("move aside", path, io::Error::from(ErrorKind::AlreadyExists))),
    }
}

/// The last of these files, if it has no log.
fn last_name(path: &Path, kind: &str) -> Result<Option<PathBuf>, StoreError> {
    let last = open::beside(path, &format!("{kind}{}", highest(path, kind)?));
    Ok((exists(&last)? && !exists(&open::beside(&last, "-wal"))?).then_some(last))
}

/// The highest existing number behind `kind`; 0 without files.
fn highest(path: &Path, kind: &str) -> Result<u32, StoreError> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(0) };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let list = || -> io::Result<u32> {
        let mut highest = 0;
        for entry in fs::read_dir(dir)? {
            let found = entry?.file_name();
            let behind = found.to_str().and_then(|found| found.strip_prefix(name)?.strip_prefix(kind));
            let number = behind.and_then(|behind| behind.strip_suffix("-wal").unwrap_or(behind).parse().ok());
            highest = highest.max(number.unwrap_or(0));
        }
        Ok(highest)
    };
    list().map_err(|source| StoreError::file("look at", dir, source))
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(|source| StoreError::file("move aside", from, source))
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(StoreError::file("remove", path, source)),
        _ => Ok(()),
    }
}

/// Fills a new file at `salvage`; returns its number of jobs, and of jobs that have not ended.
fn make_fresh(path: &Path, salvage: &Path) -> Result<(u64, u64), StoreError> {
    let sort = |source| StoreError::of("make a fresh store in", salvage, source);
    open::touch(salvage)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut fresh = Connection::open_with_flags(salvage, flags).map_err(sort)?;
    fresh.execute_batch("PRAGMA auto_vacuum = INCREMENTAL").map_err(sort)?;
    schema::migrate(&mut fresh, schema::VERSION).map_err(sort)?;
    let transaction = fresh.transaction().map_err(sort)?;
    // If no part of the old file is readable, the fresh store stays empty.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut is_all = false;
    if let Ok(old) = Connection::open_with_flags(path, flags) {
        is_all = salvage_all(&old, &transaction).map_err(sort)?;
    }
    // Free pages keep their content, so pages also hold removed jobs.
    if !is_all && let Ok(pages) = Pages::open(path) {
        salvage_pages(&pages, &transaction).map_err(sort)?;
    }
    let counts = count(&transaction).map_err(sort)?;
    transaction.commit().map_err(sort)?;
    Ok(counts)
}

/// Copies all readable rows; returns whether these are surely all jobs. Errors are of the fresh store; unreadable
/// rows are left behind.
fn salvage_all(old: &Connection, fresh: &Connection) -> rusqlite::Result<bool> {
    let (jobs, to_the_end) = read_jobs(old);
    let mut next = old
        .query_row("SELECT value FROM meta WHERE key = 'next_job'", [], |row| row.get::<_, i64>(0))
        .unwrap_or(1);
    for table in ["jobs", "samples", "blocks", "processes", "files", "nodes", "decisions"] {
        let highest =
            old.query_row(&format!("SELECT max(job) FROM {table} NOT INDEXED"), [], |row| row.get(0));
        next = next.max(highest.ok().flatten().unwrap_or(0).min(JOB_MAX) + 1);
    }
    let mut write = fresh.prepare(&insert("INSERT INTO jobs", &rows::JOB))?;
    for row in &jobs {
        rows::bind_job(row, &mut Binder::new(&mut write))?;
        next = next.max(whole(row.job) + 1);
        if !is_taken(write.raw_execute())? {
            continue;
        }
        if row.state != pinfold_proto::JobState::Exited {
            salvage_job(old, fresh, row.job)?;
        }
    }
    open::keep_next_job(fresh, u64::try_from(next.min(JOB_MAX)).unwrap_or(1))?;
    Ok(to_the_end && open::problems(old, "integrity_check", "jobs").is_empty())
}

/// Whether a row was inserted. A row that violates the table's types or CHECKs is dropped, because a bit may have
/// been flipped.
fn is_taken<T>(done: rusqlite::Result<T>) -> rusqlite::Result<bool> {
    use rusqlite::ErrorCode::{ConstraintViolation, TypeMismatch};
    match done {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.sqlite_error_code(), Some(ConstraintViolation | TypeMismatch)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Inserts jobs found only in pages. Of two rows of a job (a free page may have an older row) the row of the ended
/// job wins.
fn salvage_pages(pages: &Pages, fresh: &Connection) -> rusqlite::Result<()> {
    let known: BTreeSet<i64> = fresh
        .prepare("SELECT job FROM jobs")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    // In the order of the table; a row of an older version has only the first columns.
    let columns: Vec<String> = fresh
        .prepare("SELECT name FROM pragma_table_info('jobs') ORDER BY cid")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut result = Ok(());
    pages.records(COLUMNS_MIN..=columns.len(), |record| {
        if result.is_ok() && (1..=JOB_MAX).contains(&record.number) && !known.contains(&record.number) {
            result = insert_record(fresh, &columns, record);
        }
    });
    result
}

fn insert_record(fresh: &Connection, columns: &[String], record: Record) -> rusqlite::Result<()> {
    let columns = &columns[..record.columns.len()];
    let set: Vec<String> = columns.iter().skip(1).map(|name| format!("{name} = excluded.{name}")).collect();
    let sql = format!(
        "INSERT INTO jobs ({}) VALUES ({}) ON CONFLICT (job) DO UPDATE SET {} \
         WHERE jobs.state <> 'exited' AND excluded.state = 'exited'",
        columns.join(","),
        vec!["?"; columns.len()].join(","),
        set.join(",")
    );
    let number = std::iter::once(rusqlite::types::Value::Integer(record.number));
    let values = number.chain(record.columns.into_iter().skip(1));
    is_taken(fresh.prepare_cached(&sql)?.execute(rusqlite::params_from_iter(values))).map(drop)
}

/// The number of jobs, and of jobs that have not ended; stores the next number.
fn count(fresh: &Connection) -> rusqlite::Result<(u64, u64)> {
    open::keep_next_job(fresh, open::next_job(fresh)?)?;
    let sql = "SELECT count(*), count(*) FILTER (WHERE state <> 'exited') FROM jobs";
    let (jobs, unfinished): (i64, i64) = fresh.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((u64::try_from(jobs).unwrap_or(0), u64::try_from(unfinished).unwrap_or(0)))
}

/// Copies the readable samples and decisions of a job.
fn salvage_job(old: &Connection, fresh: &Connection, job: u64) -> rusqlite::Result<()> {
    let mut write = fresh.prepare_cached(&insert("INSERT OR REPLACE INTO samples", &rows::SAMPLE))?;
    let columns = there(old, "samples", &rows::SAMPLE);
    let sql = format!("SELECT {columns} FROM samples WHERE job = ?1 ORDER BY time_us");
    for row in readable(old, &sql, job, rows::read_sample) {
        rows::bind_sample(&row, &mut Binder::new(&mut write))?;
        is_taken(write.raw_execute())?;
    }
    let mut write = fresh.prepare_cached(
        "INSERT OR REPLACE INTO blocks (job, first_us, last_us, step_us, samples, data) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let sql =
        "SELECT job, first_us, last_us, step_us, samples, data FROM blocks WHERE job = ?1 ORDER BY first_us";
    type Block = (i64, i64, i64, i64, i64, Vec<u8>);
    let block = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Block> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
    };
    for block in readable(old, sql, job, block) {
        is_taken(write.execute(block))?;
    }
    let mut write = fresh.prepare_cached(&insert("INSERT OR REPLACE INTO processes", &rows::PROCESS))?;
    let columns = there(old, "processes", &rows::PROCESS);
    let sql = format!("SELECT {columns} FROM processes WHERE job = ?1 ORDER BY number");
    for row in readable(old, &sql, job, rows::read_process_row) {
        rows::bind_process(&row, &mut Binder::new(&mut write))?;
        is_taken(write.raw_execute())?;
    }
    let mut write = fresh.prepare_cached(&insert("INSERT OR REPLACE INTO files", &rows::FILE))?;
    let sql = format!("SELECT {} FROM files WHERE job = ?1 ORDER BY path", there(old, "files", &rows::FILE));
    for row in readable(old, &sql, job, rows::read_file) {
        rows::bind_file(&row, &mut Binder::new(&mut write))?;
        is_taken(write.raw_execute())?;
    }
    let mut write = fresh.prepare_cached(&insert("INSERT OR REPLACE INTO nodes", &rows::NODE))?;
    let sql = format!("SELECT {} FROM nodes WHERE job = ?1 ORDER BY node", there(old, "nodes", &rows::NODE));
    for row in readable(old, &sql, job, rows::read_node) {
        rows::bind_node(&row, &mut Binder::new(&mut write))?;
        is_taken(write.raw_execute())?;
    }
    let mut write = fresh.prepare_cached(&insert("INSERT INTO decisions", &rows::DECISION))?;
    let columns = there(old, "decisions", &rows::DECISION);
    let sql = format!("SELECT {columns} FROM decisions WHERE job = ?1 ORDER BY number");
    for row in readable(old, &sql, job, rows::read_decision) {
        rows::bind_decision(&row, &mut Binder::new(&mut write))?;
        is_taken(write.raw_execute())?;
    }
    Ok(())
}

/// The selected columns of a table; columns missing in an older file are NULL.
fn there(old: &Connection, table: &str, columns: &[&str]) -> String {
    let names = |statement: &mut rusqlite::Statement<'_>| -> rusqlite::Result<BTreeSet<String>> {
        statement.query_map([table], |row| row.get(0))?.collect()
    };
    let found =
        old.prepare("SELECT name FROM pragma_table_info(?1)").and_then(|mut statement| names(&mut statement));
    let found = found.unwrap_or_default();
    let selected = |name: &&str| match found.is_empty() || found.contains(*name) {
        true => (*name).to_owned(),
        false => format!("NULL AS {name}"),
    };
    columns.iter().map(selected).collect::<Vec<_>>().join(",")
}

/// The rows up to the first unreadable row.
fn readable<T>(
    old: &Connection,
    sql: &str,
    job: u64,
    read: fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let Ok(mut statement) = old.prepare_cached(sql) else { return Vec::new() };
    let Ok(rows) = statement.query_map([whole(job)], read) else { return Vec::new() };
    rows.map_while(Result::ok).collect()
}

/// All readable jobs, by number, and whether reading met no damage. Behind a damaged place the search continues with
/// later numbers.
fn read_jobs(old: &Connection) -> (Vec<pinfold_proto::row::JobRow>, bool) {
    // Reads the table in its own order, because an index may be damaged.
    let columns = there(old, "jobs", &rows::JOB);
    let sql = format!("SELECT {columns} FROM jobs NOT INDEXED WHERE job >= ?1 ORDER BY job");
    let Ok(mut statement) = old.prepare(&sql) else { return (Vec::new(), false) };
    let (mut jobs, mut is_whole) = (Vec::new(), true);
    let (mut from, mut step, mut tries): (i64, i64, u32) = (0, 1, 0);
    for _ in 0..RETRIES_MAX {
        let Ok(mut found) = statement.query([from]) else { return (jobs, false) };
        let broken = loop {
            match found.next() {
                Ok(None) => break false,
                Err(_) => break true,
                Ok(Some(row)) => match rows::read_job(row) {
                    Ok(job) if whole(job.job) >= from && whole(job.job) <= JOB_MAX => {
                        from = whole(job.job) + 1;
                        (step, tries) = (1, 0);
                        jobs.push(job);
                    }
                    _ => break true,
                },
            }
        };
        is_whole &= !broken;
        if !broken || from > JOB_MAX {
            return (jobs, is_whole);
        }
        from += step;
        tries += 1;
        if tries > ONE_BY_ONE {
            step = step.saturating_mul(2).min(JOB_MAX);
        }
    }
    (jobs, false)
}
