//! Row `e4`: jobs of many processes that grow in step until together they want more memory than there is.
//!
//! As many jobs at a time as the host has slots at factor 2 come to want so many times the budget. Beside the peers the
//! same jobs run by hand as many at a time as fit, which somebody would have to know; the best of all is what pinfold is
//! held against.

use std::str::FromStr;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use super::memory::{loads, ways};
use super::{RowArgs, perform};
use crate::compare::{Question, against_best, compare, show};
use crate::pressed::Pressed;
use crate::run::Bench;
use crate::way::Knows;
use crate::workload::{Job, quote};

/// Options of row `e4`.
#[derive(Debug, Args)]
pub(crate) struct E4Args {
    #[command(flatten)]
    row: RowArgs,
    /// Processes of each job, and how many times the budget all that run at a time come to want; each pair one table.
    #[arg(long, value_name = "PROCESSES:TIMES", default_values = ["15:1.3", "25:2"])]
    cell: Vec<Cell>,
    /// Jobs.
    #[arg(long, default_value_t = 8)]
    jobs: u64,
    /// What all jobs together may hold in RAM, MiB.
    #[arg(long, default_value_t = 1024)]
    budget_mib: u64,
    /// Swap, MiB.
    #[arg(long, default_value_t = 4096)]
    swap_mib: u64,
    /// A run that takes longer is given up, seconds.
    #[arg(long, default_value_t = 60.0)]
    limit_s: f64,
}

/// One table's load.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    processes: u64,
    times: f64,
}

impl FromStr for Cell {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (processes, times) = text.split_once(':').context("a cell is PROCESSES:TIMES, as `15:1.3`")?;
        let processes = processes.parse::<u64>().context("PROCESSES is a number")?;
        let times = times.parse::<f64>().context("TIMES is a number")?;
        if !(1..=100).contains(&processes) || !(0.1..=10.0).contains(&times) {
            bail!("a cell has 1-100 processes and 0.1-10 times the budget");
        }
        Ok(Self { processes, times })
    }
}

impl Cell {
    /// What each job comes to hold with so many at a time, MiB.
    fn peak_mib(self, budget_mib: u64, slots: usize) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive by the checks of the cell, and far below the largest integer"
        )]
        let peak = (budget_mib as f64 * self.times / slots as f64) as u64;
        peak.max(self.processes)
    }
}

/// How many that large fit at a time, at least one: with a twentieth for what the processes hold beside.
fn fitting(budget_mib: u64, peak_mib: u64) -> usize {
    usize::try_from(budget_mib * 20 / (peak_mib * 21).max(1)).unwrap_or(usize::MAX).max(1)
}

/// Runs the row.
pub(crate) fn run(args: &E4Args) -> anyhow::Result<()> {
    perform("e4", &args.row, |ground, record| {
        let program = std::env::current_exe().context("failed to find this program's own path")?;
        let load = quote(&program.with_file_name("pinfold-load"));
        record.add("ground", &json!({ "budget_mib": args.budget_mib, "swap_mib": args.swap_mib }))?;
        let bench = ground.bench(args.limit_s);
        let pressed = Pressed::make(bench.scratch, args.budget_mib, args.swap_mib)?;
        let bench = Bench { group: Some(pressed.group()), lenient: true, ..bench };
        let cores = ground.cores();
        for cell in &args.cell {
            let peak_mib = cell.peak_mib(args.budget_mib, 2 * cores);
            let script = loads::family(&load, cell.processes, peak_mib);
            let jobs: Vec<Job> =
                (1..=args.jobs).map(|number| loads::job("family", number, script.clone())).collect();
            let progress = &mut |watch: &_, jobs| show("alone", watch, jobs);
            let (solo, failed) = bench.solo(&jobs, args.row.solo(), ground.solo_pu()?, progress)?;
            if let Some(why) = failed.values().next() {
                bail!("alone, {why}");
            }
            let mut by_hand = vec![fitting(args.budget_mib, peak_mib), cores, 2 * cores];
            by_hand.sort_unstable();
            by_hand.dedup();
            let title = format!(
                "{} jobs of {} processes, {} times the budget at {} at a time",
                args.jobs,
                cell.processes,
                cell.times,
                2 * cores
            );
            let ways = ways(
                &by_hand,
                cores,
                args.budget_mib,
                &[Knows::Nothing, Knows::Told(peak_mib), Knows::Before],
            );
            let repetitions = args.row.repetitions();
            let question =
                Question { title: &title, jobs: &jobs, device: &[], ways: &ways, repetitions, cores };
            let runs = compare(&bench, &question, &solo, record)?;
            against_best(&title, &runs, record)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells() {
        let cell: Cell = "15:1.3".parse().unwrap();
        assert_eq!(cell, Cell { processes: 15, times: 1.3 });
        assert_eq!(cell.peak_mib(1000, 4), 325);
        for bad in ["", "15", "0:1", "15:0", "15:x", "101:1", "15:NaN"] {
            assert!(bad.parse::<Cell>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn so_many_fit() {
        assert_eq!(
            [fitting(1000, 325), fitting(1000, 500), fitting(1000, 900), fitting(1000, 4000)],
            [2, 1, 1, 1]
        );
        assert_eq!(fitting(1000, 200), 4);
    }
}
