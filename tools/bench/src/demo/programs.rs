//! Act 1: real programs, one per core as usual, twice as many, and under pinfold.

use std::collections::BTreeMap;

use anyhow::bail;

use super::{DISTURBED, Picture, heading, note, picture, tell_troubles};
use crate::compare::{done, show};
use crate::programs::mix;
use crate::record::Record;
use crate::row::Ground;
use crate::run::{Bench, Bound, Run, Solo};
use crate::table;
use crate::way::Way;
use crate::workload::Job;

/// The time limit of each of the three ways, seconds.
const LIMIT_S: f64 = 1_200.0;

/// Plays the act; nothing to draw where no program is installed.
pub(super) fn play(ground: &Ground, size: f64, record: &mut Record) -> anyhow::Result<Option<Picture>> {
    let bench = ground.bench(LIMIT_S);
    let inputs = tempfile::Builder::new().prefix("inputs-").tempdir_in(bench.scratch)?;
    heading(record, "1. Real programs");
    done("Preparing the example data ...");
    let mix = mix(inputs.path(), size)?;
    for why in &mix.left_out {
        note(record, &format!("{why}."));
    }
    let mut jobs = mix.jobs;
    if jobs.is_empty() {
        note(
            record,
            "None of the programs is installed, so this act is left out; `make demo` as root installs them.",
        );
        return Ok(None);
    }
    let solo = alone(&bench, ground, &mut jobs, record)?;
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
            note(record, &format!("{name} is left out: {why}."));
            continue;
        }
        let label = format!("[{turn}/3] {name} ({way})");
        done(&format!("{label}: {} jobs", jobs.len()));
        let run = bench.run(way, &jobs, &solo, &mut |watch, jobs| show(&label, watch, jobs))?;
        done(&format!("{label}: done in {:.1} s", run.makespan_s));
        record.add("programs", &run)?;
        runs.push((name.to_owned(), run));
    }
    tell(record, &runs, &jobs, bound, cores);
    Ok(Some(Picture::Over(picture::programs(&runs, cores))))
}

/// Each job once alone, for the lower bound; jobs that cannot run here are left out.
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

fn tell(record: &mut Record, runs: &[(String, Run)], jobs: &[Job], bound: Bound, cores: usize) {
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
                name.clone(),
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
    }
    verdict(record, runs, cores);
    tell_troubles(record, runs, cores, "Others");
}

/// The result in a sentence, in favour of any way; or the reason for which no sentence is possible.
fn verdict(record: &mut Record, runs: &[(String, Run)], cores: usize) {
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
