//! What processes that are no jobs use of the cores, and which whole cores count for that.
//!
//! The use is smoothed, and counts in whole cores once it has been nearly so much for some seconds, and no more once it has
//! been clearly less for longer, so that a load between two numbers changes nothing. Pure: it is told the time. Absent: how
//! it is measured, and what follows (`others`).

use std::time::Duration;

use crate::api::Instant;

/// The use is smoothed over so long.
const SMOOTHED_OVER: Duration = Duration::from_secs(5);
/// After so long without a reading the next counts alone.
const STALE: Duration = Duration::from_secs(15);
/// A core counts as used once the use comes so near to it, in thousandths of a core,
const NEARLY_MILLI: u64 = 300;
/// and no more once it is so far below it.
const CLEARLY_MILLI: u64 = 700;
/// ... for so long.
const MORE_AFTER: Duration = Duration::from_secs(3);
const LESS_AFTER: Duration = Duration::from_secs(10);

/// See the module's page.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct OtherLoad {
    /// What they use, smoothed, in thousandths of a core; `None`: it does not count, or was not read.
    used_milli: Option<u64>,
    read_at: Instant,
    /// The cores that count as used.
    cores: usize,
    /// Since when there should be more of them, or fewer.
    leans: Option<(bool, Instant)>,
}

impl OtherLoad {
    /// What they use, in thousandths of a core.
    pub(crate) fn used_milli(&self) -> Option<u64> {
        self.used_milli
    }

    /// The cores that count as used.
    pub(crate) fn cores(&self) -> usize {
        self.cores
    }

    pub(super) fn read(&mut self, now: Instant, used_milli: Option<u32>) {
        let Some(read) = used_milli.map(u64::from) else {
            *self = Self::default();
            return;
        };
        let passed = now.since(self.read_at);
        self.read_at = now;
        let known = self.used_milli.filter(|_| passed <= STALE);
        let Some(known) = known else {
            (self.used_milli, self.leans) = (Some(read), None);
            self.cores = nearly(read);
            return;
        };
        let over = micros(SMOOTHED_OVER);
        let weight = micros(passed).min(over);
        let used = (known * (over - weight) + read.min(1 << 32) * weight) / over;
        self.used_milli = Some(used);
        let (more, less) = (nearly(used), clearly(used));
        let lean = match () {
            () if more > self.cores => Some((true, more, MORE_AFTER)),
            () if less < self.cores => Some((false, less, LESS_AFTER)),
            () => None,
        };
        let Some((up, cores, after)) = lean else {
            self.leans = None;
            return;
        };
        let since = match self.leans {
            Some((leant_up, since)) if leant_up == up => since,
            _ => self.leans.insert((up, now)).1,
        };
        if now.since(since) >= after {
            (self.cores, self.leans) = (cores, None);
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The cores that such a use nearly fills.
fn nearly(used_milli: u64) -> usize {
    usize::try_from((used_milli + NEARLY_MILLI) / 1000).unwrap_or(usize::MAX)
}

/// The cores of which such a use is not clearly less.
fn clearly(used_milli: u64) -> usize {
    usize::try_from((used_milli + CLEARLY_MILLI) / 1000).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a reading each second, and says how many cores counted after each.
    fn feed(others: &mut OtherLoad, from_s: u64, readings: impl IntoIterator<Item = u32>) -> Vec<usize> {
        let mut seconds = from_s;
        let mut one = |milli| {
            seconds += 1;
            others.read(Instant(seconds * 1_000_000), Some(milli));
            others.cores
        };
        readings.into_iter().map(&mut one).collect()
    }

    #[test]
    fn a_load_that_comes_counts_after_a_while_and_one_that_goes_later() {
        let mut others = OtherLoad::default();
        assert_eq!(feed(&mut others, 0, [0; 3]), [0; 3]);
        let came = feed(&mut others, 3, [2000; 20]);
        let at = |cores: usize| came.iter().position(|&now| now == cores);
        assert_eq!(at(0), Some(0));
        assert!(at(1) >= Some(3) && at(2) > at(1), "{came:?}");
        assert_eq!(came.last(), Some(&2));
        let went = feed(&mut others, 23, [0; 40]);
        let gone = went.iter().position(|&now| now < 2);
        assert!(gone >= Some(9), "{went:?}");
        assert_eq!(went.last(), Some(&0));
    }

    #[test]
    fn a_load_between_two_numbers_changes_nothing() {
        let mut others = OtherLoad::default();
        feed(&mut others, 0, [1000; 5]);
        // Half a core more and less, in turns and for long.
        let wavering = (0..600).map(|at| if at / 7 % 2 == 0 { 1500 } else { 600 });
        assert!(feed(&mut others, 5, wavering).iter().all(|&cores| cores == 1));
        // A spike is nothing.
        assert!(feed(&mut others, 605, [1000, 4000, 1000, 1000, 1000]).iter().all(|&cores| cores <= 1));
    }

    #[test]
    fn after_a_gap_the_reading_counts_alone() {
        let mut others = OtherLoad::default();
        feed(&mut others, 0, [4000; 20]);
        assert_eq!(feed(&mut others, 120, [0]), [0]);
        assert_eq!(feed(&mut others, 900, [1800]), [2], "and the first as well");
        others.read(Instant(902_000_000), None);
        assert_eq!((others.cores, others.used_milli), (0, None));
        assert_eq!(feed(&mut others, 903, [u32::MAX, u32::MAX]).len(), 2, "nothing overflows");
    }
}
