//! `sbatch` of scripts that do nothing, one after the other and several at a time, beside real Slurm's; lists with many
//! jobs known.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::json;

use super::EnginesArgs;
use crate::compare::done;
use crate::daemon::Daemon;
use crate::managed::{Managed, Manager, Sent};
use crate::record::Record;
use crate::row::Ground;
use crate::stats::median;
use crate::table;

/// So many of them at a time, where there are several.
const SIDE_BY_SIDE: usize = 4;
/// Real Slurm gets at most so many: it takes seconds for each ten.
const SLURM_MAX: usize = 50;
/// How often each list is asked for in a repetition.
const ASKED: usize = 5;
/// How long the jobs of one run may take to end, seconds.
const PATIENCE_S: u64 = 300;

/// A way to hand scripts over, or a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// `pinfold submit`, the program that `sbatch` calls.
    Submit,
    /// `sbatch`, one after the other.
    Sbatch,
    /// [`SIDE_BY_SIDE`] of them at a time.
    SbatchSideBySide,
    /// Real Slurm's, one after the other.
    Slurm,
}

impl What {
    const ALL: [Self; 4] = [Self::Submit, Self::Sbatch, Self::SbatchSideBySide, Self::Slurm];

    fn name(self) -> String {
        match self {
            Self::Submit => "`pinfold submit`".to_owned(),
            Self::Sbatch => "`sbatch`".to_owned(),
            Self::SbatchSideBySide => format!("`sbatch`, {SIDE_BY_SIDE} at a time"),
            Self::Slurm => "real Slurm's `sbatch`".to_owned(),
        }
    }
}

/// How long so many scripts took until they were handed over, and until they were over.
#[derive(Debug, Clone, Copy)]
struct Took {
    scripts: usize,
    handed_s: f64,
    over_s: f64,
}

/// The rates of a way, one of each repetition.
#[derive(Debug, Clone, Default)]
struct Rates {
    handed: Vec<f64>,
    over: Vec<f64>,
}

/// The lists that engines ask for, with so many jobs that wait, and those that are over.
const LISTS: [&[&str]; 4] =
    [&["squeue", "-h"], &["squeue", "-h", "-r"], &["squeue", "-h", "-t", "all"], &["sacct", "-X", "-n"]];

/// A daemon, and where this user's Slurm commands keep what they keep.
struct Site<'a> {
    daemon: &'a Daemon,
    program: PathBuf,
    own: &'a Path,
}

impl Site<'_> {
    fn slurm(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).current_dir(self.own).env("PINFOLD_SOCKET", self.daemon.socket());
        command.env("PINFOLD_SLURM_DIR", self.own.join("slurm")).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn submit(&self) -> Command {
        let mut command = self.daemon.command();
        command.args(["submit", "--output=/dev/null", "--error=/dev/null", "--", "/bin/true"]);
        command.current_dir(self.own).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Hands so many over, and waits until they are over.
    fn measure(&self, what: What, scripts: usize) -> anyhow::Result<Took> {
        let sbatch = || self.slurm(&["sbatch", "-o", "/dev/null", "script.sh"]);
        let start = Instant::now();
        match what {
            What::Submit => hand_over(&what.name(), 1, scripts, || self.submit())?,
            What::Sbatch => hand_over(&what.name(), 1, scripts, sbatch)?,
            What::SbatchSideBySide => hand_over(&what.name(), SIDE_BY_SIDE, scripts, sbatch)?,
            What::Slurm => return real_slurm(self.own, scripts),
        }
        let handed_s = start.elapsed().as_secs_f64();
        self.drained()?;
        Ok(Took { scripts, handed_s, over_s: start.elapsed().as_secs_f64() })
    }

    /// Waits until no job is left.
    fn drained(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(PATIENCE_S);
        while self.daemon.count("queued") + self.daemon.count("running") > 0 {
            ensure!(Instant::now() < deadline, "the jobs do not end");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// How long each list takes, in milliseconds.
    fn lists(&self) -> anyhow::Result<Vec<Vec<f64>>> {
        let mut all = vec![Vec::new(); LISTS.len()];
        for _ in 0..ASKED {
            for (words, times) in LISTS.iter().zip(&mut all) {
                let start = Instant::now();
                let status = self.slurm(words).status().context("failed to ask for a list")?;
                ensure!(status.success(), "{words:?} ended with {status}");
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
        Ok(all)
    }
}

/// So many at a time, each when the one before it was handed over.
fn hand_over(
    name: &str,
    lines: usize,
    scripts: usize,
    command: impl Fn() -> Command + Sync,
) -> anyhow::Result<()> {
    let some = |line: usize| -> anyhow::Result<()> {
        for _ in (line..scripts).step_by(lines) {
            let status = command().status().context("failed to hand a script over")?;
            ensure!(status.success(), "{name} ended with {status}");
        }
        Ok(())
    };
    let some = &some;
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..lines).map(|line| scope.spawn(move || some(line))).collect();
        all.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| bail!("a thread failed")))
    })
}

