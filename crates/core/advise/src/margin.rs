//! The margin above an estimate, from the errors that the estimator made on runs left out of its fit.
//!
//! An error is measured in units of a spread: the same for all jobs, in proportion to the estimate, or as large as the
//! errors near by (normalized conformal prediction; H. Papadopoulos and others, Regression conformal prediction with
//! nearest neighbours, JAIR 40, 2011). Of the sorted errors of n runs the j-th is exceeded by the next with probability
//! (n + 1 - j) / (n + 1) if runs are exchangeable (split conformal prediction; Vovk, Gammerman and Shafer, Algorithmic
//! Learning in a Random World, 2005); beyond the largest, the tail falls off exponentially, as steep as the largest
//! errors do (J. Pickands, Annals of Statistics 3, 1975). Among the margins of small enough risk the cheapest
//! is taken. Cost is memory x time beyond the peaks, and for each failure the memory of the attempt, the excess of the
//! next attempt, and the price of a failure. With normal errors that is the newsvendor's choice.

use std::sync::Arc;

use crate::estimate::{Fit, Model};
use crate::history::{Ask, Lot, Run};
use crate::types::Settings;

/// How errors spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Alike for all jobs.
    Even,
    /// In proportion to the estimate.
    Proportional,
    /// Alike for all jobs, and normally distributed.
    Normal,
}

/// Steps beyond the largest error, in fifths of the tail's scale.
const TAIL_STEPS: u32 = 40;
/// How much wider than seen the tail is taken to be before anything was seen: this share of the peak, by n.
const TAIL_PRIOR: f64 = 0.02;
/// With few runs no margin could hold a small risk: from a risk of 1 / this on, the largest error is enough.
const FEW: f64 = 25.0;
/// An allocation is at least this share of the usual peak.
const LEAST_SHARE: f64 = 0.01;

/// An estimator with its margin.
#[derive(Debug)]
pub(crate) struct Fitted {
    model: Arc<Model>,
    scale: Scale,
    /// In units of the spread.
    margin: f64,
    /// In GB.
    least: f64,
    /// The expected probability of a peak beyond.
    pub(crate) risk: f64,
    /// The expected cost of a run, by the errors of the runs left out, in GB x hours.
    pub(crate) cost: f64,
}

/// The unit of an error, in GB.
#[derive(Debug, Clone, Copy)]
enum Scale {
    Even(f64),
    /// The estimate, and at least so much.
    Proportional(f64),
}

impl Scale {
    fn at(self, estimate: f64) -> f64 {
        match self {
            Self::Even(unit) => unit,
            Self::Proportional(least) => estimate.max(least),
        }
    }
}

impl Fitted {
    /// A margin for `fit` over the runs that it was fitted to. `None`: too few runs for this spread.
    pub(crate) fn new(fit: &Fit, spread: Spread, lot: &Lot<'_>, settings: &Settings) -> Option<Self> {
        let least = lot.usual * LEAST_SHARE;
        let scale = match spread {
            Spread::Even | Spread::Normal => Scale::Even(lot.usual),
            Spread::Proportional => Scale::Proportional(least),
        };
        let units = fit.left_out.iter().map(|&estimate| scale.at(estimate)).collect();
        let errors = Errors { left_out: &fit.left_out, units, runs: lot.runs, largest: lot.largest };
        let (margin, risk) =
            if spread == Spread::Normal { errors.normal(settings)? } else { errors.cheapest(settings) };
        let cost = errors.cost((margin, risk), settings);
        Some(Self { cost, model: Arc::clone(&fit.model), scale, margin, least, risk })
    }

    /// The allocation for a job, in GB. `None`: the job lacks the feature of the fit.
    pub(crate) fn at(&self, ask: &Ask) -> Option<f64> {
        let estimate = self.model.at(ask)?;
        let allocation = estimate + self.margin * self.scale.at(estimate);
        allocation.is_finite().then(|| allocation.max(self.least))
    }
}

/// How many of `n` errors tell how the tail falls off: the square root, rounded up.
fn tail_count(n: usize) -> usize {
    (n.isqrt() + usize::from(n.isqrt().pow(2) < n)).clamp(1, n)
}

/// The left-out estimates of a fit, and the units of their errors.
struct Errors<'a> {
    left_out: &'a [f64],
    units: Vec<f64>,
    runs: &'a [Run],
    /// The largest peak.
    largest: f64,
}

