//! Checks a whole store and counts its rows.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

use super::{CheckReport, StoreError, compact, open};

/// Looks a file through: see [`Store::check`].
pub(super) fn report(connection: &Connection, path: &Path) -> Result<CheckReport, StoreError> {
    let mut problems = open::problems(connection, "integrity_check", "");
    let count = |sql: &str| -> rusqlite::Result<u64> {
        let count: i64 = connection.query_row(sql, [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    };
    for (table, what) in [("decisions", "decisions about"), ("processes", "processes of")] {
        let orphans =
            format!("SELECT count(DISTINCT job) FROM {table} WHERE job NOT IN (SELECT job FROM jobs)");
        match count(&orphans) {
            Ok(0) => {}
            Ok(count) => problems.push(format!("{what} {count} jobs that are not there")),
            Err(error) => problems.push(error.to_string()),
        }
    }
    let mut rows = |table: &str| {
        count(&format!("SELECT count(*) FROM {table}")).unwrap_or_else(|error| {
            problems.push(format!("table {table}: {error}"));
            0
        })
    };
    let (jobs, samples, decisions) = (rows("jobs"), rows("samples"), rows("decisions"));
    let packed = match compact::count(connection) {
        Ok((packed, 0)) => packed,
        Ok((packed, broken)) => {
            problems.push(format!("{broken} blocks of samples cannot be read"));
            packed
        }
        Err(error) => {
            problems.push(format!("table blocks: {error}"));
            0
        }
    };
    let samples = samples + packed;
    let metadata = fs::metadata(path).map_err(|source| StoreError::file("look at", path, source))?;
    Ok(CheckReport { problems, jobs, samples, decisions, file_bytes: metadata.len() })
}
