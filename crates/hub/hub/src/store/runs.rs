//! Runs of workflows: sums that are kept as jobs come in, and the jobs of a run or of the last few. A run belongs to a
//! user, so that other users' jobs cannot enter it by its name. Absent here: conclusions ([`crate::workflow`]).

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use pinfold_hubwire::bundle::{self, Head};

use super::days::Fact;
use super::db::{Connection, DbError, Row, Value, values};
use super::failed::failure;
use super::query::JobQuery;
use super::take::insert;
use super::{Access, Store, StoreError};
use crate::workflow::Run;

/// The most runs of one list.
pub const RUNS_MAX: u32 = 1_000;

/// The most jobs read of a run, and of a run together with the runs before it.
pub const RUN_JOBS_MAX: u32 = 50_000;

/// Batch size of stored jobs while the sums are made.
const READ_AT_ONCE: u32 = 10_000;

/// The number of earlier runs that a run is compared with.
pub const EARLIER_MAX: u32 = 10;

/// A job's addition to its run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunFact {
    pub(super) workflow: String,
    pub(super) version: Option<String>,
    pub(super) run: String,
    pub(super) submitted_us: u64,
}

/// A run of a workflow, within the viewer's access.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// Name of the workflow.
    pub workflow: String,
    /// The version, if jobs name a version.
    pub version: Option<String>,
    /// Name of the run.
    pub run: String,
    /// The user.
    pub user: String,
    /// Number of hosts.
    pub hosts: u64,
    /// Number of jobs.
    pub jobs: u64,
    /// Number of failed jobs.
    pub failed: u64,
    /// The first submission, in microseconds since the Unix epoch.
    pub begun_us: u64,
    /// When the last was over.
    pub ended_us: u64,
    /// Allocated core hours.
    pub core_h: f64,
    /// CPU time, in hours.
    pub cpu_h: f64,
    /// Requested memory times time, in GiB times hours.
    pub claimed_gibh: f64,
    /// The unused part of the requested memory, in GiB times hours.
    pub unused_gibh: f64,
    /// Waiting time in hours.
    pub queued_h: f64,
}

impl RunRow {
    /// From the first request to the last end, in seconds.
    #[must_use]
    pub fn makespan_s(&self) -> f64 {
        pinfold_proto::view::seconds(self.ended_us.saturating_sub(self.begun_us))
    }
}

/// A job of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunJob {
    /// Number at the hub.
    pub id: i64,
    /// Name of the run.
    pub run: String,
    /// The workflow's step.
    pub step: String,
    /// Time of submission, in microseconds since the Unix epoch.
    pub submitted_us: u64,
    /// Time of the start; `None`: never.
    pub started_us: Option<u64>,
    /// Time of the end.
    pub ended_us: u64,
    /// Whether it exited with anything but code 0.
    pub failed: bool,
    /// From start to end, in seconds.
    pub wall_s: f64,
    /// Suspended part of the wall time.
    pub suspended_s: f64,
    /// CPU time, in seconds.
    pub cpu_s: f64,
    /// Allocated cores.
    pub cores: u64,
    /// The most memory, in bytes.
    pub peak_bytes: u64,
    /// Requested memory, in bytes.
    pub claim_bytes: Option<u64>,
    /// Memory requested and never used, in GiB times hours.
    pub unused_gibh: f64,
}

/// The key of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunKey {
    /// Name of the workflow.
    pub workflow: String,
    /// The user.
    pub user: String,
    /// Name of the run.
    pub run: String,
}

/// A run, the runs before it, and their jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDetail {
    /// The run's sums.
    pub run: RunRow,
    /// Runs of the same workflow and user that began earlier, the last first.
    pub earlier: Vec<RunRow>,
    /// The run's jobs.
    pub jobs: Vec<RunJob>,
    /// Jobs of the earlier runs.
    pub earlier_jobs: Vec<RunJob>,
    /// Whether there are more than are read.
    pub cut: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    workflow: String,
    user: String,
    run: String,
    host: i64,
    project: String,
    month: u32,
}

#[derive(Debug, Clone, Default)]
struct Sums {
    version: Option<String>,
    begun_us: u64,
    ended_us: u64,
    jobs: i64,
    failed: i64,
    core_s: f64,
    cpu_s: f64,
    claimed_gibh: f64,
    unused_gibh: f64,
    queued_s: f64,
}

/// Additions of new jobs to runs.
#[derive(Debug, Default)]
pub(super) struct Added(BTreeMap<Key, Sums>);

impl Added {
    pub(super) fn add(&mut self, fact: &Fact) {
        let Some(of) = &fact.run else { return };
        let key = Key {
            workflow: of.workflow.clone(),
            user: fact.user.replace('\0', "\u{fffd}"),
            run: of.run.clone(),
            host: fact.host,
            project: fact.project.as_deref().unwrap_or_default().replace('\0', "\u{fffd}"),
            month: fact.month,
        };
        let sums = self.0.entry(key).or_insert_with(|| Sums { begun_us: u64::MAX, ..Sums::default() });
        sums.version = of.version.clone().or(sums.version.take());
        sums.begun_us = sums.begun_us.min(of.submitted_us);
        sums.ended_us = sums.ended_us.max(fact.ended_us);
        sums.jobs += 1;
        sums.failed += i64::from(fact.failed);
        sums.core_s += fact.core_s();
        sums.cpu_s += fact.cpu_s;
        sums.claimed_gibh += fact.claimed_gibh();
        sums.unused_gibh += fact.unused_gibh;
        sums.queued_s += fact.queued_s;
    }

