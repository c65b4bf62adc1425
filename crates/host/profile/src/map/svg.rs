//! The map as a picture: sockets, NUMA nodes and caches as boxes, cores in the colours of their jobs, and a legend.
//! The number of cores determines their size.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::model::{Core, Group, Inside, Map};
use crate::plot::{FONT_FAMILY, text_cut};

/// A picture with its size in pixels.
#[derive(Debug)]
pub struct Picture {
    /// SVG.
    pub text: String,
    /// How wide.
    pub width: u32,
    /// How high.
    pub height: u32,
}

/// Fill and text colours, used in rotation.
const COLOURS: [(&str, &str); 12] = [
    ("#1a4f8a", "#fff"),
    ("#e08a1e", "#222"),
    ("#2f7d4f", "#fff"),
    ("#b8324f", "#fff"),
    ("#7cc3e8", "#222"),
    ("#6d4a9e", "#fff"),
    ("#d9c72e", "#222"),
    ("#8a5a34", "#fff"),
    ("#9fd18b", "#222"),
    ("#e58fb4", "#222"),
    ("#4a5560", "#fff"),
    ("#17a398", "#fff"),
];

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 16.0;
/// Largest height before the legend.
const HEIGHT: f64 = 640.0;
/// The same of the machine alone.
const SMALL_HEIGHT: f64 = 260.0;
const FONT: f64 = 12.0;
/// The least legible font size.
const LABEL_LEAST: f64 = 6.0;
/// How many sets the legend names.
const NAMED: usize = 60;

/// Writing into a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => { let _ = writeln!($out, $($text)*); };
}

/// The machine with a legend.
#[must_use]
pub fn draw(map: &Map) -> Picture {
    let (size, plan) = Plan::largest(map, HEIGHT);
    let mut body = String::new();
    let top = MARGIN + 2.6 * FONT;
    plan.draw(map, (MARGIN, top), size, &mut body);
    let title = escaped(&map.summary());
    put!(
        body,
        "<text x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"{:.1}\">{title}</text>",
        MARGIN + FONT,
        1.3 * FONT
    );
    let legend_top = top + plan.height + 2.0 * FONT;
    let width = WIDTH.max(plan.width + 2.0 * MARGIN);
    let bottom = draw_legend(map, legend_top, width, &mut body);
    framed(&body, width, bottom + MARGIN)
}

/// The machine alone, as small as legible; the page around it has name and legend.
#[must_use]
pub fn draw_cores(map: &Map) -> Picture {
    const GAP: f64 = 4.0;
    let (size, plan) = Plan::largest(map, SMALL_HEIGHT);
    let mut body = String::new();
    plan.draw(map, (GAP, GAP), size, &mut body);
    framed(&body, plan.width + 2.0 * GAP, plan.height + 2.0 * GAP)
}

impl Picture {
    /// The picture on a dark background. Colours are in quotes, which text in the picture cannot contain; colours of
    /// jobs and their labels stay.
    #[must_use]
    pub fn darkened(self) -> Self {
        const COLOURS: [(&str, &str); 6] = [
            ("\"#ffffff\"", "\"#1b1f26\""),
            ("\"#222222\"", "\"#e8eaee\""),
            ("\"#555\"", "\"#aab3c0\""),
            ("\"#000\"", "\"#fefefe\""),
            ("\"#666\"", "\"#7d8794\""),
            ("\"#ccc\"", "\"#39404b\""),
        ];
        let text = COLOURS.iter().fold(self.text, |text, (light, dark)| text.replace(light, dark));
        Self { text, ..self }
    }
}

/// Wraps the drawing with a background.
fn framed(body: &str, width: f64, height: f64) -> Picture {
    let (width, height) = (pixels(width), pixels(height));
    let mut text = String::new();
    put!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"{FONT_FAMILY}\" font-size=\"{FONT}\" fill=\"#222222\">"
    );
    put!(text, "<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>");
    text.push_str(body);
    text.push_str("</svg>\n");
    Picture { text, width, height }
}

