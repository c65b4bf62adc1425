//! Valid ranges of a host's figures. A hub sums and plots figures of many hosts, so a single impossible figure would
//! spoil all sums and pages. A message with a figure outside of its range is refused with the figure's name. A host
//! clamps its users' requests into the ranges before sending, so that no odd request gets a job's record refused.
//!
//! Absent here: lengths of texts and lists, and consistency of a job's figures (`bundle`).

/// Visits the figures of a value: `figures!(see, "prefix.", value, Type { field: Kind, ... } with { ... } without {
/// ... })`. Fields behind `with` are bound for later code, fields behind `without` are not figures; every field must
/// be listed.
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

/// The quantity of a figure, which gives its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A moment, in seconds since the Unix epoch: before the year 2200.
    Moment,
    /// A duration or a limit, in seconds: 20 years.
    Span,
    /// Seconds of many threads added up: 65,536 threads for as long.
    Work,
    /// Memory, in bytes: 1 PiB.
    Memory,
    /// Bytes moved or addressed: 4 EiB.
    Moved,
    /// A count: 2^53, exact in JavaScript.
    Count,
    /// Cores, processors, slots: 2^24.
    Cores,
    /// A fraction, with tolerance for rounding.
    Part,
    /// A relative difference.
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

/// A number with access for checks and clamping.
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

/// A visitor of figures.
type See<'a> = &'a mut dyn FnMut(&'static str, Kind, &mut dyn Figure);

/// A figure outside of its range.
#[derive(Debug, Clone, PartialEq)]
pub struct OutOfRange {
    /// Its name in JSON.
    pub name: &'static str,
    /// The value.
    pub value: f64,
    /// The least valid value,
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

/// A number in its shortest exact form.
struct Shown(f64);

impl std::fmt::Display for Shown {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.abs() < 1e15 { write!(out, "{}", self.0) } else { write!(out, "{:e}", self.0) }
    }
}

/// Finds the first figure outside of its range.
fn first_beyond(each: impl FnOnce(See<'_>)) -> Result<(), OutOfRange> {
    let mut found = None;
    each(&mut |name, kind, figure| {
        let (least, most) = kind.range();
        // NaN is in no range.
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

/// Checks the figures of an ended job.
///
/// # Errors
/// The first impossible figure.
pub fn check_head(head: &mut Head) -> Result<(), OutOfRange> {
    first_beyond(|see| each_of_head(head, see))
}

/// Clamps the figures of an ended job into their ranges.
pub fn bound_head(head: &mut Head) {
    bring_within(|see| each_of_head(head, see));
}

/// Checks the figures of a series.
///
/// # Errors
/// The first impossible figure.
pub fn check_series(series: &mut Columns) -> Result<(), OutOfRange> {
    first_beyond(|see| each_of_series(series, see))
}

/// Clamps the figures of a series into their ranges.
pub fn bound_series(series: &mut Columns) {
    bring_within(|see| each_of_series(series, see));
}

/// Checks the figures of a host's state.
///
/// # Errors
/// The first impossible figure.
pub fn check_live(live: &mut Live) -> Result<(), OutOfRange> {
    first_beyond(|see| each_of_live(live, see))
}

/// Clamps the figures of a host's state into their ranges.
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
    // Cores and their jobs are drawn, never summed; their number has its own bound (`bundle::read_live`).
    figures!(see, "", live, Live { sent_us: Count } with { status, spool } without { version, boot, map, topology, asked });
    figures!(see, "spool.", spool, SpoolFigures {
        bundles: Count, bytes: Moved, max_bytes: Moved, jobs_waiting: Count, refused: Count,
    } with {} without {});
    status::each(status, see);
}

#[cfg(test)]
mod tests;
