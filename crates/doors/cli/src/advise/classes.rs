//! From runs to the requests that their classes should make (memory, cores and length), and the savings.
//!
//! A class is a user's jobs of one name and number of cores: a user's needs say nothing of other users. Savings are
//! found by replay: each run is advised only from runs that had ended at its submission. Absent: estimates of memory
//! ([`pinfold_advise`]), and words for people ([`super::text`]).

use std::collections::BTreeMap;

use pinfold_advise::{Ended, Features, Row, Verdict, answer, bound};
use pinfold_profile::report::total;
use serde::Serialize;

use super::history::{Outcome, Run};
use super::numbers::{Number, Places};
use super::replay::{self, RUNS_MIN};
use super::table::{Job, Table};

/// A length is advised with this risk at most: a job that outlives its limit loses all of its work.
const WALL_RISK: f64 = 0.01;
/// A core counts as busy from this part on.
const BUSY: f64 = 0.1;

/// A class, as JSON has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ClassView {
    pub(super) class: String,
    pub(super) user: String,
    /// Cores that its jobs ask for.
    pub(super) cores: u32,
    /// Runs that ended well: the basis of advice.
    pub(super) jobs: usize,
    /// Runs that did not.
    pub(super) failed: usize,
    /// Failed runs that reached their memory limit.
    pub(super) failed_at_limit: usize,
    /// The size of the files that its commands named, of half of its runs at most; `null`: not known of all of them.
    pub(super) input_p50_bytes: Option<u64>,
    /// The request of its last run.
    pub(super) requested_bytes: Option<u64>,
    pub(super) peak_p50_bytes: Option<u64>,
    pub(super) peak_p99_bytes: Option<u64>,
    /// `null`: the history cannot say.
    pub(super) advised_bytes: Option<u64>,
    /// The expected probability that the next run needs more.
    pub(super) risk: Option<f64>,
    /// The 95 % interval of the share of earlier runs that needed more than was advised for them.
    pub(super) risk_interval: Option<(f64, f64)>,
    /// The savings of advice against the requests, in GB x hours; below 0: advice would have cost more.
    pub(super) saved_gbh: f64,
    /// The same as a share of all requests by the shown classes.
    pub(super) saved_share: Option<f64>,
    pub(super) requested_gbh: f64,
    pub(super) wall_p50_s: Option<f64>,
    pub(super) wall_advised_s: Option<f64>,
    pub(super) cores_advised: u32,
    /// Core hours of cores that were never busy.
    pub(super) saved_core_h: f64,
    /// When its last run ended, in Unix seconds.
    pub(super) last_s: f64,
    pub(super) verdict: Verdict,
    pub(super) why: String,
}

/// The known features of the job that advice is for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Next<'a> {
    /// The size of its inputs.
    pub(super) input_bytes: Option<u64>,
    /// The numbers that its command names.
    pub(super) numbers: &'a [Number],
}

/// The classes of `runs` with their advice, in descending order of savings. The runs stand in the order of submission.
/// `risk`: see [`pinfold_advise::Settings`].
pub(super) fn classes(runs: &[Run], risk: Option<f64>, next: Next<'_>) -> Result<Vec<ClassView>, String> {
    let views = by_class(runs).into_values().map(|runs| class(&runs, risk, next));
    let mut views = views.collect::<Result<Vec<_>, _>>()?;
    let requested_gbh = total(views.iter().map(|view| view.requested_gbh));
    for view in &mut views {
        view.saved_share = (requested_gbh > 0.0).then(|| view.saved_gbh / requested_gbh);
    }
    // Equal classes stay in the order of their names.
    views.sort_by(|a, b| b.saved_gbh.total_cmp(&a.saved_gbh));
    Ok(views)
}

/// The runs of each class, in their order.
pub(super) fn by_class(runs: &[Run]) -> BTreeMap<(&str, &str, u32), Vec<&Run>> {
    let mut classes: BTreeMap<(&str, &str, u32), Vec<&Run>> = BTreeMap::new();
    for run in runs {
        classes.entry(run.key()).or_default().push(run);
    }
    classes
}

/// The runs that advice goes by: they ended well, and their peaks are known.
pub(super) fn ended_well<'a>(runs: &[&'a Run]) -> Vec<&'a Run> {
    runs.iter().copied().filter(|run| run.outcome == Outcome::Done && run.peak_bytes > 0).collect()
}

/// A class with at least a single run.
fn class(runs: &[&Run], risk: Option<f64>, next: Next<'_>) -> Result<ClassView, String> {
    let done = ended_well(runs);
    let Some(last) = runs.last() else { return Err("a class without runs".to_owned()) };
    let peaks: Vec<f64> = done.iter().map(|run| run.peak_bytes as f64).collect();
    let walls: Vec<f64> = done.iter().map(|run| run.wall_s).collect();
    let inputs: Option<Vec<f64>> = done.iter().map(|run| Some(run.input_bytes? as f64)).collect();
    let enough = done.len() >= RUNS_MIN;
    let cores_advised = cores(&done).unwrap_or(last.cores);
    let hours: f64 = walls.iter().sum::<f64>() / 3600.0;
    let asked = asked(&done, risk)?;
    let mut view = ClassView {
        class: last.class.clone(),
        user: last.user.clone(),
        cores: last.cores,
        jobs: done.len(),
        failed: runs.iter().filter(|run| run.outcome != Outcome::Done).count(),
        failed_at_limit: runs.iter().filter(|run| run.outcome == Outcome::Short).count(),
        input_p50_bytes: inputs.as_deref().and_then(|inputs| nearest(inputs, 0.5)).map(whole),
        requested_bytes: last.request_bytes,
        peak_p50_bytes: nearest(&peaks, 0.5).map(whole),
        peak_p99_bytes: nearest(&peaks, 0.99).map(whole),
        advised_bytes: None,
        risk: None,
        risk_interval: None,
        saved_gbh: total(asked.iter().map(|asked| asked.saved_gbh)),
        saved_share: None,
        requested_gbh: total(asked.iter().map(|asked| asked.requested_gbh)),
        wall_p50_s: nearest(&walls, 0.5),
        wall_advised_s: bound(&walls, risk.unwrap_or(WALL_RISK).min(WALL_RISK)).filter(|_| enough),
        cores_advised,
        saved_core_h: f64::from(last.cores - cores_advised) * hours,
        last_s: runs.iter().map(|run| run.ended_s).fold(0.0, f64::max),
        verdict: Verdict::Unknown,
        why: String::new(),
    };
    let learned = memory(runs, (risk, next), &mut view);
    view.why = super::text::why(&view, learned.as_deref());
    Ok(view)
}

