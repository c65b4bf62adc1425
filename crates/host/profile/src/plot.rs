//! Pictures: panels of series over time, as SVG, as PNG, and as characters in a terminal.
//!
//! A [`Chart`] is plain data; the three renderers share scales and ticks. The SVG is written here and not by a
//! plotting library, because frozen intervals are hatched and lines dashed so that the picture holds in grey print,
//! and because labels must know their own width to stay clear of each other. The PNG is that SVG, drawn with a
//! built-in font. Further charts: runs compared ([`comparison`]), the host over time ([`host_chart`]), jobs over
//! cores and time ([`Gantt`]), distributions of many jobs' figures ([`Spread`]), and a few figures as bars
//! ([`BarChart`]). Absent here: files and the store.

mod bars;
mod compare;
mod font;
mod gantt;
mod gaps;
mod host;
mod layout;
mod png;
mod scale;
mod spread;
mod svg;
mod text;
mod thin;

use pinfold_proto::JobState;
use pinfold_proto::view::{PointView, ReportView};

pub use bars::{BarChart, Level};
pub use compare::{COMPARED_MAX, STACKED_MAX, comparison, stacked};
pub use font::{FAMILY as FONT_FAMILY, cut as text_cut};
pub use gantt::{Bar, Gantt};
pub use host::host_chart;
pub use png::{PngError, draw as svg_to_png};
pub use spread::{Histogram, Spread, spread};

use crate::report::units::{counted, precise};
use crate::report::{duration, size};

/// A picture: panels stacked over a common time axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chart {
    /// The title line.
    pub title: String,
    /// Text behind the title; kept whole when the title has to be cut.
    pub told: String,
    /// The panels, from above; with several columns from left to right.
    pub panels: Vec<Panel>,
    /// Number of panels side by side; 0: stacked as long as the panels keep some height.
    pub columns: usize,
    /// Intervals to shade in every panel, in seconds: from, to, name. Intervals of the same name look alike.
    pub shaded: Vec<(f64, f64, String)>,
    /// The text in place of missing series.
    pub without: String,
    /// Least end of the time axis, in seconds; 0: the end of the series.
    pub until_s: f64,
    /// Unix seconds at second 0, when the time axis shows dates and times of day; `None`: it counts from 0.
    pub clock_s: Option<f64>,
    /// The quantity of the axis in place of seconds.
    pub across: Option<Across>,
}

/// An axis without time; values are shown as numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Across {
    /// The quantity.
    pub title: String,
    /// In which unit.
    pub unit: String,
}

impl Chart {
    /// The intervals to shade in a panel.
    fn shaded_in<'a>(&'a self, panel: &'a Panel) -> impl Iterator<Item = &'a (f64, f64, String)> {
        self.shaded.iter().chain(&panel.shaded)
    }

    /// Whether the chart has no drawable points.
    fn is_empty(&self) -> bool {
        let finite = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        !self.panels.iter().flat_map(|panel| &panel.series).any(|series| series.points.iter().any(finite))
    }
}

/// A panel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel {
    /// The quantity, for example `memory`; the unit is added.
    pub title: String,
    /// The unit of its values.
    pub unit: Unit,
    /// Its series, the first at the back.
    pub series: Vec<Series>,
    /// Levels to mark by a horizontal line: value, name. A level far above all series is named but not drawn.
    pub marks: Vec<(f64, String)>,
    /// The least upper end of the axis; 0: as the series need.
    pub at_least: f64,
    /// The text in place of series that are all 0, for example `nothing was read`; empty: the series are drawn.
    pub when_zero: String,
    /// Intervals to shade in this panel alone, as [`Chart::shaded`].
    pub shaded: Vec<(f64, f64, String)>,
}

impl Panel {
    /// The text in place of its series: `without` if there are no values, [`Self::when_zero`] if no value is above 0.
    fn sentence<'a>(&'a self, without: &'a str) -> Option<&'a str> {
        let mut values = self
            .series
            .iter()
            .flat_map(|series| &series.points)
            .filter(|(x, y)| x.is_finite() && y.is_finite());
        let Some((_, first)) = values.next() else { return Some(without) };
        let is_zero = *first <= 0.0 && values.all(|&(_, y)| y <= 0.0);
        (is_zero && !self.when_zero.is_empty()).then_some(&self.when_zero)
    }

