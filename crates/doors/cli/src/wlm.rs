//! `pinfold wlm`: workload managers dispatch, pinfold manages the host.
//!
//! Reading order: [`detect`] (the managers here), [`install`] (hooks and the lines of configuration), [`enter`] (a
//! hook's question before a job executes), [`capacity`] and [`learned`] (managers learn of the host and of jobs),
//! [`sync`] (the same for Slurm, again and again), [`over`] (a job's end), [`check`] (a job through). Absent here: the
//! hooks' content ([`pinfold_wlm`]), and any dispatch.

mod capacity;
mod check;
mod detect;
mod enter;
mod install;
mod learned;
mod over;
mod sync;

use std::process::ExitCode as ProcessExit;

use clap::{Args, Subcommand};
use pinfold_wlm::Manager;

use crate::print::JsonArgs;
use pinfold_client::{Dial, Failure};

#[derive(Debug, Args)]
pub(crate) struct WlmArgs {
    #[command(subcommand)]
    verb: WlmVerb,
}

#[derive(Debug, Subcommand)]
enum WlmVerb {
    /// Show which workload managers are here, and what is missing until their jobs come to pinfold
    Detect(JsonArgs),
    /// Write a manager's hooks, and print the lines of configuration to add
    Install(install::InstallArgs),
    /// Remove a manager's hooks, and the lines that `install --apply` added
    Uninstall(install::UninstallArgs),
    /// Run one job through a manager, and say what held
    Check(check::CheckArgs),
    /// For hooks: ask for a job of a manager's before it executes, and wait until it may go; prints variables for it
    Enter(Box<enter::EnterArgs>),
    /// For hooks: say how much more this host takes
    Capacity(capacity::CapacityArgs),
    /// For hooks, with the rights of an operator: say how much memory classes of jobs need
    Learned(learned::LearnedArgs),
    /// For hooks: a job is over for its manager, so that what is left of it here is ended
    Over(over::OverArgs),
    /// Keep Slurm told: how many jobs a core takes here, whether the host is drained, which jobs have been frozen for long,
    /// and how long they waited
    Sync(sync::SyncArgs),
}

/// The manager that is meant.
fn manager(text: &str) -> Result<Manager, pinfold_wlm::manager::UnknownManager> {
    text.parse()
}

/// `pinfold wlm`.
pub(crate) fn wlm(dial: &Dial, args: &WlmArgs) -> Result<ProcessExit, Failure> {
    match &args.verb {
        WlmVerb::Detect(args) => detect::detect(args.json)?,
        WlmVerb::Install(args) => install::install(dial, args)?,
        WlmVerb::Uninstall(args) => install::uninstall(args)?,
        WlmVerb::Check(args) => return check::check(dial, args),
        WlmVerb::Enter(args) => enter::enter(dial, args)?,
        WlmVerb::Capacity(args) => capacity::capacity(dial, args)?,
        WlmVerb::Learned(args) => learned::learned(dial, args)?,
        WlmVerb::Over(args) => over::over(dial, args)?,
        WlmVerb::Sync(args) => sync::sync(dial, args)?,
    }
    Ok(ProcessExit::SUCCESS)
}
