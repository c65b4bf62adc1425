//! The command line as it is typed; resolved into specs and requests elsewhere.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use pinfold_proto::array::{ArraySpec, JobName};
use pinfold_proto::quantity::{parse_duration, parse_size};

use crate::checkpoint;
use crate::job::PlaceArg;
use crate::names::{Names, names};

mod adopt;
mod kept;

pub(crate) use adopt::AdoptArgs;
pub(crate) use kept::{ExportArgs, ExportForm, ExportWhat, PlotArgs};

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
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Fail when no daemon runs, instead of starting a private one
    #[arg(long, global = true)]
    pub no_autostart: bool,
}

impl Cli {
    /// Reads the command line of this process.
    ///
    /// The whole tree of commands takes most of a millisecond to build, and every `pinfold run` would wait for it. So
    /// that one is read by its own options alone; whatever is odd about it, or asks for help, is read again with all.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let words: Vec<OsString> = std::env::args_os().collect();
        match words.get(1).and_then(|word| word.to_str()) {
            Some("run") => Self::read_run(&words[1..]).map_or_else(Self::try_parse, Ok),
            _ => Self::try_parse(),
        }
    }

    fn read_run(words: &[OsString]) -> Option<Self> {
        let bare = clap::Command::new("run").disable_help_flag(true);
        let matches = RunArgs::augment_args(Reach::augment_args(bare)).try_get_matches_from(words).ok()?;
        let reach = Reach::from_arg_matches(&matches).ok()?;
        let run = RunArgs::from_arg_matches(&matches).ok()?;
        Some(Self { reach, elsewhere: crate::hub::Elsewhere::HERE, command: Command::Run(Box::new(run)) })
    }
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
    /// Make a job of processes that run already; prints the job number
    Adopt(Box<AdoptArgs>),
    /// Show the host and its jobs
    Status(StatusArgs),
    /// Explain why a job is in its state and what would change it
    Why(WhyArgs),
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
    /// Copy the job store into a file, also while the daemon runs
    Backup(BackupArgs),
    /// Put a backup in place of the job store, while no daemon runs
    Restore(BackupArgs),
    /// Look through the whole job store for damage
    Check(StoreArgs),
    /// Wait until jobs are over; ends with the status of the last one named
    Wait(WaitArgs),
    /// End jobs
    Cancel(CancelArgs),
    /// Freeze jobs until they are resumed
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
    /// Start nothing new, so that the host becomes free; what runs goes on
    Drain,
    /// Start jobs again after `drain`
    Undrain,
    /// Set cores aside for jobs that ask for them by name (`--in NAME`), or give them back
    #[command(name = "set-aside")]
    SetAside(SetAsideArgs),
    /// Show the sets of cores that are set aside
    Sets(JsonArgs),
    /// Start keepers for submitted jobs whose keeper is gone, after a restart of the host above all
    Keepers(JsonArgs),
    /// Show who changed what: configuration, draining, jobs
    Audit(AuditArgs),
    /// Show the machine: sockets, caches, cores, PUs
    Topology(TopologyArgs),
    /// Show which core belongs to what
    Map(MapArgs),
    /// Say what classes of jobs need of memory, with a stated risk
    Advise(crate::advise::AdviseArgs),
    /// Show what a request in Slurm's words would get on a machine, without running it
    Layout(Box<LayoutArgs>),
    /// Play a log of jobs on a machine by a workload manager's rule: waits, slowdown, utilisation
    Sim(crate::sim::SimArgs),
    /// Show what the host as a whole did while jobs ran: processors, memory, stalls, temperature
    Host(crate::readings::HostArgs),
    /// Hand what this host's jobs used over to a hub of many hosts, or sign in there
    Hub(crate::hub::HubArgs),
    /// Say what pinfold can do on this host, what it cannot, and what would change that
    Doctor(JsonArgs),
    /// Without a daemon: thaw and unlimit everything pinfold ever made
    Rescue(crate::host::RescueArgs),
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

