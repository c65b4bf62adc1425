//! Keeping the store below a size: what is lost first is what is missed least. Samples of jobs that are over are
//! packed, thinned to one a minute, to one an hour, struck off; then their processes; then their decisions and
//! the jobs themselves; always those of the oldest jobs first. Samples of the last day's jobs are touched when older
//! ones have none left, and when the rows of older jobs take less than half of the room, for these go before otherwise.
//! Of a job that is not over nothing is touched.
//!
//! Before all that, where the rows of one user's jobs take a quarter of the room and more than those of all others together,
//! it is that user's oldest jobs that go ([`super::fair`]).
//!
//! How far each kind of loss has come stands in `meta`: a step looks only at what is next.
//!
//! Absent here: the rule of time ([`super::compact`], [`super::Store::prune`]), and the size that is allowed.

use rusqlite::{Connection, OptionalExtension};

use super::fields::whole;
use super::{compact, fair, open};

/// How many jobs one step takes on at most, so that the caller's loop is not held up.
const JOBS_MAX: usize = 8;
/// How many it looks at for them: a few microseconds each.
const LOOKED_AT_MAX: usize = 2048;
/// Jobs that ended so shortly before the last one that did are what people look at.
const RECENT_US: i64 = 86_400_000_000;
/// What a job takes without samples and processes: its row, its places in indexes, some decisions.
const ROW_BYTES: u64 = 1 << 10;

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
    let Some(last_us) = last_end(connection)? else { return done(0, None) };
    let largest = fair::largest(connection)?;
    // One user's rows alone take much of the room, and most of what rows take: nobody else gives anything up for them.
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
    // Rows of old jobs must not take all the room from what recent ones did, nor go for a few samples of those.
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

/// Strikes these jobs off, with all that belongs to them; gives how many they are.
fn strike_jobs(connection: &Connection, jobs: Vec<u64>, next_job: u64) -> rusqlite::Result<usize> {
    if !jobs.is_empty() {
        open::keep_next_job(connection, next_job)?;
        let tables = ["samples", "blocks", "files", "processes", "nodes", "decisions", "jobs"];
        strike(connection, &jobs, &tables)?;
    }
    Ok(jobs.len())
}

/// About how many jobs there are that ended up to this moment: their numbers follow one another.
fn older(connection: &Connection, until_us: i64) -> rusqlite::Result<u64> {
    let end = |order: &str| -> rusqlite::Result<Option<i64>> {
        let sql = format!(
            "SELECT job FROM jobs WHERE state = 'exited' AND ended_us <= ?1 ORDER BY ended_us {order}, job {order} LIMIT 1"
        );
        connection.prepare_cached(&sql)?.query_row([until_us], |row| row.get(0)).optional()
    };
    Ok(end("DESC")?.zip(end("ASC")?).map_or(0, |(last, first)| last.abs_diff(first) + 1))
}

/// One kind of loss.
struct Level {
    /// Where in `meta` it stands up to which job nothing of it is left.
    mark: [&'static str; 2],
    /// Whether a job, `?1`, has something to give up.
    has: &'static str,
    give_up: fn(&Connection, u64) -> rusqlite::Result<()>,
    loss: Loss,
}

/// In the order in which they are missed.
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

/// The next jobs, up to those that ended at `until_us`, that have something of this kind to give up; none may do when
/// the call has only looked at many that have not. `None`: nothing is left. What was looked at is not looked at again:
/// a store of millions of jobs would hold the caller up for seconds.
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

/// Jobs that are over, from behind this one to those that ended at `until_us`, the oldest first: end and number.
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

/// When the last job ended that did.
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