/// Where the sockets go at a size of cores.
struct Plan<'a> {
    sockets: Vec<(&'a Group, f64, f64)>,
    width: f64,
    height: f64,
}

impl<'a> Plan<'a> {
    /// The plan with the largest cores within `height`, and their size.
    fn largest(map: &'a Map, height: f64) -> (f64, Self) {
        let sizes = [64.0, 52.0, 44.0, 36.0, 30.0, 25.0, 21.0, 18.0, 15.0, 12.0, 10.0, 8.0, 6.0];
        let fits = |plan: &Self| plan.height <= height && plan.width <= WIDTH - 2.0 * MARGIN;
        let mut plans = sizes.into_iter().map(|size| (size, Self::new(map, size)));
        plans.find(|(_, plan)| fits(plan)).unwrap_or_else(|| (6.0, Self::new(map, 6.0)))
    }

    fn draw(&self, map: &Map, (left, top): (f64, f64), size: f64, out: &mut String) {
        for (group, x, y) in &self.sockets {
            draw_box(map, group, left + x, top + y, size, out);
        }
    }

    fn new(map: &'a Map, size: f64) -> Self {
        let boxes: Vec<(f64, f64)> = map.sockets.iter().map(|group| extent(group, size)).collect();
        let (places, width, height) = flow(&boxes, WIDTH - 2.0 * MARGIN, 10.0);
        let sockets = map.sockets.iter().zip(places).map(|(group, (x, y))| (group, x, y)).collect();
        Self { sockets, width, height }
    }
}

/// Places boxes side by side, in as many rows as needed; returns their places and the total size.
fn flow(boxes: &[(f64, f64)], room: f64, gap: f64) -> (Vec<(f64, f64)>, f64, f64) {
    let mut places = Vec::with_capacity(boxes.len());
    let (mut x, mut y, mut row, mut widest): (f64, f64, f64, f64) = (0.0, 0.0, 0.0, 0.0);
    for &(width, height) in boxes {
        if x > 0.0 && x + width > room {
            (x, y, row) = (0.0, y + row + gap, 0.0);
        }
        places.push((x, y));
        x += width + gap;
        row = row.max(height);
        widest = widest.max(x - gap);
    }
    (places, widest, y + row)
}

/// The layout inside a box: padding, space for its name, and the places of its content.
fn inside(group: &Group, size: f64) -> (Vec<(f64, f64)>, f64, f64) {
    match &group.inside {
        Inside::Cores(cores) => {
            let columns = columns(cores.len());
            let step = size + gap(size);
            let place = |at: usize| (number(at % columns) * step, number(at / columns) * step);
            let rows = cores.len().div_ceil(columns);
            let extent = |count: usize| (number(count) * step - gap(size)).max(0.0);
            ((0..cores.len()).map(place).collect(), extent(columns.min(cores.len())), extent(rows))
        }
        Inside::Groups(groups) => {
            let boxes: Vec<(f64, f64)> = groups.iter().map(|group| extent(group, size)).collect();
            let area: f64 = boxes.iter().map(|(width, height)| width * height).sum();
            let widest = boxes.iter().map(|(width, _)| *width).fold(0.0, f64::max);
            flow(&boxes, (area * 2.2).sqrt().max(widest), gap(size) + 3.0)
        }
    }
}

/// The number of columns for cores: full rows where possible, wider than high.
fn columns(cores: usize) -> usize {
    let square = (1..=cores).find(|columns| columns * columns >= cores).unwrap_or(1);
    (square..=4 * square).find(|columns| cores.is_multiple_of(*columns)).unwrap_or(2 * square).max(1)
}

fn extent(group: &Group, size: f64) -> (f64, f64) {
    let (_, width, height) = inside(group, size);
    (width + 2.0 * pad(size), height + 2.0 * pad(size) + name_height(size))
}

fn gap(size: f64) -> f64 {
    if size < 16.0 { 1.5 } else { 3.0 }
}

fn pad(size: f64) -> f64 {
    if size < 16.0 { 3.0 } else { 6.0 }
}

fn name_height(size: f64) -> f64 {
    name_size(size) + 2.0
}

