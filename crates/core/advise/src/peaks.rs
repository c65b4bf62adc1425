//! The scheduler's estimates of the memory that a class's next job holds, from the peaks of earlier jobs.
//!
//! The peaks alone count: a decision within moments, about jobs that can be suspended, needs no more. The
//! estimates are split conformal quantiles ([`mod@crate::bound`] has the rank). Where so few runs were seen that there
//! is no such quantile, the largest is taken and something added, less the more were seen. Absent: which jobs are of a
//! class, and how many classes are remembered.

use std::collections::VecDeque;

use crate::bound::rank;

/// The last runs of a class that count.
pub(crate) const RUNS_KEPT: usize = 500;

/// The risk that a job needs more than the median estimate,
const P50_RISK: f64 = 0.5;
/// and more than the estimate for safety.
const P99_RISK: f64 = 0.01;

/// The most that a job held, and the most of it that had to be in RAM, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Peak {
    /// All, swap included.
    pub held_bytes: u64,
    /// The part that was not cold; no more than [`Self::held_bytes`].
    pub needed_bytes: u64,
}

impl Peak {
    /// Of a job that needed all it held, as far as is known.
    #[must_use]
    pub fn of(held_bytes: u64) -> Self {
        Self { held_bytes, needed_bytes: held_bytes }
    }
}

/// Estimates for the next job of a class, in bytes, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expected {
    /// As likely as not it needs no more than this in RAM.
    pub p50_needed_bytes: u64,
    /// As likely as not it holds no more than this, RAM and swap together.
    pub p50_held_bytes: u64,
    /// It holds more with a probability of 1 % at most.
    pub p99_held_bytes: u64,
    /// How many runs this rests on.
    pub runs: usize,
}

/// The peaks of a class's last runs, in the order of their ends.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Peaks(VecDeque<Peak>);

impl Peaks {
    /// Takes in the peak of a run that ended well. The oldest of more than 500 is forgotten.
    pub fn observe(&mut self, peak: Peak) {
        if self.0.len() == RUNS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(peak);
    }

    /// How many runs count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Estimates for the next job; `request`: its request in bytes, which bounds the addition to the
    /// largest peak of few runs. All 0 if no run is known.
    #[must_use]
    pub fn expected(&self, request: Option<u64>) -> Expected {
        // Unused memory in swap takes room as well: safety goes by all that is held.
        let needed = at_risk(&mut self.each(|peak| peak.needed_bytes), P50_RISK, request);
        let mut held = self.each(|peak| peak.held_bytes);
        let p50_held = at_risk(&mut held, P50_RISK, request).max(needed);
        Expected {
            p50_needed_bytes: needed,
            p50_held_bytes: p50_held,
            p99_held_bytes: at_risk(&mut held, P99_RISK, request).max(p50_held),
            runs: self.0.len(),
        }
    }

    fn each(&self, of: impl Fn(&Peak) -> u64) -> Vec<u64> {
        self.0.iter().map(of).collect()
    }
}

/// The estimate at this risk from peaks, which it reorders; 0 without peaks.
fn at_risk(peaks: &mut [u64], risk: f64, request: Option<u64>) -> u64 {
    let Some(&largest) = peaks.iter().max() else { return 0 };
    let runs = peaks.len();
    // A single rank needs no order of all.
    let at = rank(runs, risk) - 1;
    if at < runs {
        return *peaks.select_nth_unstable(at).1;
    }
    let more = largest.saturating_add(largest / runs as u64);
    // The request bounds the addition, not the largest peak.
    request.map_or(more, |request| more.min(request.max(largest)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(peaks: &[u64]) -> Peaks {
        let mut known = Peaks::default();
        peaks.iter().for_each(|&peak| known.observe(Peak::of(peak)));
        known
    }

    #[track_caller]
    fn check(peaks: &[u64], request: Option<u64>, p50: u64, p99: u64) {
        let runs = peaks.len().min(RUNS_KEPT);
        let want = Expected { p50_needed_bytes: p50, p50_held_bytes: p50, p99_held_bytes: p99, runs };
        assert_eq!(of(peaks).expected(request), want, "{peaks:?}");
    }

    #[test]
    fn estimates_follow_the_peaks() {
        check(&[], Some(50), 0, 0);
        check(&[100], None, 100, 200);
        check(&[100], Some(150), 100, 150);
        check(&[100], Some(50), 100, 100);
        check(&[100, 200], None, 200, 300);
        check(&[300, 100, 200], None, 200, 400);
        check(&[u64::MAX], None, u64::MAX, u64::MAX);
        let hundred: Vec<u64> = (1..=100).collect();
        check(&hundred, None, 51, 100);
        let long: Vec<u64> = (1..=600).collect();
        check(&long, None, 351, 596);
    }

    #[test]
    fn memory_that_was_not_needed_may_still_be_held() {
        let mut known = Peaks::default();
        known.observe(Peak { held_bytes: 100, needed_bytes: 30 });
        let want = Expected { p50_needed_bytes: 30, p50_held_bytes: 100, p99_held_bytes: 200, runs: 1 };
        assert_eq!(known.expected(None), want);
    }

    /// The rank in whole numbers, as it is defined: ceil((n + 1)(1 - risk)).
    #[test]
    fn ranks_are_exact_for_every_length_of_history() {
        for n in 1..=RUNS_KEPT {
            assert_eq!(rank(n, P50_RISK), ((n + 1) * 500).div_ceil(1_000), "{n}");
            assert_eq!(rank(n, P99_RISK), ((n + 1) * 990).div_ceil(1_000), "{n}");
        }
    }

    proptest! {
        /// Of many like jobs, the share that holds more than an estimate is about its risk.
        #[test]
        fn the_risk_is_kept(seed in any::<u64>()) {
            let mut state = seed;
            let mut draw = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) + 1
            };
            let mut known = of(&[draw()]);
            let (mut over_p50, mut over_p99) = (0, 0);
            for _ in 0..1_000 {
                let (peak, expected) = (draw(), known.expected(None));
                over_p50 += u32::from(peak > expected.p50_needed_bytes);
                over_p99 += u32::from(peak > expected.p99_held_bytes);
                known.observe(Peak::of(peak));
            }
            prop_assert!((400..600).contains(&over_p50), "{over_p50} of 1000 over the median estimate");
            prop_assert!(over_p99 <= 40, "{over_p99} of 1000 over the 99 % estimate");
        }
    }
}
