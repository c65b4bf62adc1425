//! How many jobs are found: by which index, from how many rows, and that the answer is the one of a look at all of them.
use std::time::{Duration, Instant};

use pinfold_hub::store::{
    Access, Cell, Ending, Grant, Group, JobQuery, JobRow, Kind, SCHEMA_VERSION, Store, StoreError, Way,
    columns,
};
use pinfold_proto::End;

use crate::server::Server;
use crate::store::{bundle, check_lists, known, report};

/// Jobs of both hosts: three of four are alpha's, seven of eight of the class `big`. One of 13 failed, and all of the last
/// 1,500.
const JOBS: i64 = 40_000;

/// When the job with the number 0 would have ended, and how far apart the ends are, in microseconds.
const ENDED_US: i64 = 1_700_000_002_000_000;
const APART_US: i64 = 20_000_000;

/// So many jobs are read at once where all are read.
const PORTION: i64 = 2_000;

/// More than the failed jobs of any user, name, project or host of which they are asked here, fewer than all that failed.
const READ_MAX: u32 = 2_000;

/// What both databases have; `sql` does something with them.
fn filled(store: &Store, alpha: i64, sql: &mut dyn FnMut(&str)) {
    store.add_token(Kind::Host, "beta", &[2; 32], "test", 1).unwrap();
    let beta = store.holder(&[2; 32]).unwrap().unwrap().host;
    sql(&format!(
        "INSERT INTO jobs (host, origin, job, submitted_us, started_us, ended_us, received_us, month, parts, name, \"user\", \
         project, class, priority, exit_code, cores, queued_s, wall_s, suspended_s, cpu_s, memory_peak_bytes, \
         memory_mean_bytes, swap_peak_bytes, io_read_bytes, io_write_bytes, samples, unused_gibh, idle_core_h) \
         WITH RECURSIVE numbers(x) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT x + 1 FROM numbers WHERE x < {JOBS}) \
         SELECT CASE WHEN x % 4 = 0 THEN {beta} ELSE {alpha} END, 'o', x, {ENDED_US} - 2000000 + x * {APART_US}, \
         {ENDED_US} - 1000000 + x * {APART_US}, {ENDED_US} + x * {APART_US}, 1, 202311, 1, \
         CASE WHEN x % 8 = 1 THEN 'small' ELSE 'big' END, 'u' || CAST(x % 5 AS TEXT), \
         CASE WHEN x % 3 = 0 THEN NULL ELSE 'p' || CAST(x % 3 AS TEXT) END, 'primary', 10, \
         CASE WHEN x % 13 = 0 OR x > 38500 THEN 1 ELSE 0 END, 1, 0.0, 1.0 + x * 7919 % 40009, 0.0, 1.0, \
         4096 * (x * 31 % 40009), 0, 0, 0, 0, 1, 0.0, 0.0 FROM numbers"
    ));
    store.sum_anew().unwrap();
    sql("ANALYZE");
}

/// Both databases, filled; and whether it is a server.
fn of_both(case: impl Fn(&Store, bool, &mut dyn FnMut(&str))) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hub.db");
    let (store, alpha) = known(Store::open_file(&file, None).unwrap());
    let beside = rusqlite::Connection::open(&file).unwrap();
    let mut sql = |text: &str| beside.execute_batch(text).unwrap();
    filled(&store, alpha, &mut sql);
    case(&store, false, &mut sql);
    let Some(server) = Server::start() else { return };
    let (store, alpha) = known(Store::open(&server.at(), None).unwrap());
    let mut client = server.client();
    let mut sql = |text: &str| client.batch_execute(text).unwrap();
    filled(&store, alpha, &mut sql);
    case(&store, true, &mut sql);
}

fn all() -> JobQuery {
    JobQuery { access: Access::All, ..JobQuery::default() }
}

fn cell<'a>(job: &'a JobRow, key: &str) -> &'a Cell {
    &job.cells[columns::COLUMNS.iter().position(|column| column.key == key).unwrap()]
}

fn is(job: &JobRow, key: &str, value: &str) -> bool {
    *cell(job, key) == Cell::Text(value.into())
}