/// What can be said of a job; each also as an environment variable, so that a batch script can carry it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Job options")]
pub(crate) struct JobOptions {
    /// A name for the job [default: the command's]
    #[arg(long, env = "PINFOLD_NAME", hide_env_values = true, value_name = "NAME")]
    pub name: Option<String>,
    /// The project it belongs to
    #[arg(long, env = "PINFOLD_PROJECT", hide_env_values = true, value_name = "NAME")]
    pub project: Option<String>,
    /// Its importance, 1 to 16, larger is more important [default: the host's, 10]
    #[arg(long, visible_alias = "rank", env = "PINFOLD_PRIORITY", hide_env_values = true, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=16), allow_negative_numbers = true)]
    pub priority: Option<u8>,
    /// Wait for a home core of its own
    #[arg(long, env = "PINFOLD_PRIMARY", hide_env_values = true, conflicts_with_all = ["backfill", "exclusive"])]
    pub primary: bool,
    /// Run only in the cycles that other jobs leave
    #[arg(long, env = "PINFOLD_BACKFILL", hide_env_values = true, conflicts_with = "exclusive")]
    pub backfill: bool,
    /// Take every slot of the host
    #[arg(long, env = "PINFOLD_EXCLUSIVE", hide_env_values = true)]
    pub exclusive: bool,
    /// Whole cores that nothing else is on, as far as the kernel goes (doctor: `isolation`); one core, or --cores N
    #[arg(long, env = "PINFOLD_ISOLATED", hide_env_values = true,
          conflicts_with_all = ["primary", "backfill", "exclusive", "in"])]
    pub isolated: bool,
    /// Whole cores it needs; it takes as many slots [default: what its tasks need, 1]
    #[arg(long, env = "PINFOLD_CORES", hide_env_values = true, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=65536), allow_negative_numbers = true)]
    pub cores: Option<u32>,
    /// How its cores lie: close together (compact), over as many caches as there are (spread), or as jobs like it were
    /// found to run faster (auto) [default: the host's, auto]
    #[arg(long, env = "PINFOLD_PLACE", hide_env_values = true, value_enum, value_name = "HOW",
          conflicts_with_all = ["isolated", "exclusive"])]
    pub place: Option<PlaceArg>,
    /// Run it in this set of cores, see `pinfold sets`
    #[arg(id = "in", long = "in", env = "PINFOLD_IN", hide_env_values = true, value_name = "SET")]
    pub set: Option<String>,
    /// Memory it is expected to need: it starts when that is free; what jobs like it needed counts more
    #[arg(long, env = "PINFOLD_MEM", hide_env_values = true, value_name = "SIZE", value_parser = parse_size,
          allow_negative_numbers = true)]
    pub mem: Option<u64>,
    /// Memory it may not exceed; the kernel sees to it where doctor says `limit`
    #[arg(long, env = "PINFOLD_MEM_LIMIT", hide_env_values = true, value_name = "SIZE", value_parser = parse_size,
          allow_negative_numbers = true)]
    pub mem_limit: Option<u64>,
    /// A directory in memory of this size, named in its TMPDIR and gone when it is over
    #[arg(long, env = "PINFOLD_TMP", hide_env_values = true, value_name = "SIZE", value_parser = parse_size,
          allow_negative_numbers = true)]
    pub tmp: Option<u64>,
    /// A directory on a disk with room for this much, named in its PINFOLD_DISK_DIR and gone when it is over
    #[arg(long, env = "PINFOLD_DISK", hide_env_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub disk: Option<u64>,
    /// An empty /tmp and /var/tmp of its own, gone when it is over
    #[arg(long, env = "PINFOLD_PRIVATE_TMP", hide_env_values = true)]
    pub private_tmp: bool,
    /// A network of its own, with loopback and nothing else; `/tmp` and other files stay as they are
    #[arg(long, env = "PINFOLD_NO_NETWORK", hide_env_values = true)]
    pub no_network: bool,
    /// How long it may wait before it expires
    #[arg(long, env = "PINFOLD_TTL", hide_env_values = true, value_name = "DURATION", value_parser = parse_duration)]
    pub ttl: Option<Duration>,
    /// Start it only when these jobs are over, however they end
    #[arg(
        long,
        env = "PINFOLD_AFTER",
        hide_env_values = true,
        value_name = "JOB[,JOB]",
        value_parser = names
    )]
    pub after: Option<Names>,
    /// How long it is expected to run; among jobs that all say so the longest goes first
    #[arg(long, env = "PINFOLD_TIME", hide_env_values = true, value_name = "DURATION", value_parser = parse_duration)]
    pub time: Option<Duration>,
    /// Never freeze it by the host's own choice
    #[arg(long, env = "PINFOLD_NO_SUSPEND", hide_env_values = true)]
    pub no_suspend: bool,
    /// If memory can be had in no other way, end it and begin it anew later
    #[arg(long, env = "PINFOLD_REQUEUE", hide_env_values = true)]
    pub requeue: bool,
    /// A shell command that has the job write down what it has done; with it the job may be ended for want of memory once
    /// that has succeeded, and begins anew later
    #[arg(long, env = "PINFOLD_CHECKPOINT", hide_env_values = true, value_name = "COMMAND",
          value_parser = checkpoint::command)]
    pub checkpoint: Option<String>,
    /// How long that command may take [default: 1m]
    #[arg(long, env = "PINFOLD_CHECKPOINT_TIME", hide_env_values = true, value_name = "DURATION",
          value_parser = parse_duration, requires = "checkpoint")]
    pub checkpoint_time: Option<Duration>,
    /// Let it wait until it is released
    #[arg(long, env = "PINFOLD_HOLD", hide_env_values = true)]
    pub hold: bool,
    /// How many tasks, and how they lie on the cores
    #[command(flatten)]
    pub tasks: TaskOptions,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub options: JobOptions,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub options: JobOptions,
    /// Hand it over once for each of these indexes, 0-15, 1,3,7 or 0-30:5, with %4 behind them at most 4 at once; each
    /// has its own in PINFOLD_ARRAY_INDEX
    #[arg(short, long, value_name = "INDEXES[%N]")]
    pub array: Option<ArraySpec>,
    /// Write its standard output here [default: pinfold-JOB.out]; in an array %A stands for its number, %a for the index
    /// and %j for the job's own number
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write its standard error here [default: pinfold-JOB.err]
    #[arg(short, long, value_name = "FILE")]
    pub error: Option<PathBuf>,
    /// Print one JSON object instead of the bare number
    #[arg(long)]
    pub json: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    #[command(flatten)]
    pub options: JobOptions,
    /// Print the results as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
    /// Begin the lines in the order of the file; otherwise, when each of them or its like was run before, the longest
    /// first
    #[arg(long)]
    pub in_order: bool,
    /// A file of shell commands, one a line (blank lines and those that begin with # are skipped); - for
    /// standard input
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Only these jobs
    #[arg(value_name = "JOB")]
    pub jobs: Vec<JobName>,
    /// Also jobs that are over, and other users' where you may see them
    #[arg(short, long)]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub job: JobName,
    /// As it stood then: so long ago (2h), a date (2026-11-21 22:10, UTC) or Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN")]
    pub at: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[group(id = "which", required = true, multiple = false)]
