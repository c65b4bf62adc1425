//! The host over the time of day: busy PUs, memory, stalls, and where available temperature and frequency. Readings
//! stop while no job runs: such times are shaded.

use pinfold_proto::host::{HostPoint, HostView};

use super::{Chart, Panel, Series, Style, Unit, gaps};
use crate::report::units::precise;
use crate::report::{date_here, size};

/// The shortest gap between readings, in seconds.
const PAUSE_S: f64 = 60.0;

/// The picture of a host. An unavailable figure has no panel.
#[must_use]
pub fn host_chart(view: &HostView) -> Chart {
    let points = &view.samples[..];
    let zero_s = points.first().map_or(0.0, |point| point.time_s);
    let pauses = gaps::find(points.iter().map(|point| point.time_s - zero_s), PAUSE_S);
    let over = |figure: &dyn Fn(&HostPoint) -> Option<f64>| -> Vec<(f64, f64)> {
        let point = |point: &HostPoint| (point.time_s - zero_s, figure(point).unwrap_or(f64::NAN));
        gaps::cut(points.iter().map(point).collect(), &pauses)
    };
    let series = |name: &str, style, points| Series { name: name.to_owned(), points, style };
    let panel = |title: &str, unit, series, marks| Panel {
        title: title.to_owned(),
        unit,
        series,
        marks,
        ..Panel::default()
    };
    let busy = series("busy", Style::StepArea, over(&|point| point.cpu_busy));
    let pus = vec![(precise(view.pus), format!("{} PUs", view.pus))];
    let mut memory =
        vec![series("in use", Style::Area, over(&|point| Some(precise(point.memory_used_bytes))))];
    if points.iter().any(|point| point.swap_used_bytes > 0) {
        memory.push(series("swap", Style::Line, over(&|point| Some(precise(point.swap_used_bytes)))));
    }
    let all = vec![(precise(view.memory_bytes), format!("{} in all", size(view.memory_bytes)))];
    let mut panels =
        vec![panel("CPU", "PUs".into(), vec![busy], pus), panel("memory", Unit::Bytes, memory, all)];
    let told = |title: &str, unit: &str, mut series: Vec<Series>| {
        series.retain(|series| series.points.iter().any(|(_, y)| y.is_finite()));
        (!series.is_empty()).then(|| panel(title, unit.into(), series, Vec::new()))
    };
    let percent = |part: Option<f64>| part.map(|part| part * 100.0);
    let some = |figure: &dyn Fn(&HostPoint) -> Option<f64>| {
        series("some", Style::Steps, over(&|point| percent(figure(point))))
    };
    let full = series("all", Style::StepArea, over(&|point| percent(point.memory_full_stalled)));
    let of_the_time = "% of the time";
    let mut stalled: Vec<Panel> = [
        told("stalled for CPU", of_the_time, vec![some(&|point| point.cpu_stalled)]),
        told("stalled for memory", of_the_time, vec![full, some(&|point| point.memory_stalled)]),
        told("stalled for storage", of_the_time, vec![some(&|point| point.io_stalled)]),
    ]
    .into_iter()
    .flatten()
    .collect();
    Panel::level(&mut stalled);
    panels.extend(stalled);
    let line = |figure: &dyn Fn(&HostPoint) -> Option<f64>| vec![series("", Style::Line, over(figure))];
    panels.extend(told("hottest sensor", "°C", line(&|point| point.temperature_celsius)));
    panels.extend(told("frequency", "MHz", line(&|point| point.frequency_mhz)));
    Chart {
        title: title(view),
        panels,
        shaded: gaps::shaded(&pauses).collect(),
        without: "nothing was read in this time: the host is read while jobs run".to_owned(),
        clock_s: Some(zero_s),
        ..Chart::default()
    }
}

fn title(view: &HostView) -> String {
    match (view.samples.first(), view.samples.last()) {
        (Some(first), Some(last)) => {
            let (from, to) = (date_here(first.time_s), date_here(last.time_s));
            format!("{}: {} to {to}", view.host, from.rsplit_once(' ').map_or("", |(from, _)| from))
        }
        _ => view.host.clone(),
    }
}
