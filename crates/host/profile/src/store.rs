//! The store: jobs, samples and decisions in an SQLite file, `pinfold.db`.
//!
//! The only writer is the calling thread, which owns the connection and the counter of job numbers. Write-ahead log
//! (WAL) with `synchronous=NORMAL`: committed data survives a kill of the process; a power cut may lose the last
//! transactions, but never damages the file. Other programs (`sqlite3`, Python, R) may read concurrently.
//!
//! Writes of a turn belong between [`Store::begin`] and [`Store::commit`], which keeps all of them or none. A damaged
//! file is never deleted and never written again: see [`Recovery`].
//!
//! Absent here: clocks (all times are given), the retention rule (only [`Store::prune`]), and the meaning of rows.

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

/// Most jobs that a call of [`Store::prune`] removes, to keep the caller's loop responsive: some 10 ms with an hour
/// of samples each.
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

/// A read-only view of the store at a moment, while writing continues: has the reading methods of [`Store`]. While it
/// lives the log grows and [`Store::checkpoint`] cannot truncate it.
#[derive(Debug)]
pub struct Snapshot(Store);

impl std::ops::Deref for Snapshot {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0
    }
}

/// The jobs to select, by user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// All users' jobs.
    Everybody,
    /// A user's jobs, and all jobs of these projects.
    User {
        /// The user.
        uid: u32,
        /// The projects.
        projects: Vec<String>,
    },
}

/// Result of [`Store::open`].
#[derive(Debug)]
pub struct Opened {
    /// The store, ready for use.
    pub store: Store,
    /// What happened to a damaged file, if any.
    pub recovered: Option<Recovery>,
}

/// Result of [`Store::prune`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Jobs struck off, with their samples and decisions.
    pub jobs: u32,
    /// Whether more jobs remain: call again.
    pub more: bool,
}

/// Result of [`Store::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The faults in words; empty: no fault.
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
    /// A write failed and undid the transaction; `full`: the disk is full.
    Undone {
        full: bool,
    },
}

impl Store {
    /// Opens or creates the store in `dir`, readable by its owner alone. A damaged file is moved aside, and its
    /// readable jobs go into a fresh file.
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

    /// For a store that met [`StoreError::Damaged`] in use: moves its file aside as `open` does, even if the checks
    /// at opening pass.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn replace_damaged(self) -> Result<Opened, StoreError> {
        let Self { connection, path, .. } = self;
        // The damaged file must not be written again, not even from its log.
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

