//! What a job needs when: a few segments of memory that only grow, in place of its peak from the start.
//!
//! Many jobs need little for most of their run, and much at its end. Published methods divide a run into a fixed
//! number of segments and fit lines through their sizes and lengths (J. Bader and others, Predicting dynamic memory
//! requirements for scientific workflow tasks, IEEE Big Data 2023; KS+, IEEE e-Science 2024). Here a class has an
//! [`envelope`] of what its runs held by when, in units that are known before a job starts ([`frame`]), with a
//! margin whose risk is known; a few segments [`cover`] it. The last segment is always the peak that is advised
//! anyway.
//!
//! How many segments, and in which units, is decided as among the other estimators: each run is first predicted and
//! then learnt from, and what each choice would have saved of the peak counts, failures paid for. As long as none
//! has saved anything, one segment is left: the peak. A job that runs slower than expected gets its later segments
//! earlier than it needs them, which costs memory and no failure; one that runs faster may fail, so how much faster
//! runs were is part of the margin. Absent: the peak itself, and what is done with a [`Plan`].

mod clock;
mod cover;
mod curve;
mod envelope;
mod frame;
mod plan;

use crate::caution::LEAST_GB;
use crate::history::Ask;
use crate::retry::whole;
use crate::types::{Features, GB, Settings};

use cover::{SEGMENTS_MAX, covered, covers};
use envelope::Envelope;
use frame::{CELLS, FRAMES, Frame, Run, Table};

pub use curve::Curve;
pub use plan::{Plan, Segment, Shortage};

/// Runs of a class whose curves count.
const RUNS_KEPT: usize = 100;
/// Least runs to say anything by.
const RUNS_MIN: usize = 5;
/// For each of these a cover with two segments and more.
const COVERS: usize = SEGMENTS_MAX - 1;
/// How much of the say the expected savings have to begin with,
const EXPECTED: f64 = 0.8;
/// and the number of scored runs from which on it is half as much.
const EXPECTED_RUNS: f64 = 30.0;
/// Segments that save less than this part of what the peak holds are not worth telling.
const WORTH: f64 = 0.02;

/// What a job should get over time, instead of its peak from the start.
#[derive(Debug, Clone, PartialEq)]
pub struct Segmented {
    /// At least two segments; the last is the peak.
    pub plan: Plan,
    /// The expected probability that it needs the peak, or a part of it, earlier than planned.
    pub risk: f64,
    /// How many runs this rests on.
    pub runs: usize,
}

/// An envelope of a class in some units, with the covers that it has.
#[derive(Debug)]
struct Fitted {
    frame: Frame,
    starts: [f64; CELLS],
    envelope: Envelope,
    covers: [Vec<usize>; COVERS],
    /// What each cover is expected to save of a run, in GB x hours.
    expected: [f64; COVERS],
    /// What is worth telling, in the same unit.
    worth: f64,
}

/// Which units, and which cover.
type Choice = (usize, usize);

/// What is known of when the runs of a class held how much.
#[derive(Debug, Default)]
pub(crate) struct Curves {
    runs: Vec<Run>,
    fitted: [Option<Fitted>; FRAMES],
    is_fitted: bool,
    /// Runs that have come since the fit.
    stale: u64,
    /// All runs, the forgotten too.
    seen: u64,
    /// What each choice has saved so far, in GB x hours.
    saved: [[f64; COVERS]; FRAMES],
    scored: f64,
}

impl Curves {
    /// Learns from a run for which this peak had been advised; `None`: nothing had.
    pub(crate) fn observe(
        &mut self,
        features: &Features,
        curve: &Curve,
        advised_bytes: Option<u64>,
        settings: &Settings,
    ) {
        let ask = Ask::of(features);
        if let Some(advised_bytes) = advised_bytes.filter(|_| self.runs.len() >= RUNS_MIN) {
            self.refresh(settings);
            self.score(&ask, curve, advised_bytes, settings);
        }
        // In one move for many, so that forgetting costs nothing to speak of.
        if self.runs.len() >= RUNS_KEPT + RUNS_KEPT / 8 {
            self.runs.drain(..=RUNS_KEPT / 8);
        }
        self.runs.push(Run::of(ask, curve));
        self.seen += 1;
        self.stale += 1;
    }

