//! Row `short-lived`: thousands of processes that live for about a millisecond, one after the other. How many are
//! seen, and how much of the processor time that they used?
//!
//! All watchers watch the same run: nothing is timed here.

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use super::{Ground, RowArgs, perform};
use crate::compare::done;
use crate::daemon::Daemon;
use crate::known;
use crate::monitor::{Monitor, Peer};
use crate::record::Record;
use crate::stats::median;
use crate::table;

/// The program that is started again and again.
const NAME: &str = "true";

/// Options of row `short-lived`.
#[derive(Debug, Args)]
pub(crate) struct ShortLivedArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Processes.
    #[arg(long, default_value_t = 10_000)]
    processes: u32,
}

/// What a watcher knows of them.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
struct Caught {
    watcher: &'static str,
    processes: u64,
    cpu_s: f64,
    /// The processor time that they used.
    truth_s: f64,
}

/// Runs the row.
pub(crate) fn run(args: &ShortLivedArgs) -> anyhow::Result<()> {
    perform("short-lived", &args.row, |ground, record| {
        if let Some(why) = known::missing() {
            record.say(why);
            return Ok(());
        }
        if ground.binaries.is_none() {
            record.say("pinfold is left out: it is not built.");
        }
        let mut peers = vec![Peer::Atop, Peer::Pidstat, Peer::Below];
        peers.iter().filter_map(|peer| peer.missing()).for_each(|why| record.say(&why));
        peers.retain(|peer| peer.missing().is_none());
        let mut all = Vec::new();
        for repetition in 1..=args.row.repetitions() {
            for caught in try_one(&peers, ground, args.processes, record)? {
                done(&format!("short-lived {repetition} {}: {}", caught.watcher, caught.processes));
                all.push(caught);
            }
            if ground.interrupted() {
                bail!("interrupted");
            }
        }
        tell(&all, args.processes, record);
        Ok(())
    })
}

fn try_one(
    peers: &[Peer],
    ground: &Ground,
    processes: u32,
    record: &mut Record,
) -> anyhow::Result<Vec<Caught>> {
    let own = tempfile::Builder::new().prefix("short-lived-").tempdir_in(ground.bench(0.0).scratch)?;
    let daemon = match &ground.binaries {
        Some(binaries) => Some(Daemon::start(binaries, own.path(), None, &[])?),
        None => None,
    };
    let monitors: Vec<Monitor> =
        peers.iter().map(|peer| Monitor::start(*peer, own.path())).collect::<anyhow::Result<_>>()?;
    let (known, report) = known::run(daemon.as_ref(), own.path(), "short", processes.into())?;
    let truth_s = known.children_cpu_s;
    let mut caught = Vec::new();
    if let Some(report) = &report {
        let (processes, cpu_s) = reported(report);
        caught.push(Caught { watcher: "pinfold", processes, cpu_s, truth_s });
        record.say(&format!(
            "pinfold says that it found processes by: {}.",
            report["processes_from"].as_str().unwrap_or("nothing")
        ));
    }
    for (peer, monitor) in peers.iter().zip(monitors) {
        let seen = monitor.stop()?;
        let (cpu_s, processes) = seen.cpu_s(|row| row.name == NAME);
        caught.push(Caught { watcher: peer.name(), processes: processes as u64, cpu_s, truth_s });
    }
    if let Some(daemon) = daemon {
        daemon.stop()?;
    }
    record.add("trial", &json!({ "processes": processes, "truth": known, "caught": caught }))?;
    Ok(caught)
}

/// How many processes of that name a report has, and their processor time.
fn reported(report: &Value) -> (u64, f64) {
    let all = report["processes"].as_array().into_iter().flatten();
    let named = all.filter(|process| {
        let command = process["command"].as_str().unwrap_or_default();
        let program = command.split_whitespace().next().unwrap_or_default();
        program.rsplit('/').next() == Some(NAME)
    });
    named.fold((0, 0.0), |(count, cpu_s), process| {
        let time = |key: &str| process[key].as_f64().unwrap_or(0.0);
        (count + process["count"].as_u64().unwrap_or(0), cpu_s + time("cpu_user_s") + time("cpu_system_s"))
    })
}

fn tell(all: &[Caught], processes: u32, record: &mut Record) {
    let mut watchers: Vec<&str> = Vec::new();
    for caught in all {
        if !watchers.contains(&caught.watcher) {
            watchers.push(caught.watcher);
        }
    }
    let cell = |watcher: &str, of: fn(&Caught) -> f64, digits| {
        let values: Vec<f64> = all.iter().filter(|caught| caught.watcher == watcher).map(of).collect();
        median(&values).map_or_else(String::new, |median| table::with_interval(&median, digits))
    };
    let row = |watcher: &&str| {
        vec![
            (*watcher).to_owned(),
            cell(watcher, |caught| caught.processes as f64, 0),
            cell(watcher, |caught| caught.cpu_s, 2),
            cell(watcher, |caught| caught.truth_s, 2),
            cell(watcher, |caught| 100.0 * caught.cpu_s / caught.truth_s.max(f64::MIN_POSITIVE), 1),
        ]
    };
    let rows: Vec<Vec<String>> = watchers.iter().map(row).collect();
    record.say(&format!(
        "\n{processes} processes `{NAME}`, one after the other, seen by all watchers at once, each at a sample a second; \
         their processor time by `getrusage` of whoever waited for them. Process numbers that were used again count once \
         for the peers.\n"
    ));
    record.say(&table::markdown(
        &["watcher", "processes seen", "their CPU, s", "truth, s", "share of it, %"],
        &rows,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_report() {
        let report = json!({ "processes": [
            { "command": "/bin/true", "count": 7, "cpu_user_s": 0.5, "cpu_system_s": 0.25 },
            { "command": "true", "count": 1, "cpu_user_s": 0.0, "cpu_system_s": 0.25 },
            { "command": "python3 true", "count": 1, "cpu_user_s": 9.0, "cpu_system_s": 9.0 },
        ] });
        assert_eq!(reported(&report), (8, 1.0));
        assert_eq!(reported(&json!({})), (0, 0.0));
    }
}
