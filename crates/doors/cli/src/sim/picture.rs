//! A picture of a run: which job was on which host and core, and their memory over time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

use pinfold_cluster::{Micros, SECOND};
use pinfold_profile::plot::{Bar, Chart, Gantt, Panel, Series, Style, Unit};
use pinfold_proto::ExitCode;
use pinfold_whatif::play::Outcome;

use super::input::Loaded;
use crate::show::Picture;
use pinfold_client::Failure;

/// The picture, in pixels.
const SIZE: (u32, u32) = (1400, 900);
/// A host has at least this many rows, if it has as many cores: idle cores are seen as well.
const IDLE_ROWS_MAX: usize = 4096;
/// The most distinct jobs in a picture, a job on several hosts being several.
const JOBS_MAX: usize = 50_000;
/// The most bars of a picture, each a core of a job: some 40 MB of SVG.
const BARS_MAX: u64 = 500_000;

/// Draws a run.
pub(super) fn write(
    file: &Path,
    kind: &Picture,
    title: &str,
    loaded: &Loaded,
    outcome: &Outcome,
) -> Result<(), Failure> {
    let jobs: usize = outcome.played.parts.iter().map(|parts| parts.len()).sum();
    if jobs > JOBS_MAX {
        let text = format!("{jobs} jobs and parts of jobs in one picture: up to {JOBS_MAX} can be drawn");
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let bars: u64 = outcome
        .played
        .parts
        .iter()
        .flat_map(|parts| parts.iter())
        .map(|part| u64::from(part.processors))
        .sum();
    if bars > BARS_MAX {
        let text =
            format!("{jobs} jobs on {bars} cores, added up, in one picture: up to {BARS_MAX} can be drawn");
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let gantt = gantt(title, loaded, outcome);
    let bytes = match kind {
        Picture::Svg => gantt.to_svg(SIZE.0, SIZE.1).into_bytes(),
        Picture::Png => gantt
            .to_png(SIZE.0, SIZE.1)
            .map_err(|error| Failure::doing(format!("failed to draw {}", file.display()), &error))?,
    };
    crate::output::write(file, &bytes)
        .map_err(|error| Failure::doing(format!("failed to write {}", file.display()), &error))
}

fn seconds(us: Micros, begin_us: Micros) -> f64 {
    us.saturating_sub(begin_us) as f64 / SECOND as f64
}

fn gantt(title: &str, loaded: &Loaded, outcome: &Outcome) -> Gantt {
    let spans = &outcome.played.spans;
    let begin_us = spans.iter().map(|span| span.submit_us).min().unwrap_or(0);
    // The jobs on each host, by their start.
    let mut stays: BTreeMap<u32, Vec<(Micros, Micros, usize, u32)>> = BTreeMap::new();
    for (index, (span, parts)) in spans.iter().zip(&outcome.played.parts).enumerate() {
        for part in parts.iter() {
            let stay = (span.start_us, span.end_us, index, part.processors);
            stays.entry(part.host).or_default().push(stay);
        }
    }
    let mut groups = Vec::new();
    for (host, mut stays) in stays {
        stays.sort_unstable();
        groups.push((format!("{host}"), rows(&stays, loaded, begin_us)));
    }
    let mut panels =
        vec![panel("cores in use", Unit::from(""), vec![("cores", in_use(loaded, outcome, begin_us))])];
    if !outcome.held.is_empty() {
        let of = |resident: bool| held(outcome, begin_us, resident);
        panels.push(panel("memory", Unit::Bytes, vec![("in RAM", of(true)), ("in swap", of(false))]));
    }
    Gantt {
        groups,
        below: Chart {
            title: format!("pinfold sim: {title}; above, hosts with a row for each core"),
            panels,
            ..Chart::default()
        },
    }
}

fn panel(title: &str, unit: Unit, series: Vec<(&str, Vec<(f64, f64)>)>) -> Panel {
    let series =
        series.into_iter().map(|(name, points)| Series { name: name.to_owned(), points, style: Style::Line });
    Panel { title: title.to_owned(), unit, series: series.collect(), ..Panel::default() }
}

/// A row for each core, and more for jobs that were there beyond them. A job takes the lowest rows that are free.
fn rows(stays: &[(Micros, Micros, usize, u32)], loaded: &Loaded, begin_us: Micros) -> Vec<Vec<Bar>> {
    // A row is made when needed: a log's pool may have more cores than memory holds rows.
    let mut rows: Vec<Vec<Bar>> = Vec::new();
    let mut free: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    let mut taken: BinaryHeap<Reverse<(Micros, usize)>> = BinaryHeap::new();
    for &(start_us, end_us, index, processors) in stays {
        while let Some(&Reverse((until_us, row))) = taken.peek()
            && until_us <= start_us
        {
            taken.pop();
            free.push(Reverse(row));
        }
        for _ in 0..processors {
            let row = free.pop().map_or(rows.len(), |Reverse(row)| row);
            if row == rows.len() {
                rows.push(Vec::new());
            }
            taken.push(Reverse((end_us, row)));
            rows[row].push(Bar {
                from_s: seconds(start_us, begin_us),
                to_s: seconds(end_us, begin_us),
                name: loaded.jobs[index].number.to_string(),
                colour: index,
            });
        }
    }
    let cores = (loaded.fleet.cores as usize).min(IDLE_ROWS_MAX);
    rows.resize(rows.len().max(cores), Vec::new());
    rows
}

/// How many cores jobs asked for that had started, over time.
fn in_use(loaded: &Loaded, outcome: &Outcome, begin_us: Micros) -> Vec<(f64, f64)> {
    let mut changes: BTreeMap<Micros, i64> = BTreeMap::new();
    for (job, span) in loaded.jobs.iter().zip(&outcome.played.spans) {
        *changes.entry(span.start_us).or_default() += i64::from(job.processors);
        *changes.entry(span.end_us).or_default() -= i64::from(job.processors);
    }
    steps(changes.into_iter().map(|(at_us, change)| (at_us, i128::from(change))), begin_us)
}

/// The memory of all hosts' jobs over time.
fn held(outcome: &Outcome, begin_us: Micros, resident: bool) -> Vec<(f64, f64)> {
    let mut changes: BTreeMap<Micros, i128> = BTreeMap::new();
    for host in &outcome.held {
        let mut before = 0;
        for held in host {
            let now = i128::from(if resident { held.resident } else { held.swapped });
            *changes.entry(held.at_us).or_default() += now - before;
            before = now;
        }
    }
    steps(changes.into_iter(), begin_us)
}

/// Sums of changes, each with the sum before it, so that lines between them are steps.
fn steps(changes: impl Iterator<Item = (Micros, i128)>, begin_us: Micros) -> Vec<(f64, f64)> {
    let (mut sum, mut points) = (0, Vec::new());
    for (at_us, change) in changes {
        let at_s = seconds(at_us, begin_us);
        points.push((at_s, sum as f64));
        sum += change;
        points.push((at_s, sum as f64));
    }
    points
}
