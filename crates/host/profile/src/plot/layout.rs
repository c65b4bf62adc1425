//! The layout of a picture: sizes from the picture's own, legends in as many lines as they need, marks with their
//! labels clear of each other. Lengths are pixels.

use super::scale::{self, Scale, Span};
use super::{Chart, Panel, font};

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }
}

/// The object of a legend's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// A series of the panel.
    Series(usize),
    /// A kind of shaded interval.
    Shade(usize),
}

/// A legend's entry: its swatch begins at `x`, `y` is the baseline of its text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Legend {
    pub(super) entry: Entry,
    pub(super) text: String,
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A panel's place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    /// Its title, and the title's baseline.
    pub(super) title: (String, f64),
    pub(super) legend: Vec<Legend>,
    /// The inside of its axes.
    pub(super) plot: Area,
    pub(super) scale: Scale,
    pub(super) ticks: Vec<(f64, String)>,
}

/// The whole picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub(super) font_size: f64,
    pub(super) title: Option<(String, f64)>,
    /// The text behind the title, and its start.
    pub(super) told: Option<(String, f64)>,
    pub(super) places: Vec<Place>,
    /// Number of columns of panels.
    pub(super) columns: usize,
    pub(super) span: Span,
    /// The distinct names of the shaded intervals.
    pub(super) shades: Vec<String>,
}

/// How much larger the title is.
pub(super) const TITLE: f64 = 1.25;

/// The width of a legend's swatch, in font sizes.
pub(super) const SWATCH: f64 = 1.8;

/// A line of text, in font sizes.
const LINE: f64 = 1.5;

/// The least useful height of a panel, in font sizes.
const LOW: f64 = 4.0;

/// The least useful width of a column, in font sizes.
const NARROW: f64 = 16.0;

impl Layout {
    pub(super) fn new(chart: &Chart, width: f64, height: f64) -> Self {
        let font_size = (width / 70.0).min(height / 36.0).clamp(8.0, 15.0);
        let shades = shades(chart);
        let scales: Vec<Scale> = chart.panels.iter().map(scale::scale).collect();
        let pad = 0.8 * font_size;
        let (title, told) = titles(chart, font_size, width - 2.0 * pad);
        let top = title.as_ref().map_or(pad, |_| pad + (TITLE + 0.6) * font_size);
        let title = title.map(|title| (title, pad + TITLE * font_size));
        // Ticks of a panel of ordinary height; the widest label sets the indent of all panels, to align them.
        let labels =
            scales.iter().flat_map(|scale| scale.ticks(6)).map(|(_, text)| font::width(&text, font_size));
        let label = pad + labels.fold(1.5 * font_size, f64::max) + 0.5 * font_size;
        let columns = columns(chart, (width / font_size, (height - top) / font_size));
        let column = width / float(columns);
        let inside = (column - label - 1.5 * font_size).max(10.0);
        let left = |at: usize| float(at % columns) * column + label;
        let mut heads: Vec<Vec<Legend>> = Vec::new();
        for (at, (panel, scale)) in chart.panels.iter().zip(&scales).enumerate() {
            let shades = if at == 0 { &shades[..] } else { &[] };
            let title = titled(panel, scale, font_size, inside);
            heads.push(legend(panel, &title, shades, font_size, (left(at), left(at) + inside)));
        }
        let lines =
            |head: &Vec<Legend>| head.last().map_or(1.0, |last| 1.0 + (last.y / (LINE * font_size)).round());
        let gap = 0.7 * font_size;
        let head_heights: Vec<f64> = heads
            .chunks(columns)
            .map(|row| row.iter().map(lines).fold(1.0, f64::max) * LINE * font_size + 0.3 * font_size)
            .collect();
        let axis = 2.9 * font_size;
        let rows = float(head_heights.len().max(1));
        let room = height - top - axis - head_heights.iter().sum::<f64>() - gap * (rows - 1.0);
        let plot_height = (room / rows).max(2.0 * font_size);
        let mut places = Vec::new();
        for (at, ((panel, scale), mut legend)) in chart.panels.iter().zip(scales).zip(heads).enumerate() {
            let row = at / columns;
            let above: f64 = head_heights[..row].iter().map(|head| head + plot_height + gap).sum();
            let base = top + above + 1.1 * font_size;
            legend.iter_mut().for_each(|entry| entry.y += base);
            let plot = Area {
                left: left(at),
                top: top + above + head_heights[row],
                width: inside,
                height: plot_height,
            };
            let ticks = scale.ticks(ticks_in(plot_height / (2.0 * font_size), 7));
            let title = (titled(panel, &scale, font_size, inside), base);
            places.push(Place { title, legend, plot, scale, ticks });
        }
        let told = told.map(|told| {
            let behind = title.as_ref().map_or(0.0, |(title, _)| font::width(title, TITLE * font_size));
            (told, pad + behind + font_size)
        });
        Self { font_size, title, told, places, columns, span: scale::span(chart), shades }
    }
}

