//! Finds the user whose rows take the most space in a full store, whose jobs go first, so that a user's many large
//! jobs do not drive out other users' data.
//!
//! Bytes per user are estimated: only the text lengths of sample jobs, evenly over all numbers, are read, at the cost
//! of a page each. Absent: the size itself, and other removals ([`super::bound`]).

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension};

use super::fields::whole;

/// How many jobs are looked at.
const PROBES: i64 = 256;
/// Most jobs of a user searched for ended jobs; the others wait.
const LOOKED_AT_MAX: usize = 2_048;
/// Estimated bytes of a job beside its texts: figures, index entries, some decisions.
const ROW_BYTES: u64 = 1 << 10;

/// The user with the largest rows, among several users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Largest {
    pub uid: i64,
    /// Estimated bytes of all jobs' rows,
    pub all_bytes: u64,
    /// and of this user's rows.
    pub bytes: u64,
}

/// Finds the user with the largest rows; `None` with a single user.
pub(super) fn largest(connection: &Connection) -> rusqlite::Result<Option<Largest>> {
    let span = "SELECT min(job), max(job) FROM jobs";
    let span: (Option<i64>, Option<i64>) =
        connection.prepare_cached(span)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (Some(first), Some(last)) = span else { return Ok(None) };
    let step = ((last - first) / PROBES).max(1);
    let mut probe = connection.prepare_cached(
        "SELECT job, uid, octet_length(command) + octet_length(name) + octet_length(directory) \
         + ifnull(octet_length(layout), 0) + ifnull(octet_length(\"after\"), 0) + ifnull(octet_length(checkpoint), 0) \
         FROM jobs WHERE job >= ?1 ORDER BY job LIMIT 1",
    )?;
    let (mut users, mut at, mut probes) = (BTreeMap::<i64, u64>::new(), first, 0);
    while at <= last {
        let found: Option<(i64, i64, i64)> =
            probe.query_row([at], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
        let Some((job, uid, bytes)) = found else { break };
        *users.entry(uid).or_default() += u64::try_from(bytes).unwrap_or(0) + ROW_BYTES;
        probes += 1;
        // Where numbers are left out a job stands for no more than itself.
        at = at.max(job) + step;
    }
    let Some((&uid, &bytes)) = users.iter().max_by_key(|&(_, bytes)| bytes).filter(|_| users.len() > 1)
    else {
        return Ok(None);
    };
    let scale =
        |bytes: u64| bytes.saturating_mul(u64::try_from(last - first + 1).unwrap_or(1)) / probes.max(1);
    Ok(Some(Largest { uid, all_bytes: scale(users.values().sum()), bytes: scale(bytes) }))
}

/// The first ended jobs of a user, by number; fewer if many waiting jobs precede them.
pub(super) fn oldest_of(connection: &Connection, uid: i64, most: usize) -> rusqlite::Result<Vec<u64>> {
    let mut select = connection.prepare_cached(
        "SELECT job FROM (SELECT job, state FROM jobs WHERE uid = ?1 ORDER BY job LIMIT ?2) \
         WHERE state = 'exited' ORDER BY job LIMIT ?3",
    )?;
    let values = (uid, whole(LOOKED_AT_MAX as u64), whole(most as u64));
    let jobs = select.query_map(values, |row| row.get::<_, i64>(0))?;
    jobs.map(|job| job.map(|job| u64::try_from(job).unwrap_or(0))).collect()
}
