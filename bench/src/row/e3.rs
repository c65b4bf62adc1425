//! Row `e3`: jobs that wait for none, a quarter and half of their time, mixed, two at a time for each core; in counts that
//! are multiples of the slots, and in counts that are one more.
//!
//! The last job of a count that does not fill the slots runs while others stand empty, which favours a launcher that runs
//! it at full speed. The waits are for the clock: what waits for a storage would be told apart by that storage.

use anyhow::{Context, bail};
use clap::Args;

use super::e5::{calibrate, whole};
use super::{RowArgs, perform};
use crate::compare::{Question, compare, show};
use crate::way::Way;
use crate::workload::{Job, quote};

/// Options of row `e3`.
#[derive(Debug, Args)]
pub(crate) struct E3Args {
    #[command(flatten)]
    row: RowArgs,
    /// Jobs for each slot of factor 2, each one table, and one more with a job more.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "2,3,4,5", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    per_slot: Vec<u16>,
    /// CPU time of one job alone, seconds.
    #[arg(long, default_value_t = 0.8)]
    job_seconds: f64,
    /// CPU time of one burst, milliseconds.
    #[arg(long, default_value_t = 50.0)]
    burst_ms: f64,
}

/// The kinds of jobs: a name, and the share of its time alone that one computes.
const KINDS: [(&str, f64); 3] = [("computes", 1.0), ("waits-some", 0.75), ("waits-much", 0.5)];

/// Runs the row.
pub(crate) fn run(args: &E3Args) -> anyhow::Result<()> {
    perform("e3", &args.row, |ground, record| {
        if args.job_seconds <= 0.0 || args.burst_ms <= 0.0 {
            bail!("`--job-seconds` and `--burst-ms` are above nought");
        }
        let bench = ground.bench(1_800.0);
        let program = std::env::current_exe().context("failed to find this program's own path")?;
        let load = program.with_file_name("pinfold-load");
        let speed = calibrate(&load, ground.solo_pu()?)?;
        record.add("calibration", &serde_json::json!({ "turns_per_second": speed }))?;
        let cores = ground.cores();
        let slots = 2 * cores;
        let ways = [
            Way::Native { slots: cores },
            Way::Native { slots },
            Way::Parallel { slots },
            Way::ParallelNice { normal: cores, niced: cores },
            Way::Pinfold { factor: 2.0 },
        ];
        let load = quote(&load);
        let progress = &mut |watch: &_, jobs| show("alone", watch, jobs);
        let alone = jobs(KINDS.len(), args, speed, &load);
        let (solo, failed) = bench.solo(&alone, args.row.solo(), ground.solo_pu()?, progress)?;
        if let Some(why) = failed.values().next() {
            bail!("alone, {why}");
        }
        for count in counts(&args.per_slot, slots) {
            let jobs = jobs(count, args, speed, &load);
            let title = format!("{count} jobs for {slots} slots");
            let repetitions = args.row.repetitions();
            let question =
                Question { title: &title, jobs: &jobs, device: &[], ways: &ways, repetitions, cores };
            compare(&bench, &question, &solo, record)?;
        }
        Ok(())
    })
}

/// The multiples of the slots, then one more than each.
fn counts(per_slot: &[u16], slots: usize) -> Vec<usize> {
    let even = per_slot.iter().map(|&times| usize::from(times) * slots);
    even.clone().chain(even.map(|count| count + 1)).collect()
}

/// So many jobs, one of each kind in turn, all of the same processor time.
fn jobs(count: usize, args: &E3Args, speed: f64, load: &str) -> Vec<Job> {
    let burst_s = args.burst_ms / 1e3;
    let bursts = whole(args.job_seconds / burst_s);
    let turns = whole(speed * burst_s);
    let job = |number: usize| {
        let (class, duty) = KINDS[number % KINDS.len()];
        let wait_us = if duty < 1.0 { whole(1e6 * burst_s * (1.0 - duty) / duty) } else { 0 };
        Job {
            name: format!("{class}-{}", number + 1),
            class: class.to_owned(),
            script: format!("{load} --bursts {bursts} --turns {turns} --wait-us {wait_us}\n"),
            outputs: vec!["stdout".to_owned()],
        }
    };
    (0..count).map(job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_fill_the_slots_and_that_do_not() {
        assert_eq!(counts(&[2, 3, 4, 5], 4), [8, 12, 16, 20, 9, 13, 17, 21]);
    }

    #[test]
    fn all_kinds_in_turn() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            args: E3Args,
        }
        let args = Line::parse_from(["e3", "--job-seconds", "0.1", "--burst-ms", "20"]).args;
        let jobs = jobs(4, &args, 1e6, "load");
        let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["computes-1", "waits-some-2", "waits-much-3", "computes-4"]);
        assert_eq!(jobs[0].script, "load --bursts 5 --turns 20000 --wait-us 0\n");
        assert_eq!(jobs[2].script, "load --bursts 5 --turns 20000 --wait-us 20000\n");
    }
}
