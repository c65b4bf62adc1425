//! Whether jobs of a kind run faster close together or apart, found out from how long they ran.
//!
//! Nobody reads a counter that would tell. So once some runs close together are known, every other one is laid apart, a
//! few times, and the two are compared: the means of the logarithms of their lengths, by Welch's test for two samples of
//! unequal variance (B. L. Welch, "The generalization of Student's problem when several different population variances
//! are involved", Biometrika 34, 1947; degrees of freedom by Satterthwaite). Logarithms, because what a cache is worth is
//! a part of a run, long or short. Kinds are laid apart only if that is faster by 3 % at least with 95 % confidence, and
//! stay so as long as they surely gain at all. What was found is tried again after many runs, for programs and
//! inputs change.
//!
//! Pure; whose run counts (nobody moved, stopped or was kept waiting) is the caller's to say. How many runs are laid
//! apart to find out is bounded for each kind.

use std::collections::VecDeque;
use std::fmt;

use pinfold_place::pack::Shape;

use crate::api::{Kind, Ran};
use crate::jobs::Remembered;

/// Runs of each that there must be before they are compared,
const ENOUGH: usize = 5;
/// and that are made in a trial, and count, at most.
const MOST: usize = 10;

/// Runs after which a trial is over though too few of it told anything: they failed, moved or were disturbed.
const PATIENCE: u32 = 40;

/// Runs after which a kind is tried again.
const AGAIN_AFTER: u32 = 200;

/// The least gain for which a kind is laid apart, as a part of its length.
const GAIN_MIN: f64 = 0.03;

/// The widest that is known of a gain to either side; beyond, runs differ too much for other reasons.
const WIDTH_MAX: f64 = 0.1;

/// Kinds that are remembered; of a user half of them at most, and the one that ran longest ago is forgotten for a new one.
const KINDS_KEPT: usize = 4096;

/// The 97.5 % points of Student's distribution for 4 to 18 degrees of freedom, as many as two samples of 5 to 10 have.
const STUDENT: [f64; 15] =
    [2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101];

/// How much shorter runs apart are, as a part of those close together: at best guess, and with 95 % confidence at least
/// and at most. Negative: they are longer.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Gain {
    /// The best guess.
    pub mean: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// What is known of a kind, for people.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Known {
    /// How the next of the kind lies, but for the trial's others.
    pub usual: Shape,
    /// Whether that is settled; otherwise both are being tried, or will be.
    pub settled: bool,
    /// Runs close together that count, in the last trial.
    pub close: usize,
    /// Runs apart that count.
    pub apart: usize,
    /// What the last comparison says; `None`: there are too few runs.
    pub gain: Option<Gain>,
    /// Runs until the kind is tried again, once it is settled.
    pub again_in: u32,
}

impl Known {
    /// Whether the runs themselves say which it is: that those apart are shorter by what is asked for, or longer. Others
    /// are settled because more runs would not be worth it, and lie close together.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        let says = |gain: Gain| match self.usual {
            Shape::Spread => gain.low >= GAIN_MIN,
            Shape::Compact => gain.high < 0.0,
        };
        self.settled && self.gain.is_some_and(says)
    }
}

/// What is known of each kind.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Trials {
    kinds: Remembered<Trial, KINDS_KEPT>,
}

#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
struct Trial {
    /// How it lies when nothing is tried.
    usual: Shape,
    settled: bool,
    /// The logarithms of the lengths of the last runs.
    close: VecDeque<f64>,
    apart: VecDeque<f64>,
    /// Runs of this trial that were laid the other way.
    begun: usize,
    /// Whether the last that began was one of those.
    was_other: bool,
    /// Runs that ended since the first of those began; once it is settled, since then.
    since: u32,
    gain: Option<Gain>,
}

impl Trials {
    /// How the next of a kind lies. It is taken as begun: ask once for each job.
    pub(crate) fn begin(&mut self, kind: Kind) -> Shape {
        self.kinds.peek_mut(kind.key()).map_or(Shape::Compact, Trial::begin)
    }

    /// Takes in a run.
    pub(crate) fn ended(&mut self, ran: Ran) {
        self.kinds.of(ran.kind.key(), Trial::default).ended(ran.shape, ran.length_us);
    }

    /// What is known of a kind; `None`: nothing ran.
    pub(crate) fn known(&self, kind: Kind) -> Option<Known> {
        self.kinds.get(kind.key()).map(Trial::known)
    }
}

impl Trial {
    fn other(&self) -> Shape {
        match self.usual {
            Shape::Compact => Shape::Spread,
            Shape::Spread => Shape::Compact,
        }
    }

    fn runs(&self, shape: Shape) -> &VecDeque<f64> {
        match shape {
            Shape::Compact => &self.close,
            Shape::Spread => &self.apart,
        }
    }

    /// Every other run is laid the other way, once enough are known of the usual one.
    fn begin(&mut self) -> Shape {
        let ready = !self.settled && self.runs(self.usual).len() >= ENOUGH && self.begun < MOST;
        self.was_other = ready && !self.was_other;
        if !self.was_other {
            return self.usual;
        }
        if self.begun == 0 {
            self.since = 0;
        }
        self.begun += 1;
        self.other()
    }

