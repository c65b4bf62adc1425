//! Clocks that differ. A hub whose own clock is wrong: nothing is filed by it, and nothing that is there is removed. A host
//! whose clock is ahead: none of its jobs is missing, and each is there once.
use std::slice::from_ref as one;

use pinfold_hub::store::{Access, JobQuery, Keep, Kept, Kind, Store, Way, columns, now_us};
use pinfold_hubwire::bundle::{self, Live, SpoolFigures, WIRE_VERSION};

use crate::common::{Answer, Served, bearer, bundle_of, idle, report, token};

const DAY_US: u64 = 86_400_000_000;

/// The host with this token says what its clock says.
#[track_caller]
fn tell(served: &Served, token: &str, sent_us: u64) {
    let live = Live {
        version: WIRE_VERSION,
        boot: "b".into(),
        sent_us,
        status: idle(),
        spool: SpoolFigures::default(),
        map: None,
        topology: None,
        asked: Vec::new(),
    };
    let packed = bundle::pack(&live).unwrap();
    let answer = served.request("POST", "/api/v1/live", &[bearer(token)], &packed);
    assert_eq!(answer.status, 200, "{}", answer.body);
}

fn push(served: &Served, token: &str, job: u64) -> Answer {
    let packed = bundle::pack(&bundle_of(vec![report(job, "x", 1)])).unwrap();
    served.request("POST", "/api/v1/bundles", &[bearer(token)], &packed)
}

#[test]
fn a_clock_that_most_hosts_contradict_files_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(&dir.path().join("hub.db"), None);
    let [alpha, beta] = ["alpha", "beta"].map(|name| token(&served.hub.store, Kind::Host, name));
    tell(&served, &alpha, now_us() + 400 * DAY_US);
    assert_eq!(push(&served, &alpha, 1).status, 200, "one host with a wrong clock is taken as it is");
    tell(&served, &beta, now_us() + 400 * DAY_US);
    let refused = push(&served, &alpha, 2);
    assert_eq!(refused.status, 503, "the host keeps it, and sends it again");
    assert!(refused.body.contains("2 of 2 hosts differ"), "{}", refused.body);
    assert_eq!(served.hub.store.totals().unwrap().0, 1);
    // As soon as the clocks agree it is taken.
    tell(&served, &alpha, now_us());
    assert_eq!(push(&served, &alpha, 2).status, 200);
}

/// A database with a job that came in at this moment, by the clock that the hub had.
fn with_job(file: &std::path::Path, received_us: u64) -> String {
    let store = Store::open_file(file, None).unwrap();
    let token = token(&store, Kind::Host, "alpha");
    let host = store.hosts().unwrap()[0].id;
    store.ingest(host, &bundle_of(vec![report(1, "x", 1)]), received_us).unwrap();
    token
}

#[test]
fn a_clock_that_is_behind_the_database_files_nothing_until_a_host_confirms_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hub.db");
    let alpha = with_job(&file, now_us() + 10 * DAY_US);
    let served = Served::new(&file, None);
    let refused = push(&served, &alpha, 2);
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("this hub's clock says"), "{}", refused.body);
    // Then it was the clock before that was wrong.
    tell(&served, &alpha, now_us());
    assert_eq!(push(&served, &alpha, 2).status, 200);
}

#[test]
fn old_months_stay_until_a_host_confirms_the_clock() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hub.db");
    // To a hub whose clock is years ahead all is as old as this.
    let alpha = with_job(&file, 1);
    let served = Served::new(&file, None);
    let keep = Keep::default();
    assert_eq!(served.hub.remove_old(keep).unwrap(), None, "no host is heard");
    tell(&served, &alpha, now_us() - 2_000 * DAY_US);
    assert_eq!(served.hub.remove_old(keep).unwrap(), None, "the host differs");
    assert_eq!(served.hub.store.totals().unwrap().0, 1);
    tell(&served, &alpha, now_us());
    assert_eq!(served.hub.remove_old(keep).unwrap(), Some(Kept { series_months: 1, jobs: 1 }));
}

/// Jobs that ended an hour ago, five days ago, and in 30 days by the clock of their host, beta.
fn of_three_times(served: &Served) -> String {
    let [alpha, beta] = ["alpha", "beta"].map(|name| token(&served.hub.store, Kind::Host, name));
    let (now_us, hour_us) = (now_us(), DAY_US / 24);
    let times = [
        (&alpha, "recent", now_us - hour_us),
        (&alpha, "old", now_us - 5 * DAY_US),
        (&beta, "ahead", now_us + 30 * DAY_US),
    ];
    for (job, (token, name, ended_us)) in (1..).zip(times) {
        let mut one = report(job, name, 1);
        one.ended_s = Some(pinfold_proto::view::seconds(ended_us));
        let packed = bundle::pack(&bundle_of(vec![one])).unwrap();
        let answer = served.request("POST", "/api/v1/bundles", &[bearer(token)], &packed);
        assert_eq!(answer.body, r#"{"new":1,"known":0}"#);
    }
    beta
}

#[test]
fn jobs_of_a_clock_that_is_ahead_are_within_each_time_once() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(&dir.path().join("hub.db"), None);
    let beta = of_three_times(&served);
    let cookie = served.sign_in();
    let column = |path: &str, head: &str| -> Vec<String> {
        let csv = served.get(path, one(&cookie)).body;
        let mut rows = csv.lines().map(|row| row.split(','));
        let at = rows.next().unwrap().position(|word| word == head).unwrap_or_else(|| panic!("{csv}"));
        rows.map(|mut row| row.nth(at).unwrap().to_owned()).collect()
    };
    for sort in ["ended", "memory_peak_bytes", "name"] {
        let path = format!("/jobs.csv?days=1&sort={sort}&dir=up");
        let mut names = column(&path, "name");
        names.sort();
        assert_eq!(names, ["ahead", "recent"], "{path}");
    }
    let page = |at: u32| served.get(&format!("/jobs?days=1&limit=1&page={at}"), one(&cookie)).body;
    for (at, want) in [(0, "ahead"), (1, "recent")] {
        let page = page(at);
        for name in ["ahead", "recent", "old"] {
            assert_eq!(page.contains(&format!(">{name}<")), name == want, "page {at}, {name}: {page}");
        }
    }
    assert_eq!(column("/classes.csv?days=1", "name").len(), 2);
    assert_eq!(column("/users.csv?days=1", "jobs"), ["2"]);
    assert_eq!(column("/users.csv?days=7", "jobs"), ["3"]);
    // Its clock is set right, and it sends the job again: that is known.
    assert_eq!(push(&served, &beta, 3).body, r#"{"new":0,"known":1}"#);
    assert_eq!(column("/users.csv?days=1", "jobs"), ["2"]);
}

/// Lists of days to come are of hosts with such a clock, and go when their jobs go.
#[test]
fn jobs_of_a_clock_that_is_ahead_stay_in_top_lists() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(&dir.path().join("hub.db"), None);
    of_three_times(&served);
    let store = &served.hub.store;
    assert_eq!(store.remove_old(Keep::default(), now_us()).unwrap(), Kept::default());
    let query = JobQuery {
        access: Access::All,
        since_us: Some(now_us() - DAY_US),
        sort: columns::find("memory_peak_bytes"),
        limit: 10,
        ..JobQuery::default()
    };
    let (page, way) = store.jobs_within(&query, 0).unwrap();
    assert_eq!((page.jobs.len(), way), (2, Way::Tops));
}
