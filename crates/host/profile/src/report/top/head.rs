//! The lines above the rows of every screen: moment, host, memory, load, keys. As many lines as fit beside some rows;
//! omitted rows and columns are mentioned.

use pinfold_proto::JobState;
use pinfold_proto::view::StatusView;

use super::super::list::other_load;
use super::super::now_s;
use super::super::resources::resources_in_use;
use super::super::table::{Table, columns, cut, plain};
use super::super::units::{date_here, duration, precise, size};
use super::{Screen, bar, load};

/// The kind of a line. Earlier kinds stay longest on small screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    /// The moment, or the job of the processes.
    Moment,
    /// The kind of rows and their order.
    Order,
    /// The host and its slots.
    Host,
    /// The memory of jobs.
    Memory,
    /// A warning for an operator.
    Warning,
    /// The host's reading.
    Reading,
    /// The keys.
    Keys,
    /// How the last looks went.
    Past,
    /// The load of each core.
    Meters,
}

/// More warnings than these are counted.
const WARNINGS_MAX: usize = 3;

/// A reading older than this is shown with its age.
const OLD_S: f64 = 20.0;

/// The lines above the rows, from above.
#[derive(Debug, Default)]
pub(super) struct Head {
    lines: Vec<(Line, String)>,
}

impl Head {
    /// The host's lines: slots and memory, load, and the moment if past.
    pub(super) fn of_host(now: &StatusView, screen: &Screen) -> Self {
        let (slots, memory) = (&now.slots, &now.memory);
        let pressure = memory
            .pressure_full_avg10
            .map_or(String::new(), |full| format!("   stalled for memory {:.1} %", full * 100.0));
        let count = |state| now.jobs.iter().filter(|job| job.state == state).count();
        let mut head = Self::default();
        if let Some(at_s) = now.at_s {
            let ago = duration((now_s() - at_s).max(0.0));
            let text = format!("{}, {ago} ago   l now  <- -> {{ }} [ ] other times", date_here(at_s));
            head.push(Line::Moment, text);
        }
        let text = format!(
            "{} ({})   slots {} of {}   running {}  frozen {}  queued {}  held {}",
            plain(&now.host),
            plain(&now.mode),
            slots.used,
            slots.total,
            count(JobState::Running),
            count(JobState::Frozen) + count(JobState::Parked),
            count(JobState::Queued),
            count(JobState::Held)
        );
        head.push(Line::Host, text);
        let told = format!(
            "{} of {}, swap {}{pressure}",
            size(memory.held_bytes),
            size(memory.budget_bytes),
            size(memory.swap_held_bytes)
        );
        // The bar takes the space left by the figures, and is dropped before figures are cut.
        let room = screen.width.saturating_sub(columns(&told) + "memory [] ".len());
        let part = precise(memory.held_bytes) / precise(memory.budget_bytes.max(1));
        let bar = match (screen.width / 4).clamp(10, 40).min(room) {
            0..4 => String::new(),
            width => format!("[{}] ", bar(part, width)),
        };
        head.push(Line::Memory, format!("memory {bar}{told}"));
        if let Some(words) = other_load(now) {
            head.push(Line::Reading, words);
        }
        if let Some(words) = resources_in_use(&now.resources) {
            head.push(Line::Reading, words);
        }
        if let Some(text) = reading(now, screen.width) {
            head.push(Line::Reading, text);
        }
        load::push(&mut head, &screen.load, screen.width);
        for warning in now.warnings.iter().take(WARNINGS_MAX) {
            head.push(Line::Warning, format!("warning: {}", plain(warning)));
        }
        if let more @ 1.. = now.warnings.len().saturating_sub(WARNINGS_MAX) {
            head.push(Line::Warning, format!("and {more} more warnings: pinfold status"));
        }
        head
    }

    /// Appends a line.
    pub(super) fn push(&mut self, line: Line, text: String) {
        self.lines.push((line, text));
    }

    /// At most `room` lines.
    fn fitted(mut self, room: usize) -> Vec<(Line, String)> {
        while self.lines.len() > room {
            let kinds = self.lines.iter().map(|(line, _)| *line).enumerate();
            // Of several warnings the last goes first.
            let Some((out, _)) = kinds.max_by_key(|(at, line)| (*line, *at)) else { break };
            self.lines.remove(out);
        }
        self.lines
    }

    /// Drops meters and history if all lines would take more than `room`.
    pub(super) fn without_load(&mut self, room: usize) {
        while self.lines.len() > room {
            let last = self.lines.iter().map(|(line, _)| *line).max();
            let Some(last @ (Line::Past | Line::Meters)) = last else { break };
            self.lines.retain(|(line, _)| *line != last);
        }
    }

