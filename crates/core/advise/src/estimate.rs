//! Estimators of a run's peak, fitted to earlier runs, and the estimates for runs left out of the fit.
//!
//! A fit comes with its *left-out* estimates: for every run, the estimate of a fit to the other runs
//! (jackknife; R. F. Barber and others, Predictive inference with the jackknife+, Annals of Statistics 49, 2021).
//! Margins are made of these errors, since errors on runs that a fit has seen are too small.

mod flat;
mod line;
mod local;
mod near;

use std::sync::Arc;

use crate::history::{Ask, Lot, Over, Sorted};

/// The kinds of estimators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The same for all: the median of the peaks.
    Flat,
    /// A line over the input size.
    Line,
    /// The mean of so many runs of the most similar input sizes.
    Near(usize),
    /// Lines fitted near by.
    Local,
}

/// A fit, to be asked about jobs to come.
#[derive(Debug)]
pub(crate) enum Model {
    Constant(f64),
    Line(line::Line),
    Near(Sorted, usize),
    Local(local::Local),
}

/// A fit with the left-out estimate for each of its runs, in GB, in their order.
#[derive(Debug)]
pub(crate) struct Fit {
    /// Its margins share it.
    pub(crate) model: Arc<Model>,
    pub(crate) left_out: Vec<f64>,
}

impl Fit {
    fn new(model: Model, left_out: Vec<f64>) -> Self {
        Self { model: Arc::new(model), left_out }
    }
}

impl Kind {
    /// Fits to runs, at least one. `None`: too few runs, or runs without the feature of this kind.
    pub(crate) fn fit(self, lot: &Lot<'_>) -> Option<Fit> {
        match self {
            Self::Flat => Some(flat::fit(lot)),
            Self::Line => line::fit(lot.runs),
            Self::Near(count) => near::fit(lot, count),
            Self::Local => local::fit(lot),
        }
    }

    /// The words for people.
    pub(crate) fn name(self, over: Over) -> &'static str {
        let input = over == Over::Input;
        match self {
            Self::Flat => "the peaks of all earlier runs",
            Self::Line if input => "a line over the input size",
            Self::Near(_) if input => "runs with similar inputs",
            Self::Local if input => "local lines over the input size",
            Self::Line => "a line over a number of the command",
            Self::Near(_) => "runs with a similar number in the command",
            Self::Local => "local lines over a number of the command",
        }
    }
}

impl Model {
    /// The estimate for a job, in GB. `None`: the job lacks the feature of the fit.
    pub(crate) fn at(&self, ask: &Ask) -> Option<f64> {
        match self {
            Self::Constant(peak) => Some(*peak),
            Self::Line(line) => Some(line.at(ask.input?)),
            Self::Near(sorted, count) => sorted.nearest_mean(ask.ln_input?, *count),
            Self::Local(local) => Some(local.at(ask.ln_input?)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::history::Run;

    /// Runs of an hour with these inputs in bytes and peaks in GB.
    pub(crate) fn runs(of: &[(f64, f64)]) -> Vec<Run> {
        let run = |&(input, peak): &(f64, f64)| Run { ask: Ask::new(Some(input)), peak, hours: 1.0 };
        of.iter().map(run).collect()
    }

    fn fit(kind: Kind, of: &[(f64, f64)]) -> Option<Fit> {
        kind.fit(&Lot::new(&runs(of)))
    }

    fn at(kind: Kind, of: &[(f64, f64)], input: f64) -> Option<f64> {
        let fit = fit(kind, of)?;
        assert_eq!(fit.left_out.len(), of.len());
        fit.model.at(&Ask::new(Some(input)))
    }

    #[track_caller]
    fn check(kind: Kind, of: &[(f64, f64)], input: f64, want: f64) {
        let got = at(kind, of, input).unwrap();
        assert!((got - want).abs() < 1e-6 * want.abs().max(1.0), "{kind:?}: {got}, not {want}");
    }

    #[test]
    fn each_kind_finds_what_it_is_made_for() {
        let line: Vec<(f64, f64)> =
            (1..=20).map(|n| (f64::from(n) * 1e9, 1.0 + 0.5 * f64::from(n))).collect();
        check(Kind::Line, &line, 40e9, 21.0);
        check(Kind::Flat, &line, 40e9, 6.5);
        check(Kind::Near(3), &line, 10.1e9, 6.0);
        let log: Vec<(f64, f64)> = (1..=20).map(|n| (f64::from(n).exp(), 1.0 + f64::from(n))).collect();
        assert!((at(Kind::Local, &log, 10f64.exp()).unwrap() - 11.0).abs() < 0.01);
    }

    #[test]
    fn too_little_or_equal_inputs_make_no_line() {
        assert!(fit(Kind::Line, &[(1.0, 1.0), (2.0, 2.0)]).is_none());
        assert!(fit(Kind::Line, &[(5.0, 1.0); 9]).is_none());
        assert!(fit(Kind::Local, &[(5.0, 1.0); 9]).is_none());
        assert!(fit(Kind::Near(7), &[(5.0, 1.0); 9]).is_none());
        let mut unknown = runs(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0), (5.0, 5.0), (6.0, 6.0)]);
        unknown[3].ask = Ask::new(None);
        for kind in [Kind::Line, Kind::Local, Kind::Near(3)] {
            assert!(kind.fit(&Lot::new(&unknown)).is_none(), "{kind:?}");
        }
    }

    #[test]
    fn what_is_left_out_is_not_seen() {
        let mut points: Vec<(f64, f64)> = (1..=20).map(|n| (f64::from(n), 2.0)).collect();
        points[9].1 = 200.0;
        for kind in [Kind::Line, Kind::Near(3), Kind::Local] {
            let fit = fit(kind, &points).unwrap();
            assert!(
                fit.left_out[9] < 10.0,
                "{kind:?} says {} of a run that it has not seen",
                fit.left_out[9]
            );
        }
    }
}
