//! The requests and use of each class in each month, and the savings of advice.
//!
//! A run counts in the month in which it ended. Its GB x hours belong to the months in which it ran, in proportion to its
//! time in each, so that the months of a class add up to the class. Absent: how a saving comes about
//! ([`super::classes`]).

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use pinfold_profile::report::{total, zone};
use serde::Serialize;

use super::classes::{asked, by_class, ended_well};
use super::history::{Outcome, Run};
use crate::print::JSON_VERSION;

/// A run that took longer than this had its start or its end from a wrong clock: ten years.
const RAN_MOST_S: f64 = 10.0 * 365.25 * 86_400.0;

/// All classes by month, as JSON has it.
#[derive(Debug, Serialize)]
pub(super) struct Sheet {
    version: u32,
    by: &'static str,
    pub(super) requested_gbh: f64,
    pub(super) used_gbh: f64,
    pub(super) saved_gbh: f64,
    /// By user, class, cores and month.
    pub(super) months: Vec<MonthView>,
}

/// A class in a month. Figures in GB x hours are of runs that ended well and requested memory.
#[derive(Debug, Default, Serialize)]
pub(super) struct MonthView {
    pub(super) class: String,
    pub(super) user: String,
    pub(super) cores: u32,
    /// In the zone of this program, as `2026-11`.
    pub(super) month: String,
    /// Runs that ended well in this month.
    pub(super) jobs: usize,
    /// Runs that ended otherwise in this month.
    pub(super) failed: usize,
    /// Failed runs that reached their memory limit.
    pub(super) failed_at_limit: usize,
    pub(super) requested_gbh: f64,
    /// The peaks, each for as long as the run lasted.
    pub(super) used_gbh: f64,
    /// The savings of advice against the requests; below 0: advice would have cost more.
    pub(super) saved_gbh: f64,
}

/// The figures of the classes of `runs` in each month. `risk`: see [`pinfold_advise::Settings`].
pub(super) fn sheet(runs: &[Run], risk: Option<f64>) -> Result<Sheet, String> {
    let mut months = Vec::new();
    for ((user, class, cores), runs) in by_class(runs) {
        let named = |(month, view): (Month, MonthView)| MonthView {
            class: class.to_owned(),
            user: user.to_owned(),
            cores,
            month: month.name(),
            ..view
        };
        months.extend(of_class(&runs, risk)?.into_iter().map(named));
    }
    let sum = |of: fn(&MonthView) -> f64| total(months.iter().map(of));
    Ok(Sheet {
        version: JSON_VERSION,
        by: "month",
        requested_gbh: sum(|month| month.requested_gbh),
        used_gbh: sum(|month| month.used_gbh),
        saved_gbh: sum(|month| month.saved_gbh),
        months,
    })
}

/// The months of a class.
fn of_class(runs: &[&Run], risk: Option<f64>) -> Result<BTreeMap<Month, MonthView>, String> {
    let mut months: BTreeMap<Month, MonthView> = BTreeMap::new();
    let done = ended_well(runs);
    for run in &done {
        months.entry(Month::of(run.ended_s)).or_default().jobs += 1;
    }
    for run in runs.iter().filter(|run| run.outcome != Outcome::Done) {
        let month = months.entry(Month::of(run.ended_s)).or_default();
        month.failed += 1;
        month.failed_at_limit += usize::from(run.outcome == Outcome::Short);
    }
    for asked in asked(&done, risk)? {
        for (month, share) in shares(asked.run.started_s, asked.run.ended_s) {
            let month = months.entry(month).or_default();
            month.requested_gbh += asked.requested_gbh * share;
            month.used_gbh += asked.used_gbh * share;
            month.saved_gbh += asked.saved_gbh * share;
        }
    }
    Ok(months)
}

/// The months between two moments, each with its share of the time between; the shares add up to 1. All is in the month of
/// the end if that is not after the start, or too long after.
fn shares(started_s: f64, ended_s: f64) -> Vec<(Month, f64)> {
    let (length_s, last) = (ended_s - started_s, Month::of(ended_s));
    if !(length_s > 0.0 && length_s <= RAN_MOST_S) {
        return vec![(last, 1.0)];
    }
    let mut shares = Vec::new();
    let (mut month, mut from_s) = (Month::of(started_s), started_s);
    while month < last {
        let next = month.next();
        let to_s = next.first_s().min(ended_s);
        shares.push((month, (to_s - from_s) / length_s));
        (month, from_s) = (next, to_s);
    }
    // A run that ended with its month has no time in the next month.
    if ended_s > from_s {
        shares.push((last, (ended_s - from_s) / length_s));
    }
    shares
}

/// A month, UTC: by its number since the year 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Month(i32);

impl Month {
    /// The month of a moment, in Unix seconds; a moment beyond the calendar is in the last month of the year 9999.
    #[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
    fn of(unix_s: f64) -> Self {
        let at = Timestamp::from_second(unix_s.floor() as i64).unwrap_or(Timestamp::MAX);
        let date = zone().to_datetime(at).date();
        Self(i32::from(date.year()) * 12 + i32::from(date.month()) - 1)
    }

    fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Its first day; `None`: after the year 9999.
    fn date(self) -> Option<Date> {
        let (year, month) = (self.0.div_euclid(12), self.0.rem_euclid(12) + 1);
        Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, 1).ok()
    }

    /// When it begins, in Unix seconds.
    fn first_s(self) -> f64 {
        let at = self.date().and_then(|date| zone().to_timestamp(date.into()).ok());
        at.map_or(f64::INFINITY, |at| at.as_second() as f64)
    }

    fn name(self) -> String {
        format!("{:04}-{:02}", self.0.div_euclid(12), self.0.rem_euclid(12) + 1)
    }
}

#[cfg(test)]
#[path = "months_tests.rs"]
mod tests;
