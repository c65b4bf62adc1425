//! Row `oracle`: how wrong `pinfold sim` is. Mixes of jobs are run for real under several settings, and predicted from what
//! their classes took alone and from a calibration of the same minutes.
//!
//! The simulator is asked as anybody asks it, by `pinfold sim --jobs`; nothing that was measured in a mix reaches it.
//! Mixes that outgrow memory run within a budget, with a swap file; they need root. Absent: ranks of MPI.

mod mixes;
mod tell;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::{Value, json};

use self::mixes::Mix;
use super::e5::calibrate;
use super::{Ground, RowArgs, perform};
use crate::compare::show;
use crate::daemon::Binaries;
use crate::journal::Ending;
use crate::pressed::Pressed;
use crate::programs::mix;
use crate::run::{Bench, GROWN, Run, Solo};
use crate::stats::median;
use crate::watch::{Watch, seconds};
use crate::way::{Knows, Way};
use crate::workload::{Job, quote};

/// The settings: slots for each core.
const FACTORS: [f64; 4] = [1.0, 2.0, 1.5, 3.0];

/// Options of row `oracle`.
#[derive(Debug, clap::Args)]
pub(crate) struct OracleArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Mixes.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    mixes: u64,
    /// Settings that each runs under.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=4))]
    settings: u64,
    /// Work per program, against the demo's.
    #[arg(long, default_value_t = 0.2, value_parser = size)]
    size: f64,
    /// How long the calibration takes, in seconds.
    #[arg(long, default_value_t = 60)]
    calibrate_seconds: u32,
    /// What jobs of the mixes that outgrow memory may hold together, MiB.
    #[arg(long, default_value_t = 1000)]
    budget_mib: u64,
    /// Swap for them, MiB.
    #[arg(long, default_value_t = 3000)]
    swap_mib: u64,
    /// Which mixes are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// No mix is begun after so many minutes; the record says how many were left out.
    #[arg(long)]
    minutes: Option<u64>,
}

fn size(text: &str) -> anyhow::Result<f64> {
    match text.parse() {
        Ok(size) if (0.01..=10.0).contains(&size) => Ok(size),
        _ => bail!("a number from 0.01 to 10 is wanted"),
    }
}

/// A mix under a setting.
#[derive(Debug, Clone, Serialize)]
struct Cell {
    mix: String,
    factor: f64,
    jobs: usize,
    /// Of each run, in seconds.
    measured_s: Vec<f64>,
    predicted_s: f64,
    /// Cores that programs beside the bench used meanwhile, the most of all runs.
    foreign_cores: f64,
    /// Jobs frozen for memory in the last run,
    freezes: usize,
    /// and what the kernel moved to swap and back meanwhile, in bytes.
    swapped_out_bytes: u64,
    swapped_in_bytes: u64,
    /// Each job of the last run: its name, how long it ran and computed, in seconds.
    ran: Vec<(String, f64, f64)>,
}

impl Cell {
    /// The median of the runs, in seconds.
    fn took_s(&self) -> f64 {
        median(&self.measured_s).map_or(0.0, |median| median.value)
    }

    /// How far the prediction is off, as a part of what was measured: below 0, it promised too much.
    fn error(&self) -> f64 {
        self.predicted_s / self.took_s().max(1e-9) - 1.0
    }
}