    fn ended(&mut self, shape: Shape, length_us: u64) {
        self.since = self.since.saturating_add(1);
        if self.settled {
            if self.since < AGAIN_AFTER {
                return;
            }
            *self = Self { usual: self.usual, gain: self.gain, ..Self::default() };
        }
        // A length of nothing has no logarithm; nobody is laid apart for a microsecond.
        #[expect(clippy::cast_precision_loss, reason = "lengths of 2^53 us are 285 years")]
        let length = (length_us.max(1) as f64).ln();
        let runs = match shape {
            Shape::Compact => &mut self.close,
            Shape::Spread => &mut self.apart,
        };
        runs.push_back(length);
        if runs.len() > MOST {
            runs.pop_front();
        }
        self.compare();
    }

    /// Settles the kind, if what is known of it suffices or nothing more will be.
    fn compare(&mut self) {
        let found = compare(&self.close, &self.apart);
        self.gain = found.or(self.gain);
        let full = self.begun > 0 && self.close.len().min(self.apart.len()) >= MOST;
        let over = full || self.begun > 0 && self.since >= PATIENCE;
        let shape = match found.filter(|gain| (gain.high - gain.low) / 2.0 <= WIDTH_MAX) {
            Some(gain) if gain.low >= GAIN_MIN => Some(Shape::Spread),
            Some(gain) if gain.high < 0.0 => Some(Shape::Compact),
            // Whoever gained once stays where it is, unless that may be gone altogether.
            Some(gain) if over && self.usual == Shape::Spread && gain.low > 0.0 => Some(Shape::Spread),
            Some(_) if over => Some(Shape::Compact),
            // Too few, or too different.
            None if over => Some(if found.is_some() { Shape::Compact } else { self.usual }),
            _ => None,
        };
        if let Some(shape) = shape {
            (self.usual, self.settled, self.since) = (shape, true, 0);
        }
    }

    fn known(&self) -> Known {
        Known {
            usual: self.usual,
            settled: self.settled,
            close: self.close.len(),
            apart: self.apart.len(),
            gain: self.gain,
            again_in: if self.settled { AGAIN_AFTER - self.since } else { 0 },
        }
    }
}

/// How much shorter the runs apart are; `None`: there are too few of either.
fn compare(close: &VecDeque<f64>, apart: &VecDeque<f64>) -> Option<Gain> {
    if close.len().min(apart.len()) < ENOUGH {
        return None;
    }
    let ((mean_close, error_close), (mean_apart, error_apart)) = (moments(close), moments(apart));
    let (difference, error) = (mean_apart - mean_close, error_close + error_apart);
    let part = |error: f64, runs: usize| error * error / count(runs - 1);
    let freedom = error * error / (part(error_close, close.len()) + part(error_apart, apart.len()));
    // Rounded down, which is on the safe side; without any scatter there is nothing to round.
    let row = (5..=18).rev().find(|&row| freedom >= count(row)).unwrap_or(4);
    let either_side = STUDENT[row - 4] * error.sqrt();
    let gain = |difference: f64| 1.0 - difference.exp();
    Some(Gain {
        mean: gain(difference),
        low: gain(difference + either_side),
        high: gain(difference - either_side),
    })
}

/// The mean, and the variance of the mean.
fn moments(values: &VecDeque<f64>) -> (f64, f64) {
    let n = count(values.len());
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    (mean, squares / (n - 1.0) / n)
}

fn count(of: usize) -> f64 {
    f64::from(u32::try_from(of).expect("a handful of runs"))
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [mean, low, high] = [self.mean, self.low, self.high].map(|part| part * 100.0);
        let word = if mean < 0.0 { "slower" } else { "faster" };
        let (mean, low, high) = if mean < 0.0 { (-mean, -high, -low) } else { (mean, low, high) };
        write!(f, "{mean:.1} % [{low:.1}, {high:.1}] {word}")
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { close, apart, again_in, .. } = self;
        let runs = format!("{close} close together, {apart} apart");
        match (self.settled, self.gain, self.usual) {
            (true, Some(gain), Shape::Spread) => {
                write!(f, "apart, its class is {gain} ({runs}); tried again in {again_in} runs")
            }
            (true, Some(gain), Shape::Compact) => write!(
                f,
                "apart, its class is {gain}, not surely {} % faster ({runs}); tried again in {again_in} runs",
                GAIN_MIN * 100.0
            ),
            (true, None, _) => {
                write!(f, "too few runs told anything ({runs}); tried again in {again_in} runs")
            }
            (false, Some(gain), _) => write!(f, "both are tried; apart, its class was {gain} ({runs})"),
            (false, None, _) if *apart > 0 && *close > 0 => write!(f, "both are tried ({runs})"),
            (false, None, _) => write!(f, "{close} runs of {ENOUGH} close together before it is tried apart"),
        }
    }
}

#[cfg(test)]
mod tests;
