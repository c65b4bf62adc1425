//! Top lists: of each day and figure the jobs with the largest and with the smallest values, kept in the transaction
//! that adds the jobs. They serve lists of jobs sorted by a figure as far as they reach, at any number of rows
//! ([`super::list`]). A list may still name a removed job: readers look for its row. Absent here: queries.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use super::columns::Column;
use super::days::DAY_US;
use super::db::{Connection, DbError, Row, Value, values};
use super::ingest;
use super::take::insert;

/// Jobs of a list: enough for 201 rows of every 200th job of a day of 100,000.
const KEPT: usize = 512;

/// A figure with lists.
struct Figure {
    column: &'static str,
    /// Most jobs have 0 or no value, and no value is negative. The list of the largest then has only values above 0, or
    /// each new job would rank first.
    often_zero: bool,
}

const fn figure(column: &'static str) -> Figure {
    Figure { column, often_zero: false }
}

const fn often_zero(column: &'static str) -> Figure {
    Figure { column, often_zero: true }
}

/// The database stores positions: append new figures.
const FIGURES: [Figure; 23] = [
    figure("job"),
    figure("priority"),
    figure("submitted_us"),
    figure("started_us"),
    figure("received_us"),
    figure("exit_code"),
    figure("signal"),
    often_zero("queued_s"),
    figure("wall_s"),
    often_zero("suspended_s"),
    often_zero("cpu_s"),
    figure("cores"),
    figure("cores_used"),
    often_zero("memory_peak_bytes"),
    often_zero("memory_mean_bytes"),
    figure("claim_bytes"),
    figure("limit_bytes"),
    often_zero("swap_peak_bytes"),
    often_zero("io_read_bytes"),
    often_zero("io_write_bytes"),
    often_zero("unused_gibh"),
    often_zero("idle_core_h"),
    often_zero("samples"),
];

/// An ascending and a descending list of each figure.
const LISTS: usize = FIGURES.len() * 2;

/// Bytes of a packed entry.
const PACKED: usize = 16;

/// Batch size of stored jobs while lists are made.
const READ_AT_ONCE: u32 = 50_000;

/// The figures of a job, in the order of the lists.
pub(super) type Figures = [Option<f64>; FIGURES.len()];

/// A list's figure and direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Which {
    figure: usize,
    ascending: bool,
}

impl Which {
    /// The list by this column; `None`: no list.
    pub(super) fn of(column: &Column, ascending: bool) -> Option<Self> {
        let name = column.sql().strip_prefix("jobs.")?;
        let figure = FIGURES.iter().position(|figure| figure.column == name)?;
        Some(Self { figure, ascending })
    }

    pub(super) const fn number(self) -> usize {
        self.figure * 2 + self.ascending as usize
    }

    /// Whether 0 is not in the list.
    fn without_zero(self) -> bool {
        !self.ascending && FIGURES[self.figure].often_zero
    }

    /// The list's key for this value; an absent value is the smallest.
    pub(super) fn listed(self, value: Option<f64>) -> Option<f64> {
        let value = value.filter(|value| !value.is_nan()).map(|value| value + 0.0);
        if self.ascending {
            return Some(value.unwrap_or(f64::NEG_INFINITY));
        }
        value.filter(|value| !self.without_zero() || *value > 0.0)
    }

    /// Condition on jobs that are never in the list of the largest; they rank last, in order of arrival.
    pub(super) fn unlisted(self) -> String {
        let column = self.column();
        if self.without_zero() { format!("jobs.{column} = 0") } else { format!("jobs.{column} IS NULL") }
    }

    pub(super) fn column(self) -> &'static str {
        FIGURES[self.figure].column
    }

    /// The rank order of two entries.
    pub(super) fn order(self, one: &Entry, other: &Entry) -> Ordering {
        let order = one.value.total_cmp(&other.value).then(one.job.cmp(&other.job));
        if self.ascending { order } else { order.reverse() }
    }

    fn all() -> impl Iterator<Item = Self> {
        (0..FIGURES.len()).flat_map(|figure| [false, true].map(|ascending| Self { figure, ascending }))
    }
}

/// A job in a list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Entry {
    pub(super) value: f64,
    pub(super) job: i64,
}

impl Entry {
    fn pack(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.value.to_le_bytes());
        out.extend_from_slice(&self.job.to_le_bytes());
    }

    fn read(from: &[u8; PACKED]) -> Self {
        let [mut value, mut job] = [[0; 8]; 2];
        value.copy_from_slice(&from[..8]);
        job.copy_from_slice(&from[8..]);
        Self { value: f64::from_le_bytes(value), job: i64::from_le_bytes(job) }
    }
}

fn packed(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * PACKED);
    entries.iter().for_each(|entry| entry.pack(&mut out));
    out
}

fn unpack(from: &[u8]) -> Result<Vec<Entry>, DbError> {
    let (entries, []) = from.as_chunks::<PACKED>() else {
        return Err(DbError::Unread("a list of jobs, in the table `tops`".into()));
    };
    Ok(entries.iter().map(Entry::read).collect())
}

