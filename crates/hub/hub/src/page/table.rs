//! Tables of the page as files: CSV for spreadsheets, Parquet for programs. A spreadsheet would run a word that begins
//! like a formula: CSV has an apostrophe before it. Parquet has the plain word, and times as Unix seconds.

use std::io::ErrorKind;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use pinfold_profile::csv;
use pinfold_profile::export::{self, Cells, Sheet};

use super::NoView;
use super::figures::moment;
use crate::server::answers::{ANSWER_MAX_BYTES, Bounded, too_long};
use crate::server::problem::Problem;

/// The form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Csv,
    Parquet,
}

impl<S: Sync> FromRequestParts<S> for Form {
    type Rejection = Problem;

    /// Reads the format from the end of the address.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(if parts.uri.path().ends_with(".parquet") { Self::Parquet } else { Self::Csv })
    }
}

enum Column {
    Whole(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
    /// In microseconds since the Unix epoch.
    Moment(Vec<Option<i64>>),
}

/// A table under construction, column by column.
pub(super) struct Table {
    rows: usize,
    columns: Vec<(&'static str, Column)>,
}

impl Table {
    /// A table with this number of rows.
    pub(super) fn new(rows: usize) -> Self {
        Self { rows, columns: Vec::new() }
    }

    fn add(&mut self, name: &'static str, column: Column) {
        self.columns.push((name, column));
    }

    pub(super) fn whole(&mut self, name: &'static str, cells: impl Iterator<Item = Option<i64>>) {
        self.add(name, Column::Whole(cells.collect()));
    }

    /// Adds a column of numbers that are never below 0.
    pub(super) fn count(&mut self, name: &'static str, cells: impl Iterator<Item = Option<u64>>) {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.add(name, Column::Whole(cells.map(|cell| cell.map(signed)).collect()));
    }

    pub(super) fn real(&mut self, name: &'static str, cells: impl Iterator<Item = Option<f64>>) {
        self.add(name, Column::Real(cells.collect()));
    }

    pub(super) fn text(&mut self, name: &'static str, cells: impl Iterator<Item = Option<String>>) {
        self.add(name, Column::Text(cells.collect()));
    }

    /// Moments, in microseconds since the Unix epoch.
    pub(super) fn moment(&mut self, name: &'static str, cells: impl Iterator<Item = Option<i64>>) {
        self.add(name, Column::Moment(cells.collect()));
    }

    /// A file of this name. A file beyond the bound is refused while it is made.
    pub(super) fn answer(self, name: &str, form: Form) -> Result<Response, NoView> {
        let (kind, ending, bytes) = match form {
            Form::Csv => ("text/csv; charset=utf-8", "csv", self.csv(ANSWER_MAX_BYTES)?),
            Form::Parquet => ("application/vnd.apache.parquet", "parquet", self.parquet(ANSWER_MAX_BYTES)?),
        };
        let headers = [
            (header::CONTENT_TYPE, kind.to_owned()),
            (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.{ending}\"")),
        ];
        Ok((headers, bytes).into_response())
    }

    fn csv(&self, max_bytes: usize) -> Result<Vec<u8>, Problem> {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let mut bounded = Bounded::new(max_bytes);
        let mut line = names.join(",") + "\r\n";
        bounded.add(line.as_bytes())?;
        for row in 0..self.rows {
            line.clear();
            for (at, (_, column)) in self.columns.iter().enumerate() {
                if at > 0 {
                    line.push(',');
                }
                column.write(row, &mut line);
            }
            line.push_str("\r\n");
            bounded.add(line.as_bytes())?;
        }
        Ok(bounded.bytes)
    }

    fn parquet(self, max_bytes: usize) -> Result<Vec<u8>, Problem> {
        let cells = |column| match column {
            Column::Whole(cells) => Cells::Whole(cells),
            Column::Real(cells) => Cells::Real(cells),
            Column::Text(cells) => Cells::Text(cells),
            Column::Moment(cells) => Cells::Real(cells.into_iter().map(|cell| cell.map(seconds)).collect()),
        };
        let columns = self.columns.into_iter().map(|(name, column)| (name, cells(column))).collect();
        let mut bounded = Bounded::new(max_bytes);
        match Sheet::of(self.rows, columns).write(export::Form::Parquet, &mut bounded) {
            Ok(()) => Ok(bounded.bytes),
            Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(too_long()),
            Err(error) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
        }
    }
}

impl Column {
    /// Writes a cell as a CSV field; an absent value is empty.
    fn write(&self, row: usize, text: &mut String) {
        let told = match self {
            Self::Whole(cells) => cells[row].map(|number| number.to_string()),
            Self::Real(cells) => cells[row].map(|number| number.to_string()),
            Self::Moment(cells) => cells[row].map(moment),
            Self::Text(cells) => cells[row].as_deref().map(|word| csv::cell(word).into_owned()),
        };
        text.push_str(told.as_deref().unwrap_or_default());
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of 285 years are exact")]
fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_formulas_defused_in_csv_alone() {
        let table = || {
            let mut table = Table::new(2);
            table.text("a", [Some("x,\"y\"".to_owned()), Some("=1+1".to_owned())].into_iter());
            table.whole("b", [Some(-1), None].into_iter());
            table.moment("c", [Some(0), None].into_iter());
            table
        };
        let want = "a,b,c\r\n\"x,\"\"y\"\"\",-1,1970-01-01 00:00:00\r\n'=1+1,,\r\n";
        assert_eq!(table().csv(want.len()), Ok(want.as_bytes().to_vec()));
        let bytes = table().parquet(ANSWER_MAX_BYTES).expect("it is written");
        // A limit that is a byte short refuses either.
        for refused in [table().csv(want.len() - 1), table().parquet(bytes.len() - 1)] {
            let problem = refused.expect_err("it is too long");
            assert!(problem.status == 400 && problem.words.contains("ask for less"), "{problem:?}");
        }
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
        let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        assert!(has(b"=1+1") && !has(b"'=1+1"));
    }
}
