//! Rows found by number, many at a time. Absent here: the choice of numbers.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::super::columns::{COLUMNS, Column};
use super::super::db::{Connection, DbError, Row, Value};
use super::super::query::{Cell, JobRow};

/// Batch sizes; few sizes make few statements to prepare.
pub(super) const LOOKED_FOR: [usize; 2] = [256, 1_024];

/// Makes the SQL from the placeholders of the numbers.
type Text<'a> = &'a dyn Fn(&str) -> String;

/// Reads the rows of these numbers. `text` makes the SQL for a batch from its placeholders, which follow the places of
/// `values`.
pub(in super::super) fn each_of(
    connection: &mut dyn Connection,
    numbers: &[i64],
    (text, values): (Text<'_>, &[Value]),
    of: &mut dyn FnMut(&Row) -> Result<(), DbError>,
) -> Result<(), DbError> {
    let size = if numbers.len() <= LOOKED_FOR[0] { LOOKED_FOR[0] } else { LOOKED_FOR[1] };
    let places: Vec<String> =
        (values.len() + 1..=values.len() + size).map(|place| format!("?{place}")).collect();
    let text = text(&places.join(", "));
    for some in numbers.chunks(size) {
        let mut values = values.to_vec();
        values.extend(some.iter().map(|number| Value::Whole(*number)));
        // The filler 0 matches no row.
        values.resize(values.len() + size - some.len(), Value::Whole(0));
        connection.each(&text, &values, &mut |row| {
            of(row)?;
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(())
}

/// Numbers as SQL text.
pub(super) fn words_of(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

/// The listed columns of these jobs, in this order.
pub(super) fn rows(connection: &mut dyn Connection, ids: &[i64]) -> Result<Vec<JobRow>, DbError> {
    let names: Vec<&str> = COLUMNS.iter().map(Column::sql).collect();
    let names = names.join(", ");
    let text = |places: &str| {
        format!(
            "SELECT jobs.id, {names} FROM jobs JOIN hosts ON hosts.id = jobs.host WHERE jobs.id IN ({places})"
        )
    };
    let mut found: HashMap<i64, JobRow> = HashMap::new();
    each_of(connection, ids, (&text, &[]), &mut |row| {
        let row = job_row(row)?;
        found.insert(row.id, row);
        Ok(())
    })?;
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}

fn job_row(row: &Row) -> Result<JobRow, DbError> {
    let cell = |at: usize| {
        Ok(match row.value(at + 1)? {
            Value::None | Value::Blob(_) => Cell::None,
            Value::Whole(number) => Cell::Whole(*number),
            Value::Real(number) => Cell::Real(*number),
            Value::Text(text) => Cell::Text(text.clone()),
        })
    };
    Ok(JobRow { id: row.get(0)?, cells: (0..COLUMNS.len()).map(cell).collect::<Result<_, DbError>>()? })
}
