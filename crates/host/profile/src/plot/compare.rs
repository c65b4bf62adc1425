//! Compares runs in small multiples, each from its own start. Few runs are columns ([`comparison`]); more runs are
//! rows, so that panels keep their width ([`stacked`]).

use pinfold_proto::view::{PointView, ReportView};

use super::{Chart, Panel, Series, Style, Unit, gaps, rates, since_start};
use crate::report::units::precise;
use crate::report::{duration, end, size};

/// Most runs as columns: further columns would be too narrow.
pub const COMPARED_MAX: usize = 4;

/// Most runs as rows.
pub const STACKED_MAX: usize = 6;

/// The points of a run, and its legend text.
type Line = (Vec<(f64, f64)>, String);

/// Memory, cores and storage of up to [`COMPARED_MAX`] jobs over the time since each start: a column per job, a row
/// per figure, and a common axis per row. Further jobs are left out. The legends give endings and the figures that a
/// picture shows badly: peaks, CPU time, total bytes.
#[must_use]
pub fn comparison(views: &[ReportView]) -> Chart {
    let views = &views[..views.len().min(COMPARED_MAX)];
    let names = views.iter().map(|view| view.job.to_string()).collect::<Vec<_>>();
    let of: Vec<String> = views.iter().map(|view| format!("{} ({})", view.job, view.name)).collect();
    let panels = figures(views, &names).into_iter().flatten().collect();
    chart(format!("jobs {}", of.join(", ")), panels, views, views.len())
}

/// The same for up to [`STACKED_MAX`] jobs, numbered from 1: a row per job and a column per figure, or all panels in
/// a single column by figure. Panels of a figure share the value axis, and all panels share the time axis.
#[must_use]
pub fn stacked(views: &[ReportView], one_column: bool) -> Chart {
    let views = &views[..views.len().min(STACKED_MAX)];
    let names: Vec<String> = (1..=views.len()).map(|number| number.to_string()).collect();
    let of: Vec<String> =
        views.iter().zip(&names).map(|(view, name)| format!("{name} {}", view.name)).collect();
    let figures = figures(views, &names);
    let panels = if one_column {
        figures.into_iter().flatten().collect()
    } else {
        (0..views.len()).flat_map(|job| figures.iter().map(move |row| row[job].clone())).collect()
    };
    chart(of.join(", "), panels, views, if one_column { 1 } else { 3 })
}

fn chart(title: String, panels: Vec<Panel>, views: &[ReportView], columns: usize) -> Chart {
    let until_s = views.iter().filter_map(|view| view.wall_s).fold(0.0, f64::max);
    Chart {
        title,
        panels,
        columns,
        until_s,
        without: "no samples of any of them".to_owned(),
        ..Chart::default()
    }
}

/// A panel per job (named by `names`) and figure; panels of a figure share an axis.
fn figures(views: &[ReportView], names: &[String]) -> [Vec<Panel>; 3] {
    let row = |title: &str, unit: Unit, figure: &dyn Fn(&ReportView) -> Line, style| -> Vec<Panel> {
        let panel = |(view, of): (&ReportView, &String)| {
            let unread = super::unread(view.series.as_deref().unwrap_or(&[]), start_s(view));
            let (points, name) = figure(view);
            Panel {
                title: format!("{of}: {title}"),
                unit: unit.clone(),
                series: vec![Series { name, points: gaps::cut(points, &unread), style }],
                shaded: super::stopped(view.series.as_deref().unwrap_or(&[]), start_s(view)),
                ..Panel::default()
            }
        };
        let mut row: Vec<Panel> = views.iter().zip(names).map(panel).collect();
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
    [
        row("memory", Unit::Bytes, &memory, Style::Area),
        row("CPU", "cores in use".into(), &cores, Style::StepArea),
        row("storage", Unit::BytesPerSecond, &storage, Style::Steps),
    ]
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
