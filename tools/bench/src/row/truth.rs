//! Row `truth`: the error of figures for a program with known use.
//!
//! Each case runs as a job while the peers watch as well, all at a sample a second; the program reports its own use. Absent
//! here: the cost of figures (`cost`), and processes too short for samples (`short-lived`).

use std::collections::BTreeSet;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use super::{Ground, RowArgs, perform};
use crate::compare::done;
use crate::daemon::Daemon;
use crate::known::{self, Known};
use crate::monitor::{LEFT_OUT, Monitor, Peer, Seen};
use crate::record::Record;
use crate::stats::median;
use crate::table;

/// The cases, and the difficulty of each.
const CASES: [(&str, &str); 4] = [
    ("steady", "256 MiB, held"),
    ("spike", "256 MiB for 50 ms"),
    ("shared", "the same 256 MiB in 8 processes"),
    ("cache", "256 MiB written to a file and read"),
];

/// Options of row `truth`.
#[derive(Debug, Args)]
pub(crate) struct TruthArgs {
    #[command(flatten)]
    row: RowArgs,
    /// The time for which each case holds its memory, seconds.
    #[arg(long, default_value_t = 4.0, value_name = "S")]
    seconds: f64,
    /// Settings of pinfold's daemon.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

/// Three figures of a case; `None`: the watcher has none.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
struct Figures {
    memory_peak_bytes: Option<f64>,
    memory_mean_bytes: Option<f64>,
    cpu_s: Option<f64>,
}

/// Reads a figure.
type Figure = fn(&Figures) -> Option<f64>;

const FIGURES: [(&str, Figure, f64); 3] = [
    ("memory peak, MiB", |figures| figures.memory_peak_bytes, 1_048_576.0),
    ("memory mean, MiB", |figures| figures.memory_mean_bytes, 1_048_576.0),
    ("CPU, s", |figures| figures.cpu_s, 1.0),
];

impl Figures {
    fn known(known: &Known) -> Self {
        Self {
            memory_peak_bytes: Some(known.memory_peak_bytes as f64),
            memory_mean_bytes: Some(known.memory_mean_bytes),
            cpu_s: Some(known.cpu_s),
        }
    }

    fn reported(report: &Value) -> Self {
        let number = |key: &str| report[key].as_f64();
        Self {
            memory_peak_bytes: number("memory_peak_bytes"),
            memory_mean_bytes: number("memory_mean_bytes"),
            cpu_s: number("cpu_user_s").zip(number("cpu_system_s")).map(|(user, system)| user + system),
        }
    }

