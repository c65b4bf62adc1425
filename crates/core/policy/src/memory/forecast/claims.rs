//! Which runs of each class count for what its next job is expected to need.
//!
//! The estimates themselves are [`pinfold_advise::Peaks`]; here is of how many classes runs are remembered, and their
//! numbers. Pure, and told from outside which peaks there were.

use std::collections::VecDeque;

use pinfold_advise::{Expected, Peaks};
pub use pinfold_advise::{Peak, Prior};

use crate::api::{Claim, EVIDENCE_RUNS, JobId, Kind};
use crate::jobs::Remembered;

/// Kinds that are remembered; of a user half of them at most, and the one that ran longest ago is forgotten for a new
/// one.
const KINDS_KEPT: usize = 4096;

/// So many of the last runs of a kind are known by their numbers, for those that ask which counted.
const RUNS_NAMED: usize = 5;

/// The peaks of ended jobs, kind by kind.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Claims {
    kinds: Remembered<Runs, KINDS_KEPT>,
}

#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
struct Runs {
    peaks: Peaks,
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
        runs.peaks.observe(peak);
        claim(runs.peaks.expected(asked))
    }
}

/// What a job is expected to need of whose kind no run is known here, on a host where none can hold more than
/// `most_bytes`. That is never evidence: no less counts than was asked for.
#[must_use]
pub fn of_elsewhere(prior: Prior, most_bytes: u64) -> Claim {
    claim(prior.expected(most_bytes, EVIDENCE_RUNS as usize - 1))
}

fn claim(expected: Expected) -> Claim {
    Claim {
        usual_bytes: expected.p50_needed_bytes,
        held_bytes: expected.p50_held_bytes,
        most_bytes: expected.p99_held_bytes,
        runs: u32::try_from(expected.runs).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_what_is_expected_of_the_class_and_its_last_runs_have_numbers() {
        let mut claims = Claims::default();
        let mut claim = Claim::default();
        for peak in [300, 100, 200, 400, 500, 600] {
            let peak_of = Peak { held_bytes: peak, needed_bytes: peak / 2 };
            claim = claims.ended(Kind::of(1), JobId(peak), peak_of, Some(650));
        }
        assert_eq!(claim, Claim { usual_bytes: 200, held_bytes: 400, most_bytes: 650, runs: 6 });
        let last = [100, 200, 400, 500, 600].map(JobId).to_vec();
        assert_eq!(claims.runs_of(Kind::of(1)), (6, last));
        assert_eq!(claims.runs_of(Kind::of(2)), (0, Vec::new()));
    }

    #[test]
    fn what_ran_elsewhere_is_never_evidence() {
        let prior = Prior { p50_held_bytes: 100, p99_held_bytes: 900, runs: 1_000 };
        let claim = of_elsewhere(prior, 500);
        assert_eq!((claim.usual_bytes, claim.held_bytes, claim.most_bytes), (100, 100, 500));
        assert!(!claim.is_evidence() && claim.runs > 0);
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
}
