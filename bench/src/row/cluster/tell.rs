//! The row's words and tables.

use serde_json::json;

use super::ClusterArgs;
use super::log::Log;
use super::memory::{Advised, Own, Table};
use super::variant::{Figures, Variant};
use crate::record::Record;
use crate::table::{bytes, markdown};

/// What holds for all logs.
pub(super) fn preface(args: &ClusterArgs, table: &Table, record: &mut Record) {
    let (classes, jobs) = table.size();
    record.say(&format!(
        "Simulated: hosts of {} cores, {} of RAM, with swap of the same size or none, written and read with {} a second. \
         Of each log {} jobs in a row at most, where they are submitted at a load nearest to {}. Memory is scaled so that \
         the requests of a full host fill its RAM. Logs without memory take it from {jobs} real jobs in {classes} classes, \
         another population (seed {}). *swap kept*: the dispatcher hands out RAM alone; *given out*: RAM and swap. *no \
         prediction*: `memory.prediction` is off. *advised*: jobs ask for what earlier runs of their class held. *hosts*: the fewest \
         with a slowdown of plain EASY's on all hosts, and no more jobs killed.\n",
        args.cores,
        bytes(args.ram_per_core.saturating_mul(args.cores.into())),
        bytes(args.swap_rate),
        args.jobs,
        args.load,
        args.seed,
    ));
}

/// What a log is.
pub(super) fn log(log: &Log, hosts: u32, advised: &Advised, record: &mut Record) -> anyhow::Result<()> {
    let memory = match log.own {
        Some(Own { requests: true }) => "memory: its own, requests and peaks",
        Some(Own { requests: false }) => "memory: its own peaks; each class asks for its largest",
        None => "memory: drawn from other jobs",
    };
    let runtimes = if log.runtimes_asked { "" } else { "run times are known to the dispatcher; " };
    record.say(&format!(
        "{}: {} jobs on {hosts} hosts, load {:.2}; {memory}; {runtimes}processor time known of {:.0} % of the jobs{}. {} classes by \
         {}. Left out: {} jobs of {} wider than half of the machine, {} of the stretch that need more than a host's memory. \
         Jobs hold {:.0} % of what they ask for; as advised they ask for {:.0} % ({} jobs changed, {} hold more than that).\n",
        log.name,
        log.jobs.len(),
        log.load,
        100.0 * log.cpu_known,
        if log.cpu_known < 0.01 { " (all are taken to compute all the time)" } else { "" },
        log.classes,
        log.alike,
        log.wide,
        log.playable,
        log.large,
        100.0 * advised.held,
        100.0 * advised.asked,
        advised.changed,
        advised.below_peak,
    ));
    record.add(
        "log",
        &json!({
            "log": log.name, "jobs": log.jobs.len(), "hosts": hosts, "processors": log.processors, "load": log.load,
            "own_memory": log.own.is_some(), "own_requests": log.own.is_some_and(|own| own.requests),
            "cpu_known": log.cpu_known, "runtimes_asked": log.runtimes_asked, "classes": log.classes, "wide": log.wide, "large": log.large,
            "held": advised.held, "advised": advised.asked, "advised_jobs": advised.changed,
            "advised_below_peak": advised.below_peak,
        }),
    )
}

/// A variant's line, and its raw data; `hosts`: the fewest that suffice, of how many.
pub(super) fn row(
    log: &Log,
    variant: &Variant,
    figures: Option<&Figures>,
    hosts: (Option<u32>, u32),
    record: &mut Record,
) -> anyhow::Result<Vec<String>> {
    let (least, all) = hosts;
    let name = variant.name();
    let Some(Figures { metrics, toll, stuck, .. }) = figures else {
        record.add(
            "variant",
            &json!({ "log": log.name, "variant": name, "no_room": true, "least_hosts": least }),
        )?;
        let mut row = vec!["-".to_owned(); HEAD.len()];
        (row[0], row[HEAD.len() - 1]) = (name, needed(least, all));
        return Ok(row);
    };
    record.add(
        "variant",
        &json!({
            "log": log.name, "variant": name, "hosts": all, "mean_wait_s": metrics.mean_wait_s,
            "p95_wait_s": metrics.p95_wait_s, "slowdown": metrics.mean_bounded_slowdown,
            "makespan_s": metrics.makespan_s, "utilisation": metrics.utilisation, "freezes": toll.freezes,
            "frozen_s": toll.frozen_us as f64 / 1e6, "paged_bytes": toll.paged_bytes, "killed": toll.killed,
            "stuck": stuck, "least_hosts": least,
        }),
    )?;
    Ok(vec![
        name,
        format!("{:.2}", metrics.mean_wait_s / 3600.0),
        format!("{:.2}", metrics.p95_wait_s / 3600.0),
        format!("{:.2}", metrics.mean_bounded_slowdown),
        format!("{:.1}", metrics.makespan_s / 3600.0),
        format!("{:.1}", 100.0 * metrics.utilisation),
        toll.freezes.to_string(),
        format!("{:.1}", toll.frozen_us as f64 / 3.6e9),
        bytes(toll.paged_bytes),
        (toll.killed + *stuck as u64).to_string(),
        needed(least, all),
    ])
}

fn needed(least: Option<u32>, all: u32) -> String {
    match least {
        Some(least) => format!("{least} ({:+.0} %)", 100.0 * (f64::from(least) / f64::from(all) - 1.0)),
        None => format!("> {}", 2 * all),
    }
}

const HEAD: [&str; 11] = [
    "hosts with",
    "mean wait h",
    "95 % wait h",
    "slowdown",
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
