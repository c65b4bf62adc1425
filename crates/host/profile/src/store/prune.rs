//! Striking old jobs off, a few at a time.
//!
//! Absent: how long jobs are kept (the caller's rule), and the bound on the store's size ([`super::bound`]).

use rusqlite::Connection;

use super::fields::whole;
use super::{PRUNE_JOBS_MAX, Pruned, open};

/// See [`super::Store::prune`].
pub(super) fn prune(connection: &Connection, before_us: u64, next_job: u64) -> rusqlite::Result<Pruned> {
    let mut select = connection.prepare_cached(
        "SELECT job FROM jobs WHERE state = 'exited' AND ended_us < ?1 ORDER BY ended_us, job LIMIT ?2",
    )?;
    let jobs: Vec<i64> = select
        .query_map((whole(before_us), PRUNE_JOBS_MAX + 1), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    // A removed number must be stored elsewhere, or it would be given out again.
    open::keep_next_job(connection, next_job)?;
    let mut pruned = 0;
    for (job, _) in jobs.iter().zip(0..PRUNE_JOBS_MAX) {
        for table in ["samples", "blocks", "decisions", "processes", "files", "nodes", "jobs"] {
            connection.prepare_cached(&format!("DELETE FROM {table} WHERE job = ?1"))?.execute([job])?;
        }
        pruned += 1;
    }
    Ok(Pruned { jobs: pruned, more: jobs.len() > pruned as usize })
}
