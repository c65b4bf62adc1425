//! A job's data beside its own row: samples, decisions, processes, files, NUMA nodes.

use pinfold_proto::row::{DecisionRow, FileRow, NodeRow, ProcessRow, SampleRow};
use rusqlite::OptionalExtension;

use super::fields::{Binder, whole};
use super::{Place, Store, StoreError, compact, rows};

/// First decisions kept per job,
pub(crate) const DECISIONS_FIRST: u64 = 100;
/// and last decisions kept.
pub(crate) const DECISIONS_LAST: u64 = 900;
/// An additional decision in the file shows that more were made than are shown.
const DECISIONS_LAST_STORED: u64 = DECISIONS_LAST + 1;

impl Store {
    /// Writes a sample.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn add_sample(&mut self, row: &SampleRow) -> Result<(), StoreError> {
        self.write("add a sample", |store| {
            let mut statement = store.connection.prepare_cached(&store.words.insert_sample)?;
            rows::bind_sample(row, &mut Binder::new(&mut statement))?;
            statement.raw_execute()
        })?;
        Ok(())
    }

    /// Writes a decision. The store keeps the first [`DECISIONS_FIRST`] and the last [`DECISIONS_LAST`] decisions of
    /// a job, and one between: a user can suspend and resume a job all day, and data of living jobs is never given up
    /// for space.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn add_decision(&mut self, row: &DecisionRow) -> Result<(), StoreError> {
        self.write("add a decision", |store| {
            let mut statement = store.connection.prepare_cached(&store.words.insert_decision)?;
            rows::bind_decision(row, &mut Binder::new(&mut statement))?;
            statement.raw_execute()?;
            // Most jobs have fewer decisions and stop here.
            let last = "SELECT number FROM decisions WHERE job = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2";
            let (mut last, job) = (store.connection.prepare_cached(last)?, whole(row.job));
            let last =
                last.query_row((job, whole(DECISIONS_LAST_STORED)), |row| row.get::<_, i64>(0)).optional()?;
            let Some(last) = last else { return Ok(()) };
            let strike = "DELETE FROM decisions WHERE job = ?1 AND number <= ?2 AND number >= \
                          (SELECT number FROM decisions WHERE job = ?1 ORDER BY number LIMIT 1 OFFSET ?3)";
            store.connection.prepare_cached(strike)?.execute((job, last, whole(DECISIONS_FIRST)))?;
            Ok(())
        })
    }

    /// Writes a process, replacing the row of its job and number.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn put_process(&mut self, row: &ProcessRow) -> Result<(), StoreError> {
        self.write("write a process", |store| {
            let mut statement = store.connection.prepare_cached(&store.words.put_process)?;
            rows::bind_process(row, &mut Binder::new(&mut statement))?;
            statement.raw_execute()
        })?;
        Ok(())
    }

    /// Writes a file of a job, replacing the row of its path.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn put_file(&mut self, row: &FileRow) -> Result<(), StoreError> {
        self.write("write a file's row", |store| {
            let mut statement = store.connection.prepare_cached(&store.words.put_file)?;
            rows::bind_file(row, &mut Binder::new(&mut statement))?;
            statement.raw_execute()
        })?;
        Ok(())
    }

    /// Writes a job's memory on a NUMA node, replacing the row of that node.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn put_node(&mut self, row: &NodeRow) -> Result<(), StoreError> {
        self.write("write a node's row", |store| {
            let mut statement = store.connection.prepare_cached(&store.words.put_node)?;
            rows::bind_node(row, &mut Binder::new(&mut statement))?;
            statement.raw_execute()
        })?;
        Ok(())
    }

    /// A job's memory on each NUMA node, by node.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn nodes(&self, job: u64) -> Result<Vec<NodeRow>, StoreError> {
        let sql = format!("SELECT {} FROM nodes WHERE job = ?1 ORDER BY node", rows::NODE.join(","));
        self.read("read nodes", &sql, &[&whole(job)], rows::read_node)
    }

    /// The files of a job, by path.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn files(&self, job: u64) -> Result<Vec<FileRow>, StoreError> {
        let sql = format!("SELECT {} FROM files WHERE job = ?1 ORDER BY path", rows::FILE.join(","));
        self.read("read files", &sql, &[&whole(job)], rows::read_file)
    }

    /// The processes of a job, by number.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn processes(&self, job: u64) -> Result<Vec<ProcessRow>, StoreError> {
        let sql = format!("SELECT {} FROM processes WHERE job = ?1 ORDER BY number", rows::PROCESS.join(","));
        self.read("read processes", &sql, &[&whole(job)], rows::read_process_row)
    }

    /// All stored decisions about a job, oldest first; [`crate::report::shown_decisions`] picks the decisions to
    /// show.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn decisions(&self, job: u64) -> Result<Vec<DecisionRow>, StoreError> {
        let columns = rows::DECISION.join(",");
        let sql = format!("SELECT {columns} FROM decisions WHERE job = ?1 ORDER BY number");
        self.read("read decisions", &sql, &[&whole(job)], rows::read_decision)
    }

    /// The samples of a job, oldest first.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn samples(&self, job: u64) -> Result<Vec<SampleRow>, StoreError> {
        let run = || {
            let mut samples = compact::packed(&self.connection, job)?;
            samples.extend(compact::loose(&self.connection, job)?);
            Ok(samples)
        };
        run().map_err(|source| self.sort("read samples", source))
    }

    /// The next samples of a job, oldest first: a few thousand at most, and at most `most` from rows. The list may be
    /// empty before the end; `None` at the end.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn next_samples(&self, place: &mut Place, most: usize) -> Result<Option<Vec<SampleRow>>, StoreError> {
        compact::following(&self.connection, place, most).map_err(|source| self.sort("read samples", source))
    }
}
