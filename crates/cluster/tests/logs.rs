//! Real logs under each rule: the figures and the start of every job are those of another simulator.

#![expect(clippy::disallowed_types, reason = "the logs are files; only the crate itself knows none")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use flate2::read::GzDecoder;
use pinfold_cluster::dispatch::Dispatch;
use pinfold_cluster::job::{Filter, Job};
use pinfold_cluster::metrics::metrics;
use pinfold_cluster::play::{Options, play};
use pinfold_cluster::runtimes::Runtimes;
use pinfold_cluster::swf::Reader;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/swf").join(name)
}

fn text(name: &str) -> String {
    let mut text = String::new();
    let file = File::open(fixture(name)).expect(name);
    GzDecoder::new(file).read_to_string(&mut text).expect(name);
    text
}

fn jobs(log: &str, processors: u32) -> Vec<Job> {
    let (mut reader, mut filter) = (Reader::default(), Filter::new(processors));
    for line in text(&format!("{log}.swf.gz")).lines() {
        if let Some(record) = reader.line(line).expect("a sound log") {
            filter.take(&record);
        }
    }
    filter.finish().0
}

/// The rule and the estimates that a row of the reference figures names.
fn rule(policy: &str) -> (Dispatch, Runtimes) {
    match policy {
        "fcfs" => (Dispatch::Fcfs, Runtimes::Requested),
        "easy" => (Dispatch::Easy, Runtimes::Requested),
        "easy-clair" => (Dispatch::Easy, Runtimes::Perfect),
        "sjbf" => (Dispatch::ShortestFirst, Runtimes::Requested),
        "sjbf-clair" => (Dispatch::ShortestFirst, Runtimes::Perfect),
        other => panic!("no such policy: {other}"),
    }
}

/// Six digits, as the reference has them.
#[track_caller]
fn same(what: &str, got: f64, want: &str) {
    let want: f64 = want.parse().expect("a figure");
    assert!((got - want).abs() <= want.abs() * 5.1e-6, "{what}: {got}, and the reference has {want}");
}

#[test]
fn figures_are_those_of_the_reference() {
    let reference = BufReader::new(File::open(fixture("reference_metrics.csv")).expect("the reference"));
    let mut logs: BTreeMap<String, Vec<Job>> = BTreeMap::new();
    let mut compared = 0;
    for row in reference.lines().skip(1).map(|line| line.expect("text")) {
        let row: Vec<&str> = row.split(',').collect();
        let (log, policy, convention) = (row[0], row[3], row[4]);
        if convention != "batch" || !fixture(&format!("{log}.swf.gz")).exists() {
            continue;
        }
        let processors: u32 = row[1].parse().expect("processors");
        let jobs = logs.entry(log.to_owned()).or_insert_with(|| jobs(log, processors));
        assert_eq!(jobs.len().to_string(), row[2], "{log}: jobs after the filter");
        let (dispatch, runtimes) = rule(policy);
        let played = play(jobs, &Options { processors, dispatch, runtimes }, |_| {});
        let figures = metrics(jobs, &played.starts_s, processors);
        let what = |figure| format!("{log} {policy}: {figure}");
        same(&what("wait"), figures.mean_wait_s, row[5]);
        same(&what("turnaround"), figures.mean_turnaround_s, row[6]);
        same(&what("bounded slowdown"), figures.mean_bounded_slowdown, row[9]);
        same(&what("makespan"), figures.makespan_s, row[12]);
        same(&what("utilisation"), figures.utilisation, row[13]);
        compared += 1;
    }
    assert_eq!(compared, 10, "two logs under five rules");
}

#[track_caller]
fn starts(log: &str, processors: u32, policy: &str) {
    let jobs = jobs(log, processors);
    let (dispatch, runtimes) = rule(policy);
    let played = play(&jobs, &Options { processors, dispatch, runtimes }, |_| {});
    let got: BTreeMap<u64, u64> = jobs.iter().map(|job| job.number).zip(played.starts_s).collect();
    let reference = text(&format!("starts_{log}_{policy}_batch.csv.gz"));
    let rows = reference.lines().skip(1).map(|row| row.split_once(',').expect("two columns"));
    let want: BTreeMap<u64, u64> =
        rows.map(|(job, start)| (job.parse().expect("a job"), start.parse().expect("a second"))).collect();
    let first = want.iter().find(|(job, start)| got.get(job) != Some(start));
    assert_eq!(first, None, "{log} {policy}: the first job that starts at another time");
    assert_eq!(got.len(), want.len());
}

#[test]
fn every_start_of_kth() {
    for policy in ["fcfs", "easy", "easy-clair"] {
        starts("KTH-SP2-1996-2-sc15", 100, policy);
    }
}

#[test]
fn every_start_of_sdsc() {
    starts("SDSC-SP2-1998-4.2-cln", 128, "easy");
}

/// No reservation is for processors that are not there, whatever the estimates are.
#[test]
fn conservative_keeps_within_the_machine() {
    let jobs = jobs("KTH-SP2-1996-2-sc15", 100);
    for runtimes in [Runtimes::Requested, Runtimes::Perfect, Runtimes::Learned] {
        let options = Options { processors: 100, dispatch: Dispatch::Conservative, runtimes };
        let played = play(&jobs, &options, |_| {});
        let mut changes: Vec<(u64, i64)> = Vec::new();
        for (job, &start) in jobs.iter().zip(&played.starts_s) {
            assert!(start >= job.submit_s);
            changes.push((start, i64::from(job.processors)));
            changes.push((start + job.run_s, -i64::from(job.processors)));
        }
        changes.sort_unstable();
        let mut used = 0;
        for (_, change) in changes {
            used += change;
            assert!(used <= 100, "{used} processors of 100");
        }
    }
}
