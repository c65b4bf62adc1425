//! The tables, and the migrations between their versions.

use super::db::{Connection, DbError, Dialect, values};
use super::{Stopped, StoreError};

/// Each migration takes the database from the previous version to its own, counted from 1.
const STEPS: &[&str] = &[
    "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE hosts (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    made_us INTEGER NOT NULL,
    seen_us INTEGER,
    boot TEXT,
    clock_ahead_us INTEGER,
    live BLOB
);
CREATE TABLE tokens (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('host', 'reader')),
    name TEXT NOT NULL,
    made_us INTEGER NOT NULL,
    revoked_us INTEGER
);
CREATE TABLE codes (hash BLOB PRIMARY KEY, name TEXT NOT NULL, expires_us INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (
    hash BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    csrf TEXT NOT NULL,
    expires_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    time_us INTEGER NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    host INTEGER NOT NULL REFERENCES hosts (id),
    origin TEXT NOT NULL,
    job INTEGER NOT NULL,
    submitted_us INTEGER NOT NULL,
    started_us INTEGER,
    ended_us INTEGER NOT NULL,
    received_us INTEGER NOT NULL,
    month INTEGER NOT NULL,
    parts INTEGER NOT NULL,
    name TEXT NOT NULL,
    \"user\" TEXT NOT NULL,
    project TEXT,
    class TEXT NOT NULL,
    priority INTEGER NOT NULL,
    exit_code INTEGER,
    signal INTEGER,
    cores INTEGER NOT NULL,
    queued_s REAL NOT NULL,
    wall_s REAL,
    suspended_s REAL NOT NULL,
    cpu_s REAL NOT NULL,
    cores_used REAL,
    memory_peak_bytes INTEGER NOT NULL,
    memory_mean_bytes INTEGER NOT NULL,
    swap_peak_bytes INTEGER NOT NULL,
    claim_bytes INTEGER,
    limit_bytes INTEGER,
    io_read_bytes INTEGER NOT NULL,
    io_write_bytes INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    unused_gibh REAL NOT NULL,
    idle_core_h REAL NOT NULL,
    UNIQUE (host, origin, job, submitted_us)
);
CREATE INDEX jobs_ended ON jobs (ended_us);
CREATE INDEX jobs_host ON jobs (host, ended_us);
CREATE INDEX jobs_user ON jobs (\"user\", ended_us);
CREATE INDEX jobs_name ON jobs (name, ended_us);
CREATE INDEX jobs_month ON jobs (month);
-- Apart from the figures, so that lists and sums over many jobs read little.
CREATE TABLE heads (job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE, head BLOB NOT NULL);
CREATE TABLE later_parts (
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    part INTEGER NOT NULL,
    PRIMARY KEY (job, part)
) WITHOUT ROWID;
",
    // The token behind a link and a session, so that both end with it; and an index to expire audit rows.
    r#"
ALTER TABLE codes ADD COLUMN via TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN via TEXT NOT NULL DEFAULT '';
CREATE INDEX audit_time ON audit (time_us);
-- What a link and a session may see, as JSON; what was made before was for the whole of it.
ALTER TABLE codes ADD COLUMN access TEXT NOT NULL DEFAULT '"all"';
ALTER TABLE sessions ADD COLUMN access TEXT NOT NULL DEFAULT '"all"';
-- With which the host's daemon signs whom it vouches for.
ALTER TABLE hosts ADD COLUMN key BLOB;
CREATE UNIQUE INDEX hosts_key ON hosts (key);
"#,
    // The host's core layout, sent once. A digest of each job's similarity key, and the peak that its host itself
    // measured.
    "
ALTER TABLE hosts ADD COLUMN topology BLOB;
ALTER TABLE jobs ADD COLUMN likeness BLOB;
ALTER TABLE jobs ADD COLUMN measured_bytes INTEGER;
",
    // Sums kept as jobs come in, so that months are read at once: by day for each host, and for all hosts together
    // (host 0); and by run of a workflow. An empty word means no project, as keys have no NULLs.
    "
ALTER TABLE jobs ADD COLUMN workflow TEXT;
ALTER TABLE jobs ADD COLUMN run TEXT;
ALTER TABLE jobs ADD COLUMN step TEXT;
CREATE INDEX jobs_run ON jobs (workflow, run) WHERE run IS NOT NULL;
CREATE TABLE days (
    id INTEGER PRIMARY KEY,
    host INTEGER NOT NULL,
    day INTEGER NOT NULL,
    name TEXT NOT NULL,
    \"user\" TEXT NOT NULL,
    project TEXT NOT NULL,
    failed INTEGER NOT NULL,
    month INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    ran INTEGER NOT NULL,
    cpu_s REAL NOT NULL,
    core_s REAL NOT NULL,
    idle_core_h REAL NOT NULL,
    claimed_gibh REAL NOT NULL,
    unused_gibh REAL NOT NULL,
    suspended_s REAL NOT NULL,
    queued_s REAL NOT NULL,
    UNIQUE (host, day, name, \"user\", project, failed, month)
);
CREATE INDEX days_user ON days (\"user\", day);
CREATE TABLE spreads (day INTEGER PRIMARY KEY REFERENCES days (id) ON DELETE CASCADE, packed BLOB NOT NULL);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    workflow TEXT NOT NULL,
    \"user\" TEXT NOT NULL,
    run TEXT NOT NULL,
    host INTEGER NOT NULL,
    project TEXT NOT NULL,
    month INTEGER NOT NULL,
    version TEXT,
    begun_us INTEGER NOT NULL,
    ended_us INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    core_s REAL NOT NULL,
    cpu_s REAL NOT NULL,
    claimed_gibh REAL NOT NULL,
    unused_gibh REAL NOT NULL,
    queued_s REAL NOT NULL,
    UNIQUE (workflow, \"user\", run, host, project, month)
);
CREATE INDEX runs_ended ON runs (ended_us);
",
    // Lists of jobs by any figure that do not grow with the number of rows; and missing indexes of lists by end.
    "
CREATE TABLE top_days (day INTEGER PRIMARY KEY, lasts BLOB NOT NULL);
CREATE TABLE tops (
    list INTEGER NOT NULL,
    day INTEGER NOT NULL REFERENCES top_days (day) ON DELETE CASCADE,
    packed BLOB NOT NULL,
    PRIMARY KEY (list, day)
);
CREATE INDEX tops_day ON tops (day);
CREATE INDEX days_name ON days (name, day);
CREATE INDEX jobs_project ON jobs (project, ended_us);
CREATE INDEX jobs_failed ON jobs (ended_us) WHERE (exit_code IS NULL OR exit_code <> 0);
",
    // Few jobs fail: failed jobs of a user, name, project or host are found without the other jobs. And the sums of a
    // name over all hosts, which are a single row of many.
    "
CREATE INDEX jobs_failed_user ON jobs (\"user\", ended_us) WHERE (exit_code IS NULL OR exit_code <> 0);
CREATE INDEX jobs_failed_name ON jobs (name, ended_us) WHERE (exit_code IS NULL OR exit_code <> 0);
CREATE INDEX jobs_failed_project ON jobs (project, ended_us)
    WHERE project IS NOT NULL AND (exit_code IS NULL OR exit_code <> 0);
CREATE INDEX jobs_failed_host ON jobs (host, ended_us) WHERE (exit_code IS NULL OR exit_code <> 0);
CREATE INDEX days_all ON days (name, day) WHERE host = 0;
",
    // The cause of a job's end beside its exit code: a terminated program may exit with 0. Earlier jobs have no known
    // cause here, and count by their exit codes as before.
    "
ALTER TABLE jobs ADD COLUMN ended_by TEXT;
DROP INDEX jobs_failed;
DROP INDEX jobs_failed_user;
DROP INDEX jobs_failed_name;
DROP INDEX jobs_failed_project;
DROP INDEX jobs_failed_host;
CREATE INDEX jobs_failed ON jobs (ended_us) WHERE (exit_code IS NULL OR exit_code <> 0 OR ended_by IS NOT NULL);
CREATE INDEX jobs_failed_user ON jobs (\"user\", ended_us)
    WHERE (exit_code IS NULL OR exit_code <> 0 OR ended_by IS NOT NULL);
CREATE INDEX jobs_failed_name ON jobs (name, ended_us)
    WHERE (exit_code IS NULL OR exit_code <> 0 OR ended_by IS NOT NULL);
CREATE INDEX jobs_failed_project ON jobs (project, ended_us)
    WHERE project IS NOT NULL AND (exit_code IS NULL OR exit_code <> 0 OR ended_by IS NOT NULL);
CREATE INDEX jobs_failed_host ON jobs (host, ended_us)
    WHERE (exit_code IS NULL OR exit_code <> 0 OR ended_by IS NOT NULL);
",
    // The last day of each host.
    "
CREATE TABLE minutes (
    host INTEGER NOT NULL REFERENCES hosts (id),
    time_us INTEGER NOT NULL,
    cpu_busy REAL,
    memory_bytes INTEGER NOT NULL,
    swap_bytes INTEGER NOT NULL,
    stalled REAL,
    PRIMARY KEY (host, time_us)
) WITHOUT ROWID;
",
];

/// The migration that added sums, and computes them for existing jobs.
const SUMS_SINCE: u32 = 4;

/// The migration that added lists by figures, and computes them for existing jobs.
const TOPS_SINCE: u32 = 5;

/// The version that this program writes.
#[expect(clippy::cast_possible_truncation, reason = "there are a few steps")]
pub const VERSION: u32 = STEPS.len() as u32;

/// The version of a database; 0: empty.
pub(super) fn version(connection: &mut dyn Connection) -> Result<u32, DbError> {
    let find = match connection.dialect() {
        Dialect::Sqlite => "SELECT user_version FROM pragma_user_version",
        Dialect::Postgres => {
            let there = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'schema_version'";
            if connection.first(there, &[], |_| Ok(()))?.is_none() {
                return Ok(0);
            }
            "SELECT version FROM schema_version"
        }
    };
    Ok(connection.first(find, &[], |row| row.get(0))?.unwrap_or(0))
}

/// Migrates the database to this version: all steps or none.
pub(super) fn migrate(name: &str, connection: &mut dyn Connection) -> Result<(), Stopped<StoreError>> {
    let dialect = connection.dialect();
    dialect.making(connection)?;
    let found = version(connection)?;
    if found > VERSION {
        return Err(Stopped::Own(StoreError::Later { name: name.to_owned(), found, known: VERSION }));
    }
    for step in STEPS.iter().skip(found as usize) {
        connection.batch(&dialect.definitions(step))?;
    }
    if (1..SUMS_SINCE).contains(&found) {
        super::days::fill(connection)?;
    }
    if (1..TOPS_SINCE).contains(&found) {
        super::tops::fill(connection)?;
    }
    if found < VERSION {
        set_version(connection)?;
    }
    Ok(())
}

fn set_version(connection: &mut dyn Connection) -> Result<(), DbError> {
    match connection.dialect() {
        Dialect::Sqlite => connection.batch(&format!("PRAGMA user_version = {VERSION}")),
        Dialect::Postgres => {
            connection.batch("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL); DELETE FROM schema_version")?;
            connection
                .execute("INSERT INTO schema_version (version) VALUES (?1)", &values![VERSION])
                .map(drop)
        }
    }
}
