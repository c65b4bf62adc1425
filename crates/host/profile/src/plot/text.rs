//! A chart in characters: areas as blocks with eight heights per line, lines with a sign per series, shaded intervals
//! on a grey ground.

use super::scale::{self, Scale, Span};
use super::{Chart, Panel, Series, layout, thin};
use crate::report::units::{precise, rounded};

/// Blocks of one to eight eighths.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The signs of lines, by the series' place among the panel's series.
const SIGNS: [char; 4] = ['•', '×', '+', 'o'];

const SHADE: char = '░';
const MARK: char = '┄';

pub(super) fn draw(chart: &Chart, width: usize, height: usize) -> String {
    if chart.is_empty() && !chart.without.is_empty() {
        return draw_without(chart, width);
    }
    let mut lines = Vec::new();
    if !chart.title.is_empty() {
        lines.push(titled(chart, width));
    }
    let rest = height.saturating_sub(lines.len());
    let span = scale::span(chart);
    let columns = chart.columns.clamp(1, chart.panels.len().max(1));
    if columns > 1 && width / columns >= NARROW {
        lines.extend(beside(chart, span, columns, (width, rest)));
    } else {
        lines.extend(stacked(chart, &chart.panels, span, (width, rest)));
    }
    let mut text: String = lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    text.push('\n');
    crate::report::plain_lines(&text)
}

/// A column of fewer characters shows little.
const NARROW: usize = 36;

/// The title with the text behind it; the title is cut if both do not fit.
fn titled(chart: &Chart, width: usize) -> String {
    let told = if chart.told.is_empty() { String::new() } else { format!(" ({})", chart.told) };
    let told = crate::report::plain(&told);
    let title = crate::report::plain(&chart.title);
    let room = width.saturating_sub(told.chars().count()).max(width / 2);
    let title: String = title.chars().take(room).collect();
    (title + &told).chars().take(width).collect()
}

/// Columns of panels side by side.
fn beside(chart: &Chart, span: Span, columns: usize, (width, height): (usize, usize)) -> Vec<String> {
    let each = width / columns;
    let column = |at: usize| {
        let panels: Vec<Panel> = chart.panels.iter().skip(at).step_by(columns).cloned().collect();
        stacked(chart, &panels, span, (each - 1, height))
    };
    let all: Vec<Vec<String>> = (0..columns).map(column).collect();
    let rows = all.iter().map(Vec::len).max().unwrap_or(0);
    let row = |row: usize| -> String {
        all.iter().map(|lines| format!("{:<each$}", lines.get(row).map_or("", String::as_str))).collect()
    };
    (0..rows).map(row).collect()
}

/// Stacked panels, and their axis.
fn stacked(chart: &Chart, panels: &[Panel], span: Span, (width, height): (usize, usize)) -> Vec<String> {
    let scales: Vec<Scale> = panels.iter().map(scale::scale).collect();
    let tops: Vec<(f64, String)> = scales.iter().map(Scale::round_top).collect();
    let left = tops.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(1) + 1;
    let columns = width.saturating_sub(left + 1).max(8);
    // Each panel has a head; an axis and its numbers stand below all.
    let around = panels.len() + 2;
    let rows = (height.saturating_sub(around) / panels.len().max(1)).clamp(2, 20);
    let mut lines = Vec::new();
    for (at, ((panel, scale), (top, top_text))) in panels.iter().zip(&scales).zip(&tops).enumerate() {
        let shades = if at == 0 { layout::shades(chart).join(", ") } else { String::new() };
        lines.push(head(panel, scale, &shades, width));
        if let Some(sentence) = panel.sentence("no samples") {
            lines.push(format!("{:left$}{sentence}", "").chars().take(width).collect());
            continue;
        }
        let grid = Grid::draw(panel, *top, &shaded(chart, panel, span, columns), span, rows);
        for (row, cells) in grid.rows.iter().enumerate() {
            let label = match row {
                0 => top_text.as_str(),
                _ if row + 1 == rows => "0",
                _ => "",
            };
            lines.push(format!("{label:>left$}┤{}", cells.iter().collect::<String>(), left = left - 1));
        }
    }
    lines.extend(axis(chart, span, left - 1, columns));
    lines
}

/// In place of empty axes: the reason, and the known levels.
fn draw_without(chart: &Chart, width: usize) -> String {
    let levels: Vec<&str> =
        chart.panels.iter().flat_map(|panel| &panel.marks).map(|(_, name)| name.as_str()).collect();
    let lines = [titled(chart, width.max(24)), chart.without.clone(), levels.join(", ")];
    let lines = lines.iter().filter(|line| !line.is_empty());
    let plain = lines.map(|line| crate::report::plain(line).chars().take(width.max(24)).collect::<String>());
    plain.map(|line| line + "\n").collect()
}

/// A panel's title, its unit, and the signs of its series, as far as whole entries fit.
fn head(panel: &Panel, scale: &Scale, shade: &str, width: usize) -> String {
    let mut head = crate::report::plain(&panel.title);
    if !scale.unit.is_empty() {
        head.push_str(&format!(" ({})", scale.unit));
    }
    let mut entries = Vec::new();
    for (at, series) in panel.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty()) {
        let sign = if series.style.filled() { BLOCKS[7] } else { SIGNS[at % SIGNS.len()] };
        entries.push(format!("  {sign} {}", series.name));
    }
    if !shade.is_empty() {
        entries.push(format!("  {SHADE} {shade}"));
    }
    for (value, name) in &panel.marks {
        let above = if scale::is_near(panel, *value) { "" } else { " (above)" };
        entries.push(format!("  {MARK} {name}{above}"));
    }
    let mut used = head.chars().count();
    for entry in entries {
        used += entry.chars().count();
        if used > width {
            break;
        }
        head.push_str(&entry);
    }
    head.chars().take(width).collect()
}

