//! What happens to a damaged file: a fresh store is made of what can be read, the damaged file is moved aside.
//!
//! The order of steps makes each of them safe to be cut off at: the fresh store is complete, beside the damaged
//! one, before any name changes, and [`finish_interrupted`] completes a change of names that was cut off. The
//! damaged file is only ever read: by SQLite as far as that goes, then page by page (`pages`).

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

/// A damaged file that was moved aside, with a number behind it.
const DAMAGED: &str = ".damaged-";

/// How often reading is taken up again behind damaged places.
const RETRIES_MAX: u32 = 4_096;

/// How many numbers are tried one by one behind a damaged place, before they are skipped in steps that double:
/// more than the jobs that one page holds.
const ONE_BY_ONE: u32 = 64;

/// The columns of `jobs` as version 1 made it; no other table has so many.
const COLUMNS_MIN: usize = 52;

/// Job numbers above this are damage: at a million jobs a second it takes 285 years to get there.
const JOB_MAX: i64 = 1 << 53;

/// What happened to a damaged store, for the log and for `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Where the damaged file is now.
    pub kept: PathBuf,
    /// What was wrong with it.
    pub cause: String,
    /// Jobs that could be read and are in the fresh store.
    pub jobs: u64,
    /// Those of them that were not over.
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

/// Completes a recovery, or a restoration, that was cut off between its renames.
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

/// Makes a fresh store of what can be read of the file at `path` and moves that aside.
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

/// The path with this and a number behind it that is above all that are there, be it of a file or of a log alone: the file
/// that was moved aside last is the last one.
pub(super) fn free_name(path: &Path, kind: &str) -> Result<PathBuf, StoreError> {
    match highest(path, kind)?.checked_add(1) {
        Some(number) => Ok(open::beside(path, &format!("{kind}{number}"))),
        None => Err(StoreError::file("move aside", path, io::Error::from(ErrorKind::AlreadyExists))),
    }
}

/// The last of those files, if it has no log.
fn last_name(path: &Path, kind: &str) -> Result<Option<PathBuf>, StoreError> {
    let last = open::beside(path, &format!("{kind}{}", highest(path, kind)?));
    Ok((exists(&last)? && !exists(&open::beside(&last, "-wal"))?).then_some(last))
}

/// The highest number behind this that is there; 0: none.
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

/// Fills a new file at `salvage`; gives how many jobs it holds, and how many of them are not over.
fn make_fresh(path: &Path, salvage: &Path) -> Result<(u64, u64), StoreError> {
    let sort = |source| StoreError::of("make a fresh store in", salvage, source);
    open::touch(salvage)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut fresh = Connection::open_with_flags(salvage, flags).map_err(sort)?;
    fresh.execute_batch("PRAGMA auto_vacuum = INCREMENTAL").map_err(sort)?;
    schema::migrate(&mut fresh, schema::VERSION).map_err(sort)?;
    let transaction = fresh.transaction().map_err(sort)?;
    // Without any of the old file a fresh store is empty, which is what can be had.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut is_all = false;
    if let Ok(old) = Connection::open_with_flags(path, flags) {
        is_all = salvage_all(&old, &transaction).map_err(sort)?;
    }
    // Pages also tell of jobs that were struck off: free ones keep what was in them.
    if !is_all && let Ok(pages) = Pages::open(path) {
        salvage_pages(&pages, &transaction).map_err(sort)?;
    }
    let counts = count(&transaction).map_err(sort)?;
    transaction.commit().map_err(sort)?;
    Ok(counts)
}

/// Says whether these are surely all jobs. Errors are those of the fresh store; what cannot be read of the old one is left
/// behind.
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

/// Whether a row went in. What the table's types and CHECKs do not take is none of ours: a bit of it may have been turned.
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

/// The jobs that only their pages tell of. Of two rows of one job, as a page that is free again may have an older one, that
/// which says that it is over counts.
fn salvage_pages(pages: &Pages, fresh: &Connection) -> rusqlite::Result<()> {
    let known: BTreeSet<i64> = fresh
        .prepare("SELECT job FROM jobs")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    // In the order of the table; a row of an older version has the first of them only.
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

/// How many jobs there are, and how many of them are not over; notes that no number of theirs is given again.
fn count(fresh: &Connection) -> rusqlite::Result<(u64, u64)> {
    open::keep_next_job(fresh, open::next_job(fresh)?)?;
    let sql = "SELECT count(*), count(*) FILTER (WHERE state <> 'exited') FROM jobs";
    let (jobs, unfinished): (i64, i64) = fresh.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((u64::try_from(jobs).unwrap_or(0), u64::try_from(unfinished).unwrap_or(0)))
}

/// Samples and decisions of one job, as far as they can be read.
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

/// The columns of a table as they are selected; a file of an older version has not all of them, and NULL in their place.
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

/// The rows up to the first that cannot be read.
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

/// All jobs that can be read, by number, and whether nothing was in the way. Behind a damaged place it goes on with the
/// numbers that follow until something can be read again.
fn read_jobs(old: &Connection) -> (Vec<pinfold_proto::row::JobRow>, bool) {
    // The table alone, by its own order: an index may be what is damaged.
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
