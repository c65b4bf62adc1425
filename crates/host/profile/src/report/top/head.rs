//! What stands above the rows of every screen: the moment, the host, its memory, what it did, what keys do. Of that as
//! much as a terminal has room for beside some rows; and of rows and columns that have no room it says so.

use pinfold_proto::JobState;
use pinfold_proto::view::StatusView;

use super::super::list::other_load;
use super::super::now_s;
use super::super::resources::resources_in_use;
use super::super::table::{Table, columns, cut, plain};
use super::super::units::{date_here, duration, precise, size};
use super::{Screen, bar, load};

/// What a line above the rows is. The first stay longest where there is little room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    /// Which moment is shown, or whose processes.
    Moment,
    /// What is in the rows, and in what order.
    Order,
    /// The host and its slots.
    Host,
    /// The memory of jobs.
    Memory,
    /// What an operator should know.
    Warning,
    /// What the host as a whole did.
    Reading,
    /// What keys do.
    Keys,
    /// How the last looks went.
    Past,
    /// How busy each core is.
    Meters,
}

/// More warnings than these are counted.
const WARNINGS_MAX: usize = 3;

/// A reading from so long ago is told with its age.
const OLD_S: f64 = 20.0;

/// The lines above the rows, from above.
#[derive(Debug, Default)]
pub(super) struct Head {
    lines: Vec<(Line, String)>,
}

impl Head {
    /// Of the host: its slots and its memory, what it did, and the moment if that is not now.
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
        // The bar takes what the figures leave, and goes before they are cut.
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

    /// A line below those there are.
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

    /// Without meters and history if they would take more than `room` lines together with the others.
    pub(super) fn without_load(&mut self, room: usize) {
        while self.lines.len() > room {
            let last = self.lines.iter().map(|(line, _)| *line).max();
            let Some(last @ (Line::Past | Line::Meters)) = last else { break };
            self.lines.retain(|(line, _)| *line != last);
        }
    }

    /// The lines above `least` rows or more, no wider than the screen, in place of that of the order what that says.
    pub(super) fn above(self, least: usize, screen: &Screen, order: impl Fn(usize) -> String) -> Vec<String> {
        let lines = self.fitted(screen.height.saturating_sub(least));
        let room = screen.height.saturating_sub(lines.len());
        let text = |(line, text)| if line == Line::Order { order(room) } else { text };
        lines.into_iter().map(|one| cut(&text(one), screen.width)).collect()
    }
}

/// Rows of a table below a head, as many as there is room for.
pub(super) struct Rows<'a> {
    pub(super) table: &'a Table,
    /// What the rows are.
    pub(super) what: &'static str,
    /// In what order they are, and which.
    pub(super) by: String,
    /// What keys do.
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
        // All rows, or two thirds of the screen, go before meters and history; a line each for columns, order and keys.
        let rows = count.min(screen.height / 3 * 2);
        head.without_load(screen.height.saturating_sub(rows.saturating_add(3)));
        let missing = match self.table.left_out(screen.width) {
            none if none.is_empty() => String::new(),
            some => format!("   no room for {}", some.join(", ")),
        };
        // At least a third of the screen is rows, and one line names their columns.
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

/// What the host as a whole did, as much of it as a line has room for.
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
    // Each with what stands before it.
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
        // What has no room is not cut: half a figure is a wrong one.
        if columns(&line) + columns(before) + columns(&part) + 2 > width {
            line.push_str(" …");
            break;
        }
        line.push_str(before);
        line.push_str(&part);
    }
    Some(line)
}