/// Runs the row.
pub(crate) fn run(args: &OracleArgs) -> anyhow::Result<()> {
    perform("oracle", &args.row, |ground, record| {
        let Some(binaries) = &ground.binaries else { bail!("pinfold and pinfoldd are not built") };
        let bench = ground.bench(1_800.0);
        let pressed = match Pressed::make(bench.scratch, args.budget_mib, args.swap_mib) {
            Ok(pressed) => Some(pressed),
            Err(error) => {
                record.say(&format!("Without mixes that outgrow memory: {error:#}."));
                None
            }
        };
        let calibration = bench.scratch.join("calibration.json");
        let measured = measure(binaries, bench.scratch, &calibration, args.calibrate_seconds)?;
        record.add("calibration", &measured)?;
        let inputs = tempfile::Builder::new().prefix("inputs-").tempdir_in(bench.scratch)?;
        let programs = mix(inputs.path(), args.size)?;
        for why in &programs.left_out {
            record.say(&format!("{why}."));
        }
        let load = std::env::current_exe()?.with_file_name("pinfold-load");
        let speed = calibrate(&load, ground.solo_pu()?)?;
        let budget_mib = pressed.is_some().then_some(args.budget_mib);
        let pool = mixes::pool(&programs.jobs, &quote(&load), speed, budget_mib);
        let (solo, failed) = bench.solo(&pool, args.row.solo(), ground.solo_pu()?, &mut |watch, jobs| {
            show("alone", watch, jobs);
        })?;
        for why in failed.values() {
            record.say(&format!("Left out, because alone {why}."));
        }
        record.add("alone", &solo)?;
        let pool: Vec<Job> = pool.into_iter().filter(|job| solo.contains_key(&job.class)).collect();
        let factors = &FACTORS[..usize::try_from(args.settings).unwrap_or(FACTORS.len())];
        let mut cells = Vec::new();
        let end = args.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
        for number in 0..args.mixes {
            if end.is_some_and(|end| Instant::now() >= end) {
                let left = args.mixes - number;
                record.say(&format!("Mixes left out for want of time: {left} of {}.", args.mixes));
                break;
            }
            let mix = mixes::draw(&pool, args.seed, number);
            if mix.jobs.is_empty() {
                continue;
            }
            let asked =
                Asked { args, binaries, bench: &bench, calibration: &calibration, solo: &solo, factors };
            let told = asked.measure(ground, &mix, &asked.predict(&mix)?)?;
            for cell in &told {
                record.add("cell", cell)?;
            }
            cells.extend(told);
        }
        tell::tell(&measured, &cells, ground.cores(), record)
    })
}

/// What mixes are run and predicted with.
struct Asked<'a> {
    args: &'a OracleArgs,
    binaries: &'a Binaries,
    bench: &'a Bench<'a>,
    calibration: &'a Path,
    solo: &'a BTreeMap<String, Solo>,
    factors: &'a [f64],
}