    /// The lines above at least `least` rows, cut to the screen's width; `order` makes the text of the order line.
    pub(super) fn above(self, least: usize, screen: &Screen, order: impl Fn(usize) -> String) -> Vec<String> {
        let lines = self.fitted(screen.height.saturating_sub(least));
        let room = screen.height.saturating_sub(lines.len());
        let text = |(line, text)| if line == Line::Order { order(room) } else { text };
        lines.into_iter().map(|one| cut(&text(one), screen.width)).collect()
    }
}

/// Rows of a table below a head, as many as fit.
pub(super) struct Rows<'a> {
    pub(super) table: &'a Table,
    /// The kind of rows.
    pub(super) what: &'static str,
    /// Their order and filter.
    pub(super) by: String,
    /// The keys.
    pub(super) keys: String,
}

impl Rows<'_> {
    /// The screen; `first` says which row is the first to be shown where so many have room.
    pub(super) fn below(
        self,
        mut head: Head,
        screen: &Screen,
        first: impl Fn(usize) -> usize,
    ) -> Vec<String> {
        let count = self.table.len();
        // All rows, or two thirds of the screen, take precedence over meters and history; columns, order and keys
        // need a line each.
        let rows = count.min(screen.height / 3 * 2);
        head.without_load(screen.height.saturating_sub(rows.saturating_add(3)));
        let missing = match self.table.left_out(screen.width) {
            none if none.is_empty() => String::new(),
            some => format!("   no room for {}", some.join(", ")),
        };
        // At least a third of the screen is rows, below a line of column names.
        let least = count.clamp(1, (screen.height / 3).max(2)).saturating_add(1);
        let whole = format!("{}{missing}   {}", self.by, self.keys);
        let fits_whole = head.lines.len().saturating_add(2).saturating_add(count) <= screen.height;
        let range = |from: usize, to: usize| format!("{from}-{to} of {count} {} ", self.what);
        let longest = if fits_whole { 0 } else { range(count, count).len() };
        let is_one = columns(&whole) + longest <= screen.width;
        head.push(Line::Order, String::new());
        if !is_one {
            head.push(Line::Keys, self.keys.clone());
        }
        let mut lines = head.above(least, screen, |room| {
            let room = room.saturating_sub(1);
            let from = first(room);
            let to = from.saturating_add(room).min(count);
            let part = if to - from.min(to) < count { range(from + 1, to) } else { String::new() };
            if is_one { format!("{part}{whole}") } else { format!("{part}{}{missing}", self.by) }
        });
        let room = screen.height.saturating_sub(lines.len() + 1);
        let mut text = Vec::new();
        // Writing into memory does not fail.
        let _ = self.table.write(screen.width, screen.colour, &mut text);
        let text = String::from_utf8_lossy(&text);
        let mut rows = text.lines();
        lines.extend(rows.next().map(str::to_owned));
        lines.extend(rows.skip(first(room)).take(room).map(str::to_owned));
        lines.truncate(screen.height);
        lines
    }
}

/// The host's reading, as far as it fits into a line.
fn reading(now: &StatusView, width: usize) -> Option<String> {
    let reading = now.reading.as_deref()?;
    let age_s = now.at_s.unwrap_or_else(now_s) - reading.time_s;
    let mut line =
        if age_s > OLD_S { format!("host {} before:", duration(age_s)) } else { "host:".to_owned() };
    let swap = match reading.swap_used_bytes {
        0 => String::new(),
        bytes => format!(", swap {}", size(bytes)),
    };
    let percent = |name: &str, part: Option<f64>| part.map(|part| format!("{name} {:.1} %", part * 100.0));
    let stalls = [
        percent("CPU", reading.cpu_stalled),
        percent("memory", reading.memory_stalled),
        percent("storage", reading.io_stalled),
    ];
    // Each stall with its separator.
    let stalls = stalls.into_iter().flatten().enumerate();
    let stalls = stalls.map(|(at, told)| (if at == 0 { "   stalled " } else { ", " }, told));
    let first = [
        reading.cpu_busy.map(|pus| format!("{pus:.2} PUs busy")),
        Some(format!("{} in use{swap}", size(reading.memory_used_bytes))),
    ];
    let last = [
        reading.temperature_celsius.map(|degrees| format!("{degrees:.0} °C")),
        reading.frequency_mhz.map(|mhz| format!("{mhz:.0} MHz")),
    ];
    let apart = |told: String| ("   ", told);
    let parts =
        first.into_iter().flatten().map(apart).chain(stalls).chain(last.into_iter().flatten().map(apart));
    for (before, part) in parts {
        let before = if line.ends_with(':') { " " } else { before };
        // Figures that do not fit are dropped, not cut: a cut figure would be wrong.
        if columns(&line) + columns(before) + columns(&part) + 2 > width {
            line.push_str(" …");
            break;
        }
        line.push_str(before);
        line.push_str(&part);
    }
    Some(line)
}