fn number(job: &JobRow, key: &str) -> f64 {
    match cell(job, key) {
        Cell::Real(number) => *number,
        #[expect(clippy::cast_precision_loss, reason = "these are small")]
        Cell::Whole(number) => *number as f64,
        Cell::None | Cell::Text(_) => f64::NEG_INFINITY,
    }
}

/// All jobs, the last one first, read without another filter than their time. One question may take a few seconds, and
/// a busy machine needs longer than that to read all of them.
fn each(store: &Store) -> Vec<JobRow> {
    let mut jobs = Vec::new();
    for portion in (0..JOBS / PORTION).rev() {
        let ended = |job: i64| u64::try_from(ENDED_US + job * APART_US).unwrap();
        let (since_us, until_us) = (ended(portion * PORTION + 1), ended((portion + 1) * PORTION + 1));
        let query = JobQuery { since_us: Some(since_us), until_us: Some(until_us), limit: 100_000, ..all() };
        let (page, _) = store.jobs_within(&query, u32::MAX).unwrap();
        assert_eq!(i64::try_from(page.jobs.len()).unwrap(), PORTION);
        jobs.extend(page.jobs);
    }
    jobs
}

#[test]
fn failed_jobs_of_one_are_read_without_the_others() {
    of_both(|store, _, _| {
        let jobs = each(store);
        let of = |user: &str| Access::Some(vec![Grant { user: Some(user.into()), ..Grant::default() }]);
        let asked: [(JobQuery, &str, &str); 5] = [
            (JobQuery { host: Some("beta".into()), ..all() }, "host", "beta"),
            (JobQuery { user: Some("u3".into()), ..all() }, "user", "u3"),
            (JobQuery { project: Some("p1".into()), ..all() }, "project", "p1"),
            (JobQuery { name: Some("small".into()), ..all() }, "name", "small"),
            (JobQuery { access: of("u2"), ..JobQuery::default() }, "user", "u2"),
        ];
        for (query, key, value) in asked {
            for (sort, since_us) in [(None, None), (columns::find("wall_s"), Some(1_700_100_000_000_000))] {
                let ending = Some(Ending::Failed);
                let query = JobQuery { ending, sort, since_us, limit: 200, offset: 7, ..query.clone() };
                let (found, way) = store.jobs_within(&query, READ_MAX).unwrap();
                let since_us = since_us.unwrap_or(0);
                let mut want: Vec<&JobRow> = jobs
                    .iter()
                    .filter(|job| is(job, key, value) && number(job, "exit_code") != 0.0)
                    .filter(|job| number(job, "ended") >= since_us as f64)
                    .collect();
                want.sort_by(|a, b| {
                    let by = sort.map_or("ended", |column| column.key);
                    number(b, by).total_cmp(&number(a, by)).then(b.id.cmp(&a.id))
                });
                let want: Vec<&JobRow> = want.into_iter().skip(7).take(200).collect();
                assert_eq!(found.jobs.iter().collect::<Vec<_>>(), want, "{key} {value} {sort:?}");
                assert_eq!((way, want.len()), (Way::Few, 200), "{key} {value} {sort:?}");
                // Where even they are many they come in the order of their own index.
                let (again, way) = store.jobs_within(&query, 0).unwrap();
                assert_eq!(again.jobs, found.jobs, "{key} {value} {sort:?} {way:?}");
                assert!(sort.is_some() || way == Way::Ordered, "{key} {value}: {way:?}");
            }
        }
    });
}

