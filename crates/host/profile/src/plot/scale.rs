//! Scales and ticks: the range of an axis, and the format of its values.

use super::{Chart, Panel, Series, Style, Unit};
use crate::report::date_here;
use crate::report::units::{offset_s, zone_name};

/// A mark above this multiple of all series is not drawn, because the series would shrink to a line.
const MARK_FAR: f64 = 3.0;

/// The same for a thin series.
const THIN_FAR: f64 = 4.0;

/// The time axis, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    pub(super) from: f64,
    pub(super) to: f64,
}

/// A value axis from 0 to `top`; `divisor` converts values to the `unit`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    pub(super) top: f64,
    pub(super) unit: String,
    divisor: f64,
}

/// The finite points of a panel's series.
fn points(panel: &Panel) -> impl Iterator<Item = (f64, f64)> {
    panel
        .series
        .iter()
        .flat_map(|series| series.points.iter().copied())
        .filter(|(x, y)| x.is_finite() && y.is_finite())
}

/// The range of all series and shades of a chart; a second if empty.
pub(super) fn span(chart: &Chart) -> Span {
    let shades = chart.shaded.iter().flat_map(|&(from, to, _)| [from, to]).filter(|x| x.is_finite());
    let xs = chart.panels.iter().flat_map(points).map(|(x, _)| x).chain(shades);
    let (from, to) = xs.fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), x| (from.min(x), to.max(x)));
    if from > to {
        return Span { from: 0.0, to: if chart.until_s > 0.0 { chart.until_s } else { 1.0 } };
    }
    let to = to.max(chart.until_s);
    // A series that begins just after its start shows the start.
    let from = if from > 0.0 && from < 0.1 * (to - from) { 0.0 } else { from };
    if to - from > 1e-6 * to.abs().max(1e-3) {
        return Span { from, to };
    }
    let around = 0.5f64.max(from.abs() * 1e-3);
    Span { from: from - around, to: from + around }
}

/// Whether a mark is drawn as a line.
pub(super) fn is_near(panel: &Panel, mark: f64) -> bool {
    let highest = highest(panel).max(panel.at_least);
    mark.is_finite() && mark >= 0.0 && (highest <= 0.0 || mark <= highest * MARK_FAR)
}

/// The highest value that the axis must show: of all series, except a thin series far above the rest, like page cache
/// above the memory that the picture is about.
pub(super) fn highest(panel: &Panel) -> f64 {
    let all = panel.series.iter().map(series_top).fold(0.0, f64::max);
    let main =
        panel.series.iter().filter(|series| series.style != Style::Thin).map(series_top).fold(0.0, f64::max);
    if main > 0.0 && all > main * THIN_FAR { main } else { all }
}

fn series_top(series: &Series) -> f64 {
    let finite = series.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
    finite.map(|&(_, y)| y).fold(0.0, f64::max)
}

/// Whether a series leaves the panel above.
pub(super) fn is_cut(panel: &Panel, series: &Series) -> bool {
    series.style == Style::Thin && series_top(series) > highest(panel) * 1.08
}

/// The value axis of a panel.
pub(super) fn scale(panel: &Panel) -> Scale {
    let marks = panel.marks.iter().map(|&(mark, _)| mark).filter(|&mark| is_near(panel, mark));
    let series = highest(panel);
    let highest = marks.fold(series, f64::max).max(panel.at_least);
    // A mark at the top has its label above it. Panels of a common axis get the same space, whichever has the mark.
    let room = if highest > series || panel.at_least > 0.0 { 1.2 } else { 1.08 };
    let top = if highest > 0.0 { highest * room } else { 1.0 };
    let (divisor, unit) = match &panel.unit {
        Unit::Plain(name) => (1.0, name.clone()),
        Unit::Bytes => binary(highest, ""),
        Unit::BytesPerSecond => binary(highest, "/s"),
    };
    Scale { top, unit, divisor }
}

pub(super) fn binary(highest: f64, tail: &str) -> (f64, String) {
    let mut divisor = 1.0;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if highest < divisor * 1024.0 || unit == "TiB" {
            return (divisor, format!("{unit}{tail}"));
        }
        divisor *= 1024.0;
    }
    (1.0, format!("B{tail}"))
}

impl Scale {
    /// Values and their text, from 0 up, at most `count` but at least two.
    pub(super) fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        let top = self.top / self.divisor;
        let wanted = nice(top / as_float(count.max(2) - 1));
        // A single number does not show a scale: use the largest round step that fits.
        let step = if wanted <= top { wanted } else { nice(top / 2.5) };
        ticks(0.0, top, step).into_iter().map(|value| (value * self.divisor, written(value, step))).collect()
    }

    /// The smallest round value at or above the top, and its text.
    pub(super) fn round_top(&self) -> (f64, String) {
        let top = self.top / self.divisor;
        let step = nice(top / 4.0);
        let value = (top / step - 1e-9).ceil() * step;
        (value * self.divisor, written(value, step))
    }
}