/// The same by real Slurm, with daemons of its own on this host, one job a core.
fn real_slurm(own: &Path, scripts: usize) -> anyhow::Result<Took> {
    let mut slurm = Managed::start(Manager::Slurm, Sent::Once, own, None)?;
    let scripts = scripts.min(SLURM_MAX);
    let start = Instant::now();
    slurm.hand_over(scripts)?;
    let handed_s = start.elapsed().as_secs_f64();
    slurm.drained()?;
    Ok(Took { scripts, handed_s, over_s: start.elapsed().as_secs_f64() })
}

/// Measures all, interleaved.
pub(super) fn measure(args: &EnginesArgs, ground: &Ground, record: &mut Record) -> anyhow::Result<()> {
    let Some(binaries) = &ground.binaries else {
        record.say("The commands are left out: pinfold is not built.");
        return Ok(());
    };
    let program = binaries.pinfold.with_file_name("pinfold-slurm");
    ensure!(program.is_file(), "{} is not built", program.display());
    let scratch = ground.bench(args.limit_s).scratch.to_owned();
    let ways: Vec<What> = What::ALL.into_iter().filter(|what| is_there(*what, record)).collect();
    let mut rates = vec![Rates::default(); ways.len()];
    let mut lists = vec![Vec::new(); LISTS.len()];
    for repetition in 0..args.row.repetitions() {
        let own = tempfile::Builder::new().prefix("commands-").tempdir_in(&scratch)?;
        fs::write(own.path().join("script.sh"), "#!/bin/sh\ntrue\n").context("failed to write a script")?;
        let daemon = Daemon::start(binaries, own.path(), None, &[])?;
        let site = Site { daemon: &daemon, program: program.clone(), own: own.path() };
        for (what, rates) in ways.iter().zip(&mut rates) {
            let took = site.measure(*what, args.scripts)?;
            let (handed, over) = (took.scripts as f64 / took.handed_s, took.scripts as f64 / took.over_s);
            done(&format!("engines {}: {} {handed:.0}/s", repetition + 1, what.name()));
            let line = json!({
                "way": what.name(), "scripts": took.scripts, "seconds": took.handed_s, "over_seconds": took.over_s,
            });
            record.add("hand-over", &line)?;
            rates.handed.push(handed);
            rates.over.push(over);
            if ground.interrupted() {
                bail!("interrupted");
            }
        }
        let members = format!("--array=0-{}", args.known.saturating_sub(1));
        let status = site.slurm(&["sbatch", "-H", &members, "-o", "/dev/null", "script.sh"]).status()?;
        ensure!(status.success(), "the array was not taken");
        for ((words, all), times) in LISTS.iter().zip(&mut lists).zip(site.lists()?) {
            record.add("list", &json!({ "words": words, "waiting": args.known, "milliseconds": times }))?;
            all.extend(median(&times).map(|it| it.value));
        }
        site.slurm(&["scancel", "--me"]).status()?;
        site.drained()?;
        daemon.stop()?;
    }
    tell(args, &ways, &rates, &lists, record);
    Ok(())
}

/// Whether a way can be measured here; if not, that is said.
fn is_there(what: What, record: &mut Record) -> bool {
    let missing = match what {
        What::Slurm => Manager::Slurm.missing(Sent::Once, None),
        What::Submit | What::Sbatch | What::SbatchSideBySide => None,
    };
    if let Some(why) = missing {
        record.say(&format!("{} is left out: {why}.", what.name()));
    }
    missing.is_none()
}

fn tell(args: &EnginesArgs, ways: &[What], rates: &[Rates], lists: &[Vec<f64>], record: &mut Record) {
    record.say(&format!(
        "{} scripts that do nothing (of real Slurm at most {SLURM_MAX}), handed over while they run; {} jobs wait for the \
         lists.\n",
        args.scripts, args.known
    ));
    let cell = |values: &Vec<f64>, digits| Some(table::with_interval(&median(values)?, digits));
    let rows: Vec<Vec<String>> = ways
        .iter()
        .zip(rates)
        .filter_map(|(what, rates)| Some(vec![what.name(), cell(&rates.handed, 1)?, cell(&rates.over, 1)?]))
        .collect();
    record.say(&table::markdown(&["handed over by", "jobs/s", "until all are over, jobs/s"], &rows));
    let rows: Vec<Vec<String>> = LISTS
        .iter()
        .zip(lists)
        .filter_map(|(words, times)| Some(vec![format!("`{}`", words.join(" ")), cell(times, 1)?]))
        .collect();
    record.say(&table::markdown(&["list", "ms"], &rows));
}
