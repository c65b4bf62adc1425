//! The options of `adopt`.

use clap::Args;

use super::JobOptions;

#[derive(Debug, Args)]
#[group(id = "adoptee", required = true, multiple = false)]
pub(crate) struct AdoptArgs {
    /// This process, and all that descend from it
    #[arg(long, value_name = "N", group = "adoptee", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// The processes in this control group and below it, and all that descend from them: its directory, or its path as
    /// /proc/PID/cgroup has it
    #[arg(long, value_name = "PATH", group = "adoptee")]
    pub cgroup: Option<String>,
    #[command(flatten)]
    pub options: JobOptions,
    /// Print one JSON object instead of the bare number
    #[arg(long)]
    pub json: bool,
}
