//! Sums over jobs, kept in the transaction that adds the jobs: by day, name, user, project, host and outcome, and once
//! more for all hosts together. They make classes and usage over months a matter of milliseconds at any number of jobs.
//! A job that comes again does not count twice. Absent here: queries of them ([`super::summary`]).

use std::collections::BTreeMap;

use super::db::{Connection, DbError, Row, Value, values};
use super::failed::failure;
use super::runs::{self, RunFact};
use super::sketch::Spreads;
use super::take::insert;
use super::{Store, StoreError, tops};

/// A day, in microseconds.
pub const DAY_US: u64 = 86_400_000_000;

/// The host number of sums over all hosts.
pub(super) const ALL_HOSTS: i64 = 0;

/// Batch size of stored jobs while the sums are made.
const READ_AT_ONCE: u32 = 100_000;

/// A job's addition to the sums.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fact {
    pub(super) host: i64,
    pub(super) month: u32,
    pub(super) ended_us: u64,
    pub(super) name: String,
    pub(super) user: String,
    pub(super) project: Option<String>,
    pub(super) failed: bool,
    pub(super) ran: bool,
    pub(super) cores: f64,
    pub(super) wall_s: f64,
    pub(super) suspended_s: f64,
    pub(super) queued_s: f64,
    pub(super) cpu_s: f64,
    pub(super) peak_bytes: f64,
    pub(super) claim_bytes: Option<f64>,
    pub(super) idle_core_h: f64,
    pub(super) unused_gibh: f64,
    pub(super) run: Option<RunFact>,
}

impl Fact {
    /// Allocated cores times the time not suspended, in seconds.
    pub(super) fn core_s(&self) -> f64 {
        self.cores * (self.wall_s - self.suspended_s).max(0.0)
    }

    /// Requested memory times wall time, in GiB times hours.
    pub(super) fn claimed_gibh(&self) -> f64 {
        self.claim_bytes.unwrap_or(0.0) / 1_073_741_824.0 * self.wall_s / 3_600.0
    }

    /// The columns for [`read`](Self::read).
    pub(super) const COLUMNS: &'static str = concat!(
        "id, host, month, ended_us, name, \"user\", project, ",
        failure!(),
        ", CASE WHEN started_us IS NULL THEN 0 ELSE 1 END, cores, coalesce(wall_s, 0.0), suspended_s, queued_s, cpu_s, \
         memory_peak_bytes, claim_bytes, idle_core_h, unused_gibh"
    );

    /// Reads the fact of a stored job, and its number.
    pub(super) fn read(row: &Row) -> Result<(i64, Self), DbError> {
        let fact = Self {
            host: row.get(1)?,
            month: row.get(2)?,
            ended_us: row.get(3)?,
            name: row.get(4)?,
            user: row.get(5)?,
            project: row.get(6)?,
            failed: row.get::<i64>(7)? != 0,
            ran: row.get::<i64>(8)? != 0,
            cores: row.get(9)?,
            wall_s: row.get(10)?,
            suspended_s: row.get(11)?,
            queued_s: row.get(12)?,
            cpu_s: row.get(13)?,
            peak_bytes: row.get(14)?,
            claim_bytes: row.get(15)?,
            idle_core_h: row.get(16)?,
            unused_gibh: row.get(17)?,
            run: None,
        };
        Ok((row.get(0)?, fact))
    }
}

/// The key of a row. Hubs write shared rows in key order, so that they cannot deadlock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    host: i64,
    day: i64,
    name: String,
    user: String,
    project: String,
    failed: bool,
    month: u32,
}

#[derive(Debug, Clone, Default)]
struct Sums {
    jobs: i64,
    ran: i64,
    cpu_s: f64,
    core_s: f64,
    idle_core_h: f64,
    claimed_gibh: f64,
    unused_gibh: f64,
    suspended_s: f64,
    queued_s: f64,
    spreads: Spreads,
}

impl Sums {
    fn add(&mut self, fact: &Fact) {
        self.jobs += 1;
        self.cpu_s += fact.cpu_s;
        self.core_s += fact.core_s();
        self.idle_core_h += fact.idle_core_h;
        self.claimed_gibh += fact.claimed_gibh();
        self.unused_gibh += fact.unused_gibh;
        self.suspended_s += fact.suspended_s;
        self.queued_s += fact.queued_s;
        if fact.ran {
            self.ran += 1;
            self.spreads.hosts.add(fact.host);
            self.spreads.wall_ms.add(fact.wall_s * 1e3);
            self.spreads.peak_bytes.add(fact.peak_bytes);
            fact.claim_bytes.into_iter().for_each(|claim| self.spreads.claim_bytes.add(claim));
        }
    }
}

/// Additions of new jobs.
#[derive(Debug, Default)]
pub(super) struct Added {
    days: BTreeMap<Key, Sums>,
    runs: runs::Added,
}

