//! What jobs of one kind are expected to need, from what earlier ones needed.
//!
//! A claim at risk a is the ceil((n + 1)(1 - a))-th smallest of the n peaks seen: the next job, if it is like them,
//! stays below it with probability 1 - a, whatever the distribution is (split conformal prediction; Vovk, Gammerman
//! and Shafer, Algorithmic Learning in a Random World, 2005). Where so few were seen that there is no such one, the
//! largest is taken and something added, less the more were seen.
//!
//! Pure, and told from outside which peaks there were.

use std::collections::VecDeque;

use crate::api::{Claim, JobId, Kind};
use crate::jobs::Remembered;

/// The last runs of a kind that count.
const RUNS_KEPT: usize = 500;

/// Kinds that are remembered; of a user half of them at most, and the one that ran longest ago is forgotten for a new one.
const KINDS_KEPT: usize = 4096;

/// So many of the last runs of a kind are known by their numbers, for those who ask which counted.
const RUNS_NAMED: usize = 5;

/// The risk, in thousandths, that a job needs more than it usually does,
const USUAL_RISK_MILLI: usize = 500;
/// and more than the most.
const MOST_RISK_MILLI: usize = 10;

/// The peaks of ended jobs, kind by kind.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Claims {
    kinds: Remembered<Runs, KINDS_KEPT>,
}

/// The most that one job held, and the most of it that had to be in RAM, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Peak {
    /// All, swap included.
    pub held_bytes: u64,
    /// What it did not get on without; no more than [`Self::held_bytes`].
    pub needed_bytes: u64,
}

impl Peak {
    /// Of a job that needed all it held, as far as is known.
    #[must_use]
    pub fn of(held_bytes: u64) -> Self {
        Self { held_bytes, needed_bytes: held_bytes }
    }
}

#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
struct Runs {
    /// In the order of their ends.
    peaks: VecDeque<Peak>,
    /// Whose the last of them were.
    last: VecDeque<JobId>,
}

impl Claims {
    /// The runs of a kind that count: how many, and the numbers of the last ones in the order of their ends.
    #[must_use]
    pub fn runs_of(&self, kind: Kind) -> (usize, Vec<JobId>) {
        self.kinds
            .get(kind.key())
            .map_or((0, Vec::new()), |runs| (runs.peaks.len(), runs.last.iter().copied().collect()))
    }

    /// Takes in the peak of a job that ended well; `asked`: what it had asked for, in bytes. Gives what the next of
    /// its kind is expected to need.
    pub fn ended(&mut self, kind: Kind, job: JobId, peak: Peak, asked: Option<u64>) -> Claim {
        let runs = self.kinds.of(kind.key(), Runs::default);
        if runs.last.len() == RUNS_NAMED {
            runs.last.pop_front();
        }
        runs.last.push_back(job);
        if runs.peaks.len() == RUNS_KEPT {
            runs.peaks.pop_front();
        }
        runs.peaks.push_back(peak);
        runs.claim(asked)
    }
}

impl Runs {
    fn claim(&self, asked: Option<u64>) -> Claim {
        // What lies in swap unused has to lie somewhere: what is safe goes by all that is held.
        let usual_bytes = at_risk(&self.sorted(|peak| peak.needed_bytes), USUAL_RISK_MILLI, asked);
        let held = self.sorted(|peak| peak.held_bytes);
        let held_bytes = at_risk(&held, USUAL_RISK_MILLI, asked).max(usual_bytes);
        let most_bytes = at_risk(&held, MOST_RISK_MILLI, asked).max(held_bytes);
        let runs = u32::try_from(self.peaks.len()).unwrap_or(u32::MAX);
        Claim { usual_bytes, held_bytes, most_bytes, runs }
    }

    fn sorted(&self, of: impl Fn(&Peak) -> u64) -> Vec<u64> {
        let mut sorted: Vec<u64> = self.peaks.iter().map(of).collect();
        sorted.sort_unstable();
        sorted
    }
}

