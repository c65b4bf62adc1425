//! Retention: series for months, figures for years. Whole months go, by the hub's own clock at arrival, so that a
//! host's wrong clock neither keeps data for ever nor removes it at once.

use super::days::DAY_US;
use super::db::values;
use super::{Store, StoreError, tops};

/// Months kept beside the current month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Months of series kept.
    pub series_months: u32,
    /// Months of figures kept.
    pub jobs_months: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Self { series_months: 6, jobs_months: 60 }
    }
}

/// Counts of removed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Months of series removed.
    pub series_months: u64,
    /// Jobs removed.
    pub jobs: u64,
}

/// Jobs removed in a transaction; few, so that hosts wait briefly.
const REMOVED_AT_ONCE: u32 = 2_000;

/// The month of a moment, UTC, as `202611`.
#[must_use]
pub fn month_of(time_us: u64) -> u32 {
    let days = time_us / 86_400_000_000;
    // Years of 365.2425 days that begin in March (Hinnant, `chrono`-compatible low-level date algorithms).
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (year, month) = (era * 400 + year, if month < 10 { month + 3 } else { month - 9 });
    let year = if month <= 2 { year + 1 } else { year };
    u32::try_from(year * 100 + month).unwrap_or(u32::MAX)
}

/// The month this many months earlier.
fn earlier(month: u32, by: u32) -> u32 {
    let months = (month / 100 * 12 + month % 100 - 1).saturating_sub(by);
    months / 12 * 100 + months % 12 + 1
}

/// The table of a month's series. Made of a number alone.
pub(super) fn series_table(month: u32) -> String {
    format!("series_{month:06}")
}

impl Store {
    /// The months with series.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn series_months(&self) -> Result<Vec<u32>, StoreError> {
        self.read("list months", |connection| {
            let find = connection.dialect().series_tables();
            let month = |name: &str| name.strip_prefix("series_").and_then(|month| month.parse().ok());
            let months = connection.all(find, &[], |row| Ok(month(row.get(0)?)))?;
            Ok(months.into_iter().flatten().collect())
        })
    }

    /// Removes data past its retention.
    ///
    /// # Errors
    /// When the database refuses; earlier removals stay.
    pub fn remove_old(&self, keep: Keep, now_us: u64) -> Result<Kept, StoreError> {
        let month = month_of(now_us);
        let mut kept = Kept::default();
        let first = earlier(month, keep.series_months.min(keep.jobs_months));
        for old in self.series_months()?.into_iter().filter(|&old| old < first) {
            self.write("remove a month of series", |connection| {
                // Another hub may have dropped the table first.
                connection.batch(&format!("DROP TABLE IF EXISTS {}", series_table(old)))
            })?;
            kept.series_months += 1;
        }
        self.write("remove old acts", |connection| {
            let age_us = u64::from(keep.jobs_months + 1) * 31 * 86_400_000_000;
            connection
                .execute("DELETE FROM audit WHERE time_us < ?1", &values![now_us.saturating_sub(age_us)])
        })?;
        let first = earlier(month, keep.jobs_months);
        // Sums have no index by month, and no older sums outlive their jobs.
        let find = "SELECT 1 FROM jobs WHERE month < ?1 LIMIT 1";
        if self.first("look for old jobs", find, &values![first], |_| Ok(()))?.is_some() {
            self.remove_before(first, "days")?;
            self.remove_before(first, "runs")?;
            kept.jobs = self.remove_before(first, "jobs")?;
        }
        // All kept jobs came in later; earlier ends may have come in later too.
        let age_us = u64::from(keep.jobs_months) * 31 * DAY_US;
        let days = (now_us.saturating_sub(age_us) / DAY_US, now_us / DAY_US + 1);
        self.write("remove lists of days without jobs", |connection| tops::remove_outside(connection, days))?;
        Ok(kept)
    }

    /// Removes rows of earlier months, a few at a time. `table` is a literal of this file.
    fn remove_before(&self, first: u32, table: &str) -> Result<u64, StoreError> {
        let remove =
            format!("DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE month < ?1 LIMIT ?2)");
        let mut all = 0;
        loop {
            let removed = self.write("remove old jobs", |connection| {
                connection.execute(&remove, &values![first, REMOVED_AT_ONCE])
            })?;
            all += removed;
            if removed == 0 {
                return Ok(all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months() {
        let day_us = 86_400_000_000;
        for (days, want) in [
            (0, 197_001),
            (31, 197_002),
            (59, 197_003),
            (11_016, 200_002),
            (11_017, 200_003),
            (20_781, 202_611),
        ] {
            assert_eq!(month_of(days * day_us), want, "day {days}");
        }
        assert_eq!(earlier(202_611, 0), 202_611);
        assert_eq!(earlier(202_611, 11), 202_512);
        assert_eq!(earlier(202_601, 1), 202_512);
        assert_eq!(earlier(202_601, 60), 202_101);
    }
}
