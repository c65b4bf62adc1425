//! Runs beside each other: small multiples, each run counted from its own start, one column a run.

use pinfold_proto::view::{PointView, ReportView};

use super::{Chart, Panel, Series, Style, Unit, gaps, rates, since_start};
use crate::report::units::precise;
use crate::report::{duration, end, size};

/// The most runs of one picture: more columns are too narrow to be read.
pub const COMPARED_MAX: usize = 4;

/// The points of one run, and what is said of it in the legend.
type Line = (Vec<(f64, f64)>, String);

/// Memory, cores and storage of up to [`COMPARED_MAX`] jobs over the time since each one's start: a column a job, a row a
/// figure, and one axis for all panels of a row. Further jobs are left out. How each ended and the figures that a
/// picture shows badly stand in the legends: peaks, CPU time, bytes in all.
#[must_use]
pub fn comparison(views: &[ReportView]) -> Chart {
    let views = &views[..views.len().min(COMPARED_MAX)];
    let row = |title: &str, unit: Unit, figure: &dyn Fn(&ReportView) -> Line, style| -> Vec<Panel> {
        let panel = |view: &ReportView| {
            let unread = super::unread(view.series.as_deref().unwrap_or(&[]), start_s(view));
            let (points, name) = figure(view);
            Panel {
                title: format!("{}: {title}", view.job),
                unit: unit.clone(),
                series: vec![Series { name, points: gaps::cut(points, &unread), style }],
                ..Panel::default()
            }
        };
        let mut row: Vec<Panel> = views.iter().map(panel).collect();
        Panel::level(&mut row);
        row
    };
    let memory = |view: &ReportView| {
        let told = format!("{}, peak {}", end(view), size(view.memory_peak_bytes));
        (over(view, |point| precise(point.memory_bytes)), told)
    };
    let cores = |view: &ReportView| {
        let told = format!(
            "{}: {} of CPU in {}",
            super::granted(view),
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
    let mut panels = row("memory", Unit::Bytes, &memory, Style::Area);
    panels.extend(row("CPU", "cores in use".into(), &cores, Style::StepArea));
    panels.extend(row("storage", Unit::BytesPerSecond, &storage, Style::Steps));
    Chart {
        title: format!("jobs {}", of.join(", ")),
        panels,
        columns: views.len(),
        without: "no samples of any of them".to_owned(),
        ..Chart::default()
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
