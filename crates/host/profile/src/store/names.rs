//! Which jobs the store knows by a name.

use pinfold_proto::row::ProcessId;
use rusqlite::Row;

use super::fields::{Fields, whole};
use super::{Store, StoreError};

/// A job found by its name: its ending, and the facts that group jobs of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namesake {
    /// Its number.
    pub job: u64,
    /// The array of this member.
    pub array: Option<u64>,
    /// Its line in the batch; all lines of a batch share a keeper.
    pub line: Option<u64>,
    /// Its keeper.
    pub keeper: Option<ProcessId>,
    /// When it was submitted.
    pub submitted_us: u64,
    /// When it ended.
    pub ended_us: Option<u64>,
    /// Whether it succeeded: exit code 0, not ended by pinfold.
    pub well: bool,
}

impl Store {
    /// The last job of a user with this name, or its array, among the last `count` jobs of the host.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn last_named(&self, uid: u32, name: &str, count: u64) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT coalesce(array_id, job) FROM jobs WHERE job >= ?1 AND uid = ?2 AND name = ?3 \
                   ORDER BY job DESC LIMIT 1";
        let first = whole(self.upcoming_job().saturating_sub(count));
        let found = self.read("read a job by its name", sql, &[&first, &uid, &name], |row| {
            let job: i64 = row.get(0)?;
            Ok(u64::try_from(job).unwrap_or(0))
        })?;
        Ok(found.first().copied())
    }

    /// The jobs of a user with this name from number `first` on and below `end`, by number.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn namesakes(&self, uid: u32, name: &str, first: u64, end: u64) -> Result<Vec<Namesake>, StoreError> {
        let sql = "SELECT job, array_id, line, keeper_pid, keeper_start_ticks, submitted_us, ended_us, \
                   coalesce(exit_code = 0 AND ended_by IS NULL, 0) \
                   FROM jobs WHERE job >= ?1 AND job < ?2 AND uid = ?3 AND name = ?4 ORDER BY job";
        self.read("read jobs by their name", sql, &[&whole(first), &whole(end), &uid, &name], namesake)
    }
}

fn namesake(row: &Row<'_>) -> rusqlite::Result<Namesake> {
    let mut from = Fields::new(row);
    let (job, array, line) = (from.number()?, from.maybe()?, from.maybe()?);
    let (pid, start_ticks) = (from.maybe()?, from.maybe()?);
    let pid = pid.and_then(|pid| u32::try_from(pid).ok());
    let keeper = pid.zip(start_ticks).map(|(pid, start_ticks)| ProcessId { pid, start_ticks });
    let (submitted_us, ended_us, well) = (from.number()?, from.maybe()?, from.yes()?);
    Ok(Namesake { job, array, line, keeper, submitted_us, ended_us, well })
}
