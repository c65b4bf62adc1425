//! The schema, as numbered steps. A released step is never changed; a change is a new step.
//!
//! Tables are STRICT and carry CHECKs, because `PRAGMA quick_check` verifies both: an overwritten byte then shows
//! when the store is opened, not as a job in an impossible state. Times are microseconds since the Unix epoch, sizes
//! bytes. The views are for users of `sqlite3`, Python or R; pinfold itself reads only the tables.

mod first;

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension};

use first::{TABLES, VIEWS};

/// `PFLD`: identifies a pinfold store.
pub(super) const APPLICATION_ID: i32 = 0x5046_4C44;

/// The newest version known here.
pub(super) const VERSION: u32 = 27;

/// The steps from version n to n + 1.
const STEPS: [&str; VERSION as usize] = [
    TABLES, VIEWS, LAYOUTS, PROCESSES, ORDER, BLOCKS, SCRATCH, FILES, REQUEUE, NODES, NETWORK, SHARES,
    CHECKPOINT, ARRAYS, COUNTS, HOST, LAY, ALLOCATION, DISK, ADOPTED, NEEDED, TERMS, SUSPENDED, EXTERNAL,
    CODES, INPUTS, WAITS,
];

/// Version 3: how the tasks of a job are to lie.
const LAYOUTS: &str = "
ALTER TABLE jobs ADD COLUMN layout TEXT CHECK (json_valid(layout));
";

/// Version 4: single processes, stalls, and the kernel's own peak of memory.
const PROCESSES: &str = "
ALTER TABLE jobs ADD COLUMN memory_peak_kernel_bytes INTEGER CHECK (memory_peak_kernel_bytes >= 0);
ALTER TABLE jobs ADD COLUMN cpu_stalled_us INTEGER CHECK (cpu_stalled_us >= 0);
ALTER TABLE jobs ADD COLUMN memory_stalled_us INTEGER CHECK (memory_stalled_us >= 0);
ALTER TABLE jobs ADD COLUMN memory_full_stalled_us INTEGER CHECK (memory_full_stalled_us >= 0);
ALTER TABLE jobs ADD COLUMN io_stalled_us INTEGER CHECK (io_stalled_us >= 0);
ALTER TABLE jobs ADD COLUMN io_full_stalled_us INTEGER CHECK (io_full_stalled_us >= 0);
ALTER TABLE jobs ADD COLUMN processes_from TEXT
    CHECK (processes_from IN ('records', 'events', 'samples', 'gaps'));
ALTER TABLE samples ADD COLUMN cpu_stalled_us INTEGER CHECK (cpu_stalled_us >= 0);
ALTER TABLE samples ADD COLUMN memory_stalled_us INTEGER CHECK (memory_stalled_us >= 0);
ALTER TABLE samples ADD COLUMN memory_full_stalled_us INTEGER CHECK (memory_full_stalled_us >= 0);
ALTER TABLE samples ADD COLUMN io_stalled_us INTEGER CHECK (io_stalled_us >= 0);
ALTER TABLE samples ADD COLUMN io_full_stalled_us INTEGER CHECK (io_full_stalled_us >= 0);

