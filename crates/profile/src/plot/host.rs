//! What a host as a whole did: PUs busy, memory, stalls, and where it tells them temperature and frequency, over the
//! time of day. Nothing is read while no job runs: such times are shaded.

use pinfold_proto::host::{HostPoint, HostView};

use super::{Chart, Panel, Series, Style, Unit};
use crate::report::units::precise;
use crate::report::{date_utc, size};

/// A time without a reading is shaded when it is so many times as long as is usual, and longer than that.
const PAUSE_TIMES: f64 = 4.0;
const PAUSE_S: f64 = 60.0;

/// The picture of a host. What it does not tell has no panel.
#[must_use]
pub fn host_chart(view: &HostView) -> Chart {
    let points = &view.samples[..];
    let zero_s = points.first().map(|point| point.time_s);
    let over = |figure: &dyn Fn(&HostPoint) -> Option<f64>| -> Vec<(f64, f64)> {
        let x = |point: &HostPoint| point.time_s - zero_s.unwrap_or(0.0);
        points.iter().filter_map(|point| Some((x(point), figure(point)?))).collect()
    };
    let series = |name: &str, style, points| Series { name: name.to_owned(), points, style };
    let panel = |title: &str, unit, series, marks| Panel { title: title.to_owned(), unit, series, marks };
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
    let percent = |part: Option<f64>| part.map(|part| part * 100.0);
    let stalled = vec![
        series("for CPU", Style::Steps, over(&|point| percent(point.cpu_stalled))),
        series("for memory", Style::Steps, over(&|point| percent(point.memory_stalled))),
        series("for storage", Style::Steps, over(&|point| percent(point.io_stalled))),
        series("all for memory", Style::Steps, over(&|point| percent(point.memory_full_stalled))),
    ];
    let mut told = |title: &str, unit: &str, mut series: Vec<Series>| {
        series.retain(|series| !series.points.is_empty());
        if !series.is_empty() {
            panels.push(panel(title, unit.into(), series, Vec::new()));
        }
    };
    told("stalled", "% of the time", stalled);
    told("hottest sensor", "°C", vec![series("", Style::Line, over(&|point| point.temperature_celsius))]);
    told("frequency", "MHz", vec![series("", Style::Line, over(&|point| point.frequency_mhz))]);
    Chart {
        title: title(view),
        panels,
        shaded: pauses(points),
        without: "nothing was read in this time: the host is read while jobs run".to_owned(),
        clock_s: Some(zero_s.unwrap_or(0.0)),
        across: None,
    }
}

fn title(view: &HostView) -> String {
    match (view.samples.first(), view.samples.last()) {
        (Some(first), Some(last)) => {
            let (from, to) = (date_utc(first.time_s), date_utc(last.time_s));
            format!("{}: {} to {to}", view.host, from.trim_end_matches(" UTC"))
        }
        _ => view.host.clone(),
    }
}

/// The times without readings, from one to the next.
fn pauses(points: &[HostPoint]) -> Vec<(f64, f64, String)> {
    let Some(zero_s) = points.first().map(|point| point.time_s) else { return Vec::new() };
    let times: Vec<f64> = points.iter().map(|point| point.time_s - zero_s).collect();
    let mut spans: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    spans.sort_by(f64::total_cmp);
    let usual = spans.get(spans.len() / 2).copied().unwrap_or(0.0);
    let is_pause = |pair: &&[f64]| pair[1] - pair[0] > PAUSE_S.max(usual * PAUSE_TIMES);
    times.windows(2).filter(is_pause).map(|pair| (pair[0], pair[1], "not read".to_owned())).collect()
}