fn name_size(size: f64) -> f64 {
    (size * 0.5).clamp(7.0, FONT)
}

fn draw_box(map: &Map, group: &Group, x: f64, y: f64, size: f64, out: &mut String) {
    let (places, width, height) = inside(group, size);
    let (pad, name_height) = (pad(size), name_height(size));
    put!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"3\" fill=\"#000\" \
         fill-opacity=\"0.04\" stroke=\"#888\" stroke-width=\"0.8\"/>",
        width + 2.0 * pad,
        height + 2.0 * pad + name_height
    );
    let name = match &group.inside {
        // Cores too small for labels: the name of the box lists the jobs.
        Inside::Cores(cores) if label_size(size) < LABEL_LEAST => {
            format!("{}{}", group.name, jobs_on(map, cores))
        }
        _ => group.name.clone(),
    };
    let name = text_cut(&name, name_size(size), width + pad);
    put!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{:.1}\" fill=\"#555\">{}</text>",
        x + pad,
        y + pad + name_size(size) - 2.0,
        name_size(size),
        escaped(&name)
    );
    let (left, top) = (x + pad, y + pad + name_height);
    match &group.inside {
        Inside::Groups(groups) => {
            for (group, (dx, dy)) in groups.iter().zip(places) {
                draw_box(map, group, left + dx, top + dy, size, out);
            }
        }
        Inside::Cores(cores) => {
            for (&core, (dx, dy)) in cores.iter().zip(places) {
                draw_core(map, map.core(core), left + dx, top + dy, size, out);
            }
        }
    }
}

/// The jobs on these cores.
fn jobs_on(map: &Map, cores: &[usize]) -> String {
    let sets: BTreeSet<usize> = cores.iter().flat_map(|&core| map.core(core).sets.iter().copied()).collect();
    let jobs: Vec<String> =
        sets.iter().filter_map(|&set| map.sets[set].view.job).map(|job| job.to_string()).collect();
    if jobs.is_empty() { String::new() } else { format!(": {}", jobs.join(" ")) }
}

fn label_size(size: f64) -> f64 {
    (size * 0.34).min(FONT)
}

/// The frame of a reserved core.
const ASIDE_FRAME: &str = "stroke=\"#000\" stroke-width=\"1.6\" stroke-dasharray=\"3 2\"";

fn draw_core(map: &Map, core: &Core, x: f64, y: f64, size: f64, out: &mut String) {
    let rect = |x: f64, y: f64, width: f64, height: f64, fill: &str, out: &mut String| {
        put!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
        );
    };
    let empty = if core.usable { "#ffffff" } else { "#ccc" };
    let first = core.sets.first().map(|&set| colour(set));
    rect(x, y, size, size, first.map_or(empty, |(fill, _)| fill), out);
    // Each further job of a shared core gets a stripe at its foot.
    let others = core.sets.len().saturating_sub(1).min(4);
    let stripe = size * if others > 1 { 0.5 } else { 0.3 } / number(others.max(1));
    for (at, &set) in core.sets.iter().skip(1).take(others).enumerate() {
        rect(x, y + size - number(others - at) * stripe, size, stripe, colour(set).0, out);
    }
    let frame = if core.aside { ASIDE_FRAME } else { "stroke=\"#666\" stroke-width=\"0.6\"" };
    put!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{size:.1}\" height=\"{size:.1}\" fill=\"none\" {frame}/>"
    );
    let font = label_size(size);
    if font < LABEL_LEAST {
        return;
    }
    let ink = first.map_or("#888", |(_, ink)| ink);
    let label = match core.sets.first().map(|&set| &map.sets[set].view) {
        Some(view) => view.job.map_or_else(|| "?".to_owned(), |job| job.to_string()),
        None if core.usable => String::new(),
        None => "x".to_owned(),
    };
    let label = text_cut(&label, font, size - 2.0);
    put!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{font:.1}\" fill=\"{ink}\" text-anchor=\"middle\">{}</text>",
        x + size / 2.0,
        y + size * 0.45,
        escaped(&label)
    );
    let small = font * 0.7;
    // The PUs, where the space is free and large enough.
    if small >= LABEL_LEAST && others == 0 {
        let pus = text_cut(&core.pus.to_string(), small, size - 2.0);
        put!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{small:.1}\" fill=\"{ink}\" text-anchor=\"middle\">{pus}</text>",
            x + size / 2.0,
            y + size * 0.85
        );
    }
}