CREATE TABLE processes (
    job INTEGER NOT NULL CHECK (job >= 0),
    number INTEGER NOT NULL CHECK (number >= 0),
    pid INTEGER NOT NULL CHECK (pid BETWEEN 0 AND 4294967295),
    parent INTEGER CHECK (parent BETWEEN 0 AND 4294967295),
    count INTEGER NOT NULL CHECK (count >= 0),
    command TEXT NOT NULL,
    started_us INTEGER CHECK (started_us >= 0),
    ended_us INTEGER CHECK (ended_us >= 0),
    exit_code INTEGER,
    signal INTEGER,
    failed INTEGER NOT NULL CHECK (failed >= 0),
    threads INTEGER NOT NULL CHECK (threads >= 0),
    cpu_user_us INTEGER NOT NULL CHECK (cpu_user_us >= 0),
    cpu_system_us INTEGER NOT NULL CHECK (cpu_system_us >= 0),
    waited_us INTEGER NOT NULL CHECK (waited_us >= 0),
    memory_peak_bytes INTEGER NOT NULL CHECK (memory_peak_bytes >= 0),
    io_read_bytes INTEGER NOT NULL CHECK (io_read_bytes >= 0),
    io_write_bytes INTEGER NOT NULL CHECK (io_write_bytes >= 0),
    io_read_calls INTEGER NOT NULL CHECK (io_read_calls >= 0),
    io_write_calls INTEGER NOT NULL CHECK (io_write_calls >= 0),
    faults_minor INTEGER NOT NULL CHECK (faults_minor >= 0),
    faults_major INTEGER NOT NULL CHECK (faults_major >= 0),
    switches_voluntary INTEGER NOT NULL CHECK (switches_voluntary >= 0),
    switches_forced INTEGER NOT NULL CHECK (switches_forced >= 0),
    source TEXT NOT NULL CHECK (source IN ('running', 'exit', 'sample', 'unseen')),
    PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;

CREATE VIEW process_report AS SELECT
    job, number, pid, parent, count, command,
    started_us / 1e6 AS started_s, datetime(started_us / 1000000, 'unixepoch') AS started_utc,
    (ended_us - started_us) / 1e6 AS lived_s, exit_code, signal, failed, threads,
    cpu_user_us / 1e6 AS cpu_user_s, cpu_system_us / 1e6 AS cpu_system_s, waited_us / 1e6 AS waited_s,
    memory_peak_bytes, io_read_bytes, io_write_bytes, io_read_calls, io_write_calls, faults_minor, faults_major,
    switches_voluntary, switches_forced, source
FROM processes;
";

/// Version 5: which jobs a job starts after.
const ORDER: &str = "
ALTER TABLE jobs ADD COLUMN after TEXT CHECK (json_valid(after));
";

/// Version 6: packed samples of ended jobs (format in `store/blocks.rs`).
const BLOCKS: &str = "
CREATE TABLE blocks (
    job INTEGER NOT NULL CHECK (job >= 0),
    first_us INTEGER NOT NULL CHECK (first_us >= 0),
    last_us INTEGER NOT NULL CHECK (last_us >= 0),
    step_us INTEGER NOT NULL CHECK (step_us >= 0),
    samples INTEGER NOT NULL CHECK (samples >= 0),
    data BLOB NOT NULL,
    PRIMARY KEY (job, first_us)
) STRICT;
";

/// Version 7: the in-memory directory and private `/tmp` of a job.
const SCRATCH: &str = "
ALTER TABLE jobs ADD COLUMN tmp_bytes INTEGER CHECK (tmp_bytes >= 0);
ALTER TABLE jobs ADD COLUMN private_tmp INTEGER NOT NULL DEFAULT 0 CHECK (private_tmp IN (0, 1));
";

/// Version 8: files that jobs opened.
const FILES: &str = "
CREATE TABLE files (
    job INTEGER NOT NULL CHECK (job >= 0),
    path TEXT NOT NULL,
    read INTEGER NOT NULL CHECK (read IN (0, 1)),
    written INTEGER NOT NULL CHECK (written IN (0, 1)),
    opened INTEGER NOT NULL CHECK (opened >= 0),
    read_bytes INTEGER NOT NULL CHECK (read_bytes >= 0),
    write_bytes INTEGER NOT NULL CHECK (write_bytes >= 0),
    either_bytes INTEGER NOT NULL CHECK (either_bytes >= 0),
    size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
    first_us INTEGER NOT NULL CHECK (first_us >= 0),
    last_us INTEGER NOT NULL CHECK (last_us >= 0),
    PRIMARY KEY (job, path)
) STRICT, WITHOUT ROWID;

CREATE VIEW file_report AS SELECT
    job, path, read, written, opened, read_bytes, write_bytes, either_bytes, size_bytes,
    first_us / 1e6 AS first_s, last_us / 1e6 AS last_s
FROM files;
";

/// Version 9: requeueable jobs, and the number of requeues.
const REQUEUE: &str = "
ALTER TABLE jobs ADD COLUMN requeue INTEGER NOT NULL DEFAULT 0 CHECK (requeue IN (0, 1));
ALTER TABLE jobs ADD COLUMN requeues INTEGER NOT NULL DEFAULT 0 CHECK (requeues BETWEEN 0 AND 4294967295);
ALTER TABLE jobs ADD COLUMN requeuing INTEGER NOT NULL DEFAULT 0 CHECK (requeuing IN (0, 1));
";

/// Version 10: jobs' memory on each NUMA node.
const NODES: &str = "
CREATE TABLE nodes (
    job INTEGER NOT NULL CHECK (job >= 0),
    node INTEGER NOT NULL CHECK (node BETWEEN 0 AND 4294967295),
    memory_bytes INTEGER NOT NULL CHECK (memory_bytes >= 0),
    memory_mean_bytes INTEGER NOT NULL CHECK (memory_mean_bytes >= 0),
    memory_peak_bytes INTEGER NOT NULL CHECK (memory_peak_bytes >= 0),
    PRIMARY KEY (job, node)
) STRICT, WITHOUT ROWID;
";

/// Version 11: whether a job has a private network.
const NETWORK: &str = "
ALTER TABLE jobs ADD COLUMN no_network INTEGER NOT NULL DEFAULT 0 CHECK (no_network IN (0, 1));
";

/// Version 12: PSS of processes, figures missing in the view of processes, and an index of jobs by project for
/// project operators.
const SHARES: &str = "
CREATE INDEX jobs_of_project ON jobs (project, job) WHERE project IS NOT NULL;
ALTER TABLE processes ADD COLUMN pss_us INTEGER CHECK (pss_us >= 0);
ALTER TABLE processes ADD COLUMN pss_bytes INTEGER CHECK (pss_bytes >= 0);
ALTER TABLE processes ADD COLUMN pss_peak_bytes INTEGER CHECK (pss_peak_bytes >= 0);

DROP VIEW process_report;
CREATE VIEW process_report AS SELECT
    job, number, pid, parent, count, command,
    started_us / 1e6 AS started_s, datetime(started_us / 1000000, 'unixepoch') AS started_utc,
    ended_us / 1e6 AS ended_s, (ended_us - started_us) / 1e6 AS lived_s, exit_code, signal, failed, threads,
    cpu_user_us / 1e6 AS cpu_user_s, cpu_system_us / 1e6 AS cpu_system_s, waited_us / 1e6 AS waited_s,
    memory_peak_bytes, pss_us / 1e6 AS pss_read_s, pss_bytes, pss_peak_bytes,
    io_read_bytes, io_write_bytes, io_read_calls, io_write_calls, faults_minor, faults_major,
    switches_voluntary, switches_forced, source
FROM processes;
";

/// Version 13: jobs with checkpoints, and the number of ends after a checkpoint.
const CHECKPOINT: &str = "
ALTER TABLE jobs ADD COLUMN checkpoint TEXT CHECK (json_valid(checkpoint));
ALTER TABLE jobs ADD COLUMN checkpoints INTEGER NOT NULL DEFAULT 0 CHECK (checkpoints BETWEEN 0 AND 4294967295);
";

/// Version 14: arrays of jobs.
const ARRAYS: &str = "
ALTER TABLE jobs ADD COLUMN array_id INTEGER CHECK (array_id >= 0);
ALTER TABLE jobs ADD COLUMN array_index INTEGER CHECK (array_index BETWEEN 0 AND 4294967295);
ALTER TABLE jobs ADD COLUMN array_at_most INTEGER CHECK (array_at_most BETWEEN 0 AND 4294967295);
CREATE INDEX jobs_of_array ON jobs (array_id) WHERE array_id IS NOT NULL;
";

/// Version 15: event counts per job, the kinds of its memory, and per process its address space and whether waits and
/// switches are known.
const COUNTS: &str = "
ALTER TABLE jobs ADD COLUMN ending_faults_minor INTEGER CHECK (ending_faults_minor >= 0);
ALTER TABLE jobs ADD COLUMN ending_faults_major INTEGER CHECK (ending_faults_major >= 0);
ALTER TABLE jobs ADD COLUMN ending_switches_voluntary INTEGER CHECK (ending_switches_voluntary >= 0);
ALTER TABLE jobs ADD COLUMN ending_switches_forced INTEGER CHECK (ending_switches_forced >= 0);
ALTER TABLE jobs ADD COLUMN anonymous_peak_bytes INTEGER CHECK (anonymous_peak_bytes >= 0);
ALTER TABLE jobs ADD COLUMN shared_peak_bytes INTEGER CHECK (shared_peak_bytes >= 0);
ALTER TABLE jobs ADD COLUMN mapped_peak_bytes INTEGER CHECK (mapped_peak_bytes >= 0);
ALTER TABLE jobs ADD COLUMN io_read_calls INTEGER CHECK (io_read_calls >= 0);
ALTER TABLE jobs ADD COLUMN io_write_calls INTEGER CHECK (io_write_calls >= 0);
ALTER TABLE jobs ADD COLUMN faults_minor INTEGER CHECK (faults_minor >= 0);
ALTER TABLE jobs ADD COLUMN faults_major INTEGER CHECK (faults_major >= 0);
ALTER TABLE jobs ADD COLUMN switches_voluntary INTEGER CHECK (switches_voluntary >= 0);
ALTER TABLE jobs ADD COLUMN switches_forced INTEGER CHECK (switches_forced >= 0);
ALTER TABLE jobs ADD COLUMN waited_us INTEGER CHECK (waited_us >= 0);
ALTER TABLE processes ADD COLUMN virtual_peak_bytes INTEGER CHECK (virtual_peak_bytes >= 0);
ALTER TABLE processes ADD COLUMN counted INTEGER NOT NULL DEFAULT 0 CHECK (counted IN (0, 1));
UPDATE processes SET counted = 1 WHERE source = 'exit';

DROP VIEW report;
CREATE VIEW report AS SELECT
    job, name, user, project, command, directory, state, class, priority, cores, cpus,
    datetime(submitted_us / 1000000, 'unixepoch') AS submitted_utc,
    datetime(started_us / 1000000, 'unixepoch') AS started_utc,
    datetime(ended_us / 1000000, 'unixepoch') AS ended_utc,
    exit_code, signal, reason,
    (coalesce(started_us, ended_us, submitted_us) - submitted_us) / 1e6 AS queued_s,
    (ended_us - started_us) / 1e6 AS wall_s,
    suspended_us / 1e6 AS suspended_s,
    cpu_user_us / 1e6 AS cpu_user_s,
    cpu_system_us / 1e6 AS cpu_system_s,
    claim_bytes, limit_bytes, memory_peak_bytes, memory_mean_bytes, memory_peak_kernel_bytes, anonymous_peak_bytes,
    shared_peak_bytes, mapped_peak_bytes, cache_peak_bytes, swap_peak_bytes, virtual_peak_bytes,
    io_read_bytes, io_write_bytes, io_read_calls, io_write_calls, faults_minor, faults_major,
    switches_voluntary, switches_forced, waited_us / 1e6 AS waited_s,
    cpu_stalled_us / 1e6 AS cpu_stalled_s, memory_stalled_us / 1e6 AS memory_stalled_s,
    memory_full_stalled_us / 1e6 AS memory_full_stalled_s, io_stalled_us / 1e6 AS io_stalled_s,
    io_full_stalled_us / 1e6 AS io_full_stalled_s,
    processes_total, processes_peak, processes_from, threads_peak, samples
FROM jobs;

DROP VIEW process_report;
CREATE VIEW process_report AS SELECT
    job, number, pid, parent, count, command,
    started_us / 1e6 AS started_s, datetime(started_us / 1000000, 'unixepoch') AS started_utc,
    ended_us / 1e6 AS ended_s, (ended_us - started_us) / 1e6 AS lived_s, exit_code, signal, failed, threads,
    cpu_user_us / 1e6 AS cpu_user_s, cpu_system_us / 1e6 AS cpu_system_s,
    iif(counted, waited_us / 1e6, NULL) AS waited_s,
    memory_peak_bytes, virtual_peak_bytes, pss_us / 1e6 AS pss_read_s, pss_bytes, pss_peak_bytes,
    io_read_bytes, io_write_bytes, io_read_calls, io_write_calls, faults_minor, faults_major,
    iif(counted, switches_voluntary, NULL) AS switches_voluntary, iif(counted, switches_forced, NULL) AS switches_forced,
    source
FROM processes;
";

/// Version 16: readings of the host as a whole.
const HOST: &str = "
CREATE TABLE host (
    time_us INTEGER PRIMARY KEY NOT NULL CHECK (time_us >= 0),
    cpu_busy_us INTEGER NOT NULL CHECK (cpu_busy_us >= 0),
    memory_used_bytes INTEGER NOT NULL CHECK (memory_used_bytes >= 0),
    swap_used_bytes INTEGER NOT NULL CHECK (swap_used_bytes >= 0),
    cpu_stalled_us INTEGER CHECK (cpu_stalled_us >= 0),
    memory_stalled_us INTEGER CHECK (memory_stalled_us >= 0),
    memory_full_stalled_us INTEGER CHECK (memory_full_stalled_us >= 0),
    io_stalled_us INTEGER CHECK (io_stalled_us >= 0),
    io_full_stalled_us INTEGER CHECK (io_full_stalled_us >= 0),
    temperature_milli INTEGER CHECK (temperature_milli >= 0),
    frequency_khz INTEGER CHECK (frequency_khz >= 0)
) STRICT;

CREATE VIEW host_series AS SELECT
    time_us / 1e6 AS time_s, datetime(time_us / 1000000, 'unixepoch') AS time_utc,
    (cpu_busy_us - lag(cpu_busy_us) OVER (ORDER BY time_us)) * 1.0
        / nullif(time_us - lag(time_us) OVER (ORDER BY time_us), 0) AS cpu_busy,
    memory_used_bytes, swap_used_bytes, cpu_stalled_us / 1e6 AS cpu_stalled_s,
    memory_stalled_us / 1e6 AS memory_stalled_s, memory_full_stalled_us / 1e6 AS memory_full_stalled_s,
    io_stalled_us / 1e6 AS io_stalled_s, io_full_stalled_us / 1e6 AS io_full_stalled_s,
    temperature_milli / 1e3 AS temperature_celsius, frequency_khz / 1e3 AS frequency_mhz
FROM host;
";

/// Version 17: how the cores of jobs lay, by which later jobs of the class are laid.
const LAY: &str = "
ALTER TABLE jobs ADD COLUMN lay TEXT CHECK (lay IN ('compact', 'spread'));
ALTER TABLE jobs ADD COLUMN lay_domains INTEGER CHECK (lay_domains BETWEEN 0 AND 4294967295);
CREATE INDEX jobs_laid ON jobs (ended_us) WHERE lay IS NOT NULL;

CREATE VIEW lay_report AS SELECT
    job, name, command, cores, lay, lay_domains, (ended_us - started_us) / 1e6 AS wall_s,
    (cpu_user_us + cpu_system_us) / 1e6 AS cpu_s, waited_us / 1e6 AS waited_s, exit_code
FROM jobs WHERE lay IS NOT NULL;
";

/// Version 18: the allocation of the submitting process from another manager.
const ALLOCATION: &str = "
ALTER TABLE jobs ADD COLUMN allocation TEXT CHECK (json_valid(allocation));
";

/// Version 19: the disk directory of a job.
const DISK: &str = "
ALTER TABLE jobs ADD COLUMN disk_bytes INTEGER CHECK (disk_bytes >= 0);
";

/// Version 20: adopted processes of a job.
const ADOPTED: &str = "
ALTER TABLE jobs ADD COLUMN adopted TEXT CHECK (json_valid(adopted));
";

/// Version 21: the memory that a job needed in RAM.
const NEEDED: &str = "
ALTER TABLE jobs ADD COLUMN needed_bytes INTEGER CHECK (needed_bytes >= 0);
";

/// Version 22: start times and limits, and the cause of an end where the exit status does not show it.
const TERMS: &str = "
ALTER TABLE jobs ADD COLUMN terms TEXT CHECK (json_valid(terms));
ALTER TABLE jobs ADD COLUMN ended_by TEXT;
";

/// Version 23: jobs suspended by a user, which outlasts the daemon.
const SUSPENDED: &str = "
ALTER TABLE jobs ADD COLUMN suspended INTEGER NOT NULL DEFAULT 0 CHECK (suspended IN (0, 1));
";

/// Version 24: names of jobs in the workload managers that dispatched them.
const EXTERNAL: &str = "
ALTER TABLE jobs ADD COLUMN external TEXT;
CREATE INDEX jobs_external ON jobs (external) WHERE external IS NOT NULL;
";

/// Version 25: decisions as codes and figures, beside their words.
const CODES: &str = "
ALTER TABLE decisions ADD COLUMN action_code TEXT;
ALTER TABLE decisions ADD COLUMN code TEXT;
ALTER TABLE decisions ADD COLUMN figures TEXT CHECK (json_valid(figures));
DROP VIEW history;
CREATE VIEW history AS SELECT
    number, job, time_us / 1e6 AS time_s, datetime(time_us / 1000000, 'unixepoch') AS time_utc, action, reason,
    action_code, code, figures
FROM decisions;
";

/// Version 26: the size of the input files of a job.
const INPUTS: &str = "
ALTER TABLE jobs ADD COLUMN input_bytes INTEGER CHECK (input_bytes >= 0);
";

/// Version 27: the start of jobs' waits. Unimpeded jobs have waited since their submission; for other jobs the start
/// is unknown.
const WAITS: &str = "
ALTER TABLE jobs ADD COLUMN waits_since_us INTEGER CHECK (waits_since_us >= 0);
UPDATE jobs SET waits_since_us = submitted_us
WHERE state = 'queued' AND started_us IS NULL AND held = 0 AND after IS NULL
    AND json_extract(coalesce(terms, '{}'), '$.begin_us') IS NULL;
";

/// The version of a file; 0 for an empty file.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    // No pinfold writes a negative version: as foreign as a huge version.
    Ok(u32::try_from(version).unwrap_or(u32::MAX))
}

