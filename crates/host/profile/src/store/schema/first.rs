//! The first steps of the schema: the tables and views that later steps change (`schema`).

/// Version 1: the tables.
pub(super) const TABLES: &str = "
CREATE TABLE meta (
    key TEXT PRIMARY KEY NOT NULL,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    job INTEGER PRIMARY KEY NOT NULL CHECK (job >= 0),
    uid INTEGER NOT NULL CHECK (uid BETWEEN 0 AND 4294967295),
    user TEXT NOT NULL,
    name TEXT NOT NULL,
    project TEXT,
    command TEXT NOT NULL CHECK (json_valid(command)),
    directory TEXT NOT NULL,
    priority_asked INTEGER CHECK (priority_asked BETWEEN 0 AND 255),
    class_asked TEXT CHECK (class_asked IN ('primary', 'backfill', 'exclusive')),
    cores INTEGER NOT NULL CHECK (cores BETWEEN 0 AND 4294967295),
    claim_bytes INTEGER CHECK (claim_bytes >= 0),
    limit_bytes INTEGER CHECK (limit_bytes >= 0),
    ttl_us INTEGER CHECK (ttl_us >= 0),
    expected_us INTEGER CHECK (expected_us >= 0),
    held INTEGER NOT NULL CHECK (held IN (0, 1)),
    no_suspend INTEGER NOT NULL CHECK (no_suspend IN (0, 1)),
    line INTEGER CHECK (line >= 0),
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 255),
    class TEXT NOT NULL CHECK (class IN ('primary', 'backfill', 'exclusive')),
    state TEXT NOT NULL CHECK (state IN ('queued', 'held', 'running', 'frozen', 'parked', 'exited')),
    submitted_us INTEGER NOT NULL CHECK (submitted_us >= 0),
    started_us INTEGER CHECK (started_us >= 0),
    ended_us INTEGER CHECK (ended_us >= 0),
    suspended_us INTEGER NOT NULL CHECK (suspended_us >= 0),
    frozen_since_us INTEGER CHECK (frozen_since_us >= 0),
    cpus TEXT,
    keeper_pid INTEGER CHECK (keeper_pid BETWEEN 0 AND 4294967295),
    keeper_start_ticks INTEGER CHECK (keeper_start_ticks >= 0),
    main_pid INTEGER CHECK (main_pid BETWEEN 0 AND 4294967295),
    main_start_ticks INTEGER CHECK (main_start_ticks >= 0),
    ending_us INTEGER CHECK (ending_us >= 0),
    exit_code INTEGER,
    signal INTEGER,
    ending_cpu_user_us INTEGER CHECK (ending_cpu_user_us >= 0),
    ending_cpu_system_us INTEGER CHECK (ending_cpu_system_us >= 0),
    ending_rss_peak_bytes INTEGER CHECK (ending_rss_peak_bytes >= 0),
    ending_io_read_bytes INTEGER CHECK (ending_io_read_bytes >= 0),
    ending_io_write_bytes INTEGER CHECK (ending_io_write_bytes >= 0),
    reason TEXT,
    cpu_user_us INTEGER NOT NULL CHECK (cpu_user_us >= 0),
    cpu_system_us INTEGER NOT NULL CHECK (cpu_system_us >= 0),
    memory_peak_bytes INTEGER NOT NULL CHECK (memory_peak_bytes >= 0),
    memory_mean_bytes INTEGER NOT NULL CHECK (memory_mean_bytes >= 0),
    cache_peak_bytes INTEGER CHECK (cache_peak_bytes >= 0),
    swap_peak_bytes INTEGER NOT NULL CHECK (swap_peak_bytes >= 0),
    virtual_peak_bytes INTEGER NOT NULL CHECK (virtual_peak_bytes >= 0),
    io_read_bytes INTEGER NOT NULL CHECK (io_read_bytes >= 0),
    io_write_bytes INTEGER NOT NULL CHECK (io_write_bytes >= 0),
    processes_total INTEGER NOT NULL CHECK (processes_total >= 0),
    processes_peak INTEGER NOT NULL CHECK (processes_peak >= 0),
    threads_peak INTEGER NOT NULL CHECK (threads_peak >= 0),
    samples INTEGER NOT NULL CHECK (samples >= 0)
) STRICT;
CREATE INDEX jobs_unfinished ON jobs (job) WHERE state <> 'exited';
CREATE INDEX jobs_of_user ON jobs (uid, job);
CREATE INDEX jobs_submitted ON jobs (submitted_us);
CREATE INDEX jobs_ended ON jobs (ended_us) WHERE state = 'exited';

CREATE TABLE samples (
    job INTEGER NOT NULL CHECK (job >= 0),
    time_us INTEGER NOT NULL CHECK (time_us >= 0),
    state TEXT NOT NULL CHECK (state IN ('queued', 'held', 'running', 'frozen', 'parked', 'exited')),
    cpu_user_us INTEGER NOT NULL CHECK (cpu_user_us >= 0),
    cpu_system_us INTEGER NOT NULL CHECK (cpu_system_us >= 0),
    memory_bytes INTEGER NOT NULL CHECK (memory_bytes >= 0),
    cache_bytes INTEGER CHECK (cache_bytes >= 0),
    swap_bytes INTEGER NOT NULL CHECK (swap_bytes >= 0),
    virtual_bytes INTEGER NOT NULL CHECK (virtual_bytes >= 0),
    io_read_bytes INTEGER NOT NULL CHECK (io_read_bytes >= 0),
    io_write_bytes INTEGER NOT NULL CHECK (io_write_bytes >= 0),
    processes INTEGER NOT NULL CHECK (processes BETWEEN 0 AND 4294967295),
    threads INTEGER NOT NULL CHECK (threads BETWEEN 0 AND 4294967295),
    PRIMARY KEY (job, time_us)
) STRICT, WITHOUT ROWID;

CREATE TABLE decisions (
    number INTEGER PRIMARY KEY NOT NULL,
    job INTEGER NOT NULL CHECK (job >= 0),
    time_us INTEGER NOT NULL CHECK (time_us >= 0),
    action TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;
CREATE INDEX decisions_of_job ON decisions (job);
";

/// Version 2: the views.
pub(super) const VIEWS: &str = "
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
    claim_bytes, limit_bytes, memory_peak_bytes, memory_mean_bytes, cache_peak_bytes, swap_peak_bytes,
    virtual_peak_bytes, io_read_bytes, io_write_bytes, processes_total, processes_peak, threads_peak, samples
FROM jobs;

CREATE VIEW series AS SELECT
    job, time_us / 1e6 AS time_s, datetime(time_us / 1000000, 'unixepoch') AS time_utc, state,
    (cpu_user_us + cpu_system_us
        - lag(cpu_user_us + cpu_system_us) OVER (PARTITION BY job ORDER BY time_us)) * 1.0
        / nullif(time_us - lag(time_us) OVER (PARTITION BY job ORDER BY time_us), 0) AS cpu_cores,
    memory_bytes, cache_bytes, swap_bytes, virtual_bytes, io_read_bytes, io_write_bytes, processes, threads
FROM samples;

CREATE VIEW history AS SELECT
    number, job, time_us / 1e6 AS time_s, datetime(time_us / 1000000, 'unixepoch') AS time_utc, action, reason
FROM decisions;
";
