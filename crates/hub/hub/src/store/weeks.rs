//! A class by week and by host, from the sums by day; and its last jobs singly. Absent here: conclusions
//! ([`crate::drift`]).

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use super::days::DAY_US;
use super::db::{Connection, DbError, Row};
use super::list;
use super::query::{Ending, JobQuery};
use super::summary::{ClassRow, Summed};
use super::{Store, StoreError};

/// The number of last weeks with jobs that count together.
pub const LAST_WEEKS: usize = 2;

/// The most hosts, by most jobs.
const HOSTS_MAX: usize = 20;

/// The most jobs read singly: the last of a class,
const RUNS_MAX: u32 = 500;
/// and the last of all classes of a name.
const NAMED_RUNS_MAX: u32 = 5_000;

/// A class over a period.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Weeks {
    /// Weeks with jobs that ran, the oldest first: the begin in microseconds since the Unix epoch, and the jobs.
    pub weeks: Vec<(u64, ClassRow)>,
    /// Jobs of the last weeks together.
    pub last: Option<ClassRow>,
    /// By host, the most jobs first.
    pub hosts: Vec<ClassRow>,
    /// Whether there are more hosts.
    pub more_hosts: bool,
    /// The last jobs that ended well, the oldest first.
    pub runs: Vec<ClassRun>,
}

/// A job of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassRun {
    /// Name of the job.
    pub name: String,
    /// User of the job.
    pub user: String,
    /// Requested cores.
    pub cores: u32,
    /// Time of the end, in microseconds since the Unix epoch.
    pub ended_us: u64,
    /// Peak memory, in bytes.
    pub peak_bytes: u64,
    /// The requested memory, in bytes.
    pub claim_bytes: Option<u64>,
    /// Wall time, in seconds.
    pub wall_s: f64,
    /// The version named by the job's run of a workflow.
    pub version: Option<String>,
}

impl Store {
    /// The jobs of the query as a class, by week. Days count whole. Ends more than a day ahead do not count: a clock
    /// was wrong, and these jobs would stay the last for their whole retention.
    ///
    /// # Errors
    /// When the database refuses, or the time limit is reached.
    pub fn class_weeks(&self, query: &JobQuery) -> Result<Weeks, StoreError> {
        let latest_us = super::latest_us();
        let until_us = query.until_us.map_or(latest_us, |asked| asked.min(latest_us));
        let query = &JobQuery { until_us: Some(until_us), ..query.clone() };
        self.read("put a class together", |connection| {
            let mut found = Weeks::default();
            for (week, summed) in by(connection, query, |row| Ok(week_of(row.get(0)?)))? {
                found.weeks.push((begin_us(week), summed.row(String::new())));
            }
            let last = found.weeks.len().saturating_sub(LAST_WEEKS);
            if let Some((since_us, _)) = found.weeks.get(last) {
                // The first of these weeks may have begun before the query's start.
                let since_us = query.since_us.map_or(*since_us, |asked| asked.max(*since_us));
                let of_them = JobQuery { since_us: Some(since_us), ..query.clone() };
                let mut together = by(connection, &of_them, |_| Ok(0))?;
                found.last = together.remove(&0).map(|summed| summed.row(String::new()));
            }
            (found.hosts, found.more_hosts) = by_host(connection, query)?;
            found.runs = runs(connection, query, RUNS_MAX)?;
            Ok(found)
        })
    }

    /// The last jobs of a name that ended well, the oldest first.
    pub(crate) fn class_runs(&self, query: &JobQuery) -> Result<Vec<ClassRun>, StoreError> {
        self.read("put a class together", |connection| runs(connection, query, NAMED_RUNS_MAX))
    }
}

/// Weeks begin on Mondays, and 1970 began on a Thursday.
const fn week_of(day: i64) -> i64 {
    (day + 3).div_euclid(7)
}

fn begin_us(week: i64) -> u64 {
    u64::try_from(week * 7 - 3).unwrap_or(0) * DAY_US
}

