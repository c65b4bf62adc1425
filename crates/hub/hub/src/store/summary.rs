//! Aggregates of jobs: classes with the spread of their figures, and the request and waste of users and projects. Both
//! count whole days from sums kept as jobs come in ([`super::days`]); only conditions on figures of single jobs make
//! them read the jobs.

mod classes;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use self::classes::{Classes, most_wasteful};
use super::days::{ALL_HOSTS, DAY_US, damaged};
use super::db::{DbError, Dialect, Row, Value};
use super::failed::FAILURE;
use super::query::{Ending, JobQuery, TABLE_MAX};
use super::sketch::{ERROR_PART, Totals};
use super::{Store, StoreError};

/// The most jobs aggregated, the last by end.
const JOBS_MAX: u32 = 300_000;

/// The most classes, by most unused memory.
const CLASSES_MAX: usize = TABLE_MAX as usize;

/// Memory bound for sums of classes in a query, in bytes. Beyond the bound the classes with the least unused memory are
/// left out.
const CLASSES_MAX_BYTES: usize = 64 << 20;

/// The name of all jobs together.
const NO_NAME: &str = "CAST(NULL AS TEXT)";

/// The distribution of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spread {
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest figure.
    pub most: f64,
}

/// The jobs of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassRow {
    /// Name of the jobs.
    pub name: String,
    /// Number of hosts.
    pub hosts: u64,
    /// Number of jobs.
    pub jobs: u64,
    /// Number of failed jobs.
    pub failed: u64,
    /// Wall time in seconds.
    pub wall_s: Spread,
    /// The most memory of each, in bytes.
    pub memory_peak_bytes: Spread,
    /// Median of the requested memory; `None`: no job requested memory.
    pub claim_p50_bytes: Option<f64>,
    /// The largest memory request of a job.
    pub claim_most_bytes: Option<f64>,
    /// Cores used as a part of cores requested, over all jobs, 0 to 1 and above.
    pub cores_used_part: f64,
    /// Memory requested and never used, in GiB times hours.
    pub unused_gibh: f64,
    /// Suspended time in hours.
    pub suspended_h: f64,
}

/// The key of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// By user.
    User,
    /// By project.
    Project,
    /// By host.
    Host,
    /// A total over all jobs.
    All,
}

/// Usage of a user, project or host.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageRow {
    /// The name; `None`: jobs of no project.
    pub name: Option<String>,
    /// Number of jobs.
    pub jobs: u64,
    /// Number of failed jobs.
    pub failed: u64,
    /// CPU time, in hours.
    pub cpu_h: f64,
    /// Cores requested and not used, in core hours.
    pub idle_core_h: f64,
    /// Requested memory times time, in GiB times hours.
    pub claimed_gibh: f64,
    /// The unused part of the requested memory, in GiB times hours.
    pub unused_gibh: f64,
    /// Suspended time in hours.
    pub suspended_h: f64,
    /// Waiting time in hours.
    pub queued_h: f64,
}

/// Aggregated jobs, and whether the bound left some out.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary<T> {
    /// The aggregates.
    pub rows: Vec<T>,
    /// Number of jobs read.
    pub jobs: u64,
    /// Whether the bound left out older jobs, or the classes with the least unused memory.
    pub cut: bool,
    /// Largest error of quantiles as a part of their value; 0: exact figures of jobs.
    pub error_part: f64,
}

/// A class under aggregation.
#[derive(Default)]
pub(super) struct Summed {
    jobs: u64,
    failed: u64,
    cpu_s: f64,
    core_s: f64,
    unused_gibh: f64,
    suspended_s: f64,
    spreads: Totals,
}

impl Summed {
    /// The sum columns of a row, behind its key columns.
    pub(super) const SUMS: &'static str =
        "jobs.failed, jobs.ran, jobs.cpu_s, jobs.core_s, jobs.unused_gibh, jobs.suspended_s";

    /// The columns of a row behind its key: sums, and packed spreads.
    pub(super) fn columns() -> String {
        format!("{}, packed", Self::SUMS)
    }

    pub(super) fn add(&mut self, row: &Row) -> Result<(), DbError> {
        self.add_sums(row)?;
        self.add_spreads(row.get(7)?)
    }

