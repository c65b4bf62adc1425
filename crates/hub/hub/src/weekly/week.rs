//! Weeks by ISO 8601: from Monday on, UTC; a week belongs to the year of its Thursday.

use jiff::civil::{Date, ISOWeekDate, Weekday, date};
use jiff::{Span, Unit};

use crate::store::DAY_US;

/// A calendar week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Week {
    monday: Date,
}

/// The first Monday of 1970, and the last Monday supported.
const FIRST: Date = date(1970, 1, 5);
const LAST: Date = date(2199, 12, 30);

impl Week {
    fn from(day: Date) -> Self {
        let monday = day.iso_week_date().first_of_week().map_or(FIRST, ISOWeekDate::date);
        Self { monday: monday.clamp(FIRST, LAST) }
    }

    /// The week of a moment.
    #[must_use]
    pub fn of(time_us: u64) -> Self {
        let days = i64::try_from(time_us / DAY_US).unwrap_or(i64::MAX);
        let day = Span::new().try_days(days).ok().and_then(|days| date(1970, 1, 1).checked_add(days).ok());
        Self::from(day.unwrap_or(LAST))
    }

    /// Reads `2026-W47`; `None`: not a week, or before 1971 or after 2199.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (year, week) = text.split_once("-W")?;
        let digits =
            |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(year, 4) || !digits(week, 2) {
            return None;
        }
        let year = year.parse().ok().filter(|year| (1971..2200).contains(year))?;
        let monday = ISOWeekDate::new(year, week.parse().ok()?, Weekday::Monday).ok()?.date();
        Some(Self { monday })
    }

    fn moved(self, days: i64) -> Self {
        self.monday.checked_add(Span::new().days(days)).map_or(self, Self::from)
    }

    /// Begin and end, without the end, in microseconds since the Unix epoch.
    #[must_use]
    pub fn range_us(self) -> (u64, u64) {
        let days = self.monday.since((Unit::Day, date(1970, 1, 1))).map_or(0, |span| span.get_days());
        let from = u64::try_from(days).unwrap_or(0) * DAY_US;
        (from, from + 7 * DAY_US)
    }

    /// The previous week.
    #[must_use]
    pub fn before(self) -> Self {
        self.moved(-7)
    }

    /// The next week.
    #[must_use]
    pub fn after(self) -> Self {
        self.moved(7)
    }
}

impl std::fmt::Display for Week {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let week = self.monday.iso_week_date();
        write!(f, "{}-W{:02}", week.year(), week.week())
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