/// Rows of sums over all hosts, merged by a key made from the day.
fn by<K: Ord>(
    connection: &mut dyn Connection,
    query: &JobQuery,
    key: impl Fn(&Row) -> Result<K, DbError>,
) -> Result<BTreeMap<K, Summed>, DbError> {
    let (conditions, values) = query.day_conditions(connection.dialect(), false);
    let text = format!(
        "SELECT jobs.day, {} FROM days AS jobs JOIN spreads ON spreads.day = jobs.id WHERE {conditions} AND jobs.ran > 0",
        Summed::columns()
    );
    let mut found: BTreeMap<K, Summed> = BTreeMap::new();
    connection.each(&text, &values, &mut |row| {
        found.entry(key(row)?).or_default().add(row)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// By host, the most jobs first, and whether there are more. Spreads are most of a row's size, and are read of these
/// hosts alone.
fn by_host(connection: &mut dyn Connection, query: &JobQuery) -> Result<(Vec<ClassRow>, bool), DbError> {
    let (conditions, values) = query.day_conditions(connection.dialect(), true);
    let text = format!(
        "SELECT jobs.host, {}, jobs.id FROM days AS jobs WHERE {conditions} AND jobs.ran > 0",
        Summed::SUMS
    );
    let mut found: BTreeMap<i64, (Summed, Vec<i64>)> = BTreeMap::new();
    connection.each(&text, &values, &mut |row| {
        let (summed, rows) = found.entry(row.get(0)?).or_default();
        summed.add_sums(row)?;
        rows.push(row.get(7)?);
        Ok(ControlFlow::Continue(()))
    })?;
    let names: HashMap<i64, String> = connection
        .all("SELECT id, name FROM hosts", &[], |row| Ok((row.get(0)?, row.get(1)?)))?
        .into_iter()
        .collect();
    let mut hosts: Vec<(String, Summed, Vec<i64>)> = found
        .into_iter()
        .filter_map(|(host, (summed, rows))| Some((names.get(&host)?.clone(), summed, rows)))
        .collect();
    hosts.sort_by(|(a, of_a, _), (b, of_b, _)| of_b.jobs().cmp(&of_a.jobs()).then_with(|| a.cmp(b)));
    let more = hosts.len() > HOSTS_MAX;
    hosts.truncate(HOSTS_MAX);
    let numbers: Vec<i64> = hosts.iter().flat_map(|(_, _, rows)| rows).copied().collect();
    let mut of_rows: HashMap<i64, usize> = HashMap::new();
    for (at, (_, _, rows)) in hosts.iter().enumerate() {
        of_rows.extend(rows.iter().map(|row| (*row, at)));
    }
    let text = |places: &str| format!("SELECT day, packed FROM spreads WHERE day IN ({places})");
    list::each_of(connection, &numbers, (&text, &[]), &mut |row| {
        let at = of_rows.get(&row.get(0)?).copied();
        at.map_or(Ok(()), |at| hosts[at].1.add_spreads(row.get(1)?))
    })?;
    Ok((hosts.into_iter().map(|(name, summed, _)| summed.row(name)).collect(), more))
}

/// The last jobs that ended well, the oldest first, regardless of the query's ending.
fn runs(connection: &mut dyn Connection, query: &JobQuery, most: u32) -> Result<Vec<ClassRun>, DbError> {
    let well = JobQuery { ending: Some(Ending::Succeeded), sort: None, ascending: false, ..query.clone() };
    let ids = list::latest(connection, &well, most)?;
    let dialect = connection.dialect();
    let (conditions, values) = well.conditions(dialect, true);
    let text = |places: &str| {
        let (from, words) = dialect.numbered(places);
        format!(
            "SELECT memory_peak_bytes, claim_bytes, coalesce(wall_s, 0.0), (SELECT max(runs.version) FROM runs WHERE \
             runs.workflow = jobs.workflow AND runs.\"user\" = jobs.\"user\" AND runs.run = jobs.run AND runs.host = jobs.host), \
             jobs.ended_us, jobs.id, jobs.\"user\", jobs.cores, jobs.name FROM {from} \
             WHERE {words} AND {conditions} AND jobs.started_us IS NOT NULL"
        )
    };
    let mut found: Vec<(i64, ClassRun)> = Vec::new();
    list::each_of(connection, &ids, (&text, &values), &mut |row| {
        let (peak_bytes, claim_bytes, wall_s) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (version, ended_us, user, cores) = (row.get(3)?, row.get(4)?, row.get(6)?, row.get(7)?);
        let run =
            ClassRun { name: row.get(8)?, user, cores, ended_us, peak_bytes, claim_bytes, wall_s, version };
        found.push((row.get(5)?, run));
        Ok(())
    })?;
    found.sort_by_key(|(id, run)| (run.ended_us, *id));
    Ok(found.into_iter().map(|(_, run)| run).collect())
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
