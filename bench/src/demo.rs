//! The demo: real programs three ways, a table and a picture of what came out.
//!
//! One per core as most people run them; twice as many, as the impatient do; and twice as many under pinfold.
//! Prints whatever the figures say. Leaves the results' directory and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;

use crate::compare::{done, show};
use crate::picture;
use crate::programs::mix;
use crate::record::Record;
use crate::row::Ground;
use crate::run::{Bench, Bound, Run, Solo};
use crate::table;
use crate::way::Way;
use crate::workload::Job;

/// Options of the demo.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Where the results go.
    #[arg(long, value_name = "DIR", default_value = "demo-results")]
    out: PathBuf,
    /// Work per job; 1 makes jobs of 5-20 seconds.
    #[arg(long, default_value_t = 1.0)]
    size: f64,
    /// Directory of the binaries `pinfold` and `pinfoldd`; beside this program by default.
    #[arg(long, value_name = "DIR")]
    binaries: Option<PathBuf>,
    /// Where temporary files go; the system's directory for them by default.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// Longest that one of the three ways may take, seconds.
const LIMIT_S: f64 = 1_200.0;

/// Share of the machine that others may use before the demo says that its figures are disturbed.
const DISTURBED: f64 = 0.1;

/// Runs the demo.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let ground = Ground::new(args.binaries.as_ref(), args.scratch.as_ref())?;
    let bench = ground.bench(LIMIT_S);
    let mut record = Record::new("demo", &ground.machine)?;
    done(&format!("This machine: {}.", ground.machine.sentence()));
    let inputs = tempfile::Builder::new().prefix("inputs-").tempdir_in(bench.scratch)?;
    done("Preparing the example data ...");
    let mix = mix(inputs.path(), args.size)?;
    for why in &mix.left_out {
        note(&mut record, &format!("{why}."));
    }
    let mut jobs = mix.jobs;
    if jobs.is_empty() {
        done(
            "None of the programs is installed, so there is nothing to show; `make demo` as root installs them.",
        );
        return Ok(());
    }
    let solo = alone(&bench, &ground, &mut jobs, &mut record)?;
    let cores = ground.cores();
    let bound = Bound::of(&jobs, &solo, cores);
    let ways = [
        ("One per core", Way::Native { slots: cores }),
        ("Twice as many", Way::Native { slots: 2 * cores }),
        ("pinfold at factor 2", Way::Pinfold { factor: 2.0 }),
    ];
    let mut runs = Vec::new();
    for (turn, (name, way)) in (1..).zip(ways) {
        if let Some(why) = way.missing(bench.binaries) {
            note(&mut record, &format!("{name} is left out: {why}."));
            continue;
        }
        let label = format!("[{turn}/3] {name} ({way})");
        done(&format!("{label}: {} jobs", jobs.len()));
        let run = bench.run(way, &jobs, &solo, &mut |watch, jobs| show(&label, watch, jobs))?;
        done(&format!("{label}: done in {:.1} s", run.makespan_s));
        record.add("run", &run)?;
        runs.push((name, run));
    }
    tell(&mut record, &runs, &jobs, bound, cores);
    save(&args.out, &record, &runs, cores)?;
    done(&format!("\n{}", record.text()));
    done(&format!(
        "Results are in {} ({:.0} s in all).",
        args.out.display(),
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

fn note(record: &mut Record, text: &str) {
    done(text);
    record.say(text);
}

/// Each job once alone, for the lower bound; those that cannot run here are left out.
fn alone(
    bench: &Bench<'_>,
    ground: &Ground,
    jobs: &mut Vec<Job>,
    record: &mut Record,
) -> anyhow::Result<BTreeMap<String, Solo>> {
    let total = jobs.len();
    done(&format!("Each of the {total} jobs alone, pinned to one core, for the lower bound:"));
    let mut number = 0;
    let (solo, failed) = bench.solo(jobs, 1, ground.solo_pu()?, &mut |watch, one| {
        let finished = watch.ended().len() == one;
        show(&format!("[alone] {} of {total}", number + 1), watch, one);
        number += usize::from(finished);
    })?;
    for (class, solo) in &solo {
        done(&format!("  {class:<14} {:6.2} s, of which computing {:6.2} s", solo.wall_s, solo.cpu_s));
    }
    for why in failed.values() {
        note(record, &format!("Left out, because alone {why}."));
    }
    jobs.retain(|job| solo.contains_key(&job.class));
    if jobs.is_empty() {
        bail!("no job runs here even alone");
    }
    record.add("solo", &solo)?;
    Ok(solo)
}

fn tell(record: &mut Record, runs: &[(&str, Run)], jobs: &[Job], bound: Bound, cores: usize) {
    record.say(&format!(
        "{} jobs. Lower bound {:.1} s: sum of CPU over {cores} cores {:.1} s, longest job alone {:.1} s. \
         R is the makespan over that bound, from one solo run of each job.\n",
        jobs.len(),
        bound.value_s(),
        bound.cpu_s,
        bound.longest_s
    ));
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|(name, run)| {
            vec![
                (*name).to_owned(),
                format!("{:.1}", run.makespan_s),
                format!("{:.1}", run.turnaround_s),
                format!("{:.1}", bound.value_s()),
                format!("{:.3}", run.makespan_s / bound.value_s()),
                format!("{:.1}", run.cpu_s),
                table::bytes(run.memory_peak_bytes),
                run.failures.len().to_string(),
                format!("{:.2}", run.foreign_cores),
            ]
        })
        .collect();
    let head = [
        "way",
        "makespan s",
        "mean turnaround s",
        "LB s",
        "R",
        "CPU s",
        "peak memory",
        "failed jobs",
        "others' cores",
    ];
    record.say(&table::markdown(&head, &rows));
    for (name, run) in runs {
        for why in &run.failures {
            record.say(&format!("Failed: {why} ({name})."));
        }
        for group in &run.left_behind {
            record.say(&format!("Left behind: cgroup {} ({name}).", group.display()));
        }
    }
    verdict(record, runs, cores);
    let others = runs.iter().map(|(_, run)| run.foreign_cores).fold(0.0, f64::max);
    if others > DISTURBED * cores as f64 {
        record.say(&format!(
            "Others used up to {others:.1} of the {cores} cores meanwhile: on a quiet machine these figures would \
             be different."
        ));
    }
}

/// What came out, in a sentence, whoever is ahead; and where that sentence would say nothing, why.
fn verdict(record: &mut Record, runs: &[(&str, Run)], cores: usize) {
    let Some((_, own)) = runs.iter().find(|(name, _)| name.starts_with("pinfold")) else { return };
    for (name, other) in runs.iter().filter(|(name, _)| !name.starts_with("pinfold")) {
        let name = name.to_lowercase();
        if (own.foreign_cores - other.foreign_cores).abs() > DISTURBED * cores as f64 {
            record.say(&format!(
                "pinfold and \"{name}\" cannot be compared: others used {:.1} cores during the one and {:.1} \
                 during the other.",
                own.foreign_cores, other.foreign_cores
            ));
            continue;
        }
        let change = 100.0 * (own.makespan_s / other.makespan_s - 1.0);
        let word = if change < 0.0 { "less" } else { "more" };
        record
            .say(&format!("pinfold took {:.1} % {word} time than \"{name}\" in this one run.", change.abs()));
    }
}

fn save(out: &Path, record: &Record, runs: &[(&str, Run)], cores: usize) -> anyhow::Result<()> {
    fs::create_dir_all(out).with_context(|| format!("failed to create {}", out.display()))?;
    let write = |name: &str, bytes: &[u8]| {
        let path = out.join(name);
        fs::write(&path, bytes).with_context(|| format!("failed to write {}", path.display()))
    };
    write("results.md", record.text().as_bytes())?;
    write("results.jsonl", record.lines().as_bytes())?;
    let chart = picture::chart(runs, cores);
    let (width, height) = picture::SIZE;
    write("picture.svg", chart.to_svg(width, height).as_bytes())?;
    write("picture.png", &chart.to_png(width, height).context("failed to draw the picture")?)
}
