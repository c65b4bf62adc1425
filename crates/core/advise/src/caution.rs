//! Room for risks without errors so far: runs that are few, in the order in which they ended, and inputs larger than
//! all before.
//!
//! Short jobs end first, so the first runs of a class are its small ones. Where runs come in the order of time, the
//! margin is wider by 75 % of the allocation / n, and of ten runs or fewer the largest peak is the least that is
//! advised. An input larger than any before widens the margin by the uncertainty of the growth ([`beyond_inputs`]).
//! Every allocation is at most 1.25 times the largest peak, and for a larger input at most three times that peak for
//! the same ratio of peak and input.

use std::collections::VecDeque;

use crate::history::{Ask, Over, Run, largest_peak};
use crate::types::{Drift, Order};

/// Jobs that are looked back at.
const LOOKED_BACK: usize = 20;
/// How much of the allocation is added, by the number of runs.
const FEW_RUNS: f64 = 0.75;
/// Of so many runs or fewer the largest peak is the least that is advised.
const FEW: usize = 10;
/// From this ratio to the largest input on, the uncertainty of the growth is added.
const LARGER: f64 = 1.2;
/// Least runs to tell how peaks grow with inputs.
const SLOPE_RUNS: usize = 6;
/// How many standard errors of the growth are added where peaks grow in proportion to inputs; where they grow less, as many
/// less.
const SLOPE_ERRORS: f64 = 4.0;
/// The logarithm of the most that is added for a larger input.
const SLOPE_MOST: f64 = 2.0;
/// The most that is advised, in largest peaks,
const MOST: f64 = 1.25;
/// and for an input larger than all before, besides the ratio of the inputs.
pub(crate) const MOST_BEYOND: f64 = 3.0;

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
        let missed = self.last.iter().filter(|missed| **missed).count();
        Drift { missed, of: self.last.len(), drifts: missed > 1 }
    }
}

/// The allocation with all caution, in GB.
pub(crate) fn widen(allocation: f64, ask: &Ask, (runs, number): (&[Run], Over), order: Order) -> f64 {
    if order == Order::Exchangeable {
        return allocation;
    }
    let largest = largest_peak(runs);
    let of_both = |of: fn(&Ask, &[Run], Over) -> f64| of(ask, runs, Over::Input).max(of(ask, runs, number));
    let least = if runs.len() <= FEW { largest } else { 0.0 };
    let wide = (allocation * of_both(beyond_inputs)).max(least) * (1.0 + FEW_RUNS / runs.len().max(1) as f64);
    let farther = of_both(farther);
    wide.min(largest * if farther > 1.0 { MOST_BEYOND * farther } else { MOST })
}

/// Whether an allocation in GB is more than the runs themselves justify.
pub(crate) fn grows(allocation: f64, runs: &[Run]) -> bool {
    allocation > largest_peak(runs) * MOST
}

/// How many times the largest input of the runs this job's is, and at least 1.
pub(crate) fn farther(ask: &Ask, runs: &[Run], over: Over) -> f64 {
    let (ask, largest) = (over.ask(ask), over.largest(runs));
    ask.input.filter(|_| largest > 0.0).map_or(1.0, |input| (input / largest).max(1.0))
}

/// How much wider it is for an input that is larger than any before: by the uncertainty of the growth.
///
/// Estimators are judged by runs within the inputs that were seen, and say nothing of how wrong they are beyond. A line
/// through the logarithms of peaks and inputs, over the half of the runs with the larger inputs, has a slope with a standard
/// error (least squares). For the way from the largest input to this one, four of them are added where the slope is 1, and
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
    fn check(runs: usize, allocation: f64, order: Order, want: f64) {
        let runs = vec![Run { ask: Ask::new(None), peak: 8.0, hours: 1.0 }; runs];
        let got = widen(allocation, &Ask::new(None), (&runs, Over::Input), order);
        assert!((got - want).abs() < 1e-9, "{got}, not {want}");
    }

    #[test]
    fn few_runs_widen_it_and_the_largest_peak_bounds_it() {
        check(16, 4.0, Order::Exchangeable, 4.0);
        check(15, 4.0, Order::Time, 4.2);
        check(16, 400.0, Order::Time, 10.0);
        check(10, 1.0, Order::Time, 8.6);
        check(11, 1.0, Order::Time, 1.0 + FEW_RUNS / 11.0);
    }

    #[test]
    fn two_misses_of_the_last_twenty_are_drift() {
        for misses in [0, 1, 2, 20] {
            let mut caution = Caution::default();
            (0..LOOKED_BACK * 2).for_each(|at| caution.note(at < LOOKED_BACK || at - LOOKED_BACK < misses));
            assert_eq!(caution.drift(), Drift { missed: misses, of: LOOKED_BACK, drifts: misses > 1 });
            assert_eq!(caution.record(), ((LOOKED_BACK + misses) as u64, 2 * LOOKED_BACK as u64));
        }
    }

    fn run(input: f64, peak: f64) -> Run {
        Run { ask: Ask::new(Some(input)), peak, hours: 1.0 }
    }

    #[track_caller]
    fn check_beyond(runs: &[Run], input: f64, least: f64, most: f64) {
        let got = beyond_inputs(&Ask::new(Some(input)), runs, Over::Input);
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
    fn a_larger_input_may_need_more_than_all_before() {
        let runs: Vec<Run> = (1..=20).map(|n| run(f64::from(n) * 1e9, f64::from(n))).collect();
        let at = |input: f64| widen(60.0, &Ask::new(Some(input)), (&runs, Over::Input), Order::Time);
        assert!((at(20e9) - 25.0).abs() < 1e-9 && at(40e9) > 60.0 && !grows(at(20e9), &runs));
        assert!(grows(at(40e9), &runs));
        assert!(widen(1e9, &Ask::new(Some(40e9)), (&runs, Over::Input), Order::Time) <= 120.0);
    }
}
