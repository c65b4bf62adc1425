//! Row `memory`: jobs that together outgrow memory, under a budget and with a swap file.
//!
//! `eight`: as many jobs, each of which grows and then walks its memory at random. `big`: one job that grows to 70 % of
//! the budget, first in the list, and many small ones. Peers that look at the whole host are told their thresholds as
//! if the host ended at the budget, which is the best that can be done for them.

use clap::Args;
use serde_json::json;

use super::e5::calibrate;
use super::{RowArgs, perform};
use crate::compare::{Question, compare, show};
use crate::machine::available_mib;
use crate::pressed::Pressed;
use crate::run::Bench;
use crate::way::Way;
use crate::workload::{Job, quote};

/// Options of row `memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    row: RowArgs,
    /// What all jobs together may hold in RAM, MiB.
    #[arg(long, default_value_t = 2048)]
    budget_mib: u64,
    /// Swap, MiB.
    #[arg(long, default_value_t = 8192)]
    swap_mib: u64,
    /// A run that takes longer is given up, seconds.
    #[arg(long, default_value_t = 90.0)]
    limit_s: f64,
    /// Which loads.
    #[arg(long, value_name = "NAME", default_values = ["eight", "big"])]
    load: Vec<String>,
}

/// Runs the row.
pub(crate) fn run(args: &MemoryArgs) -> anyhow::Result<()> {
    perform("memory", &args.row, |ground, record| {
        let program = std::env::current_exe()?;
        let load = quote(&program.with_file_name("pinfold-load"));
        let speed = calibrate(&program.with_file_name("pinfold-load"), ground.solo_pu()?)?;
        record.add(
            "calibration",
            &json!({ "turns_per_second": speed, "budget_mib": args.budget_mib, "swap_mib": args.swap_mib }),
        )?;
        let bench = ground.bench(args.limit_s);
        let pressed = Pressed::make(bench.scratch, args.budget_mib, args.swap_mib)?;
        let bench = Bench { group: Some(pressed.group()), lenient: true, ..bench };
        let cores = ground.cores();
        let beyond = available_mib().saturating_sub(args.budget_mib);
        for name in &args.load {
            let (jobs, claim_mib) = match name.as_str() {
                "eight" => (eight(&load, args.budget_mib), Some(args.budget_mib * 35 / 100)),
                "big" => (big(&load, args.budget_mib), None),
                other => anyhow::bail!("there is no load `{other}`: eight or big"),
            };
            let progress = &mut |watch: &_, jobs| show("alone", watch, jobs);
            let (solo, failed) = bench.solo(&jobs, args.row.solo(), ground.solo_pu()?, progress)?;
            if let Some(why) = failed.values().next() {
                anyhow::bail!("alone, {why}");
            }
            let within =
                |claim_mib| Way::PinfoldWithin { factor: 2.0, budget_mib: args.budget_mib, claim_mib };
            let mut ways = vec![
                Way::Native { slots: cores },
                Way::Native { slots: 2 * cores },
                Way::ParallelSuspend { slots: 2 * cores, half_mib: (beyond + args.budget_mib / 5) / 2 },
                Way::ParallelFree { slots: 2 * cores, mib: beyond + args.budget_mib * 2 / 5 },
                within(None),
            ];
            ways.extend(claim_mib.map(|mib| within(Some(mib))));
            let question = Question {
                title: name,
                jobs: &jobs,
                ways: &ways,
                repetitions: args.row.repetitions(),
                cores,
            };
            compare(&bench, &question, &solo, record)?;
        }
        Ok(())
    })
}

/// Eight jobs that each grow to 34 % of the budget at 300 MiB a second and then walk it.
fn eight(load: &str, budget_mib: u64) -> Vec<Job> {
    let mib = budget_mib * 34 / 100;
    (1..=8).map(|number| job(load, "grower", number, mib, 15_000_000)).collect()
}

/// One job that grows to 70 % of the budget and walks it for long, and twenty-four small ones.
fn big(load: &str, budget_mib: u64) -> Vec<Job> {
    let small = (1..=24).map(|number| job(load, "small", number, budget_mib * 8 / 100, 15_000_000));
    std::iter::once(job(load, "big", 1, budget_mib * 70 / 100, 60_000_000)).chain(small).collect()
}

fn job(load: &str, class: &str, number: u64, mib: u64, turns: u64) -> Job {
    Job {
        name: format!("{class}-{number}"),
        class: class.to_owned(),
        script: format!("{load} --grow-mib {mib} --grow-mib-per-s 300 --bursts 1 --turns {turns}\n"),
        outputs: vec!["stdout".to_owned()],
    }
}
