//! A chart as SVG. Colours differ also in lightness, lines also in dashes, shades in hatching, so that grey print
//! keeps all information.

use std::fmt::Write as _;

use super::layout::{Area, Entry, Layout, Place, SWATCH, TITLE, marks, ticks_in};
use super::{Chart, Panel, Style, font, scale, thin};

/// Stroke, fill and dashes of a series by its index in the panel.
const LOOKS: [(&str, &str, &str); 4] = [
    ("#1a4f8a", "#a8c6e4", ""),
    ("#c2500f", "#f3c9a8", "7 3"),
    ("#2f7d4f", "#bfe0c8", "2 2"),
    ("#6d4a9e", "#d5c8e8", "8 3 2 3"),
];

/// The hatching of shaded intervals: angle of the lines in degrees, and their distance.
const HATCHES: [(u32, u32); 3] = [(45, 6), (135, 4), (90, 5)];

/// Writing into a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => { let _ = writeln!($out, $($text)*); };
}

pub(super) fn draw(chart: &Chart, width: u32, height: u32) -> String {
    let layout = Layout::new(chart, f64::from(width), f64::from(height));
    let mut out = String::new();
    put!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"{}\" font-size=\"{:.1}\" fill=\"#222\">",
        font::FAMILY,
        layout.font_size
    );
    definitions(&layout, &mut out);
    put!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>");
    if let Some((title, y)) = &layout.title {
        let size = TITLE * layout.font_size;
        put!(
            out,
            "<text x=\"{:.1}\" y=\"{y:.1}\" font-size=\"{size:.1}\">{}</text>",
            0.8 * layout.font_size,
            escaped(title)
        );
    }
    if let (Some((told, x)), Some((_, y))) = (&layout.told, &layout.title) {
        put!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"#555\">{}</text>", escaped(told));
    }
    for (at, (panel, place)) in chart.panels.iter().zip(&layout.places).enumerate() {
        draw_panel(chart, &layout, at, panel, place, &mut out);
    }
    let lowest = layout.places.len().saturating_sub(layout.columns);
    for (at, place) in layout.places.iter().enumerate() {
        time_axis(chart, &layout, place, at >= lowest, &mut out);
    }
    out.push_str("</svg>\n");
    out
}

fn definitions(layout: &Layout, out: &mut String) {
    put!(out, "<defs>");
    for (at, (turn, apart)) in HATCHES.iter().enumerate() {
        put!(
            out,
            "<pattern id=\"hatch{at}\" width=\"{apart}\" height=\"{apart}\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate({turn})\"><rect width=\"{apart}\" height=\"{apart}\" fill=\"#000\" \
             fill-opacity=\"0.05\"/><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"{apart}\" stroke=\"#000\" \
             stroke-opacity=\"0.4\" stroke-width=\"1.2\"/></pattern>"
        );
    }
    for (at, place) in layout.places.iter().enumerate() {
        put!(out, "<clipPath id=\"panel{at}\">{}</clipPath>", rect(&place.plot, ""));
    }
    put!(out, "</defs>");
}

