//! Classes from the sums by day, within a bound: of too many classes the most wasteful.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::super::db::{Connection, DbError, Row};
use super::super::query::JobQuery;
use super::Summed;

/// Classes during aggregation.
#[derive(Default)]
pub(super) struct Classes {
    classes: BTreeMap<String, Summed>,
    /// Bound on the number of classes.
    most: usize,
    bytes: usize,
    bytes_max: usize,
    /// Ranks of the counted names, from 0; `None`: all names count.
    ranks: Option<BTreeMap<String, usize>>,
}

impl Classes {
    /// For all names, with bounds on the number of classes and the bytes of their sums.
    pub(super) fn of_all(most: usize, bytes_max: usize) -> Self {
        Self { most, bytes_max, ..Self::default() }
    }

    /// For these names, as many of the first as the bytes allow.
    pub(super) fn of_ranks(ranks: BTreeMap<String, usize>, bytes_max: usize) -> Self {
        Self { most: ranks.len(), bytes_max, ranks: Some(ranks), ..Self::default() }
    }

    pub(super) fn found(self) -> BTreeMap<String, Summed> {
        self.classes
    }

    /// Reads the classes. Returns whether all fit: too many names end the reading, ranked names lose the last ranks.
    pub(super) fn read(
        &mut self,
        connection: &mut dyn Connection,
        query: &JobQuery,
    ) -> Result<bool, DbError> {
        let (conditions, values) = query.day_conditions(connection.dialect(), false);
        let text = format!(
            "SELECT jobs.name, {} FROM days AS jobs JOIN spreads ON spreads.day = jobs.id WHERE {conditions} AND jobs.ran > 0",
            Summed::columns()
        );
        let mut within = true;
        connection.each(&text, &values, &mut |row| {
            within &= self.add(row)?;
            let ranked = self.ranks.is_some();
            Ok(if within || ranked { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(within)
    }

    /// Adds a row. Returns whether all classes fit so far.
    fn add(&mut self, row: &Row) -> Result<bool, DbError> {
        let name: &str = row.get(0)?;
        if let Some(ranks) = &self.ranks
            && ranks.get(name).is_none_or(|rank| *rank >= self.most)
        {
            return Ok(true);
        }
        if !self.classes.contains_key(name) {
            if self.classes.len() >= self.most {
                return Ok(false);
            }
            self.classes.insert(name.to_owned(), Summed::default());
        }
        if let Some(class) = self.classes.get_mut(name) {
            let before = class.bytes();
            class.add(row)?;
            self.bytes += class.bytes().saturating_sub(before);
        }
        let within = self.bytes <= self.bytes_max;
        self.shrink();
        Ok(within)
    }

    /// Drops the last ranks until the sums fit; the first rank always stays.
    fn shrink(&mut self) {
        let Some(ranks) = &self.ranks else { return };
        while self.bytes > self.bytes_max && self.most > 1 {
            self.most /= 2;
            self.classes.retain(|name, _| ranks.get(name).is_some_and(|rank| *rank < self.most));
            self.bytes = self.classes.values().map(Summed::bytes).sum();
        }
    }
}

/// Names of the classes with the most unused memory, with their ranks.
pub(super) fn most_wasteful(
    connection: &mut dyn Connection,
    query: &JobQuery,
    most: usize,
) -> Result<BTreeMap<String, usize>, DbError> {
    let (conditions, values) = query.day_conditions(connection.dialect(), false);
    let text = format!(
        "SELECT jobs.name FROM days AS jobs WHERE {conditions} AND jobs.ran > 0 GROUP BY jobs.name \
         ORDER BY sum(jobs.unused_gibh) DESC, jobs.name LIMIT {most}"
    );
    let names = connection.all(&text, &values, |row| row.get::<String>(0))?;
    Ok(names.into_iter().zip(0..).collect())
}
