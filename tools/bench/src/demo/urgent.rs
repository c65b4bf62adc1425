//! Act 3: an urgent job while a list runs: its time alone, beside a list by hand, and beside pinfold's.
//!
//! The urgent job computes on a single core. By hand it is started beside the list, which is the best possible without
//! changing the list; under pinfold it is submitted with a higher priority.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use pinfold_profile::plot::{BarChart, Level};
use serde_json::json;

use super::{Picture, heading, note};
use crate::compare::done;
use crate::programs::sized::small;
use crate::record::Record;
use crate::row::Ground;
use crate::row::waits::{calibrate, whole};
use crate::stats::median;
use crate::table;
use crate::watch::Watch;
use crate::way::{Batch, Ready, Way};
use crate::workload::{Job, quote, stage};

/// The urgent job's approximate time alone, seconds.
const URGENT_S: f64 = 2.5;

/// Runs of the urgent job by each way.
const TIMES: usize = 3;

/// Jobs of the list for each core: more than can end meanwhile.
const LIST_PER_CORE: usize = 60;

/// The longest time for the list to fill its slots.
const PATIENCE: Duration = Duration::from_secs(20);

/// The urgent job's times by a way, seconds.
type Times = (String, Vec<f64>);

/// Plays the act.
pub(super) fn play(ground: &Ground, record: &mut Record) -> anyhow::Result<Option<Picture>> {
    heading(record, "3. An urgent job in between");
    let bench = ground.bench(f64::INFINITY);
    let load = std::env::current_exe()?.with_file_name("pinfold-load");
    let turns = whole(calibrate(&load, ground.solo_pu()?)? * URGENT_S);
    let urgent =
        vec![load.to_string_lossy().into_owned(), "--bursts=1".to_owned(), format!("--turns={turns}")];
    let inputs = tempfile::Builder::new().prefix("inputs-").tempdir_in(bench.scratch)?;
    let jobs = list(inputs.path(), LIST_PER_CORE * ground.cores(), turns, &load)?;
    let cores = ground.cores();
    let mut times: Vec<Times> = vec![("Alone".to_owned(), alone(ground, &urgent)?)];
    let ways = [
        (format!("Beside a list, one per core ({cores})"), Way::Native { slots: cores }),
        (format!("Beside a list, twice as many ({})", 2 * cores), Way::Native { slots: 2 * cores }),
        (format!("Beside pinfold's list of {}, --priority 16", 2 * cores), Way::Pinfold { factor: 2.0 }),
    ];
    for (name, way) in ways {
        if let Some(why) = way.missing(bench.binaries) {
            note(record, &format!("\"{name}\" is left out: {why}."));
            continue;
        }
        let taken = beside(ground, way, &jobs, &urgent).with_context(|| format!("failed: {name}"))?;
        times.push((name, taken));
    }
    tell(record, &times)?;
    Ok(Some(Picture::Bars(chart(&times))))
}

/// Small real programs, as far as they are installed, else jobs that compute.
fn list(inputs: &Path, count: usize, turns: u64, load: &Path) -> anyhow::Result<Vec<Job>> {
    let mix = small(inputs, count)?;
    if !mix.jobs.is_empty() {
        return Ok(mix.jobs);
    }
    let job = |number: usize| Job {
        name: format!("load-{number}"),
        class: "load".to_owned(),
        script: format!("{} --bursts 1 --turns {}\n", quote(load), turns / 2),
        outputs: Vec::new(),
    };
    Ok((1..=count).map(job).collect())
}

/// The urgent job with nothing beside it.
fn alone(ground: &Ground, urgent: &[String]) -> anyhow::Result<Vec<f64>> {
    (0..TIMES).map(|_| timed(ground, &mut direct(urgent))).collect()
}

fn direct(urgent: &[String]) -> Command {
    let mut command = Command::new(&urgent[0]);
    command.args(&urgent[1..]);
    command
}