/// Draws the legend in as many columns as fit; returns its lower end.
fn draw_legend(map: &Map, top: f64, width: f64, out: &mut String) -> f64 {
    let line = 1.5 * FONT;
    let shown = map.sets.len().min(NAMED);
    let columns = if shown > 12 { 3 } else { 1 };
    let rows = shown.div_ceil(columns);
    let column = (width - 2.0 * MARGIN) / number(columns);
    for (at, set) in map.sets.iter().take(shown).enumerate() {
        let (x, y) = (MARGIN + number(at / rows) * column, top + number(at % rows) * line);
        let (fill, _) = colour(at);
        put!(
            out,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{FONT}\" height=\"{FONT}\" fill=\"{fill}\"/>",
            y - FONT + 2.0
        );
        let view = &set.view;
        let class = view.class.word();
        let shared = if view.shared { ", shared" } else { "" };
        // In several columns only owner and place fit.
        let processes = match view.pids.len() {
            0 => String::new(),
            _ if columns > 1 => String::new(),
            1 => ", 1 process".to_owned(),
            count => format!(", {count} processes"),
        };
        let text = format!("{}: PUs {}, {class}{shared}{processes}", set.title(), view.cpus);
        let text = crate::report::plain(&text);
        let text = text_cut(&text, FONT, column - 2.5 * FONT);
        put!(out, "<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>", x + 1.5 * FONT, escaped(&text));
    }
    let mut end = top + number(rows) * line;
    let rest = map.sets.len() - shown;
    let words = match (map.sets.len(), rest) {
        (0, _) => Some("no job has a core".to_owned()),
        (_, 0) => None,
        _ => Some(format!("and {rest} more")),
    };
    if let Some(words) = words {
        put!(out, "<text x=\"{MARGIN}\" y=\"{end:.1}\" fill=\"#555\">{words}</text>");
        end += line;
    }
    for set in map.asides.iter().take(NAMED) {
        put!(
            out,
            "<rect x=\"{MARGIN}\" y=\"{:.1}\" width=\"{FONT}\" height=\"{FONT}\" fill=\"#ffffff\" {ASIDE_FRAME}/>",
            end - FONT + 2.0
        );
        let words = text_cut(&super::text::set_words(set), FONT, width - 2.0 * MARGIN - 2.5 * FONT);
        put!(out, "<text x=\"{:.1}\" y=\"{end:.1}\">{}</text>", MARGIN + 1.5 * FONT, escaped(&words));
        end += line;
    }
    for chunk in map.chunks.iter().take(NAMED) {
        let words = text_cut(&super::text::chunk_words(chunk), FONT, width - 2.0 * MARGIN);
        put!(out, "<text x=\"{MARGIN}\" y=\"{end:.1}\">{}</text>", escaped(&words));
        end += line;
    }
    for words in map.resources.iter().flat_map(crate::report::resource_lines).take(NAMED) {
        let words = text_cut(&words, FONT, width - 2.0 * MARGIN);
        put!(out, "<text x=\"{MARGIN}\" y=\"{end:.1}\">{}</text>", escaped(&words));
        end += line;
    }
    end
}

fn colour(set: usize) -> (&'static str, &'static str) {
    COLOURS[set % COLOURS.len()]
}

#[expect(clippy::cast_precision_loss, reason = "counts on a page are far below 2^52")]
fn number(count: usize) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what a picture may have"
)]
fn pixels(length: f64) -> u32 {
    length.clamp(1.0, 20_000.0).ceil() as u32
}

/// Escapes text that may come from another host: control characters and two non-characters are invalid in XML.
fn escaped(text: &str) -> String {
    crate::report::plain(text)
        .replace(['\u{FFFE}', '\u{FFFF}'], "?")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
