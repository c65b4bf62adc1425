//! Queries for jobs and hosts. User input is passed as values, never as SQL; the size of results is bounded.

use std::ops::ControlFlow;

use pinfold_hubwire::bundle::{self, Head, Live};
use pinfold_hubwire::series::Columns;
use pinfold_proto::view::PointView;

use super::columns::{Column, Condition};
use super::db::{Connection, DbError, Dialect, Row, Value, values};
use super::failed::{FAILED, SUCCEEDED};
use super::keep::series_table;
use super::{Access, Store, StoreError};

/// The most jobs of one page.
pub const PAGE_MAX: u32 = 200;

/// The most jobs skipped to reach a page.
pub const OFFSET_MAX: u32 = 20_000;

/// The most jobs of one table for other programs, and of one answer to the command line.
pub const TABLE_MAX: u32 = 100_000;

/// The outcome of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The job ended well.
    Succeeded,
    /// The job did not end well.
    Failed,
}

/// A query for jobs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobQuery {
    /// The viewer's access; the default sees nothing.
    pub access: Access,
    /// Numbers of jobs at the hub; empty: all jobs.
    pub ids: Vec<i64>,
    /// The host; `None`: any.
    pub host: Option<String>,
    /// The user; `None`: any.
    pub user: Option<String>,
    /// The project; `None`: any.
    pub project: Option<String>,
    /// The name; `*` stands for any text.
    pub name: Option<String>,
    /// The outcome; `None`: any.
    pub ending: Option<Ending>,
    /// The earliest end, in microseconds since the Unix epoch.
    pub since_us: Option<u64>,
    /// The end is before this moment.
    pub until_us: Option<u64>,
    /// Conditions that all hold.
    pub conditions: Vec<Condition>,
    /// The column to sort by; `None`: the end.
    pub sort: Option<&'static Column>,
    /// Ascending order.
    pub ascending: bool,
    /// The most jobs returned.
    pub limit: u32,
    /// Jobs skipped.
    pub offset: u32,
}

/// A listed job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    /// Number at the hub.
    pub id: i64,
    /// A value for each of [`COLUMNS`].
    pub cells: Vec<Cell>,
}

/// A cell of a job's row.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Cell {
    /// No value.
    #[default]
    None,
    /// A whole number.
    Whole(i64),
    /// A number with a fraction.
    Real(f64),
    /// Text.
    Text(String),
}

/// A page of the requested jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct JobPage {
    /// The page's jobs.
    pub jobs: Vec<JobRow>,
    /// Whether more jobs follow.
    pub more: bool,
}

/// A job with all stored data.
#[derive(Debug, Clone, PartialEq)]
pub struct JobDetail {
    /// The host's name.
    pub host: String,
    /// Time of arrival, in microseconds since the Unix epoch.
    pub received_us: u64,
    /// Figures, series in figures, and decisions.
    pub head: Head,
    /// Whether parts of the series are still missing.
    pub incomplete: bool,
    /// The thinning of the series: each n-th point is here; 1: all points.
    pub one_of: usize,
}

/// A stored host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostRow {
    /// Number of the host.
    pub id: i64,
    /// Name of the host.
    pub name: String,
    /// Time of the last message, in microseconds since the Unix epoch.
    pub seen_us: Option<u64>,
    /// Lead of the host's clock over the hub's at that time, in microseconds; negative: lag.
    pub clock_ahead_us: Option<i64>,
    /// The last stored status.
    pub live: Option<Live>,
}

/// A query for reports, by the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportQuery {
    /// The viewer's access; the default sees nothing.
    pub access: Access,
    /// The host; `None`: any.
    pub host: Option<String>,
    /// The job's number on its host.
    pub job: Option<u64>,
    /// The earliest submission.
    pub since_us: Option<u64>,
    /// The largest number of jobs, the last to end.
    pub limit: u32,
    /// Whether the reports include series.
    pub series: bool,
}

/// The requested reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The last reports, oldest first.
    pub reports: Vec<Reported>,
    /// Whether more reports match.
    pub more: bool,
    /// Whether requested series are left out to keep the answer short.
    pub long: bool,
}

/// A report with its user and host.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    /// Name of the job's host.
    pub host: String,
    /// The report, and the decisions.
    pub head: Head,
}