/// Fills in the memory to ask for; gives the estimate's own reason.
fn memory(runs: &[&Run], (risk, next): (Option<f64>, Next<'_>), view: &mut ClassView) -> Option<String> {
    let done = ended_well(runs);
    let places = places(&done);
    let ended = |run: &&Run| {
        let well = run.outcome == Outcome::Done;
        Ended { well, at_s: run.ended_s, row: row(run, &places) }
    };
    let features = Features {
        input_bytes: next.input_bytes.map(|bytes| bytes as f64),
        numbers: places.values(next.numbers),
    };
    let advice = answer(&runs.iter().map(ended).collect::<Vec<_>>(), &features, risk)?;
    let short = runs.iter().filter(|run| run.outcome == Outcome::Short).map(|run| run.peak_bytes).max();
    if short.is_some_and(|held| held > advice.bytes) {
        return None;
    }
    view.advised_bytes = Some(advice.bytes);
    view.risk = Some(advice.risk);
    view.risk_interval = Some(advice.interval);
    view.verdict = match advice.verdict(view.requested_bytes) {
        // A run that failed at its limit needed more, though no run that ended well held more.
        Verdict::Fits if short.is_some() && view.requested_bytes < Some(advice.bytes) => Verdict::TooLittle,
        verdict => verdict,
    };
    Some(advice.why)
}

/// The cost of a run that asked for memory, in GB x hours.
pub(super) struct Asked<'a> {
    pub(super) run: &'a Run,
    pub(super) requested_gbh: f64,
    /// Its peak for as long as it ran.
    pub(super) used_gbh: f64,
    /// The saving, had the run asked for the memory that was advised at its submission.
    pub(super) saved_gbh: f64,
}

/// Replays the runs of a class that asked for memory, each with the knowledge at its submission.
pub(super) fn asked<'a>(done: &[&'a Run], risk: Option<f64>) -> Result<Vec<Asked<'a>>, String> {
    let places = places(done);
    let (mut jobs, mut asked) = (Vec::new(), Vec::new());
    for &run in done {
        let Some(request) = run.request_bytes else { continue };
        let (row, times) = (row(run, &places), Some((run.submitted_s, run.ended_s)));
        let saved_gbh = replay::waste_gbh(&row, &replay::doubled(request, run.peak_bytes));
        let gbh = |bytes: u64| bytes as f64 / 1e9 * run.wall_s / 3600.0;
        asked.push(Asked { run, requested_gbh: gbh(request), used_gbh: gbh(run.peak_bytes), saved_gbh });
        jobs.push(Job { line: jobs.len(), class: 0, times, train: false, request_bytes: Some(request), row });
    }
    let table = Table { jobs, classes: vec![String::new()] };
    replay::replay(&table, replay::Asked { risk, ..replay::Asked::default() }, |scored| {
        asked[scored.row].saved_gbh -= replay::waste_gbh(&table.jobs[scored.row].row, &scored.attempts_bytes);
        Ok(())
    })?;
    Ok(asked)
}

fn places(done: &[&Run]) -> Places {
    Places::of(done.iter().map(|run| run.numbers.as_slice()))
}

fn row(run: &Run, places: &Places) -> Row {
    let input_bytes = run.input_bytes.map(|bytes| bytes as f64);
    let numbers = places.values(&run.numbers);
    Row { features: Features { input_bytes, numbers }, peak_bytes: run.peak_bytes, wall_s: run.wall_s }
}

/// The cores to ask for: all but cores that no sampled run kept busy. `None`: as many as now.
fn cores(done: &[&Run]) -> Option<u32> {
    let asked = done.last()?.cores;
    let peaks: Vec<f64> = done.iter().filter_map(|run| run.cores_peak).collect();
    if peaks.len() < RUNS_MIN {
        return None;
    }
    let means = done.iter().map(|run| run.cores_mean);
    let busy = peaks.into_iter().chain(means).filter(|cores| cores.is_finite()).fold(0.0, f64::max);
    (1..asked).find(|&cores| busy <= f64::from(cores) + BUSY)
}

/// The value that `share` of all values do not exceed (nearest rank).
fn nearest(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = whole(sorted.len() as f64 * share).max(1);
    sorted.get(usize::try_from(rank).ok()? - 1).copied()
}

/// Whole units, rounded up.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
pub(super) fn whole(value: f64) -> u64 {
    value.ceil() as u64
}

#[cfg(test)]
#[path = "classes_tests.rs"]
mod tests;
