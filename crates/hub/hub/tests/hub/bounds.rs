//! What a host or a question can take of the hub is bounded, the same over both databases.

use pinfold_hub::store::{
    Access, DAYS_A_BUNDLE, Group, JOBS_A_BUNDLE, JobQuery, Keep, LinkFor, POINTS_MAX, ReportQuery, Store,
    StoreError, Whose,
};
use pinfold_hubwire::bundle::POINTS_A_PART;
use pinfold_proto::view::ReportView;

use crate::server::Server;
use crate::store::{MONTH_US, bundle, known, report};

const DAY_S: f64 = 86_400.0;

fn all() -> JobQuery {
    JobQuery { access: Access::All, ..JobQuery::default() }
}

fn link<'a>(name: &'a str, via: &'a str) -> LinkFor<'a> {
    LinkFor { name, via, access: &Access::All }
}

/// A hash of its own for each number.
fn hash(number: u32) -> [u8; 32] {
    let mut hash = [0; 32];
    hash[..4].copy_from_slice(&number.to_le_bytes());
    hash
}

/// A host chooses the names that it vouches for: they do not multiply its links and sessions.
pub(crate) fn links_and_sessions_of_a_host_are_bounded(store: &Store, _host: i64) {
    let via = "host alpha";
    for number in 0..200 {
        store.add_code(&hash(number), link(&format!("u{number}@alpha"), via), 900, 1).unwrap();
    }
    let more = store.add_code(&hash(200), link("more@alpha", via), 900, 1).unwrap_err().to_string();
    assert!(more.contains("200 unused links of users of host alpha"), "{more}");
    // Others have theirs, and one that was used makes room.
    store.add_code(&hash(201), link("ann@beta", "host beta"), 900, 1).unwrap();
    store.sign_in(&hash(0), &hash(1_000), "c", 5_000, 2).unwrap().unwrap();
    store.add_code(&hash(202), link("more@alpha", via), 900, 2).unwrap();
    // Of one name and token the oldest session ends, and no other's.
    store.sign_in(&hash(201), &hash(1_001), "c", 4_000, 2).unwrap().unwrap();
    store.sign_in(&hash(202), &hash(2_000), "c", 6_000, 2).unwrap().unwrap();
    for number in 1..=20u32 {
        store.add_code(&hash(202), link("more@alpha", via), 900, 2).unwrap();
        let expires_us = 6_000 + u64::from(number);
        store.sign_in(&hash(202), &hash(2_000 + number), "c", expires_us, 2).unwrap().unwrap();
    }
    let is_there = |number: u32| store.session(&hash(number), 3).unwrap().is_some();
    assert!(!is_there(2_000) && (2_001..=2_020).all(is_there) && is_there(1_000) && is_there(1_001));
}

