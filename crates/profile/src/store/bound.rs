//! Keeping the store below a size: what is lost first is what is missed least. Samples of jobs that are over are
//! packed, thinned to one a minute, to one an hour, struck off; then their processes; then their decisions and
//! the jobs themselves; always those of the oldest jobs first. Of a job that is not over nothing is touched.
//!
//! Absent here: the rule of time ([`super::compact`], [`super::Store::prune`]), and the size that is allowed.

use rusqlite::Connection;

use super::fields::whole;
use super::{compact, open};

/// How many jobs one step takes on at most, so that the caller's loop is not held up.
const JOBS_MAX: u32 = 32;

/// What a step gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Nothing: samples were packed.
    Nothing,
    /// Samples between one minute and the next.
    ToMinutes,
    /// Samples between one hour and the next.
    ToHours,
    /// All samples of a job.
    Samples,
    /// The rows of its processes and files.
    Processes,
    /// The job.
    Jobs,
}

impl Loss {
    /// In words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "samples were packed",
            Self::ToMinutes => "samples were thinned to one a minute",
            Self::ToHours => "samples were thinned to one an hour",
            Self::Samples => "samples were struck off",
            Self::Processes => "processes and files were struck off",
            Self::Jobs => "jobs were struck off",
        }
    }
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounded {
    /// What the store takes now, free pages not counted.
    pub used_bytes: u64,
    /// The jobs that gave something up.
    pub jobs: u32,
    /// What they gave up; `None`: nothing had to be, or nothing is left that may be.
    pub loss: Option<Loss>,
}

/// What the file's pages in use come to.
pub(super) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let (count, free, size) = (pragma("page_count")?, pragma("freelist_count")?, pragma("page_size")?);
    Ok(u64::try_from((count - free) * size).unwrap_or(0))
}

/// One step, if the store takes more than `bytes_max`.
pub(super) fn step(connection: &Connection, bytes_max: u64, next_job: u64) -> rusqlite::Result<Bounded> {
    let done = |jobs: usize, loss| -> rusqlite::Result<Bounded> {
        let jobs = u32::try_from(jobs).unwrap_or(u32::MAX);
        Ok(Bounded { used_bytes: used_bytes(connection)?, jobs, loss })
    };
    if used_bytes(connection)? <= bytes_max {
        return done(0, None);
    }
    let loose = jobs(connection, "EXISTS (SELECT 1 FROM samples WHERE samples.job = jobs.job)", 0)?;
    if !loose.is_empty() {
        loose.iter().try_for_each(|&job| compact::pack(connection, job, 0))?;
        return done(loose.len(), Some(Loss::Nothing));
    }
    for (step_us, loss) in [(60_000_000, Loss::ToMinutes), (3_600_000_000, Loss::ToHours)] {
        let finer = "EXISTS (SELECT 1 FROM blocks WHERE blocks.job = jobs.job AND step_us < ?2)";
        let finer = jobs(connection, finer, step_us)?;
        if !finer.is_empty() {
            finer.iter().try_for_each(|&job| compact::thin(connection, job, step_us))?;
            return done(finer.len(), Some(loss));
        }
    }
    for (table, loss) in
        [("blocks", Loss::Samples), ("files", Loss::Processes), ("processes", Loss::Processes)]
    {
        let with = format!("EXISTS (SELECT 1 FROM {table} WHERE {table}.job = jobs.job)");
        let with = jobs(connection, &with, 0)?;
        if !with.is_empty() {
            strike(connection, &with, &[table])?;
            return done(with.len(), Some(loss));
        }
    }
    let over = jobs(connection, "1", 0)?;
    if over.is_empty() {
        return done(0, None);
    }
    open::keep_next_job(connection, next_job)?;
    strike(connection, &over, &["decisions", "jobs"])?;
    done(over.len(), Some(Loss::Jobs))
}

/// The oldest jobs that are over and of which `also` holds; `?2` in it is `step_us`.
fn jobs(connection: &Connection, also: &str, step_us: u64) -> rusqlite::Result<Vec<u64>> {
    let sql = format!(
        "SELECT job FROM jobs WHERE state = 'exited' AND ended_us IS NOT NULL AND ?2 >= 0 AND {also} \
         ORDER BY ended_us, job LIMIT ?1"
    );
    let mut select = connection.prepare_cached(&sql)?;
    select
        .query_map((JOBS_MAX, whole(step_us)), |row| row.get::<_, i64>(0))?
        .map(|job| Ok(u64::try_from(job?).unwrap_or(0)))
        .collect()
}

fn strike(connection: &Connection, jobs: &[u64], tables: &[&str]) -> rusqlite::Result<()> {
    for table in tables {
        let mut delete = connection.prepare_cached(&format!("DELETE FROM {table} WHERE job = ?1"))?;
        for &job in jobs {
            delete.execute([whole(job)])?;
        }
    }
    Ok(())
}
