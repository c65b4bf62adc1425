//! Row `programs`: a mix of real programs, as many at a time as there are cores and at other factors; and once more when pinfold
//! has seen it.

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use super::{RowArgs, perform};
use crate::compare::{Question, compare, show};
use crate::programs::mix;
use crate::way::Way;
use crate::workload::Job;

/// Options of row `programs`.
#[derive(Debug, Args)]
pub(crate) struct ProgramsArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Work per job, against the demo's.
    #[arg(long, default_value_t = 1.0)]
    size: f64,
    /// Jobs at a time for each core.
    #[arg(long, value_name = "FACTOR,FACTOR", value_delimiter = ',', default_values = ["2"], value_parser = factor)]
    at: Vec<f64>,
}

fn factor(text: &str) -> anyhow::Result<f64> {
    let factor: f64 = text.parse().context("a factor is a number")?;
    if !(0.5..=4.0).contains(&factor) {
        bail!("a factor is at least 0.5 and at most 4");
    }
    Ok(factor)
}

/// The whole number of jobs at a time that is nearest to `factor` for each core.
fn slots(factor: f64, cores: usize) -> usize {
    let off = |slots: usize| (slots as f64 - factor * cores as f64).abs();
    // Of two equally near numbers pinfold takes the larger.
    (1..=4 * cores).rev().min_by(|&one, &other| off(one).total_cmp(&off(other))).unwrap_or(1)
}

/// Runs the row.
pub(crate) fn run(args: &ProgramsArgs) -> anyhow::Result<()> {
    perform("programs", &args.row, |ground, record| {
        let bench = ground.bench(3_600.0);
        let inputs = tempfile::Builder::new().prefix("inputs-").tempdir_in(bench.scratch)?;
        let mix = mix(inputs.path(), args.size)?;
        for why in &mix.left_out {
            record.say(&format!("{why}."));
        }
        let mut jobs = mix.jobs;
        let (solo, failed) = bench.solo(&jobs, args.row.solo(), ground.solo_pu()?, &mut |watch, jobs| {
            show("alone", watch, jobs);
        })?;
        for why in failed.values() {
            record.say(&format!("Left out, because alone {why}."));
        }
        record.add("left_out", &json!({ "programs": mix.left_out, "failed_alone": failed }))?;
        jobs.retain(|job| solo.contains_key(&job.class));
        let cores = ground.cores();
        let mut ways = vec![Way::Native { slots: cores }];
        for &factor in &args.at {
            let slots = slots(factor, cores);
            ways.extend([Way::Native { slots }, Way::Parallel { slots }, Way::HyperQueue { slots }]);
            if args.row.full {
                ways.push(Way::Spooler { slots });
            }
            ways.extend([Way::Pinfold { factor }, Way::PinfoldAgain { factor }]);
        }
        ways.dedup();
        let waits = |job: &&Job| solo.get(&job.class).is_some_and(|solo| solo.wall_s > 2.0 * solo.cpu_s);
        let device: Vec<Job> = jobs.iter().filter(waits).cloned().collect();
        let question = Question {
            title: "Real programs",
            jobs: &jobs,
            device: &device,
            ways: &ways,
            repetitions: args.row.repetitions(),
            cores,
        };
        compare(&bench, &question, &solo, record).map(drop)
    })
}
