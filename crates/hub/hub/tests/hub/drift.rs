//! A class by week: what is said of it when its last weeks differ from those before, and when they do not.
use std::slice::from_ref as one;

use pinfold_hub::drift::{self, Report};
use pinfold_hub::store::{Access, Ending, JobQuery, Kind, Store};
use pinfold_hub::weekly::Week;
use pinfold_hub::workflow::steps::Change;
use pinfold_hubwire::bundle;
use pinfold_proto::view::ReportView;
use serde_json::Value;

use crate::common::{Served, bearer, bundle_of, report, token};

/// Monday of 2026-W01.
const FIRST_S: f64 = 1_766_966_400.0;
const WEEK_S: f64 = 7.0 * 86_400.0;

/// Ten jobs of a class in a week: their memory in MiB and their wall time, give or take a twentieth.
fn week(number: u32, mib: u64, wall_s: f64, version: Option<&str>) -> Vec<ReportView> {
    let job = |at: u32| {
        let mut job = report(u64::from(number * 100 + at + 1), "align", 0);
        job.ended_s = Some(FIRST_S + f64::from(number) * WEEK_S + f64::from(at) * 3_600.0);
        job.memory_peak_bytes = (mib * 1_048_576 / 100) * u64::from(95 + at);
        job.wall_s = Some(wall_s * (0.95 + f64::from(at) / 100.0));
        job.comment = version.map(|version| format!("workflow=w run={number} version={version}"));
        job
    };
    (0..10).map(job).collect()
}

fn with_weeks(weeks: &[(u64, f64)]) -> (tempfile::TempDir, Store, Report) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_file(&dir.path().join("hub.db"), None).unwrap();
    store.add_token(Kind::Host, "alpha", &[1; 32], "test", 1).unwrap();
    let host = store.holder(&[1; 32]).unwrap().unwrap().host;
    for (number, (mib, wall_s)) in (0..).zip(weeks) {
        let version = if number < 6 { Some("1.0") } else { Some("2.0") };
        store.ingest(host, &bundle_of(week(number, *mib, *wall_s, version)), 1).unwrap();
    }
    let query = JobQuery { access: Access::All, name: Some("align".into()), ..JobQuery::default() };
    let told = drift::report(&store, &query).unwrap();
    (dir, store, told)
}

#[track_caller]
fn check(weeks: &[(u64, f64)], memory: Change, wall: Change) -> Report {
    let (_dir, _store, told) = with_weeks(weeks);
    assert_eq!((told.memory.change, told.wall.change), (memory, wall), "{:?}", told.words());
    assert_eq!(told.weeks.len(), weeks.len());
    told
}

#[test]
fn last_weeks_are_judged_by_those_before() {
    let steady = [(100, 60.0), (104, 58.0), (98, 61.0), (101, 62.0), (102, 60.0), (99, 59.0)];
    let told = check(&[&steady[..], &[(100, 60.0), (103, 61.0)]].concat(), Change::Within, Change::Within);
    assert!(told.words()[0].starts_with("Memory peak: as before"), "{:?}", told.words());
    assert!(!told.advice.drifts && told.advice.of > 0, "{:?}", told.advice);
    let told = check(&[&steady[..], &[(400, 60.0), (3_000, 61.0)]].concat(), Change::More, Change::Within);
    assert!(
        told.words()[0].starts_with("Memory peak: more than before in the last 2 weeks"),
        "{:?}",
        told.words()
    );
    assert!(told.advice.drifts, "as advice has it: {:?}", told.advice);
    let versions: Vec<_> = told.versions.iter().map(|one| (one.version.as_deref(), one.jobs)).collect();
    assert_eq!(versions, [(Some("1.0"), 60), (Some("2.0"), 20)]);
    assert!(told.versions[1].peak_p50_bytes > 3.0 * told.versions[0].peak_p50_bytes);
    check(&[&steady[..], &[(100, 30.0), (103, 31.0)]].concat(), Change::Within, Change::Less);
    let told = check(&steady[..4], Change::TooFew, Change::TooFew);
    assert!(told.words()[0].contains("It needs 3 earlier weeks"), "{:?}", told.words());
    assert_eq!(told.weeks[0].0, Week::read("2026-W01").unwrap());
}

