//! The results of the runs: as JSON, as a table, and when each job started.

use std::collections::BTreeMap;
use std::io::{self, Write};

use pinfold_cluster::job::Job;
use pinfold_cluster::metrics::metrics;
use pinfold_cluster::play::Played;
use pinfold_cluster::{Micros, SECOND};
use pinfold_profile::report::{duration, size};
use pinfold_whatif::play::Outcome;
use serde::Serialize;

use super::calibration::Calibration;

/// `pinfold sim --json`.
#[derive(Debug, Serialize)]
pub(super) struct SimView {
    /// 1.
    pub version: u32,
    /// The runs, in the order of the table.
    pub runs: Vec<RunView>,
    /// The calibration of this host, where a run used it.
    pub calibration: Option<Calibration>,
}

/// A run and its results. Figures are of the unshaken jobs; averages are over all played jobs.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RunView {
    /// The label that tells it from the others.
    pub label: String,
    /// Jobs that were played.
    pub jobs: usize,
    /// From the first submission to the last end.
    pub makespan_s: f64,
    /// The work of all jobs over the capacity of all cores in the makespan: 0 to 1; above 1 where waiting jobs left
    /// their cores to others.
    pub utilisation: f64,
    /// From submission to start.
    pub mean_wait_s: f64,
    /// The mean of turnaround over run time: max(1, turnaround / max(10 s, run time)).
    pub mean_bounded_slowdown: f64,
    /// The wait that 95 of 100 jobs do not exceed.
    pub p95_wait_s: f64,
    /// From submission to end.
    pub mean_turnaround_s: f64,
    /// How long jobs were suspended, added up over all jobs.
    pub frozen_s: f64,
    /// Jobs that the kernel killed for want of memory, or that no host started.
    pub killed: u64,
    /// Events of the simulation.
    pub events: u64,
    /// How long the simulation took.
    pub wall_s: f64,
    /// How often jobs were suspended.
    pub freezes: u64,
    /// Bytes moved to swap.
    pub paged_bytes: u64,
    /// Requested memory beyond the jobs' peaks, in GB x hours; null: no job has both figures.
    pub memory_wasted_gbh: Option<f64>,
    /// The lowest and the highest of all replays, by the name of the figure; null: a single replay.
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

    /// Whether anything was suspended, moved to swap or killed, in whichever replay.
    fn has_toll(&self) -> bool {
        let highest =
            |name| self.intervals.as_ref().and_then(|of| of.get(name)).map_or(0.0, |[_, most]| *most);
        self.freezes > 0
            || self.paged_bytes > 0
            || self.killed > 0
            || ["freezes", "paged_bytes", "killed"].into_iter().any(|name| highest(name) > 0.0)
    }

    /// The lowest and the highest figures of all replays, in lines below the table.
    fn write_intervals(&self, wide: usize, out: &mut dyn Write) -> io::Result<()> {
        let Some(intervals) = &self.intervals else { return Ok(()) };
        let both = |name: &str, words: &dyn Fn(f64) -> String| {
            let [least, most] = intervals.get(name).copied().unwrap_or_default();
            format!("{} to {}", words(least), words(most))
        };
        let time = |name| both(name, &duration);
        writeln!(
            out,
            "{:wide$}  in all replays: makespan {}, used {} %, mean wait {}, 95% wait {}, turnaround {}, slowdown {}",
            self.label,
            time("makespan_s"),
            both("utilisation", &|part| format!("{:.1}", part * 100.0)),
            time("mean_wait_s"),
            time("p95_wait_s"),
            time("mean_turnaround_s"),
            both("mean_bounded_slowdown", &|slowdown| format!("{slowdown:.2}")),
        )?;
        if self.has_toll() {
            let count = |count: f64| format!("{count:.0}");
            let (freezes, killed) = (both("freezes", &count), both("killed", &count));
            // More bytes than this are no figure of a host.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it saturates at both ends"
            )]
            let paged = both("paged_bytes", &|bytes| size(bytes as u64));
            let frozen = time("frozen_s");
            writeln!(
                out,
                "{:wide$}  freezes {freezes}, frozen {frozen}, paged {paged}, killed {killed}",
                ""
            )?;
        }
        Ok(())
    }

    /// The figures that replays may change.
    fn figures(&self) -> [(&'static str, f64); 10] {
        [
            ("makespan_s", self.makespan_s),
            ("utilisation", self.utilisation),
            ("mean_wait_s", self.mean_wait_s),
            ("mean_bounded_slowdown", self.mean_bounded_slowdown),
            ("p95_wait_s", self.p95_wait_s),
            ("mean_turnaround_s", self.mean_turnaround_s),
            ("frozen_s", self.frozen_s),
            ("killed", self.killed as f64),
            ("freezes", self.freezes as f64),
            ("paged_bytes", self.paged_bytes as f64),
        ]
    }
}

/// Requested memory beyond the jobs' peaks, over their run time.
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
    // Where a figure is 0 in all runs, the table is narrower without it.
    let wastes = views.iter().any(|view| view.memory_wasted_gbh.is_some_and(|wasted| wasted > 0.0));
    let tolls = views.iter().any(RunView::has_toll);
    write!(
        out,
        "{:wide$}  {:>9}  {:>10}  {:>5}  {:>10}  {:>10}  {:>10}  {:>9}",
        "RUN", "JOBS", "MAKESPAN", "USED", "MEAN WAIT", "95% WAIT", "TURNAROUND", "SLOWDOWN"
    )?;
    if wastes {
        write!(out, "  {:>11}", "WASTED")?;
    }
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
        if wastes {
            let wasted = view.memory_wasted_gbh.map_or_else(|| "-".to_owned(), |gbh| format!("{gbh:.1} GBh"));
            write!(out, "  {wasted:>11}")?;
        }
        if tolls {
            let (frozen, paged) = (duration(view.frozen_s), size(view.paged_bytes));
            write!(out, "  {:>8}  {frozen:>10}  {paged:>10}  {:>7}", view.freezes, view.killed)?;
        }
        writeln!(out)?;
    }
    for view in views {
        view.write_intervals(wide, out)?;
    }
    Ok(())
}
