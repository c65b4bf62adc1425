//! The options of a job.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Id};
use pinfold_proto::quantity::{parse_duration, parse_size, whole};

use pinfold_proto::TimeoutSignal;

use super::PlaceArg;
use super::after::{AfterArgs, after};
use super::begin::{BeginAt, begin};
use super::resource::{ResourceArgs, resources};
use super::timeout::timeout_signal;
use crate::job::switch::Switch;
use crate::tasks::options::TaskOptions;

/// Options of a job. Each option can also be set by an environment variable, for batch scripts.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Job options")]
pub(crate) struct JobOptions {
    /// The options on the command line, by the names of their fields; other options may stand in the environment.
    #[arg(skip)]
    pub typed: BTreeSet<String>,
    /// Name of the job [default: the program of the command]
    #[arg(long, env = "PINFOLD_NAME", value_name = "NAME")]
    pub name: Option<String>,
    /// Project of the job
    #[arg(long, env = "PINFOLD_PROJECT", value_name = "NAME")]
    pub project: Option<String>,
    /// Remark on the job, shown by `status` and `report`
    #[arg(long, env = "PINFOLD_COMMENT", value_name = "TEXT")]
    pub comment: Option<String>,
    /// Queue the job held: it starts after `pinfold release`
    #[arg(long, env = "PINFOLD_HOLD", value_parser = Switch)]
    pub hold: bool,
    /// Fail, instead of warning, if this host cannot enforce an option
    #[arg(long, env = "PINFOLD_STRICT", value_parser = Switch)]
    pub strict: bool,
    /// Priority of the job, 1 (lowest) to 16 (highest) [default: `priority.default`, 10]
    #[arg(help_heading = "Importance", long, visible_alias = "rank", env = "PINFOLD_PRIORITY", value_name = "N",
          value_parser = whole::<u8>(1..=16))]
    pub priority: Option<u8>,
    /// Start the job before all other jobs of yours: its priority is one above the highest of theirs
    #[arg(help_heading = "Importance", long, env = "PINFOLD_NOW", hide_env_values = true, value_parser = Switch, conflicts_with = "priority")]
    pub now: bool,
    /// Start the job only on a free core of its own
    #[arg(help_heading = "Importance", long, env = "PINFOLD_PRIMARY", value_parser = Switch, conflicts_with_all = ["backfill", "exclusive"])]
    pub primary: bool,
    /// Run the job only in CPU time that other jobs leave
    #[arg(help_heading = "Importance", long, env = "PINFOLD_BACKFILL", value_parser = Switch, conflicts_with = "exclusive")]
    pub backfill: bool,
    /// Run the job alone: it takes all slots of the host
    #[arg(help_heading = "Importance", long, env = "PINFOLD_EXCLUSIVE", value_parser = Switch)]
    pub exclusive: bool,
    /// Number of whole cores; the job takes as many slots [default: as many as the tasks need, else 1]
    #[arg(help_heading = "Cores", long, env = "PINFOLD_CORES", value_name = "N",
          value_parser = whole::<u32>(1..=65536))]
    pub cores: Option<u32>,
    /// Place of the cores: close together (compact), over as many caches as possible (spread), or as earlier jobs of the
    /// same class ran faster (auto) [default: `cpu.place`, auto]
    #[arg(help_heading = "Cores", long, env = "PINFOLD_PLACE", value_enum, value_name = "HOW",
          conflicts_with_all = ["isolated", "exclusive"])]
    pub place: Option<PlaceArg>,
    /// Set of cores for the job, see `pinfold sets`
    #[arg(help_heading = "Cores", id = "in", long = "in", env = "PINFOLD_IN", value_name = "SET")]
    pub set: Option<String>,
    /// Keep all other processes off the cores of the job, as far as the kernel can (doctor: `isolation`); one core, or
    /// --cores N
    #[arg(help_heading = "Cores", long, env = "PINFOLD_ISOLATED", value_parser = Switch,
          conflicts_with_all = ["primary", "backfill", "exclusive", "in"])]
    pub isolated: bool,
    /// Expected memory: the job starts when so much memory is free. After five runs of a class the memory of these runs
    /// counts instead
    #[arg(help_heading = "Memory and disk", long, env = "PINFOLD_MEM", value_name = "SIZE", value_parser = parse_size)]
    pub mem: Option<u64>,
    /// Limit of memory, enforced by the kernel where `pinfold doctor` says `limit`
    #[arg(help_heading = "Memory and disk", long, env = "PINFOLD_MEM_LIMIT", value_name = "SIZE", value_parser = parse_size)]
    pub mem_limit: Option<u64>,
    /// Size of a directory in memory, named in TMPDIR and removed at the end of the job
    #[arg(help_heading = "Memory and disk", long, env = "PINFOLD_TMP", value_name = "SIZE", value_parser = parse_size)]
    pub tmp: Option<u64>,
    /// Size of a directory on a disk, named in PINFOLD_DISK_DIR and removed at the end of the job
    #[arg(help_heading = "Memory and disk", long, env = "PINFOLD_DISK", value_name = "SIZE", value_parser = parse_size)]
    pub disk: Option<u64>,
    /// Give the job an empty /tmp and /var/tmp, removed at its end
    #[arg(help_heading = "Memory and disk", long, env = "PINFOLD_PRIVATE_TMP", value_parser = Switch)]
    pub private_tmp: bool,
    /// Run the job without a network, except loopback; files stay as they are
    #[arg(help_heading = "Memory and disk", long, env = "PINFOLD_NO_NETWORK", value_parser = Switch)]
    pub no_network: bool,
    /// Start the job after the end of other jobs, by number or name. any: after any end; ok: if all of the jobs succeed;
    /// failed: if at least one job fails. A name means the last array, batch or job of that name, and all unfinished jobs
    /// of the name. If the condition cannot come true, the job ends without a run
    #[arg(
        help_heading = "When it runs",
        long,
        env = "PINFOLD_AFTER",
        value_name = "[ok:|failed:|any:]JOB,...",
        value_parser = after
    )]
    pub after: Option<AfterArgs>,
    /// Earliest start: 22:30, tomorrow, 2026-11-25T06:00 (local time without a zone), or +2h
    #[arg(help_heading = "When it runs", long, env = "PINFOLD_BEGIN", value_name = "TIME|+DURATION", value_parser = begin)]
    pub begin: Option<BeginAt>,
    /// Longest wait in the queue; after this time the job expires
    #[arg(help_heading = "When it runs", long, env = "PINFOLD_TTL", value_name = "DURATION", value_parser = parse_duration)]
    pub ttl: Option<Duration>,
    /// Expected run time; among jobs of one priority that all have this option the longest job starts first
    #[arg(help_heading = "When it runs", long, env = "PINFOLD_TIME", value_name = "DURATION", value_parser = parse_duration)]
    pub time: Option<Duration>,
    /// Longest run time, frozen time not counted; then the job gets TERM, and KILL 10 s later
    #[arg(help_heading = "When it runs", long, env = "PINFOLD_TIMEOUT", value_name = "DURATION",
          value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// Longest CPU time of all processes of the job together; then the job ends as with --timeout
    #[arg(help_heading = "When it runs", long, env = "PINFOLD_CPU_LIMIT", value_name = "DURATION",
          value_parser = parse_duration)]
    pub cpu_limit: Option<Duration>,
    /// Signal to send before the timeout, and how long before, as in USR1@1m
    #[arg(help_heading = "When it runs", long, env = "PINFOLD_TIMEOUT_SIGNAL", value_name = "SIG@DURATION",
          value_parser = timeout_signal, requires = "timeout")]
    pub timeout_signal: Option<TimeoutSignal>,
    /// Countable resources that the job needs while it runs, as in gpu=1,licence.fluent=2. The job finds its GPUs in
    /// CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES
    #[arg(help_heading = "Resources", long, env = "PINFOLD_RESOURCE", value_name = "NAME=N,...", value_parser = resources)]
    pub resource: Option<ResourceArgs>,
    /// Never suspend the job automatically
    #[arg(help_heading = "When memory or slots run short", long, env = "PINFOLD_NO_SUSPEND", value_parser = Switch)]
    pub no_suspend: bool,
    /// Allow pinfold to kill and requeue the job when memory is short
    #[arg(help_heading = "When memory or slots run short", long, env = "PINFOLD_REQUEUE", value_parser = Switch)]
    pub requeue: bool,
    /// Shell command that checkpoints the job. After it succeeds, pinfold may kill the job when memory is short, and
    /// restarts the job later
    #[arg(help_heading = "When memory or slots run short", long, env = "PINFOLD_CHECKPOINT", value_name = "COMMAND",
          value_parser = checkpoint_command)]
    pub checkpoint: Option<String>,
    /// Longest run time of the checkpoint command [default: 1m]
    #[arg(help_heading = "When memory or slots run short", long, env = "PINFOLD_CHECKPOINT_TIME", value_name = "DURATION",
          value_parser = parse_duration, requires = "checkpoint")]
    pub checkpoint_time: Option<Duration>,
    /// Number of tasks, and their layout on the cores
    #[command(flatten)]
    pub tasks: TaskOptions,
}

impl JobOptions {
    /// Notes the options on the command line.
    pub(crate) fn note_typed(&mut self, matches: &ArgMatches) {
        let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        // Groups of options are among these, too: the group of options that reach the daemon.
        let typed = matches.ids().map(Id::as_str).filter(|id| is_typed(id) && *id != "Reach");
        self.typed = typed.map(str::to_owned).collect();
    }

    /// Whether an option's value depends on the daemon's jobs.
    pub(crate) fn asks_daemon(&self) -> bool {
        self.now || self.after.as_ref().is_some_and(AfterArgs::has_names)
    }

    /// Whether the option of this field stands on the command line.
    pub(crate) fn is_typed(&self, field: &str) -> bool {
        self.typed.contains(field)
    }
}

/// Reads a checkpoint command. An empty command would succeed without a checkpoint, and the job would be killed.
fn checkpoint_command(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() {
        return Err("an empty command makes no checkpoint: name a command, or leave the option out");
    }
    Ok(text.to_owned())
}
