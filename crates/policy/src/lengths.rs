//! How long jobs like one took.
//!
//! Remembered for the very command and, where that never ran, for its kind. Pure, and told from outside how long
//! each job ran. What is known is a guess, by which jobs may be
//! put in order, and never a bound on one.

use std::collections::BTreeMap;

/// The last runs that count: enough for one odd run among them not to.
const RUNS_KEPT: usize = 3;
/// How many commands and kinds are remembered; some 50 bytes each. When there are more, the half that ran longest ago
/// is forgotten.
const KEPT: usize = 65_536;
/// What jobs have in common that are expected to take equally long: a number made of their user and command, or of
/// their user and kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Likeness(pub u64);

/// The lengths of ended jobs.
#[derive(Debug, Default)]
pub struct Lengths {
    of: BTreeMap<Likeness, Runs>,
    /// Counts runs, to tell who ran longest ago.
    turn: u64,
}

#[derive(Debug, Default)]
struct Runs {
    /// In microseconds; the oldest is written over.
    lengths: [u64; RUNS_KEPT],
    count: usize,
    last: u64,
}

impl Lengths {
    /// A job that was like this ran so long, in microseconds, and ended well.
    pub fn ended(&mut self, likeness: Likeness, length_us: u64) {
        self.turn += 1;
        if self.of.len() >= KEPT && !self.of.contains_key(&likeness) {
            self.forget();
        }
        let runs = self.of.entry(likeness).or_default();
        runs.lengths[runs.count % RUNS_KEPT] = length_us;
        runs.count += 1;
        runs.last = self.turn;
    }

    /// How long such a job usually ran, in microseconds: the median of the last three. `None`: there was none.
    #[must_use]
    pub fn usual_us(&self, likeness: Likeness) -> Option<u64> {
        let runs = self.of.get(&likeness)?;
        let mut known = runs.lengths;
        let known = &mut known[..runs.count.min(RUNS_KEPT)];
        known.sort_unstable();
        // Of two the longer: it is the longest that must not come last.
        known.get(known.len() / 2).copied()
    }

    fn forget(&mut self) {
        let mut turns: Vec<u64> = self.of.values().map(|runs| runs.last).collect();
        let (_, &mut middle, _) = turns.select_nth_unstable(KEPT / 2);
        self.of.retain(|_, runs| runs.last > middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(runs: &[u64], usual: Option<u64>) {
        let mut lengths = Lengths::default();
        runs.iter().for_each(|&length| lengths.ended(Likeness(1), length));
        assert_eq!(lengths.usual_us(Likeness(1)), usual, "{runs:?}");
        assert_eq!(lengths.usual_us(Likeness(2)), None);
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
        for number in 0..=KEPT as u64 {
            lengths.ended(Likeness(number), 5);
        }
        assert!(lengths.of.len() <= KEPT / 2 + 1, "{}", lengths.of.len());
        assert_eq!(lengths.usual_us(Likeness(0)), None);
        assert_eq!(lengths.usual_us(Likeness(KEPT as u64)), Some(5));
    }
}
