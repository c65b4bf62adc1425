//! Parquet for plain tables: row groups, a page per column, plain encoding, no compression.
//!
//! Apache Parquet format, version 1; the footer is in Thrift's compact protocol. Written here in two hundred lines,
//! because a library would bring some forty crates. Absent here: reading, nesting, dictionaries, compression.

use std::io::{self, Write};

use super::{Cells, Sheet};

const MAGIC: &[u8] = b"PAR1";

/// The format's numbers of value types.
const INT64: i64 = 2;
const DOUBLE: i64 = 5;
const BYTE_ARRAY: i64 = 6;
/// `PLAIN` and `RLE`.
const PLAIN: i64 = 0;
const RLE: i64 = 3;

/// A file of which some groups of rows are written.
#[derive(Debug, Default)]
pub(super) struct File {
    groups: Vec<Group>,
    /// Bytes written so far.
    offset: usize,
}

/// A row group, with the place of each column.
#[derive(Debug)]
struct Group {
    rows: usize,
    chunks: Vec<Chunk>,
}

impl File {
    /// Whether no group is written yet.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Writes the next group.
    pub(super) fn add(&mut self, sheet: &Sheet, out: &mut dyn Write) -> io::Result<()> {
        if self.offset == 0 {
            out.write_all(MAGIC)?;
            self.offset = MAGIC.len();
        }
        let mut chunks = Vec::new();
        for (_, cells) in &sheet.columns {
            let page = page(cells, sheet.rows);
            out.write_all(&page)?;
            chunks.push(Chunk { offset: self.offset, bytes: page.len() });
            self.offset += page.len();
        }
        self.groups.push(Group { rows: sheet.rows, chunks });
        Ok(())
    }

    /// Writes the footer; the columns are those of `sheet`.
    pub(super) fn end(&self, sheet: &Sheet, out: &mut dyn Write) -> io::Result<()> {
        let columns: Vec<Column<'_>> =
            sheet.columns.iter().map(|(name, cells)| Column { name, kind: kind(cells) }).collect();
        let footer = footer(&columns, &self.groups);
        out.write_all(&footer)?;
        let length = u32::try_from(footer.len()).map_err(|_| io::Error::other("too many columns"))?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(MAGIC)
    }
}

struct Column<'a> {
    name: &'a str,
    kind: i64,
}

/// Where a column of a group is.
#[derive(Debug)]
struct Chunk {
    offset: usize,
    bytes: usize,
}

const fn kind(cells: &Cells) -> i64 {
    match cells {
        Cells::Whole(_) => INT64,
        Cells::Real(_) => DOUBLE,
        Cells::Text(_) => BYTE_ARRAY,
    }
}