    pub(super) fn write(&self, connection: &mut dyn Connection) -> Result<(), DbError> {
        let rows: Vec<[Value; 16]> = self.0.iter().map(|(key, sums)| row(key, sums)).collect();
        let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
        insert(connection, ("runs", COLUMNS, END), &rows, |_| Ok(()))
    }
}

/// Makes the sums of runs of stored jobs. Only a job's figures have the version.
pub(super) fn fill(connection: &mut dyn Connection) -> Result<(), DbError> {
    let text = format!(
        "SELECT {}, submitted_us, workflow, run, head FROM jobs {} JOIN heads ON heads.job = jobs.id \
         WHERE id > ?1 AND run IS NOT NULL ORDER BY id LIMIT {READ_AT_ONCE}",
        Fact::COLUMNS,
        connection.dialect().by_index(None)
    );
    let mut last = i64::MIN;
    loop {
        let (mut added, before) = (Added::default(), last);
        connection.each(&text, &values![last], &mut |row| {
            let (id, mut fact) = Fact::read(row)?;
            let head: Head = bundle::unpack(row.get(21)?, bundle::PLAIN_MAX_BYTES)
                .map_err(|error| DbError::Unread(error.into()))?;
            fact.run = Some(RunFact {
                submitted_us: row.get(18)?,
                workflow: row.get(19)?,
                run: row.get(20)?,
                version: Run::of(&head.report).and_then(|run| run.version),
            });
            added.add(&fact);
            last = id;
            Ok(ControlFlow::Continue(()))
        })?;
        if last == before {
            return Ok(());
        }
        added.write(connection)?;
    }
}

const COLUMNS: &str = "workflow, \"user\", run, host, project, month, version, begun_us, ended_us, jobs, failed, core_s, \
                       cpu_s, claimed_gibh, unused_gibh, queued_s";

const END: &str = "ON CONFLICT (workflow, \"user\", run, host, project, month) DO UPDATE SET \
    version = coalesce(excluded.version, runs.version), \
    begun_us = CASE WHEN excluded.begun_us < runs.begun_us THEN excluded.begun_us ELSE runs.begun_us END, \
    ended_us = CASE WHEN excluded.ended_us > runs.ended_us THEN excluded.ended_us ELSE runs.ended_us END, \
    jobs = runs.jobs + excluded.jobs, failed = runs.failed + excluded.failed, core_s = runs.core_s + excluded.core_s, \
    cpu_s = runs.cpu_s + excluded.cpu_s, claimed_gibh = runs.claimed_gibh + excluded.claimed_gibh, \
    unused_gibh = runs.unused_gibh + excluded.unused_gibh, queued_s = runs.queued_s + excluded.queued_s";

fn row(key: &Key, sums: &Sums) -> [Value; 16] {
    values![
        &key.workflow,
        &key.user,
        &key.run,
        key.host,
        &key.project,
        key.month,
        sums.version.clone(),
        sums.begun_us,
        sums.ended_us,
        sums.jobs,
        sums.failed,
        sums.core_s,
        sums.cpu_s,
        sums.claimed_gibh,
        sums.unused_gibh,
        sums.queued_s,
    ]
}

/// The key columns of a run.
const OF_RUN: &str = "jobs.workflow, jobs.\"user\", jobs.run";

/// The columns for [`read_run`].
const SUMMED: &str = "jobs.workflow, jobs.\"user\", jobs.run, max(jobs.version), count(DISTINCT jobs.host), \
    CAST(sum(jobs.jobs) AS BIGINT), CAST(sum(jobs.failed) AS BIGINT), min(jobs.begun_us), max(jobs.ended_us), \
    sum(jobs.core_s) / 3600.0, sum(jobs.cpu_s) / 3600.0, sum(jobs.claimed_gibh), sum(jobs.unused_gibh), \
    sum(jobs.queued_s) / 3600.0";

fn read_run(row: &Row) -> Result<RunRow, DbError> {
    Ok(RunRow {
        workflow: row.get(0)?,
        user: row.get(1)?,
        run: row.get(2)?,
        version: row.get(3)?,
        hosts: row.get(4)?,
        jobs: row.get(5)?,
        failed: row.get(6)?,
        begun_us: row.get(7)?,
        ended_us: row.get(8)?,
        core_h: row.get(9)?,
        cpu_h: row.get(10)?,
        claimed_gibh: row.get(11)?,
        unused_gibh: row.get(12)?,
        queued_h: row.get(13)?,
    })
}

const OF_JOBS: &str = concat!(
    "jobs.id, jobs.run, jobs.step, jobs.submitted_us, jobs.started_us, jobs.ended_us, ",
    failure!(),
    ", coalesce(wall_s, 0.0), suspended_s, cpu_s, cores, memory_peak_bytes, claim_bytes, unused_gibh"
);

