//! The store: jobs, samples and decisions in one SQLite file, `pinfold.db`.
//!
//! One writer, the thread that calls; it owns the connection and the counter of job numbers. The log is
//! written ahead (WAL) with `synchronous=NORMAL`: what was committed outlives the process whenever it is
//! killed; a power cut may take the last transactions, never the file's order. Other programs (`sqlite3`,
//! Python, R) may read beside it at any time.
//!
//! Writes of one turn belong between [`Store::begin`] and [`Store::commit`]: they are kept all together or not
//! at all. A file that is damaged is never deleted and never written again: see [`Recovery`].
//!
//! Absent here: clocks (all times are given), retention as a rule (only [`Store::prune`]), and what a row means.

mod blocks;
pub mod bound;
mod check;
pub mod compact;
pub(crate) mod details;
mod error;
mod fair;
mod fields;
mod host;
mod jobs;
mod names;
pub mod offline;
mod open;
mod prune;
mod recovery;
mod rows;
mod schema;
mod statements;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_proto::row::JobRow;
use rusqlite::{CachedStatement, Connection, Row, ToSql};

pub use compact::Place;
pub use error::StoreError;
use error::refuses_the_row;
pub use jobs::Brief;
pub use names::Namesake;
pub use recovery::Recovery;

use fields::Binder;
use statements::{Words, insert};

/// The name of the store's file in its directory.
pub const FILE_NAME: &str = "pinfold.db";

/// How many jobs one call of [`Store::prune`] strikes off at most, so that the caller's loop is not held up:
/// some 10 ms with an hour of samples each.
pub const PRUNE_JOBS_MAX: u32 = 64;

/// The open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    next_job: u64,
    turn: Turn,
    words: Words,
}

/// The store as it was at one moment, to be read from while it goes on being written: every method of [`Store`] that
/// only reads. As long as it lives the log grows with all that is written, and [`Store::checkpoint`] cannot cut it.
#[derive(Debug)]
pub struct Snapshot(Store);

impl std::ops::Deref for Snapshot {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0
    }
}

/// Whose jobs are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// Everybody's.
    Everybody,
    /// A user's, and all jobs of these projects.
    User {
        /// The user.
        uid: u32,
        /// The projects.
        projects: Vec<String>,
    },
}

/// What [`Store::open`] gives.
#[derive(Debug)]
pub struct Opened {
    /// The store, ready for use.
    pub store: Store,
    /// What happened to a damaged file, when there was one.
    pub recovered: Option<Recovery>,
}

/// What [`Store::prune`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Jobs struck off, with their samples and decisions.
    pub jobs: u32,
    /// Whether there are more to strike off: call again.
    pub more: bool,
}

/// What [`Store::check`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// What is wrong, in words; empty: nothing.
    pub problems: Vec<String>,
    /// Jobs held.
    pub jobs: u64,
    /// Samples held.
    pub samples: u64,
    /// Decisions held.
    pub decisions: u64,
    /// Size of the file, without the log.
    pub file_bytes: u64,
}

/// Where the caller's transaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Idle,
    Open,
    /// A write failed, and all of the transaction with it; `full`: for want of room.
    Undone {
        full: bool,
    },
}

impl Store {
    /// Opens the store in `dir`, or makes one there, readable by its owner alone. A damaged file is moved
    /// aside, and what can be read of its jobs goes into a fresh one.
    ///
    /// # Errors
    /// [`StoreError::Newer`] when a newer pinfold wrote it; [`StoreError::Full`], [`StoreError::File`] and
    /// [`StoreError::Other`] when disk or permissions do not allow it. Never [`StoreError::Damaged`].
    pub fn open(dir: &Path) -> Result<Opened, StoreError> {
        let path = dir.join(FILE_NAME);
        recovery::finish_interrupted(&path)?;
        match open::whole(&path) {
            Ok(connection) => Ok(Opened { store: Self::over(connection, path)?, recovered: None }),
            Err(damaged) if damaged.is_damaged() => Self::recover(path, &damaged),
            Err(other) => Err(other),
        }
    }

