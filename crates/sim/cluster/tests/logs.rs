//! Real logs under each rule: the figures and the start of every job are those of another simulator.

#![expect(clippy::disallowed_types, reason = "the logs are files; only the crate itself knows none")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use flate2::read::GzDecoder;
use pinfold_cluster::SECOND;
use pinfold_cluster::dispatch::Dispatch;
use pinfold_cluster::fleet::Fleet;
use pinfold_cluster::graph::Graph;
use pinfold_cluster::job::{Filter, Job};
use pinfold_cluster::metrics::metrics;
use pinfold_cluster::play::{Options, Played, play};
use pinfold_cluster::runtimes::Runtimes;
use pinfold_cluster::swf::Reader;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures/swf").join(name)
}

fn text(name: &str) -> String {
    let mut text = String::new();
    let file = File::open(fixture(name)).expect(name);
    GzDecoder::new(file).read_to_string(&mut text).expect(name);
    text
}

fn jobs(log: &str, processors: u32) -> Vec<Job> {
    let (mut reader, mut filter) = (Reader::default(), Filter::new(Fleet::pool(processors)));
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

fn played(jobs: &[Job], fleet: Fleet, dispatch: Dispatch, runtimes: Runtimes) -> Played {
    play(jobs, &Graph::default(), &Options { fleet, dispatch, runtimes }, |_| {})
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
        let played = played(jobs, Fleet::pool(processors), dispatch, runtimes);
        let figures = metrics(jobs, &played.spans, processors.into());
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
    let played = played(&jobs, Fleet::pool(processors), dispatch, runtimes);
    let starts = played.spans.iter().map(|span| span.start_us / SECOND);
    let got: BTreeMap<u64, u64> = jobs.iter().map(|job| job.number).zip(starts).collect();
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

/// Nothing starts without room, on one host or on many, under any rule and estimates; and a job that fits on a single host
/// lies on a single host.
#[test]
fn nothing_starts_where_there_is_no_room() {
    let fleets = [
        Fleet::pool(100),
        Fleet { hosts: 25, cores: 4, slots: 4, memory: None, job_memory: u64::MAX },
        Fleet { hosts: 10, cores: 10, slots: 15, memory: Some(20 << 30), job_memory: u64::MAX },
    ];
    for fleet in fleets {
        let mut jobs = jobs("KTH-SP2-1996-2-sc15", 100);
        jobs.truncate(600);
        for (number, job) in jobs.iter_mut().enumerate() {
            job.memory = [0, 1 << 30, 5 << 30][number % 3];
        }
        jobs.retain(|job| fleet.room(job) >= job.processors);
        for dispatch in [Dispatch::Fcfs, Dispatch::Easy, Dispatch::ShortestFirst, Dispatch::Conservative] {
            for runtimes in [Runtimes::Requested, Runtimes::Perfect, Runtimes::Learned] {
                stays_within(fleet, &jobs, &played(&jobs, fleet, dispatch, runtimes));
            }
        }
    }
}

#[track_caller]
fn stays_within(fleet: Fleet, jobs: &[Job], played: &Played) {
    let mut changes: Vec<(u64, i64, u32, i64)> = Vec::new();
    for ((job, span), parts) in jobs.iter().zip(&played.spans).zip(&played.parts) {
        assert!(span.start_us >= job.submit_us && span.end_us == span.start_us + job.run_us);
        assert_eq!(parts.iter().map(|part| part.processors).sum::<u32>(), job.processors);
        assert!(!fleet.on_one_host(job) || parts.len() == 1);
        for part in parts.iter() {
            let memory = i64::try_from(job.memory_of(part.processors)).expect("small");
            let processors = i64::from(part.processors);
            changes.push((span.start_us, processors, part.host, memory));
            changes.push((span.end_us, -processors, part.host, -memory));
        }
    }
    changes.sort_unstable();
    let mut used = vec![(0, 0); fleet.hosts as usize];
    for (_, processors, host, memory) in changes {
        let host = &mut used[host as usize];
        *host = (host.0 + processors, host.1 + memory);
        assert!(host.0 <= i64::from(fleet.slots), "{} of {}", host.0, fleet.slots);
        let most = fleet.memory.map_or(i64::MAX, |most| i64::try_from(most).expect("small"));
        assert!(host.1 <= most, "{} of {most} bytes", host.1);
    }
}
