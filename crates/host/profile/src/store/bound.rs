//! Keeps the store below a size, giving up the least valuable data first. Samples of ended jobs are packed, thinned
//! to minutes, to hours, removed; then their processes; then their decisions and the jobs themselves; always the
//! oldest jobs first. Samples of the last day's jobs are touched when older jobs have no samples left, and when the
//! rows of older jobs take less than half of the space, because these rows otherwise go first. Jobs that have not
//! ended are never touched.
//!
//! Before all that, if the rows of a user's jobs take a quarter of the space and more than all other users' rows
//! together, that user's oldest jobs go ([`super::fair`]).
//!
//! `meta` stores the progress of each kind of loss, so that a step reads only the next jobs.
//!
//! Absent here: the retention rule ([`super::compact`], [`super::Store::prune`]), and the allowed size.

use rusqlite::{Connection, OptionalExtension};

use super::fields::whole;
use super::{compact, fair, open};

/// Most jobs per step, to keep the caller's loop responsive.
const JOBS_MAX: usize = 8;
/// Most candidate jobs per step: a few microseconds each.
const LOOKED_AT_MAX: usize = 2048;
/// Jobs that ended within this time before the last end are recent: users still look at them.
const RECENT_US: i64 = 86_400_000_000;
/// Estimated bytes of a job without samples and processes: its row, index entries, some decisions.
const ROW_BYTES: u64 = 1 << 10;

/// The data that a step gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// None: samples were packed.
    Nothing,
    /// Samples within each minute.
    ToMinutes,
    /// Samples within each hour.
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

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounded {
    /// The store's size without free pages.
    pub used_bytes: u64,
    /// The number of jobs that lost data.
    pub jobs: u32,
    /// The kind of loss; `None`: not needed, or no more data may go.
    pub loss: Option<Loss>,
}

/// Bytes of the file's used pages.
pub(super) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let (count, free, size) = (pragma("page_count")?, pragma("freelist_count")?, pragma("page_size")?);
    Ok(u64::try_from((count - free) * size).unwrap_or(0))
}

/// Takes a step if the store exceeds `bytes_max`.
pub(super) fn step(connection: &Connection, bytes_max: u64, next_job: u64) -> rusqlite::Result<Bounded> {
    let done = |jobs: usize, loss| -> rusqlite::Result<Bounded> {
        let jobs = u32::try_from(jobs).unwrap_or(u32::MAX);
        Ok(Bounded { used_bytes: used_bytes(connection)?, jobs, loss })
    };
    if used_bytes(connection)? <= bytes_max {
        return done(0, None);
    }
    let Some(last_us) = last_end(connection)? else { return done(0, None) };
    let largest = fair::largest(connection)?;
    // If a user's rows dominate the store, only that user gives up data.
    if let Some(one) = largest.filter(|one| one.bytes > one.all_bytes / 2 && one.bytes > bytes_max / 4) {
        let jobs = strike_jobs(connection, fair::oldest_of(connection, one.uid, JOBS_MAX)?, next_job)?;
        if jobs > 0 {
            return done(jobs, Some(Loss::Jobs));
        }
    }
    let older_us = last_us - RECENT_US;
    let many = older(connection, older_us)?.saturating_mul(ROW_BYTES) >= bytes_max / 2;
    let (packing, samples, rows) = (&LEVELS[..1], &LEVELS[1..4], &LEVELS[4..]);
    let mut turns = vec![(last_us, packing, false), (older_us, samples, false)];
    // Rows of old jobs must not crowd out all data of recent jobs, nor go for a few samples of these.
    turns.extend(many.then_some((older_us, rows, true)));
    turns.extend([(last_us, samples, false), (older_us, rows, true), (last_us, rows, true)]);
    for (until_us, levels, and_jobs) in turns {
        for level in levels {
            if let Some(jobs) = next(connection, level, until_us)? {
                jobs.iter().try_for_each(|&job| (level.give_up)(connection, job))?;
                return done(jobs.len(), Some(level.loss));
            }
        }
        let over = if and_jobs { exited(connection, (0, -1), until_us, JOBS_MAX)? } else { Vec::new() };
        let over: Vec<u64> = over.into_iter().map(|(_, job)| number(job)).collect();
        let jobs = strike_jobs(connection, over, next_job)?;
        if jobs > 0 {
            return done(jobs, Some(Loss::Jobs));
        }
    }
    done(0, None)
}

/// Removes these jobs with all their data; returns their number.
fn strike_jobs(connection: &Connection, jobs: Vec<u64>, next_job: u64) -> rusqlite::Result<usize> {
    if !jobs.is_empty() {
        open::keep_next_job(connection, next_job)?;
        let tables = ["samples", "blocks", "files", "processes", "nodes", "decisions", "jobs"];
        strike(connection, &jobs, &tables)?;
    }
    Ok(jobs.len())
}

