//! Distributions of many jobs' figures: histograms of peak and mean memory, CPU time and run time, with median, 90th
//! percentile and maximum marked.
//!
//! Bars are counts of jobs, so their axis begins at 0; the other axis is linear between round numbers, or logarithmic
//! where a long tail would leave all but a few jobs in the first bar. Drawn in one colour with dark edges, so that it
//! holds in grey.

mod bars;
mod text;

use std::fmt::Write as _;

use pinfold_proto::view::ReportView;

use super::layout::{Area, TITLE, ticks_in};
use super::svg::{escaped, rect};
use super::{PngError, Unit, font, png, scale};
use crate::report::units::{counted, precise};
use bars::Bars;

/// Writing into a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => { let _ = writeln!($out, $($text)*); };
}

/// A picture of histograms.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spread {
    /// The title line.
    pub title: String,
    /// The histograms.
    pub parts: Vec<Histogram>,
}

/// A histogram.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    /// The quantity, for example `peak memory`; the unit is added.
    pub title: String,
    /// The unit of the values; of bare numbers `s` means seconds, shown as minutes or hours where these fit.
    pub unit: Unit,
    /// A value per job, ascending. Negative and not finite values are dropped before.
    values: Vec<f64>,
}

impl Histogram {
    /// Of these values.
    #[must_use]
    pub fn new(title: &str, unit: Unit, mut values: Vec<f64>) -> Self {
        values.retain(|value| value.is_finite() && *value >= 0.0);
        values.sort_by(f64::total_cmp);
        Self { title: title.to_owned(), unit, values }
    }

    /// The percentile; the nearest existing value.
    fn at(&self, percent: usize) -> Option<f64> {
        let last = self.values.len().checked_sub(1)?;
        self.values.get((last * percent + 50) / 100).copied()
    }
}

/// The jobs that ran, as four histograms.
#[must_use]
pub fn spread(name: &str, views: &[ReportView]) -> Spread {
    let ran: Vec<&ReportView> = views.iter().filter(|view| view.started_s.is_some()).collect();
    let part = |title: &str, unit: Unit, figure: &dyn Fn(&ReportView) -> f64| {
        Histogram::new(title, unit, ran.iter().map(|view| figure(view)).collect())
    };
    let jobs = counted(ran.len() as u64, "job");
    Spread {
        title: format!("{name}: {jobs}"),
        parts: vec![
            part("peak memory", Unit::Bytes, &|view| precise(view.memory_peak_bytes)),
            part("mean memory", Unit::Bytes, &|view| precise(view.memory_mean_bytes)),
            part("CPU time", "s".into(), &|view| view.cpu_user_s + view.cpu_system_s),
            part("run time", "s".into(), &|view| view.wall_s.unwrap_or(f64::NAN)),
        ],
    }
}

impl Spread {
    /// The picture as SVG, `width` by `height` pixels.
    #[must_use]
    pub fn to_svg(&self, width: u32, height: u32) -> String {
        let (wide, high) = (f64::from(width), f64::from(height));
        let font_size = (wide / 70.0).min(high / 36.0).clamp(8.0, 15.0);
        let mut out = String::new();
        put!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"{}\" font-size=\"{font_size:.1}\" fill=\"#222\">",
            font::FAMILY
        );
        put!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>");
        let pad = 0.8 * font_size;
        let title = font::cut(&self.title, TITLE * font_size, wide - 2.0 * pad);
        let top = pad + 1.9 * font_size;
        put!(
            out,
            "<text x=\"{pad:.1}\" y=\"{:.1}\" font-size=\"{:.1}\">{}</text>",
            pad + TITLE * font_size,
            TITLE * font_size,
            escaped(&title)
        );
        let key = "height: jobs; line: median, dashes: p90, dots: max";
        let free = wide - 2.0 * pad - font::width(&title, TITLE * font_size);
        if font::width(key, font_size) + 2.0 * font_size < free {
            put!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{key}</text>",
                wide - pad,
                pad + TITLE * font_size
            );
        }
        // Two columns where each keeps enough width.
        let columns = if wide / font_size >= 44.0 { 2 } else { 1 };
        let rows = self.parts.len().div_ceil(columns).max(1);
        let cell = |count: usize, room: f64| room / precise(count as u64);
        let (cell_wide, cell_high) = (cell(columns, wide), cell(rows, high - top));
        for (at, part) in self.parts.iter().enumerate() {
            let area = Area {
                left: precise((at % columns) as u64) * cell_wide,
                top: top + precise((at / columns) as u64) * cell_high,
                width: cell_wide,
                height: cell_high,
            };
            draw(part, &area, font_size, &mut out);
        }
        out.push_str("</svg>\n");
        out
    }

    /// The picture as PNG, `width` by `height` pixels.
    ///
    /// # Errors
    /// When the size is 0 or more than memory can hold.
    pub fn to_png(&self, width: u32, height: u32) -> Result<Vec<u8>, PngError> {
        png::draw(&self.to_svg(width, height), width, height)
    }

    /// The picture in characters: lines of up to `width`, about `height` lines.
    #[must_use]
    pub fn to_text(&self, width: usize, height: usize) -> String {
        text::draw(self, width, height)
    }
}