#[test]
fn only_what_is_asked_for_counts() {
    let (_dir, store, _) = with_weeks(&[(100, 60.0); 8]);
    let host = store.holder(&[1; 32]).unwrap().unwrap().host;
    let mut late = week(6, 100, 60.0, None).remove(0);
    late.job = 9_999;
    late.ended_s = Some(FIRST_S + 6.5 * WEEK_S);
    store.ingest(host, &bundle_of(vec![late]), 1).unwrap();
    let day_us = 86_400_000_000;
    let monday_us = Week::read("2026-W07").unwrap().range_us().0;
    let query = JobQuery { access: Access::All, name: Some("align".into()), ..JobQuery::default() };
    let weeks = store.class_weeks(&JobQuery { since_us: Some(monday_us + day_us), ..query.clone() }).unwrap();
    let jobs: Vec<u64> = weeks.weeks.iter().map(|(_, row)| row.jobs).collect();
    assert_eq!((jobs, weeks.last.unwrap().jobs, weeks.runs.len()), (vec![1, 10], 11, 11));
    // Advice rests on jobs that ended well, whichever end is asked for.
    let weeks = store.class_weeks(&JobQuery { ending: Some(Ending::Failed), ..query.clone() }).unwrap();
    assert_eq!((weeks.weeks.len(), weeks.runs.len()), (0, 81));
    let of = |user: &str| store.class_weeks(&JobQuery { user: Some(user.into()), ..query.clone() }).unwrap();
    assert_eq!((of("nobody-here").runs.len(), of("nobody-here").weeks.len()), (0, 0));
}

#[test]
fn it_is_told_on_the_page_and_to_programs() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(&dir.path().join("hub.db"), None);
    let host = token(&served.hub.store, Kind::Host, "alpha");
    for number in 0..8 {
        let packed =
            bundle::pack(&bundle_of(week(number, if number < 6 { 100 } else { 300 }, 60.0, None))).unwrap();
        assert_eq!(served.request("POST", "/api/v1/bundles", &[bearer(&host)], &packed).status, 200);
    }
    let reader = token(&served.hub.store, Kind::Reader, "ops");
    let api = |query: &str| served.get(&format!("/api/v1/class?{query}"), &[bearer(&reader)]);
    let told: Value = serde_json::from_str(&api("name=align&since_us=0").body).unwrap();
    assert_eq!(
        (told["weeks"].as_array().unwrap().len(), &told["memory_peak_bytes"]["change"]),
        (8, &"more".into())
    );
    assert_eq!(told["versions"], serde_json::json!([]), "no run says one");
    for (query, status) in [("", 400), ("name=", 400), ("name=x&days=3", 400), ("name=nothing", 200)] {
        assert_eq!(api(query).status, status, "{query}");
    }
    let cookie = served.sign_in();
    let page = |query: &str| served.get(&format!("/classes/weeks?{query}"), one(&cookie));
    let body = page("days=3650&name=align").body;
    for words in ["Memory peak: more than before", "2026-W08", "Advice: the class", "href=\"/jobs?"] {
        assert!(body.contains(words), "{words}: {body}");
    }
    assert!(page("").body.contains("A name is needed"));
    assert!(page("days=3650&name=nothing").body.contains("No such job ran"));
    for (query, status) in [("name=a&figures=wall_s%3E1", 400), ("name=a&zz=1", 400), ("name=a&days=x", 400)]
    {
        assert_eq!(page(query).status, status, "{query}");
    }
    assert_eq!(served.get("/classes/weeks.csv", one(&cookie)).status, 400, "it needs a name");
}