struct Grid {
    rows: Vec<Vec<char>>,
}

impl Grid {
    fn draw(panel: &Panel, top: f64, shaded: &[bool], span: Span, rows: usize) -> Self {
        let columns = shaded.len();
        let ground: Vec<char> = shaded.iter().map(|&shaded| if shaded { SHADE } else { ' ' }).collect();
        let mut grid = Self { rows: vec![ground; rows] };
        for &(value, _) in panel.marks.iter().filter(|&&(value, _)| scale::is_near(panel, value)) {
            let row = grid.row(value / top);
            grid.rows[row].fill(MARK);
        }
        let filled = |series: &&Series| series.style.filled();
        for series in panel.series.iter().filter(filled) {
            for (column, value) in highest(series, span, columns).into_iter().enumerate() {
                grid.column(column, value.unwrap_or(0.0) / top);
            }
        }
        for (at, series) in panel.series.iter().enumerate().filter(|(_, series)| !series.style.filled()) {
            for (column, value) in highest(series, span, columns).into_iter().enumerate() {
                // Zeros are not drawn: a line of zeros would hide the line beneath.
                if let Some(value) = value.filter(|&value| value > 0.0) {
                    let row = grid.row(value / top);
                    grid.rows[row][column] = SIGNS[at % SIGNS.len()];
                }
            }
        }
        grid
    }

    /// The row of a fraction of the height, counted from above.
    fn row(&self, part: f64) -> usize {
        let below = rounded((part * precise(self.rows.len() as u64)).floor());
        self.rows.len() - 1 - usize::try_from(below).unwrap_or(usize::MAX).min(self.rows.len() - 1)
    }

    fn column(&mut self, column: usize, part: f64) {
        let eighths = rounded(part * precise(self.rows.len() as u64) * 8.0);
        // A value above 0 shows at least the lowest block.
        let mut left = if part > 0.0 { eighths.max(1) } else { 0 };
        for row in self.rows.iter_mut().rev() {
            match left {
                0 => return,
                1..8 => row[column] = BLOCKS[usize::try_from(left).expect("below 8") - 1],
                _ => row[column] = BLOCKS[7],
            }
            left = left.saturating_sub(8);
        }
    }
}

/// The highest value of a series in each column; between points, of the connecting line.
fn highest(series: &Series, span: Span, columns: usize) -> Vec<Option<f64>> {
    let wide = (span.to - span.from) / precise(columns as u64);
    let mut highest: Vec<Option<f64>> = vec![None; columns];
    let mut raise = |x: f64, y: f64| {
        let column = usize::try_from(rounded(((x - span.from) / wide).floor())).unwrap_or(0).min(columns - 1);
        highest[column] = Some(highest[column].map_or(y, |was| was.max(y)));
    };
    let lines = thin::lines(&series.points, series.style.stepped(), columns);
    lines.iter().flatten().for_each(|&(x, y)| raise(x, y));
    for pair in lines.iter().flat_map(|line| line.windows(2)) {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
        let first = rounded(((x0 - span.from) / wide).floor().max(0.0));
        for column in first + 1..=first.saturating_add(columns as u64) {
            let middle = span.from + (precise(column) + 0.5) * wide;
            if middle >= x1 {
                break;
            }
            raise(middle, y0 + (y1 - y0) * ((middle - x0) / (x1 - x0)));
        }
    }
    highest
}

fn shaded(chart: &Chart, panel: &Panel, span: Span, columns: usize) -> Vec<bool> {
    let wide = (span.to - span.from) / precise(columns as u64);
    (0..columns as u64)
        .map(|column| {
            let (from, to) = (span.from + precise(column) * wide, span.from + precise(column + 1) * wide);
            chart.shaded_in(panel).any(|&(start, end, _)| start < to && end > from)
        })
        .collect()
}

/// The axis line, and the numbers below without overlaps.
fn axis(chart: &Chart, span: Span, left: usize, columns: usize) -> [String; 2] {
    let (ticks, unit) = scale::axis_ticks(chart, span, (columns / 12).max(2));
    let mut line: Vec<char> = vec!['─'; columns];
    let mut numbers: Vec<char> = vec![' '; columns + left + 8];
    let mut free = 0;
    for (seconds, text) in &ticks {
        let part = (seconds - span.from) / (span.to - span.from);
        let at = usize::try_from(rounded(part * precise(columns as u64 - 1))).unwrap_or(0).min(columns - 1);
        line[at] = '┬';
        let from = (at + left + 1).saturating_sub(text.chars().count() / 2).max(free);
        numbers.iter_mut().skip(from).zip(text.chars()).for_each(|(place, c)| *place = c);
        free = from + text.chars().count() + 1;
    }
    let mut numbers: String = numbers.into_iter().collect::<String>().trim_end().to_owned();
    let room = columns + left + 1;
    let unit = format!(" {unit}");
    while numbers.chars().count() + unit.chars().count() > room {
        // The last number gives way to the unit, or the line would be too long.
        let Some((kept, _)) = numbers.trim_end().rsplit_once(' ') else { break };
        numbers = kept.trim_end().to_owned();
    }
    numbers.push_str(&unit);
    [format!("{:left$}└{}", "", line.into_iter().collect::<String>()), numbers]
}
