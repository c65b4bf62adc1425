//! Many jobs in a database, put there by SQL because nobody waits for a hub to take them one by one; and how long the hub's
//! page and lists take over them.

use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, ensure};
use serde::Serialize;

use super::http::Connection;
use super::load::{Shape, packed_head};
use super::served::{Database, Hub, Sql};
use crate::compare::done;
use crate::stats::percentile;

/// Hosts of these jobs, beside those that push.
const HOSTS: u64 = 100;
/// The number of the first of them.
const FIRST_HOST: u64 = 1_000_001;
/// The jobs' ends are spread evenly over so many days up to now.
const DAYS: u64 = 90;
/// Rows of one statement.
const ROWS: u64 = 100_000;
/// One of so many has its figures as the page of one job shows them: lists do not read these.
const WITH_HEAD: u64 = 100;

/// Puts the rows there.
pub(super) fn fill(database: &Database<'_>, rows: u64, shape: Shape) -> anyhow::Result<()> {
    let mut sql = database.sql()?;
    let hosts: Vec<String> =
        (0..HOSTS).map(|host| format!("({}, 'full{host:03}', 1)", FIRST_HOST + host)).collect();
    sql.batch(&format!("INSERT INTO hosts (id, name, made_us) VALUES {}", hosts.join(", ")))?;
    if let Sql::Sqlite(connection) = &sql {
        connection.pragma_update(None, "cache_size", -512_000)?;
        connection.pragma_update(None, "synchronous", "off")?;
    }
    let now_s = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .context("the clock is before 1970")?
        .as_secs();
    let (year, month) = (1970 + now_s / 31_556_952, 1 + now_s % 31_556_952 / 2_629_746);
    for from in (1..=rows).step_by(usize::try_from(ROWS)?) {
        let to = rows.min(from + ROWS - 1);
        sql.batch(&format!(
            "INSERT INTO jobs (host, origin, job, submitted_us, started_us, ended_us, received_us, month, parts, name, \"user\", \
             project, class, priority, exit_code, signal, cores, queued_s, wall_s, suspended_s, cpu_s, cores_used, \
             memory_peak_bytes, memory_mean_bytes, swap_peak_bytes, claim_bytes, limit_bytes, io_read_bytes, \
             io_write_bytes, samples, unused_gibh, idle_core_h) \
             WITH RECURSIVE numbers(x) AS (SELECT CAST({from} AS BIGINT) UNION ALL SELECT x + 1 FROM numbers WHERE x < {to}), \
             drawn(x, h, e) AS (SELECT x, (x * 7919) % 1000003, 1000000 * CAST({now_s} - ({rows} - x) * {DAYS} * 86400 / {rows} AS BIGINT) \
             FROM numbers) \
             SELECT {FIRST_HOST} + x % {HOSTS}, 'full', x, e - 1000000 * (70 + h % 7200), e - 1000000 * (60 + h % 7200), e, e, \
             {}, 1, 'class-' || CAST(h % 200 AS TEXT), 'user-' || CAST(h % 50 AS TEXT), \
             CASE WHEN h % 3 = 0 THEN NULL ELSE 'project-' || CAST(h % 12 AS TEXT) END, 'primary', 10, \
             CASE WHEN h % 20 = 0 THEN 1 ELSE 0 END, NULL, 1 + h % 8, 10.0, 60 + h % 7200, 0.0, (60 + h % 7200) * 0.9, 0.9, \
             4096 * (h % 900007), 4096 * (h % 500009), 0, 8192 * (h % 900007), NULL, h * 1000, h * 300, 60, \
             (h % 900007) / 50000.0, 0.1 FROM drawn",
            year * 100 + month
        ))?;
        if to.is_multiple_of(1_000_000) {
            done(&format!("{}: {to} rows", database.name()));
        }
    }
    let head = database.bytes(&packed_head(shape)?);
    sql.batch(&format!(
        "INSERT INTO heads (job, head) SELECT id, {head} FROM jobs WHERE origin = 'full' AND job % {WITH_HEAD} = 0"
    ))?;
    match sql {
        // As its own housekeeping would within minutes.
        Sql::Postgres(mut client) => client.batch_execute("VACUUM ANALYZE").context("PostgreSQL"),
        Sql::Sqlite(connection) => {
            connection.execute_batch("PRAGMA wal_checkpoint(truncate)").context("SQLite")
        }
    }
}

