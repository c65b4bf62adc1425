//! What no error so far tells: runs that are few, in the order in which they ended, and jobs unlike them.
//!
//! Short jobs end first, so the first runs of a class are its small ones. Where runs come in the order of time, the
//! margin is wider by 80 % of the allocation / n; of ten runs or fewer the largest is the least that is advised; and a
//! request larger than any before widens it in proportion. An input larger than any before widens it as far as it is
//! not known how peaks grow with inputs ([`beyond_inputs`]). Two misses among the last twenty jobs or more mean that the
//! class drifts: a quarter more for each beyond the first (in the sense of adaptive conformal inference; I. Gibbs and
//! E. Candes, NeurIPS 2021).

use std::collections::VecDeque;

use crate::history::{Ask, Over, Run, largest_peak};
use crate::types::{Drift, Order, Settings};

/// Jobs that are looked back at.
const LOOKED_BACK: usize = 20;
/// How much of the allocation is added for each miss beyond the first.
const DRIFT_STEP: f64 = 0.25;
/// How much of the allocation is added, by the number of runs.
const FEW_RUNS: f64 = 0.8;
/// Of so many runs or fewer the largest is the least that is advised.
const FEW: usize = 10;
/// A request or an input counts as larger than all before if it is by this factor.
const LARGER: f64 = 1.2;
/// Least runs to tell how peaks grow with inputs.
const SLOPE_RUNS: usize = 6;
/// How many standard errors of the growth are added where peaks grow in proportion to inputs; where they grow less, as many
/// less.
const SLOPE_ERRORS: f64 = 4.0;
/// The logarithm of the most that is added for a larger input.
const SLOPE_MOST: f64 = 2.0;
/// The least that is allocated, in GB: below, a process and its libraries have no room to vary.
pub(crate) const LEAST_GB: f64 = 0.064;

/// The last jobs: whether they needed more than was advised.
#[derive(Debug, Default)]
pub(crate) struct Caution {
    last: VecDeque<bool>,
    missed: u64,
    all: u64,
}

impl Caution {
    /// Notes whether a job needed more than its advice.
    pub(crate) fn note(&mut self, missed: bool) {
        if self.last.len() == LOOKED_BACK {
            self.last.pop_front();
        }
        self.last.push_back(missed);
        self.missed += u64::from(missed);
        self.all += 1;
    }

    /// How many needed more than was advised, and of how many.
    pub(crate) fn record(&self) -> (u64, u64) {
        (self.missed, self.all)
    }

    /// How the last jobs did with their advice.
    pub(crate) fn drift(&self) -> Drift {
        Drift { missed: self.recent(), of: self.last.len(), drifts: self.drifts() }
    }

    /// Whether the class has drifted lately.
    pub(crate) fn drifts(&self) -> bool {
        self.recent() > 1
    }

    /// The allocation with all caution, in GB.
    pub(crate) fn widen(
        &self,
        allocation: f64,
        ask: &Ask,
        (runs, number): (&[Run], Over),
        settings: &Settings,
    ) -> f64 {
        let beyond = self.recent().saturating_sub(1);
        let mut factor = 1.0 + DRIFT_STEP * beyond as f64;
        let mut allocation = allocation;
        if settings.order == Order::Time {
            let beyond = beyond_inputs(ask, runs, Over::Input);
            allocation *=
                if number == Over::Input { beyond } else { beyond.max(beyond_inputs(ask, runs, number)) };
            if runs.len() <= FEW {
                allocation = allocation.max(largest_peak(runs));
            }
            factor *= 1.0 + FEW_RUNS / runs.len().max(1) as f64;
            let largest = runs.iter().filter_map(|run| run.ask.request).fold(0.0, f64::max);
            let larger = ask.request.filter(|request| largest > 0.0 && *request > largest * LARGER);
            factor *= larger.map_or(1.0, |request| request / largest);
        }
        let wide = (allocation * factor).max(LEAST_GB);
        let request = ask.request.filter(|_| settings.order == Order::Time);
        request.map_or(wide, |request| wide.min(request))
    }

    fn recent(&self) -> usize {
        self.last.iter().filter(|missed| **missed).count()
    }
}

