//! Tables that fit: columns as wide as needed; on short lines the less important columns are left out, and the last
//! column is cut.

use std::io::{self, Write};

pub use pinfold_proto::text::plain;
use unicode_width::UnicodeWidthChar as _;

/// Blanks between columns.
const GAP: usize = 2;

/// The least width of the last column before other columns are left out.
const LAST_MIN: usize = 12;

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// From the left.
    Left,
    /// To the right, as numbers.
    Right,
}

/// A column: its head, and how early it is left out; 0: never.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// The heading.
    pub head: &'static str,
    /// The alignment of its cells.
    pub align: Align,
    /// How early it is left out of short lines: larger is earlier; 0: never.
    pub leave_out: u8,
}

/// A cell: its text, and its colour code.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    colour: Option<&'static str>,
    /// Cut at the beginning, because the end of a path is more informative.
    keeps_end: bool,
}

impl Cell {
    /// A text, made harmless for terminals.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: plain(text), colour: None, keeps_end: false }
    }

    pub(super) fn coloured(text: &str, colour: &'static str) -> Self {
        Self { text: plain(text), colour: Some(colour), keeps_end: false }
    }

    pub(super) fn path(text: &str) -> Self {
        Self { keeps_end: true, ..Self::new(text) }
    }
}

/// Terminal columns of a text: two for each East Asian character and most pictographs, none for combining accents.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn columns_of(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// The text cut to `width` columns, with a mark for the missing part.
pub(super) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += columns_of(*c);
        used <= width
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// As [`cut`], from the beginning.
fn cut_before(text: &str, width: usize) -> String {
    let backwards: String = text.chars().rev().collect();
    cut(&backwards, width).chars().rev().collect()
}

/// Rows under columns.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, with a cell per column.
    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row);
    }

    /// How many rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The heads of non-empty columns that do not fit into lines of `width`.
    pub(super) fn left_out(&self, width: usize) -> Vec<&'static str> {
        let shown = self.shown(width);
        let out = (0..self.columns.len()).filter(|&at| !self.is_empty(at) && !shown.contains(&at));
        out.map(|at| self.columns[at].head).collect()
    }

    /// Writes the table in lines of up to `width`.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write(&self, width: usize, colour: bool, out: &mut dyn Write) -> io::Result<()> {
        let shown = self.shown(width);
        let widths: Vec<usize> = shown.iter().map(|&at| self.width(at)).collect();
        let head: Vec<Cell> = self.columns.iter().map(|column| Cell::coloured(column.head, "1")).collect();
        for row in std::iter::once(&head).chain(&self.rows) {
            let (mut used, mut line) = (0, String::new());
            for (place, (&at, &wide)) in shown.iter().zip(&widths).enumerate() {
                if used >= width {
                    break;
                }
                let last = place + 1 == shown.len();
                // Columns that cannot be left out are cut at the line's end.
                let room = wide.min(width.saturating_sub(used));
                let cell = &row[at];
                let text = if cell.keeps_end { cut_before(&cell.text, room) } else { cut(&cell.text, room) };
                let blanks = room.saturating_sub(columns(&text));
                let (before, after) = match self.columns[at].align {
                    Align::Right => (blanks, 0),
                    Align::Left => (0, if last { 0 } else { blanks }),
                };
                line.push_str(&" ".repeat(before));
                match row[at].colour.filter(|_| colour) {
                    Some(code) => line.push_str(&format!("\x1b[{code}m{text}\x1b[0m")),
                    None => line.push_str(&text),
                }
                line.push_str(&" ".repeat(after + if last { 0 } else { GAP }));
                used += room + GAP;
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn width(&self, at: usize) -> usize {
        let cells = self.rows.iter().map(|row| columns(&row[at].text));
        cells.chain([self.columns[at].head.len()]).max().unwrap_or(0)
    }

    /// Whether an optional column is empty.
    fn is_empty(&self, at: usize) -> bool {
        self.columns[at].leave_out > 0 && self.rows.iter().all(|row| row[at].text.is_empty())
    }

    /// The columns that fit, in order: empty columns never do, and the least important go first.
    fn shown(&self, width: usize) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).filter(|&at| !self.is_empty(at)).collect();
        loop {
            let needed: usize = shown
                .iter()
                .enumerate()
                .map(|(place, &at)| {
                    let wide = self.width(at);
                    if place + 1 == shown.len() { wide.min(LAST_MIN) } else { wide + GAP }
                })
                .sum();
            let next = shown.iter().copied().max_by_key(|&at| (self.columns[at].leave_out, at));
            match next.filter(|&at| needed > width && self.columns[at].leave_out > 0) {
                Some(out) => shown.retain(|&at| at != out),
                None => return shown,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_the_columns_that_they_take() {
        assert_eq!((columns("abc"), columns("計算"), columns("e\u{301}"), columns("")), (3, 4, 1, 0));
        assert_eq!(
            (cut("計算機", 6), cut("計算機", 5), cut("計算機", 4)),
            ("計算機".into(), "計算…".into(), "計…".into())
        );
        assert_eq!((cut("abc", 2), cut("abc", 1), cut("abc", 0)), ("a…".into(), "…".into(), String::new()));
        assert_eq!(cut_before("/long/path", 5), "…path");
    }

    #[test]
    fn omitted_columns_are_named_unless_empty() {
        let column = |head, leave_out| Column { head, align: Align::Left, leave_out };
        let mut table =
            Table::new(&[column("ONE", 0), column("TWO", 2), column("THREE", 1), column("FOUR", 0)]);
        table.push(["1", "22", "", "4"].map(Cell::new).into());
        assert!(table.left_out(14).is_empty(), "THREE is empty");
        assert_eq!((table.left_out(8), table.len()), (vec!["TWO"], 1));
    }
}
