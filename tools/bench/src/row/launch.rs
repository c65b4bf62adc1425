//! Row `launch`: the cost of `pinfold run true` beyond `true`, with a daemon up, beside a peer's round trip.
//!
//! Every command is started by this process with `posix_spawn` and waited for; no shell is in between.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use super::{Ground, RowArgs, perform};
use crate::daemon::Daemon;
use crate::record::Record;
use crate::spooler::Spooler;
use crate::stats::{median, percentile};
use crate::table;
use crate::way::installed;

/// Options of row `launch`.
#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Runs of each command, alternating.
    #[arg(long, default_value_t = 400)]
    runs: usize,
}

/// Runs before the measured runs: file caches and the daemon's first allocations.
const WARM_UP: usize = 20;

/// Runs the row.
pub(crate) fn run(args: &LaunchArgs) -> anyhow::Result<()> {
    perform("launch", &args.row, |ground, record| {
        let bench = ground.bench(600.0);
        let mut daemon = None;
        let mut commands = vec![("true", Command::new("/bin/true"))];
        match &ground.binaries {
            Some(binaries) => {
                let started = Daemon::start(binaries, bench.scratch, None, &[])?;
                let mut command = started.command();
                command.args(["run", "--", "/bin/true"]);
                commands.push(("pinfold run true", command));
                daemon = Some(started);
            }
            None => record.say("pinfold is left out: it is not built."),
        }
        let spooler = installed("tsp").then(|| Spooler::start(bench.scratch, ground.cores())).transpose()?;
        match &spooler {
            Some(spooler) => {
                let mut command = spooler.command();
                command.args(["-nf", "/bin/true"]);
                commands.push(("tsp -nf true", command));
            }
            None => record.say("task-spooler is left out: it is not installed."),
        }
        let times = alternate(&mut commands, args.runs, ground)?;
        for group in daemon.map_or(Ok(Vec::new()), Daemon::stop)? {
            record.say(&format!("Left behind: cgroup {}.", group.display()));
        }
        tell(&commands, &times, record)
    })
}

/// Milliseconds of each run of each command, in turn.
fn alternate(
    commands: &mut [(&'static str, Command)],
    runs: usize,
    ground: &Ground,
) -> anyhow::Result<Vec<Vec<f64>>> {
    for (_, command) in commands.iter_mut() {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    let mut times = vec![Vec::with_capacity(runs); commands.len()];
    for run in 0..WARM_UP + runs {
        for ((name, command), times) in commands.iter_mut().zip(&mut times) {
            let start = Instant::now();
            let status = command.status().with_context(|| format!("failed to run `{name}`"))?;
            let passed_ms = start.elapsed().as_secs_f64() * 1e3;
            if !status.success() {
                bail!("`{name}` ended with {status}");
            }
            if run >= WARM_UP {
                times.push(passed_ms);
            }
        }
        if ground.interrupted() {
            bail!("interrupted");
        }
    }
    Ok(times)
}

fn tell(commands: &[(&str, Command)], times: &[Vec<f64>], record: &mut Record) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for ((name, _), own) in commands.iter().zip(times) {
        record.add("launch", &json!({ "command": name, "times_ms": own }))?;
        // Each against the run of `true` just before it, so that the load of the moment cancels.
        let beyond: Vec<f64> = own.iter().zip(&times[0]).map(|(own, bare)| own - bare).collect();
        let (Some(all), Some(more)) = (median(own), median(&beyond)) else { continue };
        let p99 = percentile(own, 0.99).unwrap_or(f64::NAN);
        let p99_beyond = percentile(&beyond, 0.99).unwrap_or(f64::NAN);
        rows.push(vec![
            (*name).to_owned(),
            table::with_interval(&all, 2),
            format!("{p99:.2}"),
            table::with_interval(&more, 2),
            format!("{p99_beyond:.2}"),
        ]);
    }
    record.say(&format!("{} alternating runs.\n", times.first().map_or(0, Vec::len)));
    let head = ["command", "median ms", "p99 ms", "beyond `true` ms", "p99 beyond ms"];
    record.say(&table::markdown(&head, &rows));
    Ok(())
}