/// How much wider it is for an input that is larger than any before: by the uncertainty of the growth.
///
/// Estimators are judged by runs within the inputs that were seen, and say nothing of how wrong they are beyond. A line
/// through the logarithms of peaks and inputs, over the half of the runs with the larger inputs, has a slope with a standard
/// error (least squares). For the way from the largest input to this one, four of these are added where the slope is 1, and
/// in proportion less where it is less: where peaks do not grow, inputs do not matter, however large they are.
fn beyond_inputs(ask: &Ask, runs: &[Run], over: Over) -> f64 {
    let (ask, largest) = (over.ask(ask), over.largest(runs));
    if !ask.input.is_some_and(|input| largest > 0.0 && input > largest * LARGER) {
        return 1.0;
    }
    let Some(ln_input) = ask.ln_input else { return 1.0 };
    let point = |run: &Run| Some((over.ask(&run.ask).ln_input?, run.peak.ln()));
    let mut points: Vec<(f64, f64)> = runs.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let kept = points.len().div_ceil(2).max(SLOPE_RUNS).min(points.len());
    let points = &points[points.len() - kept..];
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - mean_x).powi(2)).sum();
    if points.len() < 3 || spread <= 1e-9 {
        return 1.0;
    }
    let slope = points.iter().map(|point| (point.0 - mean_x) * (point.1 - mean_y)).sum::<f64>() / spread;
    let missed: f64 =
        points.iter().map(|point| (point.1 - mean_y - slope * (point.0 - mean_x)).powi(2)).sum();
    let error = (missed / (n - 2.0) / spread).sqrt();
    let errors = SLOPE_ERRORS * slope.clamp(0.0, 1.0);
    let farthest = points.last().map_or(ln_input, |point| point.0);
    (errors * error * (ln_input - farthest)).min(SLOPE_MOST).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(misses: usize, request: Option<f64>, order: Order, want: f64) {
        let mut caution = Caution::default();
        (0..LOOKED_BACK).for_each(|at| caution.note(at < misses));
        let known = Ask::new(None, Some(10.0));
        let runs = vec![Run { ask: known, peak: 1.0, hours: 1.0 }; 16];
        let got = caution.widen(4.0, &Ask::new(None, request), (&runs, Over::Input), &Settings::of(order));
        assert!((got - want).abs() < 1e-9, "{got}, not {want}");
        assert_eq!(caution.drifts(), misses > 1);
        assert_eq!(caution.drift(), Drift { missed: misses, of: LOOKED_BACK, drifts: misses > 1 });
    }

    #[test]
    fn few_runs_large_requests_and_misses_widen_it() {
        check(0, None, Order::Exchangeable, 4.0);
        check(1, None, Order::Exchangeable, 4.0);
        check(3, None, Order::Exchangeable, 6.0);
        check(0, None, Order::Time, 4.2);
        check(0, Some(10.0), Order::Time, 4.2);
        check(0, Some(30.0), Order::Time, 12.6);
        check(0, Some(3.0), Order::Time, 3.0);
        check(0, Some(3.0), Order::Exchangeable, 4.0);
    }

    fn run(input: f64, peak: f64) -> Run {
        Run { ask: Ask::new(Some(input), None), peak, hours: 1.0 }
    }

    #[track_caller]
    fn check_beyond(runs: &[Run], input: f64, least: f64, most: f64) {
        let got = beyond_inputs(&Ask::new(Some(input), None), runs, Over::Input);
        assert!((least..=most).contains(&got), "{got}, not from {least} to {most}");
    }

    #[test]
    fn a_larger_input_widens_as_far_as_the_growth_is_not_known() {
        let of = |peak: fn(f64) -> f64| -> Vec<Run> {
            (1..=20).map(|n| run(f64::from(n) * 1e9, peak(f64::from(n)))).collect()
        };
        let (flat, line) = (of(|_| 5.0), of(|n| n));
        let wild = of(|n| n * if n % 2.0 > 0.5 { 1.0 } else { 4.0 });
        check_beyond(&flat, 1e12, 1.0 - 1e-9, 1.0 + 1e-9);
        check_beyond(&line, 1e12, 1.0 - 1e-9, 1.0 + 1e-6);
        check_beyond(&wild, 23e9, 1.0, 1.0);
        check_beyond(&wild, 60e9, 1.5, SLOPE_MOST.exp());
        check_beyond(&wild, 1e30, SLOPE_MOST.exp(), SLOPE_MOST.exp());
        check_beyond(&wild[..2], 1e12, 1.0, 1.0);
        check_beyond(&vec![run(7.0, 1.0); 9], 1e12, 1.0, 1.0);
        check_beyond(&vec![run(0.0, 1.0); 9], 1e12, 1.0, 1.0);
        check_beyond(&[], 1e12, 1.0, 1.0);
        check_beyond(&[run(0.1, 1.0), run(0.2, 2.0), run(0.3, 9.0), run(0.4, 1.0)], 0.9, 1.0, 1.0);
    }

    #[test]
    fn of_few_runs_the_largest_is_the_least() {
        let few = vec![run(1.0, 9.0); FEW];
        let ask = few[0].ask;
        let settings = Settings::of(Order::Time);
        assert!(Caution::default().widen(1.0, &ask, (&few, Over::Input), &settings) >= 9.0);
        let more = vec![run(1.0, 9.0); FEW + 1];
        assert!(Caution::default().widen(1.0, &ask, (&more, Over::Input), &settings) < 2.0);
        let shuffled = Settings::of(Order::Exchangeable);
        assert!(Caution::default().widen(1.0, &ask, (&few, Over::Input), &shuffled) < 2.0);
    }
}