    /// Adds the sums of a row.
    pub(super) fn add_sums(&mut self, row: &Row) -> Result<(), DbError> {
        let ran: u64 = row.get(2)?;
        self.jobs += ran;
        self.failed += if row.get::<i64>(1)? == 0 { 0 } else { ran };
        self.cpu_s += row.get::<f64>(3)?;
        self.core_s += row.get::<f64>(4)?;
        self.unused_gibh += row.get::<f64>(5)?;
        self.suspended_s += row.get::<f64>(6)?;
        Ok(())
    }

    /// Adds the spreads of a row.
    pub(super) fn add_spreads(&mut self, packed: &[u8]) -> Result<(), DbError> {
        self.spreads.add(packed).ok_or_else(damaged)
    }

    /// Its memory in bytes.
    const fn bytes(&self) -> usize {
        self.spreads.bytes()
    }

    pub(super) const fn jobs(&self) -> u64 {
        self.jobs
    }

    pub(super) fn row(self, name: String) -> ClassRow {
        let claims = self.spreads.claim_bytes.spread(1.0);
        ClassRow {
            name,
            hosts: self.spreads.hosts.count(),
            jobs: self.jobs,
            failed: self.failed,
            wall_s: self.spreads.wall_ms.spread(1e-3).unwrap_or_default(),
            memory_peak_bytes: self.spreads.peak_bytes.spread(1.0).unwrap_or_default(),
            claim_p50_bytes: claims.map(|claims| claims.p50),
            claim_most_bytes: claims.map(|claims| claims.most),
            cores_used_part: if self.core_s > 0.0 { self.cpu_s / self.core_s } else { 0.0 },
            unused_gibh: self.unused_gibh,
            suspended_h: self.suspended_s / 3_600.0,
        }
    }
}

impl JobQuery {
    /// Conditions on rows of sums, and their values.
    pub(super) fn day_conditions(&self, dialect: Dialect, each_host: bool) -> (String, Vec<Value>) {
        let mut values = Vec::new();
        let mut words = self.subjects(dialect, "jobs.name", &mut values);
        // The rows of all hosts together have the same sums in fewer rows, unless a condition names the host.
        let by_host = each_host || self.host.is_some() || self.access.names_hosts();
        words.push(format!("jobs.host {} {ALL_HOSTS}", if by_host { ">" } else { "=" }));
        let days =
            [(">=", self.since_us.map(|us| us / DAY_US)), ("<", self.until_us.map(|us| us.div_ceil(DAY_US)))];
        for (sign, day) in days {
            if let Some(day) = day {
                values.push(day.into());
                words.push(format!("jobs.day {sign} ?{}", values.len()));
            }
        }
        match self.ending {
            Some(Ending::Succeeded) => words.push("jobs.failed = 0".to_owned()),
            Some(Ending::Failed) => words.push("jobs.failed = 1".to_owned()),
            None => {}
        }
        (words.join(" AND "), values)
    }

    /// Whether the query needs figures of single jobs, which sums lack.
    fn is_of_jobs(&self) -> bool {
        !self.conditions.is_empty() || !self.ids.is_empty()
    }
}

#[derive(Default)]
struct Class {
    hosts: Vec<i64>,
    failed: u64,
    wall_s: Vec<f64>,
    peaks: Vec<f64>,
    claims: Vec<f64>,
    cpu_s: f64,
    asked_s: f64,
    unused_gibh: f64,
    suspended_s: f64,
}

impl Class {
    /// Adds a job, as `classes_of_jobs` reads it.
    fn add(&mut self, row: &Row) -> Result<(), DbError> {
        let host = row.get(1)?;
        if !self.hosts.contains(&host) {
            self.hosts.push(host);
        }
        let (wall_s, suspended_s): (f64, f64) = (row.get(3)?, row.get(9)?);
        self.failed += row.get::<u64>(2)?;
        self.wall_s.push(wall_s);
        self.peaks.push(row.get(4)?);
        self.claims.extend(row.get::<Option<f64>>(5)?);
        self.cpu_s += row.get::<f64>(6)?;
        self.asked_s += row.get::<f64>(7)? * (wall_s - suspended_s).max(0.0);
        self.unused_gibh += row.get::<f64>(8)?;
        self.suspended_s += suspended_s;
        Ok(())
    }