/// The result of all steps. SQLite rereads the whole schema for each change of a table, and a new store, or a schema
/// for comparison, needs no intermediate versions.
const NEWEST: &str = include_str!("schema/newest.sql");

/// Migrates a file to version `to`, each step with its number in a transaction; an empty file directly to the newest
/// version.
pub(super) fn migrate(connection: &mut Connection, to: u32) -> rusqlite::Result<()> {
    if to == VERSION && version(connection)? == 0 {
        return step(connection, NEWEST, VERSION);
    }
    migrate_by_steps(connection, to)
}

/// The same, an empty file step by step as well.
fn migrate_by_steps(connection: &mut Connection, to: u32) -> rusqlite::Result<()> {
    for (from, text) in (0..to).zip(STEPS) {
        if version(connection)? == from {
            step(connection, text, from + 1)?;
        }
    }
    Ok(())
}

fn step(connection: &mut Connection, text: &str, to: u32) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(text)?;
    transaction.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('schema', ?1)", [to])?;
    transaction.pragma_update(None, "user_version", to)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()
}

/// The version stored in `meta`.
pub(super) fn noted_version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection.query_row("SELECT value FROM meta WHERE key = 'schema'", [], |row| row.get(0)).optional()
}

/// Kind, name and text of all objects in a file's schema.
pub(super) fn objects(
    connection: &Connection,
) -> rusqlite::Result<BTreeSet<(String, String, Option<String>)>> {
    let mut statement = connection.prepare("SELECT type, name, sql FROM sqlite_schema")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of a file but its pages: its schema in the order in which it was made, and the rows of `meta`.
    fn all(connection: &Connection) -> (String, Vec<(String, i64)>) {
        let texts = |sql: &str| -> rusqlite::Result<Vec<String>> {
            connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
        };
        let schema =
            texts("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid").expect("a schema");
        let meta = || -> rusqlite::Result<Vec<(String, i64)>> {
            let mut rows = connection.prepare("SELECT key, value FROM meta ORDER BY key")?;
            rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let text: String = schema.iter().map(|sql| format!("{sql};\n")).collect();
        (text, meta().expect("its rows"))
    }

    /// `PINFOLD_BLESS=1` writes what the steps come to.
    #[test]
    fn the_newest_schema_is_what_the_steps_come_to() {
        let memory = || Connection::open_in_memory().expect("a file");
        let mut by_steps = memory();
        migrate_by_steps(&mut by_steps, VERSION).expect("they can be taken");
        if std::env::var_os("PINFOLD_BLESS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/schema/newest.sql");
            std::fs::write(path, all(&by_steps).0).expect("it can be written");
            return;
        }
        let mut at_once = memory();
        migrate(&mut at_once, VERSION).expect("it can be made");
        assert_eq!(all(&at_once), all(&by_steps), "PINFOLD_BLESS=1 writes it anew");
        assert_eq!(objects(&at_once), objects(&by_steps));
        let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'meta'";
        let mut names = by_steps.prepare(tables).expect("it can be asked");
        for name in names.query_map([], |row| row.get::<_, String>(0)).expect("names") {
            let count = format!("SELECT count(*) FROM {}", name.expect("a name"));
            let rows: i64 = by_steps.query_row(&count, [], |row| row.get(0)).expect("rows");
            assert_eq!(rows, 0, "{count}: the steps put rows there, which the newest schema has not");
        }
        assert_eq!((version(&at_once), noted_version(&at_once)), (Ok(VERSION), Ok(Some(VERSION.into()))));
    }
}
