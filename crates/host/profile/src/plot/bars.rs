//! A bar chart of a few figures: horizontal bars from 0, each with its name above and its figure behind it.
//!
//! A colour and an emphasis that differ in lightness, so that the picture holds in grey print.

use std::fmt::Write as _;

use super::layout::{Area, TITLE};
use super::svg::{escaped, rect};
use super::{PngError, font, png, scale};

/// Writing into a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => { let _ = writeln!($out, $($text)*); };
}

/// A bar chart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BarChart {
    /// The title line.
    pub title: String,
    /// The unit of the values.
    pub unit: String,
    /// The bars, from above.
    pub bars: Vec<Level>,
    /// The bottom line: the source of the figures.
    pub below: String,
}

/// A bar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// Its length; negative or not finite: no bar.
    pub value: f64,
    /// Further text behind its figure.
    pub told: String,
    /// Whether the bar is emphasized.
    pub strong: bool,
}

impl BarChart {
    /// The picture's height for a width, in pixels.
    #[must_use]
    pub fn height(&self, width: u32) -> u32 {
        let bars = u32::try_from(self.bars.len()).unwrap_or(u32::MAX).clamp(1, 100);
        let line = u32::try_from(crate::report::units::rounded(font_size(width))).unwrap_or(15);
        line * (5 + 4 * bars)
    }

    /// The picture as SVG, `width` by `height` pixels.
    #[must_use]
    pub fn to_svg(&self, width: u32, height: u32) -> String {
        let (wide, font_size) = (f64::from(width), font_size(width));
        let pad = 0.8 * font_size;
        let mut out = String::new();
        put!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"{}\" font-size=\"{font_size:.1}\" fill=\"#222\">",
            font::FAMILY
        );
        put!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>");
        let title = font::cut(&self.title, TITLE * font_size, wide - 2.0 * pad);
        put!(
            out,
            "<text x=\"{pad:.1}\" y=\"{:.1}\" font-size=\"{:.1}\">{}</text>",
            pad + TITLE * font_size,
            TITLE * font_size,
            escaped(&title)
        );
        let top = pad + (TITLE + 0.6) * font_size;
        if self.bars.is_empty() {
            put!(
                out,
                "<text x=\"{pad:.1}\" y=\"{:.1}\" fill=\"#555\">no figures</text>",
                top + 2.0 * font_size
            );
        }
        let figures: Vec<String> = self.bars.iter().map(|bar| self.figure(bar)).collect();
        // Reserves space for any figure behind the longest bar.
        let figure = figures.iter().map(|figure| font::width(figure, font_size)).fold(0.0, f64::max);
        let longest = (wide - 2.0 * pad - figure - font_size).max(0.3 * wide);
        let most =
            self.bars.iter().map(|bar| bar.value).filter(|value| value.is_finite()).fold(0.0, f64::max);
        let each = (f64::from(height) - top - 2.2 * font_size) / self.bars.len().max(1) as f64;
        for (at, (bar, figure)) in self.bars.iter().zip(&figures).enumerate() {
            let from = top + each * at as f64;
            let part = if most > 0.0 && bar.value.is_finite() { bar.value.max(0.0) / most } else { 0.0 };
            let area = Area {
                left: pad,
                top: from + 1.5 * font_size,
                width: (part * longest).max(1.0),
                height: (each - 2.3 * font_size).max(2.0),
            };
            let name = font::cut(&bar.name, font_size, wide - 2.0 * pad);
            put!(out, "<text x=\"{pad:.1}\" y=\"{:.1}\">{}</text>", from + 1.1 * font_size, escaped(&name));
            let (fill, stroke) = if bar.strong { ("#1a4f8a", "#0d2b4d") } else { ("#a8c6e4", "#1a4f8a") };
            put!(
                out,
                "{}",
                rect(&area, &format!(" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"0.8\""))
            );
            put!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                area.right() + 0.5 * font_size,
                area.top + area.height / 2.0 + 0.35 * font_size,
                escaped(&font::cut(figure, font_size, wide - pad - area.right()))
            );
        }
        let below = font::cut(&self.below, 0.9 * font_size, wide - 2.0 * pad);
        put!(
            out,
            "<text x=\"{pad:.1}\" y=\"{:.1}\" font-size=\"{:.1}\" fill=\"#555\">{}</text>",
            f64::from(height) - pad,
            0.9 * font_size,
            escaped(&below)
        );
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

    fn figure(&self, bar: &Level) -> String {
        if !bar.value.is_finite() {
            return bar.told.clone();
        }
        let value = scale::written(bar.value, 0.1);
        let figure = if self.unit.is_empty() { value } else { format!("{value} {}", self.unit) };
        if bar.told.is_empty() { figure } else { format!("{figure} ({})", bar.told) }
    }
}

fn font_size(width: u32) -> f64 {
    (f64::from(width) / 55.0).clamp(8.0, 18.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[f64]) -> BarChart {
        let level = |&value: &f64| Level {
            name: "by <hand>, with rather a long name that has to be cut somewhere".to_owned(),
            value,
            told: "2 of 3".to_owned(),
            strong: false,
        };
        BarChart {
            title: "how long".to_owned(),
            unit: "s".to_owned(),
            bars: values.iter().map(level).collect(),
            below: "a row".to_owned(),
        }
    }

    #[test]
    fn bars_of_anything_are_drawn_at_any_size() {
        for values in [&[][..], &[0.0], &[1.0, 43.51, 2.0], &[f64::NAN, -1.0, 1e300]] {
            for width in [1, 200, 1_000, 3_000] {
                let chart = chart(values);
                let svg = chart.to_svg(width, chart.height(width));
                assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("<hand>"), "{svg}");
            }
        }
        let svg = chart(&[43.51, 4.0]).to_svg(1_000, 300);
        assert!(svg.contains("43.5 s (2 of 3)") && svg.contains(">a row<"), "{svg}");
        assert!(chart(&[1.0]).to_png(300, 100).unwrap().starts_with(b"\x89PNG"));
        assert!(chart(&[]).to_svg(300, 100).contains("no figures"));
    }
}