    fn row(self, name: String) -> ClassRow {
        let part = if self.asked_s > 0.0 { self.cpu_s / self.asked_s } else { 0.0 };
        let claims = spread(self.claims);
        ClassRow {
            name,
            hosts: self.hosts.len() as u64,
            jobs: self.peaks.len() as u64,
            failed: self.failed,
            wall_s: spread(self.wall_s).unwrap_or_default(),
            memory_peak_bytes: spread(self.peaks).unwrap_or_default(),
            claim_p50_bytes: claims.map(|claims| claims.p50),
            claim_most_bytes: claims.map(|claims| claims.most),
            cores_used_part: part,
            unused_gibh: self.unused_gibh,
            suspended_h: self.suspended_s / 3_600.0,
        }
    }
}

/// Quantiles by nearest rank, so that a job has each figure shown; `None` of no figures.
fn spread(mut figures: Vec<f64>) -> Option<Spread> {
    figures.sort_by(f64::total_cmp);
    let last = figures.len().checked_sub(1)?;
    let at = |percent: usize| figures[(last * percent).div_ceil(100)];
    Some(Spread { p50: at(50), p90: at(90), p95: at(95), p99: at(99), most: at(100) })
}

/// Sorts classes, the most wasteful first.
fn ordered(mut rows: Vec<ClassRow>) -> Vec<ClassRow> {
    rows.sort_by(|a, b| b.unused_gibh.total_cmp(&a.unused_gibh).then_with(|| a.name.cmp(&b.name)));
    rows
}

impl Store {
    /// Classes, which are the jobs of a name each, the most wasteful first. Days count whole.
    ///
    /// # Errors
    /// When the database refuses, or the time limit is reached.
    pub fn classes(&self, query: &JobQuery) -> Result<Summary<ClassRow>, StoreError> {
        self.classes_within(query, CLASSES_MAX, CLASSES_MAX_BYTES)
    }

    /// [`Self::classes`] with a bound on classes and on the bytes of their sums.
    ///
    /// # Errors
    /// As [`Self::classes`].
    pub fn classes_within(
        &self,
        query: &JobQuery,
        most: usize,
        bytes_max: usize,
    ) -> Result<Summary<ClassRow>, StoreError> {
        if query.is_of_jobs() {
            return self.classes_of_jobs(query);
        }
        let (classes, cut) = self.read("put classes together", |connection| {
            let mut all = Classes::of_all(most, bytes_max);
            if all.read(connection, query)? {
                return Ok((all.found(), false));
            }
            // If each job has its own name, there are as many classes as jobs.
            let ranks = most_wasteful(connection, query, most)?;
            let mut first = Classes::of_ranks(ranks, bytes_max);
            first.read(connection, query)?;
            Ok((first.found(), true))
        })?;
        let rows = ordered(classes.into_iter().map(|(name, class)| class.row(name)).collect());
        let jobs = rows.iter().map(|class| class.jobs).sum();
        Ok(Summary { rows, jobs, cut, error_part: ERROR_PART })
    }

    /// [`Self::classes`] from the jobs themselves.
    ///
    /// # Errors
    /// When the database refuses, or the time limit is reached.
    pub fn classes_of_jobs(&self, query: &JobQuery) -> Result<Summary<ClassRow>, StoreError> {
        let (mut classes, mut jobs) = (BTreeMap::<String, Class>::new(), 0u64);
        self.read("put classes together", |connection| {
            let (conditions, values) = query.conditions(connection.dialect(), false);
            let text = format!(
                "SELECT jobs.name, jobs.host, {FAILURE}, coalesce(wall_s, 0.0), \
                 memory_peak_bytes, claim_bytes, cpu_s, cores, unused_gibh, suspended_s \
                 FROM jobs WHERE {conditions} AND started_us IS NOT NULL ORDER BY jobs.ended_us DESC LIMIT {}",
                JOBS_MAX + 1
            );
            connection.each(&text, &values, &mut |row| {
                jobs += 1;
                if jobs > u64::from(JOBS_MAX) {
                    return Ok(ControlFlow::Break(()));
                }
                let name: &str = row.get(0)?;
                if !classes.contains_key(name) {
                    classes.insert(name.to_owned(), Class::default());
                }
                if let Some(class) = classes.get_mut(name) {
                    class.add(row)?;
                }
                Ok(ControlFlow::Continue(()))
            })
        })?;
        let rows = ordered(classes.into_iter().map(|(name, class)| class.row(name)).collect());
        let cut = jobs > u64::from(JOBS_MAX);
        Ok(Summary { rows, jobs: jobs.min(u64::from(JOBS_MAX)), cut, error_part: 0.0 })
    }