    /// Gives compared panels the same axis.
    pub fn level(panels: &mut [Self]) {
        let series = panels.iter().map(scale::highest).fold(0.0, f64::max);
        panels.iter_mut().for_each(|panel| panel.at_least = series);
        let near = |panel: &Self| {
            let marks = panel.marks.iter().map(|&(mark, _)| mark);
            marks.filter(|&mark| scale::is_near(panel, mark)).fold(series, f64::max)
        };
        let all = panels.iter().map(near).fold(series, f64::max);
        panels.iter_mut().for_each(|panel| panel.at_least = all);
    }
}

/// The unit of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, shown in KiB, MiB, GiB, whichever fits.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Another unit by its name; empty: a bare number.
    Plain(String),
}

impl Default for Unit {
    fn default() -> Self {
        Self::Plain(String::new())
    }
}

impl From<&str> for Unit {
    fn from(name: &str) -> Self {
        Self::Plain(name.to_owned())
    }
}

/// A series of values over time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Seconds and values, by time. A value that is not finite is a gap.
    pub points: Vec<(f64, f64)>,
    /// Its drawing style.
    pub style: Style,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// A line, and the area below it filled.
    Area,
    /// A line.
    #[default]
    Line,
    /// A thin line.
    Thin,
    /// A stepped line: each value holds since the point before, like a mean over that time.
    Steps,
    /// Steps, and the area below them filled.
    StepArea,
}

impl Style {
    const fn filled(self) -> bool {
        matches!(self, Self::Area | Self::StepArea)
    }

    const fn stepped(self) -> bool {
        matches!(self, Self::Steps | Self::StepArea)
    }
}

impl Chart {
    /// The picture as SVG, `width` by `height` pixels.
    #[must_use]
    pub fn to_svg(&self, width: u32, height: u32) -> String {
        svg::draw(self, width, height)
    }

    /// The picture as PNG, `width` by `height` pixels.
    ///
    /// # Errors
    /// When the size is 0 or more than memory can hold.
    pub fn to_png(&self, width: u32, height: u32) -> Result<Vec<u8>, PngError> {
        png::draw(&self.to_svg(width, height), width, height)
    }

    /// The picture in characters: lines of up to `width`, up to `height` lines where the panels leave room.
    #[must_use]
    pub fn to_text(&self, width: usize, height: usize) -> String {
        text::draw(self, width, height)
    }
}

/// A job's usage over time: memory with its claim and peak, cores, and storage, with frozen intervals shaded. Without
/// a series only the marks are drawn.
#[must_use]
pub fn job_chart(view: &ReportView) -> Chart {
    let points = view.series.as_deref().unwrap_or(&[]);
    let start_s = view.started_s.or(points.first().map(|point| point.time_s)).unwrap_or(0.0);
    let unread = unread(points, start_s);
    let over = |figure: &dyn Fn(&PointView) -> f64| -> Vec<(f64, f64)> {
        points.iter().map(|point| (point.time_s - start_s, figure(point))).collect()
    };
    let series = |name: &str, style, points| Series {
        name: name.to_owned(),
        points: gaps::cut(points, &unread),
        style,
    };
    let mut memory =
        vec![series("anonymous and shared", Style::Area, over(&|point| precise(point.memory_bytes)))];
    if points.iter().any(|point| point.swap_bytes > 0) {
        memory.push(series("swap", Style::Line, over(&|point| precise(point.swap_bytes))));
    }
    if points.iter().any(|point| point.cache_bytes.is_some()) {
        let cache = over(&|point| point.cache_bytes.map_or(f64::NAN, precise));
        memory.push(series("page cache", Style::Thin, cache));
    }
    let mut marks = vec![(precise(view.memory_peak_bytes), format!("peak {}", size(view.memory_peak_bytes)))];
    marks.extend(view.claim_bytes.map(|claim| (precise(claim), format!("claim {}", size(claim)))));
    marks.extend(view.limit_bytes.map(|limit| (precise(limit), format!("limit {}", size(limit)))));
    let mut cores = since_start(over(&|point| point.cpu_cores));
    cores.extend(last_cores(view, &cores));
    let cores = series("", Style::StepArea, cores);
    let read = series("", Style::Steps, rates(points, start_s, |point| point.io_read_bytes));
    let written = series("", Style::Steps, rates(points, start_s, |point| point.io_write_bytes));
    let panel = |title: &str, unit, series, marks| Panel {
        title: title.to_owned(),
        unit,
        series,
        marks,
        ..Panel::default()
    };
    let mut storage = [
        panel("read", Unit::BytesPerSecond, vec![read], Vec::new()),
        panel("written", Unit::BytesPerSecond, vec![written], Vec::new()),
    ];
    Panel::level(&mut storage);
    for (panel, what) in
        storage.iter_mut().zip(["nothing was read from storage", "nothing was written to storage"])
    {
        what.clone_into(&mut panel.when_zero);
    }
    let mut panels = vec![
        // A peak between two samples belongs into the picture as well.
        Panel { at_least: precise(view.memory_peak_bytes), ..panel("memory", Unit::Bytes, memory, marks) },
        // At least a core, so that low usage looks low.
        Panel { at_least: 1.0, ..panel("CPU", "cores in use".into(), vec![cores], Vec::new()) },
    ];
    panels.extend(storage);
    let mut shaded = stopped(points, start_s);
    shaded.extend(gaps::shaded(&unread));
    Chart {
        title: format!("job {}: {}", view.job, words(view)),
        told: ended(view),
        panels,
        shaded,
        without: without_samples(view),
        until_s: view.wall_s.unwrap_or(0.0),
        ..Chart::default()
    }
}