/// Ticks of a chart's horizontal axis, and their unit: of a clock axis the time zone, of an axis without time round
/// values.
pub(super) fn axis_ticks(chart: &Chart, span: Span, count: usize) -> (Vec<(f64, String)>, String) {
    if let Some(across) = &chart.across {
        return (between(span.from, span.to, count), across.unit.clone());
    }
    match chart.clock_s {
        None => {
            let (ticks, unit) = time_ticks(span, count);
            (ticks, unit.to_owned())
        }
        // No time is known.
        Some(_) if chart.is_empty() => (Vec::new(), zone_name(0.0)),
        // Times of day are longer than numbers.
        Some(zero_s) => (clock_ticks(zero_s, span, (count * 3 / 4).max(2)), zone_name(zero_s + span.from)),
    }
}

/// Steps between two ticks of a clock, in seconds.
const CLOCK_STEPS: [u32; 24] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400,
    172_800, 432_000, 864_000, 2_592_000, 7_776_000, 31_536_000,
];

/// Ticks at round times of day, written as these, midnights as dates; second 0 is at `zero_s` of the Unix clock.
fn clock_ticks(zero_s: f64, span: Span, count: usize) -> Vec<(f64, String)> {
    let least = (span.to - span.from) / as_float(count);
    let step =
        CLOCK_STEPS.into_iter().map(f64::from).find(|&step| step >= least).unwrap_or(f64::from(u32::MAX));
    let written = |unix_s: f64| {
        let date = date_here(unix_s);
        let (day, time) = (date.get(5..10), date.get(11..19).unwrap_or_default());
        match day {
            Some(day) if step >= 86_400.0 || time == "00:00:00" => day.to_owned(),
            _ if step < 60.0 => time.to_owned(),
            _ => time.get(..5).unwrap_or_default().to_owned(),
        }
    };
    let times = round_times(zero_s + span.from, zero_s + span.to, step, offset_s);
    times.into_iter().map(|unix_s| (unix_s - zero_s, written(unix_s))).collect()
}

/// Round times of day in a range: whole steps of a clock that is ahead of UTC by `offset_s`, which may change.
fn round_times(from: f64, to: f64, step: f64, offset_s: impl Fn(f64) -> f64) -> Vec<f64> {
    let unix_s = |clock_s: f64| clock_s - offset_s(clock_s - offset_s(clock_s));
    let times = ticks(from + offset_s(from), to + offset_s(to), step).into_iter().map(unix_s);
    times.filter(|unix_s| (from..=to).contains(unix_s)).collect()
}

/// Ticks of the time axis in seconds, with their text in the returned unit.
pub(super) fn time_ticks(span: Span, count: usize) -> (Vec<(f64, String)>, &'static str) {
    let length = span.to - span.from;
    let (divisor, unit) = match length {
        _ if length < 180.0 => (1.0, "s"),
        _ if length < 3.0 * 3_600.0 => (60.0, "min"),
        _ if length < 3.0 * 86_400.0 => (3_600.0, "h"),
        _ => (86_400.0, "d"),
    };
    let step = nice(length / divisor / as_float(count.max(2)));
    let ticks = ticks(span.from / divisor, span.to / divisor, step);
    (ticks.into_iter().map(|value| (value * divisor, written(value, step))).collect(), unit)
}

/// The smallest 1, 2 or 5 times a power of ten at or above `least`.
pub(super) fn nice(least: f64) -> f64 {
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|&step| step >= least * (1.0 - 1e-9))
        .unwrap_or(1.0)
}

/// Whole numbers from 0 to `most`, at most `count` but at least two.
pub(super) fn whole_ticks(most: f64, count: usize) -> Vec<(f64, String)> {
    let step = nice(most / as_float(count.max(2) - 1)).max(1.0);
    ticks(0.0, most, step).into_iter().map(|value| (value, written(value, step))).collect()
}

/// Round values in a range, at most `count`, and their text.
pub(super) fn between(from: f64, to: f64, count: usize) -> Vec<(f64, String)> {
    let step = nice((to - from) / as_float(count.max(2) - 1));
    ticks(from, to, step).into_iter().map(|value| (value, written(value, step))).collect()
}

fn ticks(from: f64, to: f64, step: f64) -> Vec<f64> {
    let first = (from / step - 1e-9).ceil();
    // A range has at most 1000 steps; the bound is for ranges that floats cannot divide.
    (0..1_000)
        .map(|at| (first + f64::from(at)) * step)
        .take_while(|&value| value <= to + step * 1e-9)
        .collect()
}

/// A tick with as many decimals as its step has.
pub(super) fn written(value: f64, step: f64) -> String {
    let decimals = (0usize..6).find(|&decimals| {
        let scaled = step * 10f64.powf(as_float(decimals));
        (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1e-9)
    });
    // `-0` is no number to show.
    format!("{:.*}", decimals.unwrap_or(6), if value.abs() < step * 1e-6 { 0.0 } else { value })
}

