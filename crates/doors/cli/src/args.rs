//! The command line as a whole: the commands, and how the daemon is reached. The options of each command stand beside it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::adopt::AdoptArgs;
use crate::batch::BatchArgs;
use crate::control::{CancelArgs, ConfigArgs, SetArgs};
use crate::layout::LayoutArgs;
use crate::log::LogArgs;
use crate::map::MapArgs;
use crate::operate::AuditArgs;
use crate::pick::Pick;
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

    /// Show times, and read dates of --since and --at, in UTC instead of the zone of TZ or of the system
    #[arg(long, global = true, display_order = 902)]
    pub utc: bool,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 3 no permission; \
4 no daemon reachable and none could be started; 5 refused or expired. `run` ends with the command's own \
status, 128+N when signal N ended it, 126 when it cannot be executed, 127 when it is not found.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command as a job in the foreground
    Run(Box<RunArgs>),
    /// Queue a command as a job, print the job number, return at once
    Submit(Box<SubmitArgs>),
    /// Run each line of a list as a job and wait for all jobs
    Batch(Box<BatchArgs>),
    /// Run a build with as many parallel commands as other jobs leave cores for
    Make(Box<crate::make::MakeArgs>),
    /// Make a job of running processes, print the job number
    Adopt(Box<AdoptArgs>),
    /// Show the host and its jobs
    Status(StatusArgs),
    /// Explain why a job is in its state and what would change it
    Why(WhyArgs),
    /// Print the output of a submitted job
    Log(LogArgs),
    /// Show the time, cores, memory and I/O that jobs used
    Report(ReportArgs),
    /// Draw memory, cores and I/O over time, of a job or of the host
    Plot(PlotArgs),
    /// Watch the host and its jobs live
    Top(TopArgs),
    /// Show the processes of running jobs
    Ps(PsArgs),
    /// Write a table of jobs, samples, processes, files or the host's readings for other programs
    Export(ExportArgs),
    /// Wait for the end of jobs, exit with the status of the last job
    Wait(Pick),
    /// Submit failed jobs again as they were submitted
    Retry(crate::retry::RetryArgs),
    /// Submit a job again as it was submitted, with other options
    Again(crate::retry::AgainArgs),
    /// End jobs
    Cancel(CancelArgs),
    /// Freeze jobs until `pinfold resume`
    ///
    /// Any signal of `pinfold cancel --signal` resumes a suspended job, too.
    Suspend(Pick),
    /// Let suspended jobs continue
    Resume(Pick),
    /// Keep waiting jobs from starting until `pinfold release`
    Hold(Pick),
    /// Let held jobs start
    Release(Pick),
    /// Change the options of waiting or running jobs
    Set(SetArgs),
    /// Show or change the daemon's live configuration
    Config(ConfigArgs),
    /// Set cores aside for jobs with `--in NAME`, or give the cores back
    #[command(name = "set-aside")]
    SetAside(SetAsideArgs),
    /// Show the sets of cores of `set-aside`
    Sets(JsonArgs),
    /// Show the machine: sockets, caches, cores, PUs
    Topology(TopologyArgs),
    /// Show which jobs and sets hold each core
    Map(MapArgs),
    /// Advise how much memory, cores and time to request for classes of jobs, with a stated risk
    Advise(Box<crate::advise::AdviseArgs>),
    /// Find the least memory with which a command runs as fast as without a limit
    Squeeze(crate::squeeze::SqueezeArgs),
    /// Show the cores that a request with Slurm's layout options would get, without running it
    Layout(Box<LayoutArgs>),
    /// Simulate jobs on hosts under a workload manager's rule and pinfold's policy
    Sim(Box<crate::sim::SimArgs>),
    /// Show the host's processors, memory, stalls and temperature over time
    Host(crate::readings::HostArgs),
    /// Send this host's reports to a hub of many hosts, or sign in to the hub
    Hub(crate::hub::HubArgs),
    /// Run a program with Slurm's commands (sbatch, squeue ...) that pinfold provides
    Slurm(crate::slurm::SlurmArgs),
    /// Show the abilities of pinfold on this host, and how to gain the missing abilities
    Doctor(JsonArgs),
    /// Rare administration: backup, audit, draining, rescue, workload managers, manual pages
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
    /// Have systemd hand control groups to users, so that private daemons limit and page out without root
    Delegate(crate::delegate::DelegateArgs),
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
    /// The names of the commands.
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
