//! Whether the hub's own clock can be trusted. The clock files jobs under months and removes old months: a clock that
//! is years off would file new jobs under a month that is removed once the clock is right, or remove all jobs at once.
//! The evidence: the time of the database's last change, and the clocks of connected hosts.
//!
//! Absent here: the clocks themselves ([`crate::hub`]). No clock is set.

use pinfold_profile::report::date_utc;
use pinfold_proto::view::seconds;

use crate::store::StoreError;

/// The largest difference of agreeing clocks, in microseconds: a day, so that no row is more than a month off.
const APART_US: u64 = 86_400_000_000;

/// A clock before this program's release is wrong, in microseconds since the Unix epoch: the beginning of 2026.
const WRITTEN_US: u64 = 1_767_225_600_000_000;

/// The evidence for and against the hub's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    now_us: u64,
    /// The database's last change before this hub's start, in microseconds.
    kept_us: u64,
    /// Connected hosts with agreeing clocks, and with differing clocks.
    agree: usize,
    differ: usize,
}

impl Clock {
    /// The hub's clock, with the leads of connected hosts' clocks over it, in microseconds.
    pub fn new(now_us: u64, kept_us: u64, ahead_us: impl Iterator<Item = i64>) -> Self {
        let (mut agree, mut differ) = (0, 0);
        for ahead_us in ahead_us {
            if ahead_us.unsigned_abs() <= APART_US { agree += 1 } else { differ += 1 }
        }
        Self { now_us, kept_us, agree, differ }
    }

    /// Whether more connected hosts agree with the clock than differ: only then may it remove old months.
    #[must_use]
    pub const fn is_confirmed(self) -> bool {
        self.now_us >= WRITTEN_US && self.agree > self.differ
    }

    /// Checks that the clock may date new rows: a single host with a wrong clock blocks no write.
    ///
    /// # Errors
    /// When the clock is before the database's last change, or at least two hosts, and more than agree, differ from it.
    pub fn check(self) -> Result<(), StoreError> {
        let Self { now_us, kept_us, agree, differ } = self;
        if self.is_confirmed() {
            return Ok(());
        }
        let begin = format!("this hub's clock says {}", date_utc(seconds(now_us)));
        let end = "nothing is filed by it until it is set right";
        if now_us.saturating_add(APART_US) < kept_us.max(WRITTEN_US) {
            let last = date_utc(seconds(kept_us.max(WRITTEN_US)));
            return Err(StoreError::Refused(format!("{begin}, and it was {last} before: {end}")));
        }
        if differ > 1 && differ > agree {
            let all = agree + differ;
            return Err(StoreError::Refused(format!("{begin}, and {differ} of {all} hosts differ: {end}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: u64 = WRITTEN_US + 300 * APART_US;
    const YEAR_US: i64 = 365 * 86_400_000_000;

    /// Checks whether the clock may date rows, and whether it may remove rows.
    #[track_caller]
    fn check(now_us: u64, kept_us: u64, ahead_us: &[i64], want: (bool, bool)) {
        let clock = Clock::new(now_us, kept_us, ahead_us.iter().copied());
        assert_eq!((clock.check().is_ok(), clock.is_confirmed()), want, "{clock:?}");
    }

    #[test]
    fn a_clock_that_most_hosts_contradict_is_not_believed() {
        check(NOW_US, 0, &[], (true, false));
        check(NOW_US, 0, &[5_000_000], (true, true));
        // One host with a wrong clock is that host's affair.
        check(NOW_US, 0, &[-YEAR_US], (true, false));
        check(NOW_US, 0, &[-YEAR_US, 0], (true, false));
        check(NOW_US, 0, &[-YEAR_US, 0, -5_000_000], (true, true));
        check(NOW_US, 0, &[YEAR_US, YEAR_US], (false, false));
        check(NOW_US, 0, &[YEAR_US, -YEAR_US, 0], (false, false));
        check(NOW_US, 0, &[i64::MIN, i64::MAX, 0, 0], (true, false));
    }

    #[test]
    fn a_clock_that_went_back_is_not_believed() {
        check(NOW_US, NOW_US, &[], (true, false));
        check(NOW_US - 2 * APART_US, NOW_US, &[], (false, false));
        check(NOW_US - 2 * APART_US, NOW_US, &[YEAR_US], (false, false));
        // The database's last change was dated by a clock that was ahead.
        check(NOW_US, NOW_US + 9 * APART_US, &[0], (true, true));
        // A machine whose clock has no battery: its own host agrees.
        check(1_000_000, 0, &[0], (false, false));
        check(0, u64::MAX, &[0, 0, 0], (false, false));
    }
}
