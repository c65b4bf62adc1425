//! What a figure of a host may be. A hub adds figures of many hosts up and draws them: one that no host can have makes
//! the sums and the pages of all useless. So each has a range here, by what it measures, and a message with one outside
//! of its range is refused with the figure's name. A host brings what its users asked for into these ranges before it
//! sends it, so that no user's odd wish has a job's record refused.
//!
//! Absent here: lengths of texts and lists, and whether figures of one job fit each other (`bundle`).

/// Looks at figures of a value: `figures!(see, "prefix.", value, Type { field: Kind, ... } with { ... } without { ...
/// })`. Fields behind `with` are bound for what follows, those behind `without` are no figures; none may be left out.
macro_rules! figures {
    ($see:ident, $prefix:literal, $of:expr, $type:ident { $($field:ident: $kind:ident),* $(,)? }
     with { $($with:ident),* $(,)? } without { $($without:ident),* $(,)? }) => {
        let $type { $($field,)* $($with,)* $($without: _,)* } = $of;
        $($see(concat!($prefix, stringify!($field)), Kind::$kind, $field);)*
    };
}

mod report;
mod status;

use crate::bundle::{Act, Head, Live, SpoolFigures};
use crate::series::Columns;

/// What a figure measures, and so what it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A moment, in seconds since the Unix epoch: before the year 2200.
    Moment,
    /// How long something took or may take, in seconds: 20 years.
    Span,
    /// Seconds of many threads added up: 65,536 threads for as long.
    Work,
    /// Memory, in bytes: 1 PiB.
    Memory,
    /// What was moved, or addressed, in bytes: 4 EiB.
    Moved,
    /// How many there are or were: 2^53, so that a program in JavaScript reads it as it is.
    Count,
    /// Cores, processors, slots: 2^24.
    Cores,
    /// A part of a whole, with room for what rounding adds.
    Part,
    /// How much larger one is than another.
    Ratio,
    /// Degrees Celsius.
    Degrees,
}

impl Kind {
    const fn range(self) -> (f64, f64) {
        match self {
            Self::Moment => (0.0, 7_258_118_400.0),
            Self::Span => (0.0, 20.0 * 365.25 * 86_400.0),
            Self::Work => (0.0, 65_536.0 * 20.0 * 365.25 * 86_400.0),
            Self::Memory => (0.0, 1_125_899_906_842_624.0),
            Self::Moved => (0.0, 4_611_686_018_427_387_904.0),
            Self::Count => (0.0, 9_007_199_254_740_992.0),
            Self::Cores => (0.0, 16_777_216.0),
            Self::Part => (0.0, 1.001),
            Self::Ratio => (-1e6, 1e6),
            Self::Degrees => (-273.15, 10_000.0),
        }
    }
}

/// A number that can be looked at, and brought into a range.
trait Figure {
    fn value(&self) -> Option<f64>;
    fn set(&mut self, value: f64);
}

impl Figure for f64 {
    fn value(&self) -> Option<f64> {
        Some(*self)
    }

    fn set(&mut self, value: f64) {
        *self = value;
    }
}

impl Figure for u64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "what is beyond 2^53 is beyond most ranges, and need not be exact"
    )]
    fn value(&self) -> Option<f64> {
        Some(*self as f64)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    fn set(&mut self, value: f64) {
        *self = value as u64;
    }
}

impl Figure for u32 {
    fn value(&self) -> Option<f64> {
        Some(f64::from(*self))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    fn set(&mut self, value: f64) {
        *self = value as u32;
    }
}

impl<T: Figure> Figure for Option<T> {
    fn value(&self) -> Option<f64> {
        self.as_ref().and_then(Figure::value)
    }

    fn set(&mut self, value: f64) {
        if let Some(own) = self {
            own.set(value);
        }
    }
}

/// What looks at each figure in turn.
type See<'a> = &'a mut dyn FnMut(&'static str, Kind, &mut dyn Figure);

/// A figure outside of its range.
#[derive(Debug, Clone, PartialEq)]
pub struct OutOfRange {
    /// Its name, as JSON has it.
    pub name: &'static str,
    /// What was said.
    pub value: f64,
    /// What it may be at least,
    pub least: f64,
    /// and at most.
    pub most: f64,
}

impl std::fmt::Display for OutOfRange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, value, least, most } = self;
        write!(
            out,
            "{name} is {}, and no host has less than {} or more than {}",
            Shown(*value),
            Shown(*least),
            Shown(*most)
        )
    }
}