/// A page: its head, the presence of each value, and the present values.
fn page(cells: &Cells, rows: usize) -> Vec<u8> {
    let mut values = Vec::new();
    let there: Vec<bool> = match cells {
        Cells::Whole(cells) => {
            cells.iter().flatten().for_each(|value| values.extend(value.to_le_bytes()));
            cells.iter().map(Option::is_some).collect()
        }
        Cells::Real(cells) => {
            cells.iter().flatten().for_each(|value| values.extend(value.to_le_bytes()));
            cells.iter().map(Option::is_some).collect()
        }
        Cells::Text(cells) => {
            for text in cells.iter().flatten() {
                values.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
                values.extend(text.as_bytes());
            }
            cells.iter().map(Option::is_some).collect()
        }
    };
    let levels = levels(&there);
    let mut body = u32::try_from(levels.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    body.extend(levels);
    body.extend(values);
    let mut head = Thrift::default();
    head.whole(1, 0);
    head.whole(2, long(body.len()));
    head.whole(3, long(body.len()));
    head.inner(5, |data| {
        data.whole(1, long(rows));
        data.whole(2, PLAIN);
        data.whole(3, RLE);
        data.whole(4, RLE);
    });
    let mut page = head.end();
    page.extend(body);
    page
}

/// Run lengths of present and absent values.
fn levels(there: &[bool]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for run in there.chunk_by(|one, next| one == next) {
        varint(&mut bytes, long(run.len()).unsigned_abs() << 1);
        bytes.push(u8::from(run[0]));
    }
    bytes
}

fn footer(columns: &[Column<'_>], groups: &[Group]) -> Vec<u8> {
    let rows = groups.iter().map(|group| group.rows).sum();
    let mut file = Thrift::default();
    file.whole(1, 1);
    file.list(2, columns.len() + 1, |at, element| match at.checked_sub(1).map(|at| &columns[at]) {
        None => {
            element.text(4, "pinfold");
            element.whole(5, long(columns.len()));
        }
        Some(column) => {
            element.whole(1, column.kind);
            // Optional.
            element.whole(3, 1);
            element.text(4, column.name);
            if column.kind == BYTE_ARRAY {
                // Text in UTF-8.
                element.whole(6, 0);
            }
        }
    });
    file.long(3, long(rows));
    file.list(4, groups.len(), |at, to| describe(&groups[at], columns, to));
    file.text(6, concat!("pinfold version ", env!("CARGO_PKG_VERSION")));
    file.end()
}

fn describe(group: &Group, columns: &[Column<'_>], to: &mut Thrift) {
    to.list(1, columns.len(), |at, chunk| {
        let (column, at) = (&columns[at], &group.chunks[at]);
        chunk.long(2, long(at.offset));
        chunk.inner(3, |data| {
            data.whole(1, column.kind);
            data.wholes(2, &[PLAIN, RLE]);
            data.texts(3, &[column.name]);
            data.whole(4, 0);
            data.long(5, long(group.rows));
            data.long(6, long(at.bytes));
            data.long(7, long(at.bytes));
            data.long(9, long(at.offset));
        });
    });
    to.long(2, group.chunks.iter().map(|chunk| long(chunk.bytes)).sum());
    to.long(3, long(group.rows));
}

fn long(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A structure in Thrift's compact protocol; fields in ascending order.
#[derive(Debug, Default)]
struct Thrift {
    bytes: Vec<u8>,
    last: u8,
}

impl Thrift {
    const I32: u8 = 5;
    const I64: u8 = 6;
    const TEXT: u8 = 8;
    const LIST: u8 = 9;
    const STRUCT: u8 = 12;

    fn field(&mut self, number: u8, kind: u8) {
        // Numbers are never more than 15 apart here.
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    fn whole(&mut self, number: u8, value: i64) {
        self.field(number, Self::I32);
        zigzag(&mut self.bytes, value);
    }

    fn long(&mut self, number: u8, value: i64) {
        self.field(number, Self::I64);
        zigzag(&mut self.bytes, value);
    }

    fn text(&mut self, number: u8, text: &str) {
        self.field(number, Self::TEXT);
        put_text(&mut self.bytes, text);
    }

    fn inner(&mut self, number: u8, fill: impl FnOnce(&mut Self)) {
        self.field(number, Self::STRUCT);
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes.extend(inner.end());
    }

    fn list(&mut self, number: u8, count: usize, fill: impl Fn(usize, &mut Self)) {
        self.field(number, Self::LIST);
        self.list_head(count, Self::STRUCT);
        for at in 0..count {
            let mut inner = Self::default();
            fill(at, &mut inner);
            self.bytes.extend(inner.end());
        }
    }

    fn wholes(&mut self, number: u8, values: &[i64]) {
        self.field(number, Self::LIST);
        self.list_head(values.len(), Self::I32);
        values.iter().for_each(|value| zigzag(&mut self.bytes, *value));
    }

    fn texts(&mut self, number: u8, values: &[&str]) {
        self.field(number, Self::LIST);
        self.list_head(values.len(), Self::TEXT);
        values.iter().for_each(|value| put_text(&mut self.bytes, value));
    }

    fn list_head(&mut self, count: usize, kind: u8) {
        match u8::try_from(count) {
            Ok(few) if few < 15 => self.bytes.push(few << 4 | kind),
            _ => {
                self.bytes.push(0xF0 | kind);
                varint(&mut self.bytes, long(count).unsigned_abs());
            }
        }
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    varint(bytes, long(text.len()).unsigned_abs());
    bytes.extend(text.as_bytes());
}

fn zigzag(bytes: &mut Vec<u8>, value: i64) {
    varint(bytes, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = (value & 0x7F).to_le_bytes();
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}
