//! Row `advice`: memory wasted by advice and failures of jobs with it, on records of real workflows, beside simple and
//! published rules.
//!
//! The data are not part of the project: a directory with `nfcore-sizey` and `nf-timeseries`, as described in [`data`]. Two
//! protocols: *shuffled*, some runs of each class known and the rest in turn in a published order; and *in the order of
//! time*, with only the runs that had ended when a job was submitted. Waste is memory x time in GB (10^9 bytes) x hours:
//! the last attempt's excess over the peak, and all memory of failed attempts. Advice comes from `pinfold advise replay`,
//! run as by users; its answers are scored here.

mod baselines;
mod cost;
mod data;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use super::{Ground, RowArgs, perform};
use crate::machine::load;
use crate::record::Record;
use crate::stats::{median, percentile};
use crate::table::markdown;

use baselines::{RULES, Score};
use data::Set;

/// Options of row `advice`.
#[derive(Debug, Args)]
pub(crate) struct AdviceArgs {
    #[command(flatten)]
    row: RowArgs,
    /// The directory with `nfcore-sizey` and `nf-timeseries`; missing sets are left out.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

pub(crate) fn run(args: &AdviceArgs) -> anyhow::Result<()> {
    perform("advice", &args.row, |ground, record| {
        let shuffled = data::shuffled(&args.data)?;
        let timed = data::timed(&args.data)?;
        if shuffled.is_empty() && timed.is_empty() {
            bail!("{} has neither nfcore-sizey nor nf-timeseries", args.data.display());
        }
        // The set with the most jobs, and the durations of its replays.
        let (mut largest, mut taken_s) = ((0, String::new()), Vec::new());
        let mut replay = |set: &Set, risk| -> anyhow::Result<Score> {
            let begun = Instant::now();
            let score = advised(ground, set, risk)?;
            let now_s = begun.elapsed().as_secs_f64();
            if set.jobs.len() > largest.0 {
                largest = (set.jobs.len(), set.name.clone());
                taken_s.clear();
            }
            if set.name == largest.1 {
                taken_s.push(now_s);
            }
            Ok(score)
        };
        tell_shuffled(&shuffled, &mut replay, record)?;
        tell_timed(&timed, &mut replay, record)?;
        cost::tell(&timed, record)?;
        let median_s = median(&taken_s).map_or(0.0, |median| median.value);
        let most_s = percentile(&taken_s, 1.0).unwrap_or(0.0);
        record.add(
            "replay",
            &json!({ "set": largest.1, "jobs": largest.0, "taken_s": taken_s, "load": load() }),
        )?;
        record.say(&format!(
            "A replay of the largest set ({}, {} jobs) takes {median_s:.1} s in the median of {} and {most_s:.1} s at most, \
             reading and printing included, at a load of {}.",
            largest.1,
            largest.0,
            taken_s.len(),
            load()
        ));
        Ok(())
    })
}

/// Replays a set by the command line and scores its answers.
fn advised(ground: &Ground, set: &Set, risk: Option<f64>) -> anyhow::Result<Score> {
    let Some(binaries) = &ground.binaries else {
        bail!("pinfold is not built: cargo build --release, or --binaries DIR");
    };
    let mut command = Command::new(&binaries.pinfold);
    command.args(["advise", "replay", "-", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(risk) = risk {
        command.args(["--risk", &risk.to_string()]);
    }
    let mut child = command.spawn().context("failed to start pinfold advise replay")?;
    let mut stdin = child.stdin.take().context("no way to write to it")?;
    // The command reads all input before it prints anything.
    stdin.write_all(set.table().as_bytes()).context("failed to write the table")?;
    drop(stdin);
    let output = child.wait_with_output().context("failed to read from it")?;
    if !output.status.success() {
        bail!("pinfold advise replay ended with {} on {}", output.status, set.name);
    }
    let mut score = Score::default();
    let text = String::from_utf8(output.stdout).context("what it says is no text")?;
    for line in text.lines() {
        let said: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
        let (Some(row), Some(attempts)) = (said["row"].as_u64(), said["attempts_bytes"].as_array()) else {
            continue;
        };
        let job = usize::try_from(row).ok().and_then(|row| set.jobs.get(row.checked_sub(1)?));
        let job = job.with_context(|| format!("it speaks of row {row}, which is not there"))?;
        score.add(job, &attempts.iter().filter_map(|bytes| Some(bytes.as_f64()? / 1e9)).collect::<Vec<_>>());
    }
    Ok(score)
}

type Replay<'a> = dyn FnMut(&Set, Option<f64>) -> anyhow::Result<Score> + 'a;

/// Shuffled: sums over the classes of a workflow, means over the seeds.
fn tell_shuffled(
    workflows: &[data::Workflow],
    replay: &mut Replay<'_>,
    record: &mut Record,
) -> anyhow::Result<()> {
    if workflows.is_empty() {
        return Ok(());
    }
    record.say("Shuffled: GB x hours wasted (attempts that failed), mean of the seeds.\n");
    let mut head = vec!["workflow"];
    head.extend(workflows[0].published.iter().map(|(name, _)| name.as_str()));
    head.push("advised");
    let mut rows = Vec::new();
    for workflow in workflows {
        let seeds = workflow.seeds.len() as f64;
        let (mut waste, mut failures) = (0.0, 0);
        for set in &workflow.seeds {
            let score = replay(set, None)?;
            record.add("shuffled", &json!({ "set": set.name, "score": score }))?;
            waste += score.waste_gbh;
            failures += score.failures;
        }
        let mut row = vec![workflow.name.clone()];
        row.extend(
            workflow.published.iter().map(|(_, (waste, failures))| format!("{waste:.0} ({failures:.0})")),
        );
        row.push(format!("{:.1} ({:.1})", waste / seeds, failures as f64 / seeds));
        rows.push(row);
    }
    record.say(&markdown(&head, &rows));
    Ok(())
}

/// In the order of time: every rule, and the part of the way from request to oracle that advice covers.
fn tell_timed(sets: &[Set], replay: &mut Replay<'_>, record: &mut Record) -> anyhow::Result<()> {
    record.say("In the order of time: GB x hours wasted (share of jobs with a failure); `known`: the oracle's waste; `no better`: rules that waste \
                more and fail no less often than advice.\n");
    let mut head = vec!["records", "jobs"];
    head.extend(RULES.iter().map(|rule| rule.name));
    head.extend(["advised", "known", "closed %", "no better"]);
    let mut rows = Vec::new();
    for set in sets {
        let scores: Vec<Score> = RULES.iter().map(|rule| baselines::score(set, rule)).collect();
        let known = baselines::oracle(set);
        let advised = replay(set, None)?;
        let request = scores.first().map_or(0.0, |score| score.waste_gbh);
        let closed = 100.0 * (request - advised.waste_gbh) / (request - known.waste_gbh);
        let worse = |score: &&Score| {
            score.waste_gbh > advised.waste_gbh && score.failed_share() >= advised.failed_share()
        };
        let dominating = |score: &&Score| {
            score.waste_gbh < advised.waste_gbh && score.failed_share() < advised.failed_share()
        };
        let beaten = scores.iter().filter(worse).count();
        record.add(
            "timed",
            &json!({
                "set": set.name, "advised": advised, "known": known,
                "rules": RULES.iter().map(|rule| rule.name).zip(&scores).collect::<Vec<_>>(),
                "dominated_by": RULES.iter().zip(&scores).filter(|(_, score)| dominating(score))
                    .map(|(rule, _)| rule.name).collect::<Vec<_>>(),
            }),
        )?;
        let mut row = vec![set.name.clone(), advised.jobs.to_string()];
        row.extend(scores.iter().chain([&advised]).map(Score::told));
        row.extend([
            format!("{:.0}", known.waste_gbh),
            format!("{closed:.0}"),
            format!("{beaten} of {}", scores.len()),
        ]);
        rows.push(row);
    }
    record.say(&markdown(&head, &rows));
    Ok(())
}

/// Reads a compressed file of comma-separated values that has no quotation marks.
fn read(path: &Path) -> anyhow::Result<String> {
    let file = std::fs::File::open(path).with_context(|| format!("failed to open {}", path.display()))?;
    let mut text = String::new();
    let plain = path.extension().is_none_or(|ending| ending != "gz");
    let done = if plain {
        std::io::Read::read_to_string(&mut std::io::BufReader::new(file), &mut text)
    } else {
        std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(file), &mut text)
    };
    done.with_context(|| format!("failed to read {}", path.display()))?;
    Ok(text)
}