/// The claim at this risk, of at least one peak in ascending order.
fn at_risk(sorted: &[u64], risk_milli: usize, asked: Option<u64>) -> u64 {
    let n = sorted.len();
    let index = ((n + 1) * (1000 - risk_milli)).div_ceil(1000);
    match sorted.get(index - 1) {
        Some(&peak) => peak,
        None => {
            let largest = sorted.last().copied().unwrap_or(0);
            let more = largest.saturating_add(largest / n.max(1) as u64);
            // What was asked for bounds what is added, not what was seen.
            asked.map_or(more, |asked| more.min(asked.max(largest)))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(peaks: &[u64], asked: Option<u64>, usual: u64, most: u64) {
        let mut claims = Claims::default();
        let mut claim = Claim::default();
        for &peak in peaks {
            claim = claims.ended(Kind::of(1), JobId(peak), Peak::of(peak), asked);
        }
        let runs = peaks.len().min(RUNS_KEPT);
        let want =
            Claim { usual_bytes: usual, held_bytes: usual, most_bytes: most, runs: runs.try_into().unwrap() };
        assert_eq!(claim, want, "{peaks:?}");
        let last: Vec<JobId> = peaks.iter().rev().take(RUNS_NAMED).rev().map(|&peak| JobId(peak)).collect();
        assert_eq!(claims.runs_of(Kind::of(1)), (runs, last));
    }

    #[test]
    fn claims_follow_the_peaks() {
        check(&[100], None, 100, 200);
        check(&[100], Some(150), 100, 150);
        check(&[100], Some(50), 100, 100);
        check(&[100, 200], None, 200, 300);
        check(&[300, 100, 200], None, 200, 400);
        let hundred: Vec<u64> = (1..=100).collect();
        check(&hundred, None, 51, 100);
        let long: Vec<u64> = (1..=600).collect();
        check(&long, None, 351, 596);
    }

    #[test]
    fn what_was_not_needed_is_not_usual_but_may_be_held() {
        let mut claims = Claims::default();
        let claim = claims.ended(Kind::of(1), JobId(1), Peak { held_bytes: 100, needed_bytes: 30 }, None);
        assert_eq!(claim, Claim { usual_bytes: 30, held_bytes: 100, most_bytes: 200, runs: 1 });
    }

    #[test]
    fn kinds_are_forgotten_oldest_first_and_never_anothers() {
        let mut claims = Claims::default();
        let other = Kind { user: 7, class: 1 };
        claims.ended(other, JobId(1), Peak::of(10), None);
        for kind in 0..=KINDS_KEPT as u64 {
            claims.ended(Kind::of(kind), JobId(1), Peak::of(100), None);
            claims.ended(Kind::of(0), JobId(1), Peak::of(50), None);
        }
        assert_eq!(claims.kinds.len(), KINDS_KEPT / 2 + 1);
        let knows = |kind: Kind| claims.kinds.get(kind.key()).is_some();
        assert!(knows(Kind::of(0)) && !knows(Kind::of(1)) && knows(other));
    }

    proptest! {
        /// Of many like jobs, the share that needs more than a claim is about its risk.
        #[test]
        fn the_risk_is_kept(seed in any::<u64>()) {
            let mut state = seed;
            let mut draw = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) + 1
            };
            let mut claims = Claims::default();
            let mut claim = claims.ended(Kind::of(1), JobId(1), Peak::of(draw()), None);
            let (mut over_usual, mut over_most) = (0, 0);
            for _ in 0..1_000 {
                let peak = draw();
                over_usual += u32::from(peak > claim.usual_bytes);
                over_most += u32::from(peak > claim.most_bytes);
                claim = claims.ended(Kind::of(1), JobId(1), Peak::of(peak), None);
            }
            prop_assert!((400..600).contains(&over_usual), "{over_usual} of 1000 over the usual");
            prop_assert!(over_most <= 40, "{over_most} of 1000 over the most");
        }
    }
}
