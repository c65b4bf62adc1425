//! The options that say something of a job.

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

/// What can be said of a job; each also as an environment variable, so that a batch script can carry it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Job options")]
pub(crate) struct JobOptions {
    /// Which of these were typed, by the names of their fields; others may stand in the environment.
    #[arg(skip)]
    pub typed: BTreeSet<String>,
    /// A name for the job [default: the command's]
    #[arg(long, env = "PINFOLD_NAME", hide_env_values = true, value_name = "NAME")]
    pub name: Option<String>,
    /// The project it belongs to
    #[arg(long, env = "PINFOLD_PROJECT", hide_env_values = true, value_name = "NAME")]
    pub project: Option<String>,
    /// A remark, shown with it
    #[arg(long, env = "PINFOLD_COMMENT", hide_env_values = true, value_name = "TEXT")]
    pub comment: Option<String>,
    /// Let it wait until it is released
    #[arg(long, env = "PINFOLD_HOLD", hide_env_values = true, value_parser = Switch)]
    pub hold: bool,
    /// Refuse what does not hold on this host, instead of a warning
    #[arg(long, env = "PINFOLD_STRICT", hide_env_values = true, value_parser = Switch)]
    pub strict: bool,
    /// Its importance, 1 to 16, larger is more important [default: the host's, 10]
    #[arg(help_heading = "Importance", long, visible_alias = "rank", env = "PINFOLD_PRIORITY", hide_env_values = true, value_name = "N",
          value_parser = whole::<u8>(1..=16))]
    pub priority: Option<u8>,
    /// Wait for a home core of its own
    #[arg(help_heading = "Importance", long, env = "PINFOLD_PRIMARY", hide_env_values = true, value_parser = Switch, conflicts_with_all = ["backfill", "exclusive"])]
    pub primary: bool,
    /// Run only in the cycles that other jobs leave
    #[arg(help_heading = "Importance", long, env = "PINFOLD_BACKFILL", hide_env_values = true, value_parser = Switch, conflicts_with = "exclusive")]
    pub backfill: bool,
    /// Take every slot of the host
    #[arg(help_heading = "Importance", long, env = "PINFOLD_EXCLUSIVE", hide_env_values = true, value_parser = Switch)]
    pub exclusive: bool,
    /// Whole cores it needs; it takes as many slots [default: what its tasks need, 1]
    #[arg(help_heading = "Cores", long, env = "PINFOLD_CORES", hide_env_values = true, value_name = "N",
          value_parser = whole::<u32>(1..=65536))]
    pub cores: Option<u32>,
    /// How its cores lie: close together (compact), over as many caches as there are (spread), or as jobs like it were
    /// found to run faster (auto) [default: the host's, auto]
    #[arg(help_heading = "Cores", long, env = "PINFOLD_PLACE", hide_env_values = true, value_enum, value_name = "HOW",
          conflicts_with_all = ["isolated", "exclusive"])]
    pub place: Option<PlaceArg>,
    /// Run it in this set of cores, see `pinfold sets`
    #[arg(
        help_heading = "Cores",
        id = "in",
        long = "in",
        env = "PINFOLD_IN",
        hide_env_values = true,
        value_name = "SET"
    )]
    pub set: Option<String>,
    /// Whole cores that nothing else is on, as far as the kernel goes (doctor: `isolation`); one core, or --cores N
    #[arg(help_heading = "Cores", long, env = "PINFOLD_ISOLATED", hide_env_values = true, value_parser = Switch,
          conflicts_with_all = ["primary", "backfill", "exclusive", "in"])]
    pub isolated: bool,
    /// Memory it is expected to need: it starts when that is free. Once five runs of its class have ended, what these
    /// needed counts
    #[arg(help_heading = "Memory and disk", long, env = "PINFOLD_MEM", hide_env_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub mem: Option<u64>,
    /// Memory it may not exceed; the kernel sees to it where doctor says `limit`
    #[arg(help_heading = "Memory and disk", long, env = "PINFOLD_MEM_LIMIT", hide_env_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub mem_limit: Option<u64>,
    /// A directory in memory of this size, named in its TMPDIR and gone when it is over
    #[arg(help_heading = "Memory and disk", long, env = "PINFOLD_TMP", hide_env_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub tmp: Option<u64>,
    /// A directory on a disk with room for this much, named in its PINFOLD_DISK_DIR and gone when it is over
    #[arg(help_heading = "Memory and disk", long, env = "PINFOLD_DISK", hide_env_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub disk: Option<u64>,
    /// An empty /tmp and /var/tmp of its own, gone when it is over
    #[arg(help_heading = "Memory and disk", long, env = "PINFOLD_PRIVATE_TMP", hide_env_values = true, value_parser = Switch)]
    pub private_tmp: bool,
    /// A network of its own, with loopback and nothing else; `/tmp` and other files stay as they are
    #[arg(help_heading = "Memory and disk", long, env = "PINFOLD_NO_NETWORK", hide_env_values = true, value_parser = Switch)]
    pub no_network: bool,
    /// Start it only when these jobs, by number or name (as one: the last array, batch or jobs that have it, and those
    /// that were not over when these were submitted), are over: however they end (any:), all with exit code 0 (ok:), or
    /// otherwise (failed:; of several, at least one). If that can never be, it ends without having run
    #[arg(
        help_heading = "When it runs",
        long,
        env = "PINFOLD_AFTER",
        hide_env_values = true,
        value_name = "[ok:|failed:|any:]JOB,...",
        value_parser = after
    )]
    pub after: Option<AfterArgs>,
    /// Do not start it before this: 22:30, tomorrow, 2026-11-25T06:00 (local time unless it names a zone), or +2h
    #[arg(help_heading = "When it runs", long, env = "PINFOLD_BEGIN", hide_env_values = true, value_name = "TIME|+DURATION", value_parser = begin)]
    pub begin: Option<BeginAt>,
    /// How long it may wait before it expires
    #[arg(help_heading = "When it runs", long, env = "PINFOLD_TTL", hide_env_values = true, value_name = "DURATION", value_parser = parse_duration)]
    pub ttl: Option<Duration>,
    /// How long it is expected to run; among jobs that all say so the longest goes first
    #[arg(help_heading = "When it runs", long, env = "PINFOLD_TIME", hide_env_values = true, value_name = "DURATION", value_parser = parse_duration)]
    pub time: Option<Duration>,
    /// End it (TERM, and KILL 10 s later) when it has run for so long, without the time in which it was frozen
    #[arg(help_heading = "When it runs", long, env = "PINFOLD_TIMEOUT", hide_env_values = true, value_name = "DURATION",
          value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// End it likewise when it has used so much CPU time, all its processes together
    #[arg(help_heading = "When it runs", long, env = "PINFOLD_CPU_LIMIT", hide_env_values = true, value_name = "DURATION",
          value_parser = parse_duration)]
    pub cpu_limit: Option<Duration>,
    /// Send it a signal so long before its timeout
    #[arg(help_heading = "When it runs", long, env = "PINFOLD_TIMEOUT_SIGNAL", hide_env_values = true, value_name = "SIG@DURATION",
          value_parser = timeout_signal, requires = "timeout")]
    pub timeout_signal: Option<TimeoutSignal>,
    /// Countable resources that it holds while it runs, as gpu=1,licence.fluent=2; it starts when they are free. It
    /// finds its GPUs in CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES
    #[arg(help_heading = "Resources", long, env = "PINFOLD_RESOURCE", hide_env_values = true, value_name = "NAME=N,...", value_parser = resources)]
    pub resource: Option<ResourceArgs>,
    /// Never freeze it by the host's own choice
    #[arg(help_heading = "When memory or slots run short", long, env = "PINFOLD_NO_SUSPEND", hide_env_values = true, value_parser = Switch)]
    pub no_suspend: bool,
    /// If memory can be had in no other way, end it and begin it anew later
    #[arg(help_heading = "When memory or slots run short", long, env = "PINFOLD_REQUEUE", hide_env_values = true, value_parser = Switch)]
    pub requeue: bool,
    /// A shell command that has the job write down what it has done; with it the job may be ended for want of memory
    /// once that has succeeded, and begins anew later
    #[arg(help_heading = "When memory or slots run short", long, env = "PINFOLD_CHECKPOINT", hide_env_values = true, value_name = "COMMAND",
          value_parser = checkpoint_command)]
    pub checkpoint: Option<String>,
    /// How long that command may take [default: 1m]
    #[arg(help_heading = "When memory or slots run short", long, env = "PINFOLD_CHECKPOINT_TIME", hide_env_values = true, value_name = "DURATION",
          value_parser = parse_duration, requires = "checkpoint")]
    pub checkpoint_time: Option<Duration>,
    /// How many tasks, and how they lie on the cores
    #[command(flatten)]
    pub tasks: TaskOptions,
}

impl JobOptions {
    /// Notes which were typed.
    pub(crate) fn note_typed(&mut self, matches: &ArgMatches) {
        let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        // Groups of options are among these, too: the one of the options by which the daemon is reached.
        let typed = matches.ids().map(Id::as_str).filter(|id| is_typed(id) && *id != "Reach");
        self.typed = typed.map(str::to_owned).collect();
    }

    /// Whether the option of this field was typed.
    pub(crate) fn is_typed(&self, field: &str) -> bool {
        self.typed.contains(field)
    }
}

/// A checkpoint command as it was typed. An empty one would succeed at once, and the job be ended for nothing written.
fn checkpoint_command(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() {
        return Err("an empty command writes nothing down: name one, or leave the option out");
    }
    Ok(text.to_owned())
}
