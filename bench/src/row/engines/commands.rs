//! `sbatch` of scripts that do nothing, one after the other and several at a time; lists with many jobs known.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::json;

use super::EnginesArgs;
use crate::compare::done;
use crate::daemon::Daemon;
use crate::record::Record;
use crate::row::Ground;
use crate::stats::median;
use crate::table;

/// So many of them at a time, where there are several.
const SIDE_BY_SIDE: usize = 4;
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
}

impl What {
    const ALL: [Self; 3] = [Self::Submit, Self::Sbatch, Self::SbatchSideBySide];

    fn name(self) -> String {
        match self {
            Self::Submit => "`pinfold submit`".to_owned(),
            Self::Sbatch => "`sbatch`".to_owned(),
            Self::SbatchSideBySide => format!("`sbatch`, {SIDE_BY_SIDE} at a time"),
        }
    }
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

    fn command(&self, what: What) -> Command {
        match what {
            What::Submit => {
                let mut command = self.daemon.command();
                command.args(["submit", "--output=/dev/null", "--error=/dev/null", "--", "/bin/true"]);
                command.current_dir(self.own).stdin(Stdio::null()).stdout(Stdio::null());
                command
            }
            What::Sbatch | What::SbatchSideBySide => self.slurm(&["sbatch", "-o", "/dev/null", "script.sh"]),
        }
    }

    /// Hands so many over; gives how long that took, in seconds.
    fn hand_over(&self, what: What, scripts: usize) -> anyhow::Result<f64> {
        let lines = if what == What::SbatchSideBySide { SIDE_BY_SIDE } else { 1 };
        let start = Instant::now();
        let some = |line: usize| -> anyhow::Result<()> {
            for _ in (line..scripts).step_by(lines) {
                let status = self.command(what).status().context("failed to hand a script over")?;
                ensure!(status.success(), "{} ended with {status}", what.name());
            }
            Ok(())
        };
        let some = &some;
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..lines).map(|line| scope.spawn(move || some(line))).collect();
            all.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| bail!("a thread failed")))
        })?;
        Ok(start.elapsed().as_secs_f64())
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

/// Measures all, interleaved.
pub(super) fn measure(args: &EnginesArgs, ground: &Ground, record: &mut Record) -> anyhow::Result<()> {
    let Some(binaries) = &ground.binaries else {
        record.say("The commands are left out: pinfold is not built.");
        return Ok(());
    };
    let program = binaries.pinfold.with_file_name("pinfold-slurm");
    ensure!(program.is_file(), "{} is not built", program.display());
    let scratch = ground.bench(args.limit_s).scratch.to_owned();
    let mut rates = vec![Vec::new(); What::ALL.len()];
    let mut lists = vec![Vec::new(); LISTS.len()];
    for repetition in 0..args.row.repetitions() {
        let own = tempfile::Builder::new().prefix("commands-").tempdir_in(&scratch)?;
        fs::write(own.path().join("script.sh"), "#!/bin/sh\ntrue\n").context("failed to write a script")?;
        let daemon = Daemon::start(binaries, own.path(), None, &[])?;
        let site = Site { daemon: &daemon, program: program.clone(), own: own.path() };
        for (what, rates) in What::ALL.into_iter().zip(&mut rates) {
            let passed_s = site.hand_over(what, args.scripts)?;
            let rate = args.scripts as f64 / passed_s;
            done(&format!("engines {}: {} {rate:.0}/s", repetition + 1, what.name()));
            record.add(
                "hand-over",
                &json!({ "way": what.name(), "scripts": args.scripts, "seconds": passed_s }),
            )?;
            rates.push(rate);
            site.drained()?;
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
    tell(args, &rates, &lists, record);
    Ok(())
}

fn tell(args: &EnginesArgs, rates: &[Vec<f64>], lists: &[Vec<f64>], record: &mut Record) {
    record.say(&format!(
        "{} scripts that do nothing, handed over while they run; {} jobs wait for the lists.\n",
        args.scripts, args.known
    ));
    let row = |name: String, values: &Vec<f64>, digits| {
        Some(vec![name, table::with_interval(&median(values)?, digits)])
    };
    let rows: Vec<Vec<String>> =
        What::ALL.iter().zip(rates).filter_map(|(what, rates)| row(what.name(), rates, 0)).collect();
    record.say(&table::markdown(&["handed over by", "jobs/s"], &rows));
    let rows: Vec<Vec<String>> = LISTS
        .iter()
        .zip(lists)
        .filter_map(|(words, times)| row(format!("`{}`", words.join(" ")), times, 1))
        .collect();
    record.say(&table::markdown(&["list", "ms"], &rows));
}
