//! Memory over time: what segments waste, beside peaks, the published methods and what could be known.
//!
//! The same jobs and the same order of time as in the other tables, but with each job's samples: a failed attempt
//! has held its memory until it failed, and waste is all that was held and not used. Advice comes from `pinfold
//! advise replay
//! --series`, and is scored here.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::baselines::{self, RULES, RUNS_MIN, Score, request};
use super::data::{Job, Traced};
use super::ks::{self, Learned};
use super::shape::{self, Shape};
use crate::record::Record;
use crate::row::Ground;
use crate::table::markdown;

/// The rules for peaks that are told beside segments.
const BESIDE: [&str; 2] = ["request", "max x1.1"];
/// Columns, in their order.
const NAMES: [&str; 8] = [
    "request",
    "max x1.1",
    "k-Segments",
    "KS+",
    "advised peak",
    "advised segments",
    "known peak",
    "known segments",
];

/// Tells of all sets.
pub(super) fn tell(sets: &[Traced], ground: &Ground, record: &mut Record) -> anyhow::Result<()> {
    if sets.is_empty() {
        return Ok(());
    }
    record.say(
        "Over time: GB x hours held and not used (share of jobs with a failure). `known peak`: an oracle that knows each \
         peak once three runs have ended; `known segments`: one that knows when each run held how much, in four \
         segments.\n",
    );
    let mut rows = Vec::new();
    for set in sets {
        let scores = scores(set, ground)?;
        let used: f64 = set.traces.iter().map(shape::Trace::used).sum();
        record.add(
            "over_time",
            &json!({ "set": set.set.name, "used_gbh": used, "scores": NAMES.iter().zip(&scores).collect::<Vec<_>>() }),
        )?;
        let mut row = vec![set.set.name.clone(), set.set.jobs.len().to_string(), format!("{used:.1}")];
        row.extend(
            scores
                .iter()
                .map(|score| format!("{:.1} ({:.1} %)", score.waste_gbh, 100.0 * score.failed_share())),
        );
        rows.push(row);
    }
    let mut head = vec!["records", "jobs", "used"];
    head.extend(NAMES);
    record.say(&markdown(&head, &rows));
    Ok(())
}

/// What each column comes to on a set.
fn scores(set: &Traced, ground: &Ground) -> anyhow::Result<Vec<Score>> {
    let learned: Vec<Option<Learned>> =
        set.set.jobs.iter().zip(&set.traces).map(|(job, trace)| Learned::of(job.input, trace)).collect();
    let mut scores = [Score::default(); 6];
    baselines::in_time(&set.set.jobs, |at, known| {
        let (job, trace) = (&set.set.jobs[at], &set.traces[at]);
        let flat = |attempts: Vec<f64>| attempts.into_iter().map(Shape::flat).collect::<Vec<Shape>>();
        let runs: Vec<&Job> = known.iter().map(|&run| &set.set.jobs[run]).collect();
        let by_rule = |name: &str| {
            let rule = RULES.iter().find(|rule| rule.name == name);
            flat(rule.map_or(Vec::new(), |rule| rule.tried(&runs, job)))
        };
        let long: Vec<&Learned> = known.iter().filter_map(|&run| learned[run].as_ref()).collect();
        // What has too few samples to learn from gets the largest peak and a tenth more.
        let published = |of: fn(&[&Learned], Option<f64>, f64, &shape::Trace) -> Vec<Shape>| {
            if long.len() < RUNS_MIN { by_rule(BESIDE[1]) } else { of(&long, job.input, request(job), trace) }
        };
        let enough = known.len() >= RUNS_MIN;
        let peak = if enough { job.peak.min(request(job)) } else { request(job) };
        let known_peak = || flat(baselines::attempts(job, peak));
        let known_segments = || {
            let parts = ks::divided(trace, ks::SEGMENTS);
            let starts = std::iter::once(0.0).chain(parts.iter().map(|part| part.0));
            let shape = Shape(starts.zip(parts.iter().map(|part| part.1)).collect());
            // One that the request does not hold fails with it as all others do.
            if enough && job.peak <= request(job) { vec![shape] } else { known_peak() }
        };
        let columns = [
            by_rule(BESIDE[0]),
            by_rule(BESIDE[1]),
            published(ks::k_segments),
            published(ks::ks_plus),
            known_peak(),
            known_segments(),
        ];
        for (score, attempts) in scores.iter_mut().zip(&columns) {
            shape::add(score, trace, attempts);
        }
    });
    let [before @ .., known_peak, known_segments] = &scores;
    let advised = advised(set, ground)?;
    Ok(before.iter().chain(&advised).chain([known_peak, known_segments]).copied().collect())
}

/// Replays a set by the command line; gives the scores of peaks and of segments.
fn advised(set: &Traced, ground: &Ground) -> anyhow::Result<[Score; 2]> {
    let Some(binaries) = &ground.binaries else {
        bail!("pinfold is not built: cargo build --release, or --binaries DIR");
    };
    let mut command = Command::new(&binaries.pinfold);
    command.args(["advise", "replay"]).arg(&set.instances).arg("--series").arg(&set.series).arg("--json");
    let output = command.output().context("failed to run pinfold advise replay --series")?;
    if !output.status.success() {
        bail!("pinfold advise replay --series ended with {} on {}", output.status, set.set.name);
    }
    let places: BTreeMap<&str, usize> =
        set.ids.iter().enumerate().map(|(at, id)| (id.as_str(), at)).collect();
    let (mut peaks, mut segments) = (Score::default(), Score::default());
    let text = String::from_utf8(output.stdout).context("what it says is no text")?;
    for line in text.lines() {
        let said: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
        let (Some(id), Some(attempts)) = (said["id"].as_str(), said["attempts"].as_array()) else { continue };
        let at = *places.get(id).with_context(|| format!("it speaks of job {id}, which is not there"))?;
        let gb = |bytes: &Value| bytes.as_f64().map(|bytes| bytes / 1e9);
        let step = |step: &Value| step["from_s"].as_f64().zip(gb(&step["bytes"]));
        let shape = |attempt: &Value| Some(Shape(attempt.as_array()?.iter().filter_map(step).collect()));
        shape::add(&mut segments, &set.traces[at], &attempts.iter().filter_map(shape).collect::<Vec<_>>());
        let flat = said["attempts_bytes"].as_array().context("it says nothing of peaks")?;
        let flat: Vec<Shape> = flat.iter().filter_map(gb).map(Shape::flat).collect();
        shape::add(&mut peaks, &set.traces[at], &flat);
    }
    anyhow::ensure!(segments.jobs == set.set.jobs.len(), "it speaks of {} jobs only", segments.jobs);
    Ok([peaks, segments])
}