pub(crate) struct Which {
    /// These jobs
    #[arg(value_name = "JOB", group = "which")]
    pub jobs: Vec<JobName>,
    /// The last N jobs
    #[arg(long, value_name = "N", group = "which", value_parser = clap::value_parser!(u32).range(1..))]
    pub last: Option<u32>,
    /// Jobs asked for since then: so long ago (2h), a date (2026-11-21 22:10, UTC) or Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN", group = "which")]
    pub since: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub which: Which,
    /// With every sample
    #[arg(long)]
    pub series: bool,
    /// With the processes of each job: by command, and the largest one by one
    #[arg(long)]
    pub processes: bool,
    /// With the threads of each job that runs
    #[arg(long)]
    pub threads: bool,
    /// With the files that each job was seen to have open (`profile.files=on`)
    #[arg(long)]
    pub files: bool,
    /// Put the jobs together, with how each figure is spread
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["series", "processes", "threads", "files"])]
    pub by: Option<GroupBy>,
    /// Also other users' jobs, for operators; with --last or --since
    #[arg(short, long)]
    pub all: bool,
    /// Print comma-separated values: a line a job, or with one of --series, --processes, --threads and --files a line each
    /// of these
    #[arg(long, conflicts_with_all = ["json", "by"])]
    pub csv: bool,
    /// Report again and again at this interval, until the jobs are over
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub every: Option<Duration>,
    /// Print one JSON object a job
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum GroupBy {
    /// Jobs of one name
    Name,
    /// Jobs of one user
    User,
    /// Jobs of one project
    Project,
    /// Primaries, backfillers, exclusive jobs
    Class,
    /// Jobs asked for on one day, UTC
    Day,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Time between two looks
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    pub every: Duration,
    /// Print one screen and end
    #[arg(long)]
    pub once: bool,
    /// The host as it was, from the store: so long ago (2h), at a date (2026-11-21 22:10, UTC) or at Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN")]
    pub at: Option<String>,
    /// Begin with the cores and the jobs on them
    #[arg(long)]
    pub cores: bool,
    /// Print one JSON object, as `status` does, and end
    #[arg(long, conflicts_with = "once")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Only these jobs
    #[arg(value_name = "JOB", conflicts_with = "all")]
    pub jobs: Vec<JobName>,
    /// All processes of the host, those of jobs with the mark (`mark.character`)
    #[arg(short, long)]
    pub all: bool,
    /// Print one JSON object a job; with --all one in all
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The state directory [default: the running daemon's, or where this user's would keep it]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// The backup
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    /// The jobs
    #[arg(required = true, value_name = "JOB")]
    pub jobs: Vec<JobName>,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The jobs
    #[arg(required = true, value_name = "JOB")]
    pub jobs: Vec<JobName>,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The jobs
    #[arg(required = true, value_name = "JOB")]
    pub jobs: Vec<JobName>,
    /// The signal, by name or number [default: TERM, and KILL 10 s later]
    #[arg(short, long, value_name = "SIGNAL")]
    pub signal: Option<String>,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("changed").required(true).multiple(true).args(["priority", "mem"])))]