/// The title and the text behind it, cut to the space: the title is cut first.
fn titles(chart: &Chart, font_size: f64, room: f64) -> (Option<String>, Option<String>) {
    if chart.title.is_empty() {
        return (None, None);
    }
    let told = (!chart.told.is_empty()).then(|| font::cut(&chart.told, font_size, 0.6 * room));
    let beside = told.as_ref().map_or(0.0, |told| font::width(told, font_size) + font_size);
    (Some(font::cut(&chart.title, TITLE * font_size, room - beside)), told)
}

/// The number of columns for a size in font sizes: the chart's number as far as it fits; by default two where a
/// single column would be too low.
fn columns(chart: &Chart, (width, height): (f64, f64)) -> usize {
    let panels = chart.panels.len().max(1);
    let fits = |columns: usize| columns == 1 || width / float(columns) >= NARROW;
    let wanted = match chart.columns {
        0 if height / float(panels) < LOW + LINE && panels > 2 => 2,
        columns => columns.max(1),
    };
    (1..=wanted.min(panels)).rev().find(|&columns| fits(columns)).unwrap_or(1)
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// How many ticks have room.
pub(super) fn ticks_in(room: f64, most: usize) -> usize {
    let room = usize::try_from(crate::report::units::rounded(room.floor())).unwrap_or(most);
    room.clamp(2, most)
}

/// The distinct names of the shaded intervals.
pub(super) fn shades(chart: &Chart) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (_, _, name) in chart.shaded.iter().chain(chart.panels.iter().flat_map(|panel| &panel.shaded)) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn titled(panel: &Panel, scale: &Scale, font_size: f64, room: f64) -> String {
    let title = match (panel.title.as_str(), scale.unit.as_str()) {
        (title, "") => title.to_owned(),
        ("", unit) => unit.to_owned(),
        (title, unit) => format!("{title} ({unit})"),
    };
    font::cut(&title, font_size, room)
}

/// Entries from left to right beside the title, and on further lines below when they do not fit; `y` counts from the
/// title's line. A single series under a title needs no legend of its own, unless it is shaded.
fn legend(
    panel: &Panel,
    title: &str,
    shades: &[String],
    font_size: f64,
    (left, right): (f64, f64),
) -> Vec<Legend> {
    let series = panel.series.iter().enumerate().map(|(at, series)| {
        let cut = if scale::is_cut(panel, series) { " (goes above)" } else { "" };
        (Entry::Series(at), format!("{}{cut}", series.name))
    });
    let shades = shades.iter().enumerate().map(|(at, name)| (Entry::Shade(at), name.clone()));
    let far = panel.marks.iter().filter(|&&(value, _)| !scale::is_near(panel, value) && value.is_finite());
    let far: Vec<String> = far.map(|(_, name)| format!("{name} (above)")).collect();
    let mut x = left + font::width(title, font_size) + 1.6 * font_size;
    let mut y = 0.0;
    let mut entries = Vec::new();
    for (entry, text) in series.chain(shades).filter(|(_, text)| !text.is_empty()) {
        let text = font::cut(&text, font_size, right - left - (SWATCH + 0.5) * font_size);
        let wide = (SWATCH + 0.5) * font_size + font::width(&text, font_size);
        if x + wide > right {
            x = left;
            y += LINE * font_size;
        }
        entries.push(Legend { entry, text, x, y });
        x += wide + 1.4 * font_size;
    }
    if let Some(last) = entries.last_mut().filter(|_| !far.is_empty()) {
        last.text = format!("{}; {}", last.text, far.join(", "));
    }
    entries
}

/// A mark's line and its label: the height of the line, the label, and the label's baseline.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) line: f64,
    pub(super) label: String,
    pub(super) base: f64,
}

/// The drawn marks of a panel, with labels that do not overlap: each just above its line if free, else pushed below
/// the label before.
pub(super) fn marks(panel: &Panel, place: &Place, font_size: f64) -> Vec<Mark> {
    let near = panel.marks.iter().filter(|&&(value, _)| scale::is_near(panel, value));
    let mut marks: Vec<Mark> = near
        .map(|(value, label)| {
            let line = place.plot.bottom() - value / place.scale.top * place.plot.height;
            let label = font::cut(label, font_size, place.plot.width - font_size);
            Mark { line, label, base: line - 0.3 * font_size }
        })
        .collect();
    marks.sort_by(|one, other| one.line.total_cmp(&other.line));
    let mut free = place.plot.top + font_size;
    for mark in &mut marks {
        mark.base = mark.base.max(free);
        free = mark.base + 1.25 * font_size;
    }
    // Labels pushed out at the bottom move up, and push the labels above them.
    let mut floor = place.plot.bottom() - 0.3 * font_size;
    for mark in marks.iter_mut().rev() {
        mark.base = mark.base.min(floor);
        floor = mark.base - 1.25 * font_size;
    }
    marks
}