pub(super) fn rect(area: &Area, attributes: &str) -> String {
    let Area { left, top, width, height } = area;
    format!("<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"{attributes}/>")
}

fn draw_panel(chart: &Chart, layout: &Layout, at: usize, panel: &Panel, place: &Place, out: &mut String) {
    let Layout { font_size, span, .. } = layout;
    let plot = &place.plot;
    let (title, base) = &place.title;
    put!(out, "<text x=\"{:.1}\" y=\"{base:.1}\">{}</text>", plot.left, escaped(title));
    draw_legend(layout, panel, place, out);
    let sentence = panel.sentence(match chart.without.as_str() {
        why if at == 0 && chart.is_empty() && !why.is_empty() => why,
        _ => "no samples",
    });
    if let Some(sentence) = sentence {
        draw_sentence(chart, layout, place, sentence, out);
        return draw_marks(layout, panel, place, out);
    }
    for (value, text) in &place.ticks {
        let y = plot.bottom() - value / place.scale.top * plot.height;
        put!(out, "<path d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"#ddd\"/>", plot.left, plot.right());
        let (x, y) = (plot.left - 0.5 * font_size, y + 0.35 * font_size);
        put!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>");
    }
    let x_of = |x: f64| plot.left + (x - span.from) / (span.to - span.from) * plot.width;
    let y_of = |y: f64| plot.bottom() - y / place.scale.top * plot.height;
    put!(out, "<g clip-path=\"url(#panel{at})\">");
    let columns = usize::try_from(crate::report::units::rounded(plot.width)).unwrap_or(1_000);
    let lines: Vec<Vec<Vec<(f64, f64)>>> = panel
        .series
        .iter()
        .map(|series| {
            let lines = thin::lines(&series.points, series.style.stepped(), columns);
            let placed = |line: Vec<(f64, f64)>| line.into_iter().map(|(x, y)| (x_of(x), y_of(y))).collect();
            lines.into_iter().map(placed).collect()
        })
        .collect();
    for (series, (lines, look)) in panel.series.iter().zip(lines.iter().zip(LOOKS.iter().cycle())) {
        if series.style.filled() {
            lines.iter().for_each(|line| fill(line, look.1, plot.bottom(), out));
        }
    }
    draw_shades(chart.shaded_in(panel), layout, place, x_of, out);
    for (series, (lines, look)) in panel.series.iter().zip(lines.iter().zip(LOOKS.iter().cycle())) {
        lines.iter().for_each(|line| stroke(line, series.style, *look, out));
    }
    put!(out, "</g>");
    draw_marks(layout, panel, place, out);
    put!(out, "{}", rect(plot, " fill=\"none\" stroke=\"#555\""));
}

/// A sentence in place of series, in a frame without levels.
fn draw_sentence(chart: &Chart, layout: &Layout, place: &Place, sentence: &str, out: &mut String) {
    let Layout { font_size, span, .. } = layout;
    let plot = &place.plot;
    let x_of = |x: f64| plot.left + (x - span.from) / (span.to - span.from) * plot.width;
    draw_shades(chart.shaded.iter(), layout, place, x_of, out);
    let sentence = escaped(&font::cut(sentence, *font_size, plot.width));
    let (x, y) = (plot.left + plot.width / 2.0, plot.top + plot.height / 2.0 + 0.35 * font_size);
    put!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#555\">{sentence}</text>");
    put!(out, "{}", rect(plot, " fill=\"none\" stroke=\"#ccc\""));
}

/// Intervals below a pixel are drawn a pixel wide: a freeze must not vanish.
fn draw_shades<'a>(
    shaded: impl Iterator<Item = &'a (f64, f64, String)>,
    layout: &Layout,
    place: &Place,
    x_of: impl Fn(f64) -> f64,
    out: &mut String,
) {
    for (from, to, name) in shaded.filter(|(from, to, _)| from.is_finite() && to.is_finite()) {
        let kind = layout.shades.iter().position(|shade| shade == name).unwrap_or(0) % HATCHES.len();
        let (left, right) = (x_of(*from), x_of(*to));
        let area = Area { left, width: (right - left).max(1.0), ..place.plot };
        put!(out, "{}", rect(&area, &format!(" fill=\"url(#hatch{kind})\"")));
    }
}

fn path(line: &[(f64, f64)]) -> String {
    let mut path = String::with_capacity(line.len() * 12);
    for (at, (x, y)) in line.iter().enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' });
    }
    path
}

fn fill(line: &[(f64, f64)], colour: &str, bottom: f64, out: &mut String) {
    let ([first, ..], [.., last]) = (line, line) else { return };
    put!(
        out,
        "<path d=\"{}L{:.1} {bottom:.1}L{:.1} {bottom:.1}Z\" fill=\"{colour}\" fill-opacity=\"0.8\"/>",
        path(line),
        last.0,
        first.0
    );
}

fn stroke(line: &[(f64, f64)], style: Style, (colour, _, dashes): (&str, &str, &str), out: &mut String) {
    let wide = if style == Style::Thin { 1.0 } else { 1.8 };
    match line {
        [] => {}
        [(x, y)] => {
            put!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\" fill=\"{colour}\"/>", wide * 1.6);
        }
        _ => {
            let dashes =
                if dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") };
            put!(
                out,
                "<path d=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{wide}\" \
                 stroke-linejoin=\"round\"{dashes}/>",
                path(line)
            );
        }
    }
}