/// The most points of series in an answer, to stay below the 64 MiB that a client accepts. Longer series are thinned.
pub const POINTS_MAX: usize = 250_000;

/// Size of a point in an answer, in bytes, with its figures.
const POINT_BYTES: u64 = 256;

/// The most bytes of reports in an answer, without series, as hosts sent them.
const REPORTS_MAX_BYTES: u64 = 32 << 20;

/// The most parts of a job's series that an answer unpacks.
const PARTS_READ_MAX: u32 = 100;

/// The thinning of a series.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thinned {
    /// Each n-th part is read.
    pub(super) parts: u32,
    /// Each n-th point of a part is sent.
    pub(super) points: usize,
}

impl Thinned {
    /// The thinning of a series of this many parts in an answer of its own.
    fn alone(parts: u32) -> Self {
        let read = parts.div_ceil(PARTS_READ_MAX).max(1);
        let points = (parts.div_ceil(read) as usize * bundle::POINTS_A_PART).div_ceil(POINTS_MAX);
        Self { parts: read, points: points.max(1) }
    }
}

/// From this length of time on, a scan of all rows in order is faster than an index of ends.
const LONG_US: u64 = 8 * 86_400_000_000;

impl JobQuery {
    /// Whether the query covers so long a time that the table is scanned in order, without the index of ends.
    pub(super) fn is_long(&self) -> bool {
        let until_us = self.until_us.unwrap_or_else(super::now_us);
        let narrow =
            !self.ids.is_empty() || self.host.is_some() || self.user.is_some() || self.name.is_some();
        !narrow && self.since_us.is_none_or(|since_us| until_us.saturating_sub(since_us) > LONG_US)
    }

    /// Conditions on user, host, project and name within the viewer's access. Appends their values.
    pub(super) fn subjects(&self, dialect: Dialect, named: &str, values: &mut Vec<Value>) -> Vec<String> {
        let mut words = vec![self.access.condition(values).unwrap_or_else(|| "1 = 1".to_owned())];
        let mut add = |word: &dyn Fn(usize) -> String, value: Value| {
            values.push(value);
            words.push(word(values.len()));
        };
        if let Some(host) = &self.host {
            let of = |place| format!("jobs.host = (SELECT id FROM hosts WHERE name = ?{place})");
            add(&of, host.into());
        }
        for (column, value) in [("jobs.\"user\"", &self.user), ("jobs.project", &self.project)] {
            if let Some(value) = value {
                add(&|place| format!("{column} = ?{place}"), value.into());
            }
        }
        match &self.name {
            Some(name) if name.contains('*') => {
                add(&|place| dialect.fits(named, place), dialect.pattern(name).into());
            }
            Some(name) => add(&|place| format!("{named} = ?{place}"), name.into()),
            None => {}
        }
        words
    }

    /// The conditions and their values. `in_order`: the table is scanned in its order, without an index.
    pub(super) fn conditions(&self, dialect: Dialect, in_order: bool) -> (String, Vec<Value>) {
        let ended = if in_order { dialect.unindexed("jobs.ended_us") } else { "jobs.ended_us".to_owned() };
        let mut values: Vec<Value> = Vec::new();
        let mut words = self.subjects(dialect, "jobs.name", &mut values);
        if !self.ids.is_empty() {
            let ids: Vec<String> = self.ids.iter().map(i64::to_string).collect();
            words.push(format!("jobs.id IN ({})", ids.join(", ")));
        }
        let mut add = |word: &dyn Fn(usize) -> String, value: Value| {
            values.push(value);
            words.push(word(values.len()));
        };
        if let Some(since_us) = self.since_us {
            add(&|place| format!("{ended} >= ?{place}"), since_us.into());
        }
        if let Some(until_us) = self.until_us {
            add(&|place| format!("{ended} < ?{place}"), until_us.into());
        }
        for condition in &self.conditions {
            add(&|place| condition.sql(place), condition.value.into());
        }
        match self.ending {
            Some(Ending::Succeeded) => words.push(SUCCEEDED.to_owned()),
            Some(Ending::Failed) => words.push(FAILED.to_owned()),
            None => {}
        }
        (words.join(" AND "), values)
    }
}