/// Sums over some runs that make their cost linear in the margin.
#[derive(Clone, Copy, Default)]
struct Sum {
    fixed: f64,
    by_margin: f64,
}

impl Errors<'_> {
    /// The cheapest margin, and its risk.
    fn cheapest(&self, settings: &Settings) -> (f64, f64) {
        let n = self.runs.len();
        // How many of the n + 1 runs may lie above.
        let allowed = (settings.risk * (n as f64 + 1.0)).max((settings.risk * FEW).min(1.0));
        let over_most = (1..=n).take_while(|&over| over as f64 <= allowed).count();
        let of_tail = tail_count(n);
        let errors = self.largest_last(over_most.max(of_tail + 1));
        let tail = self.tail(&errors, of_tail);
        let next = self.next_failure(settings);
        let mut above = vec![Sum::default(); n + 1];
        for place in (n - over_most..n).rev() {
            let failed = self.failure(errors[place].1, settings);
            let sum = above[place + 1];
            above[place] =
                Sum { fixed: sum.fixed + failed.fixed, by_margin: sum.by_margin + failed.by_margin };
        }
        let largest = errors.last().map_or(0.0, |error| error.0);
        let mut best = (f64::INFINITY, largest + tail * f64::from(TAIL_STEPS) / 5.0, 0.0);
        let mut held = Sum::default();
        for place in 0..n {
            let (margin, at) = errors[place];
            let weight = self.units[at] * self.runs[at].hours;
            held = Sum { fixed: held.fixed - weight * margin, by_margin: held.by_margin + weight };
            if place < n - over_most {
                continue;
            }
            let over = (n - place) as f64;
            let failed = above[place + 1];
            let fixed = held.fixed + failed.fixed + next.fixed;
            let cost = fixed + (held.by_margin + failed.by_margin + next.by_margin) * margin;
            if cost < best.0 {
                best = (cost, margin, over);
            }
        }
        for step in 0..TAIL_STEPS {
            let far = f64::from(step) / 5.0;
            let (margin, over) = (largest + tail * far, (-far).exp());
            let cost = held.fixed + held.by_margin * margin + over * (next.fixed + next.by_margin * margin);
            if over <= allowed && cost < best.0 {
                best = (cost, margin, over);
            }
        }
        (best.1, best.2 / (n as f64 + 1.0))
    }

    /// All errors in their units, each with its run, the `count` largest of them last and in ascending order.
    fn largest_last(&self, count: usize) -> Vec<(f64, usize)> {
        let n = self.runs.len();
        let error = |at: usize| ((self.runs[at].peak - self.left_out[at]) / self.units[at], at);
        let mut errors: Vec<(f64, usize)> = (0..n).map(error).collect();
        let ascending = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        let sorted = n.saturating_sub(count);
        if sorted > 0 {
            errors.select_nth_unstable_by(sorted, ascending);
        }
        errors[sorted..].sort_unstable_by(ascending);
        errors
    }

    /// The mean cost of a run with this margin and risk, the next run included.
    fn cost(&self, (margin, risk): (f64, f64), settings: &Settings) -> f64 {
        let n = self.runs.len() as f64 + 1.0;
        let one = |(at, run): (usize, &Run)| {
            let allocation = self.left_out[at] + margin * self.units[at];
            if allocation >= run.peak {
                return (allocation - run.peak) * run.hours;
            }
            let failed = self.failure(at, settings);
            failed.fixed + failed.by_margin * margin
        };
        let next = self.next_failure(settings);
        let over = (risk * n).min(1.0);
        (self.runs.iter().enumerate().map(one).sum::<f64>() + over * (next.fixed + next.by_margin * margin))
            / n
    }

    /// How fast the tail falls off: the mean of the `count` largest errors beyond the next smaller error.
    fn tail(&self, errors: &[(f64, usize)], count: usize) -> f64 {
        let n = errors.len();
        let foot = errors[(n - count).saturating_sub(1)].0;
        let beyond: f64 = errors[n - count..].iter().map(|error| error.0 - foot).sum();
        let estimate = self.left_out.iter().map(|peak| peak.abs()).sum::<f64>();
        let unit: f64 = self.units.iter().sum();
        let prior = TAIL_PRIOR / n as f64 * estimate / unit.max(f64::MIN_POSITIVE);
        (beyond + prior) / (count as f64 + 1.0)
    }

    /// The cost of a failure of this run, by the margin of its first attempt.
    fn failure(&self, at: usize, settings: &Settings) -> Sum {
        let run = &self.runs[at];
        let beyond = (self.largest * 1.05 - run.peak).max(0.0);
        Sum {
            fixed: (self.left_out[at].max(0.0) + beyond) * run.hours + settings.failure_gbh,
            by_margin: self.units[at] * run.hours,
        }
    }

    /// The cost of a failure of the next run: the mean over all runs.
    fn next_failure(&self, settings: &Settings) -> Sum {
        let n = self.runs.len() as f64;
        let mut sum = Sum { fixed: settings.failure_gbh, by_margin: 0.0 };
        for (at, run) in self.runs.iter().enumerate() {
            sum.fixed += (self.left_out[at].max(0.0) + self.largest * 0.1) * run.hours / n;
            sum.by_margin += self.units[at] * run.hours / n;
        }
        sum
    }

    /// The cheapest margin if errors are normal, and its risk. The units are the same for all.
    fn normal(&self, settings: &Settings) -> Option<(f64, f64)> {
        let n = self.runs.len() as f64;
        if self.runs.len() < 5 {
            return None;
        }
        let errors = || self.runs.iter().zip(self.left_out).map(|(run, estimate)| run.peak - estimate);
        let mean = errors().sum::<f64>() / n;
        let variance = errors().map(|error| (error - mean).powi(2)).sum::<f64>() / (n - 1.5);
        // Wider by the error of the fit itself.
        let deviation = variance.sqrt() * (1.0 + 1.0 / n);
        let hours = self.runs.iter().map(|run| run.hours).sum::<f64>() / n;
        let unit = self.units.first().copied().unwrap_or(1.0);
        let next = self.next_failure(settings);
        let allowed = settings.risk.max((settings.risk * FEW).min(1.0) / (n + 1.0));
        let mut best = (f64::INFINITY, mean / unit, 0.5);
        for step in 0..60 {
            let t = f64::from(step) / 10.0;
            // The normal distribution's tail to within 0.0002.
            let over = 1.0 / (1.0 + (1.702 * t * (1.0 + 0.045 * t * t)).exp());
            let margin = (mean + t * deviation) / unit;
            let cost = t * deviation * hours + over * (next.fixed + next.by_margin * margin);
            if over <= allowed && cost < best.0 {
                best = (cost, margin, over);
            }
        }
        Some((best.1, best.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Kind;
    use crate::estimate::tests::runs;
    use crate::types::Order;

    fn settings(risk: f64) -> Settings {
        Settings { risk, ..Settings::of(Order::Exchangeable) }
    }

    fn flat(peaks: &[f64], spread: Spread, risk: f64) -> (f64, f64) {
        let runs = runs(&peaks.iter().map(|&peak| (1.0, peak)).collect::<Vec<_>>());
        let lot = Lot::new(&runs);
        let fitted = Fitted::new(&Kind::Flat.fit(&lot).unwrap(), spread, &lot, &settings(risk)).unwrap();
        (fitted.at(&Ask::new(None)).unwrap(), fitted.risk)
    }

    #[test]
    fn equal_peaks_need_hardly_a_margin() {
        let (allocation, risk) = flat(&[4.0; 50], Spread::Even, 0.1);
        assert!((4.0..4.1).contains(&allocation) && risk <= 0.1, "{allocation} at {risk}");
    }

    #[test]
    fn a_smaller_risk_never_gets_less() {
        let peaks: Vec<f64> = (0..200u32).map(|n| 1.0 + f64::from((n * 7919) % 200) / 100.0).collect();
        let at = |risk| flat(&peaks, Spread::Even, risk).0;
        assert!(at(0.2) <= at(0.05) && at(0.05) <= at(0.01) && at(0.01) <= at(0.001));
        assert!(at(0.001) > 2.99, "beyond all that was seen");
    }

    #[test]
    fn one_odd_run_of_many_is_not_paid_for_by_all() {
        let mut peaks = vec![1.0; 200];
        peaks[77] = 50.0;
        let (allocation, risk) = flat(&peaks, Spread::Even, 0.1);
        assert!(allocation < 2.0 && risk < 0.02, "{allocation} at {risk}");
    }

    #[test]
    fn normal_errors_need_five_runs() {
        let runs = runs(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)]);
        let lot = Lot::new(&runs);
        let fit = Kind::Flat.fit(&lot).unwrap();
        assert!(Fitted::new(&fit, Spread::Normal, &lot, &settings(0.1)).is_none());
    }
}
