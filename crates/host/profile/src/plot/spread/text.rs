//! Histograms in characters: a line per bar, and about the same number of lines per histogram.

use super::{Bars, Histogram, Spread};
use crate::report::units::{precise, rounded};

/// Parts of a block, by eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

pub(super) fn draw(spread: &Spread, width: usize, height: usize) -> String {
    let mut lines = vec![crate::report::plain(&spread.title)];
    let each = (height.saturating_sub(1) / spread.parts.len().max(1)).saturating_sub(1).clamp(6, 20);
    for part in &spread.parts {
        lines.extend(part_lines(part, width, each));
    }
    let mut text: String = lines
        .iter()
        .map(|line| line.chars().take(width).collect::<String>().trim_end().to_owned() + "\n")
        .collect();
    text = crate::report::plain_lines(&text);
    text
}

fn part_lines(part: &Histogram, width: usize, lines: usize) -> Vec<String> {
    let mut bars = Bars::new(part);
    if part.values.is_empty() {
        return vec![crate::report::plain(&format!("{}: no job ran", bars.titled(part)))];
    }
    let head = crate::report::plain(&format!("{}: {}", bars.titled(part), bars.told(part)));
    // Joins neighbouring bars to fit the lines.
    let together = bars.counts.len().div_ceil(lines.max(1));
    bars.counts = bars.counts.chunks(together).map(|some| some.iter().sum()).collect();
    bars.step *= precise(together as u64);
    let most = bars.highest();
    let number = most.to_string().len();
    let froms = bars.begins();
    let left = froms.iter().map(|from| from.chars().count()).max().unwrap_or(1);
    let room = width.saturating_sub(left + number + 4).max(4);
    let mut out = vec![head];
    for (from, &count) in froms.iter().zip(&bars.counts) {
        let eighths = rounded(precise(count) / precise(most.max(1)) * precise(room as u64) * 8.0);
        let eighths = if count > 0 { eighths.max(1) } else { 0 };
        let whole = usize::try_from(eighths / 8).unwrap_or(room);
        let rest = EIGHTHS[usize::try_from(eighths % 8).unwrap_or(0)];
        let told = if count > 0 { format!(" {count}") } else { String::new() };
        out.push(format!("{from:>left$} ┤{}{rest}{told}", "█".repeat(whole)));
    }
    out
}
