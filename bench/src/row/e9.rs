//! Row `e9`: what advice on memory wastes and how often jobs fail with it, on records of real workflows, beside
//! simple rules and published ones.
//!
//! The data are not part of the project: a directory with `nfcore-sizey` and `nf-timeseries`, as described in
//! [`data`]. Two protocols: *shuffled*, some runs of each class known and the rest one by one in a published order;
//! and *in the order of time*, only with what had ended when a job was submitted. Waste is memory x time in GB (10^9
//! bytes) x hours: what the last attempt held beyond the peak, and all that failed ones held. For sets with samples
//! there is a third table, of memory over time ([`over_time`]). Advice comes from `pinfold advise replay`, run as
//! anyone runs it; what it says is scored here.

mod baselines;
mod cost;
mod data;
mod ks;
mod over_time;
mod shape;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use pinfold_profile::plot::{Across, Chart, Panel, Series, Style};
use serde_json::{Value, json};

use super::{Ground, RowArgs, perform};
use crate::machine::load;
use crate::record::Record;
use crate::stats::{median, percentile};
use crate::table::markdown;

use baselines::{RULES, Score};
use data::Set;

/// Risks that the frontier is made of.
const RISKS: [f64; 5] = [0.3, 0.1, 0.03, 0.01, 0.003];

/// Width and height of the picture, in pixels.
const SIZE: (u32, u32) = (1_000, 1_600);

/// How long a point is drawn, in percent of the jobs.
const DASH: f64 = 0.4;

/// Options of row `e9`.
#[derive(Debug, Args)]
pub(crate) struct E9Args {
    #[command(flatten)]
    row: RowArgs,
    /// The directory with `nfcore-sizey` and `nf-timeseries`; what is not there is left out.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The table of memory over time alone, and what segments cost.
    #[arg(long, conflicts_with = "picture")]
    over_time: bool,
    /// Draw waste against failures, a panel a set.
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    picture: Option<PathBuf>,
}

pub(crate) fn run(args: &E9Args) -> anyhow::Result<()> {
    perform("e9", &args.row, |ground, record| {
        if args.over_time {
            let traced = data::traced(&args.data)?;
            over_time::tell(&traced, ground, record)?;
            return cost::tell_over_time(&traced, record);
        }
        let shuffled = data::shuffled(&args.data)?;
        let timed = data::timed(&args.data)?;
        let traced = data::traced(&args.data)?;
        if shuffled.is_empty() && timed.is_empty() {
            bail!("{} has neither nfcore-sizey nor nf-timeseries", args.data.display());
        }
        // Of the set with the most jobs, and how long each of its replays took.
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
        let panels = tell_timed(&timed, &mut replay, record)?;
        over_time::tell(&traced, ground, record)?;
        cost::tell(&timed, record)?;
        cost::tell_over_time(&traced, record)?;
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
        if let Some(file) = &args.picture {
            let (chart, (width, height)) = (chart(panels), SIZE);
            let bytes = match file.extension().and_then(|ending| ending.to_str()) {
                Some("png") => chart.to_png(width, height).context("failed to draw")?,
                _ => chart.to_svg(width, height).into_bytes(),
            };
            std::fs::write(file, bytes).with_context(|| format!("failed to write {}", file.display()))?;
        }
        Ok(())
    })
}

/// Replays a set by the command line and scores what it says.
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
    // It reads all before it prints anything.
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

/// In the order of time: every rule, and what part of the way from request to oracle advice goes; gives the panels.
fn tell_timed(sets: &[Set], replay: &mut Replay<'_>, record: &mut Record) -> anyhow::Result<Vec<Panel>> {
    record.say("In the order of time: GB x hours wasted (share of jobs with a failure); `known`: the oracle's waste; `no better`: rules that waste \
                more and fail no less often than advice.\n");
    let mut head = vec!["records", "jobs"];
    head.extend(RULES.iter().map(|rule| rule.name));
    head.extend(["advised", "known", "closed %", "no better"]);
    let (mut rows, mut panels) = (Vec::new(), Vec::new());
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
        panels.push(panel(set, &known, &scores, replay)?);
    }
    record.say(&markdown(&head, &rows));
    Ok(panels)
}

/// A set's panel: the frontier of advice by its risk, and two rules; each point begins a short line.
fn panel(set: &Set, known: &Score, scores: &[Score], replay: &mut Replay<'_>) -> anyhow::Result<Panel> {
    let at = |score: &Score| (100.0 * score.failed_share(), score.waste_gbh);
    let dash = |(x, y): (f64, f64)| (x + DASH, y);
    let mut frontier = Vec::new();
    for risk in RISKS {
        frontier.push(at(&replay(set, Some(risk))?));
    }
    frontier.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    frontier.extend(frontier.last().copied().map(dash));
    let series = |name: &str, points| Series { name: name.to_owned(), points, style: Style::Line };
    let mut all = vec![series("advised, by risk", frontier)];
    for (rule, score) in RULES.iter().zip(scores).filter(|(rule, _)| rule.name.starts_with("max")) {
        all.push(series(rule.name, vec![at(score), dash(at(score))]));
    }
    let marks = vec![(known.waste_gbh, "oracle".to_owned())];
    Ok(Panel {
        title: format!("{}: waste", set.name),
        unit: "GB h".into(),
        series: all,
        marks,
        ..Panel::default()
    })
}

fn chart(panels: Vec<Panel>) -> Chart {
    Chart {
        title: "Waste against failures, in the order of time".to_owned(),
        panels,
        across: Some(Across { title: "jobs with a failure".to_owned(), unit: "%".to_owned() }),
        ..Chart::default()
    }
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
