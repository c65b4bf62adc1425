//! Jobs by a condition that few jobs meet, found by top lists. Sorted by end, the jobs are looked up day by day until
//! there are enough.

use std::collections::HashSet;

use super::super::columns::Compare;
use super::super::days::DAY_US;
use super::super::db::{Connection, DbError};
use super::super::tops::{self, OfDay, Which};
use super::numbers::{LOOKED_FOR, each_of};
use super::{Asked, Source, Way};

impl Asked<'_> {
    /// Jobs by a condition that few jobs meet; `None`: top lists cover no condition of the query.
    pub(super) fn by_conditions(
        self,
        connection: &mut dyn Connection,
    ) -> Result<Option<(Vec<i64>, Way)>, DbError> {
        let Some(days) = self.of_conditions(connection)? else { return Ok(None) };
        let ids = if self.query.sort.is_none_or(|column| column.sql() == "jobs.ended_us") {
            self.by_day(connection, days)?
        } else {
            let ids: Vec<i64> =
                days.iter().flat_map(|day| day.entries.iter().map(|entry| entry.job)).collect();
            // The unused number 0, if no job matches.
            self.sorted(connection, Source::Numbers(if ids.is_empty() { &[0] } else { &ids }))?
        };
        Ok(Some((ids, Way::Tops)))
    }

    /// All jobs that may meet a condition, by day, if few have so extreme a value.
    fn of_conditions(self, connection: &mut dyn Connection) -> Result<Option<Vec<OfDay>>, DbError> {
        for condition in &self.query.conditions {
            let ascending = match condition.compare {
                Compare::Above => false,
                Compare::Below => true,
                Compare::Equal => continue,
            };
            let Some(which) = Which::of(condition.column, ascending) else { continue };
            let holds =
                |value: f64| if ascending { value < condition.value } else { value > condition.value };
            // A list of the largest lacks values of 0 and absent values.
            if !ascending && condition.value < 0.0 {
                continue;
            }
            let mut days = tops::read_days(connection, which, self.days())?;
            if days.iter().filter_map(OfDay::reach).any(|reach| holds(reach.value)) {
                continue;
            }
            for day in &mut days {
                day.entries.retain(|entry| holds(entry.value) && entry.value.is_finite());
            }
            if days.iter().map(|day| day.entries.len()).sum::<usize>() <= self.read_max as usize {
                return Ok(Some(days));
            }
        }
        Ok(None)
    }

    /// The listed jobs that match the query, by end.
    fn by_day(self, connection: &mut dyn Connection, mut days: Vec<OfDay>) -> Result<Vec<i64>, DbError> {
        days.sort_unstable_by_key(|day| if self.query.ascending { day.day } else { -day.day });
        let (mut ids, mut rest) = (Vec::new(), &days[..]);
        for size in LOOKED_FOR.into_iter().chain(std::iter::repeat(LOOKED_FOR[1])) {
            if rest.is_empty() || ids.len() >= self.wanted() {
                break;
            }
            let mut count = 0;
            let whole = rest.iter().take_while(|day| {
                let more = count < size;
                count += day.entries.len();
                more
            });
            let (now, later) = rest.split_at(whole.count());
            ids.extend(self.ended_in(connection, now)?);
            rest = later;
        }
        Ok(self.page(ids))
    }

    /// The matching listed jobs of some days, in order.
    fn ended_in(self, connection: &mut dyn Connection, days: &[OfDay]) -> Result<Vec<i64>, DbError> {
        let dialect = connection.dialect();
        let (conditions, values) = self.query.conditions(dialect, true);
        let text = |places: &str| {
            let (from, words) = dialect.numbered(places);
            format!("SELECT jobs.ended_us, jobs.id FROM {from} WHERE {words} AND {conditions}")
        };
        let listed: HashSet<(i64, i64)> =
            days.iter().flat_map(|day| day.entries.iter().map(|entry| (entry.job, day.day))).collect();
        let numbers: Vec<i64> = listed.iter().map(|(number, _)| *number).collect();
        let mut found: Vec<(u64, i64)> = Vec::new();
        each_of(connection, &numbers, (&text, &values), &mut |row| {
            let (ended_us, number): (u64, i64) = (row.get(0)?, row.get(1)?);
            // Another job, of another day, may have the number of a removed job.
            let day = i64::try_from(ended_us / DAY_US).unwrap_or(i64::MAX);
            if listed.contains(&(number, day)) {
                found.push((ended_us, number));
            }
            Ok(())
        })?;
        found.sort_unstable();
        found.dedup();
        if !self.query.ascending {
            found.reverse();
        }
        Ok(found.into_iter().map(|(_, number)| number).collect())
    }
}
