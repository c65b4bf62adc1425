//! Row `waits`: jobs that compute a part of their time and wait for the rest.
//!
//! Two series. *Equal* jobs compute 60 to 80 % of their time, 2.5 to 4 jobs for each slot of factor 2. *Mixed* jobs wait
//! for none, a quarter and half of their time, in counts that are multiples of the slots and in counts of one more: the
//! last job of a count like that runs while other slots stand empty, which favours a launcher that runs the job at full
//! speed. All waits are for the clock, so that no storage tells two runs apart.

use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::Args;
use pinfold_proto::quantity;

use super::{Ground, RowArgs, perform};
use crate::compare::{Question, compare, show};
use crate::record::Record;
use crate::way::Way;
use crate::workload::{Job, quote};

/// Options of row `waits`.
#[derive(Debug, Args)]
pub(crate) struct WaitsArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Equal jobs: duty cycle in percent and jobs per slot, a table for each pair.
    #[arg(long, value_name = "DUTY:RATIO", default_values = ["60:2.5", "70:3", "75:3.5", "80:4"])]
    cell: Vec<Cell>,
    /// Mixed jobs for each slot of factor 2, a table for each, and another with a job more.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "2,3,4,5", value_parser = quantity::whole::<u16>(1..=1_000))]
    per_slot: Vec<u16>,
    /// Only this series.
    #[arg(long, value_enum, value_name = "NAME")]
    only: Option<Series>,
    /// CPU time of an equal job alone, seconds; a mixed job has half of it.
    #[arg(long, default_value_t = 1.6)]
    job_seconds: f64,
    /// CPU time of a burst, milliseconds.
    #[arg(long, default_value_t = 50.0)]
    burst_ms: f64,
}

/// A series of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Series {
    /// Jobs of the same duty cycle in each table
    Equal,
    /// Jobs of three duty cycles beside each other
    Mixed,
}

/// A table of equal jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    /// Share of its time alone that a job computes, 0-1.
    duty: f64,
    /// Jobs for each slot of factor 2.
    ratio: f64,
}

impl FromStr for Cell {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (duty, ratio) = text.split_once(':').context("a cell is DUTY:RATIO, as `60:2.5`")?;
        let duty = duty.parse::<f64>().context("DUTY is a number of percent")? / 100.0;
        let ratio = ratio.parse::<f64>().context("RATIO is a number")?;
        if !(0.01..=1.0).contains(&duty) || !(0.1..=1_000.0).contains(&ratio) {
            bail!("a cell has a duty of 1-100 and a ratio of 0.1-1000");
        }
        Ok(Self { duty, ratio })
    }
}

/// The classes of mixed jobs: a name, and the share of its time alone that a job computes.
const CLASSES: [(&str, f64); 3] = [("computes", 1.0), ("waits-some", 0.75), ("waits-much", 0.5)];

/// The program that computes in bursts, with its speed on this host.
struct Load<'a> {
    /// The program, as a shell word.
    program: String,
    /// Turns of its loop in a second, alone.
    speed: f64,
    args: &'a WaitsArgs,
}

/// Runs the row.
pub(crate) fn run(args: &WaitsArgs) -> anyhow::Result<()> {
    perform("waits", &args.row, |ground, record| {
        if args.job_seconds <= 0.0 || args.burst_ms <= 0.0 {
            bail!("`--job-seconds` and `--burst-ms` are above nought");
        }
        let program = std::env::current_exe().context("failed to find this program's own path")?;
        let program = program.with_file_name("pinfold-load");
        let speed = calibrate(&program, ground.solo_pu()?)?;
        record.add("calibration", &serde_json::json!({ "turns_per_second": speed }))?;
        let load = Load { program: quote(&program), speed, args };
        if args.only != Some(Series::Mixed) {
            equal(&load, ground, record)?;
        }
        if args.only != Some(Series::Equal) {
            mixed(&load, ground, record)?;
        }
        Ok(())
    })
}

fn equal(load: &Load<'_>, ground: &Ground, record: &mut Record) -> anyhow::Result<()> {
    let cores = ground.cores();
    let ways = [
        Way::Native { slots: cores },
        Way::Native { slots: 2 * cores },
        Way::Native { slots: 4 * cores },
        Way::Idle { normal: cores, idle: cores },
        Way::Pinfold { factor: 2.0 },
        Way::Pinfold { factor: 4.0 },
    ];
    for cell in &load.args.cell {
        let count = whole(cell.ratio * 2.0 * cores as f64);
        let jobs: Vec<Job> =
            (1..=count).map(|number| load.job("duty", cell.duty, number, load.args.job_seconds)).collect();
        let title = format!("Duty {:.0} %, {} jobs per slot", 100.0 * cell.duty, cell.ratio);
        table(load, ground, record, (&title, &jobs, &ways))?;
    }
    Ok(())
}