fn as_float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(unit: Unit, values: &[f64], marks: &[f64]) -> Panel {
        let points = values.iter().map(|&value| (value, value)).collect();
        let marks = marks.iter().map(|&mark| (mark, "mark".to_owned())).collect();
        Panel { unit, marks, series: vec![Series { points, ..Series::default() }], ..Panel::default() }
    }

    #[track_caller]
    fn check_ticks(unit: Unit, highest: f64, count: usize, want_unit: &str, want: &[&str]) {
        let scale = scale(&panel(unit, &[highest], &[]));
        assert_eq!(scale.unit, want_unit);
        let ticks: Vec<String> = scale.ticks(count).into_iter().map(|(_, text)| text).collect();
        assert_eq!(ticks, want, "{highest}");
    }

    #[test]
    fn value_ticks_are_round_in_their_unit() {
        check_ticks(Unit::Plain("cores".into()), 2.0, 5, "cores", &["0", "1", "2"]);
        check_ticks(Unit::Plain("cores".into()), 0.9, 6, "cores", &["0.0", "0.2", "0.4", "0.6", "0.8"]);
        check_ticks(Unit::Bytes, 3.5 * 1024.0 * 1024.0 * 1024.0, 5, "GiB", &["0", "1", "2", "3"]);
        check_ticks(Unit::BytesPerSecond, 900.0, 4, "B/s", &["0", "500"]);
        check_ticks(Unit::Plain("PUs".into()), 4.0, 3, "PUs", &["0", "2", "4"]);
        check_ticks(Unit::Plain("PUs".into()), 9.0, 2, "PUs", &["0", "5"]);
        check_ticks(Unit::Bytes, 0.0, 4, "B", &["0.0", "0.5", "1.0"]);
    }

    #[test]
    fn time_is_in_the_unit_that_fits() {
        let check = |from, to, unit, want: &[&str]| {
            let (ticks, got) = time_ticks(Span { from, to }, 5);
            assert_eq!(
                (ticks.into_iter().map(|(_, text)| text).collect::<Vec<_>>(), got),
                (want.iter().map(|&w| w.to_owned()).collect(), unit)
            );
        };
        check(0.0, 1.0, "s", &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        check(0.0, 600.0, "min", &["0", "2", "4", "6", "8", "10"]);
        check(0.0, 86_400.0, "h", &["0", "5", "10", "15", "20"]);
        check(-0.5, 0.5, "s", &["-0.4", "-0.2", "0.0", "0.2", "0.4"]);
    }

    #[test]
    fn a_clock_has_round_times_and_dates() {
        // 2026-11-21 22:10:41 UTC.
        let zero_s = 1_795_299_041.0;
        let check = |length, count, want: &[&str]| {
            let ticks = clock_ticks(zero_s, Span { from: 0.0, to: length }, count);
            assert_eq!(ticks.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), want, "{length}");
            assert!(ticks.iter().all(|&(x, _)| (0.0..=length).contains(&x)), "{ticks:?}");
        };
        check(30.0, 4, &["22:10:50", "22:11:00", "22:11:10"]);
        check(3_600.0, 4, &["22:15", "22:30", "22:45", "23:00"]);
        check(7_200.0, 4, &["22:30", "23:00", "23:30", "11-22"]);
        check(4.0 * 86_400.0, 5, &["11-22", "11-23", "11-24", "11-25"]);
        assert!(clock_ticks(zero_s, Span { from: 0.0, to: 1e12 }, 5).len() < 1_000);
    }

    #[test]
    fn midnights_are_those_of_the_clock_also_where_the_clock_is_changed() {
        const HOUR: f64 = 3_600.0;
        // Two days and three hours after the epoch clocks go from one hour ahead of UTC to two.
        let offset_s = |unix_s: f64| if unix_s < 51.0 * HOUR { HOUR } else { 2.0 * HOUR };
        let hours: Vec<f64> =
            round_times(0.0, 100.0 * HOUR, 24.0 * HOUR, offset_s).iter().map(|at| at / HOUR).collect();
        assert_eq!(format!("{hours:?}"), "[23.0, 47.0, 70.0, 94.0]");
    }

    #[test]
    fn a_far_mark_does_not_press_the_series_down() {
        let with = |mark| scale(&panel(Unit::default(), &[10.0], &[mark])).top;
        assert!((with(20.0) - 24.0).abs() < 1e-9);
        assert!((with(1_000.0) - 10.8).abs() < 1e-9);
        assert!((scale(&panel(Unit::default(), &[], &[8.0])).top - 9.6).abs() < 1e-9, "alone it is drawn");
    }

    #[test]
    fn strange_numbers_give_a_scale_all_the_same() {
        for values in [&[][..], &[0.0], &[f64::NAN, f64::INFINITY], &[1e300], &[1e-300], &[-5.0]] {
            let panel = panel(Unit::Bytes, values, &[f64::NAN]);
            let scale = scale(&panel);
            assert!(scale.top > 0.0 && scale.ticks(5).len() < 1_000, "{values:?}");
            let span = span(&Chart { panels: vec![panel], ..Chart::default() });
            assert!(span.to > span.from, "{values:?}");
            assert!(time_ticks(span, 9).0.len() < 1_000);
        }
    }
}