/// Merged lists of some days.
#[derive(Debug)]
pub(super) struct Reached {
    /// Jobs in rank order.
    pub(super) entries: Vec<Entry>,
    /// No job is missing up to this entry; `None`: no job is missing at all.
    pub(super) reach: Option<Entry>,
}

/// A list of one day.
#[derive(Debug)]
pub(super) struct OfDay {
    pub(super) day: i64,
    pub(super) entries: Vec<Entry>,
}

impl OfDay {
    /// No job of the day is missing up to this entry: a full list may lack the job right behind its last. `None`: no
    /// job is missing at all.
    pub(super) fn reach(&self) -> Option<&Entry> {
        self.entries.last().filter(|_| self.entries.len() >= KEPT)
    }
}

/// Reads a list of these days, day by day, in no order.
pub(super) fn read_days(
    connection: &mut dyn Connection,
    which: Which,
    (first, last): (i64, i64),
) -> Result<Vec<OfDay>, DbError> {
    let find = "SELECT day, packed FROM tops WHERE list = ?1 AND day >= ?2 AND day <= ?3";
    connection.all(find, &values![which.number(), first, last], |row| {
        Ok(OfDay { day: row.get(0)?, entries: unpack(row.get(1)?)? })
    })
}

/// Reads a list over several days, merged.
pub(super) fn read(
    connection: &mut dyn Connection,
    which: Which,
    range: (i64, i64),
) -> Result<Reached, DbError> {
    let days = read_days(connection, which, range)?;
    let reach = days.iter().filter_map(OfDay::reach).min_by(|one, other| which.order(one, other)).copied();
    let mut entries: Vec<Entry> = days.into_iter().flat_map(|day| day.entries).collect();
    if let Some(reach) = reach {
        entries.retain(|entry| which.order(entry, &reach).is_le());
    }
    entries.sort_unstable_by(|one, other| which.order(one, other));
    // A job may have the number of a removed job that the list still names.
    entries.dedup();
    Ok(Reached { entries, reach })
}

/// Additions of new jobs to lists.
#[derive(Debug, Default)]
pub(super) struct Added(BTreeMap<i64, Vec<Vec<Entry>>>);

impl Added {
    pub(super) fn add(&mut self, job: i64, ended_us: u64, figures: &Figures) {
        let day = i64::try_from(ended_us / DAY_US).unwrap_or(i64::MAX);
        let lists = self.0.entry(day).or_insert_with(|| vec![Vec::new(); LISTS]);
        for which in Which::all() {
            let Some(value) = which.listed(figures[which.figure]) else { continue };
            let list = &mut lists[which.number()];
            list.push(Entry { value, job });
            if list.len() >= 4 * KEPT {
                cut(which, list);
            }
        }
    }

    /// Merges the additions into the stored lists.
    pub(super) fn write(self, connection: &mut dyn Connection) -> Result<(), DbError> {
        self.0.into_iter().try_for_each(|(day, lists)| write_day(connection, day, lists))
    }
}

/// Sorts a list and cuts it to its bound.
fn cut(which: Which, list: &mut Vec<Entry>) {
    list.sort_unstable_by(|one, other| which.order(one, other));
    list.dedup();
    list.truncate(KEPT);
}