fn mixed(load: &Load<'_>, ground: &Ground, record: &mut Record) -> anyhow::Result<()> {
    let cores = ground.cores();
    let slots = 2 * cores;
    let ways = [
        Way::Native { slots: cores },
        Way::Native { slots },
        Way::Parallel { slots },
        Way::ParallelNice { normal: cores, niced: cores },
        Way::Pinfold { factor: 2.0 },
    ];
    for count in counts(&load.args.per_slot, slots) {
        let title = format!("{count} jobs for {slots} slots");
        table(load, ground, record, (&title, &load.mixed(count), &ways))?;
    }
    Ok(())
}

fn table(
    load: &Load<'_>,
    ground: &Ground,
    record: &mut Record,
    (title, jobs, ways): (&str, &[Job], &[Way]),
) -> anyhow::Result<()> {
    let bench = ground.bench(1_800.0);
    let progress = &mut |watch: &_, jobs| show("alone", watch, jobs);
    let (solo, failed) = bench.solo(jobs, load.args.row.solo(), ground.solo_pu()?, progress)?;
    if let Some(why) = failed.values().next() {
        bail!("alone, {why}");
    }
    let (repetitions, cores) = (load.args.row.repetitions(), ground.cores());
    compare(&bench, &Question { title, jobs, device: &[], ways, repetitions, cores }, &solo, record)?;
    Ok(())
}

impl Load<'_> {
    /// A job that computes `seconds` and waits so long that it computes the part `duty` of its time.
    fn job(&self, class: &str, duty: f64, number: u64, seconds: f64) -> Job {
        let burst_s = self.args.burst_ms / 1e3;
        let bursts = whole(seconds / burst_s);
        let turns = whole(self.speed * burst_s);
        let wait_us = if duty < 1.0 { whole(1e6 * burst_s * (1.0 - duty) / duty) } else { 0 };
        Job {
            name: format!("{class}-{number}"),
            class: class.to_owned(),
            script: format!("{} --bursts {bursts} --turns {turns} --wait-us {wait_us}\n", self.program),
            outputs: vec!["stdout".to_owned()],
        }
    }

    /// `count` jobs, each class in turn, all of the same CPU time.
    fn mixed(&self, count: usize) -> Vec<Job> {
        let classes = CLASSES.iter().cycle().zip(1..=count as u64);
        classes
            .map(|(&(class, duty), number)| self.job(class, duty, number, self.args.job_seconds / 2.0))
            .collect()
    }
}

/// The multiples of the slots, then each plus 1.
fn counts(per_slot: &[u16], slots: usize) -> Vec<usize> {
    let even = per_slot.iter().map(|&times| usize::from(times) * slots);
    even.clone().chain(even.map(|count| count + 1)).collect()
}

/// Turns per second of the load's loop on PU `pu`.
pub(crate) fn calibrate(load: &std::path::Path, pu: usize) -> anyhow::Result<f64> {
    let output = Command::new("taskset")
        .args(["-c", &pu.to_string()])
        .arg(load)
        .arg("--calibrate")
        .output()
        .with_context(|| format!("failed to run {}", load.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.trim().parse().with_context(|| format!("{} did not calibrate: `{}`", load.display(), text.trim()))
}

/// `value` as a count of at least 1.
pub(crate) fn whole(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive by the checks of the options, and saturating above"
    )]
    let whole = value.round().max(1.0) as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells() {
        assert_eq!("60:2.5".parse::<Cell>().unwrap(), Cell { duty: 0.6, ratio: 2.5 });
        for bad in ["", "60", "60:", ":2", "0:2", "101:2", "60:0", "x:y", "60:NaN"] {
            assert!(bad.parse::<Cell>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn counts_that_fill_the_slots_and_counts_that_do_not() {
        assert_eq!(counts(&[2, 3, 4, 5], 4), [8, 12, 16, 20, 9, 13, 17, 21]);
    }

    #[test]
    fn mixed_jobs_are_of_each_class_in_turn() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            args: WaitsArgs,
        }
        let args = Line::parse_from(["waits", "--job-seconds", "0.2", "--burst-ms", "20"]).args;
        let jobs = Load { program: "load".to_owned(), speed: 1e6, args: &args }.mixed(4);
        let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["computes-1", "waits-some-2", "waits-much-3", "computes-4"]);
        assert_eq!(jobs[0].script, "load --bursts 5 --turns 20000 --wait-us 0\n");
        assert_eq!(jobs[2].script, "load --bursts 5 --turns 20000 --wait-us 20000\n");
    }
}
