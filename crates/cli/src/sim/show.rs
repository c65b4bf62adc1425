//! What came of the runs: as JSON, as a table, and when each job started.

use std::io::{self, Write};

use pinfold_cluster::job::Job;
use pinfold_cluster::metrics::Metrics;
use pinfold_cluster::play::Played;
use pinfold_cluster::{Micros, SECOND};
use pinfold_profile::report::duration;
use serde::Serialize;

/// A run and what came of it, as JSON has it.
#[derive(Debug, Serialize)]
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
}

impl RunView {
    pub(super) fn new(label: String, figures: &Metrics, played: &Played, wall_s: f64) -> Self {
        Self {
            label,
            jobs: figures.jobs,
            makespan_s: figures.makespan_s,
            utilisation: figures.utilisation,
            mean_wait_s: figures.mean_wait_s,
            mean_bounded_slowdown: figures.mean_bounded_slowdown,
            p95_wait_s: figures.p95_wait_s,
            mean_turnaround_s: figures.mean_turnaround_s,
            // Plain hosts freeze and kill nothing.
            frozen_s: 0.0,
            killed: 0,
            events: played.events,
            wall_s,
        }
    }
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
    writeln!(
        out,
        "{:wide$}  {:>9}  {:>10}  {:>5}  {:>10}  {:>10}  {:>10}  {:>9}",
        "RUN", "JOBS", "MAKESPAN", "USED", "MEAN WAIT", "95% WAIT", "TURNAROUND", "SLOWDOWN"
    )?;
    for view in views {
        writeln!(
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
    }
    Ok(())
}
