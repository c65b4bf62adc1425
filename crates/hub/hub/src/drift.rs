//! Whether a class drifts: its memory and wall time by week, and whether the last weeks differ from earlier weeks.
//! Advice judges memory too: by the last jobs that needed more than earlier jobs had advised. Absent here: pages.

use std::collections::BTreeMap;

use pinfold_advise::{Features, Learner, Order, Row, Settings};
use pinfold_profile::report::{duration, size};
use serde_json::{Value, json};

use crate::store::{ClassRow, ClassRun, JobQuery, LAST_WEEKS, Spread, Store, StoreError};
use crate::weekly::Week;
use crate::workflow::steps::{Change, Figure, RUNS_MIN, beside};

/// Weeks that the last weeks are compared with.
const WEEKS_BEFORE: usize = 12;

/// The fewest jobs for a meaningful median of a week.
const JOBS_MIN: u64 = 3;

/// The most versions shown, the last by arrival.
const VERSIONS_MAX: usize = 10;

/// The report of a class by week.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Weeks with jobs, the oldest first.
    pub weeks: Vec<(Week, ClassRow)>,
    /// By host, the most jobs first.
    pub hosts: Vec<ClassRow>,
    /// Whether there are more hosts.
    pub more_hosts: bool,
    /// By the version that runs of workflows name, in order of arrival.
    pub versions: Vec<Version>,
    /// The median of memory in the last weeks beside the weeks before.
    pub memory: Figure,
    /// The median of wall time, in the same comparison.
    pub wall: Figure,
    /// Drift by the record of advice.
    pub advice: pinfold_advise::Drift,
    /// Number of earlier weeks compared with.
    pub before: usize,
    /// Number of last jobs read singly.
    pub runs: usize,
}

/// Jobs of a version among the last jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// The version; `None`: the runs name no version, or the jobs have no run.
    pub version: Option<String>,
    /// Number of jobs.
    pub jobs: usize,
    /// Median of peak memory, in bytes.
    pub peak_p50_bytes: f64,
    /// Median of wall time, in seconds.
    pub wall_p50_s: f64,
}

/// The report about the query's jobs as a class.
///
/// # Errors
/// When the database refuses, or the time limit is reached.
pub fn report(store: &Store, query: &JobQuery) -> Result<Report, StoreError> {
    let found = store.class_weeks(query)?;
    let earlier = &found.weeks[..found.weeks.len().saturating_sub(LAST_WEEKS)];
    let known: Vec<&ClassRow> = earlier
        .iter()
        .rev()
        .map(|(_, row)| row)
        .filter(|row| row.jobs >= JOBS_MIN)
        .take(WEEKS_BEFORE)
        .collect();
    let last = found.last.as_ref().filter(|last| last.jobs >= JOBS_MIN);
    let figure = |of: fn(&ClassRow) -> f64| beside(last.map(of), known.iter().map(|row| of(row)).collect());
    Ok(Report {
        memory: figure(|row| row.memory_peak_bytes.p50),
        wall: figure(|row| row.wall_s.p50),
        advice: advice(&found.runs),
        before: known.len(),
        versions: versions(&found.runs),
        runs: found.runs.len(),
        weeks: found.weeks.into_iter().map(|(begin_us, row)| (Week::of(begin_us), row)).collect(),
        hosts: found.hosts,
        more_hosts: found.more_hosts,
    })
}

/// The record of advice over the last jobs.
fn advice(runs: &[ClassRun]) -> pinfold_advise::Drift {
    let mut learner = Learner::new(Settings::of(Order::Time));
    for run in runs {
        learner.observe(&Row {
            features: Features::default(),
            peak_bytes: run.peak_bytes,
            wall_s: run.wall_s,
        });
    }
    learner.drift()
}