fn draw_legend(layout: &Layout, panel: &Panel, place: &Place, out: &mut String) {
    let font_size = layout.font_size;
    for legend in &place.legend {
        let swatch = Area {
            left: legend.x,
            top: legend.y - 0.75 * font_size,
            width: SWATCH * font_size,
            height: 0.8 * font_size,
        };
        match legend.entry {
            Entry::Shade(kind) => {
                let attributes = format!(" fill=\"url(#hatch{})\" stroke=\"#999\"", kind % HATCHES.len());
                put!(out, "{}", rect(&swatch, &attributes));
            }
            Entry::Series(at) => {
                let (style, look) = (panel.series[at].style, LOOKS[at % LOOKS.len()]);
                if style.filled() {
                    put!(out, "{}", rect(&swatch, &format!(" fill=\"{}\" fill-opacity=\"0.8\"", look.1)));
                }
                let y = if style.filled() { swatch.top } else { swatch.top + swatch.height / 2.0 };
                stroke(&[(swatch.left, y), (swatch.right(), y)], style, look, out);
            }
        }
        let x = swatch.right() + 0.4 * font_size;
        put!(out, "<text x=\"{x:.1}\" y=\"{:.1}\">{}</text>", legend.y, escaped(&legend.text));
    }
}

fn draw_marks(layout: &Layout, panel: &Panel, place: &Place, out: &mut String) {
    let (font_size, plot) = (layout.font_size, &place.plot);
    let marks = marks(panel, place, font_size);
    for mark in &marks {
        let (left, right) = (plot.left, plot.right());
        put!(
            out,
            "<path d=\"M{left:.1} {0:.1}H{right:.1}\" stroke=\"#222\" stroke-dasharray=\"3 3\"/>",
            mark.line
        );
    }
    // Labels above all lines, each on its own background.
    for mark in &marks {
        let wide = font::width(&mark.label, font_size);
        let x = plot.right() - 0.4 * font_size;
        let ground = Area {
            left: x - wide - 0.2 * font_size,
            top: mark.base - 0.85 * font_size,
            width: wide + 0.4 * font_size,
            height: 1.1 * font_size,
        };
        put!(out, "{}", rect(&ground, " fill=\"#fff\" fill-opacity=\"0.8\""));
        put!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            mark.base,
            escaped(&mark.label)
        );
    }
}

/// The ticks below a panel; the lowest panel also gets numbers and the axis title.
fn time_axis(chart: &Chart, layout: &Layout, place: &Place, lowest: bool, out: &mut String) {
    let (font_size, plot, span) = (layout.font_size, &place.plot, layout.span);
    let room = plot.width / (5.0 * font_size);
    let (ticks, unit) = scale::axis_ticks(chart, span, ticks_in(room, 12));
    let mut free = f64::NEG_INFINITY;
    for (seconds, text) in &ticks {
        let x = plot.left + (seconds - span.from) / (span.to - span.from) * plot.width;
        put!(out, "<path d=\"M{x:.1} {:.1}v{:.1}\" stroke=\"#555\"/>", plot.bottom(), 0.35 * font_size);
        let half = font::width(text, font_size) / 2.0;
        // A number that would overlap or leave the picture is left out; its tick stays.
        if !lowest || x - half < free || x + half > plot.right() + 1.5 * font_size {
            continue;
        }
        free = x + half + 0.4 * font_size;
        let y = plot.bottom() + 1.35 * font_size;
        put!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>");
    }
    if !lowest {
        return;
    }
    let title = chart.across.as_ref().map_or("time", |across| &across.title);
    let (x, y) = (plot.left + plot.width / 2.0, plot.bottom() + 2.55 * font_size);
    put!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{} ({})</text>",
        escaped(title),
        escaped(&unit)
    );
}

/// Text escaped for XML; characters that are invalid in XML or change the writing direction are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in crate::report::plain(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\u{FFFE}' | '\u{FFFF}' => out.push('?'),
            c => out.push(c),
        }
    }
    out
}
