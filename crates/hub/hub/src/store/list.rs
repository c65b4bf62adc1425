//! Lists of jobs: first the rows, and then their columns. Few jobs are read by an index and sorted. Of many jobs, the
//! first by end, name, user, project or host come in the order of an index, and the first by a figure from top lists
//! ([`super::tops`]). Only if neither reaches far enough are all rows read. The way changes no answer.

mod conditions;
mod numbers;

use std::collections::HashMap;
use std::ops::ControlFlow;

pub(super) use self::numbers::each_of;
use self::numbers::{LOOKED_FOR, rows, words_of};
use super::columns::Column;
use super::days::DAY_US;
use super::db::{Connection, DbError, Dialect, Value};
use super::failed::FAILED;
use super::query::{Ending, JobPage, JobQuery, OFFSET_MAX, PAGE_MAX, TABLE_MAX};
use super::tops::{self, Which};
use super::{Access, Store, StoreError};

/// The most jobs that are read singly: some 50 ms.
pub const READ_MAX: u32 = 30_000;

/// Rows read in the order of ends before other ways are tried.
const WALKED_MAX: u32 = 30_000;

/// Batch sizes, for databases that read all rows of a query before they send the first.
const WALKED_AT_ONCE: [u32; 3] = [1_024, 8_192, WALKED_MAX];

/// The way a list was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The few requested jobs were all read and sorted.
    Few,
    /// In the order of an index.
    Ordered,
    /// From top lists.
    Tops,
    /// All rows of the time were read.
    All,
}

impl Store {
    /// A page of jobs.
    ///
    /// # Errors
    /// When the database refuses, or it takes too long.
    pub fn jobs(&self, query: &JobQuery) -> Result<JobPage, StoreError> {
        Ok(self.jobs_within(query, READ_MAX)?.0)
    }

    /// [`Self::jobs`] with a bound on jobs read singly, and the way taken.
    ///
    /// # Errors
    /// As [`Self::jobs`].
    pub fn jobs_within(&self, query: &JobQuery, read_max: u32) -> Result<(JobPage, Way), StoreError> {
        let limit = query.limit.clamp(1, TABLE_MAX);
        self.read("list jobs", |connection| {
            // An additional row shows whether more jobs follow.
            let asked = Asked { query, limit: limit + 1, offset: query.offset.min(OFFSET_MAX), read_max };
            let (mut ids, way) = asked.ids(connection)?;
            let more = ids.len() > limit as usize;
            ids.truncate(limit as usize);
            Ok((JobPage { jobs: rows(connection, &ids)?, more }, way))
        })
    }
}

#[derive(Clone, Copy)]
struct Asked<'a> {
    query: &'a JobQuery,
    limit: u32,
    offset: u32,
    read_max: u32,
}

/// A condition with an index that orders its jobs by end: user, project, name, host, failure, or time of end.
struct Subject {
    index: &'static str,
    /// SQL with at most a single place, for the value.
    words: String,
    value: Option<Value>,
}