    fn seen(seen: &Seen, pids: &BTreeSet<i32>) -> Self {
        let resident = seen.resident_bytes(pids);
        if resident.is_empty() {
            return Self::default();
        }
        Self {
            memory_peak_bytes: resident.iter().max().map(|bytes| *bytes as f64),
            memory_mean_bytes: Some(resident.iter().sum::<u64>() as f64 / resident.len() as f64),
            cpu_s: Some(seen.cpu_s(|row| pids.contains(&row.pid)).0),
        }
    }
}

/// Percent that `got` is off.
fn error(got: f64, truth: f64) -> f64 {
    100.0 * (got - truth) / truth.max(f64::MIN_POSITIVE)
}

/// A run of a case.
#[derive(Debug)]
struct Trial {
    case: &'static str,
    truth: Figures,
    pinfold: Figures,
    peers: Vec<(Peer, Figures)>,
}

/// The watchers beside pinfold; atop in the form that divides shared memory.
const PEERS: [Peer; 3] = [Peer::Pidstat, Peer::AtopPss, Peer::Below];

/// Runs the row.
pub(crate) fn run(args: &TruthArgs) -> anyhow::Result<()> {
    perform("truth", &args.row, |ground, record| {
        if let Some(why) = known::missing() {
            record.say(why);
            return Ok(());
        }
        if ground.binaries.is_none() {
            record.say("pinfold is left out: it is not built.");
        }
        let (there, missing): (Vec<Peer>, Vec<Peer>) =
            PEERS.into_iter().partition(|peer| peer.missing().is_none());
        missing.into_iter().filter_map(Peer::missing).for_each(|why| record.say(&why));
        record.say(LEFT_OUT);
        for peer in &there {
            record.say(&format!("{}: {}.", peer.name(), peer.version().unwrap_or_default()));
        }
        let mut trials = Vec::new();
        for repetition in 1..=args.row.repetitions() {
            for (case, _) in CASES {
                let trial = try_one(case, &there, ground, args, record)?;
                done(&format!("truth {repetition} {case}: {:?}", trial.pinfold));
                trials.push(trial);
                if ground.interrupted() {
                    bail!("interrupted");
                }
            }
        }
        tell(&trials, &there, record);
        Ok(())
    })
}

fn try_one(
    case: &'static str,
    peers: &[Peer],
    ground: &Ground,
    args: &TruthArgs,
    record: &mut Record,
) -> anyhow::Result<Trial> {
    let own = tempfile::Builder::new().prefix("truth-").tempdir_in(ground.bench(0.0).scratch)?;
    let daemon = match &ground.binaries {
        Some(binaries) => Some(Daemon::start(binaries, own.path(), None, &args.settings)?),
        None => None,
    };
    let start = |&peer: &Peer| Ok((peer, Monitor::start(peer, own.path())?));
    let monitors: Vec<(Peer, Monitor)> = peers.iter().map(start).collect::<anyhow::Result<_>>()?;
    let (known, report) = known::run(daemon.as_ref(), own.path(), case, args.seconds)?;
    let stop = |(peer, monitor): (Peer, Monitor)| Ok((peer, monitor.stop()?));
    let seen: Vec<(Peer, Seen)> = monitors.into_iter().map(stop).collect::<anyhow::Result<_>>()?;
    if let Some(daemon) = daemon {
        daemon.stop()?;
    }
    let pids: BTreeSet<i32> = known.pids.iter().copied().collect();
    let trial = Trial {
        case,
        truth: Figures::known(&known),
        pinfold: report.as_ref().map(Figures::reported).unwrap_or_default(),
        peers: seen.iter().map(|(peer, seen)| (*peer, Figures::seen(seen, &pids))).collect(),
    };
    let peers: Vec<Value> =
        trial.peers.iter().map(|(peer, figures)| json!({ "peer": peer, "figures": figures })).collect();
    record.add(
        "trial",
        &json!({ "case": case, "truth": known, "report": report, "pinfold": trial.pinfold, "peers": peers }),
    )?;
    Ok(trial)
}

fn tell(trials: &[Trial], peers: &[Peer], record: &mut Record) {
    let mut rows = Vec::new();
    for (case, words) in CASES {
        for (name, figure, unit) in FIGURES {
            let own = || trials.iter().filter(|trial| trial.case == case);
            let truths: Vec<f64> = own().filter_map(|trial| Some(figure(&trial.truth)? / unit)).collect();
            let cell = |values: &[f64], digits| {
                median(values)
                    .map_or_else(|| "none".to_owned(), |median| table::with_interval(&median, digits))
            };
            let errors = |of: &dyn Fn(&Trial) -> Option<Figures>| -> Vec<f64> {
                own().filter_map(|t| Some(error(figure(&of(t)?)?, figure(&t.truth)?))).collect()
            };
            let mut row = vec![format!("{words}: {name}"), cell(&truths, 2)];
            row.push(cell(&errors(&|trial| Some(trial.pinfold)), 1));
            for peer in peers {
                let of = |trial: &Trial| Some(trial.peers.iter().find(|(other, _)| other == peer)?.1);
                row.push(cell(&errors(&of), 1));
            }
            rows.push(row);
        }
    }
    record.say(
        "\nErrors in percent of what the program itself says that it used: anonymous and shared memory, each page once, \
         by the kernel's walk of its page tables; processor time by `getrusage`. All take a sample a second. Memory is the \
         sum of proportional sizes of atop, and of resident sizes of pidstat and below, all that they have.\n",
    );
    let mut heads = vec!["case: figure".to_owned(), "truth".to_owned(), "pinfold off by %".to_owned()];
    heads.extend(peers.iter().map(|peer| format!("{} off by %", peer.name())));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    record.say(&table::markdown(&heads, &rows));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::ProcessRow;

    #[test]
    fn errors_have_a_sign() {
        assert!((error(110.0, 100.0) - 10.0).abs() < 1e-9);
        assert!((error(50.0, 100.0) + 50.0).abs() < 1e-9);
    }

    #[test]
    fn figures_of_each_source() {
        let report =
            json!({ "memory_peak_bytes": 5, "memory_mean_bytes": 4, "cpu_user_s": 1.5, "cpu_system_s": 0.5 });
        let want = Figures { memory_peak_bytes: Some(5.0), memory_mean_bytes: Some(4.0), cpu_s: Some(2.0) };
        assert_eq!(Figures::reported(&report), want);
        assert_eq!(Figures::reported(&json!({})), Figures::default());
        let row = |time_s, pid, bytes| ProcessRow {
            time_s,
            pid,
            name: "x".to_owned(),
            cpu_s: 0.5,
            resident_bytes: Some(bytes),
        };
        let rows = vec![row(1, 7, 100), row(1, 8, 100), row(1, 9, 999), row(2, 7, 100)];
        let seen = Seen { rows, samples: 2, lived_s: 2.0 };
        let want =
            Figures { memory_peak_bytes: Some(200.0), memory_mean_bytes: Some(150.0), cpu_s: Some(1.5) };
        assert_eq!(Figures::seen(&seen, &BTreeSet::from([7, 8])), want);
        assert_eq!(Figures::seen(&seen, &BTreeSet::from([1])), Figures::default());
    }
}
