//! Row `e5`: jobs that compute 60 to 80 % of their time and wait for the rest, 2.5 to 4 jobs for each slot of
//! factor 2.

use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::Args;

use super::{RowArgs, perform};
use crate::compare::{Question, compare, show};
use crate::way::Way;
use crate::workload::{Job, quote};

/// Options of row `e5`.
#[derive(Debug, Args)]
pub(crate) struct E5Args {
    #[command(flatten)]
    row: RowArgs,
    /// Duty cycle in percent and jobs per slot, each pair one table.
    #[arg(long, value_name = "DUTY:RATIO", default_values = ["60:2.5", "70:3", "75:3.5", "80:4"])]
    cell: Vec<Cell>,
    /// CPU time of one job alone, seconds.
    #[arg(long, default_value_t = 1.5)]
    job_seconds: f64,
    /// CPU time of one burst, milliseconds.
    #[arg(long, default_value_t = 50.0)]
    burst_ms: f64,
}

/// One table's load.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    /// Share of its time alone that a job computes, 0-1.
    duty: f64,
    /// Jobs for each slot of factor 2.
    ratio: f64,
}

impl FromStr for Cell {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (duty, ratio) = text.split_once(':').context("a cell is DUTY:RATIO, as `60:2.5`")?;
        let duty = duty.parse::<f64>().context("DUTY is a number of percent")? / 100.0;
        let ratio = ratio.parse::<f64>().context("RATIO is a number")?;
        if !(0.01..=1.0).contains(&duty) || !(0.1..=1_000.0).contains(&ratio) {
            bail!("a cell has a duty of 1-100 and a ratio of 0.1-1000");
        }
        Ok(Self { duty, ratio })
    }
}

/// Runs the row.
pub(crate) fn run(args: &E5Args) -> anyhow::Result<()> {
    perform("e5", &args.row, |ground, record| {
        let bench = ground.bench(1_800.0);
        let program = std::env::current_exe().context("failed to find this program's own path")?;
        let load = program.with_file_name("pinfold-load");
        let speed = calibrate(&load, ground.solo_pu()?)?;
        record.add("calibration", &serde_json::json!({ "turns_per_second": speed }))?;
        let cores = ground.cores();
        let ways = [
            Way::Native { slots: cores },
            Way::Native { slots: 2 * cores },
            Way::Native { slots: 4 * cores },
            Way::Idle { normal: cores, idle: cores },
            Way::Pinfold { factor: 2.0 },
            Way::Pinfold { factor: 4.0 },
        ];
        for cell in &args.cell {
            let jobs = jobs(*cell, args, speed, cores, &quote(&load));
            let progress = &mut |watch: &_, jobs| show("alone", watch, jobs);
            let (solo, failed) = bench.solo(&jobs, args.row.solo(), ground.solo_pu()?, progress)?;
            if let Some(why) = failed.values().next() {
                bail!("alone, {why}");
            }
            let title = format!("Duty {:.0} %, {} jobs per slot", 100.0 * cell.duty, cell.ratio);
            let repetitions = args.row.repetitions();
            let question =
                Question { title: &title, jobs: &jobs, device: &[], ways: &ways, repetitions, cores };
            compare(&bench, &question, &solo, record)?;
        }
        Ok(())
    })
}

/// Turns per second of the load's loop on PU `pu`.
pub(crate) fn calibrate(load: &std::path::Path, pu: usize) -> anyhow::Result<f64> {
    let output = Command::new("taskset")
        .args(["-c", &pu.to_string()])
        .arg(load)
        .arg("--calibrate")
        .output()
        .with_context(|| format!("failed to run {}", load.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.trim().parse().with_context(|| format!("{} did not calibrate: `{}`", load.display(), text.trim()))
}

/// The jobs of `cell`: all the same work, so one class.
fn jobs(cell: Cell, args: &E5Args, speed: f64, cores: usize, load: &str) -> Vec<Job> {
    let burst_s = args.burst_ms / 1e3;
    let bursts = whole(args.job_seconds / burst_s);
    let turns = whole(speed * burst_s);
    let wait_us = whole(1e6 * burst_s * (1.0 - cell.duty) / cell.duty);
    let count = whole(cell.ratio * 2.0 * cores as f64);
    (1..=count)
        .map(|number| Job {
            name: format!("duty-{number}"),
            class: "duty".to_owned(),
            script: format!("{load} --bursts {bursts} --turns {turns} --wait-us {wait_us}\n"),
            outputs: vec!["stdout".to_owned()],
        })
        .collect()
}

/// `value` as a count of at least one.
pub(crate) fn whole(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive by the checks of the options, and saturating above"
    )]
    let whole = value.round().max(1.0) as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells() {
        assert_eq!("60:2.5".parse::<Cell>().unwrap(), Cell { duty: 0.6, ratio: 2.5 });
        for bad in ["", "60", "60:", ":2", "0:2", "101:2", "60:0", "x:y", "60:NaN"] {
            assert!(bad.parse::<Cell>().is_err(), "{bad:?}");
        }
    }
}