/// As a database returns it: PostgreSQL stores no NUL.
fn kept(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

impl Added {
    pub(super) fn add(&mut self, fact: &Fact) {
        for host in [ALL_HOSTS, fact.host] {
            let key = Key {
                host,
                day: i64::try_from(fact.ended_us / DAY_US).unwrap_or(i64::MAX),
                name: kept(&fact.name),
                user: kept(&fact.user),
                project: fact.project.as_deref().map(kept).unwrap_or_default(),
                failed: fact.failed,
                month: fact.month,
            };
            self.days.entry(key).or_default().add(fact);
        }
        self.runs.add(fact);
    }

    /// Merges the additions into the stored sums.
    pub(super) fn write(self, connection: &mut dyn Connection) -> Result<(), DbError> {
        self.runs.write(connection)?;
        let rows: Vec<[Value; 16]> = self.days.iter().map(|(key, sums)| row(key, sums)).collect();
        let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
        let (mut new, mut old) = (Vec::new(), Vec::new());
        insert(connection, ("days", COLUMNS, &on_conflict()), &rows, |row| {
            let key = Key {
                host: row.get(2)?,
                day: row.get(3)?,
                name: row.get(4)?,
                user: row.get(5)?,
                project: row.get(6)?,
                failed: row.get::<i64>(7)? != 0,
                month: row.get(8)?,
            };
            let (id, jobs): (i64, i64) = (row.get(0)?, row.get(1)?);
            let sums = self.days.get(&key).ok_or_else(damaged)?;
            // No row exists without a job, so that a row with only new jobs is new.
            let rows = if jobs == sums.jobs { &mut new } else { &mut old };
            rows.push((id, sums.spreads.clone()));
            Ok(())
        })?;
        with_former(connection, &mut old)?;
        let packed: Vec<[Value; 2]> =
            new.iter().chain(&old).map(|(id, spreads)| values![*id, spreads.packed()]).collect();
        let packed: Vec<&[Value]> = packed.iter().map(|row| &row[..]).collect();
        let end = "ON CONFLICT (day) DO UPDATE SET packed = excluded.packed";
        insert(connection, ("spreads", "day, packed", end), &packed, |_| Ok(()))
    }
}

const KEYS: &str = "host, day, name, \"user\", project, failed, month";

const SUMS: [&str; 9] = [
    "jobs",
    "ran",
    "cpu_s",
    "core_s",
    "idle_core_h",
    "claimed_gibh",
    "unused_gibh",
    "suspended_s",
    "queued_s",
];

const COLUMNS: &str = "host, day, name, \"user\", project, failed, month, jobs, ran, cpu_s, core_s, idle_core_h, \
                       claimed_gibh, unused_gibh, suspended_s, queued_s";

fn on_conflict() -> String {
    let set: Vec<String> = SUMS.iter().map(|sum| format!("{sum} = days.{sum} + excluded.{sum}")).collect();
    format!("ON CONFLICT ({KEYS}) DO UPDATE SET {} RETURNING id, jobs, {KEYS}", set.join(", "))
}

fn row(key: &Key, sums: &Sums) -> [Value; 16] {
    values![
        key.host,
        key.day,
        &key.name,
        &key.user,
        &key.project,
        i64::from(key.failed),
        key.month,
        sums.jobs,
        sums.ran,
        sums.cpu_s,
        sums.core_s,
        sums.idle_core_h,
        sums.claimed_gibh,
        sums.unused_gibh,
        sums.suspended_s,
        sums.queued_s,
    ]
}

/// Merges the stored spreads, which this transaction has locked, into new spreads.
fn with_former(connection: &mut dyn Connection, rows: &mut [(i64, Spreads)]) -> Result<(), DbError> {
    let mut former: BTreeMap<i64, Spreads> = BTreeMap::new();
    let mut rest: &[(i64, Spreads)] = rows;
    for count in super::take::ROWS {
        while rest.len() >= count {
            let (now, later) = rest.split_at(count);
            let places: Vec<String> = (1..=count).map(|place| format!("?{place}")).collect();
            let ids: Vec<Value> = now.iter().map(|(id, _)| Value::Whole(*id)).collect();
            let find = format!("SELECT day, packed FROM spreads WHERE day IN ({})", places.join(", "));
            for (id, spreads) in
                connection.all(&find, &ids, |row| Ok((row.get(0)?, Spreads::unpack(row.get(1)?))))?
            {
                former.insert(id, spreads.ok_or_else(damaged)?);
            }
            rest = later;
        }
    }
    rows.iter_mut().for_each(|(id, spreads)| {
        if let Some(before) = former.get(id) {
            spreads.merge(before);
        }
    });
    Ok(())
}

pub(super) fn damaged() -> DbError {
    DbError::Unread("how figures are spread, in the table `spreads`".into())
}

impl Store {
    /// Rebuilds the sums by day and by run and the lists by figures, after manual changes or removals of jobs. Hosts
    /// wait meanwhile.
    ///
    /// # Errors
    /// When the database refuses: then the sums are as before.
    pub fn sum_anew(&self) -> Result<(), StoreError> {
        self.write("make the sums anew", |connection| {
            // A concurrent write of jobs would count in its own sums and in these sums.
            connection.dialect().keeping_jobs(connection)?;
            for table in ["spreads", "days", "runs", "tops", "top_days"] {
                connection.batch(&format!("DELETE FROM {table}"))?;
            }
            fill(connection)?;
            runs::fill(connection)?;
            tops::fill(connection)
        })
    }
}

/// Makes the sums of stored jobs.
pub(super) fn fill(connection: &mut dyn Connection) -> Result<(), DbError> {
    let text = format!("SELECT {} FROM jobs WHERE id > ?1 ORDER BY id LIMIT {READ_AT_ONCE}", Fact::COLUMNS);
    let mut last = i64::MIN;
    loop {
        let (mut added, before) = (Added::default(), last);
        connection.each(&text, &values![last], &mut |row| {
            let (id, fact) = Fact::read(row)?;
            added.add(&fact);
            last = id;
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        if last == before {
            return Ok(());
        }
        added.write(connection)?;
    }
}
