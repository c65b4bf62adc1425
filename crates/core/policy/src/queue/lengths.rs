//! How long jobs like one took.
//!
//! Remembered for the very command and, where that never ran, for its class. Pure, and told from outside how long each job
//! ran. What is known is a guess, by which jobs may be put in order, and never a bound on one.

use crate::jobs::Remembered;

/// The last runs that count: enough for one odd run among them not to.
const RUNS_KEPT: usize = 3;

/// How many commands and kinds are remembered, of a user half of them at most; some 150 bytes each. The one that ran
/// longest ago is forgotten for a new one.
const KEPT: usize = 65_536;

/// What jobs have in common that are expected to take equally long: their user, and a number made of their command or of
/// their program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Likeness {
    /// Whose jobs they are.
    pub user: u32,
    /// A number for what they have in common.
    pub of: u64,
}

/// The lengths of ended jobs.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Lengths {
    of: Remembered<Runs, KEPT>,
}

#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
struct Runs {
    /// In microseconds; the oldest is written over.
    lengths: [u64; RUNS_KEPT],
    count: usize,
}

impl Lengths {
    /// A job that was like this ran so long, in microseconds, and ended well.
    pub fn ended(&mut self, likeness: Likeness, length_us: u64) {
        let runs = self.of.of((likeness.user, likeness.of), Runs::default);
        runs.lengths[runs.count % RUNS_KEPT] = length_us;
        runs.count += 1;
    }

    /// How long such a job usually ran, in microseconds: the median of the last three. `None`: there was none.
    #[must_use]
    pub fn usual_us(&self, likeness: Likeness) -> Option<u64> {
        let runs = self.of.get((likeness.user, likeness.of))?;
        // Of two the longer: it is the longest that must not come last.
        pinfold_advise::middle(&runs.lengths[..runs.count.min(RUNS_KEPT)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(of: u64) -> Likeness {
        Likeness { user: 0, of }
    }

    #[track_caller]
    fn check(runs: &[u64], usual: Option<u64>) {
        let mut lengths = Lengths::default();
        runs.iter().for_each(|&length| lengths.ended(like(1), length));
        assert_eq!(lengths.usual_us(like(1)), usual, "{runs:?}");
        assert_eq!(lengths.usual_us(like(2)), None);
    }

    #[test]
    fn the_median_of_the_last_three() {
        check(&[], None);
        check(&[7], Some(7));
        check(&[7, 9], Some(9));
        check(&[9, 7], Some(9));
        check(&[7, 1_000, 9], Some(9));
        check(&[1, 1, 1, 50, 60, 70], Some(60));
    }

    #[test]
    fn who_ran_longest_ago_is_forgotten() {
        let mut lengths = Lengths::default();
        let other = Likeness { user: 7, of: 1 };
        lengths.ended(other, 9);
        for number in 0..=KEPT as u64 {
            lengths.ended(like(number), 5);
        }
        assert_eq!(lengths.of.len(), KEPT / 2 + 1);
        assert_eq!(lengths.usual_us(like(0)), None);
        assert_eq!(lengths.usual_us(like(KEPT as u64)), Some(5));
        assert_eq!(lengths.usual_us(other), Some(9), "nobody makes another's be forgotten");
    }
}
