//! The command line as a whole: the commands, and how the daemon is reached. The options of each command stand beside it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::adopt::AdoptArgs;
use crate::batch::BatchArgs;
use crate::control::{CancelArgs, ConfigArgs, JobsArgs, SetArgs, WaitArgs};
use crate::layout::LayoutArgs;
use crate::log::LogArgs;
use crate::map::MapArgs;
use crate::operate::AuditArgs;
use crate::print::JsonArgs;
use crate::ps::PsArgs;
use crate::run::RunArgs;
use crate::sets::SetAsideArgs;
use crate::show::{ExportArgs, PlotArgs, ReportArgs, StatusArgs, WhyArgs};
use crate::store::{BackupArgs, NewBackupArgs, StoreArgs};
use crate::submit::SubmitArgs;
use crate::top::TopArgs;
use crate::topology::TopologyArgs;

/// Make one machine finish more work, predictably.
#[derive(Debug, Parser)]
#[command(name = "pinfold", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub reach: Reach,

    #[command(flatten)]
    pub elsewhere: crate::hub::Elsewhere,

    #[command(subcommand)]
    pub command: Command,
}

/// How the daemon is reached.
#[derive(Debug, Args)]
pub(crate) struct Reach {
    /// Talk to the daemon on this socket [default: $PINFOLD_SOCKET, or this user's own]
    #[arg(long, global = true, display_order = 900, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Fail when no daemon runs, instead of starting a private one
    #[arg(long, global = true, display_order = 901)]
    pub no_autostart: bool,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 3 no permission; \
4 no daemon reachable and none could be started; 5 refused or expired. `run` ends with the command's own \
status, 128+N when signal N ended it, 126 when it cannot be executed, 127 when it is not found.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command as a job in the foreground: same terminal, streams, directory and exit status
    Run(Box<RunArgs>),
    /// Hand a command over as a job and return at once; prints the job number
    Submit(SubmitArgs),
    /// Run each line of a file as a job and wait for all
    Batch(BatchArgs),
    /// Run a build as a job in the foreground; how many commands it runs at once follows what other jobs leave
    Make(Box<crate::make::MakeArgs>),
    /// Make a job of processes that run already; prints the job number
    Adopt(Box<AdoptArgs>),
    /// Show the host and its jobs
    Status(StatusArgs),
    /// Explain why a job is in its state and what would change it
    Why(WhyArgs),
    /// Print what a submitted job wrote
    Log(LogArgs),
    /// Show what jobs used
    Report(ReportArgs),
    /// Draw a job's memory, cores and I/O over time, or what the host did
    Plot(PlotArgs),
    /// Watch the host and its jobs
    Top(TopArgs),
    /// Show the processes of jobs that run
    Ps(PsArgs),
    /// Write jobs, samples, processes, threads, files or readings of the host as a table for other programs
    Export(ExportArgs),
    /// Wait until jobs are over; ends with the status of the last one named
    Wait(WaitArgs),
    /// End jobs
    Cancel(CancelArgs),
    /// Freeze jobs until they are resumed, or until `pinfold cancel` sends them a signal: each signal, not only one
    /// that ends them, makes them go on
    Suspend(JobsArgs),
    /// Let suspended jobs go on
    Resume(JobsArgs),
    /// Keep waiting jobs from starting
    Hold(JobsArgs),
    /// Let held jobs start
    Release(JobsArgs),
    /// Change a job, also while it runs
    Set(SetArgs),
    /// Show or change the daemon's live configuration
    Config(ConfigArgs),
    /// Set cores aside for jobs that ask for them by name (`--in NAME`), or give them back
    #[command(name = "set-aside")]
    SetAside(SetAsideArgs),
    /// Show the sets of cores that are set aside
    Sets(JsonArgs),
    /// Show the machine: sockets, caches, cores, PUs
    Topology(TopologyArgs),
    /// Show which core belongs to what
    Map(MapArgs),
    /// Say what classes of jobs need of memory, cores and time, with a stated risk
    Advise(Box<crate::advise::AdviseArgs>),
    /// Find the least memory that a command runs as well with: run it under falling bounds
    Squeeze(crate::squeeze::SqueezeArgs),
    /// Show what a request in Slurm's words would get on a machine, without running it
    Layout(Box<LayoutArgs>),
    /// Play jobs on hosts that are not there, under a workload manager's rule and pinfold's policy: waits, slowdown, freezes
    Sim(Box<crate::sim::SimArgs>),
    /// Show what the host as a whole did while jobs ran: processors, memory, stalls, temperature
    Host(crate::readings::HostArgs),
    /// Hand what this host's jobs used over to a hub of many hosts, or sign in there
    Hub(crate::hub::HubArgs),
    /// Start a program that finds Slurm's commands (sbatch, squeue ...), backed by pinfold, before any others
    Slurm(crate::slurm::SlurmArgs),
    /// Say what pinfold can do on this host, what it cannot, and what would change that
    Doctor(JsonArgs),
    /// Administration that is rare: backup, audit, draining, rescue, hooks of workload managers, manual pages
    Admin(AdminArgs),
    #[command(flatten)]
    Direct(AdminCommand),
}

/// What the administration of a host needs now and then. Each is also read without `admin` before it.
#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Start nothing new, so that the host becomes free; what runs goes on
    Drain,
    /// Start jobs again after `drain`
    Undrain,
    /// Show who changed what: configuration, draining, jobs
    Audit(AuditArgs),
    /// Start keepers for submitted jobs whose keeper is gone, after a restart of the host above all
    Keepers(JsonArgs),
    /// Copy the job store into a file, also while the daemon runs
    Backup(NewBackupArgs),
    /// Put a backup in place of the job store, while no daemon runs
    Restore(BackupArgs),
    /// Look through the whole job store for damage
    Check(StoreArgs),
    /// Without a daemon: thaw and unlimit everything pinfold ever made
    Rescue(crate::host::RescueArgs),
    /// Play a recording of the scheduler's events again: the same decisions, or the first that differs
    Replay(crate::replay::ReplayArgs),
    /// Have workload managers' jobs managed on this host: what is here, hooks, a check
    Wlm(crate::wlm::WlmArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    Man {
        /// The directory
        dir: PathBuf,
    },
}

impl AdminCommand {
    /// What they are called.
    pub(crate) fn names() -> Vec<String> {
        let tree = Self::augment_subcommands(clap::Command::new("admin"));
        tree.get_subcommands().map(|command| command.get_name().to_owned()).collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    #[command(subcommand)]
    pub command: AdminCommand,
}
