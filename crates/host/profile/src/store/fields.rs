//! Binds values to statements and reads values of rows in order, so that writing and reading a row type are two lists
//! in the same order.
//!
//! SQLite has no whole numbers from 2^63 on; larger values are cut, which no time, size or count of a real host
//! reaches. Files are checked when opened, so reading substitutes the nearest plausible value instead of failing:
//! bytes that are not UTF-8 are replaced.

use rusqlite::types::{ToSql, ValueRef};
use rusqlite::{Row, Statement};

/// Binds values to a statement, in order.
pub(super) struct Binder<'a, 'b> {
    statement: &'a mut Statement<'b>,
    index: usize,
}

impl<'a, 'b> Binder<'a, 'b> {
    pub(super) const fn new(statement: &'a mut Statement<'b>) -> Self {
        Self { statement, index: 0 }
    }

    pub(super) fn put(&mut self, value: impl ToSql) -> rusqlite::Result<&mut Self> {
        self.index += 1;
        self.statement.raw_bind_parameter(self.index, value)?;
        Ok(self)
    }

    pub(super) fn number(&mut self, value: u64) -> rusqlite::Result<&mut Self> {
        self.put(whole(value))
    }

    pub(super) fn maybe(&mut self, value: Option<u64>) -> rusqlite::Result<&mut Self> {
        self.put(value.map(whole))
    }
}

/// A number in SQLite's range.
pub(super) fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Reads the values of a row, in order.
pub(super) struct Fields<'a, 'b> {
    row: &'a Row<'b>,
    index: usize,
}

impl<'a, 'b> Fields<'a, 'b> {
    pub(super) const fn new(row: &'a Row<'b>) -> Self {
        Self { row, index: 0 }
    }

    fn next(&mut self) -> rusqlite::Result<ValueRef<'a>> {
        let value = self.row.get_ref(self.index)?;
        self.index += 1;
        Ok(value)
    }

    pub(super) fn signed(&mut self) -> rusqlite::Result<Option<i64>> {
        Ok(match self.next()? {
            ValueRef::Integer(number) => Some(number),
            ValueRef::Null | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => None,
        })
    }

    pub(super) fn maybe(&mut self) -> rusqlite::Result<Option<u64>> {
        Ok(self.signed()?.map(|number| u64::try_from(number).unwrap_or(0)))
    }

    pub(super) fn number(&mut self) -> rusqlite::Result<u64> {
        Ok(self.maybe()?.unwrap_or(0))
    }

    pub(super) fn small(&mut self) -> rusqlite::Result<u32> {
        Ok(u32::try_from(self.number()?).unwrap_or(u32::MAX))
    }

    pub(super) fn maybe_small(&mut self) -> rusqlite::Result<Option<i32>> {
        Ok(self.signed()?.map(|number| i32::try_from(number).unwrap_or(i32::MAX)))
    }

    pub(super) fn maybe_byte(&mut self) -> rusqlite::Result<Option<u8>> {
        Ok(self.maybe()?.map(|number| u8::try_from(number).unwrap_or(u8::MAX)))
    }

    pub(super) fn yes(&mut self) -> rusqlite::Result<bool> {
        Ok(self.number()? != 0)
    }

    pub(super) fn maybe_text(&mut self) -> rusqlite::Result<Option<String>> {
        Ok(match self.next()? {
            ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => None,
        })
    }

    pub(super) fn text(&mut self) -> rusqlite::Result<String> {
        Ok(self.maybe_text()?.unwrap_or_default())
    }
}