pub(crate) struct SetArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub job: JobName,
    /// Its importance, 1 to 16
    #[arg(long, visible_alias = "rank", value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=16))]
    pub priority: Option<u8>,
    /// Memory it is expected to need
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub mem: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct SetAsideArgs {
    /// Its name: up to 32 letters, digits, `-`, `_` and `.`
    #[arg(value_name = "NAME", required_unless_present = "idle", conflicts_with = "idle")]
    pub name: Option<String>,
    /// These PUs, as a kernel list
    #[arg(long, value_name = "SET", required_unless_present_any = ["cores", "remove"],
          conflicts_with_all = ["cores", "remove"])]
    pub cpus: Option<String>,
    /// So many whole cores, close together
    #[arg(long, value_name = "N", conflicts_with = "remove", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub cores: Option<u32>,
    /// Memory that other jobs leave free for those in it
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with_all = ["idle", "remove"])]
    pub memory: Option<u64>,
    /// Cores that no job is on now: prints the name of the set, or nothing when there are not so many
    #[arg(long, conflicts_with_all = ["cpus", "remove"])]
    pub idle: bool,
    /// How long idle cores stay set aside without a job in them [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "idle")]
    pub hold: Option<Duration>,
    /// Other jobs may be on its cores as well; those in it are on no others
    #[arg(long, conflicts_with_all = ["idle", "remove"])]
    pub shared: bool,
    /// No job is ever on its cores: they are for the host itself
    #[arg(long, conflicts_with_all = ["idle", "remove", "shared", "memory", "users"])]
    pub housekeeping: bool,
    /// Who may use it [default: everybody; of idle cores, you]
    #[arg(long, value_name = "USER[,USER]", value_delimiter = ',', conflicts_with = "remove")]
    pub users: Vec<String>,
    /// Give its cores back
    #[arg(long)]
    pub remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Check that nothing was changed in the records
    #[arg(long)]
    pub verify: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Show every key, or one
    Get {
        /// The key
        key: Option<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Change keys of the running daemon, all or none
    Set {
        /// Keys and values
        #[arg(required = true, value_name = "KEY=VALUE")]
        changes: Vec<String>,
    },
    /// Write the live values into the daemon's configuration file, or into FILE; comments stay
    Save {
        /// Another file than the daemon's own
        file: Option<PathBuf>,
    },
    /// Show who changed which key, from what to what
    History {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check a configuration file
    Check {
        /// The file
        file: PathBuf,
    },
    /// Print the default configuration, with comments
    Default,
}

#[derive(Debug, Args)]
pub(crate) struct TopologyArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Another machine than this: FILE.xml, synthetic:"pack:2 core:4 pu:2" or sysfs:DIR
    #[arg(long, value_name = "SOURCE")]
    pub from: Option<String>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = TopologyForm::Tree)]
    pub format: TopologyForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopologyForm {
    /// Indented by level.
    Tree,
    /// One PU a line.
    Table,
}

