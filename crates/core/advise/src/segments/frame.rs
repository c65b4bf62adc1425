//! In which units the curves of a class are alike: times as they are, or in proportion to what jobs with such inputs
//! take; bytes as they are, or as shares of the peak.
//!
//! All units follow from what is known before a job starts: its input, and the peak that is advised for it. So how
//! far runs differ in them is all that a prediction can be wrong about, the length of the run included. Times are
//! rounded to cells, each [`RATIO`] times as long as all before it: as early as the cell begins, as much as was held
//! until it ends. Absent: how lengths follow inputs ([`super::clock`]), and what is made of the cells
//! ([`super::envelope`]).

use super::clock::Clock;
use super::curve::{Curve, Rise};
use crate::history::Ask;

/// Units that are tried.
pub(super) const FRAMES: usize = 4;
/// Cells of a table.
pub(super) const CELLS: usize = 48;
/// Where a cell ends, by where it begins.
const RATIO: f64 = 1.14;

/// A run that ended, in GB and hours.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) ask: Ask,
    pub(super) peak: f64,
    pub(super) hours: f64,
    /// From when on it may have held so much, in ascending order.
    rises: Vec<(f64, f64)>,
}

impl Run {
    pub(super) fn of(ask: Ask, curve: &Curve) -> Self {
        let rise = |rise: Rise| (rise.since_s / 3600.0, rise.bytes / crate::types::GB);
        let rises: Vec<(f64, f64)> = curve.coarse().into_iter().map(rise).collect();
        let peak = rises.last().map_or(0.0, |rise| rise.1);
        Self { ask, peak, hours: curve.wall_s() / 3600.0, rises }
    }
}

/// The unit of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// GB.
    Bytes,
    /// Shares of the peak.
    OfPeak,
}

impl Level {
    fn unit(self, peak: f64) -> f64 {
        match self {
            Self::Bytes => 1.0,
            Self::OfPeak => peak,
        }
    }
}

/// The units of a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame {
    clock: Clock,
    level: Level,
}

impl Frame {
    /// Those that are tried, in a fixed order; one that the runs do not tell is `None`.
    pub(super) fn all(runs: &[Run]) -> [Option<Self>; FRAMES] {
        let by_input = Clock::by_input(runs.iter().map(|run| (&run.ask, run.hours)));
        [
            Some(Self { clock: Clock::Hours, level: Level::OfPeak }),
            Some(Self { clock: Clock::Hours, level: Level::Bytes }),
            by_input.map(|clock| Self { clock, level: Level::OfPeak }),
            by_input.map(|clock| Self { clock, level: Level::Bytes }),
        ]
    }

    /// Hours and GB of a job for which this peak is advised, in GB.
    pub(super) fn units(&self, ask: &Ask, peak: f64) -> Option<(f64, f64)> {
        Some((self.clock.unit(ask)?, self.level.unit(peak)))
    }
}

/// What runs held until the end of each cell.
#[derive(Debug)]
pub(super) struct Table {
    /// Where cells begin.
    pub(super) starts: [f64; CELLS],
    /// A line a run.
    pub(super) levels: Vec<[f64; CELLS]>,
    /// What all runs together hold in each cell for each unit of memory, in GB x hours.
    pub(super) weights: [f64; CELLS],
    /// The middle of the peaks.
    pub(super) usual: f64,
}

