//! A Gantt chart of jobs: a row per place, a bar per stay, and panels of series below over the same time.

use std::fmt::Write as _;

use super::layout::{Area, Layout};
use super::svg::{escaped, rect};
use super::{Chart, PngError, font, png, svg};

/// Bars of neighbours differ in colour and in lightness.
const FILLS: [&str; 6] = ["#1a4f8a", "#a8c6e4", "#c2500f", "#f3c9a8", "#2f7d4f", "#bfe0c8"];
/// The rows' part of the picture's height, where panels follow below.
const ROWS_PART: f64 = 0.6;

/// A picture of places over time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gantt {
    /// Groups of rows with their names, from above; a name stands at the first row of its group.
    pub groups: Vec<(String, Vec<Vec<Bar>>)>,
    /// The title line, and the panels below.
    pub below: Chart,
}

/// A stay.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// From when, in seconds.
    pub from_s: f64,
    /// Until when.
    pub to_s: f64,
    /// Its name, shown if it fits.
    pub name: String,
    /// Index of its colour.
    pub colour: usize,
}

impl Gantt {
    /// The picture as SVG, `width` by `height` pixels.
    #[must_use]
    pub fn to_svg(&self, width: u32, height: u32) -> String {
        let (wide, high) = (f64::from(width), f64::from(height));
        let rows = if self.below.panels.is_empty() { 0.9 } else { ROWS_PART } * high;
        let chart = Chart { title: String::new(), ..self.below.clone() };
        let layout = Layout::new(&chart, wide, high - rows);
        let size = layout.font_size;
        let Some(plot) = layout.places.first().map(|place| place.plot) else {
            return svg::draw(&self.below, width, height);
        };
        let top = 2.2 * size;
        let area = Area { left: plot.left, top, width: plot.width, height: (rows - top).max(1.0) };
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"{}\" font-size=\"{size:.1}\" fill=\"#222\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n",
            font::FAMILY
        );
        let title = escaped(&font::cut(&self.below.title, 1.25 * size, wide - 2.0 * size));
        let big = 1.25 * size;
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{big:.1}\">{title}</text>",
            0.8 * size,
            1.6 * size
        );
        self.draw_rows(&area, (layout.span.from, layout.span.to), size, &mut out);
        let _ = writeln!(out, "<g transform=\"translate(0 {rows:.1})\">");
        out.push_str(&svg::draw(&chart, width, pixels(high - rows)));
        out.push_str("</g>\n</svg>\n");
        out
    }

    /// The picture as PNG, `width` by `height` pixels.
    ///
    /// # Errors
    /// When the size is 0 or more than memory can hold.
    pub fn to_png(&self, width: u32, height: u32) -> Result<Vec<u8>, PngError> {
        png::draw(&self.to_svg(width, height), width, height)
    }

    fn draw_rows(&self, area: &Area, (from, to): (f64, f64), size: f64, out: &mut String) {
        let count: usize = self.groups.iter().map(|(_, rows)| rows.len()).sum();
        let each = area.height / crate::report::units::precise(count.max(1) as u64);
        let mut top = area.top;
        let mut named = f64::MIN;
        for (name, rows) in &self.groups {
            // Names that would overlap are left out.
            if top - named >= 1.1 * size {
                named = top;
                let (x, y) = (area.left - 0.5 * size, top + size);
                let text = escaped(&font::cut(name, size, area.left - size));
                let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>");
            }
            let (left, right) = (area.left, area.left + area.width);
            let _ = writeln!(out, "<path d=\"M{left:.1} {top:.1}H{right:.1}\" stroke=\"#ddd\"/>");
            for row in rows {
                for bar in row {
                    let place = |at: f64| area.left + (at - from) / (to - from) * area.width;
                    let (left, right) = (place(bar.from_s), place(bar.to_s));
                    let width = (right - left).max(0.5);
                    let height = (each - if each > 3.0 { 1.0 } else { 0.0 }).max(0.3);
                    let fill = FILLS[bar.colour % FILLS.len()];
                    let attributes = format!(" fill=\"{fill}\"");
                    let _ = writeln!(out, "{}", rect(&Area { left, top, width, height }, &attributes));
                    if each > 1.1 * size && font::width(&bar.name, size) + 4.0 < width {
                        let ink = if bar.colour % 2 == 0 { "#fff" } else { "#222" };
                        let (x, y) = (left + 2.0, top + 0.5 * (each + 0.7 * size));
                        let name = escaped(&bar.name);
                        let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{ink}\">{name}</text>");
                    }
                }
                top += each;
            }
        }
        let _ = writeln!(out, "{}", rect(area, " fill=\"none\" stroke=\"#555\""));
    }
}

/// Whole pixels, at least 1.
fn pixels(length: f64) -> u32 {
    u32::try_from(crate::report::units::rounded(length.max(1.0))).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Panel, Series, Unit};

    #[test]
    fn rows_stand_above_panels_of_the_same_time() {
        let bar = |from_s, to_s, name: &str| Bar { from_s, to_s, name: name.to_owned(), colour: 0 };
        let series = Series { points: vec![(0.0, 1.0), (100.0, 3.0)], ..Series::default() };
        let panel =
            Panel { title: "memory".to_owned(), unit: Unit::Bytes, series: vec![series], ..Panel::default() };
        let gantt = Gantt {
            groups: vec![
                ("<".to_owned(), vec![vec![bar(0.0, 50.0, "1")], vec![bar(10.0, 100.0, "a&b")]]),
                ("1".to_owned(), vec![vec![]]),
            ],
            below: Chart { title: "t".to_owned(), panels: vec![panel], ..Chart::default() },
        };
        for (width, height) in [(200, 200), (1000, 700)] {
            let svg = gantt.to_svg(width, height);
            assert!(svg.contains(">&lt;</text>") && !svg.contains("NaN"), "{svg}");
            assert!(gantt.to_png(width, height).unwrap().starts_with(b"\x89PNG"));
        }
        assert!(gantt.to_svg(1000, 700).contains("a&amp;b"));
        assert!(Gantt::default().to_svg(300, 300).starts_with("<svg"));
    }
}
