//! `pinfold adopt`: processes that are already running become a job. No keeper is needed, for there is no process to
//! start or to wait for.
//!
//! Absent here: which processes may be adopted (the daemon).

use clap::Args;
use pinfold_proto::quantity::whole;
use pinfold_proto::wire::{Adoptee, Reply, Request};
use pinfold_proto::{ExitCode, JobSpec};

use crate::holds;
use crate::job::{self, JobOptions};
use crate::print::{print_json, print_text};
use pinfold_client::{Dial, Failure, unexpected};

#[derive(Debug, Args)]
#[group(id = "adoptee", required = true, multiple = false)]
pub(crate) struct AdoptArgs {
    /// This process, and all that descend from it
    #[arg(long, value_name = "N", group = "adoptee", value_parser = whole::<u32>(1..=u32::MAX))]
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

/// Asks for it and prints the job's number.
pub(crate) fn adopt(dial: &Dial, args: &AdoptArgs) -> Result<(), Failure> {
    let which = match (args.pid, &args.cgroup) {
        (Some(pid), _) => Adoptee::Process(pid),
        (None, Some(path)) => Adoptee::Group(path.clone()),
        (None, None) => {
            return Err(Failure::new(ExitCode::Usage, "name a process (--pid) or a group (--cgroup)"));
        }
    };
    if let Some((option, _)) = args.options.tasks.given().next() {
        let text = format!(
            "{option}: processes that run already have no tasks for pinfold to lay out; --cores says how many"
        );
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let asked = job::spec(&args.options, &[]);
    // These fields describe this command, not the adopted processes.
    let mut spec = Box::new(JobSpec { directory: String::new(), command: Vec::new(), ..asked });
    let mut client = dial.connect()?;
    holds::check(Some(&mut client), &args.options)?;
    if let Some(after) = args.options.after.as_ref().filter(|after| after.has_names()) {
        spec.after = after.resolved(&mut client)?;
    }
    match client.ask(&Request::Adopt { which, spec, in_place: false })? {
        Reply::Adopted { job, processes } if args.json => {
            print_json(&serde_json::json!({ "version": 1, "job": job, "processes": processes }))
        }
        Reply::Adopted { job, .. } => print_text(|out| writeln!(out, "{job}")),
        other => Err(unexpected(&other)),
    }
}