/// What is asked: its name, its kind, and its address with places for a host, a user, a class and a job.
const ASKED: [(&str, &str); 27] = [
    ("hosts", "/"),
    ("jobs", "/jobs"),
    ("jobs, 90 days", "/jobs?days=90"),
    ("jobs, second page", "/jobs?days=90&page=1"),
    ("jobs of a host", "/jobs?days=90&host=HOST"),
    ("jobs of a user", "/jobs?days=90&user=USER"),
    ("jobs of a project", "/jobs?days=90&project=PROJECT"),
    ("jobs of a class", "/jobs?days=90&name=CLASS"),
    ("jobs that failed", "/jobs?days=90&end=failed"),
    ("jobs by memory peak", "/jobs?days=90&sort=memory_peak_bytes"),
    ("jobs by wall time", "/jobs?days=90&sort=wall_s&dir=up"),
    ("jobs by memory unused", "/jobs?days=90&sort=unused_gibh"),
    ("jobs by memory peak, 30 days", "/jobs?sort=memory_peak_bytes"),
    ("a user's jobs by memory peak", "/jobs?days=90&user=USER&sort=memory_peak_bytes"),
    ("a project's jobs by CPU time", "/jobs?days=90&project=PROJECT&sort=cpu_s"),
    ("a host's failed jobs by wall time", "/jobs?days=90&host=HOST&end=failed&sort=wall_s"),
    ("jobs by name", "/jobs?days=90&sort=name&dir=up"),
    ("jobs by swap peak, which none has", "/jobs?days=90&sort=swap_peak_bytes"),
    ("few jobs: above 3510 MiB", "/jobs?days=90&figures=memory_peak_bytes%3E3510MiB"),
    ("jobs above 3 GiB", "/jobs?days=90&figures=memory_peak_bytes%3E3GiB"),
    ("a job", "/jobs/JOB"),
    ("classes, a day", "/classes?days=1"),
    ("classes, 30 days", "/classes"),
    ("classes, 90 days", "/classes?days=90"),
    ("a class by week", "/classes/weeks?name=CLASS"),
    ("users, 30 days", "/users"),
    ("projects, 90 days", "/projects?days=90"),
];

/// How long answers took.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Asked {
    pub(super) database: String,
    pub(super) rows: u64,
    pub(super) what: String,
    pub(super) status: u16,
    pub(super) bytes: usize,
    /// The first one, until its first byte: milliseconds.
    pub(super) first_ms: f64,
    /// All of them.
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Asks each so many times.
pub(super) fn ask(
    (hub, database, program): (&Hub, &Database<'_>, &Path),
    (rows, times): (u64, u64),
) -> anyhow::Result<Vec<Asked>> {
    let cookie = hub.sign_in(program, database)?;
    let mut connection = Connection::new(&hub.address);
    let jobs = job_numbers(database)?;
    let mut all = Vec::new();
    for (what, address) in ASKED {
        let (mut waits_ms, mut last) = (Vec::new(), (0, 0));
        for time in 0..times {
            let job = jobs[usize::try_from(time * 7_919)? % jobs.len()];
            let path = address
                .replace("HOST", &format!("full{:03}", time * 37 % HOSTS))
                .replace("USER", &format!("user-{}", time * 17 % 50))
                .replace("PROJECT", &format!("project-{}", 1 + time % 2))
                .replace("CLASS", &format!("class-{}", time * 83 % 200))
                .replace("JOB", &job.to_string());
            let answer = connection.get(&path, &cookie)?;
            ensure!(matches!(answer.status, 200 | 503), "{path}: {}", answer.status);
            waits_ms.push(answer.first_s * 1e3);
            last = (answer.status, answer.body.len());
            // One that takes seconds is not asked a hundred times.
            if waits_ms.iter().sum::<f64>() > 20_000.0 {
                break;
            }
        }
        let asked = Asked {
            database: database.name().to_owned(),
            rows,
            what: what.to_owned(),
            status: last.0,
            bytes: last.1,
            first_ms: waits_ms[0],
            p50_ms: percentile(&waits_ms, 0.5).unwrap_or(0.0),
            p99_ms: percentile(&waits_ms, 0.99).unwrap_or(0.0),
        };
        done(&format!("{}: {what}: {:.1} ms, p99 {:.1} ms", asked.database, asked.p50_ms, asked.p99_ms));
        all.push(asked);
    }
    Ok(all)
}

/// Numbers of some jobs of which the page of one job has all.
fn job_numbers(database: &Database<'_>) -> anyhow::Result<Vec<i64>> {
    let find = "SELECT job FROM heads ORDER BY job LIMIT 1000";
    let numbers: Vec<i64> = match database.sql()? {
        Sql::Sqlite(connection) => {
            let mut statement = connection.prepare(find)?;
            statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?
        }
        Sql::Postgres(mut client) => client.query(find, &[])?.iter().map(|row| row.get(0)).collect(),
    };
    ensure!(!numbers.is_empty(), "there are no jobs");
    Ok(numbers)
}