#[derive(Debug, Args)]
pub(crate) struct MapArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Write a picture: FILE.svg or FILE.png
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Another machine than this, with nothing on it, as `topology --from` takes it
    #[arg(long, value_name = "SOURCE")]
    pub from: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LayoutArgs {
    /// A machine, as `topology --from` takes it; may be given again, one host each [default: this one]
    #[arg(long, value_name = "SOURCE")]
    pub topology: Vec<String>,
    /// How many hosts; the last machine is repeated
    #[arg(long, value_name = "N")]
    pub hosts: Option<usize>,
    /// The PUs that are free, by their OS indexes [default: all]
    #[arg(long, value_name = "CPUSET")]
    pub free: Option<String>,
    /// What is handed out: whole cores, or single PUs (Slurm's CR_Core and CR_CPU)
    #[arg(long, value_enum, default_value_t = LayoutSelect::Core)]
    pub select: LayoutSelect,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub options: LayoutOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutSelect {
    /// Whole cores.
    Core,
    /// Single PUs.
    Cpu,
}

/// Slurm's layout options, as texts; `place` reads and checks them.
#[derive(Debug, Args)]
pub(crate) struct LayoutOptions {
    #[command(flatten)]
    tasks: TaskOptions,
    /// Take whole hosts
    #[arg(long)]
    exclusive: bool,
    /// Memory, which has no influence on the layout
    #[arg(long, value_name = "SIZE")]
    mem: Option<String>,
}

/// The layout options that a job has as well, each also as an environment variable. Absent here: `PINFOLD_NTASKS`,
/// which jobs find in their environment, see `tasks`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Layout options, with Slurm's names and meaning")]
pub(crate) struct TaskOptions {
    /// How many tasks: so many copies, each with its own PINFOLD_TASK_ID [env: PINFOLD_NTASKS=]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    pub ntasks: Option<String>,
    /// How many hosts, or the least and the most
    #[arg(
        short = 'N',
        long,
        env = "PINFOLD_NODES",
        hide_env_values = true,
        value_name = "N[-N]",
        allow_negative_numbers = true
    )]
    nodes: Option<String>,
    /// How many PUs each task wants
    #[arg(
        short = 'c',
        long,
        env = "PINFOLD_CPUS_PER_TASK",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    cpus_per_task: Option<String>,
    /// The least sockets, cores and threads a host must have
    #[arg(
        short = 'B',
        long,
        env = "PINFOLD_EXTRA_NODE_INFO",
        hide_env_values = true,
        value_name = "S[:C[:T]]"
    )]
    extra_node_info: Option<String>,
    /// The least sockets a host must have
    #[arg(
        long,
        env = "PINFOLD_SOCKETS_PER_NODE",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    sockets_per_node: Option<String>,
    /// The least cores a socket must have
    #[arg(
        long,
        env = "PINFOLD_CORES_PER_SOCKET",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    cores_per_socket: Option<String>,
    /// The least threads a core must have, and the most that are used
    #[arg(
        long,
        env = "PINFOLD_THREADS_PER_CORE",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    threads_per_core: Option<String>,
    /// How many tasks on each host
    #[arg(
        long,
        env = "PINFOLD_NTASKS_PER_NODE",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    ntasks_per_node: Option<String>,
    /// At most so many tasks on each socket
    #[arg(
        long,
        env = "PINFOLD_NTASKS_PER_SOCKET",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    ntasks_per_socket: Option<String>,
    /// At most so many tasks on each core
    #[arg(
        long,
        env = "PINFOLD_NTASKS_PER_CORE",
        hide_env_values = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    ntasks_per_core: Option<String>,
    /// block, cyclic or plane=N over hosts, then block, cyclic or fcyclic over sockets and cores
    #[arg(
        short = 'm',
        long,
        env = "PINFOLD_DISTRIBUTION",
        hide_env_values = true,
        value_name = "HOSTS[:SOCKETS[:CORES]]"
    )]
    distribution: Option<String>,
    /// compute_bound, memory_bound, multithread or nomultithread
    #[arg(long, env = "PINFOLD_HINT", hide_env_values = true, value_name = "HINT")]
    hint: Option<String>,
    /// none, rank, map_cpu:L, mask_cpu:L, sockets, cores, threads, ldoms, rank_ldom, map_ldom:L or mask_ldom:L
    #[arg(long, env = "PINFOLD_CPU_BIND", hide_env_values = true, value_name = "HOW")]
    cpu_bind: Option<String>,
}

impl TaskOptions {
    /// The options that were given, by the names that `place` knows them by.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let valued = [
            ("--ntasks", &self.ntasks),
            ("--nodes", &self.nodes),
            ("--cpus-per-task", &self.cpus_per_task),
            ("--extra-node-info", &self.extra_node_info),
            ("--sockets-per-node", &self.sockets_per_node),
            ("--cores-per-socket", &self.cores_per_socket),
            ("--threads-per-core", &self.threads_per_core),
            ("--ntasks-per-node", &self.ntasks_per_node),
            ("--ntasks-per-socket", &self.ntasks_per_socket),
            ("--ntasks-per-core", &self.ntasks_per_core),
            ("--distribution", &self.distribution),
            ("--hint", &self.hint),
            ("--cpu-bind", &self.cpu_bind),
        ];
        valued.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)))
    }
}

impl LayoutOptions {
    /// The options that were given, by the names that `place` knows them by.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, Option<String>)> + '_ {
        let memory = self.mem.iter().map(|size| ("--mem", Some(size.clone())));
        let tasks = self.tasks.given().map(|(name, value)| (name, Some(value)));
        tasks.chain(memory).chain(self.exclusive.then_some(("--exclusive", None)))
    }
}