#[test]
fn of_a_condition_that_few_fulfil_the_last_are_found_day_by_day() {
    of_both(|store, server, _| {
        let jobs = each(store);
        for (text, user, ascending, offset) in [
            ("memory_peak_bytes>155MiB", None, false, 0),
            ("memory_peak_bytes>155MiB", None, true, 300),
            ("wall_s<300", Some("u4"), false, 10),
            ("memory_peak_bytes>1TiB", None, false, 0),
        ] {
            let conditions = columns::conditions(text).unwrap();
            let holds = |job: &JobRow| {
                conditions.iter().all(|condition| match condition.compare {
                    columns::Compare::Above => number(job, condition.column.key) > condition.value,
                    _ => number(job, condition.column.key) < condition.value,
                })
            };
            let mut want: Vec<&JobRow> = jobs.iter().filter(|job| holds(job)).collect();
            want.retain(|job| user.is_none_or(|user| is(job, "user", user)));
            if ascending {
                want.reverse();
            }
            let want: Vec<&JobRow> = want.into_iter().skip(offset).take(50).collect();
            let query = JobQuery {
                user: user.map(str::to_owned),
                ascending,
                offset: u32::try_from(offset).unwrap(),
                limit: 50,
                conditions: conditions.clone(),
                ..all()
            };
            let (found, way) = store.jobs_within(&query, READ_MAX).unwrap();
            assert_eq!(found.jobs.iter().collect::<Vec<_>>(), want, "{text}");
            assert_eq!(want.is_empty(), text.contains("TiB"), "{text}");
            // A file is walked first.
            assert!(way == Way::Tops || way == Way::Ordered && !server, "{text}: {way:?}");
        }
    });
}

#[test]
fn the_last_jobs_of_a_class_are_looked_for_in_growing_portions() {
    of_both(|store, _, sql| {
        let query = JobQuery { name: Some("big".into()), ..all() };
        let want = |count: usize| -> Vec<f64> {
            let of_class = each(store).into_iter().filter(|job| is(job, "name", "big"));
            // So many are looked at.
            let well = of_class.take(30_000).filter(|job| number(job, "exit_code") == 0.0);
            let mut wall_s: Vec<f64> = well.take(500).map(|job| number(&job, "wall_s")).collect();
            assert_eq!(wall_s.len(), count);
            wall_s.reverse();
            wall_s
        };
        // On a busy machine a question may take longer than a hub lets it.
        let asked = |query: &JobQuery| {
            let mut answers = (0..20).map(|_| store.class_weeks(query));
            answers.find(|answer| !matches!(answer, Err(StoreError::TooLong)))
        };
        let found = |query: &JobQuery| -> Vec<f64> {
            let weeks = asked(query).expect("each time it took too long").unwrap();
            weeks.runs.iter().map(|run| run.wall_s).collect()
        };
        // None of the first portion, all of the second.
        assert_eq!(found(&query), want(500));
        sql("UPDATE jobs SET exit_code = 1 WHERE job > 20000 AND job % 100 <> 3");
        sql("UPDATE jobs SET exit_code = 1 WHERE job > 5000 AND job <= 20000 AND job % 100 <> 7");
        assert_eq!(found(&query), want(303));
        sql("UPDATE jobs SET exit_code = 1");
        assert_eq!(found(&query), Vec::<f64>::new());
    });
}

/// PostgreSQL may take another index than that of the numbers by its statistics, and read all of it for each thousand.
#[test]
fn a_server_finds_listed_jobs_by_their_numbers() {
    let Some(server) = Server::start() else { return };
    let (store, alpha) = known(Store::open(&server.at(), None).unwrap());
    let mut client = server.client();
    filled(&store, alpha, &mut |text| client.batch_execute(text).unwrap());
    let mut read = |index: &str| -> i64 {
        let find = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = $1";
        client.query_one(find, &[&index]).unwrap().get(0)
    };
    let others = ["jobs_failed", "jobs_failed_host", "jobs_host", "jobs_ended"];
    let before = (read("jobs_pkey"), others.map(&mut read));
    let query = JobQuery {
        host: Some("beta".into()),
        ending: Some(Ending::Failed),
        sort: columns::find("wall_s"),
        limit: 20,
        ..all()
    };
    // Often enough for a plan that is kept.
    for _ in 0..8 {
        assert_eq!(store.jobs_within(&query, 0).unwrap().1, Way::Tops);
    }
    // The connection tells its counts when it is closed.
    drop(store);
    let until = Instant::now() + Duration::from_secs(180);
    while read("jobs_pkey") < before.0 + 8 * 256 {
        assert!(Instant::now() < until, "rows were not found by their numbers");
        std::thread::sleep(Duration::from_millis(20));
    }
    // To count whether there are few, one of each is looked at.
    for (index, before) in others.into_iter().zip(before.1) {
        let read = read(index) - before;
        assert!(read <= 100, "{read} rows of {index} were read");
    }
}