    /// Usage by user, project or host or in total, the most wasteful first; at most [`TABLE_MAX`]. Days count whole.
    ///
    /// # Errors
    /// When the database refuses, or the time limit is reached.
    pub fn usage(&self, group: Group, query: &JobQuery) -> Result<Vec<UsageRow>, StoreError> {
        if query.is_of_jobs() {
            return self.usage_of_jobs(group, query);
        }
        let name = match group {
            Group::User => "jobs.\"user\"",
            Group::Project => "nullif(jobs.project, '')",
            Group::Host => "hosts.name",
            Group::All => NO_NAME,
        };
        // Rows of all hosts together are of none.
        let (join, of) =
            if group == Group::Host { ("JOIN hosts ON hosts.id = jobs.host", true) } else { ("", false) };
        self.read("put jobs together", |connection| {
            let (conditions, values) = query.day_conditions(connection.dialect(), of);
            let text = format!(
                "SELECT {name}, CAST(sum(jobs.jobs) AS BIGINT), \
                 CAST(sum(CASE WHEN jobs.failed = 0 THEN 0 ELSE jobs.jobs END) AS BIGINT), sum(jobs.cpu_s) / 3600.0, \
                 sum(jobs.idle_core_h), sum(jobs.claimed_gibh), sum(jobs.unused_gibh), sum(jobs.suspended_s) / 3600.0, \
                 sum(jobs.queued_s) / 3600.0 FROM days AS jobs {join} WHERE {conditions} \
                 GROUP BY 1 ORDER BY sum(jobs.unused_gibh) DESC, sum(jobs.cpu_s) DESC, 1 LIMIT {TABLE_MAX}"
            );
            connection.all(&text, &values, usage_row)
        })
    }

    /// [`Self::usage`] from the jobs themselves.
    ///
    /// # Errors
    /// When the database refuses, or the time limit is reached.
    pub fn usage_of_jobs(&self, group: Group, query: &JobQuery) -> Result<Vec<UsageRow>, StoreError> {
        let name = match group {
            Group::User => "jobs.\"user\"",
            Group::Project => "jobs.project",
            Group::Host => "hosts.name",
            Group::All => NO_NAME,
        };
        self.read("put jobs together", |connection| {
            let dialect = connection.dialect();
            let (conditions, values) = query.conditions(dialect, query.is_long());
            // An index by name would be walked a row at a time.
            let name = dialect.unindexed(name);
            let text = format!(
                "SELECT {name}, count(*), sum({FAILURE}), sum(cpu_s) / 3600.0, \
                 sum(idle_core_h), sum(CAST(coalesce(claim_bytes, 0) AS DOUBLE PRECISION) / 1073741824.0 \
                 * coalesce(wall_s, 0.0)) / 3600.0, sum(unused_gibh), sum(suspended_s) / 3600.0, sum(queued_s) / 3600.0 \
                 FROM jobs JOIN hosts ON hosts.id = jobs.host WHERE {conditions} \
                 GROUP BY 1 ORDER BY sum(unused_gibh) DESC, sum(cpu_s) DESC, 1 LIMIT {TABLE_MAX}"
            );
            connection.all(&text, &values, usage_row)
        })
    }
}

fn usage_row(row: &Row) -> Result<UsageRow, DbError> {
    Ok(UsageRow {
        name: row.get(0)?,
        jobs: row.get(1)?,
        failed: row.get(2)?,
        cpu_h: row.get(3)?,
        idle_core_h: row.get(4)?,
        claimed_gibh: row.get(5)?,
        unused_gibh: row.get(6)?,
        suspended_h: row.get(7)?,
        queued_h: row.get(8)?,
    })
}
