//! Row `mpi`: linear equations solved by several ranks (HPL, of the package hpcc), started by `mpirun`: where the kernel puts
//! them, within a mask, bound by hand and by the launcher, and as a job of pinfold that asks for nothing but cores; alone
//! and beside noise.
//!
//! Each round runs every way once without noise and once with it. The figure is the rate in the benchmark's own report.
//! Binding by hand stands in each round twice, which shows how far it equals itself. Noise is no job: on each core a
//! process that computes a fifth of the time, anywhere it likes.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use super::{Ground, RowArgs, perform};
use crate::daemon::Daemon;
use crate::machine::allowed;
use crate::programs::linpack_input;
use crate::record::Record;
use crate::stats::{Spread, median};
use crate::table;
use crate::way::installed;

/// Part of the time that a process of noise computes, and for how long at a time.
const NOISE_DUTY: f64 = 0.2;
const NOISE_BURST_S: f64 = 0.02;

/// Options of row `mpi`.
#[derive(Debug, Args)]
pub(crate) struct MpiArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Unknowns of the equations; the work grows with the cube of them.
    #[arg(long, default_value_t = 3_000)]
    order: usize,
    /// Ranks; as many as there are PUs, and 16 at most, by default.
    #[arg(long)]
    ranks: Option<usize>,
    /// A run that takes longer than this is given up, in seconds.
    #[arg(long, default_value_t = 600)]
    limit_s: u32,
}

/// The binding of the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Not at all.
    Unbound,
    /// All to as many PUs as there are ranks.
    Mask,
    /// Each to a PU.
    Hand,
    /// The same once more.
    HandAgain,
    /// Each to a core, by the launcher.
    Launcher,
    /// As a job of as many cores; the launcher with its defaults.
    Pinfold,
    /// As a job of as many cores, with the launcher's binding off.
    PinfoldMask,
}

impl Way {
    const ALL: [Self; 7] = [
        Self::Unbound,
        Self::Mask,
        Self::Hand,
        Self::HandAgain,
        Self::Launcher,
        Self::Pinfold,
        Self::PinfoldMask,
    ];
    const BY_HAND: [Self; 4] = [Self::Mask, Self::Hand, Self::HandAgain, Self::Launcher];

    fn name(self) -> &'static str {
        match self {
            Self::Unbound => "unbound",
            Self::Mask => "whole mask (taskset)",
            Self::Hand => "each rank by hand",
            Self::HandAgain => "by hand, again",
            Self::Launcher => "mpirun --bind-to core",
            Self::Pinfold => "pinfold, unasked",
            Self::PinfoldMask => "pinfold, whole mask",
        }
    }

    fn is_pinfold(self) -> bool {
        matches!(self, Self::Pinfold | Self::PinfoldMask)
    }
}

/// Runs the row.
pub(crate) fn run(args: &MpiArgs) -> anyhow::Result<()> {
    perform("mpi", &args.row, |ground, record| {
        for program in ["hpcc", "mpirun", "taskset"] {
            if !installed(program) {
                record.say(&format!("Nothing was measured: {program} is not installed."));
                return Ok(());
            }
        }
        let stand = Stand::new(args, ground)?;
        let ways: Vec<Way> =
            Way::ALL.into_iter().filter(|way| stand.daemon.is_some() || !way.is_pinfold()).collect();
        if ways.len() < Way::ALL.len() {
            record.say("pinfold is left out: it is not built.");
        }
        record.say(&format!("Order {}, {} ranks.\n", args.order, stand.pus.len()));
        let mut rates = [(false, vec![Vec::new(); ways.len()]), (true, vec![Vec::new(); ways.len()])];
        for round in 0..args.row.repetitions() {
            for (noisy, rates) in &mut rates {
                let noise = if *noisy { stand.noise()? } else { Vec::new() };
                for (&way, rates) in ways.iter().zip(rates) {
                    let solved = stand.measure(way)?;
                    record.add(
                        "run",
                        &json!({ "round": round, "noise": noisy, "way": way.name(), "gflops": solved.gflops,
                                 "seconds": solved.seconds }),
                    )?;
                    rates.push(solved.gflops);
                    if ground.interrupted() {
                        bail!("interrupted");
                    }
                }
                drop(noise);
            }
        }
        for (noisy, rates) in &rates {
            tell(*noisy, &ways, rates, record);
        }
        stand.stop(record)
    })
}

/// A run's own report.
struct Solved {
    gflops: f64,
    seconds: f64,
}

/// The inputs of a measurement.
struct Stand {
    directory: PathBuf,
    /// A PU for each rank.
    pus: Vec<usize>,
    load: PathBuf,
    turns_per_s: f64,
    daemon: Option<Daemon>,
    limit_s: u32,
}