impl ReportQuery {
    /// The SQL and its values.
    fn question(&self, limit: u32) -> (String, Vec<Value>) {
        let mut values: Vec<Value> = Vec::new();
        let mut words = vec![self.access.condition(&mut values).unwrap_or_else(|| "1 = 1".to_owned())];
        let asked: [(&str, Option<Value>); 3] = [
            ("hosts.name =", self.host.as_ref().map(Into::into)),
            ("jobs.job =", self.job.map(Into::into)),
            ("jobs.submitted_us >=", self.since_us.map(Into::into)),
        ];
        for (word, value) in asked {
            if let Some(value) = value {
                values.push(value);
                words.push(format!("{word} ?{}", values.len()));
            }
        }
        // An additional row shows whether more jobs follow.
        let text = format!(
            "SELECT jobs.id, hosts.name, month, parts, head FROM jobs JOIN hosts ON hosts.id = jobs.host \
             JOIN heads ON heads.job = jobs.id WHERE {} ORDER BY jobs.ended_us DESC, jobs.id DESC LIMIT {}",
            words.join(" AND "),
            limit + 1
        );
        (text, values)
    }
}

impl Store {
    /// A job in full; `None`: the job does not exist or the viewer may not see it.
    ///
    /// # Errors
    /// When the database refuses, or its data cannot be read.
    pub fn job(&self, id: i64, access: &Access) -> Result<Option<JobDetail>, StoreError> {
        let months = self.series_months()?;
        self.read("read a job", |connection| {
            let find = "SELECT hosts.name, received_us, month, parts, head, jobs.\"user\", project FROM jobs JOIN hosts ON \
                        hosts.id = jobs.host JOIN heads ON heads.job = jobs.id WHERE jobs.id = ?1";
            let found = connection.first(find, &values![id], |row| {
                let (host, user): (String, &str) = (row.get(0)?, row.get(5)?);
                let seen = access.allows(&host, user, row.get(6)?);
                let found = (host, row.get(1)?, row.get::<u32>(2)?, row.get::<u32>(3)?, row.get::<Vec<u8>>(4)?);
                Ok(seen.then_some(found))
            })?;
            let Some((host, received_us, month, parts, packed)) = found.flatten() else { return Ok(None) };
            let mut head = read_head(&packed)?.0;
            let thinned = Thinned::alone(parts);
            let (points, later) = points(connection, id, (month, &months), thinned)?;
            let one_of = thinned.parts as usize * thinned.points;
            head.report.series = points;
            Ok(Some(JobDetail { host, received_us, head, incomplete: later + 1 < parts, one_of }))
        })
    }

    /// Reports for the command line, oldest first.
    ///
    /// # Errors
    /// When the database refuses, or the time limit is reached.
    pub fn reports(&self, query: &ReportQuery) -> Result<Answered, StoreError> {
        let months = if query.series { self.series_months()? } else { Vec::new() };
        let limit = query.limit.min(TABLE_MAX);
        self.read("read reports", |connection| {
            let mut answered = Answered { reports: Vec::new(), more: false, long: false };
            let (text, values) = query.question(limit);
            let (mut bytes, mut where_series) = (0, Vec::new());
            connection.each(&text, &values, &mut |row| {
                if answered.reports.len() >= limit as usize {
                    answered.more = true;
                    return Ok(ControlFlow::Break(()));
                }
                let (head, length) = read_head(row.get(4)?)?;
                bytes += length;
                if !answered.reports.is_empty() && bytes > REPORTS_MAX_BYTES {
                    answered.long = true;
                    return Ok(ControlFlow::Break(()));
                }
                where_series.push((row.get::<i64>(0)?, row.get::<u32>(2)?, row.get::<u32>(3)?));
                answered.reports.push(Reported { host: row.get(1)?, head });
                Ok(ControlFlow::Continue(()))
            })?;
            let of_figures = usize::try_from(bytes / POINT_BYTES).unwrap_or(usize::MAX);
            let mut left = POINTS_MAX.saturating_sub(of_figures);
            for (at, (id, month, parts)) in where_series.into_iter().enumerate().filter(|_| query.series) {
                let (series, _) = points(connection, id, (month, &months[..]), Thinned::alone(parts))?;
                let length = series.as_ref().map_or(0, Vec::len);
                if at > 0 && length > left {
                    answered.long = true;
                    answered.reports.truncate(at);
                    break;
                }
                left = left.saturating_sub(length);
                answered.reports[at].head.report.series = series;
            }
            answered.reports.reverse();
            Ok(answered)
        })
    }

