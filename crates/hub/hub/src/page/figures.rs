//! Figures as text for people.

use maud::{Markup, html};
use pinfold_profile::report::{date_utc, duration, plain, size};
use pinfold_proto::view::seconds;

use crate::store::columns::{COLUMNS, Column, Form};
use crate::store::{Cell, JobRow};

/// A cell of a table as text.
pub(super) fn text(column: &Column, cell: &Cell) -> String {
    match (column.form, cell) {
        (_, Cell::None) => String::new(),
        (_, Cell::Text(text)) => plain(text),
        (Form::Moment, Cell::Whole(us)) => moment(*us),
        (Form::Bytes, Cell::Whole(bytes)) => size(u64::try_from(*bytes).unwrap_or(0)),
        (Form::Seconds, Cell::Real(length)) => duration(*length),
        (_, Cell::Whole(number)) => number.to_string(),
        (_, Cell::Real(number)) => real(*number),
    }
}

/// The value of a job's column as text.
pub(super) fn word(job: &JobRow, key: &str) -> String {
    let at = COLUMNS.iter().position(|column| column.key == key);
    at.map(|at| text(&COLUMNS[at], &job.cells[at])).unwrap_or_default()
}

/// The value of a job's column of whole numbers.
pub(super) fn whole(job: &JobRow, key: &str) -> Option<i64> {
    let at = COLUMNS.iter().position(|column| column.key == key)?;
    if let Cell::Whole(number) = job.cells[at] { Some(number) } else { None }
}

/// A moment, in microseconds since the Unix epoch.
pub(super) fn moment(us: i64) -> String {
    let text = date_utc(seconds(u64::try_from(us).unwrap_or(0)));
    text.trim_end_matches(" UTC").to_owned()
}

/// A number with its significant digits.
pub(super) fn real(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        below if below < 0.01 => "<0.01".to_owned(),
        below if below < 10.0 => format!("{number:.2}"),
        below if below < 100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

pub(super) fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// A mean or a quantile as a size.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and sizes are not below 0"
)]
pub(super) fn real_size(bytes: f64) -> String {
    size(bytes as u64)
}

/// A size for a calculation.
#[expect(clippy::cast_precision_loss, reason = "15 digits of a size are enough for a bar")]
pub(super) fn precise(bytes: u64) -> f64 {
    bytes as f64
}

/// A bar for a part of a whole, 0 to 1, with words for screen readers.
pub(super) fn bar(part: f64, words: &str) -> Markup {
    let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
    html! {
        svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=(words) {
            rect.bar-all width="100" height="8" {}
            rect.bar-part width=(format!("{:.1}", part * 100.0)) height="8" {}
        }
    }
}
