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
, layout TEXT CHECK (json_valid(layout)), memory_peak_kernel_bytes INTEGER CHECK (memory_peak_kernel_bytes >= 0), cpu_stalled_us INTEGER CHECK (cpu_stalled_us >= 0), memory_stalled_us INTEGER CHECK (memory_stalled_us >= 0), memory_full_stalled_us INTEGER CHECK (memory_full_stalled_us >= 0), io_stalled_us INTEGER CHECK (io_stalled_us >= 0), io_full_stalled_us INTEGER CHECK (io_full_stalled_us >= 0), processes_from TEXT
    CHECK (processes_from IN ('records', 'events', 'samples', 'gaps')), after TEXT CHECK (json_valid(after)), tmp_bytes INTEGER CHECK (tmp_bytes >= 0), private_tmp INTEGER NOT NULL DEFAULT 0 CHECK (private_tmp IN (0, 1)), requeue INTEGER NOT NULL DEFAULT 0 CHECK (requeue IN (0, 1)), requeues INTEGER NOT NULL DEFAULT 0 CHECK (requeues BETWEEN 0 AND 4294967295), requeuing INTEGER NOT NULL DEFAULT 0 CHECK (requeuing IN (0, 1)), no_network INTEGER NOT NULL DEFAULT 0 CHECK (no_network IN (0, 1)), checkpoint TEXT CHECK (json_valid(checkpoint)), checkpoints INTEGER NOT NULL DEFAULT 0 CHECK (checkpoints BETWEEN 0 AND 4294967295), array_id INTEGER CHECK (array_id >= 0), array_index INTEGER CHECK (array_index BETWEEN 0 AND 4294967295), array_at_most INTEGER CHECK (array_at_most BETWEEN 0 AND 4294967295), ending_faults_minor INTEGER CHECK (ending_faults_minor >= 0), ending_faults_major INTEGER CHECK (ending_faults_major >= 0), ending_switches_voluntary INTEGER CHECK (ending_switches_voluntary >= 0), ending_switches_forced INTEGER CHECK (ending_switches_forced >= 0), anonymous_peak_bytes INTEGER CHECK (anonymous_peak_bytes >= 0), shared_peak_bytes INTEGER CHECK (shared_peak_bytes >= 0), mapped_peak_bytes INTEGER CHECK (mapped_peak_bytes >= 0), io_read_calls INTEGER CHECK (io_read_calls >= 0), io_write_calls INTEGER CHECK (io_write_calls >= 0), faults_minor INTEGER CHECK (faults_minor >= 0), faults_major INTEGER CHECK (faults_major >= 0), switches_voluntary INTEGER CHECK (switches_voluntary >= 0), switches_forced INTEGER CHECK (switches_forced >= 0), waited_us INTEGER CHECK (waited_us >= 0), lay TEXT CHECK (lay IN ('compact', 'spread')), lay_domains INTEGER CHECK (lay_domains BETWEEN 0 AND 4294967295), allocation TEXT CHECK (json_valid(allocation)), disk_bytes INTEGER CHECK (disk_bytes >= 0), adopted TEXT CHECK (json_valid(adopted)), needed_bytes INTEGER CHECK (needed_bytes >= 0), terms TEXT CHECK (json_valid(terms)), ended_by TEXT, suspended INTEGER NOT NULL DEFAULT 0 CHECK (suspended IN (0, 1)), external TEXT, input_bytes INTEGER CHECK (input_bytes >= 0), waits_since_us INTEGER CHECK (waits_since_us >= 0)) STRICT;
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
    threads INTEGER NOT NULL CHECK (threads BETWEEN 0 AND 4294967295), cpu_stalled_us INTEGER CHECK (cpu_stalled_us >= 0), memory_stalled_us INTEGER CHECK (memory_stalled_us >= 0), memory_full_stalled_us INTEGER CHECK (memory_full_stalled_us >= 0), io_stalled_us INTEGER CHECK (io_stalled_us >= 0), io_full_stalled_us INTEGER CHECK (io_full_stalled_us >= 0),
    PRIMARY KEY (job, time_us)
) STRICT, WITHOUT ROWID;
CREATE TABLE decisions (
    number INTEGER PRIMARY KEY NOT NULL,
    job INTEGER NOT NULL CHECK (job >= 0),
    time_us INTEGER NOT NULL CHECK (time_us >= 0),
    action TEXT NOT NULL,
    reason TEXT NOT NULL
, action_code TEXT, code TEXT, figures TEXT CHECK (json_valid(figures))) STRICT;
CREATE INDEX decisions_of_job ON decisions (job);
CREATE VIEW series AS SELECT
    job, time_us / 1e6 AS time_s, datetime(time_us / 1000000, 'unixepoch') AS time_utc, state,
    (cpu_user_us + cpu_system_us
        - lag(cpu_user_us + cpu_system_us) OVER (PARTITION BY job ORDER BY time_us)) * 1.0
        / nullif(time_us - lag(time_us) OVER (PARTITION BY job ORDER BY time_us), 0) AS cpu_cores,
    memory_bytes, cache_bytes, swap_bytes, virtual_bytes, io_read_bytes, io_write_bytes, processes, threads
FROM samples;
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
    source TEXT NOT NULL CHECK (source IN ('running', 'exit', 'sample', 'unseen')), pss_us INTEGER CHECK (pss_us >= 0), pss_bytes INTEGER CHECK (pss_bytes >= 0), pss_peak_bytes INTEGER CHECK (pss_peak_bytes >= 0), virtual_peak_bytes INTEGER CHECK (virtual_peak_bytes >= 0), counted INTEGER NOT NULL DEFAULT 0 CHECK (counted IN (0, 1)),
    PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE blocks (
    job INTEGER NOT NULL CHECK (job >= 0),
    first_us INTEGER NOT NULL CHECK (first_us >= 0),
    last_us INTEGER NOT NULL CHECK (last_us >= 0),
    step_us INTEGER NOT NULL CHECK (step_us >= 0),
    samples INTEGER NOT NULL CHECK (samples >= 0),
    data BLOB NOT NULL,
    PRIMARY KEY (job, first_us)
) STRICT;
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
CREATE TABLE nodes (
    job INTEGER NOT NULL CHECK (job >= 0),
    node INTEGER NOT NULL CHECK (node BETWEEN 0 AND 4294967295),
    memory_bytes INTEGER NOT NULL CHECK (memory_bytes >= 0),
    memory_mean_bytes INTEGER NOT NULL CHECK (memory_mean_bytes >= 0),
    memory_peak_bytes INTEGER NOT NULL CHECK (memory_peak_bytes >= 0),
    PRIMARY KEY (job, node)
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_of_project ON jobs (project, job) WHERE project IS NOT NULL;
CREATE INDEX jobs_of_array ON jobs (array_id) WHERE array_id IS NOT NULL;
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
CREATE INDEX jobs_laid ON jobs (ended_us) WHERE lay IS NOT NULL;
CREATE VIEW lay_report AS SELECT
    job, name, command, cores, lay, lay_domains, (ended_us - started_us) / 1e6 AS wall_s,
    (cpu_user_us + cpu_system_us) / 1e6 AS cpu_s, waited_us / 1e6 AS waited_s, exit_code
FROM jobs WHERE lay IS NOT NULL;
CREATE INDEX jobs_external ON jobs (external) WHERE external IS NOT NULL;
CREATE VIEW history AS SELECT
    number, job, time_us / 1e6 AS time_s, datetime(time_us / 1000000, 'unixepoch') AS time_utc, action, reason,
    action_code, code, figures
FROM decisions;
