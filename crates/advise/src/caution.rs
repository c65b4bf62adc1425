//! What no error so far tells: runs that are few, in the order in which they ended, and jobs unlike them.
//!
//! Short jobs end first, so the first runs of a class are its small ones. Where runs come in the order of time, the
//! margin is wider by 80 % of the allocation / n; a request larger than any before widens it in proportion; and two
//! misses among the last twenty jobs or more mean that the class drifts: a quarter more for each beyond the first
//! (in the sense of adaptive conformal inference; I. Gibbs and E. Candes, NeurIPS 2021).

use std::collections::VecDeque;

use crate::history::{Ask, Run};
use crate::{Order, Settings};

/// Jobs that are looked back at.
const LOOKED_BACK: usize = 20;
/// How much of the allocation is added for each miss beyond the first.
const DRIFT_STEP: f64 = 0.25;
/// How much of the allocation is added, by the number of runs.
const FEW_RUNS: f64 = 0.8;
/// A request counts as larger than all before if it is by this factor.
const LARGER_REQUEST: f64 = 1.2;
/// The least that is allocated, in GB: below, a process and its libraries have no room to vary.
const LEAST_GB: f64 = 0.064;

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

    /// Whether the class has drifted lately.
    pub(crate) fn drifts(&self) -> bool {
        self.recent() > 1
    }

    /// The allocation with all caution, in GB.
    pub(crate) fn widen(&self, allocation: f64, ask: &Ask, runs: &[Run], settings: &Settings) -> f64 {
        let beyond = self.recent().saturating_sub(1);
        let mut factor = 1.0 + DRIFT_STEP * beyond as f64;
        if settings.order == Order::Time {
            factor *= 1.0 + FEW_RUNS / runs.len().max(1) as f64;
            let largest = runs.iter().filter_map(|run| run.ask.request).fold(0.0, f64::max);
            let larger = ask.request.filter(|request| largest > 0.0 && *request > largest * LARGER_REQUEST);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(misses: usize, request: Option<f64>, order: Order, want: f64) {
        let mut caution = Caution::default();
        (0..LOOKED_BACK).for_each(|at| caution.note(at < misses));
        let known = Ask { input: None, request: Some(10.0) };
        let runs = vec![Run { ask: known, peak: 1.0, hours: 1.0 }; 8];
        let got = caution.widen(4.0, &Ask { input: None, request }, &runs, &Settings::of(order));
        assert!((got - want).abs() < 1e-9, "{got}, not {want}");
        assert_eq!(caution.drifts(), misses > 1);
    }

    #[test]
    fn few_runs_large_requests_and_misses_widen_it() {
        check(0, None, Order::Exchangeable, 4.0);
        check(1, None, Order::Exchangeable, 4.0);
        check(3, None, Order::Exchangeable, 6.0);
        check(0, None, Order::Time, 4.4);
        check(0, Some(10.0), Order::Time, 4.4);
        check(0, Some(30.0), Order::Time, 13.2);
        check(0, Some(3.0), Order::Time, 3.0);
        check(0, Some(3.0), Order::Exchangeable, 4.0);
    }
}
