//! The dashboard for Grafana: what its queries name the daemon's text or the hub's has, with the labels that they ask for; and
//! its panels lie beside each other. `scripts/test-grafana.sh` compares its form with Grafana's own types.
use std::collections::BTreeSet;

use pinfold_hub::store::Kind;
use pinfold_hubwire::bundle::{self, Live, SpoolFigures, WIRE_VERSION};
use pinfold_profile::metrics::{self, FreezeFigures, HostFigures, JobFigures, LoopFigures};
use pinfold_proto::JobState;
use pinfold_proto::view::ProjectView;
use serde_json::Value;

use crate::common::{Served, bearer, idle, token};

/// All samples that a daemon can have.
fn of_a_daemon() -> String {
    let project = ProjectView {
        project: Some("web".into()),
        users: None,
        cores_guaranteed: Some(1),
        cores_used: 1,
        cores_borrowed: Some(0),
        cores_owed: 0,
        memory_guaranteed_bytes: Some(1),
        memory_used_bytes: 1,
        memory_borrowed_bytes: Some(0),
        memory_owed_bytes: 0,
        jobs_started: 1,
        jobs_waiting: 0,
    };
    let host = HostFigures {
        jobs: vec![(JobState::Running, 1)],
        stalled: vec![("memory", "full", 1)],
        freezes: FreezeFigures { count: 1, sum_us: 1, half_us: 1, most_us: 1 },
        turns: LoopFigures { within: vec![(100, 1)], count: 1, ..LoopFigures::default() },
        daemon_resident_bytes: 1,
        projects: vec![project],
        ..HostFigures::default()
    };
    metrics::text(&host, &[JobFigures { job: 1, cache_bytes: Some(1), ..JobFigures::default() }])
}

/// All samples that a hub has.
fn of_a_hub() -> String {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(&dir.path().join("hub.db"), None);
    let host = token(&served.hub.store, Kind::Host, "alpha");
    let spool = SpoolFigures::default();
    let live = Live {
        version: WIRE_VERSION,
        boot: "b".into(),
        sent_us: 1,
        status: idle(),
        spool,
        map: None,
        topology: None,
        asked: Vec::new(),
    };
    let packed = bundle::pack(&live).unwrap();
    assert_eq!(served.request("POST", "/api/v1/live", &[bearer(&host)], &packed).status, 200);
    let reader = token(&served.hub.store, Kind::Reader, "prometheus");
    served.get("/metrics", &[bearer(&reader)]).body
}

/// The metrics that a query names, each with the labels that it must have.
fn selectors(query: &str) -> Vec<(String, Vec<String>)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(at) = rest.find("pinfold_") {
        let word = &rest[at..];
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        let inside = after.strip_prefix('{').and_then(|inside| inside.split('}').next()).unwrap_or_default();
        let labels = inside.split(',').filter(|label| label.contains("=\"")).map(str::to_owned).collect();
        found.push((name.to_owned(), labels));
        rest = after;
    }
    found
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let file =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/grafana/pinfold.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let text = of_a_daemon() + &of_a_hub();
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let panels = dashboard["panels"].as_array().unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut asked: Vec<&str> = queries.map(|target| target["expr"].as_str().unwrap()).collect();
    asked.extend(variables.iter().filter_map(|variable| variable["query"]["query"].as_str()));
    let mut named = BTreeSet::new();
    for query in asked {
        let selectors = selectors(query);
        assert!(!selectors.is_empty(), "{query}");
        for (name, labels) in selectors {
            let fits = |line: &&&str| {
                let (metric, rest) = line.split_at(line.find(['{', ' ']).unwrap());
                metric == name && labels.iter().all(|label| rest.contains(label.as_str()))
            };
            assert!(samples.iter().any(|line| fits(&line)), "{name} with {labels:?} is no sample: {query}");
            named.insert(name);
        }
    }
    assert!(named.iter().filter(|name| name.starts_with("pinfold_hub_")).count() > 5, "{named:?}");
    assert!(named.len() > 25, "{named:?}");
}

#[test]
fn alert_rules_ask_for_what_there_is() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../packaging/prometheus/pinfold-alerts.yml");
    let rules = std::fs::read_to_string(file).unwrap();
    let text = of_a_daemon() + &of_a_hub();
    let expressions: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert_eq!(expressions.len(), rules.matches("- alert: ").count());
    for expression in expressions {
        let selectors = selectors(expression);
        assert!(!selectors.is_empty(), "{expression}");
        for (name, _) in selectors {
            let is_there =
                |line: &str| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with(['{', ' ']));
            assert!(text.lines().any(is_there), "{name} is no sample: {expression}");
        }
    }
}

#[test]
fn panels_of_the_dashboard_lie_beside_each_other() {
    let file =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/grafana/pinfold.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let side = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(side("x") + side("w") <= 24, "{panel}");
        for x in side("x")..side("x") + side("w") {
            for y in side("y")..side("y") + side("h") {
                assert!(taken.insert((x, y)), "two panels lie at {x}, {y}: {panel}");
            }
        }
        let targets = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
        let names: BTreeSet<&str> = targets.iter().map(|target| target["refId"].as_str().unwrap()).collect();
        assert_eq!(names.len(), targets.len(), "{panel}");
        assert_eq!(targets.is_empty(), panel["type"] == "row", "{panel}");
    }
}