/// A number in as many digits as tell it.
struct Shown(f64);

impl std::fmt::Display for Shown {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.abs() < 1e15 { write!(out, "{}", self.0) } else { write!(out, "{:e}", self.0) }
    }
}

/// The first figure that is outside of its range.
fn first_beyond(each: impl FnOnce(See<'_>)) -> Result<(), OutOfRange> {
    let mut found = None;
    each(&mut |name, kind, figure| {
        let (least, most) = kind.range();
        // What is not a number is in no range.
        let beyond = figure.value().filter(|value| !(least..=most).contains(value));
        if let (Some(value), None) = (beyond, &found) {
            found = Some(OutOfRange { name, value, least, most });
        }
    });
    found.map_or(Ok(()), Err)
}

fn bring_within(each: impl FnOnce(See<'_>)) {
    each(&mut |_, kind, figure| {
        let (least, most) = kind.range();
        match figure.value() {
            Some(value) if value.is_nan() => figure.set(least),
            Some(value) if !(least..=most).contains(&value) => figure.set(value.clamp(least, most)),
            _ => {}
        }
    });
}

/// Checks the figures of a job that is over.
///
/// # Errors
/// The first that no host can have.
pub fn check_head(head: &mut Head) -> Result<(), OutOfRange> {
    first_beyond(|see| each_of_head(head, see))
}

/// Brings them into their ranges.
pub fn bound_head(head: &mut Head) {
    bring_within(|see| each_of_head(head, see));
}

/// Checks the figures of a series.
///
/// # Errors
/// The first that no host can have.
pub fn check_series(series: &mut Columns) -> Result<(), OutOfRange> {
    first_beyond(|see| each_of_series(series, see))
}

/// Brings them into their ranges.
pub fn bound_series(series: &mut Columns) {
    bring_within(|see| each_of_series(series, see));
}

/// Checks how a host is.
///
/// # Errors
/// The first figure that no host can have.
pub fn check_live(live: &mut Live) -> Result<(), OutOfRange> {
    first_beyond(|see| each_of_live(live, see))
}

/// Brings its figures into their ranges.
pub fn bound_live(live: &mut Live) {
    bring_within(|see| each_of_live(live, see));
}

fn each_of_head(head: &mut Head, see: See<'_>) {
    let Head { report, acts } = head;
    report::each(report, see);
    for Act { time_s, action: _, reason: _ } in acts {
        see("acts.time_s", Kind::Moment, time_s);
    }
}

fn each_of_series(series: &mut Columns, see: See<'_>) {
    let Columns {
        time_s,
        cpu_cores,
        memory_bytes,
        cache_bytes,
        swap_bytes,
        io_read_bytes,
        io_write_bytes,
        processes,
        threads,
        state: _,
    } = series;
    time_s.iter_mut().for_each(|figure| see("series.time_s", Kind::Moment, figure));
    cpu_cores.iter_mut().for_each(|figure| see("series.cpu_cores", Kind::Cores, figure));
    memory_bytes.iter_mut().for_each(|figure| see("series.memory_bytes", Kind::Memory, figure));
    cache_bytes.iter_mut().for_each(|figure| see("series.cache_bytes", Kind::Memory, figure));
    swap_bytes.iter_mut().for_each(|figure| see("series.swap_bytes", Kind::Memory, figure));
    io_read_bytes.iter_mut().for_each(|figure| see("series.io_read_bytes", Kind::Moved, figure));
    io_write_bytes.iter_mut().for_each(|figure| see("series.io_write_bytes", Kind::Moved, figure));
    processes.iter_mut().for_each(|figure| see("series.processes", Kind::Cores, figure));
    threads.iter_mut().for_each(|figure| see("series.threads", Kind::Cores, figure));
}

fn each_of_live(live: &mut Live, see: See<'_>) {
    // Cores and who has them are drawn, never added up; how many there are has a bound of its own
    // (`bundle::read_live`).
    figures!(see, "", live, Live { sent_us: Count } with { status, spool } without { version, boot, map, topology });
    figures!(see, "spool.", spool, SpoolFigures {
        bundles: Count, bytes: Moved, max_bytes: Moved, jobs_waiting: Count, refused: Count,
    } with {} without {});
    status::each(status, see);
}

#[cfg(test)]
mod tests;
