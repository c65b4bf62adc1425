//! The memory that a class of jobs needs, with a stated risk, learned from the runs that ended.
//!
//! [`answer`] is the advice for the next job of a class: the same figure wherever pinfold advises. It rests on a
//! [`Learner`], which is told each run ([`Learner::observe`]) and asked before the next ([`Learner::advise`]). A
//! learner keeps the last runs ([`mod@history`]), fits several estimators to them ([`estimate`]), over the size of the
//! inputs and over the number that peaks follow best ([`numbers`]), gives each estimator a margin by its errors on runs
//! that it was not fitted to ([`margin`]), and mixes the estimators by the cost that each would have had so far
//! ([`select`]). The room for few runs and for larger inputs is in [`caution`]; the allocation after a failure in
//! [`retry`]; intervals of observed rates in [`risk`]; a bound for values without features in [`mod@bound`]. The
//! scheduler's estimates, from peaks alone, are [`Peaks`]; of a class that ran elsewhere alone, [`Prior`]; the requests
//! of a whole history by advice, [`applied`].
//!
//! Cost is memory x time: the allocation beyond the peak, and all that a failed attempt held. Deterministic: the same
//! rows in the same order give the same advice, bit for bit; the seed only chooses which runs of a long history are
//! scored. Absent: requested memory, which no figure depends on; files, clocks, threads, hash order, and any decision
//! about a job.

pub mod applied;
mod bound;
mod caution;
mod class;
mod estimate;
mod history;
mod margin;
mod numbers;
mod peaks;
mod prior;
mod retry;
mod risk;
mod select;
mod types;

use class::Class;

pub use bound::{bound, middle};
pub use peaks::{Expected, Peak, Peaks};
pub use prior::Prior;
pub use retry::Retry;
pub use risk::wilson;
pub use types::{Advice, Drift, Features, NUMBERS, Order, Row, Settings, Verdict};

/// Least runs of a class for advice.
pub const RUNS_MIN: usize = 3;

/// A job of a class that is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ended {
    /// Whether it ended with exit code 0. Of another job the need is not known.
    pub well: bool,
    /// When it ended, in seconds since any moment.
    pub at_s: f64,
    /// Its features and figures.
    pub row: Row,
}

/// The memory that the next job of a class should ask for, by its jobs that ended well. `None`: fewer than
/// [`RUNS_MIN`] did. `risk`: see [`Settings`].
#[must_use]
pub fn answer(jobs: &[Ended], next: &Features, risk: Option<f64>) -> Option<Advice> {
    let mut well: Vec<&Ended> = jobs.iter().filter(|job| job.well && says_something(&job.row)).collect();
    well.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let usual = Settings::of(Order::Time);
    let mut learner = Learner::new(Settings { risk: risk.unwrap_or(usual.risk), ..usual });
    well.iter().for_each(|job| learner.observe(&job.row));
    learner.advise(next).filter(|_| well.len() >= RUNS_MIN)
}

/// The needs of a class's jobs.
#[derive(Debug)]
pub struct Learner {
    settings: Settings,
    class: Class,
}

impl Learner {
    /// A learner without runs. A risk outside (0, 1) is brought into it.
    #[must_use]
    pub fn new(mut settings: Settings) -> Self {
        let risk = if settings.risk.is_finite() { settings.risk } else { Settings::RISK };
        settings.risk = risk.clamp(1e-6, 0.999_999);
        Self { settings, class: Class::default() }
    }

    /// Learns from a run. A run without a peak, or of no finite length, says nothing and is left out.
    pub fn observe(&mut self, row: &Row) {
        if says_something(row) {
            self.class.observe(history::Run::of(row), &self.settings);
        }
    }

    /// Advice for the next job. `None`: no run is known.
    #[must_use]
    pub fn advise(&mut self, features: &Features) -> Option<Advice> {
        self.class.advise(features, &self.settings)
    }

    /// How many runs count, at most the last 500.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.class.len()
    }

    /// Whether the needs changed lately.
    #[must_use]
    pub fn drift(&self) -> Drift {
        self.class.drift()
    }

    /// How to go on after a failure with a job that asked for so much.
    #[must_use]
    pub fn retry(&self, request_bytes: Option<u64>) -> Retry {
        Retry::new(self.class.largest(), request_bytes, self.settings.order)
    }
}

/// Whether a run has a peak and a length.
fn says_something(row: &Row) -> bool {
    row.peak_bytes > 0 && row.wall_s.is_finite() && row.wall_s >= 0.0
}

#[cfg(test)]
mod tests;
