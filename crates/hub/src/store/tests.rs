use pinfold_hubwire::bundle::{self, Bundle, WIRE_VERSION};
use pinfold_proto::view::ReportView;
use serde_json::json;

use super::*;

const MONTH_US: u64 = 31 * 86_400_000_000;

fn report(job: u64, name: &str, peak_bytes: u64) -> ReportView {
    let mut value = json!({
        "version": 1, "job": job, "name": name, "command": [], "user": "ann", "project": null, "state": "exited",
        "class": "primary", "priority": 10, "cpus": null, "submitted_s": 1_700_000_000.0, "started_s": 1_700_000_001.0,
        "ended_s": 1_700_003_601.0, "exit_code": 0, "signal": null, "reason": null, "queued_s": 1.0, "wall_s": 3600.0,
        "suspended_s": 0.0, "cpu_user_s": 1800.0, "cpu_system_s": 0.0, "cores": 2, "claim_bytes": 4u64 << 30,
        "memory_peak_bytes": peak_bytes, "memory_mean_bytes": 0, "cache_peak_bytes": null, "swap_peak_bytes": 0,
        "virtual_peak_bytes": 0, "io_read_bytes": 0, "io_write_bytes": 0, "processes_total": 1, "processes_peak": 1,
        "threads_peak": 1, "samples": 1,
    });
    value["series"] = json!([{ "time_s": 1.0, "cpu_cores": 0.5, "memory_bytes": 1, "cache_bytes": null, "swap_bytes": 0,
        "io_read_bytes": 0, "io_write_bytes": 0, "processes": 1, "threads": 1, "state": "running" }]);
    serde_json::from_value(value).unwrap()
}

fn bundle(reports: Vec<ReportView>) -> Bundle {
    let parts = reports.into_iter().flat_map(|report| bundle::parts(report, Vec::new())).collect();
    Bundle { version: WIRE_VERSION, origin: "o".into(), boot: "b".into(), made_us: 0, parts }
}

fn store() -> (tempfile::TempDir, Store, i64) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("hub.db"), None).unwrap();
    store.add_token(Kind::Host, "alpha", &[1; 32], "test", 1).unwrap();
    let host = store.holder(&[1; 32]).unwrap().unwrap().host;
    (dir, store, host)
}

#[test]
fn whole_months_go_and_what_is_younger_stays() {
    let (_dir, store, host) = store();
    let now_us = 1_800_000_000_000_000;
    for (job, age) in [(1, 5), (2, 2), (3, 0)] {
        store.ingest(host, &bundle(vec![report(job, "x", 1)]), now_us - age * MONTH_US).unwrap();
    }
    assert_eq!(store.series_months().unwrap().len(), 3);
    let keep = Keep { series_months: 1, jobs_months: 3 };
    assert_eq!(store.remove_old(keep, now_us).unwrap(), Kept { series_months: 2, jobs: 1 });
    assert_eq!(store.remove_old(keep, now_us).unwrap(), Kept::default());
    let left = store
        .reports(&ReportQuery { access: Access::All, limit: 10, series: true, ..ReportQuery::default() })
        .unwrap();
    let left: Vec<_> =
        left.reports.iter().map(|one| (one.head.report.job, one.head.report.series.is_some())).collect();
    assert_eq!(left, [(2, false), (3, true)]);
}

#[test]
fn a_copy_is_verified_and_comes_back() {
    let (dir, store, host) = store();
    store.ingest(host, &bundle(vec![report(1, "x", 1), report(2, "y", 1)]), 1).unwrap();
    let (file, copy) = (dir.path().join("hub.db"), dir.path().join("copy.db"));
    let copied = backup(&file, &copy).unwrap();
    assert_eq!(copied, Copied { version: SCHEMA_VERSION, hosts: 1, jobs: 2 });
    assert!(backup(&file, &copy).is_err(), "a copy is not written over");
    store.ingest(host, &bundle(vec![report(3, "z", 1)]), 1).unwrap();
    drop(store);
    assert_eq!(restore(&file, &copy).unwrap(), copied);
    assert_eq!(Store::open(&file, None).unwrap().totals().unwrap().0, 2);
    assert_eq!(verify(&dir.path().join("hub.db.before")).unwrap().jobs, 3);
    // A damaged one is not put in its place.
    let mut bytes = std::fs::read(&copy).unwrap();
    let middle = bytes.len() / 2;
    bytes[4096..middle].fill(0xff);
    std::fs::write(&copy, bytes).unwrap();
    assert!(restore(&file, &copy).is_err());
    assert_eq!(Store::open(&file, None).unwrap().totals().unwrap().0, 2);
    std::fs::write(&copy, "no database").unwrap();
    assert!(verify(&copy).is_err());
}

