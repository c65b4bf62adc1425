//! The rows: the measurements, each a subcommand. The harness below them is independent of every row.

pub(crate) mod advice;
pub(crate) mod bandwidth;
pub(crate) mod cost;
pub(crate) mod interfere;
pub(crate) mod isolated;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod mpi;
pub(crate) mod programs;
pub(crate) mod short;
pub(crate) mod truth;
pub(crate) mod turns;
pub(crate) mod waits;
pub(crate) mod wlm;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::daemon::Binaries;
use crate::machine::{Machine, allowed};
use crate::record::Record;
use crate::run::Bench;

/// Options of every row.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RowArgs {
    /// Repetitions; at least 6 for an interval of 95 % [default: 6; `interfere` 10].
    #[arg(long, value_name = "N")]
    repetitions: Option<usize>,
    /// Solo runs of each class of jobs.
    #[arg(long, default_value_t = 3)]
    pub(crate) solo: usize,
    /// The full form: 5 solo runs, 10 repetitions.
    #[arg(long)]
    pub(crate) full: bool,
    /// Keep the raw data and the table as NAME.jsonl and NAME.md, in place of earlier files.
    #[arg(long, value_name = "NAME")]
    pub(crate) keep: Option<String>,
    /// Directory of kept data.
    #[arg(long, value_name = "DIR", default_value = "docs/bench")]
    pub(crate) keep_in: PathBuf,
    /// Directory of the binaries `pinfold` and `pinfoldd`; beside this program by default.
    #[arg(long, value_name = "DIR")]
    pub(crate) binaries: Option<PathBuf>,
    /// Directory of temporary files; the system's directory for them by default.
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
}

impl RowArgs {
    /// Repetitions, the full form considered.
    pub(crate) fn repetitions(&self) -> usize {
        self.repetitions_or(6)
    }

    /// Repetitions, with a row's own default.
    pub(crate) fn repetitions_or(&self, usual: usize) -> usize {
        let repetitions = self.repetitions.unwrap_or(usual);
        if self.full { repetitions.max(10) } else { repetitions }
    }

    /// Solo runs, the full form considered.
    pub(crate) fn solo(&self) -> usize {
        if self.full { self.solo.max(5) } else { self.solo }
    }
}

/// The basis of a row: a directory of its own, the binaries, the machine.
#[derive(Debug)]
pub(crate) struct Ground {
    scratch: TempDir,
    pub(crate) binaries: Option<Binaries>,
    pub(crate) machine: Machine,
    interrupted: Arc<AtomicBool>,
}

impl Ground {
    /// Makes the directory and looks at the machine. From here on, signals only ask to stop.
    pub(crate) fn new(binaries: Option<&PathBuf>, scratch: Option<&PathBuf>) -> anyhow::Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in
            [rustix::process::Signal::INT, rustix::process::Signal::TERM, rustix::process::Signal::HUP]
        {
            signal_hook::flag::register(signal.as_raw(), Arc::clone(&interrupted))
                .context("failed to handle signals")?;
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix("pinfold-bench-");
        let scratch = scratch.map_or_else(|| builder.tempdir(), |parent| builder.tempdir_in(parent));
        let binaries = Binaries::find(binaries.map(PathBuf::as_path));
        let machine = Machine::look(binaries.as_ref());
        Ok(Self {
            scratch: scratch.context("failed to make a temporary directory")?,
            binaries,
            machine,
            interrupted,
        })
    }

    /// The harness on this ground; no run takes longer than `limit_s` seconds.
    pub(crate) fn bench(&self, limit_s: f64) -> Bench<'_> {
        Bench {
            scratch: self.scratch.path(),
            binaries: self.binaries.as_ref(),
            interrupted: &self.interrupted,
            group: None,
            lenient: false,
            limit_s,
        }
    }

    /// Whether a signal asked to stop.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupted.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Cores of the bound.
    pub(crate) fn cores(&self) -> usize {
        self.machine.cores.max(1)
    }

    /// The PU for solo runs: the last, as interrupts mostly go to the first.
    pub(crate) fn solo_pu(&self) -> anyhow::Result<usize> {
        allowed().last().copied().context("this process may use no PU")
    }
}

/// Runs the row `name` and prints, and if asked keeps, its record.
pub(crate) fn perform(
    name: &str,
    args: &RowArgs,
    row: impl FnOnce(&Ground, &mut Record) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let ground = Ground::new(args.binaries.as_ref(), args.scratch.as_ref())?;
    let mut record = Record::new(name, &ground.machine)?;
    row(&ground, &mut record)?;
    if ground.interrupted() {
        bail!("interrupted: the figures are not complete and nothing is kept");
    }
    let mut out = std::io::stdout().lock();
    std::io::Write::write_all(&mut out, record.text().as_bytes()).context("failed to print the record")?;
    if let Some(name) = &args.keep {
        record.keep(&args.keep_in, name)?;
    }
    Ok(())
}