/// The duration of `command`, seconds.
fn timed(ground: &Ground, command: &mut Command) -> anyhow::Result<f64> {
    ensure!(!ground.interrupted(), "interrupted");
    let started = Instant::now();
    let output = command.stdin(Stdio::null()).output().context("failed to run the urgent job")?;
    ensure!(
        output.status.success(),
        "the urgent job ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(started.elapsed().as_secs_f64())
}

/// The urgent job while `jobs` run by a `way`. The list is ended afterwards, without a look at its results.
fn beside(ground: &Ground, way: Way, jobs: &[Job], urgent: &[String]) -> anyhow::Result<Vec<f64>> {
    let bench = ground.bench(f64::INFINITY);
    let directory = tempfile::Builder::new().prefix("list-").tempdir_in(bench.scratch)?;
    let journal = directory.path().join("journal");
    let staged = jobs.iter().map(|job| stage(job, directory.path(), &journal, None));
    let lines = staged.map(|staged| Ok(staged?.line)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut watch = Watch::start(&journal)?;
    let over = AtomicBool::new(false);
    let batch = Batch { lines: &lines, scratch: directory.path(), group: None, state: None, give_up: &over };
    let ready = way.prepare(&batch, bench.binaries)?;
    let taken = std::thread::scope(|scope| {
        let list = scope.spawn(|| ready.run(&batch));
        let taken = between(ground, &ready, &mut watch, way, urgent);
        let ended = list.is_finished();
        over.store(true, Ordering::Relaxed);
        ready.give_up();
        // It was ended early, so its report is meaningless.
        let _report = list.join();
        ensure!(taken.is_err() || !ended, "the list was over before the urgent jobs were");
        taken
    });
    let left = ready.finish()?;
    ensure!(left.is_empty(), "cgroups were left behind: {left:?}");
    taken
}

/// Waits until the list has filled its slots, then runs the urgent job a few times in turn.
fn between(
    ground: &Ground,
    ready: &Ready,
    watch: &mut Watch,
    way: Way,
    urgent: &[String],
) -> anyhow::Result<Vec<f64>> {
    let slots = match way {
        Way::Native { slots } => slots,
        _ => 2 * ground.cores(),
    };
    let deadline = Instant::now() + PATIENCE;
    while watch.running().count() < slots && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        watch.tick()?;
    }
    (0..TIMES)
        .map(|turn| {
            done(&format!("  {way}: urgent job {} of {TIMES}", turn + 1));
            match ready.command() {
                None => timed(ground, &mut direct(urgent)),
                Some(mut command) => {
                    timed(ground, command.args(["run", "--priority", "16", "--"]).args(urgent))
                }
            }
        })
        .collect()
}

fn tell(record: &mut Record, times: &[Times]) -> anyhow::Result<()> {
    let alone_s = times.first().and_then(|(_, times)| median(times)).map_or(f64::NAN, |median| median.value);
    record.say(&format!(
        "A job that computes on one core, {TIMES} times each way, while real programs run. Seconds from asking for it \
         until it was over.\n"
    ));
    let mut rows = Vec::new();
    for (name, taken) in times {
        record.add("urgent", &json!({ "way": name, "seconds": taken }))?;
        let Some(middle) = median(taken) else { continue };
        let (least, most) = ends(taken);
        rows.push(vec![
            name.clone(),
            format!("{:.1}", middle.value),
            format!("{least:.1} to {most:.1}"),
            format!("{:.2}", middle.value / alone_s),
        ]);
    }
    record.say(&table::markdown(&["the urgent job", "median s", "from, to s", "times alone"], &rows));
    Ok(())
}

fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0), |(least, most), &value| (value.min(least), value.max(most)))
}

fn chart(times: &[Times]) -> BarChart {
    let bar = |(name, taken): &Times| {
        let (least, most) = ends(taken);
        Some(Level {
            name: name.clone(),
            value: median(taken)?.value,
            told: format!("{least:.1} to {most:.1} s"),
            strong: name.contains("pinfold"),
        })
    };
    BarChart {
        title: "How long an urgent job takes".to_owned(),
        unit: "s".to_owned(),
        bars: times.iter().filter_map(bar).collect(),
        below: format!("medians of {TIMES} runs of a job that computes on one core"),
    }
}
