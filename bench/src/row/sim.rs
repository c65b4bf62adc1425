//! `sim`: how long `pinfold sim` takes, by jobs and hosts, and how many jobs of awkward sizes lie on NUMA nodes at once by
//! several rules. Simulations: nothing is run, so the machine it runs on matters for the times only.

mod packing;
mod scale;

use super::{RowArgs, perform};

/// Options of this row.
#[derive(Debug, clap::Args)]
pub(crate) struct SimArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Jobs of the longest list.
    #[arg(long, default_value_t = 1_000_000)]
    jobs: usize,
    /// Hosts of the largest cluster.
    #[arg(long, default_value_t = 1000)]
    hosts: u32,
    /// NUMA nodes of the largest machine that jobs are packed on.
    #[arg(long, default_value_t = 1024)]
    nodes: u32,
}

pub(crate) fn run(args: &SimArgs) -> anyhow::Result<()> {
    perform("sim", &args.row, |ground, record| {
        scale::tell(args, ground, record)?;
        packing::tell(args, ground, record)
    })
}
