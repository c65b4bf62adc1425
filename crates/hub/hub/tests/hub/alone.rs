//! Questions about one host: the answer is that of the list of all, and what other hosts said of themselves is not read.
use std::slice::from_ref as one;

use pinfold_hub::store::{Kind, Store, now_us};
use pinfold_hubwire::bundle::{self, Live, SpoolFigures, WIRE_VERSION};

use crate::common::{Served, bearer, bundle_of, idle, machine, map, report, token};

fn live() -> Live {
    Live {
        version: WIRE_VERSION,
        boot: "b".into(),
        sent_us: now_us(),
        status: idle(),
        spool: SpoolFigures::default(),
        map: Some(map()),
        topology: Some(Box::new(machine())),
        asked: Vec::new(),
    }
}

pub(crate) fn one_host_is_as_in_the_list(store: &Store, host: i64) {
    for (number, name) in [(2, "beta"), (3, "gamma")] {
        store.add_token(Kind::Host, name, &[number; 32], "test", 1).unwrap();
    }
    let beta = store.holder(&[2; 32]).unwrap().unwrap().host;
    let packed = bundle::pack(&live()).unwrap();
    store.keep_live(host, &live(), packed, 5).unwrap();
    store.keep_live(beta, &live(), b"damaged".to_vec(), 6).unwrap();
    let all = store.hosts().unwrap();
    let told: Vec<_> = all.iter().map(|host| (&host.name[..], host.seen_us, host.live.is_some())).collect();
    assert_eq!(told, [("alpha", Some(5), true), ("beta", Some(6), false), ("gamma", None, false)]);
    for row in all {
        assert!(store.has_host(&row.name).unwrap());
        assert_eq!(store.host(&row.name).unwrap(), Some(row));
    }
    for name in ["", "ALPHA", "alph", "%"] {
        assert!(!store.has_host(name).unwrap() && store.host(name).unwrap().is_none(), "{name}");
    }
}

/// Readings of the last day are kept, each host's own, and older ones are removed.
pub(crate) fn a_host_has_its_last_day(store: &Store, host: i64) {
    let point = |time_s: f64, busy: f64| {
        let mut reading = idle();
        reading.reading = serde_json::from_value(serde_json::json!({
            "time_s": time_s, "span_s": 2.0, "cpu_busy": busy, "memory_used_bytes": 5, "swap_used_bytes": 0,
            "cpu_stalled": null, "memory_stalled": null, "memory_full_stalled": 0.25, "io_stalled": null,
            "io_full_stalled": null, "temperature_celsius": null, "frequency_mhz": null,
        }))
        .unwrap();
        Live { status: reading, ..live() }
    };
    let day = 86_400_000_000;
    for (at_us, busy) in [(1_000, 1.0), (day, 2.0), (day + 2_000, 3.0), (day + 2_000, 4.0)] {
        // The host's clock is wrong by years: the hub's counts.
        let told = point(9e9, busy);
        store.keep_live(host, &told, bundle::pack(&told).unwrap(), at_us).unwrap();
    }
    let kept = store.minutes(host, 0).unwrap();
    let told: Vec<_> = kept.iter().map(|point| (point.cpu_busy, point.memory_full_stalled)).collect();
    assert_eq!(told, [(Some(2.0), Some(0.25)), (Some(3.0), Some(0.25))]);
    assert_eq!(store.minutes(host, day + 1).unwrap().len(), 1);
    assert_eq!(store.minutes(host + 1, 0).unwrap(), []);
}

#[test]
fn what_another_host_said_of_itself_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hub.db");
    let served = Served::new(&file, None);
    let [alpha, beta] = ["alpha", "beta"].map(|name| token(&served.hub.store, Kind::Host, name));
    let reader = bearer(&token(&served.hub.store, Kind::Reader, "ops"));
    let packed = bundle::pack(&live()).unwrap();
    for host in [&alpha, &beta] {
        assert_eq!(served.request("POST", "/api/v1/live", &[bearer(host)], &packed).status, 200);
    }
    let jobs = bundle::pack(&bundle_of(vec![report(1, "x", 1)])).unwrap();
    assert_eq!(served.request("POST", "/api/v1/bundles", &[bearer(&alpha)], &jobs).status, 200);
    let cookie = served.sign_in();
    let status = |path: &str, line: &String| served.get(path, one(line)).status;
    assert_eq!(status("/api/v1/hosts", &reader), 200);
    // What cannot be read as a state at all: whoever reads it fails.
    let beside = rusqlite::Connection::open(&file).unwrap();
    assert_eq!(beside.execute("UPDATE hosts SET live = 'no state' WHERE name = 'beta'", []).unwrap(), 1);
    assert_eq!(status("/api/v1/hosts", &reader), 500);
    for (path, want) in [
        ("/api/v1/status?host=alpha", 200),
        ("/api/v1/map?host=alpha", 200),
        ("/api/v1/why?host=alpha&job=1", 200),
        ("/api/v1/reports?host=alpha&job=1", 200),
        ("/api/v1/reports?host=alpha&job=2", 200),
        ("/api/v1/reports?host=beta", 200),
        ("/api/v1/status?host=gamma", 404),
        ("/api/v1/map?host=gamma", 404),
        ("/api/v1/why?host=gamma&job=1", 404),
        ("/api/v1/reports?host=gamma", 404),
    ] {
        assert_eq!(status(path, &reader), want, "{path}");
    }
    for (path, want) in [("/hosts/alpha", 200), ("/hosts/alpha/map.svg", 200), ("/hosts/gamma", 404)] {
        assert_eq!(status(path, &cookie), want, "{path}");
    }
    // As the host told it.
    let told = served.get("/api/v1/status?host=alpha", one(&reader)).body;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["hosts"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&told["hosts"][0]["of"]["here"], &told["hosts"][0]["status"]["host"]),
        (&true.into(), &"alpha".into())
    );
}