/// A job's name, with its command unless the name is the program's.
fn words(view: &ReportView) -> String {
    let command = view.command.join(" ");
    let program = view.command.first().and_then(|word| word.rsplit('/').next());
    match program {
        None => view.name.clone(),
        Some(program) if program == view.name => command,
        Some(_) => format!("{}: {command}", view.name),
    }
}

/// A job's ending, and its granted cores.
fn ended(view: &ReportView) -> String {
    format!("{}, {}", crate::report::end(view), granted(view))
}

/// The cores that a job was granted.
fn granted(view: &ReportView) -> String {
    let cores = counted(view.cores.into(), "core");
    match &view.cpus {
        Some(cpus) => format!("{cores} ({cpus})"),
        None => cores,
    }
}

/// The shortest gap between samples, in seconds, that counts as absence of the daemon.
const UNREAD_S: f64 = 10.0;

/// The times in which no sample was taken, from the start.
fn unread(points: &[PointView], start_s: f64) -> Vec<(f64, f64)> {
    gaps::find(points.iter().map(|point| point.time_s - start_s), UNREAD_S)
}

/// Why a job has no series.
fn without_samples(view: &ReportView) -> String {
    match (view.wall_s, view.samples) {
        (None, _) => "no samples: it has not run".to_owned(),
        (Some(wall_s), 0) => format!("no samples: it ran for {}, and none was taken", duration(wall_s)),
        (Some(_), count) => format!("no samples: {count} were taken, and are not kept any more"),
    }
}

/// Steps from the start: the first value holds since then.
fn since_start(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if let Some(&(_, value)) = points.first() {
        points.insert(0, (0.0, value));
    }
    points
}

/// The cores in use from the last sample to the end of an ended job, from its total CPU time. `None` if that time is
/// too short.
fn last_cores(view: &ReportView, steps: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (last_s, end_s) = (steps.last()?.0, view.wall_s.filter(|_| view.ended_s.is_some())?);
    let told_s: f64 = steps.windows(2).map(|pair| (pair[1].0 - pair[0].0) * pair[1].1).sum();
    let left_s = (view.cpu_user_s + view.cpu_system_s - told_s).max(0.0);
    let span_s = end_s - last_s;
    (span_s > 0.1).then(|| (end_s, (left_s / span_s).min(f64::from(view.cores.max(1)))))
}

/// Bytes per second between consecutive points.
fn rates(points: &[PointView], start_s: f64, total: impl Fn(&PointView) -> u64) -> Vec<(f64, f64)> {
    let mut before = (start_s, 0);
    let rates = points.iter().map(|point| {
        let (span_s, bytes) = (point.time_s - before.0, total(point).saturating_sub(before.1));
        before = (point.time_s, total(point));
        (point.time_s - start_s, if span_s > 0.0 { precise(bytes) / span_s } else { 0.0 })
    });
    since_start(rates.collect())
}

/// The intervals in which a job was frozen or parked. The state of a sample holds since the sample before, as its
/// figures do.
fn stopped(points: &[PointView], start_s: f64) -> Vec<(f64, f64, String)> {
    let mut shaded: Vec<(f64, f64, String)> = Vec::new();
    let mut from = 0.0;
    for point in points {
        let to = point.time_s - start_s;
        let word = match point.state {
            JobState::Frozen => "frozen",
            JobState::Parked => "parked",
            _ => "",
        };
        match shaded.last_mut() {
            _ if word.is_empty() => {}
            Some((_, end, name)) if name == word && *end >= from => *end = to,
            _ => shaded.push((from, to, word.to_owned())),
        }
        from = to;
    }
    shaded
}

#[cfg(test)]
mod tests;