#[test]
fn sessions_of_all_names_of_a_host_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = known(Store::open_file(&dir.path().join("hub.db"), None).unwrap());
    let beside = rusqlite::Connection::open(dir.path().join("hub.db")).unwrap();
    beside
        .execute_batch(
            "WITH RECURSIVE numbers(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM numbers WHERE x < 1200) \
             INSERT INTO sessions (hash, name, via, csrf, expires_us) \
             SELECT CAST(x AS BLOB), 'u' || x || '@alpha', 'host alpha', 'c', 5000 + x FROM numbers",
        )
        .unwrap();
    store.add_code(&hash(1), link("ann@alpha", "host alpha"), 900, 1).unwrap();
    store.sign_in(&hash(1), &hash(2), "c", 9_000, 2).unwrap().unwrap();
    let count = |words: &str| -> i64 {
        beside
            .query_row(&format!("SELECT count(*) FROM sessions WHERE {words}"), [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!((count("1 = 1"), count("expires_us <= 5201"), count("expires_us = 9000")), (1_000, 0, 1));
}

/// Of a database that is full for hosts.
fn only_hosts_lack_room(store: &Store) {
    let full = store.add_code(&hash(1), link("ann@alpha", "host alpha"), 900, 1).unwrap_err().to_string();
    assert!(full.contains("no room"), "{full}");
    for (number, via) in [(2, ""), (3, "reader ops")] {
        store.add_code(&hash(number), link("ann", via), 900, 1).unwrap();
        store.sign_in(&hash(number), &hash(10 + number), "c", 5_000, 2).unwrap().unwrap();
    }
}

#[test]
fn links_of_hosts_go_where_hosts_may_fill_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hub.db");
    let (store, _) = known(Store::open_file(&file, None).unwrap());
    let bytes = store.bytes().unwrap();
    drop(store);
    only_hosts_lack_room(&Store::open_file(&file, Some(bytes + 4_096)).unwrap());
    let Some(server) = Server::start() else { return };
    only_hosts_lack_room(&known(Store::open(&server.at(), Some(1 << 20)).unwrap()).0);
}

/// A job that ended so many days later than others.
fn later(number: u64, days: u32) -> ReportView {
    let mut one = report(number, "x", 1 << 20);
    one.ended_s = one.ended_s.map(|end_s| end_s + f64::from(days) * DAY_S);
    one.series = None;
    one
}

/// Nobody else writes while a bundle is written.
pub(crate) fn jobs_and_days_of_a_bundle_are_bounded(store: &Store, host: i64) {
    let days = u32::try_from(DAYS_A_BUNDLE).unwrap();
    let of_days = |days: u32| bundle((1..=days).map(|day| later(day.into(), day)).collect());
    let refused = store.ingest(host, &of_days(days + 1), 1).unwrap_err().to_string();
    assert_eq!(refused, "job 401, part 0: the jobs of the bundle ended on more than 400 days");
    let jobs = u64::try_from(JOBS_A_BUNDLE).unwrap();
    let of_jobs = |jobs: u64| bundle((1..=jobs).map(|job| later(job, 0)).collect());
    let refused = store.ingest(host, &of_jobs(jobs + 1), 1).unwrap_err().to_string();
    assert_eq!(refused, "job 1001, part 0: the bundle has more than 1,000 jobs");
    assert_eq!(store.totals().unwrap().0, 0, "nothing of them is kept");
    assert_eq!(store.ingest(host, &of_days(days), 1).unwrap().new, 400);
    assert_eq!(store.ingest(host, &of_jobs(jobs), 1).unwrap().new, 600);
}

/// Reports whose series would make an answer too long are left out, the earlier ones.
pub(crate) fn series_of_an_answer_are_bounded(store: &Store, host: i64) {
    let points = POINTS_MAX / 5 * 2;
    let long = |number: u64, points: usize| {
        let mut one = report(number, "x", 1 << 20);
        let point = one.series.as_ref().unwrap()[0];
        one.series = Some(vec![point; points]);
        one
    };
    for job in 1..=3 {
        store.ingest(host, &bundle(vec![long(job, points)]), 1).unwrap();
    }
    let ask = |limit: u32| {
        let query = ReportQuery { access: Access::All, limit, series: true, ..ReportQuery::default() };
        // On a busy machine a question may take longer than a hub lets it.
        let mut answers = (0..20).map(|_| store.reports(&query));
        let answered = answers.find(|answer| !matches!(answer, Err(StoreError::TooLong)));
        let answered = answered.expect("each time it took too long").unwrap();
        let of = |head: &ReportView| (head.job, head.series.as_ref().map_or(0, Vec::len));
        (answered.reports.iter().map(|one| of(&one.head.report)).collect::<Vec<_>>(), answered.long)
    };
    assert_eq!(ask(2), (vec![(2, points), (3, points)], false));
    assert_eq!(ask(3), (vec![(2, points), (3, points)], true));
    // One that is longer by itself is thinned.
    store.ingest(host, &bundle(vec![long(4, POINTS_MAX + POINTS_A_PART)]), 1).unwrap();
    assert_eq!(ask(3), (vec![(3, points), (4, (POINTS_MAX + POINTS_A_PART) / 2)], true));
}

/// What a host with a clock from years ahead told of is not the last of a class for years.
pub(crate) fn jobs_from_ahead_are_not_the_last_of_a_class(store: &Store, host: i64) {
    let job = |number: u64| {
        let mut one = report(number, "align", 1 << 30);
        one.command = vec!["align".into()];
        one
    };
    let ahead = |number: u64| {
        let mut one = job(number);
        one.ended_s = Some(7_000_000_000.0);
        one
    };
    store.ingest(host, &bundle((1..=5).map(job).chain((6..=30).map(ahead)).collect()), 1).unwrap();
    let query = JobQuery { name: Some("align".into()), ..all() };
    for until_us in [None, Some(8_000_000_000_000_000)] {
        let told = store.class_weeks(&JobQuery { until_us, ..query.clone() }).unwrap();
        let jobs = (told.weeks.len(), told.last.unwrap().jobs, told.hosts[0].jobs, told.runs.len());
        assert_eq!(jobs, (1, 5, 5, 5));
    }
    let learned = store.learned_within(&["*".to_owned()], Whose::Users, 0, 20).unwrap();
    assert_eq!(learned.iter().map(|row| row.runs).collect::<Vec<_>>(), [5]);
}

/// Sums by day have no index by month: they are looked through only where there is a job to be removed.
#[test]
fn sums_are_not_looked_through_where_no_job_is_old() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hub.db");
    let (store, host) = known(Store::open_file(&file, None).unwrap());
    let now_us = 1_800_000_000_000_000;
    store.ingest(host, &bundle(vec![report(1, "x", 1)]), now_us).unwrap();
    let beside = rusqlite::Connection::open(&file).unwrap();
    // As if it were old, which nothing but a look at all rows shows.
    beside.execute_batch("UPDATE days SET month = 200001").unwrap();
    let keep = Keep { series_months: 1, jobs_months: 3 };
    assert_eq!(store.remove_old(keep, now_us).unwrap().jobs, 0);
    assert_eq!(store.usage(Group::All, &all()).unwrap()[0].jobs, 1);
    assert_eq!(store.remove_old(keep, now_us + 6 * MONTH_US).unwrap().jobs, 1);
    assert_eq!(store.usage(Group::All, &all()).unwrap().len(), 0);
}