fn draw(part: &Histogram, cell: &Area, font_size: f64, out: &mut String) {
    let bars = Bars::new(part);
    let most = precise(bars.highest().max(1));
    let jobs = scale::whole_ticks(most, ticks_in((cell.height - 5.0 * font_size) / (2.0 * font_size), 6));
    let label = jobs.iter().map(|(_, text)| font::width(text, font_size)).fold(font_size, f64::max);
    let left = cell.left + 0.8 * font_size + label + 0.5 * font_size;
    let plot = Area {
        left,
        top: cell.top + 3.1 * font_size,
        width: (cell.right() - left - 1.2 * font_size).max(10.0),
        height: (cell.height - 6.0 * font_size).max(2.0 * font_size),
    };
    let head = font::cut(&bars.titled(part), font_size, plot.width);
    put!(
        out,
        "<text x=\"{left:.1}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        cell.top + 1.1 * font_size,
        escaped(&head)
    );
    let told = if part.values.is_empty() { "no job ran".to_owned() } else { bars.told(part) };
    let told = font::cut(&told, 0.95 * font_size, plot.width);
    put!(out, "<text x=\"{left:.1}\" y=\"{:.1}\" fill=\"#555\">{told}</text>", cell.top + 2.5 * font_size);
    let top = most * 1.06;
    for (value, text) in &jobs {
        let y = plot.bottom() - value / top * plot.height;
        put!(out, "<path d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"#ddd\"/>", plot.left, plot.right());
        let (x, y) = (plot.left - 0.5 * font_size, y + 0.35 * font_size);
        put!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>");
    }
    let at_place = |place: f64| plot.left + (place - bars.from) / (bars.to() - bars.from) * plot.width;
    let x_of = |value: f64| at_place(bars.place(value));
    for (at, &count) in bars.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let from = bars.from + precise(at as u64) * bars.step;
        // A single job among thousands must still show as a line.
        let height = (precise(count) / top * plot.height).max(1.0);
        let (from, to) = (at_place(from), at_place(from + bars.step));
        let bar = Area { left: from, top: plot.bottom() - height, width: to - from, height };
        put!(out, "{}", rect(&bar, " fill=\"#a8c6e4\" stroke=\"#1a4f8a\" stroke-width=\"0.8\""));
    }
    for ((value, _), dashes) in bars.marks(part).into_iter().zip(["", "5 3", "1.5 2.5"]) {
        let x = x_of(value);
        put!(
            out,
            "<path d=\"M{x:.1} {:.1}V{:.1}\" stroke=\"#222\" stroke-width=\"1.4\" stroke-dasharray=\"{dashes}\"/>",
            plot.top,
            plot.bottom()
        );
    }
    put!(out, "{}", rect(&plot, " fill=\"none\" stroke=\"#555\""));
    for (value, text) in bars.ticks(ticks_in(plot.width / (4.5 * font_size), 9)) {
        let x = x_of(value);
        put!(out, "<path d=\"M{x:.1} {:.1}v{:.1}\" stroke=\"#555\"/>", plot.bottom(), 0.35 * font_size);
        let y = plot.bottom() + 1.35 * font_size;
        // A number below the last edge would leave the cell.
        let x = x.min(cell.right() - 0.2 * font_size - font::width(&text, font_size) / 2.0);
        put!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>");
    }
}

#[cfg(test)]
mod tests;