/// What step 6 of the schema made.
const MADE: [&str; 5] =
    ["days_all", "jobs_failed_host", "jobs_failed_name", "jobs_failed_project", "jobs_failed_user"];

fn drop_made() -> String {
    let made = MADE.map(|index| format!("DROP INDEX {index};")).concat();
    let since = "DROP TABLE minutes; DROP INDEX jobs_failed; ALTER TABLE jobs DROP COLUMN ended_by; \
                 CREATE INDEX jobs_failed ON jobs (ended_us) WHERE (exit_code IS NULL OR exit_code <> 0);";
    format!("{made} {since}")
}

/// Some jobs of which one of three failed.
fn some() -> Vec<pinfold_proto::view::ReportView> {
    (1..=60u64)
        .map(|job| {
            let mut one = report(job, ["a", "b"][(job % 2) as usize], job << 20);
            one.exit_code = Some(i32::from(job % 3 == 0));
            one
        })
        .collect()
}

#[test]
fn an_earlier_file_gets_its_indexes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hub.db");
    let (store, host) = known(Store::open_file(&file, None).unwrap());
    store.ingest(host, &bundle(some()), 1).unwrap();
    drop(store);
    let earlier = rusqlite::Connection::open(&file).unwrap();
    earlier.execute_batch(&format!("{} PRAGMA user_version = 5", drop_made())).unwrap();
    let store = Store::open_file(&file, None).unwrap();
    check_lists(&store);
    let version: u32 = earlier.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, SCHEMA_VERSION);
    for index in MADE {
        let find = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name = ?1";
        assert_eq!(earlier.query_row(find, [index], |row| row.get::<_, i64>(0)).unwrap(), 1, "{index}");
    }
}

#[test]
fn an_earlier_server_gets_its_indexes() {
    let Some(server) = Server::start() else { return };
    let (store, host) = known(Store::open(&server.at(), None).unwrap());
    store.ingest(host, &bundle(some()), 1).unwrap();
    drop(store);
    let mut client = server.client();
    client.batch_execute(&format!("{} UPDATE schema_version SET version = 5", drop_made())).unwrap();
    let store = Store::open(&server.at(), None).unwrap();
    check_lists(&store);
    let version: i64 = client.query_one("SELECT version FROM schema_version", &[]).unwrap().get(0);
    assert_eq!(version, i64::from(SCHEMA_VERSION));
    for index in MADE {
        let find = "SELECT 1 FROM pg_indexes WHERE schemaname = 'public' AND indexname = $1";
        assert_eq!(client.query(find, &[&index]).unwrap().len(), 1, "{index}");
    }
}

fn a_job_that_was_ended_failed(store: &Store, host: i64) {
    let ends = [(0, None), (0, Some(End::Timeout)), (0, Some(End::Cancelled)), (1, None)];
    let jobs = (1..).zip(ends).map(|(job, (code, end))| {
        let mut one = report(job, "a", job << 20);
        (one.exit_code, one.end) = (Some(code), end);
        one
    });
    store.ingest(host, &bundle(jobs.collect()), 1).unwrap();
    let found = |ending| {
        let query = JobQuery { ending: Some(ending), limit: 10, ..all() };
        let mut jobs: Vec<f64> =
            store.jobs(&query).unwrap().jobs.iter().map(|job| number(job, "job")).collect();
        jobs.sort_by(f64::total_cmp);
        jobs
    };
    assert_eq!((found(Ending::Succeeded), found(Ending::Failed)), (vec![1.0], vec![2.0, 3.0, 4.0]));
    for usage in [store.usage(Group::All, &all()), store.usage_of_jobs(Group::All, &all())] {
        assert_eq!(usage.unwrap()[0].failed, 3);
    }
    store.sum_anew().unwrap();
    assert_eq!(store.usage(Group::All, &all()).unwrap()[0].failed, 3);
}

#[test]
fn a_job_that_was_ended_failed_whatever_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let (store, host) = known(Store::open_file(&dir.path().join("hub.db"), None).unwrap());
    a_job_that_was_ended_failed(&store, host);
    let Some(server) = Server::start() else { return };
    let (store, host) = known(Store::open(&server.at(), None).unwrap());
    a_job_that_was_ended_failed(&store, host);
}