    /// What a job for which this peak is advised should get over time. `None`: that peak from its start.
    pub(crate) fn advise(
        &mut self,
        features: &Features,
        peak_bytes: u64,
        settings: &Settings,
    ) -> Option<Segmented> {
        if self.runs.len() < RUNS_MIN {
            return None;
        }
        self.refresh(settings);
        let (frame, cover) = self.choice()?;
        let fitted = self.fitted[frame].as_ref()?;
        let plan = fitted.plan(cover, &Ask::of(features), peak_bytes)?;
        let risk = fitted.envelope.risk.min(0.5);
        (plan.segments().len() > 1).then_some(Segmented { plan, risk, runs: self.runs.len() })
    }

    /// Notes what each choice would have saved of a run.
    fn score(&mut self, ask: &Ask, curve: &Curve, advised_bytes: u64, settings: &Settings) {
        self.scored += 1.0;
        for (fitted, saved) in self.fitted.iter().zip(&mut self.saved) {
            let Some(fitted) = fitted else { continue };
            for (cover, saved) in saved.iter_mut().enumerate() {
                let plan = fitted.plan(cover, ask, advised_bytes);
                *saved += plan.map_or(0.0, |plan| plan.gain_gbh(curve, settings.failure_gbh));
            }
        }
    }

    /// The choice that is expected to save the most: by what it has saved of the runs so far, and by what it would
    /// have saved of those that it was fitted to. `None`: none saves anything.
    fn choice(&self) -> Option<Choice> {
        let part = EXPECTED * EXPECTED_RUNS / (EXPECTED_RUNS + self.scored);
        let mut best: Option<(f64, Choice)> = None;
        for (frame, fitted) in self.fitted.iter().enumerate() {
            let Some(fitted) = fitted else { continue };
            for cover in 0..COVERS {
                let saved = self.saved[frame][cover];
                let score = (1.0 - part) * saved / self.scored.max(1.0) + part * fitted.expected[cover];
                // One that has cost more than the peak so far is not trusted, whatever is expected of it.
                if saved >= 0.0 && score > best.map_or(fitted.worth, |best| best.0.max(fitted.worth)) {
                    best = Some((score, (frame, cover)));
                }
            }
        }
        best.map(|best| best.1)
    }

    fn refresh(&mut self, settings: &Settings) {
        let may_be_stale = self.seen / 50;
        if !self.is_fitted || self.stale > may_be_stale {
            let fit = |frame: Option<Frame>| Fitted::new(frame?, &self.runs, settings);
            self.fitted = Frame::all(&self.runs).map(fit);
            (self.is_fitted, self.stale) = (true, 0);
        }
    }
}

impl Fitted {
    /// `None`: the units are not known of all runs, or nothing is saved in them.
    fn new(frame: Frame, runs: &[Run], settings: &Settings) -> Option<Self> {
        let table = Table::new(&frame, runs)?;
        let envelope = envelope::best(&table, settings)?;
        let covers = covers(&envelope.levels, &table.weights);
        let n = runs.len() as f64;
        let flat = table.weights.iter().sum::<f64>() * table.usual / n;
        let lost = envelope.risk * (flat + settings.failure_gbh);
        let expected =
            std::array::from_fn(|at| table.gain(&covered(&envelope.levels, &covers[at])) / n - lost);
        Some(Self { frame, starts: table.starts, envelope, covers, expected, worth: flat * WORTH })
    }

    /// What this cover says of a job. `None`: it does not tell its units.
    fn plan(&self, cover: usize, ask: &Ask, peak_bytes: u64) -> Option<Plan> {
        let (hours, gb) = self.frame.units(ask, peak_bytes as f64 / GB)?;
        let starts = |cell: usize| self.starts[cell] * hours * 3600.0;
        let bytes = |cell: usize| whole((self.envelope.levels[cell] * gb).max(LEAST_GB) * GB);
        let ends = self.covers.get(cover)?;
        let first = std::iter::once(0).chain(ends.iter().map(|end| end + 1));
        let rising = first.zip(ends).map(|(first, &end)| (starts(first), bytes(end)));
        let last = ends.last().map_or(0.0, |end| starts(end + 1));
        Some(Plan::rising(rising, (last, peak_bytes)))
    }
}

#[cfg(test)]
#[path = "segments/tests.rs"]
mod tests;
