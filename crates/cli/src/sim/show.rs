//! What came of the runs: as JSON, as a table, and when each job started.

use std::collections::BTreeMap;
use std::io::{self, Write};

use pinfold_cluster::job::Job;
use pinfold_cluster::metrics::metrics;
use pinfold_cluster::play::Played;
use pinfold_cluster::{Micros, SECOND};
use pinfold_profile::report::{duration, size};
use pinfold_whatif::play::Outcome;
use serde::Serialize;

/// A run and what came of it, as JSON has it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RunView {
    pub label: String,
    pub jobs: usize,
    pub makespan_s: f64,
    pub utilisation: f64,
    pub mean_wait_s: f64,
    pub mean_bounded_slowdown: f64,
    pub p95_wait_s: f64,
    pub mean_turnaround_s: f64,
    pub frozen_s: f64,
    pub killed: u64,
    pub events: u64,
    pub wall_s: f64,
    pub freezes: u64,
    pub paged_bytes: u64,
    /// What jobs asked for and did not come to hold, in GB x hours; `None`: of no job both are known.
    pub memory_wasted_gbh: Option<f64>,
    /// The lowest and the highest of all replays, by the name of the figure; `None`: there was one.
    pub intervals: Option<BTreeMap<&'static str, [f64; 2]>>,
}

impl RunView {
    pub(super) fn new(label: &str, jobs: &[Job], cores: u64, outcome: &Outcome, wall_s: f64) -> Self {
        let figures = metrics(jobs, &outcome.played.spans, cores);
        let toll = &outcome.toll;
        Self {
            label: label.to_owned(),
            jobs: figures.jobs,
            makespan_s: figures.makespan_s,
            utilisation: figures.utilisation,
            mean_wait_s: figures.mean_wait_s,
            mean_bounded_slowdown: figures.mean_bounded_slowdown,
            p95_wait_s: figures.p95_wait_s,
            mean_turnaround_s: figures.mean_turnaround_s,
            frozen_s: toll.frozen_us as f64 / SECOND as f64,
            killed: toll.killed,
            events: outcome.played.events,
            wall_s,
            freezes: toll.freezes,
            paged_bytes: toll.paged_bytes,
            memory_wasted_gbh: wasted_gbh(jobs),
            intervals: None,
        }
    }

    /// Takes the figures of another replay in.
    pub(super) fn add_replay(&mut self, other: &Self) {
        let before = self.figures();
        let intervals = self.intervals.get_or_insert_with(|| {
            before.into_iter().map(|(name, figure)| (name, [figure, figure])).collect()
        });
        for (name, figure) in other.figures() {
            let interval = intervals.entry(name).or_insert([figure, figure]);
            *interval = [interval[0].min(figure), interval[1].max(figure)];
        }
    }

    fn figures(&self) -> [(&'static str, f64); 6] {
        [
            ("makespan_s", self.makespan_s),
            ("utilisation", self.utilisation),
            ("mean_wait_s", self.mean_wait_s),
            ("mean_bounded_slowdown", self.mean_bounded_slowdown),
            ("p95_wait_s", self.p95_wait_s),
            ("mean_turnaround_s", self.mean_turnaround_s),
        ]
    }
}

/// What jobs asked for beyond their peak, for as long as they ran.
fn wasted_gbh(jobs: &[Job]) -> Option<f64> {
    let known = jobs.iter().filter(|job| job.memory > 0 && job.memory_peak > 0);
    let wasted = |job: &Job| {
        let bytes = job.memory.saturating_sub(job.memory_peak) as f64 * f64::from(job.processors);
        bytes / 1e9 * (job.run_us as f64 / SECOND as f64 / 3600.0)
    };
    let each: Vec<f64> = known.map(wasted).collect();
    (!each.is_empty()).then(|| each.iter().sum())
}

/// A line for each job: whole seconds where all times are.
pub(super) fn write_starts(jobs: &[Job], played: &Played, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "job,start_s,end_s,host")?;
    for ((job, span), parts) in jobs.iter().zip(&played.spans).zip(&played.parts) {
        write!(out, "{},{},{},", job.number, seconds(span.start_us), seconds(span.end_us))?;
        for (place, part) in parts.iter().enumerate() {
            write!(out, "{}{}", if place == 0 { "" } else { ";" }, part.host)?;
        }
        writeln!(out)?;
    }
    out.flush()
}

fn seconds(us: Micros) -> String {
    match us % SECOND {
        0 => (us / SECOND).to_string(),
        rest => format!("{}.{rest:06}", us / SECOND),
    }
}

pub(super) fn write_table(views: &[RunView], out: &mut dyn Write) -> io::Result<()> {
    let wide = views.iter().map(|view| view.label.len()).max().unwrap_or(0).max(3);
    let tolls = views.iter().any(|view| view.freezes > 0 || view.paged_bytes > 0 || view.killed > 0);
    write!(
        out,
        "{:wide$}  {:>9}  {:>10}  {:>5}  {:>10}  {:>10}  {:>10}  {:>9}",
        "RUN", "JOBS", "MAKESPAN", "USED", "MEAN WAIT", "95% WAIT", "TURNAROUND", "SLOWDOWN"
    )?;
    if tolls {
        write!(out, "  {:>8}  {:>10}  {:>10}  {:>7}", "FREEZES", "FROZEN", "PAGED", "KILLED")?;
    }
    writeln!(out)?;
    for view in views {
        write!(
            out,
            "{:wide$}  {:>9}  {:>10}  {:>4.1}%  {:>10}  {:>10}  {:>10}  {:>9.2}",
            view.label,
            view.jobs,
            duration(view.makespan_s),
            view.utilisation * 100.0,
            duration(view.mean_wait_s),
            duration(view.p95_wait_s),
            duration(view.mean_turnaround_s),
            view.mean_bounded_slowdown
        )?;
        if tolls {
            let (frozen, paged) = (duration(view.frozen_s), size(view.paged_bytes));
            write!(out, "  {:>8}  {frozen:>10}  {paged:>10}  {:>7}", view.freezes, view.killed)?;
        }
        writeln!(out)?;
    }
    for view in views {
        let Some(intervals) = &view.intervals else { continue };
        let of = |name: &str| intervals.get(name).copied().unwrap_or_default();
        let [wait, turnaround] = ["mean_wait_s", "mean_turnaround_s"].map(|name| of(name).map(duration));
        let slowdown = of("mean_bounded_slowdown");
        writeln!(
            out,
            "{:wide$}  in all replays: mean wait {} to {}, turnaround {} to {}, slowdown {:.2} to {:.2}",
            view.label, wait[0], wait[1], turnaround[0], turnaround[1], slowdown[0], slowdown[1]
        )?;
    }
    Ok(())
}