    /// For a store that met [`StoreError::Damaged`] while in use: moves its file aside as `open` does, even if
    /// the checks at opening pass it.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn replace_damaged(self) -> Result<Opened, StoreError> {
        let Self { connection, path, .. } = self;
        // The damaged file is not to be written again, not even from its log.
        open::keep_log(&connection, true).map_err(|source| StoreError::of("close", &path, source))?;
        drop(connection);
        let cause = open::damaged("read", &path, "found damaged in use");
        Self::recover(path, &cause)
    }

    fn recover(path: PathBuf, cause: &StoreError) -> Result<Opened, StoreError> {
        let recovery = recovery::recover(&path, cause)?;
        let store = Self::over(open::whole(&path)?, path)?;
        Ok(Opened { store, recovered: Some(recovery) })
    }

    fn over(connection: Connection, path: PathBuf) -> Result<Self, StoreError> {
        connection.set_prepared_statement_cache_capacity(32);
        open::trust_writes(&connection, !cfg!(debug_assertions))
            .map_err(|source| StoreError::of("open", &path, source))?;
        let next_job =
            open::next_job(&connection).map_err(|source| StoreError::of("count jobs", &path, source))?;
        Ok(Self { connection, path, next_job, turn: Turn::Idle, words: Words::new() })
    }

    /// The store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store as it is now, over a connection of its own.
    ///
    /// # Errors
    /// [`StoreError::InTransaction`]; else as SQLite refuses.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        self.refuse_inside("look at one moment of")?;
        let connection =
            open::one_moment(&self.path).map_err(|source| self.sort("look at one moment of", source))?;
        let (path, next_job) = (self.path.clone(), self.next_job);
        // Open as long as it lives: what would need another transaction is refused.
        Ok(Snapshot(Self { connection, path, next_job, turn: Turn::Open, words: Words::new() }))
    }

    /// Begins a transaction: what is written until [`Store::commit`] is kept as one.
    ///
    /// # Errors
    /// [`StoreError::InTransaction`] when one is open; else as SQLite refuses.
    pub fn begin(&mut self) -> Result<(), StoreError> {
        self.refuse_inside("begin")?;
        // IMMEDIATE takes the write lock now: a failure to get it shows before anything is written.
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(|source| self.sort("begin", source))?;
        self.turn = Turn::Open;
        Ok(())
    }

    /// Keeps what was written since [`Store::begin`]. When this fails nothing of it is kept, the store is
    /// ready for the next `begin`, and the same rows may be written again.
    ///
    /// # Errors
    /// [`StoreError::Full`] when the disk has no room; [`StoreError::Undone`] when a write failed before.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        match std::mem::replace(&mut self.turn, Turn::Idle) {
            Turn::Idle => Err(StoreError::NoTransaction { path: self.path.clone() }),
            Turn::Undone { full } => {
                Err(StoreError::Undone { operation: "commit", path: self.path.clone(), full })
            }
            Turn::Open => self.connection.execute_batch("COMMIT").map_err(|source| {
                self.undo();
                self.sort("commit", source)
            }),
        }
    }

    /// Drops what was written since [`Store::begin`]; nothing to do when none is open.
    pub fn rollback(&mut self) {
        self.undo();
        self.turn = Turn::Idle;
    }

    /// A number for a new job, one above every number ever used or given out before; also after those jobs
    /// were pruned.
    pub fn next_job(&mut self) -> u64 {
        let number = self.next_job;
        self.next_job = number.saturating_add(1);
        number
    }

    /// The number that [`Store::next_job`] would give.
    #[must_use]
    pub const fn upcoming_job(&self) -> u64 {
        self.next_job
    }

    /// Gives no number below this one any more: those were given before, though no row tells.
    pub fn numbers_from(&mut self, number: u64) {
        self.next_job = self.next_job.max(number);
    }

    /// Notes which numbers were given, for those of which no row is written. Inside a transaction it is part of that.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn keep_numbers(&mut self) -> Result<(), StoreError> {
        let next_job = self.next_job;
        self.in_turn("note the next number", |store| {
            open::keep_next_job(&store.connection, next_job).map(drop)
        })
    }

    /// Writes a new job.
    ///
    /// # Errors
    /// As SQLite refuses; a job of that number is there already: [`StoreError::Other`].
    pub fn insert_job(&mut self, row: &JobRow) -> Result<(), StoreError> {
        self.write("insert a job", |store| {
            let mut statement = store.connection.prepare_cached(&store.words.insert_job)?;
            rows::bind_job(row, &mut Binder::new(&mut statement))?;
            statement.raw_execute()
        })?;
        self.next_job = self.next_job.max(row.job.saturating_add(1));
        Ok(())
    }

    /// Writes all of a known job anew that can change: not who asked for what and when, but for the claim and whether it
    /// is held.
    ///
    /// # Errors
    /// [`StoreError::NoSuchJob`]; else as SQLite refuses.
    pub fn update_job(&mut self, row: &JobRow) -> Result<(), StoreError> {
        let changed = self.write("update a job", |store| {
            let mut statement = store.connection.prepare_cached(&store.words.update_job)?;
            rows::bind_job(row, &mut Binder::new(&mut statement))?;
            statement.raw_execute()
        })?;
        if changed == 0 {
            return Err(StoreError::NoSuchJob { job: row.job, path: self.path.clone() });
        }
        Ok(())
    }

    /// Packs the samples of jobs that ended a while ago, and thins those of long ago; a few jobs at a time. Inside a
    /// transaction it is part of that.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn compact(&mut self, now_us: u64) -> Result<compact::Compacted, StoreError> {
        self.in_turn("pack samples", |store| compact::compact(&store.connection, now_us))
    }

    /// Takes one step towards at most `bytes_max` on disk, without the log: what is missed least of what the oldest
    /// jobs that are over have. Call again until it has nothing to do. Inside a transaction it is part of that.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn bound(&mut self, bytes_max: u64) -> Result<bound::Bounded, StoreError> {
        let next_job = self.next_job;
        self.in_turn("bound the store", |store| bound::step(&store.connection, bytes_max, next_job))
    }

    /// What the store takes on disk without its log, free pages not counted.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn used_bytes(&self) -> Result<u64, StoreError> {
        bound::used_bytes(&self.connection).map_err(|source| self.sort("measure", source))
    }

    /// Packs the samples of one job but the last `keep`: for one that runs for long.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn pack(&mut self, job: u64, keep: usize) -> Result<(), StoreError> {
        self.in_turn("pack samples", |store| compact::pack(&store.connection, job, keep).map(drop))
    }

    /// Runs one write in the open transaction, or in one of its own.
    fn in_turn<T>(
        &mut self,
        operation: &'static str,
        run: impl FnOnce(&Self) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let own = self.turn == Turn::Idle;
        if own {
            self.begin()?;
        }
        let done = self.write(operation, run);
        if own {
            if done.is_ok() {
                self.commit()?;
            } else {
                self.rollback();
            }
        }
        done
    }

    /// Strikes off up to [`PRUNE_JOBS_MAX`] jobs that were over before `before_us`, with all that belongs to
    /// them; their numbers are not used again. The room goes back to the file system with
    /// [`Store::checkpoint`]. Inside a transaction it is part of that.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn prune(&mut self, before_us: u64) -> Result<Pruned, StoreError> {
        let next_job = self.next_job;
        self.in_turn("prune", |store| prune::prune(&store.connection, before_us, next_job))
    }

    /// Looks through the whole file, every page and index. Takes seconds per GiB.
    ///
    /// # Errors
    /// When the file cannot even be looked through for want of permission or memory; damage is a finding.
    pub fn check(&self) -> Result<CheckReport, StoreError> {
        check::report(&self.connection, &self.path)
    }

    /// Writes a whole and compact copy to `to`, looks through it, and only then puts it in place of what was
    /// there. The copy is one file, readable by its owner alone.
    ///
    /// # Errors
    /// [`StoreError::InTransaction`]; [`StoreError::Damaged`] when the copy does not pass; else as SQLite or
    /// the file system refuse.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        self.refuse_inside("back up")?;
        open::backup(&self.connection, &self.path, to)
    }

    /// Brings the log into the file, gives free pages back to the file system, and cuts the log to nothing.
    /// For idle moments: it waits for the disk. `false`: another program reads, so that part of the log stays.
    ///
    /// # Errors
    /// [`StoreError::InTransaction`]; [`StoreError::Full`]; else as SQLite refuses.
    pub fn checkpoint(&mut self) -> Result<bool, StoreError> {
        self.refuse_inside("checkpoint")?;
        let run = || {
            let mut vacuum = self.connection.prepare("PRAGMA incremental_vacuum")?;
            // Each step frees one page: the rows are empty and must all be asked for.
            let mut freed = vacuum.query([])?;
            while freed.next()?.is_some() {}
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        };
        run().map(|busy| busy == 0).map_err(|source| self.sort("checkpoint", source))
    }

    /// The log: what was committed is in it or in the store's own file, and outlives a power cut once the log was flushed
    /// behind the commit (`fdatasync`). Whatever leaves the log is flushed by SQLite.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        open::beside(&self.path, "-wal")
    }

    /// The size of the log that [`Store::checkpoint`] would cut, in bytes.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        fs::metadata(self.log()).map_or(0, |metadata| metadata.len())
    }

    fn refuse_inside(&self, operation: &'static str) -> Result<(), StoreError> {
        match self.turn {
            Turn::Idle => Ok(()),
            Turn::Open | Turn::Undone { .. } => {
                Err(StoreError::InTransaction { operation, path: self.path.clone() })
            }
        }
    }

    fn sort(&self, operation: &'static str, source: rusqlite::Error) -> StoreError {
        let error = StoreError::of(operation, &self.path, source);
        if error.is_damaged() {
            open::suspect_damage(&self.path);
        }
        error
    }

    /// Undoes what SQLite has open; it may have undone it itself.
    fn undo(&self) {
        if !self.connection.is_autocommit() {
            // Nothing is left to do when even this fails: the connection drops it all when it is closed, and
            // the next BEGIN says what is wrong.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    /// Runs one write. A failure that is not about the row itself undoes the whole transaction, because
    /// SQLite may have undone it already and what follows would be kept by itself.
    fn write<T>(
        &mut self,
        operation: &'static str,
        run: impl FnOnce(&Self) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if let Turn::Undone { full } = self.turn {
            return Err(StoreError::Undone { operation, path: self.path.clone(), full });
        }
        run(self).map_err(|source| {
            // Even then SQLite may have undone all: a trigger of somebody's can say so.
            let kept = refuses_the_row(&source) && !self.connection.is_autocommit();
            let error = self.sort(operation, source);
            if self.turn == Turn::Open && !kept {
                self.undo();
                self.turn = Turn::Undone { full: error.is_full() };
            }
            error
        })
    }

    fn jobs(&self, rest: &str, values: &[&dyn ToSql]) -> Result<Vec<JobRow>, StoreError> {
        let sql = format!("{}{rest}", self.words.select_job);
        self.read("read jobs", &sql, values, rows::read_job)
    }

    fn read<T>(
        &self,
        operation: &'static str,
        sql: &str,
        values: &[&dyn ToSql],
        row: fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let run = || {
            let mut statement: CachedStatement<'_> = self.connection.prepare_cached(sql)?;
            statement.query_map(values, row)?.collect::<rusqlite::Result<Vec<T>>>()
        };
        run().map_err(|source| self.sort(operation, source))
    }
}