fn read_job(row: &Row) -> Result<RunJob, DbError> {
    Ok(RunJob {
        id: row.get(0)?,
        run: row.get(1)?,
        step: row.get::<Option<String>>(2)?.unwrap_or_default(),
        submitted_us: row.get(3)?,
        started_us: row.get(4)?,
        ended_us: row.get(5)?,
        failed: row.get::<i64>(6)? != 0,
        wall_s: row.get(7)?,
        suspended_s: row.get(8)?,
        cpu_s: row.get(9)?,
        cores: row.get(10)?,
        peak_bytes: row.get(11)?,
        claim_bytes: row.get(12)?,
        unused_gibh: row.get(13)?,
    })
}

impl Store {
    /// Runs of workflows that ended within the time, the last first; at most [`RUNS_MAX`]. Applied fields of the query:
    /// access, host, user, project, the name as the workflow's, and the start time.
    ///
    /// # Errors
    /// When the database refuses, or the time limit is reached.
    pub fn runs(&self, query: &JobQuery) -> Result<Vec<RunRow>, StoreError> {
        self.read("list runs of workflows", |connection| {
            let mut values = Vec::new();
            let of = query.subjects(connection.dialect(), "jobs.workflow", &mut values).join(" AND ");
            // A run has rows by host, project and month: if any row is within the time, all rows are summed.
            let mut since = String::new();
            if let Some(since_us) = query.since_us {
                values.push(since_us.into());
                since = format!(
                    "AND ({OF_RUN}) IN (SELECT {OF_RUN} FROM runs AS jobs WHERE {of} AND jobs.ended_us >= ?{})",
                    values.len()
                );
            }
            let mut until = String::new();
            if let Some(until_us) = query.until_us {
                values.push(until_us.into());
                until = format!("HAVING max(jobs.ended_us) < ?{}", values.len());
            }
            let limit = query.limit.clamp(1, RUNS_MAX);
            let text = format!(
                "SELECT {SUMMED} FROM runs AS jobs WHERE {of} {since} GROUP BY {OF_RUN} {until} \
                 ORDER BY max(jobs.ended_us) DESC, jobs.workflow, jobs.run LIMIT {limit}"
            );
            connection.all(&text, &values, read_run)
        })
    }

    /// A run with its jobs and the runs before it; `None`: no such run, or the viewer may not see it.
    ///
    /// # Errors
    /// When the database refuses, or the time limit is reached.
    pub fn run(&self, key: &RunKey, access: &Access) -> Result<Option<RunDetail>, StoreError> {
        self.read("read a run of a workflow", |connection| {
            let mut values: Vec<Value> = vec![(&key.workflow).into(), (&key.user).into(), (&key.run).into()];
            let seen = access.condition(&mut values).unwrap_or_else(|| "1 = 1".to_owned());
            let of_user = format!("jobs.workflow = ?1 AND jobs.\"user\" = ?2 AND {seen}");
            let group = format!("GROUP BY {OF_RUN}");
            let find = format!("SELECT {SUMMED} FROM runs AS jobs WHERE {of_user} AND jobs.run = ?3 {group}");
            let Some(run) = connection.first(&find, &values, read_run)? else { return Ok(None) };
            let place = values.len() + 1;
            values.push(run.begun_us.into());
            let find = format!(
                "SELECT {SUMMED} FROM runs AS jobs WHERE {of_user} AND jobs.run <> ?3 {group} \
                 HAVING min(jobs.begun_us) < ?{place} ORDER BY min(jobs.begun_us) DESC LIMIT {EARLIER_MAX}"
            );
            let earlier = connection.all(&find, &values, read_run)?;
            values.pop();
            let (jobs, more) = jobs_of(connection, &of_user, &values, 3)?;
            let (mut earlier_jobs, mut cut) = (Vec::new(), more);
            for one in &earlier {
                if earlier_jobs.len() >= RUN_JOBS_MAX as usize {
                    cut = true;
                    break;
                }
                values[2] = (&one.run).into();
                let (jobs, more) = jobs_of(connection, &of_user, &values, 3)?;
                earlier_jobs.extend(jobs);
                cut |= more;
            }
            Ok(Some(RunDetail { run, earlier, jobs, earlier_jobs, cut }))
        })
    }
}

/// The jobs of a run by their ends, and whether the run has more jobs than the bound.
fn jobs_of(
    connection: &mut dyn Connection,
    of_user: &str,
    values: &[Value],
    place: usize,
) -> Result<(Vec<RunJob>, bool), DbError> {
    let find = format!(
        "SELECT {OF_JOBS} FROM jobs WHERE {of_user} AND jobs.run = ?{place} ORDER BY jobs.ended_us, jobs.id LIMIT {}",
        RUN_JOBS_MAX + 1
    );
    let mut jobs = connection.all(&find, values, read_job)?;
    let more = jobs.len() > RUN_JOBS_MAX as usize;
    jobs.truncate(RUN_JOBS_MAX as usize);
    Ok((jobs, more))
}
