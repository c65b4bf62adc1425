//! Which jobs the store knows: by number, by user, by time.

use pinfold_proto::row::{JobRow, SampleRow};
use rusqlite::types::Value;
use rusqlite::{Row, ToSql};

use super::fields::whole;
use super::{Store, StoreError, Whose, compact};

/// Tolerated backward step of the clock for searches of jobs by time, in microseconds.
const CLOCK_SET_BACK_US: u64 = 3_600_000_000;

pub(super) const COUNT_MEMBERS: &str = "SELECT count(*), max(job) FROM jobs WHERE array_id = ?1";

/// Summary of a job by [`Store::brief`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    /// Its user.
    pub uid: u32,
    /// Its project.
    pub project: Option<String>,
    /// Whether the job gave an array its number.
    pub is_first: bool,
    /// Whether it succeeded: exit code 0, and not ended by pinfold.
    pub ended_well: bool,
}

impl Store {
    /// The jobs that have not ended, by number.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn unfinished(&self) -> Result<Vec<JobRow>, StoreError> {
        self.jobs("WHERE state <> 'exited' ORDER BY job", &[])
    }

    /// A job's row.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn job(&self, job: u64) -> Result<Option<JobRow>, StoreError> {
        Ok(self.jobs("WHERE job = ?1", &[&whole(job)])?.pop())
    }

    /// A job's summary, cheap for any specification: a row may be as long as a request, and thousands may be read
    /// together.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn brief(&self, job: u64) -> Result<Option<Brief>, StoreError> {
        let sql = "SELECT uid, project, coalesce(array_id = job, 0), \
                   coalesce(ended_us IS NOT NULL AND exit_code = 0 AND ended_by IS NULL, 0) FROM jobs WHERE job = ?1";
        let brief = |row: &Row<'_>| {
            Ok(Brief {
                uid: row.get(0)?,
                project: row.get(1)?,
                is_first: row.get(2)?,
                ended_well: row.get(3)?,
            })
        };
        Ok(self.read("read a job", sql, &[&whole(job)], brief)?.pop())
    }

    /// The members of an array, by index and number, each with whether it succeeded (exit code 0, not ended by
    /// pinfold); `None`: not ended. Always reads all members, because no index finds a single member.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn members(&self, array: u64) -> Result<Vec<(u32, u64, Option<bool>)>, StoreError> {
        let sql = "SELECT array_index, job, \
                   CASE WHEN ended_us IS NOT NULL THEN coalesce(exit_code = 0 AND ended_by IS NULL, 0) END \
                   FROM jobs WHERE array_id = ?1 ORDER BY array_index, job";
        self.read("read an array", sql, &[&whole(array)], |row| {
            let job: i64 = row.get(1)?;
            Ok((row.get(0)?, u64::try_from(job).unwrap_or(0), row.get(2)?))
        })
    }

    /// The number of an array's members, and the last member's number; reads only an index.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn count_members(&self, array: u64) -> Result<(usize, u64), StoreError> {
        let mut found = self.read("count an array", COUNT_MEMBERS, &[&whole(array)], |row| {
            let (count, last): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
            Ok((
                usize::try_from(count).unwrap_or(0),
                last.and_then(|job| u64::try_from(job).ok()).unwrap_or(0),
            ))
        })?;
        Ok(found.pop().unwrap_or_default())
    }

    /// The last end of an array's members that ran, in microseconds since the Unix epoch; `None` without ended
    /// members.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn last_end_in(&self, array: u64) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT ended_us FROM jobs WHERE array_id = ?1 AND started_us IS NOT NULL AND ended_us IS NOT NULL \
                   ORDER BY ended_us DESC LIMIT 1";
        let mut found = self.read("read an array", sql, &[&whole(array)], |row| row.get::<_, i64>(0))?;
        Ok(found.pop().and_then(|at| u64::try_from(at).ok()))
    }

    /// The jobs with this name or a part of it in a workload manager, the latest first, at most `count`.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn external(&self, name: &str, count: u32) -> Result<Vec<JobRow>, StoreError> {
        // Parts come behind a dot, and `/` is the next character.
        let (from, to) = (format!("{name}."), format!("{name}/"));
        let sql = "WHERE external = ?1 OR (external >= ?2 AND external < ?3) ORDER BY job DESC LIMIT ?4";
        self.jobs(sql, &[&name, &from, &to, &count])
    }

    /// The last `count` jobs of a user, or of all users, oldest first.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn last(&self, uid: Option<u32>, count: u32) -> Result<Vec<JobRow>, StoreError> {
        let mut jobs = match uid {
            Some(uid) => self.jobs("WHERE uid = ?1 ORDER BY job DESC LIMIT ?2", &[&uid, &count])?,
            None => self.jobs("ORDER BY job DESC LIMIT ?1", &[&count])?,
        };
        jobs.reverse();
        Ok(jobs)
    }

    /// The last `count` jobs that ended, in the order of their ends.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn last_ended(&self, count: u32) -> Result<Vec<JobRow>, StoreError> {
        let mut jobs =
            self.jobs("WHERE state = 'exited' ORDER BY ended_us DESC, job DESC LIMIT ?1", &[&count])?;
        jobs.reverse();
        Ok(jobs)
    }

    /// The last `count` jobs with a constant placement of cores, in the order of their ends.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn laid(&self, count: u32) -> Result<Vec<JobRow>, StoreError> {
        let mut jobs = self.jobs(
            "WHERE lay IS NOT NULL AND ended_us IS NOT NULL ORDER BY ended_us DESC, job DESC LIMIT ?1",
            &[&count],
        )?;
        jobs.reverse();
        Ok(jobs)
    }

    /// The jobs of a user, or of all users, submitted at or after `since_us`, by number.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn since(&self, uid: Option<u32>, since_us: u64) -> Result<Vec<JobRow>, StoreError> {
        let since = whole(since_us);
        match uid {
            Some(uid) => self.jobs("WHERE submitted_us >= ?1 AND uid = ?2 ORDER BY job", &[&since, &uid]),
            None => self.jobs("WHERE submitted_us >= ?1 ORDER BY job", &[&since]),
        }
    }

    /// The numbers of the last `count` of these jobs, ascending.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn last_numbers(&self, whose: &Whose, count: u32) -> Result<Vec<u64>, StoreError> {
        let mut jobs = self.numbers_before(whose, u64::MAX, count)?;
        jobs.reverse();
        Ok(jobs)
    }

    /// The numbers of the last `count` of these jobs before number `before`, descending. A part of a list costs as
    /// much as it returns, and as much again per project.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn numbers_before(&self, whose: &Whose, before: u64, count: u32) -> Result<Vec<u64>, StoreError> {
        let mut jobs = Vec::new();
        for (of, owner) in owners(whose) {
            let rest = format!("WHERE {of} AND job < ?2 ORDER BY job DESC LIMIT ?3");
            jobs.extend(self.numbers(&rest, &[&owner, &whole(before), &count])?);
        }
        // Each owner's part is sorted already.
        jobs.sort_unstable_by(|one, other| other.cmp(one));
        jobs.dedup();
        jobs.truncate(count as usize);
        Ok(jobs)
    }

    /// The numbers of these jobs submitted at or after `since_us`, ascending, at most `count`.
    ///
    /// Reads from [`Self::first_since`] on, so jobs are missed that have a later time only because the clock was set
    /// back by more than an hour after them.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn numbers_since(&self, whose: &Whose, since_us: u64, count: u32) -> Result<Vec<u64>, StoreError> {
        self.numbers_since_from(whose, self.first_since(since_us)?, since_us, count)
    }

    /// The first number to search for jobs submitted at or after `since_us`: the last job submitted an hour before,
    /// because the store may have millions of jobs.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn first_since(&self, since_us: u64) -> Result<u64, StoreError> {
        let earlier = whole(since_us.saturating_sub(CLOCK_SET_BACK_US));
        let first =
            "SELECT job FROM jobs WHERE submitted_us < ?1 ORDER BY submitted_us DESC, job DESC LIMIT 1";
        let first = self.read("read jobs", first, &[&earlier], |row| row.get::<_, i64>(0))?;
        Ok(first.first().and_then(|&job| u64::try_from(job).ok()).unwrap_or(0))
    }

    /// The numbers of these jobs from number `first` on submitted at or after `since_us`, ascending, at most `count`.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn numbers_since_from(
        &self,
        whose: &Whose,
        first: u64,
        since_us: u64,
        count: u32,
    ) -> Result<Vec<u64>, StoreError> {
        let mut jobs = Vec::new();
        for (of, owner) in owners(whose) {
            // `+` makes SQLite search by number, the order of the result.
            let rest = format!("WHERE {of} AND job >= ?2 AND +submitted_us >= ?3 ORDER BY job LIMIT ?4");
            jobs.extend(self.numbers(&rest, &[&owner, &whole(first), &whole(since_us), &count])?);
        }
        jobs.sort_unstable();
        jobs.dedup();
        jobs.truncate(count as usize);
        Ok(jobs)
    }

    fn numbers(&self, rest: &str, values: &[&dyn ToSql]) -> Result<Vec<u64>, StoreError> {
        let number = |row: &Row<'_>| row.get(0).map(|job: i64| u64::try_from(job).unwrap_or(0));
        self.read("read jobs", &format!("SELECT job FROM jobs {rest}"), values, number)
    }

    /// The numbers of the jobs submitted and not ended at `at_us`, among the `among` jobs before number `before`:
    /// descending, at most `count`. Also returns the number from which the next search continues; `None` at the end.
    /// No index finds these jobs, so a large store is searched in parts.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn numbers_at(
        &self,
        at_us: u64,
        before: u64,
        among: u32,
        count: u32,
    ) -> Result<(Vec<u64>, Option<u64>), StoreError> {
        let (at, before) = (whole(at_us), whole(before));
        let part =
            "SELECT min(job), count(*) FROM (SELECT job FROM jobs WHERE job < ?1 ORDER BY job DESC LIMIT ?2)";
        let part = self.read("read jobs", part, &[&before, &among], |row| {
            Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, u32>(1)?))
        })?;
        let Some(&(Some(first), read)) = part.first() else { return Ok((Vec::new(), None)) };
        // `+` makes SQLite search by number, which bounds the rows read, and not by an index of the times.
        let rest = "WHERE job >= ?1 AND job < ?2 AND +submitted_us <= ?3 AND (state <> 'exited' OR +ended_us > ?3) \
                    ORDER BY job DESC LIMIT ?4";
        let found = self.numbers(rest, &[&first, &before, &at, &count])?;
        let next = u64::try_from(first).ok().filter(|_| read == among);
        Ok((found, next))
    }

    /// The last two samples of a job up to `at_us`, oldest first; fewer if the store has fewer.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn samples_until(&self, job: u64, at_us: u64) -> Result<Vec<SampleRow>, StoreError> {
        compact::until(&self.connection, job, at_us).map_err(|source| self.sort("read samples", source))
    }
}

/// The conditions that select the jobs, with the value of `?1` of each; an index orders the jobs of each by number.
fn owners(whose: &Whose) -> Vec<(&'static str, Value)> {
    match whose {
        Whose::Everybody => vec![("?1 IS NULL", Value::Null)],
        Whose::User { uid, projects } => {
            let projects = projects.iter().map(|name| ("project = ?1", Value::from(name.clone())));
            std::iter::once(("uid = ?1", Value::from(*uid))).chain(projects).collect()
        }
    }
}
