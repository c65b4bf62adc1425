//! Weeks as ISO 8601 has them: from Monday on, UTC; the week of a year is the one that has its Thursday.

use crate::store::DAY_US;

/// A week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Week {
    /// Its Monday, in days since 1970.
    monday: u64,
}

/// The first Monday after 1970 began.
const FIRST: u64 = 4;

/// The first day of a year, in days since 1970 (Hinnant, `chrono`-compatible low-level date algorithms).
const fn first_of(year: u64) -> u64 {
    let before = year - 1;
    before * 365 + before / 4 - before / 100 + before / 400 - 719_162
}

impl Week {
    /// The one that a moment is in.
    #[must_use]
    pub const fn of(time_us: u64) -> Self {
        let day = time_us / DAY_US;
        let day = if day < FIRST { FIRST } else { day };
        Self { monday: day - (day - FIRST) % 7 }
    }

    /// Reads `2026-W47`; `None`: that is none, or before 1971 or after 2199.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (year, week) = text.split_once("-W")?;
        let digits =
            |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(year, 4) || !digits(week, 2) {
            return None;
        }
        let (year, number): (u64, u64) = (year.parse().ok()?, week.parse().ok()?);
        if !(1971..2200).contains(&year) || number == 0 {
            return None;
        }
        // The fourth of January is in the first week.
        let first = Self::of((first_of(year) + 3) * DAY_US);
        let week = Self { monday: first.monday + (number - 1) * 7 };
        (week.numbers() == (year, number)).then_some(week)
    }

    /// The year and the number.
    #[must_use]
    pub fn numbers(self) -> (u64, u64) {
        let thursday = self.monday + 3;
        let mut year = 1970 + thursday / 366;
        while first_of(year + 1) <= thursday {
            year += 1;
        }
        (year, (thursday - first_of(year)) / 7 + 1)
    }

    /// From when on and until before when, in microseconds since the Unix epoch.
    #[must_use]
    pub const fn range_us(self) -> (u64, u64) {
        (self.monday * DAY_US, (self.monday + 7) * DAY_US)
    }

    /// The one before.
    #[must_use]
    pub fn before(self) -> Self {
        Self { monday: self.monday.saturating_sub(7).max(FIRST) }
    }

    /// The one after.
    #[must_use]
    pub const fn after(self) -> Self {
        Self { monday: self.monday + 7 }
    }
}

impl std::fmt::Display for Week {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (year, week) = self.numbers();
        write!(f, "{year}-W{week:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_are_those_of_the_calendar() {
        // 2026-11-25 is a Wednesday of week 48; the first days of 2027 are of the last week of 2026.
        for (day, want) in [
            (20_782, "2026-W48"),
            (20_819, "2026-W53"),
            (20_822, "2027-W01"),
            (11_323, "2001-W01"),
            (4, "1970-W02"),
        ] {
            assert_eq!(Week::of(day * DAY_US).to_string(), want, "day {day}");
        }
        let week = Week::read("2026-W48").unwrap();
        assert_eq!((week.range_us().0, week.before().to_string()), (20_780 * DAY_US, "2026-W47".to_owned()));
        let mut week = Week::read("1999-W01").unwrap();
        for _ in 0..3_000 {
            assert_eq!(Week::read(&week.to_string()), Some(week));
            week = week.after();
        }
        for bad in [
            "", "2026", "2026-W00", "2026-W54", "2025-W53", "26-W01", "2026-W1", "2026-w01", "9999-W01",
            "2026-W+1",
        ] {
            assert_eq!(Week::read(bad), None, "{bad}");
        }
    }
}
