//! The load of the host: a meter per core, and the recent history, where the rows leave space.

use super::super::table::{columns, cut};
use super::super::units::{precise, rounded};
use super::bar;
use super::head::{Head, Line};

/// The load of cores now, and of the host recently; empty for a past moment, or if unknown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Load {
    /// The PUs of each core as a kernel list, and the busy part of the time.
    pub cores: Vec<(String, f64)>,
    /// The host at the last looks, the newest at the end.
    pub past: Vec<Past>,
    /// Whether to use only characters of a terminal with a limited font, like the Linux console.
    pub plain: bool,
}

/// The host at a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Past {
    /// The busy part of all cores' time since the look before.
    pub busy: f64,
    /// The used part of the memory for jobs.
    pub memory: f64,
}

/// Most lines of meters with bars.
const METER_LINES: usize = 4;

/// The width of a meter with a bar, without its label.
const METER: usize = "[########] 100 %  ".len();

/// Heights in a single character.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The same in ASCII, by coverage.
const PLAIN: [char; 8] = ['.', ':', '-', '=', '+', '*', '%', '#'];

/// Adds meters and history to a head; the caller drops them when they do not fit.
pub(super) fn push(head: &mut Head, load: &Load, width: usize) {
    let heights = if load.plain { &PLAIN } else { &HEIGHTS };
    for line in meters(&load.cores, width, heights) {
        head.push(Line::Meters, line);
    }
    let graph = |name: &str, part: fn(&Past) -> f64| {
        let last = load.past.last().map_or(0.0, part);
        let (before, after) = (format!("{name:<7}"), format!(" {:>3} %", percent(last)));
        let room = width.saturating_sub(columns(&before) + columns(&after)).min(120);
        let from = load.past.len().saturating_sub(room);
        let signs: String = load.past[from..].iter().map(|past| height(part(past), heights)).collect();
        format!("{before}{signs}{after}")
    };
    if load.past.len() > 1 && width > 20 {
        head.push(Line::Past, graph("cores", |past| past.busy));
        head.push(Line::Past, graph("memory", |past| past.memory));
    }
}

fn meters(cores: &[(String, f64)], width: usize, heights: &[char; 8]) -> Vec<String> {
    let label = cores.iter().map(|(cpus, _)| columns(cpus)).max().unwrap_or(0);
    let across = (width / (label + 1 + METER)).max(1);
    if cores.len().div_ceil(across) <= METER_LINES {
        let one = |(cpus, part): &(String, f64)| {
            format!("{cpus:>label$} [{}]{:>4} %", bar(*part, 8), percent(*part))
        };
        let line = |row: &[(String, f64)]| row.iter().map(one).collect::<Vec<_>>().join("  ");
        return cores.chunks(across).map(|row| cut(&line(row), width)).collect();
    }
    // A character per core, in the order of their PUs.
    let signs: Vec<char> = cores.iter().map(|(_, part)| height(*part, heights)).collect();
    let room = width.saturating_sub(7).max(1);
    let line = |(at, row): (usize, &[char])| {
        let name = if at == 0 { "each" } else { "" };
        cut(&format!("{name:<7}{}", row.iter().collect::<String>()), width)
    };
    signs.chunks(room).take(METER_LINES).enumerate().map(line).collect()
}

fn percent(part: f64) -> u64 {
    rounded(part.clamp(0.0, 1.0) * 100.0)
}

fn height(part: f64, heights: &[char; 8]) -> char {
    let at = rounded(part.clamp(0.0, 1.0) * precise(heights.len() as u64 - 1));
    heights[usize::try_from(at).unwrap_or(0).min(heights.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(cores: u64, looks: u64) -> Load {
        let past = |at: u64| Past { busy: precise(at) / precise(looks), memory: 0.5 };
        Load {
            cores: (0..cores).map(|core| (core.to_string(), precise(core) / precise(cores))).collect(),
            past: (0..looks).map(past).collect(),
            plain: false,
        }
    }

    #[test]
    fn few_cores_have_bars_and_many_a_sign_each() {
        assert_eq!(meters(&load(2, 0).cores, 80, &HEIGHTS), ["0 [........]   0 %  1 [####....]  50 %"]);
        let many = meters(&load(512, 0).cores, 80, &HEIGHTS);
        assert!(many.len() <= METER_LINES && many[0].starts_with("each   ▁"), "{many:#?}");
        assert!(meters(&[], 80, &HEIGHTS).is_empty());
        assert!(meters(&load(512, 0).cores, 80, &PLAIN).iter().all(|line| line.is_ascii()));
        for width in [1, 20, 21, 80, 200] {
            for cores in [1, 3, 64, 5000] {
                let lines = meters(&load(cores, 0).cores, width, &HEIGHTS);
                assert!(lines.len() <= METER_LINES, "{lines:#?}");
                assert!(lines.iter().all(|line| columns(line) <= width), "{width}: {lines:#?}");
            }
        }
    }

    #[test]
    fn signs_are_as_high_as_the_part_that_they_stand_for() {
        let signs: String =
            [-1.0, 0.0, 0.5, 1.0, 7.0, f64::NAN].map(|part| height(part, &HEIGHTS)).iter().collect();
        assert_eq!(signs, "▁▁▅██▁");
        let signs: String = [0.0, 0.5, 1.0].map(|part| height(part, &PLAIN)).iter().collect();
        assert_eq!(signs, ".+#");
    }
}
