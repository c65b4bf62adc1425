//! The row's words and tables.

use serde_json::json;

use super::ClusterArgs;
use super::log::Log;
use super::memory::{Own, Table};
use super::runs::{Played, Runs, slowdown};
use super::variant::{Figures, Variant};
use crate::record::Record;
use crate::table::{bytes, markdown, with_interval};

/// What holds for all logs.
pub(super) fn preface(args: &ClusterArgs, table: &Table, record: &mut Record) {
    let (classes, jobs) = table.size();
    record.say(&format!(
        "Simulated: hosts of {} cores, {} of RAM, with swap of the same size or none, written and read with {} a second. \
         Of each log {} stretches at most of {} jobs in a row, those submitted at a load nearest to {}. Memory is scaled so \
         that the requests of a full host fill its RAM. Logs without memory take it from {jobs} real jobs in {classes} \
         classes, another population (seeds from {} on, one a stretch). *swap kept*: the dispatcher hands out RAM alone; \
         *given out*: RAM and swap. *no prediction*: `memory.prediction` is off. *advised*: jobs ask for what earlier runs \
         of their class held. Medians over the stretches; *to plain*: slowdown over that of plain EASY on the same stretch, \
         with an interval; killed, freezes and bytes in all stretches together. *hosts*: the fewest from which on that \
         ratio is at most 1 in the median and no more jobs are killed.\n",
        args.cores,
        bytes(args.ram_per_core.saturating_mul(args.cores.into())),
        bytes(args.swap_rate),
        args.stretches(),
        args.jobs,
        args.load,
        args.seed,
    ));
}

/// What a log is.
pub(super) fn log(log: &Log, hosts: u32, played: &[Played<'_>], record: &mut Record) -> anyhow::Result<()> {
    let memory = match log.own {
        Some(Own { requests: true }) => "memory: its own, requests and peaks",
        Some(Own { requests: false }) => "memory: its own peaks; each class asks for its largest",
        None => "memory: drawn from other jobs",
    };
    let runtimes = if log.runtimes_asked { "" } else { "run times are known to the dispatcher; " };
    let busy = if log.cpu_known < 0.01 { " (all are taken to compute all the time)" } else { "" };
    let mean = |of: fn(&Played<'_>) -> f64| played.iter().map(of).sum::<f64>() / played.len().max(1) as f64;
    let sum = |of: fn(&Played<'_>) -> usize| played.iter().map(of).sum::<usize>();
    let (held, asked) = (mean(|played| played.advised.held), mean(|played| played.advised.asked));
    let (changed, below_peak) =
        (sum(|played| played.advised.changed), sum(|played| played.advised.below_peak));
    let (jobs, large) = (sum(|played| played.stretch.jobs.len()), sum(|played| played.stretch.large));
    let loads: Vec<f64> = played.iter().map(|played| played.stretch.load).collect();
    let told: Vec<String> = loads.iter().map(|load| format!("{load:.2}")).collect();
    record.say(&format!(
        "{}: {jobs} jobs in {} stretches on {hosts} hosts, loads {}; {memory}; {runtimes}processor time known of {:.0} % of \
         the jobs{busy}. {} classes by {}. Left out: {} jobs of {} wider than half of the machine, {large} of the stretches \
         that need more than half of the hosts for their memory. Jobs hold {:.0} % of what they ask for; as advised they ask for {:.0} % \
         ({changed} jobs changed, {below_peak} hold more than that).\n",
        log.name,
        played.len(),
        told.join(", "),
        100.0 * log.cpu_known,
        log.classes,
        log.alike,
        log.wide,
        log.playable,
        100.0 * held,
        100.0 * asked,
    ));
    record.add(
        "log",
        &json!({
            "log": log.name, "jobs": jobs, "hosts": hosts, "processors": log.processors, "loads": loads,
            "own_memory": log.own.is_some(), "own_requests": log.own.is_some_and(|own| own.requests),
            "cpu_known": log.cpu_known, "runtimes_asked": log.runtimes_asked, "classes": log.classes,
            "wide": log.wide, "large": large, "held": held, "advised": asked, "advised_jobs": changed,
            "advised_below_peak": below_peak,
        }),
    )
}

/// A variant's line, and its raw data, a run a stretch; `hosts`: the fewest that suffice, of how many.
pub(super) fn row(
    log: &Log,
    variant: &Variant,
    (runs, of): (Option<&Runs>, &[Played<'_>]),
    (least, all): (Option<u32>, u32),
    record: &mut Record,
) -> anyhow::Result<Vec<String>> {
    let name = variant.name();
    record
        .add("variant", &json!({ "log": log.name, "variant": name, "hosts": all, "least_hosts": least }))?;
    let Some(runs) = runs else {
        let mut row = vec!["-".to_owned(); HEAD.len()];
        (row[0], row[HEAD.len() - 1]) = (name, needed(least, all));
        return Ok(row);
    };
    for (number, Figures { metrics, toll, stuck, .. }) in runs.0.iter().enumerate() {
        record.add(
            "run",
            &json!({
                "log": log.name, "variant": name, "stretch": number, "mean_wait_s": metrics.mean_wait_s,
                "p95_wait_s": metrics.p95_wait_s, "slowdown": metrics.mean_bounded_slowdown,
                "makespan_s": metrics.makespan_s, "utilisation": metrics.utilisation, "freezes": toll.freezes,
                "frozen_s": toll.frozen_us as f64 / 1e6, "paged_bytes": toll.paged_bytes,
                "killed": toll.killed, "stuck": stuck,
            }),
        )?;
    }
    let middle = |of: fn(&Figures) -> f64| runs.median(of).value;
    let sum = |of: fn(&Figures) -> u64| runs.0.iter().map(of).sum::<u64>();
    Ok(vec![
        name,
        format!("{:.2}", middle(|run| run.metrics.mean_wait_s) / 3600.0),
        format!("{:.2}", middle(|run| run.metrics.p95_wait_s) / 3600.0),
        format!("{:.1}", middle(slowdown)),
        with_interval(&runs.ratio(of, slowdown), 2),
        format!("{:.1}", middle(|run| run.metrics.makespan_s) / 3600.0),
        format!("{:.1}", 100.0 * middle(|run| run.metrics.utilisation)),
        sum(|run| run.toll.freezes).to_string(),
        format!("{:.1}", sum(|run| run.toll.frozen_us) as f64 / 3.6e9),
        bytes(sum(|run| run.toll.paged_bytes)),
        runs.lost().to_string(),
        needed(least, all),
    ])
}

fn needed(least: Option<u32>, all: u32) -> String {
    match least {
        Some(least) => format!("{least} ({:+.0} %)", 100.0 * (f64::from(least) / f64::from(all) - 1.0)),
        None => format!("> {}", 2 * all),
    }
}

const HEAD: [&str; 12] = [
    "hosts with",
    "mean wait h",
    "95 % wait h",
    "slowdown",
    "to plain",
    "makespan h",
    "used %",
    "freezes",
    "frozen h",
    "paged",
    "killed",
    "hosts",
];

pub(super) fn table(rows: &[Vec<String>], record: &mut Record) {
    record.say(&markdown(&HEAD, rows));
}
