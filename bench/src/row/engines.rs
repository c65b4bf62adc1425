//! Row `engines`: what Slurm's commands cost an engine, and a workflow by its engine's own scheduler and through pinfold.
//!
//! The commands are measured with jobs that do nothing, so that only handing them over is. The workflow is a recorded one:
//! its classes, dependencies, memory and times, scaled to a budget (`workflow`). Absent here: any other engine than
//! Snakemake, which has a local scheduler that knows memory.

mod commands;
mod workflow;

use std::path::PathBuf;

use clap::Args;

use super::{RowArgs, perform};

/// Options of row `engines`.
#[derive(Debug, Args)]
pub(crate) struct EnginesArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Scripts that are handed over in each run of `sbatch`; 0: the commands are left out.
    #[arg(long, default_value_t = 300)]
    scripts: usize,
    /// Jobs that wait while the lists are asked for.
    #[arg(long, default_value_t = 10_000)]
    known: usize,
    /// The recorded workflow.
    #[arg(long, value_name = "FILE", default_value = "fixtures/wfinstances/airrflow-dirt02-001.csv.gz")]
    workflow: PathBuf,
    /// So many of its tasks; 0: the workflow is left out.
    #[arg(long, default_value_t = 200)]
    tasks: usize,
    /// What its tasks take alone, one after the other, seconds.
    #[arg(long, default_value_t = 300.0)]
    work_s: f64,
    /// What all jobs together may hold in RAM, MiB.
    #[arg(long, default_value_t = 2048)]
    budget_mib: u64,
    /// The largest task's part of that; above a half, two of them do not fit beside each other.
    #[arg(long, default_value_t = 0.8)]
    largest: f64,
    /// Swap, MiB.
    #[arg(long, default_value_t = 2048)]
    swap_mib: u64,
    /// A run that takes longer is given up, seconds.
    #[arg(long, default_value_t = 3600.0)]
    limit_s: f64,
    /// The virtual environment with Snakemake and its plugins, which `make engines` makes [default: engines-venv beside
    /// the build].
    #[arg(long, value_name = "DIR")]
    engines: Option<PathBuf>,
}

/// Runs the row.
pub(crate) fn run(args: &EnginesArgs) -> anyhow::Result<()> {
    perform("engines", &args.row, |ground, record| {
        if args.scripts > 0 {
            commands::measure(args, ground, record)?;
        }
        if args.tasks > 0 {
            workflow::measure(args, ground, record)?;
        }
        Ok(())
    })
}