#[test]
fn a_later_database_is_left_alone() {
    let (dir, store, _) = store();
    drop(store);
    let file = dir.path().join("hub.db");
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Store::open(&file, None).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
}

#[test]
fn classes_and_usage_add_up() {
    let (_dir, store, host) = store();
    let jobs = (1..=100).map(|job| report(job, "x", job << 20)).chain([report(101, "y", 1 << 30)]).collect();
    store.ingest(host, &bundle(jobs), 1).unwrap();
    let query = JobQuery { access: Access::All, limit: 10, ..JobQuery::default() };
    let classes = store.classes(&query).unwrap();
    let x = &classes.rows[0];
    assert_eq!((x.name.as_str(), x.jobs, x.failed, x.hosts), ("x", 100, 0, 1));
    let mib = f64::from(1 << 20);
    assert!(
        (x.memory_peak_bytes.p50 - 51.0 * mib).abs() < 1.5 * mib
            && (x.memory_peak_bytes.most - 100.0 * mib).abs() < 1.0
    );
    assert!((x.cores_used_part - 0.25).abs() < 1e-9);
    let usage = store.usage(Group::User, &query).unwrap();
    assert_eq!((usage.len(), usage[0].jobs), (1, 101));
    assert!((usage[0].cpu_h - 50.5).abs() < 1e-9, "{usage:?}");
    assert!((usage[0].claimed_gibh - 404.0).abs() < 1e-6, "{usage:?}");
}

#[test]
fn lists_are_sorted_filtered_and_paged() {
    let (_dir, store, host) = store();
    let jobs =
        (1..=30).map(|job| report(job, if job % 2 == 0 { "even[1]" } else { "odd" }, job << 20)).collect();
    store.ingest(host, &bundle(jobs), 1).unwrap();
    let numbers = |query: &JobQuery| -> (Vec<i64>, bool) {
        let page = store.jobs(query).unwrap();
        let number = |job: &JobRow| match job.cells[1] {
            Cell::Whole(number) => number,
            _ => 0,
        };
        (page.jobs.iter().map(number).collect(), page.more)
    };
    let peak = columns::find("memory_peak_bytes");
    let query = JobQuery { access: Access::All, sort: peak, limit: 3, ..JobQuery::default() };
    assert_eq!(numbers(&query), (vec![30, 29, 28], true));
    assert_eq!(numbers(&JobQuery { offset: 29, ..query.clone() }), (vec![1], false));
    assert_eq!(numbers(&JobQuery { ascending: true, ..query.clone() }), (vec![1, 2, 3], true));
    let conditions = columns::conditions("memory_peak_bytes<4MiB").unwrap();
    assert_eq!(numbers(&JobQuery { conditions, ..query.clone() }), (vec![3, 2, 1], false));
    // Only the asterisk stands for anything.
    assert_eq!(
        numbers(&JobQuery { name: Some("even[1*".into()), ..query.clone() }),
        (vec![30, 28, 26], true)
    );
    assert_eq!(numbers(&JobQuery { name: Some("o?d*".into()), ..query.clone() }).0, Vec::<i64>::new());
    assert_eq!(numbers(&JobQuery { host: Some("beta".into()), ..query }).0, Vec::<i64>::new());
}

#[test]
fn databases_are_named_by_kind() {
    assert_eq!(database_file("sqlite:/a/b.db").unwrap(), Path::new("/a/b.db"));
    assert!(database_file("postgres://x/y").unwrap_err().contains("not built into"));
    for bad in ["", "sqlite:", "/a/b.db", "mysql://x"] {
        assert!(database_file(bad).is_err(), "{bad}");
    }
}
