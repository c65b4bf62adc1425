//! Row `e1`: a mix of real programs, once and twice as many at a time as there are cores; and once more when pinfold has seen it.

use clap::Args;
use serde_json::json;

use super::{RowArgs, perform};
use crate::compare::{Question, compare, show};
use crate::programs::mix;
use crate::way::Way;

/// Options of row `e1`.
#[derive(Debug, Args)]
pub(crate) struct E1Args {
    #[command(flatten)]
    row: RowArgs,
    /// Work per job, against the demo's.
    #[arg(long, default_value_t = 1.0)]
    size: f64,
}

/// Runs the row.
pub(crate) fn run(args: &E1Args) -> anyhow::Result<()> {
    perform("e1", &args.row, |ground, record| {
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
        let mut ways = vec![
            Way::Native { slots: cores },
            Way::Native { slots: 2 * cores },
            Way::Parallel { slots: 2 * cores },
            Way::Pinfold { factor: 2.0 },
            Way::PinfoldAgain { factor: 2.0 },
        ];
        if args.row.full {
            ways.push(Way::Spooler { slots: 2 * cores });
        }
        let question = Question {
            title: "Real programs",
            jobs: &jobs,
            ways: &ways,
            repetitions: args.row.repetitions(),
            cores,
        };
        compare(&bench, &question, &solo, record)
    })
}