    /// All hosts, by name.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn hosts(&self) -> Result<Vec<HostRow>, StoreError> {
        self.read("list hosts", |connection| {
            connection.all(&format!("{OF_HOSTS} ORDER BY name"), &[], read_host)
        })
    }

    /// The host of this name; `None`: no such host. Other hosts' statuses are not read.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn host(&self, name: &str) -> Result<Option<HostRow>, StoreError> {
        self.first("look for a host", &format!("{OF_HOSTS} WHERE name = ?1"), &values![name], read_host)
    }

    /// Whether a host of this name exists.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn has_host(&self, name: &str) -> Result<bool, StoreError> {
        let find = "SELECT 1 FROM hosts WHERE name = ?1";
        Ok(self.first("look for a host", find, &values![name], |_| Ok(()))?.is_some())
    }

    /// Time of the last stored message of any host, by the clock of the hub that heard it, in microseconds since the
    /// Unix epoch.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn told_us(&self) -> Result<Option<u64>, StoreError> {
        self.first("look when a host was heard", "SELECT max(seen_us) FROM hosts", &[], |row| row.get(0))
            .map(Option::flatten)
    }

    /// Number of jobs and sum of their CPU time, for tests.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn totals(&self) -> Result<(u64, f64), StoreError> {
        self.read("count jobs", |connection| {
            let count = "SELECT count(*), coalesce(sum(cpu_s), 0.0) FROM jobs";
            let totals = connection.first(count, &[], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(totals.unwrap_or_default())
        })
    }
}

/// The columns for [`read_host`].
const OF_HOSTS: &str = "SELECT id, name, seen_us, clock_ahead_us, live FROM hosts";

fn read_host(row: &Row) -> Result<HostRow, DbError> {
    let live: Option<&[u8]> = row.get(4)?;
    Ok(HostRow {
        id: row.get(0)?,
        name: row.get(1)?,
        seen_us: row.get(2)?,
        clock_ahead_us: row.get(3)?,
        // A status of another version is dropped; the next status replaces it within seconds.
        live: live.and_then(|packed| bundle::read_live(packed).ok()),
    })
}

/// Unpacks figures, and returns their unpacked length.
fn read_head(packed: &[u8]) -> Result<(Head, u64), DbError> {
    bundle::unpack_measured(packed, bundle::PLAIN_MAX_BYTES).map_err(damaged)
}

fn damaged(error: bundle::DecodeError) -> DbError {
    DbError::Unread(error.into())
}

/// A job's thinned points, and the number of its later parts. `None`: past their retention.
pub(super) fn points(
    connection: &mut dyn Connection,
    id: i64,
    (month, months): (u32, &[u32]),
    thinned: Thinned,
) -> Result<(Option<Vec<PointView>>, u32), DbError> {
    let count = "SELECT count(*) FROM later_parts WHERE job = ?1";
    let later: u32 = connection.first(count, &values![id], |row| row.get(0))?.unwrap_or(0);
    let mut found: Vec<(u32, Vec<u8>)> = Vec::new();
    // Parts that came after the turn of a month are in the next month's table.
    for &month in months.iter().filter(|&&of| of == month || (later > 0 && of > month)) {
        let read =
            format!("SELECT part, points FROM {} WHERE job = ?1 AND part % ?2 = 0", series_table(month));
        found.extend(
            connection.all(&read, &values![id, thinned.parts], |row| Ok((row.get(0)?, row.get(1)?)))?,
        );
    }
    if found.is_empty() {
        return Ok((None, later));
    }
    found.sort_by_key(|part| part.0);
    let mut points = Vec::new();
    for (_, packed) in found {
        let columns: Columns = bundle::unpack(&packed, bundle::PLAIN_MAX_BYTES).map_err(damaged)?;
        points.extend(columns.points().into_iter().step_by(thinned.points));
    }
    Ok((Some(points), later))
}