    /// The store's present state, over a separate connection.
    ///
    /// # Errors
    /// [`StoreError::InTransaction`]; else as SQLite refuses.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        self.refuse_inside("look at one moment of")?;
        let connection =
            open::one_moment(&self.path).map_err(|source| self.sort("look at one moment of", source))?;
        let (path, next_job) = (self.path.clone(), self.next_job);
        // The transaction stays open, so methods that need another are refused.
        Ok(Snapshot(Self { connection, path, next_job, turn: Turn::Open, words: Words::new() }))
    }

    /// Begins a transaction, ended by [`Store::commit`].
    ///
    /// # Errors
    /// [`StoreError::InTransaction`] when a transaction is open; else as SQLite refuses.
    pub fn begin(&mut self) -> Result<(), StoreError> {
        self.refuse_inside("begin")?;
        // IMMEDIATE takes the write lock now, so that a conflict shows before the first write.
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(|source| self.sort("begin", source))?;
        self.turn = Turn::Open;
        Ok(())
    }

    /// Commits the writes since [`Store::begin`]. On failure all writes are dropped, the store is ready for the next
    /// `begin`, and the same rows may be written again.
    ///
    /// # Errors
    /// [`StoreError::Full`] when the disk is full; [`StoreError::Undone`] when a write failed before.
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

    /// Drops the writes since [`Store::begin`], if a transaction is open.
    pub fn rollback(&mut self) {
        self.undo();
        self.turn = Turn::Idle;
    }

    /// A number for a new job, above every number ever used or given out, including pruned jobs.
    pub fn next_job(&mut self) -> u64 {
        let number = self.next_job;
        self.next_job = number.saturating_add(1);
        number
    }

    /// The next number of [`Store::next_job`].
    #[must_use]
    pub const fn upcoming_job(&self) -> u64 {
        self.next_job
    }

    /// Raises the counter to `number`, because lower numbers were given out without a row.
    pub fn numbers_from(&mut self, number: u64) {
        self.next_job = self.next_job.max(number);
    }

    /// Stores the counter, for given numbers without rows. Joins an open transaction.
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
    /// As SQLite refuses; for an existing number [`StoreError::Other`].
    pub fn insert_job(&mut self, row: &JobRow) -> Result<(), StoreError> {
        self.write("insert a job", |store| {
            let mut statement = store.connection.prepare_cached(&store.words.insert_job)?;
            rows::bind_job(row, &mut Binder::new(&mut statement))?;
            statement.raw_execute()
        })?;
        self.next_job = self.next_job.max(row.job.saturating_add(1));
        Ok(())
    }

    /// Rewrites the changeable columns of a known job: of its specification only the claim and the hold.
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

    /// Packs the samples of jobs that ended a while ago, and thins older samples; a few jobs per call. Joins an open
    /// transaction.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn compact(&mut self, now_us: u64) -> Result<compact::Compacted, StoreError> {
        self.in_turn("pack samples", |store| compact::compact(&store.connection, now_us))
    }

    /// Takes a step towards at most `bytes_max` on disk, without the log: removes the least valuable data of the
    /// oldest ended jobs. Call until idle. Joins an open transaction.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn bound(&mut self, bytes_max: u64) -> Result<bound::Bounded, StoreError> {
        let next_job = self.next_job;
        self.in_turn("bound the store", |store| bound::step(&store.connection, bytes_max, next_job))
    }

    /// The store's size on disk without its log and free pages.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn used_bytes(&self) -> Result<u64, StoreError> {
        bound::used_bytes(&self.connection).map_err(|source| self.sort("measure", source))
    }

    /// Packs all but the last `keep` samples of a long-running job.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn pack(&mut self, job: u64, keep: usize) -> Result<(), StoreError> {
        self.in_turn("pack samples", |store| compact::pack(&store.connection, job, keep).map(drop))
    }

    /// Runs a write in the open transaction, or in a transaction of its own.
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

    /// Removes up to [`PRUNE_JOBS_MAX`] jobs that ended before `before_us`, with all their data; their numbers are
    /// not reused. [`Store::checkpoint`] returns the space to the file system. Joins an open transaction.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn prune(&mut self, before_us: u64) -> Result<Pruned, StoreError> {
        let next_job = self.next_job;
        self.in_turn("prune", |store| prune::prune(&store.connection, before_us, next_job))
    }

    /// Checks the whole file, every page and index. Takes seconds per GiB.
    ///
    /// # Errors
    /// When permission or memory is missing for the check; damage is a finding.
    pub fn check(&self) -> Result<CheckReport, StoreError> {
        check::report(&self.connection, &self.path)
    }

    /// Writes a whole and compact copy to `to`, checks the copy, and only then replaces an existing file. The copy is
    /// a single file, readable by its owner alone.
    ///
    /// # Errors
    /// [`StoreError::InTransaction`]; [`StoreError::Damaged`] when the copy fails the check; else as SQLite or the
    /// file system refuse.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        self.refuse_inside("back up")?;
        open::backup(&self.connection, &self.path, to)
    }

    /// Moves the log into the file, returns free pages to the file system, and truncates the log. For idle moments,
    /// because it waits for the disk. `false`: another program reads, so part of the log stays.
    ///
    /// # Errors
    /// [`StoreError::InTransaction`]; [`StoreError::Full`]; else as SQLite refuses.
    pub fn checkpoint(&mut self) -> Result<bool, StoreError> {
        self.refuse_inside("checkpoint")?;
        let run = || {
            let mut vacuum = self.connection.prepare("PRAGMA incremental_vacuum")?;
            // Each step frees a page: the empty rows must all be fetched.
            let mut freed = vacuum.query([])?;
            while freed.next()?.is_some() {}
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        };
        run().map(|busy| busy == 0).map_err(|source| self.sort("checkpoint", source))
    }

    /// The log's path: committed data is in the log or in the store's file, and survives a power cut once the log was
    /// flushed after the commit (`fdatasync`). SQLite flushes data that leaves the log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        open::beside(&self.path, "-wal")
    }

    /// Bytes of the log that [`Store::checkpoint`] would truncate.
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

    /// Rolls back, unless SQLite has done so already.
    fn undo(&self) {
        if !self.connection.is_autocommit() {
            // On failure the connection rolls back when it is closed, and the next BEGIN reports the error.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    /// Runs a write. A failure beyond the row itself undoes the whole transaction, because SQLite may have rolled
    /// back already, and later writes would be committed alone.
    fn write<T>(
        &mut self,
        operation: &'static str,
        run: impl FnOnce(&Self) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if let Turn::Undone { full } = self.turn {
            return Err(StoreError::Undone { operation, path: self.path.clone(), full });
        }
        run(self).map_err(|source| {
            // SQLite may have rolled back even then: a foreign trigger can do so.
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