/// The index of all jobs, the index of failed jobs, and SQL with a place.
type Of = (&'static str, &'static str, &'static str);

const OF_USER: Of = ("jobs_user", "jobs_failed_user", "jobs.\"user\" = ?1");
const OF_NAME: Of = ("jobs_name", "jobs_failed_name", "jobs.name = ?1");
const OF_PROJECT: Of = ("jobs_project", "jobs_failed_project", "jobs.project = ?1");
const OF_HOST: Of = ("jobs_host", "jobs_failed_host", "jobs.host = (SELECT id FROM hosts WHERE name = ?1)");

impl JobQuery {
    /// The query's conditions that have an index.
    fn indexed(&self) -> Vec<Subject> {
        let failed = self.ending == Some(Ending::Failed);
        let name = self.name.as_ref().filter(|name| !name.contains('*'));
        let mut of = vec![
            (OF_USER, self.user.as_ref()),
            (OF_NAME, name),
            (OF_PROJECT, self.project.as_ref()),
            (OF_HOST, self.host.as_ref()),
        ];
        if let Access::Some(grants) = &self.access
            && let [grant] = &grants[..]
        {
            of.extend([
                (OF_USER, grant.user.as_ref()),
                (OF_PROJECT, grant.project.as_ref()),
                (OF_HOST, grant.host.as_ref()),
            ]);
        }
        let subject = |((all, of_failed, words), value): (Of, Option<&String>)| {
            let value = Some(value?.into());
            Some(if failed {
                Subject { index: of_failed, words: format!("{words} AND {FAILED}"), value }
            } else {
                Subject { index: all, words: words.to_owned(), value }
            })
        };
        let mut all: Vec<Subject> = of.into_iter().filter_map(subject).collect();
        if failed && all.is_empty() {
            all.push(Subject { index: "jobs_failed", words: FAILED.to_owned(), value: None });
        }
        all
    }

    /// Whether the query can drop a job that matches this subject and the time.
    fn is_picky(&self, subject: Option<&Subject>) -> bool {
        let of_it = self.indexed().len() - usize::from(subject.is_some());
        let patterned = self.name.as_ref().is_some_and(|name| name.contains('*'));
        let granted = match &self.access {
            Access::All => false,
            Access::Some(grants) => grants.len() != 1,
        };
        let ending = self.ending == Some(Ending::Succeeded);
        of_it > 0 || patterned || granted || !self.conditions.is_empty() || ending
    }
}

impl Asked<'_> {
    fn ids(self, connection: &mut dyn Connection) -> Result<(Vec<i64>, Way), DbError> {
        if !self.query.ids.is_empty() {
            return Ok((self.sorted(connection, Source::Numbers(&self.query.ids))?, Way::Few));
        }
        if let Some(index) = self.few(connection)? {
            return Ok((self.sorted(connection, Source::Index(index))?, Way::Few));
        }
        let found = match self.query.sort.map_or("jobs.ended_us", Column::sql) {
            "jobs.ended_us" => self.by_end(connection)?,
            "hosts.name" => self.by_host(connection)?,
            "jobs.name" => Some((self.sorted(connection, Source::Index("jobs_name"))?, Way::Ordered)),
            "jobs.\"user\"" => Some((self.sorted(connection, Source::Index("jobs_user"))?, Way::Ordered)),
            "jobs.project" => Some((self.sorted(connection, Source::Index("jobs_project"))?, Way::Ordered)),
            _ => self.by_figure(connection)?,
        };
        if let Some(found) = found {
            return Ok(found);
        }
        if let Some(found) = self.by_conditions(connection)? {
            return Ok(found);
        }
        Ok((self.sorted(connection, Source::Table)?, Way::All))
    }

    /// The bounds on ends as SQL; appends their values.
    fn time(self, values: &mut Vec<Value>) -> String {
        let mut words = String::new();
        for (sign, us) in [(">=", self.query.since_us), ("<", self.query.until_us)] {
            if let Some(us) = us {
                values.push(us.into());
                words.push_str(&format!(" AND jobs.ended_us {sign} ?{}", values.len()));
            }
        }
        words
    }

    /// An index that finds few jobs.
    fn few(self, connection: &mut dyn Connection) -> Result<Option<&'static str>, DbError> {
        let mut subjects = self.query.indexed();
        // Failed jobs are no more than all jobs of the time.
        if self.query.ending != Some(Ending::Failed) {
            subjects.push(Subject { index: "jobs_ended", words: "1 = 1".to_owned(), value: None });
        }
        for subject in subjects {
            let mut values: Vec<Value> = subject.value.into_iter().collect();
            let time = self.time(&mut values);
            let by = connection.dialect().by_index(Some(subject.index));
            let count = format!(
                "SELECT count(*) FROM (SELECT 1 FROM jobs {by} WHERE {}{time} LIMIT {}) AS few",
                subject.words,
                u64::from(self.read_max) + 1
            );
            let count: Option<i64> = connection.first(&count, &values, |row| row.get(0))?;
            if count.is_some_and(|count| count <= i64::from(self.read_max)) {
                return Ok(Some(subject.index));
            }
        }
        Ok(None)
    }

    /// The sort order: words tie by end, figures by arrival.
    fn order(self, dialect: Dialect) -> String {
        let sort = self.query.sort.map_or("jobs.ended_us", Column::sql);
        let by = |column: &str| dialect.order(column, self.query.ascending);
        match sort {
            "jobs.name" | "jobs.\"user\"" | "jobs.project" | "hosts.name" => {
                format!("ORDER BY {}, {}, {}", by(sort), by("jobs.ended_us"), by("jobs.id"))
            }
            _ => format!("ORDER BY {}, {}", by(sort), by("jobs.id")),
        }
    }

    /// The requested jobs in order, from all rows of the source.
    fn sorted(self, connection: &mut dyn Connection, source: Source<'_>) -> Result<Vec<i64>, DbError> {
        let dialect = connection.dialect();
        let (conditions, values) = self.query.conditions(dialect, matches!(source, Source::Table));
        let always = || "1 = 1".to_owned();
        let (from, words) = match source {
            Source::Index(index) => (format!("jobs {}", dialect.by_index(Some(index))), always()),
            Source::Numbers(ids) => dialect.numbered(&words_of(ids)),
            Source::Table => ("jobs".to_owned(), always()),
        };
        let hosts = match self.query.sort.map(Column::sql) {
            Some("hosts.name") => "JOIN hosts ON hosts.id = jobs.host",
            _ => "",
        };
        let text = format!(
            "SELECT jobs.id FROM {from} {hosts} WHERE {words} AND {conditions} {} LIMIT {} OFFSET {}",
            self.order(dialect),
            self.limit,
            self.offset
        );
        connection.all(&text, &values, |row| row.get(0))
    }

    fn page(self, mut ids: Vec<i64>) -> Vec<i64> {
        ids.drain(..ids.len().min(self.offset as usize));
        ids.truncate(self.limit as usize);
        ids
    }

    /// Number of rows from the first to the end of the page.
    const fn wanted(self) -> usize {
        self.offset as usize + self.limit as usize
    }

    /// Many jobs by end; `None`: other ways may be shorter.
    fn by_end(self, connection: &mut dyn Connection) -> Result<Option<(Vec<i64>, Way)>, DbError> {
        let subject = self.query.indexed().into_iter().next();
        let index = subject.as_ref().map_or("jobs_ended", |subject| subject.index);
        let failed = self.query.ending == Some(Ending::Failed);
        // PostgreSQL has statistics, and would read all of the first rows before it sends a row.
        let postgres = connection.dialect() == Dialect::Postgres;
        if postgres && let Some(found) = self.by_conditions(connection)? {
            return Ok(Some(found));
        }
        if postgres || failed || !self.query.is_picky(subject.as_ref()) {
            return Ok(Some((self.sorted(connection, Source::Index(index))?, Way::Ordered)));
        }
        let ids = self.walked(connection, index, subject)?;
        Ok((ids.len() >= self.wanted()).then(|| (self.page(ids), Way::Ordered)))
    }

    /// The requested jobs among this many first rows of an index, in its order.
    fn walked(
        self,
        connection: &mut dyn Connection,
        index: &'static str,
        subject: Option<Subject>,
    ) -> Result<Vec<i64>, DbError> {
        let (conditions, mut values) = self.query.conditions(connection.dialect(), true);
        let mut of_subject = "1 = 1".to_owned();
        if let Some(subject) = subject {
            values.extend(subject.value);
            of_subject = subject.words.replace("?1", &format!("?{}", values.len()));
        }
        let time = self.time(&mut values);
        let text = format!(
            "SELECT jobs.id, CASE WHEN {conditions} THEN 1 ELSE 0 END FROM jobs {} WHERE {of_subject}{time} {} LIMIT",
            connection.dialect().by_index(Some(index)),
            self.order(connection.dialect())
        );
        let portions = match connection.dialect() {
            Dialect::Sqlite => &[WALKED_MAX][..],
            Dialect::Postgres => &WALKED_AT_ONCE,
        };
        let mut ids = Vec::new();
        for &most in portions {
            let mut looked_at = 0;
            ids.clear();
            connection.each(&format!("{text} {most}"), &values, &mut |row| {
                looked_at += 1;
                if row.get::<i64>(1)? != 0 {
                    ids.push(row.get(0)?);
                }
                Ok(if ids.len() < self.wanted() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
            if ids.len() >= self.wanted() || looked_at < most {
                break;
            }
        }
        Ok(ids)
    }

    /// Jobs sorted by host, a host after the other.
    fn by_host(self, connection: &mut dyn Connection) -> Result<Option<(Vec<i64>, Way)>, DbError> {
        if self.query.host.is_some() {
            let query = JobQuery { sort: None, ..self.query.clone() };
            return Asked { query: &query, ..self }.by_end(connection);
        }
        let find = if self.query.ascending { "ASC" } else { "DESC" };
        let find = format!("SELECT name FROM hosts ORDER BY name {find}");
        let hosts: Vec<String> = connection.all(&find, &[], |row| row.get(0))?;
        let mut ids = Vec::new();
        for host in hosts {
            if ids.len() >= self.wanted() {
                break;
            }
            let query = JobQuery { host: Some(host), sort: None, ..self.query.clone() };
            #[expect(clippy::cast_possible_truncation, reason = "pages are bounded")]
            let limit = (self.wanted() - ids.len()) as u32;
            let of_it = Asked { query: &query, limit, offset: 0, ..self };
            ids.extend(of_it.sorted(connection, Source::Index("jobs_host"))?);
        }
        Ok(Some((self.page(ids), Way::Ordered)))
    }

    /// The days of the ends.
    fn days(self) -> (i64, i64) {
        let day = |us: u64| i64::try_from(us / DAY_US).unwrap_or(i64::MAX);
        let last = self.query.until_us.map_or(i64::MAX, |until_us| day(until_us.saturating_sub(1)));
        (day(self.query.since_us.unwrap_or(0)), last)
    }

    /// Many jobs by a figure; `None`: top lists do not reach far enough.
    fn by_figure(self, connection: &mut dyn Connection) -> Result<Option<(Vec<i64>, Way)>, DbError> {
        let which = self.query.sort.and_then(|column| Which::of(column, self.query.ascending));
        let Some(which) = which.filter(|_| self.limit <= PAGE_MAX + 1) else { return Ok(None) };
        let reached = tops::read(connection, which, self.days())?;
        let (mut ids, mut rest) = (Vec::new(), &reached.entries[..]);
        for size in LOOKED_FOR.into_iter().chain(std::iter::repeat(LOOKED_FOR[1])) {
            if rest.is_empty() || ids.len() >= self.wanted() {
                break;
            }
            let (now, later) = rest.split_at(rest.len().min(size));
            self.keep(connection, which, now, &mut ids)?;
            rest = later;
        }
        if ids.len() < self.wanted() {
            if reached.reach.is_some() {
                return Ok(None);
            }
            if !self.query.ascending {
                ids.extend(self.unlisted(connection, which, self.wanted() - ids.len())?);
            }
        }
        Ok(Some((self.page(ids), Way::Tops)))
    }

    /// Keeps the listed jobs that match the query and still have the listed value.
    fn keep(
        self,
        connection: &mut dyn Connection,
        which: Which,
        entries: &[tops::Entry],
        ids: &mut Vec<i64>,
    ) -> Result<(), DbError> {
        let dialect = connection.dialect();
        let (conditions, values) = self.query.conditions(dialect, true);
        let numbers: Vec<i64> = entries.iter().map(|entry| entry.job).collect();
        let text = |places: &str| {
            let (from, words) = dialect.numbered(places);
            format!("SELECT jobs.id, jobs.{} FROM {from} WHERE {words} AND {conditions}", which.column())
        };
        let mut found: HashMap<i64, Option<f64>> = HashMap::new();
        each_of(connection, &numbers, (&text, &values), &mut |row| {
            found.insert(row.get(0)?, which.listed(tops::number(row.value(1)?)));
            Ok(())
        })?;
        // Another job may have the number of a removed job.
        let is = |entry: &&tops::Entry| found.get(&entry.job) == Some(&Some(entry.value));
        ids.extend(entries.iter().filter(is).map(|entry| entry.job));
        Ok(())
    }

    /// Jobs that rank behind all lists.
    fn unlisted(
        self,
        connection: &mut dyn Connection,
        which: Which,
        limit: usize,
    ) -> Result<Vec<i64>, DbError> {
        let dialect = connection.dialect();
        let (conditions, values) = self.query.conditions(dialect, true);
        let text = format!(
            "SELECT jobs.id FROM jobs {} WHERE {conditions} AND {} ORDER BY jobs.id DESC LIMIT {limit}",
            dialect.by_index(None),
            which.unlisted()
        );
        connection.all(&text, &values, |row| row.get(0))
    }
}

/// Numbers of the last matching jobs, up to the bound: exact if few match an indexed condition, otherwise among its
/// last [`WALKED_MAX`] rows, so that every query takes a bounded time.
pub(super) fn latest(
    connection: &mut dyn Connection,
    query: &JobQuery,
    limit: u32,
) -> Result<Vec<i64>, DbError> {
    let asked = Asked { query, limit, offset: 0, read_max: READ_MAX };
    if let Some(index) = asked.few(connection)? {
        return asked.sorted(connection, Source::Index(index));
    }
    let subject = query.indexed().into_iter().next();
    let index = subject.as_ref().map_or("jobs_ended", |subject| subject.index);
    asked.walked(connection, index, subject)
}

/// The source of rows.
enum Source<'a> {
    Index(&'static str),
    Numbers(&'a [i64]),
    /// The whole table in its order.
    Table,
}
