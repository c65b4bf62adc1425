//! A class by week and by host, from the sums by day; and its last jobs one by one. Absent here: what that means
//! ([`crate::drift`]).

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::days::DAY_US;
use super::db::{Connection, DbError, Row};
use super::list;
use super::query::{Ending, JobQuery};
use super::summary::{ClassRow, Summed};
use super::{Store, StoreError};

/// The last so many weeks with jobs are looked at together.
pub const LAST_WEEKS: usize = 2;

/// The most hosts, those with the most jobs.
const HOSTS_MAX: usize = 20;

/// The most jobs that are read one by one, the last ones.
const RUNS_MAX: u32 = 500;

/// A class over some time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Weeks {
    /// Each week with jobs that ran, the oldest first: when it begins, in microseconds since the Unix epoch, and its jobs.
    pub weeks: Vec<(u64, ClassRow)>,
    /// Jobs of the last weeks together.
    pub last: Option<ClassRow>,
    /// By host, those with the most jobs first.
    pub hosts: Vec<ClassRow>,
    /// Whether there are more hosts.
    pub more_hosts: bool,
    /// The last jobs that ended well, the oldest first.
    pub runs: Vec<ClassRun>,
}

/// A job of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassRun {
    /// The most memory that it held, in bytes.
    pub peak_bytes: u64,
    /// What it claimed.
    pub claim_bytes: Option<u64>,
    /// How long it ran, in seconds.
    pub wall_s: f64,
    /// The version that its run of a workflow says.
    pub version: Option<String>,
}

impl Store {
    /// The jobs that are asked for as one class, by week. Days count whole.
    ///
    /// # Errors
    /// When the database refuses, or it takes too long.
    pub fn class_weeks(&self, query: &JobQuery) -> Result<Weeks, StoreError> {
        self.read("put a class together", |connection| {
            let mut found = Weeks::default();
            let of_days = ("jobs.day", "", false);
            for (week, summed) in by(connection, query, of_days, |row| Ok(week_of(row.get(0)?)))? {
                found.weeks.push((begin_us(week), summed.row(String::new())));
            }
            let last = found.weeks.len().saturating_sub(LAST_WEEKS);
            if let Some((since_us, _)) = found.weeks.get(last) {
                // The first of these weeks may have begun before what is asked for.
                let since_us = query.since_us.map_or(*since_us, |asked| asked.max(*since_us));
                let of_them = JobQuery { since_us: Some(since_us), ..query.clone() };
                let mut together = by(connection, &of_them, of_days, |_| Ok(0))?;
                found.last = together.remove(&0).map(|summed| summed.row(String::new()));
            }
            let of_hosts = ("hosts.name", "JOIN hosts ON hosts.id = jobs.host", true);
            let hosts = by(connection, query, of_hosts, |row| row.get::<String>(0))?;
            found.hosts = hosts.into_iter().map(|(name, summed)| summed.row(name)).collect();
            found.hosts.sort_by(|a, b| b.jobs.cmp(&a.jobs).then_with(|| a.name.cmp(&b.name)));
            found.more_hosts = found.hosts.len() > HOSTS_MAX;
            found.hosts.truncate(HOSTS_MAX);
            found.runs = runs(connection, query)?;
            Ok(found)
        })
    }
}

/// Weeks begin on Mondays, and 1970 began on a Thursday.
const fn week_of(day: i64) -> i64 {
    (day + 3).div_euclid(7)
}

fn begin_us(week: i64) -> u64 {
    u64::try_from(week * 7 - 3).unwrap_or(0) * DAY_US
}

/// Rows of sums put together by what one of their columns says.
fn by<K: Ord>(
    connection: &mut dyn Connection,
    query: &JobQuery,
    (column, join, each_host): (&str, &str, bool),
    key: impl Fn(&Row) -> Result<K, DbError>,
) -> Result<BTreeMap<K, Summed>, DbError> {
    let (conditions, values) = query.day_conditions(connection.dialect(), each_host);
    let text = format!(
        "SELECT {column}, {} FROM days AS jobs JOIN spreads ON spreads.day = jobs.id {join} WHERE {conditions} AND jobs.ran > 0",
        Summed::COLUMNS
    );
    let mut found: BTreeMap<K, Summed> = BTreeMap::new();
    connection.each(&text, &values, &mut |row| {
        found.entry(key(row)?).or_default().add(row)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// The last jobs that ended well, the oldest first, whatever end is asked for.
fn runs(connection: &mut dyn Connection, query: &JobQuery) -> Result<Vec<ClassRun>, DbError> {
    let well = JobQuery { ending: Some(Ending::Succeeded), sort: None, ascending: false, ..query.clone() };
    let ids = list::latest(connection, &well, RUNS_MAX)?;
    // One that no job has, if there are none: no numbers mean all jobs.
    let ids = if ids.is_empty() { vec![0] } else { ids };
    let (conditions, values) = JobQuery { ids, ..well }.conditions(connection.dialect(), true);
    let text = format!(
        "SELECT memory_peak_bytes, claim_bytes, coalesce(wall_s, 0.0), (SELECT max(runs.version) FROM runs WHERE \
         runs.workflow = jobs.workflow AND runs.\"user\" = jobs.\"user\" AND runs.run = jobs.run AND runs.host = jobs.host) \
         FROM jobs {} WHERE {conditions} AND jobs.started_us IS NOT NULL ORDER BY jobs.ended_us, jobs.id",
        connection.dialect().by_index(None)
    );
    connection.all(&text, &values, |row| {
        Ok(ClassRun {
            peak_bytes: row.get(0)?,
            claim_bytes: row.get(1)?,
            wall_s: row.get(2)?,
            version: row.get(3)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weekly::Week;

    #[test]
    fn weeks_begin_as_those_of_the_calendar() {
        for day in [0, 3, 4, 5, 20_780, 20_786, 20_787] {
            let begin_us = begin_us(week_of(day));
            assert!(begin_us <= day.unsigned_abs() * DAY_US);
            if day > 3 {
                assert_eq!(begin_us, Week::of(day.unsigned_abs() * DAY_US).range_us().0, "day {day}");
            }
        }
    }
}
