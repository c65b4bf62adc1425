//! Row `memory`: jobs that together outgrow memory, under a budget and with a swap file.
//!
//! The loads are told in `loads`. Peers that look at the whole host are told their thresholds as if the host ended at
//! the budget, which is the best that can be done for them.

mod loads;

use clap::Args;
use serde_json::json;

use super::e5::calibrate;
use super::{RowArgs, perform};
use crate::compare::{Question, compare, show};
use crate::machine::available_mib;
use crate::pressed::Pressed;
use crate::run::Bench;
use crate::way::Way;
use crate::workload::quote;
use loads::Load;

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
    load: Vec<Load>,
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
        for kind in &args.load {
            let (jobs, claim_mib) = (kind.jobs(&load, args.budget_mib), kind.claim_mib(args.budget_mib));
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
                Way::Earlyoom { slots: 2 * cores, mib: beyond + args.budget_mib / 10 },
                within(None),
            ];
            ways.extend(claim_mib.map(|mib| within(Some(mib))));
            let question = Question {
                title: kind.title(),
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