/// Estimates the number of jobs that ended up to this time, from their consecutive numbers.
fn older(connection: &Connection, until_us: i64) -> rusqlite::Result<u64> {
    let end = |order: &str| -> rusqlite::Result<Option<i64>> {
        let sql = format!(
            "SELECT job FROM jobs WHERE state = 'exited' AND ended_us <= ?1 ORDER BY ended_us {order}, job {order} LIMIT 1"
        );
        connection.prepare_cached(&sql)?.query_row([until_us], |row| row.get(0)).optional()
    };
    Ok(end("DESC")?.zip(end("ASC")?).map_or(0, |(last, first)| last.abs_diff(first) + 1))
}

/// A kind of loss.
struct Level {
    /// Keys in `meta` of the last job without such data.
    mark: [&'static str; 2],
    /// Query whether the job `?1` has data of this kind.
    has: &'static str,
    give_up: fn(&Connection, u64) -> rusqlite::Result<()>,
    loss: Loss,
}

/// By rising value of the data.
const LEVELS: [Level; 6] = [
    Level {
        mark: ["bound_rows_us", "bound_rows_job"],
        has: "SELECT EXISTS (SELECT 1 FROM samples WHERE job = ?1)",
        give_up: |connection, job| compact::pack(connection, job, 0).map(drop),
        loss: Loss::Nothing,
    },
    Level {
        mark: ["bound_minutes_us", "bound_minutes_job"],
        has: "SELECT EXISTS (SELECT 1 FROM blocks WHERE job = ?1 AND step_us < 60000000)",
        give_up: |connection, job| compact::thin(connection, job, 60_000_000).map(drop),
        loss: Loss::ToMinutes,
    },
    Level {
        mark: ["bound_hours_us", "bound_hours_job"],
        has: "SELECT EXISTS (SELECT 1 FROM blocks WHERE job = ?1 AND step_us < 3600000000)",
        give_up: |connection, job| compact::thin(connection, job, 3_600_000_000).map(drop),
        loss: Loss::ToHours,
    },
    Level {
        mark: ["bound_blocks_us", "bound_blocks_job"],
        has: "SELECT EXISTS (SELECT 1 FROM blocks WHERE job = ?1)",
        give_up: |connection, job| strike(connection, &[job], &["blocks"]),
        loss: Loss::Samples,
    },
    Level {
        mark: ["bound_files_us", "bound_files_job"],
        has: "SELECT EXISTS (SELECT 1 FROM files WHERE job = ?1)",
        give_up: |connection, job| strike(connection, &[job], &["files"]),
        loss: Loss::Processes,
    },
    Level {
        mark: ["bound_processes_us", "bound_processes_job"],
        has: "SELECT EXISTS (SELECT 1 FROM processes WHERE job = ?1)",
        give_up: |connection, job| strike(connection, &[job], &["processes"]),
        loss: Loss::Processes,
    },
];

/// The next jobs, up to those that ended at `until_us`, with data of this kind; may be empty when all candidates had
/// none. `None`: no candidates. Candidates are never read twice: a store of millions of jobs would block the caller
/// for seconds.
fn next(connection: &Connection, level: &Level, until_us: i64) -> rusqlite::Result<Option<Vec<u64>>> {
    let [mark_us, mark_job] = level.mark.map(|mark| open::noted(connection, mark));
    let (mut mark, mut found) = ((mark_us?.unwrap_or(0), mark_job?.unwrap_or(-1)), Vec::new());
    let looked_at = exited(connection, mark, until_us, LOOKED_AT_MAX)?;
    if looked_at.is_empty() {
        return Ok(None);
    }
    let mut has = connection.prepare_cached(level.has)?;
    for (ended_us, job) in looked_at {
        mark = (ended_us, job);
        if has.query_row([job], |row| row.get(0))? {
            found.push(number(job));
        }
        if found.len() == JOBS_MAX {
            break;
        }
    }
    open::note(connection, level.mark[0], mark.0)?;
    open::note(connection, level.mark[1], mark.1)?;
    Ok(Some(found))
}

/// Ended jobs after `behind`, up to those that ended at `until_us`, the oldest first: end and number.
fn exited(
    connection: &Connection,
    behind: (i64, i64),
    until_us: i64,
    most: usize,
) -> rusqlite::Result<Vec<(i64, i64)>> {
    let sql = "SELECT ended_us, job FROM jobs WHERE state = 'exited' AND (ended_us, job) > (?1, ?2) \
               AND ended_us <= ?3 ORDER BY ended_us, job LIMIT ?4";
    let mut select = connection.prepare_cached(sql)?;
    let most = whole(most as u64);
    let jobs =
        select.query_map((behind.0, behind.1, until_us, most), |row| Ok((row.get(0)?, row.get(1)?)))?;
    jobs.collect()
}

/// The time of the last end.
fn last_end(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT max(ended_us) FROM jobs WHERE state = 'exited'";
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
}

fn number(job: i64) -> u64 {
    u64::try_from(job).unwrap_or(0)
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