impl Asked<'_> {
    /// Runs a mix under all settings, repetition by repetition.
    fn measure(&self, ground: &Ground, mix: &Mix, predicted: &[f64]) -> anyhow::Result<Vec<Cell>> {
        let cell = |(&factor, &predicted_s): (&f64, &f64)| Cell {
            mix: mix.name.clone(),
            factor,
            jobs: mix.jobs.len(),
            measured_s: Vec::new(),
            predicted_s,
            foreign_cores: 0.0,
            freezes: 0,
            swapped_out_bytes: 0,
            swapped_in_bytes: 0,
            ran: Vec::new(),
        };
        let mut cells: Vec<Cell> = self.factors.iter().zip(predicted).map(cell).collect();
        if mix.pressed {
            // The daemon gets to know what each job needs, as the simulator does.
            self.bench.forget()?;
            self.run(mix, 1.0)?;
        }
        for _ in 0..self.args.row.repetitions() {
            for cell in &mut cells {
                if ground.interrupted() {
                    bail!("interrupted");
                }
                let before = swapped();
                let run = self.run(mix, cell.factor)?;
                let after = swapped();
                cell.swapped_out_bytes = after.0.saturating_sub(before.0);
                cell.swapped_in_bytes = after.1.saturating_sub(before.1);
                cell.freezes = run.freezes_us.len();
                cell.measured_s.push(run.makespan_s);
                let ran = |one: &Ending| (one.name.clone(), seconds(one.wall_us), seconds(one.cpu_us));
                cell.ran = run.endings.iter().map(ran).collect();
                cell.foreign_cores = cell.foreign_cores.max(run.foreign_cores);
            }
        }
        Ok(cells)
    }

    fn run(&self, mix: &Mix, factor: f64) -> anyhow::Result<Run> {
        let budget_mib = self.args.budget_mib;
        let way = if mix.pressed {
            Way::PinfoldWithin { factor, budget_mib, knows: Knows::Before }
        } else {
            Way::Pinfold { factor }
        };
        let progress = &mut |watch: &Watch, jobs| show(&mix.name, watch, jobs);
        let run = self.bench.run(way, &mix.jobs, self.solo, progress)?;
        if let Some(why) = run.failures.first() {
            bail!("{} under `{way}`: {why}", mix.name);
        }
        Ok(run)
    }

    /// The makespan of a mix under each setting as the simulator sees it, in seconds.
    fn predict(&self, mix: &Mix) -> anyhow::Result<Vec<f64>> {
        let mut text = String::new();
        for job in &mix.jobs {
            let Some(alone) = self.solo.get(&job.class) else { bail!("`{}` was not run alone", job.class) };
            writeln!(text, "{}", line(job, alone, mix.pressed))?;
        }
        let file = self.bench.scratch.join("mix.jsonl");
        std::fs::write(&file, text).context("failed to write a list of jobs")?;
        let values: Vec<String> = self.factors.iter().map(f64::to_string).collect();
        let mut command = Command::new(&self.binaries.pinfold);
        command.args(["sim", "--json", "--jobs"]).arg(&file).arg("--calibration").arg(self.calibration);
        if mix.pressed {
            let mib = |mib: u64| format!("{mib}MiB");
            let budget = mib(self.args.budget_mib);
            // As the daemon has it: without it a host of this size would keep a reserve free.
            command.args(["--memory", &budget, "--set", &format!("host.memory={budget}")]);
            command.args(["--swap", &mib(self.args.swap_mib)]);
        }
        let view = json_of(command.args(["--compare", &format!("slots.factor={}", values.join(","))]))?;
        let runs = view["runs"].as_array().context("`pinfold sim` tells of no runs")?;
        let makespans: Option<Vec<f64>> = runs.iter().map(|run| run["makespan_s"].as_f64()).collect();
        makespans.filter(|all| all.len() == self.factors.len()).context("`pinfold sim` tells of other runs")
    }
}

/// A job for the simulator: all are of one batch. One of a mix that is `pressed` asks for no memory, and ran once
/// before. Its times are the medians of its runs alone: the shortest would be short of what it takes on average.
fn line(job: &Job, alone: &Solo, pressed: bool) -> Value {
    let middle = |all: &[f64], least: f64| median(all).map_or(least, |median| median.value);
    let wall_s = middle(&alone.all_wall_s, alone.wall_s);
    let cpu_s = middle(&alone.all_cpu_s, alone.cpu_s).min(wall_s);
    json!({
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "name": job.class,
        "list": "mix",
        "memory_peak_bytes": pressed.then_some(alone.memory_peak_bytes),
        "memory_request_bytes": pressed.then_some(0),
        "memory_ramp": (alone.memory_ramp / GROWN).min(1.0),
        "ramp_cpu_s": pressed.then_some((alone.ramp_cpu_s / GROWN).min(cpu_s)),
        "runs_before": u64::from(pressed),
        "io_bytes": alone.io_bytes,
    })
}

/// What the kernel has moved to swap and back since it started, in bytes; 0 where it does not tell.
fn swapped() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let bytes = |key: &str| {
        let pages = text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64)
    };
    (bytes("pswpout "), bytes("pswpin "))
}

/// Calibrates this host into `file`; gives what was measured.
fn measure(binaries: &Binaries, scratch: &Path, file: &Path, seconds: u32) -> anyhow::Result<Value> {
    let state = scratch.join("calibrated");
    let mut command = Command::new(&binaries.pinfold);
    command.args(["sim", "calibrate", "--json", "--seconds", &seconds.to_string(), "--directory"]);
    let value = json_of(command.arg(scratch).env("PINFOLD_STATE_DIR", &state))?;
    std::fs::rename(state.join("calibration.json"), file).context("failed to keep the calibration")?;
    Ok(value)
}

/// What a command prints as JSON.
fn json_of(command: &mut Command) -> anyhow::Result<Value> {
    let output = command.output().with_context(|| format!("failed to run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?} prints no JSON"))
}