/// The last versions in order of arrival; empty if no run names a version.
fn versions(runs: &[ClassRun]) -> Vec<Version> {
    let mut of: BTreeMap<Option<&str>, (usize, Vec<&ClassRun>)> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        of.entry(run.version.as_deref()).or_insert((at, Vec::new())).1.push(run);
    }
    if of.keys().all(Option::is_none) {
        return Vec::new();
    }
    let mut found: Vec<(usize, Version)> = of
        .into_iter()
        .map(|(version, (first, runs))| {
            let middle = |of: fn(&ClassRun) -> f64| {
                beside(None, runs.iter().map(|run| of(run)).collect()).before.map_or(0.0, |all| all.middle)
            };
            let version = Version {
                version: version.map(str::to_owned),
                jobs: runs.len(),
                peak_p50_bytes: middle(|run| precise(run.peak_bytes)),
                wall_p50_s: middle(|run| run.wall_s),
            };
            (first, version)
        })
        .collect();
    found.sort_by_key(|(first, _)| *first);
    found.drain(..found.len().saturating_sub(VERSIONS_MAX));
    found.into_iter().map(|(_, version)| version).collect()
}

#[expect(clippy::cast_precision_loss, reason = "15 digits of a size are enough")]
fn precise(bytes: u64) -> f64 {
    bytes as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes are not below 0")]
fn bytes(value: f64) -> String {
    size(value as u64)
}

impl Report {
    /// In plain words, a sentence or two each: memory, wall time, advice.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        vec![
            self.sentence("Memory peak", &self.memory, bytes),
            self.sentence("Wall time", &self.wall, duration),
            self.advised(),
        ]
    }

    fn sentence(&self, what: &str, figure: &Figure, told: fn(f64) -> String) -> String {
        let weeks = format!("the last {LAST_WEEKS} weeks with jobs");
        let Some((now, before)) = figure.now.zip(figure.before) else {
            return format!(
                "{what}: not known. It needs {JOBS_MIN} jobs in {weeks}, and {RUNS_MIN} earlier weeks with as many."
            );
        };
        let figures = format!(
            "Median {}; in {} weeks before {}, from {} to {}.",
            told(now),
            self.before,
            told(before.middle),
            told(before.low),
            told(before.high)
        );
        match figure.change {
            Change::TooFew => {
                format!("{what}: not known. It needs {RUNS_MIN} earlier weeks with {JOBS_MIN} jobs each.")
            }
            Change::Within => format!("{what}: as before in {weeks}. {figures}"),
            Change::More => format!("{what}: more than before in {weeks}. {figures}"),
            Change::Less => format!("{what}: less than before in {weeks}. {figures}"),
        }
    }

    fn advised(&self) -> String {
        let pinfold_advise::Drift { missed, of, drifts } = self.advice;
        if of == 0 {
            return "Advice: not known. It needs 3 jobs that ended well.".to_owned();
        }
        let verdict = if drifts { "the class drifts" } else { "the class does not drift" };
        format!(
            "Advice: {verdict}. Of the last {of} jobs {missed} needed more than what those before them advised."
        )
    }
}

/// The report as JSON for programs.
#[must_use]
pub fn json(report: &Report) -> Value {
    let figure = |figure: &Figure| {
        let before = figure
            .before
            .map(|before| json!({ "low": before.low, "middle": before.middle, "high": before.high }));
        json!({ "now": figure.now, "before": before, "change": figure.change.word() })
    };
    let spread = |spread: &Spread| json!({ "p50": spread.p50, "p95": spread.p95, "most": spread.most });
    let row = |row: &ClassRow| {
        json!({ "jobs": row.jobs, "failed": row.failed, "wall_s": spread(&row.wall_s),
            "memory_peak_bytes": spread(&row.memory_peak_bytes) })
    };
    let named = |key: &str, name: &str, of: &ClassRow| {
        let mut one = row(of);
        one[key] = name.into();
        one
    };
    let versions = report.versions.iter().map(|one| {
        json!({ "version": one.version, "jobs": one.jobs, "memory_peak_p50_bytes": one.peak_p50_bytes, "wall_p50_s": one.wall_p50_s })
    });
    json!({ "version": 1,
        "weeks": report.weeks.iter().map(|(week, of)| named("week", &week.to_string(), of)).collect::<Vec<_>>(),
        "hosts": report.hosts.iter().map(|of| named("host", &of.name, of)).collect::<Vec<_>>(),
        "more_hosts": report.more_hosts, "versions": versions.collect::<Vec<_>>(),
        "memory_peak_bytes": figure(&report.memory), "wall_s": figure(&report.wall),
        "advice": { "missed": report.advice.missed, "of": report.advice.of, "drifts": report.advice.drifts },
        "words": report.words() })
}
