//! Row `bandwidth`: how much the processor time of the same memory-bound job varies when half as many more run as there are cores.
//!
//! Each run has so many jobs of the same code, all the same work; the figure is the processor time of each, the largest
//! over the smallest. The code `sweep` reads and writes all its memory from end to end and waits for bandwidth, `walk`
//! visits it at random and waits for each word. The same ratio of jobs alone, in turn on a single core, shows the machine's
//! own part. There is memory for all, so that no manager kills, suspends or frees anything here. Absent: the other half of
//! the experiment, the number of jobs of half a node that fit onto several nodes (`pack`, and the lab).

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use super::waits::calibrate;
use super::{RowArgs, perform};
use crate::compare::{Question, Runs, compare, show};
use crate::record::Record;
use crate::run::Run;
use crate::stats::median;
use crate::table;
use crate::way::Way;
use crate::workload::{Job, quote};

/// Options of row `bandwidth`.
#[derive(Debug, Args)]
pub(crate) struct BandwidthArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Jobs of each code in a run.
    #[arg(long, default_value_t = 10)]
    jobs: usize,
    /// Memory of each job, MiB: more than the caches.
    #[arg(long, default_value_t = 256)]
    mib: u64,
    /// About how long a job of each code takes alone, seconds.
    #[arg(long, default_value_t = 2.0)]
    job_seconds: f64,
}

/// The jobs' accesses to memory.
const CODES: [(&str, &str); 2] = [("sweep", "--sweep"), ("walk", "")];

/// Runs the row.
pub(crate) fn run(args: &BandwidthArgs) -> anyhow::Result<()> {
    perform("bandwidth", &args.row, |ground, record| {
        let program = std::env::current_exe().context("failed to find this program's own path")?;
        let load = program.with_file_name("pinfold-load");
        if args.jobs < 2 {
            bail!("--jobs {}: one job does not vary", args.jobs);
        }
        let speed = calibrate(&load, ground.solo_pu()?)?;
        let bench = ground.bench(1_800.0);
        let cores = ground.cores();
        // Half as many more than there are cores, and at least one job more.
        let slots = (3 * cores).div_ceil(2).max(cores + 1);
        let ways = [
            Way::Native { slots: cores },
            Way::Native { slots },
            Way::Parallel { slots },
            Way::Pinfold { factor: 1.5 },
        ];
        for (code, option) in CODES {
            let probe = turns(speed, 0.1);
            let script = |turns: u64| {
                let load = quote(&load);
                format!("{load} --grow-mib {} --bursts 1 --turns {turns} {option}\n", args.mib)
            };
            let jobs = |count: usize, turns: u64| -> Vec<Job> {
                let one = |number: usize| Job {
                    name: format!("{code}-{number}"),
                    class: code.to_owned(),
                    script: script(turns),
                    outputs: vec!["stdout".to_owned()],
                };
                (1..=count).map(one).collect()
            };
            let progress = &mut |watch: &_, jobs| show("alone", watch, jobs);
            // A turn takes as long as its memory does: a short run determines the number of turns.
            let (tried, failed) = bench.solo(&jobs(1, probe), 1, ground.solo_pu()?, progress)?;
            let grown = bench.solo(&jobs(1, 1), 1, ground.solo_pu()?, progress)?.0;
            let cpu_s =
                |of: &std::collections::BTreeMap<String, crate::run::Solo>| of.get(code).map(|one| one.cpu_s);
            let (Some(with), Some(without)) = (cpu_s(&tried), cpu_s(&grown)) else {
                bail!("alone, {}", failed.values().next().map_or("the job did not end well", String::as_str));
            };
            let per_s = probe as f64 / (with - without).max(1e-3);
            let jobs = jobs(args.jobs, turns(per_s, (args.job_seconds - without).max(0.05)));
            record
                .add("calibration", &json!({ "code": code, "turns_per_second": per_s, "mib": args.mib }))?;
            let alone = args.jobs.max(args.row.solo());
            let (solo, failed) = bench.solo(&jobs, alone, ground.solo_pu()?, progress)?;
            if let Some(why) = failed.values().next() {
                bail!("alone, {why}");
            }
            let alone = solo.get(code).map_or(f64::NAN, |solo| largest_over_least(&solo.all_cpu_s));
            let title = format!("{code}, {} MiB a job, {slots} at a time on {cores} cores", args.mib);
            let repetitions = args.row.repetitions();
            let question =
                Question { title: &title, jobs: &jobs, device: &[], ways: &ways, repetitions, cores };
            let runs = compare(&bench, &question, &solo, record)?;
            tell(&title, alone, &runs, record)?;
        }
        Ok(())
    })
}

/// Turns for this many seconds, at least 1.
fn turns(per_s: f64, seconds: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and saturating above"
    )]
    let turns = (per_s * seconds).max(1.0) as u64;
    turns
}

/// The ratio of the largest to the smallest time of the same work, at least 1; undefined without values.
fn largest_over_least(all: &[f64]) -> f64 {
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest / least
}

fn of_run(run: &Run) -> f64 {
    let times: Vec<f64> = run.endings.iter().map(|ending| ending.cpu_us as f64 / 1e6).collect();
    largest_over_least(&times)
}

fn tell(title: &str, alone: f64, runs: &Runs, record: &mut Record) -> anyhow::Result<()> {
    let mut rows = vec![vec!["alone, one after the other".to_owned(), format!("{alone:.3}"), "-".to_owned()]];
    for (way, runs) in runs {
        let ratios: Vec<f64> = runs.iter().map(of_run).collect();
        let Some(median) = median(&ratios) else { continue };
        record
            .add("variation", &json!({ "title": title, "way": way.to_string(), "max_over_min": ratios }))?;
        let worst = ratios.iter().copied().fold(1.0, f64::max);
        rows.push(vec![way.to_string(), table::with_interval(&median, 3), format!("{worst:.3}")]);
    }
    record.say("Processor seconds of the same job, largest over least within a run:\n");
    record.say(&table::markdown(&["way", "max / min", "worst run"], &rows));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_the_largest_over_the_least() {
        assert!((largest_over_least(&[2.0, 3.0, 2.5]) - 1.5).abs() < 1e-12);
        assert!((largest_over_least(&[2.0]) - 1.0).abs() < 1e-12);
        assert!(largest_over_least(&[]).is_nan());
    }
}