fn write_day(connection: &mut dyn Connection, day: i64, mut lists: Vec<Vec<Entry>>) -> Result<(), DbError> {
    // This locks the day's row: two hubs write its lists in turn.
    let lock = "INSERT INTO top_days (day, lasts) VALUES (?1, ?2) ON CONFLICT (day) DO UPDATE SET lasts = top_days.lasts \
                RETURNING lasts";
    let lasts = connection.first(lock, &values![day, Vec::new()], |row| unpack(row.get(0)?))?;
    let mut lasts = lasts.unwrap_or_default();
    lasts.resize(LISTS, NO_LAST);
    // Late in a day few jobs rank among its first: most lists need not be read.
    for which in Which::all() {
        let last = &lasts[which.number()];
        if last.job != NO_LAST.job {
            lists[which.number()].retain(|entry| which.order(entry, last).is_lt());
        }
    }
    if lists.iter().all(Vec::is_empty) {
        return Ok(());
    }
    let find = "SELECT list, packed FROM tops WHERE day = ?1";
    connection.each(find, &values![day], &mut |row| {
        if let Some(list) = lists.get_mut(row.get::<u32>(0)? as usize).filter(|list| !list.is_empty()) {
            list.extend(unpack(row.get(1)?)?);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut rows: Vec<[Value; 3]> = Vec::new();
    for which in Which::all() {
        let list = &mut lists[which.number()];
        if list.is_empty() {
            continue;
        }
        cut(which, list);
        lasts[which.number()] = list.last().copied().filter(|_| list.len() >= KEPT).unwrap_or(NO_LAST);
        rows.push(values![day, which.number(), packed(list)]);
    }
    let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
    let end = "ON CONFLICT (list, day) DO UPDATE SET packed = excluded.packed";
    insert(connection, ("tops", "day, list, packed", end), &rows, |_| Ok(()))?;
    connection
        .execute("UPDATE top_days SET lasts = ?2 WHERE day = ?1", &values![day, packed(&lasts)])
        .map(drop)
}

/// The last entry of a list that is not full. No row has this number.
const NO_LAST: Entry = Entry { value: 0.0, job: 0 };

/// Positions of the figures in a written row.
static PLACES: LazyLock<Vec<Option<usize>>> = LazyLock::new(|| {
    let columns: Vec<&str> = ingest::COLUMNS.split(", ").collect();
    FIGURES.iter().map(|figure| columns.iter().position(|column| *column == figure.column)).collect()
});

/// The figures of a row of [`ingest::COLUMNS`].
pub(super) fn figures(row: &[Value]) -> Figures {
    let mut figures = [None; FIGURES.len()];
    for (figure, place) in figures.iter_mut().zip(PLACES.iter()) {
        *figure = place.and_then(|place| number(row.get(place)?));
    }
    figures
}

/// A value as lists store it.
#[expect(clippy::cast_precision_loss, reason = "figures are bounded where they come in")]
pub(super) const fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Whole(number) => Some(*number as f64),
        Value::Real(number) => Some(*number),
        Value::None | Value::Text(_) | Value::Blob(_) => None,
    }
}

/// Makes the lists of stored jobs.
pub(super) fn fill(connection: &mut dyn Connection) -> Result<(), DbError> {
    let text = format!(
        "SELECT id, ended_us, {} FROM jobs WHERE id > ?1 ORDER BY id LIMIT {READ_AT_ONCE}",
        FIGURES.map(|figure| figure.column).join(", ")
    );
    let mut last = i64::MIN;
    loop {
        let (mut added, before) = (Added::default(), last);
        connection.each(&text, &values![last], &mut |row| {
            last = row.get(0)?;
            added.add(last, row.get(1)?, &read_figures(row)?);
            Ok(ControlFlow::Continue(()))
        })?;
        if last == before {
            return Ok(());
        }
        added.write(connection)?;
    }
}

fn read_figures(row: &Row) -> Result<Figures, DbError> {
    let mut figures = [None; FIGURES.len()];
    for (at, figure) in figures.iter_mut().enumerate() {
        *figure = number(row.value(at + 2)?);
    }
    Ok(figures)
}

/// Removes lists without jobs: of days before `first`, and of days after `last`, which came from hosts with a wrong
/// clock.
pub(super) fn remove_outside(
    connection: &mut dyn Connection,
    (first, last): (u64, u64),
) -> Result<(), DbError> {
    // The lock comes first: the next query sees a job that arrives meanwhile, or the job waits.
    connection
        .execute("UPDATE top_days SET lasts = lasts WHERE day < ?1 OR day > ?2", &values![first, last])?;
    let remove = format!(
        "DELETE FROM top_days WHERE (day < ?1 OR day > ?2) AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.ended_us >= top_days.day * {DAY_US} \
         AND jobs.ended_us < (top_days.day + 1) * {DAY_US})"
    );
    connection.execute(&remove, &values![first, last]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::columns::{COLUMNS, Form, find};

    #[test]
    fn each_figure_but_the_end_has_its_lists() {
        for column in &COLUMNS {
            let has = column.form != Form::Text && column.key != "ended";
            assert_eq!(Which::of(column, true).is_some(), has, "{}", column.key);
        }
        assert!(PLACES.iter().all(Option::is_some), "each is a column of a row that is written");
        let numbers: Vec<usize> = Which::all().map(Which::number).collect();
        assert_eq!(numbers, (0..LISTS).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_usual_is_in_no_list_of_the_largest() {
        let list = |key: &str, ascending| Which::of(find(key).unwrap(), ascending).unwrap();
        let check = |key: &str, value, largest, smallest| {
            assert_eq!(
                (list(key, false).listed(value), list(key, true).listed(value)),
                (largest, Some(smallest))
            );
        };
        check("swap_peak_bytes", Some(0.0), None, 0.0);
        check("swap_peak_bytes", Some(5.0), Some(5.0), 5.0);
        check("claim_bytes", None, None, f64::NEG_INFINITY);
        check("exit_code", Some(0.0), Some(0.0), 0.0);
        check("priority", Some(-3.0), Some(-3.0), -3.0);
        assert_eq!(list("swap_peak_bytes", false).unlisted(), "jobs.swap_peak_bytes = 0");
        assert_eq!(list("claim_bytes", false).unlisted(), "jobs.claim_bytes IS NULL");
    }

    #[test]
    fn entries_are_read_as_they_were_packed() {
        let entries = [Entry { value: f64::NEG_INFINITY, job: i64::MAX }, Entry { value: 1.5, job: 1 }];
        let bytes = packed(&entries);
        assert_eq!(unpack(&bytes).unwrap(), entries);
        assert!(unpack(&bytes[1..]).is_err());
    }
}
