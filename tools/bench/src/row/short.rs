//! Row `short`: a thousand commands that do nothing, so that only the launcher is measured.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use super::{Ground, RowArgs, perform};
use crate::compare::done;
use crate::daemon::Daemon;
use crate::hyperqueue::{HyperQueue, Lines};
use crate::record::Record;
use crate::spooler::Spooler;
use crate::stats::median;
use crate::table;
use crate::way::installed;

/// Options of row `short`.
#[derive(Debug, Args)]
pub(crate) struct ShortArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Commands in each run.
    #[arg(long, default_value_t = 1_000)]
    jobs: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Launcher {
    Xargs,
    Pinfold,
    Parallel,
    Spooler,
    HyperQueue,
}

impl Launcher {
    fn name(self) -> &'static str {
        match self {
            Self::Xargs => "xargs -P",
            Self::Pinfold => "pinfold batch",
            Self::Parallel => "GNU parallel",
            Self::Spooler => "task-spooler",
            Self::HyperQueue => "HyperQueue",
        }
    }

    fn missing(self, ground: &Ground) -> bool {
        match self {
            Self::Xargs => !installed("xargs"),
            Self::Pinfold => ground.binaries.is_none(),
            Self::Parallel => !installed("parallel"),
            Self::Spooler => !installed("tsp"),
            Self::HyperQueue => HyperQueue::python().is_none(),
        }
    }
}

/// Runs the row.
pub(crate) fn run(args: &ShortArgs) -> anyhow::Result<()> {
    perform("short", &args.row, |ground, record| {
        let bench = ground.bench(600.0);
        let file = bench.scratch.join("short");
        fs::write(&file, "/bin/true\n".repeat(args.jobs)).context("failed to write the commands")?;
        let mut launchers = vec![
            Launcher::Xargs,
            Launcher::Pinfold,
            Launcher::Parallel,
            Launcher::Spooler,
            Launcher::HyperQueue,
        ];
        for launcher in launchers.iter().filter(|launcher| launcher.missing(ground)) {
            record.say(&format!("{} is left out: it is not there.", launcher.name()));
        }
        launchers.retain(|launcher| !launcher.missing(ground));
        let mut rates = vec![Vec::new(); launchers.len()];
        for repetition in 0..args.row.repetitions() {
            for (launcher, rates) in launchers.iter().zip(&mut rates) {
                let own = tempfile::Builder::new().prefix("short-").tempdir_in(bench.scratch)?;
                let passed_s = time(*launcher, ground, own.path(), &file, args.jobs)?;
                let rate = args.jobs as f64 / passed_s;
                done(&format!("short {} {}: {rate:.0} jobs/s", repetition + 1, launcher.name()));
                record.add("short", &json!({ "launcher": launcher.name(), "seconds": passed_s }))?;
                rates.push(rate);
                if ground.interrupted() {
                    bail!("interrupted");
                }
            }
        }
        tell(&launchers, &rates, args.jobs, ground, record);
        Ok(())
    })
}

/// Seconds that `launcher` takes for the commands in `file`.
fn time(launcher: Launcher, ground: &Ground, own: &Path, file: &Path, jobs: usize) -> anyhow::Result<f64> {
    let slots = ground.cores();
    match launcher {
        Launcher::Xargs => {
            let mut command = Command::new("xargs");
            // The line is then an argument, which `true` does not look at: no shell and no `env` in between.
            command.args(["-P", &slots.to_string(), "-n", "1", "/bin/true"]).stdin(open(file)?);
            timed(command)
        }
        Launcher::Parallel => {
            let mut command = Command::new("parallel");
            command.args(["--will-cite", &format!("-j{slots}")]).stdin(open(file)?);
            command.env("HOME", own).env("TMPDIR", own);
            timed(command)
        }
        Launcher::Pinfold => {
            let binaries = ground.binaries.as_ref().context("pinfold is not built")?;
            let daemon = Daemon::start(binaries, own, None, &["slots.factor=1".to_owned()])?;
            let mut command = daemon.command();
            command.arg("batch").arg(file).current_dir(own).stdin(Stdio::null());
            let passed_s = timed(command)?;
            if let Some(group) = daemon.stop()?.first() {
                done(&format!("left behind: cgroup {}", group.display()));
            }
            Ok(passed_s)
        }
        Launcher::HyperQueue => {
            let mut queue = HyperQueue::start(own, slots)?;
            let start = Instant::now();
            queue.run(file, Lines::Plain)?;
            Ok(start.elapsed().as_secs_f64())
        }
        Launcher::Spooler => {
            let spooler = Spooler::start(own, slots)?;
            let start = Instant::now();
            let mut numbers = Vec::new();
            for _ in 0..jobs {
                numbers.push(spooler.queue(&["/bin/true"])?);
            }
            // First come, first served: when the last few have ended, all have.
            for number in numbers.iter().rev().take(slots) {
                spooler.wait(number)?;
            }
            Ok(start.elapsed().as_secs_f64())
        }
    }
}

fn open(file: &Path) -> anyhow::Result<Stdio> {
    Ok(fs::File::open(file).context("failed to open the commands")?.into())
}

fn timed(mut command: Command) -> anyhow::Result<f64> {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let output = command.output().context("failed to run a launcher")?;
    let passed_s = start.elapsed().as_secs_f64();
    if !output.status.success() {
        // The launcher's words may be long; the first are enough.
        std::io::stderr().write_all(&output.stderr).context("failed to print an error")?;
        bail!("{command:?} ended with {}", output.status);
    }
    Ok(passed_s)
}

fn tell(launchers: &[Launcher], rates: &[Vec<f64>], jobs: usize, ground: &Ground, record: &mut Record) {
    let rows = launchers.iter().zip(rates).filter_map(|(launcher, rates)| {
        let rate = median(rates)?;
        Some(vec![launcher.name().to_owned(), table::with_interval(&rate, 0)])
    });
    let rows: Vec<Vec<String>> = rows.collect();
    record.say(&format!("{jobs} commands `true`, {} at a time, interleaved repetitions.\n", ground.cores()));
    record.say(&table::markdown(&["launcher", "jobs/s"], &rows));
}