impl Stand {
    fn new(args: &MpiArgs, ground: &Ground) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("failed to find this program's own path")?;
        let load = own.with_file_name("pinfold-load");
        let output = Command::new(&load).arg("--calibrate").output().context("pinfold-load")?;
        let turns = String::from_utf8_lossy(&output.stdout).trim().parse().context("turns in a second")?;
        let scratch = ground.bench(f64::from(args.limit_s)).scratch;
        let directory = scratch.join("hpl");
        fs::create_dir_all(&directory).context("a directory for the benchmark")?;
        let mut pus = allowed();
        let ranks = args.ranks.unwrap_or(pus.len().min(16));
        if ranks == 0 || ranks > pus.len() {
            bail!("--ranks {ranks}: there are {} PUs", pus.len());
        }
        pus.truncate(ranks);
        fs::write(directory.join("hpccinf.txt"), linpack_input(args.order, ranks)).context("its input")?;
        let daemon = match &ground.binaries {
            Some(binaries) => Some(Daemon::start(binaries, scratch, None, &[])?),
            None => None,
        };
        let stand = Self { directory, pus, load, turns_per_s: turns, daemon, limit_s: args.limit_s };
        // A first run, for the files' sake.
        stand.measure(Way::Unbound)?;
        Ok(stand)
    }

    fn list(&self) -> String {
        self.pus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    fn command(&self, way: Way) -> Command {
        let ranks = self.pus.len().to_string();
        let mut words: Vec<String> = match way {
            Way::Mask => vec!["taskset".into(), "-c".into(), self.list()],
            _ => Vec::new(),
        };
        words.extend(["mpirun".to_owned(), "-n".to_owned(), ranks.clone()]);
        match way {
            Way::Launcher => words.extend(["--bind-to".to_owned(), "core".to_owned()]),
            // The launcher's default.
            Way::Pinfold => {}
            _ => words.extend(["--bind-to".to_owned(), "none".to_owned()]),
        }
        match way {
            Way::Hand | Way::HandAgain => {
                let list = self.list().replace(',', " ");
                let script = format!(
                    "set -- {list}; shift \"$OMPI_COMM_WORLD_LOCAL_RANK\"; exec taskset -c \"$1\" hpcc"
                );
                words.extend(["sh".to_owned(), "-c".to_owned(), script]);
            }
            _ => words.push("hpcc".to_owned()),
        }
        let mut command = match self.daemon.as_ref().filter(|_| way.is_pinfold()) {
            Some(daemon) => {
                let mut command = daemon.command();
                command.args(["run", "--cores", &ranks, "--", "timeout"]);
                command
            }
            None => Command::new("timeout"),
        };
        command.arg(self.limit_s.to_string()).args(words).current_dir(&self.directory).stdin(Stdio::null());
        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
            command.env(name, "1");
        }
        command.env("OMP_NUM_THREADS", "1");
        command
    }

    fn measure(&self, way: Way) -> anyhow::Result<Solved> {
        let file = self.directory.join("hpccoutf.txt");
        let _ = fs::remove_file(&file);
        let output =
            self.command(way).output().with_context(|| format!("{}: failed to start", way.name()))?;
        let text = fs::read_to_string(&file).unwrap_or_default();
        let figure = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
            line.trim().parse::<f64>().ok()
        };
        match (figure("HPL_Tflops"), figure("HPL_time"), figure("Success")) {
            (Some(teraflops), Some(seconds), Some(success)) if output.status.success() && success > 0.0 => {
                Ok(Solved { gflops: teraflops * 1000.0, seconds })
            }
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                let last: Vec<&str> = said.lines().rev().take(3).collect();
                bail!("{}: {} without a result: {}", way.name(), output.status, last.join(" / "))
            }
        }
    }

    fn noise(&self) -> anyhow::Result<Vec<Noise>> {
        let turns = format!("{:.0}", self.turns_per_s * NOISE_BURST_S);
        let wait_us = format!("{:.0}", NOISE_BURST_S * (1.0 / NOISE_DUTY - 1.0) * 1e6);
        let start = |_: &usize| {
            let mut command = Command::new(&self.load);
            command.args(["--bursts", "4000000000", "--turns", &turns, "--wait-us", &wait_us]);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.spawn().map(Noise).context("failed to start the noise")
        };
        allowed().iter().map(start).collect()
    }

    fn stop(self, record: &mut Record) -> anyhow::Result<()> {
        for group in self.daemon.map_or(Ok(Vec::new()), Daemon::stop)? {
            record.say(&format!("Left behind: cgroup {}.", group.display()));
        }
        Ok(())
    }
}

/// A process that is ended when this is dropped.
struct Noise(Child);

impl Drop for Noise {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _gone = self.0.wait();
    }
}

fn tell(noisy: bool, ways: &[Way], rates: &[Vec<f64>], record: &mut Record) {
    let at = |wanted: Way| ways.iter().position(|&way| way == wanted).map(|at| &rates[at]);
    let Some(hand) = at(Way::Hand) else { return };
    let best = Way::BY_HAND.into_iter().filter_map(|way| Some((median(at(way)?)?.value, way)));
    let Some((best, best_way)) = best.max_by(|one, other| one.0.total_cmp(&other.0)) else { return };
    let mut rows = Vec::new();
    for (way, own) in ways.iter().zip(rates) {
        let Some(median) = median(own) else { continue };
        let paired: Vec<f64> = own.iter().zip(hand).map(|(own, hand)| (own / hand).ln()).collect();
        let against = match Spread::of(&paired).filter(|_| *way != Way::Hand) {
            None => "-".to_owned(),
            Some(ratio) => {
                let (low, high) = ratio.mean_interval_90();
                let percent = |value: f64| 100.0 * value.exp_m1();
                format!("{:+.2} [{:+.2}, {:+.2}]", percent(ratio.mean), percent(low), percent(high))
            }
        };
        let part = format!("{:.1}", 100.0 * median.value / best);
        rows.push(vec![way.name().to_owned(), table::with_interval(&median, 3), part, against]);
    }
    let beside = if noisy { "Beside noise on each core" } else { "Alone" };
    record.say(&format!(
        "\n### {beside}\n\n{} interleaved rounds. Best by hand: {}. Against each rank by hand: mean difference in % with \
         its 90 % interval.\n",
        hand.len(),
        best_way.name()
    ));
    record.say(&table::markdown(&["way", "GFlop/s", "% of best by hand", "against by hand"], &rows));
}