impl Table {
    /// `None`: a unit of a run is not known, or no run took any time.
    pub(super) fn new(frame: &Frame, runs: &[Run]) -> Option<Self> {
        let units = runs.iter().map(|run| frame.units(&run.ask, run.peak)).collect::<Option<Vec<_>>>()?;
        let lengths = runs.iter().zip(&units).map(|(run, (hours, _))| run.hours / hours);
        let longest = lengths.fold(0.0, f64::max);
        if !longest.is_finite() || longest <= 0.0 {
            return None;
        }
        let mut starts = [longest / RATIO; CELLS];
        for cell in (1..CELLS - 1).rev() {
            starts[cell] = starts[cell + 1] / RATIO;
        }
        starts[0] = 0.0;
        let end = |cell: usize| starts.get(cell + 1).copied().unwrap_or(f64::INFINITY);
        let mut weights = [0.0; CELLS];
        let mut levels = Vec::with_capacity(runs.len());
        for (run, (hours, bytes)) in runs.iter().zip(&units) {
            let mut line = [0.0; CELLS];
            let (mut next, mut held) = (0, 0.0);
            for (cell, level) in line.iter_mut().enumerate() {
                while let Some(rise) = run.rises.get(next).filter(|rise| rise.0 < end(cell) * hours) {
                    held = rise.1;
                    next += 1;
                }
                *level = held / bytes;
                let within = end(cell).min(run.hours / hours) - starts[cell];
                weights[cell] += within.max(0.0) * hours * bytes;
            }
            levels.push(line);
        }
        let mut peaks: Vec<f64> = runs.iter().zip(&units).map(|(run, (_, bytes))| run.peak / bytes).collect();
        let middle = peaks.len() / 2;
        let usual = *peaks.select_nth_unstable_by(middle, f64::total_cmp).1;
        Some(Self { starts, levels, weights, usual })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run of so many hours with this input that holds so many GB from these hours on.
    pub(in crate::segments) fn run(input: Option<f64>, hours: f64, rises: &[(f64, f64)]) -> Run {
        let peak = rises.last().map_or(0.0, |rise| rise.1);
        Run { ask: Ask::new(input, None), peak, hours, rises: rises.to_vec() }
    }

    fn at(table: &Table, run: usize, hours: f64) -> f64 {
        let cell = table.starts.iter().rposition(|&start| start <= hours).unwrap();
        table.levels[run][cell]
    }

    #[test]
    fn cells_hold_what_was_held_until_they_end() {
        let runs = [run(None, 10.0, &[(0.0, 1.0), (5.0, 4.0)]), run(None, 2.0, &[(0.0, 8.0)])];
        let [of_peak, bytes, none, _] = Frame::all(&runs);
        assert_eq!(none, None, "inputs are not known");
        let table = Table::new(&bytes.unwrap(), &runs).unwrap();
        assert_eq!((at(&table, 0, 4.0), at(&table, 0, 5.0), at(&table, 0, 99.0)), (1.0, 4.0, 4.0));
        assert_eq!((at(&table, 1, 0.0), at(&table, 1, 9.0)), (8.0, 8.0));
        assert!((table.weights.iter().sum::<f64>() - 12.0).abs() < 1e-9, "the hours of all runs");
        let table = Table::new(&of_peak.unwrap(), &runs).unwrap();
        assert_eq!((at(&table, 0, 4.0), at(&table, 0, 5.0), at(&table, 1, 0.0)), (0.25, 1.0, 1.0));
        assert!((table.weights.iter().sum::<f64>() - 56.0).abs() < 1e-9 && (table.usual - 1.0).abs() < 1e-9);
        assert!(table.starts.is_sorted() && (table.starts[1] - 10.0 / RATIO.powi(47)).abs() < 1e-12);
    }

    #[test]
    fn lengths_that_follow_inputs_are_alike_in_proportion() {
        let of = |power: f64| -> Vec<Run> {
            let input = |n: i32| f64::from(n) * 1e9;
            let hours = |n: i32| f64::from(n).powf(power);
            (1..=9).map(|n| run(Some(input(n)), hours(n), &[(0.0, 1.0), (hours(n) / 2.0, 4.0)])).collect()
        };
        let runs = of(1.0);
        let frame = Frame::all(&runs)[2].unwrap();
        let unit = |input: f64| frame.units(&Ask::new(Some(input), None), 1.0).unwrap().0;
        assert!((unit(8e9) / unit(2e9) - 4.0).abs() < 1e-6);
        assert!((unit(90e9) / unit(9e9) - 1.0).abs() < 1e-9, "beyond all inputs");
        assert_eq!(frame.units(&Ask::new(None, None), 1.0), None);
        let table = Table::new(&frame, &runs).unwrap();
        assert_eq!(table.levels, vec![table.levels[0]; 9]);
        assert_eq!(Frame::all(&of(0.0))[2], None);
        assert_eq!(Frame::all(&runs[..5])[2], None, "few runs");
    }

    #[test]
    fn runs_of_no_time_make_no_table() {
        let runs = [run(None, 0.0, &[(0.0, 1.0)]), run(None, 0.0, &[(0.0, 2.0)])];
        assert!(Table::new(&Frame::all(&runs)[0].unwrap(), &runs).is_none());
    }
}
