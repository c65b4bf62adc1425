//! Runs beside each other: the same panels, each run counted from its own start, one line a run.

use pinfold_proto::view::{PointView, ReportView};

use super::{Chart, Panel, Series, Style, Unit, rates, since_start};
use crate::report::units::precise;
use crate::report::{duration, size};

/// The most runs of one picture: there are so many looks of a line that hold in grey.
pub const COMPARED_MAX: usize = 4;

/// The points of one run, and what is said of it in the legend.
type Line = (Vec<(f64, f64)>, String);

/// Memory, cores and storage of up to [`COMPARED_MAX`] jobs over the time since each one's start; further ones are
/// left out. The figures that a picture shows badly stand in the legends: peaks, CPU time, bytes in all.
#[must_use]
pub fn comparison(views: &[ReportView]) -> Chart {
    let views = &views[..views.len().min(COMPARED_MAX)];
    let panel = |title: &str, unit, figure: &dyn Fn(&ReportView) -> Line, style| Panel {
        title: title.to_owned(),
        unit,
        series: views
            .iter()
            .map(|view| {
                let (points, told) = figure(view);
                let without = if points.is_empty() { " (no samples)" } else { "" };
                Series { name: format!("{}: {told}{without}", view.job), points, style }
            })
            .collect(),
        marks: Vec::new(),
    };
    let memory = |view: &ReportView| {
        let told = format!("peak {}, mean {}", size(view.memory_peak_bytes), size(view.memory_mean_bytes));
        (over(view, |point| precise(point.memory_bytes)), told)
    };
    let cores = |view: &ReportView| {
        let told = format!(
            "{} of CPU in {}",
            duration(view.cpu_user_s + view.cpu_system_s),
            duration(view.wall_s.unwrap_or(0.0))
        );
        (since_start(over(view, |point| point.cpu_cores)), told)
    };
    let storage = |view: &ReportView| {
        let told = format!("{} read, {} written", size(view.io_read_bytes), size(view.io_write_bytes));
        let points = view.series.as_deref().unwrap_or(&[]);
        let both = |point: &PointView| point.io_read_bytes.saturating_add(point.io_write_bytes);
        (rates(points, start_s(view), both), told)
    };
    let of: Vec<String> = views.iter().map(|view| format!("{} ({})", view.job, view.name)).collect();
    Chart {
        title: format!("jobs {}", of.join(", ")),
        panels: vec![
            panel("memory", Unit::Bytes, &memory, Style::Line),
            panel("CPU", "cores".into(), &cores, Style::Steps),
            panel("storage, read and written", Unit::BytesPerSecond, &storage, Style::Steps),
        ],
        shaded: Vec::new(),
        without: "no samples of any of them".to_owned(),
        clock_s: None,
        across: None,
    }
}

fn start_s(view: &ReportView) -> f64 {
    let first = view.series.as_deref().and_then(|points| points.first());
    view.started_s.or(first.map(|point| point.time_s)).unwrap_or(0.0)
}

fn over(view: &ReportView, figure: impl Fn(&PointView) -> f64) -> Vec<(f64, f64)> {
    let start_s = start_s(view);
    let points = view.series.as_deref().unwrap_or(&[]);
    points.iter().map(|point| (point.time_s - start_s, figure(point))).collect()
}
