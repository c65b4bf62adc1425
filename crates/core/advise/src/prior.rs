//! Estimates for a class that ran on other hosts alone: their estimates, within the memory of this host.
//! The first own run replaces them. Absent: how others came to them, and whether they are believed.

use crate::peaks::Expected;

/// The peaks of a class's runs on other hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prior {
    /// As likely as not the next run holds no more than this, in bytes.
    pub p50_held_bytes: u64,
    /// It hardly ever holds more.
    pub p99_held_bytes: u64,
    /// How many runs that rests on.
    pub runs: usize,
}

impl Prior {
    /// Estimates for the next job on a host where no job can hold more than `most_bytes`. `runs_max`: so many runs
    /// elsewhere count at most, for they were on other hosts, perhaps with other inputs.
    #[must_use]
    pub fn expected(self, most_bytes: u64, runs_max: usize) -> Expected {
        let p50 = self.p50_held_bytes.min(most_bytes);
        Expected {
            // The cold part is not known there.
            p50_needed_bytes: p50,
            p50_held_bytes: p50,
            p99_held_bytes: self.p99_held_bytes.min(most_bytes).max(p50),
            runs: self.runs.min(runs_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_elsewhere_are_bounded_by_what_is_here() {
        let check = |p50, p99, runs, most, want: (u64, u64, usize)| {
            let expected = Prior { p50_held_bytes: p50, p99_held_bytes: p99, runs }.expected(most, 4);
            assert_eq!((expected.p50_held_bytes, expected.p99_held_bytes, expected.runs), want);
            assert_eq!(expected.p50_needed_bytes, expected.p50_held_bytes);
        };
        check(10, 20, 3, 100, (10, 20, 3));
        check(10, 20, 300, 100, (10, 20, 4));
        check(10, 200, 9, 100, (10, 100, 4));
        check(u64::MAX, u64::MAX, usize::MAX, 100, (100, 100, 4));
        check(20, 10, 1, 100, (20, 20, 1));
    }
}
