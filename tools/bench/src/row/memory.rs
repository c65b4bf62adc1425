//! Row `memory`: jobs that together outgrow memory, under a budget and with a swap file.
//!
//! The loads are described in `loads`. Peers that read the whole host's memory get thresholds as if the host ended at the
//! budget, which is the best possible for them.

pub(super) mod loads;

use clap::Args;
use serde_json::json;

use super::waits::calibrate;
use super::{RowArgs, perform};
use crate::compare::{Question, against_alone, against_best, compare, show};
use crate::machine::available_mib;
use crate::pressed::Pressed;
use crate::run::Bench;
use crate::way::{Knows, Way};
use crate::workload::quote;
use loads::Load;

/// Options of row `memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Memory of all jobs together in RAM, MiB.
    #[arg(long, default_value_t = 2048)]
    budget_mib: u64,
    /// Swap, MiB.
    #[arg(long, default_value_t = 8192)]
    swap_mib: u64,
    /// A run that takes longer is given up, seconds.
    #[arg(long, default_value_t = 90.0)]
    limit_s: f64,
    /// Loads to run.
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
        for kind in &args.load {
            let inputs = tempfile::Builder::new().prefix("inputs-").tempdir_in(bench.scratch)?;
            let mix = kind.mix(&load, args.budget_mib, inputs.path())?;
            for why in &mix.left_out {
                record.say(&format!("{why}."));
            }
            let (jobs, claim_mib) = (mix.jobs, kind.claim_mib(args.budget_mib));
            anyhow::ensure!(!jobs.is_empty(), "nothing of `{}` can be run here", kind.title());
            let progress = &mut |watch: &_, jobs| show("alone", watch, jobs);
            let (solo, failed) = bench.solo(&jobs, args.row.solo(), ground.solo_pu()?, progress)?;
            if let Some(why) = failed.values().next() {
                anyhow::bail!("alone, {why}");
            }
            let knows: Vec<Knows> =
                [Knows::Nothing, Knows::Before].into_iter().chain(claim_mib.map(Knows::Told)).collect();
            let ways = ways(&by_hand(claim_mib, args.budget_mib, cores), cores, args.budget_mib, &knows);
            let question = Question {
                title: kind.title(),
                jobs: &jobs,
                device: &[],
                ways: &ways,
                repetitions: args.row.repetitions(),
                cores,
            };
            let runs = compare(&bench, &question, &solo, record)?;
            against_best(question.title, &runs, record)?;
            if let Some(class) = kind.large_class() {
                against_alone(&question, class, &runs, &solo, record)?;
            }
        }
        Ok(())
    })
}

/// The numbers of jobs at a time by hand: as many as there are cores, twice as many, and as many as fit if each job's need
/// is known, which a user would have to know.
fn by_hand(claim_mib: Option<u64>, budget_mib: u64, cores: usize) -> Vec<usize> {
    let fitting = claim_mib.map(|claim| usize::try_from(budget_mib / claim.max(1)).unwrap_or(cores).max(1));
    let mut counts: Vec<usize> = fitting.into_iter().chain([cores, 2 * cores]).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Given numbers at a time by hand, the peers at their best settings for twice as many as there are cores, and pinfold by
/// its knowledge.
fn ways(native: &[usize], cores: usize, budget_mib: u64, knows: &[Knows]) -> Vec<Way> {
    let beyond = available_mib().saturating_sub(budget_mib);
    let slots = 2 * cores;
    let within = |&knows: &Knows| Way::PinfoldWithin { factor: 2.0, budget_mib, knows };
    let mut ways: Vec<Way> = native.iter().map(|&slots| Way::Native { slots }).collect();
    ways.extend([
        Way::ParallelSuspend { slots, half_mib: (beyond + budget_mib / 5) / 2 },
        Way::ParallelFree { slots, mib: beyond + budget_mib * 2 / 5 },
        Way::Earlyoom { slots, mib: beyond + budget_mib / 10 },
    ]);
    ways.extend(knows.iter().map(within));
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand_as_many_run_as_fit() {
        assert_eq!(by_hand(None, 1_000, 2), [2, 4]);
        assert_eq!(by_hand(Some(520), 1_000, 2), [1, 2, 4]);
        assert_eq!(by_hand(Some(400), 1_000, 2), [2, 4]);
        assert_eq!(by_hand(Some(2_000), 1_000, 2), [1, 2, 4]);
    }
}
