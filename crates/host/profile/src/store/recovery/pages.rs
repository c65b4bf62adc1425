//! Reads rows of `jobs` directly from a file's pages, for rows that SQLite does not find: when the table's first page
//! or an interior page is damaged, the pages with rows still exist.
//!
//! Follows SQLite's "Database File Format" (sqlite.org/fileformat2.html): leaf pages of tables, their cells, overflow
//! pages, and the frames of the log. A row belongs to `jobs` by its number of columns, which no other table has, and
//! by the fresh table's types and CHECKs. The file is untrusted: lengths and page numbers are bounded by the file,
//! and chains by their length. Absent: tables without row numbers, whose rows lie in another kind of page.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rusqlite::types::Value;

use crate::store::open;

/// The page size if no header gives it: SQLite's default, which pinfold keeps.
const USUAL_SIZE: usize = 4096;
/// No row is larger: a job's command, layout and the like are bounded far below.
const ROW_MAX_BYTES: usize = 1 << 20;
/// The type of a leaf page of a table.
const LEAF: u8 = 13;
const LOG_HEADER: u64 = 32;
/// Only the page number and the salt are read.
const FRAME_HEADER: u64 = 24;

/// A row: its number, and its columns in the order of the table; the key column is NULL.
pub(super) struct Record {
    pub(super) number: i64,
    pub(super) columns: Vec<Value>,
}

/// The pages of a file and its log.
pub(super) struct Pages {
    file: File,
    log: Option<File>,
    /// Where in the log the last version of a page begins.
    in_log: BTreeMap<u32, u64>,
    size: usize,
    count: u32,
}

impl Pages {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let log = File::open(open::beside(path, "-wal")).ok();
        let size = size_in(&file, 16, 2, b"SQLite format 3\0")
            .or_else(|| log.as_ref().and_then(|log| size_in(log, 8, 4, &[0x37, 0x7f, 0x06])))
            .unwrap_or(USUAL_SIZE);
        let in_log = log.as_ref().map(|log| frames(log, size)).unwrap_or_default();
        let of_file = file.metadata()?.len() / size as u64;
        let last = in_log.keys().next_back().copied().unwrap_or(0);
        let count = u32::try_from(of_file).unwrap_or(u32::MAX).max(last);
        Ok(Self { file, log, in_log, size, count })
    }

    /// Passes every row with as many columns to `found`.
    pub(super) fn records(&self, wide: std::ops::RangeInclusive<usize>, mut found: impl FnMut(Record)) {
        let mut page = vec![0; self.size];
        for number in 2..=self.count {
            if self.read(number, &mut page).is_none() || page[0] != LEAF {
                continue;
            }
            let cells = usize::from(u16::from_be_bytes([page[3], page[4]])).min(self.size / 4);
            for cell in 0..cells {
                let at = 8 + 2 * cell;
                let Some(&[high, low]) = page.get(at..at + 2) else { break };
                let record = self.record(&page, usize::from(u16::from_be_bytes([high, low])));
                record.filter(|record| wide.contains(&record.columns.len())).map(&mut found);
            }
        }
    }

    fn read(&self, number: u32, page: &mut [u8]) -> Option<()> {
        match (self.in_log.get(&number), &self.log) {
            (Some(&at), Some(log)) => log.read_exact_at(page, at).ok(),
            _ => self.file.read_exact_at(page, u64::from(number.checked_sub(1)?) * self.size as u64).ok(),
        }
    }

    fn record(&self, page: &[u8], at: usize) -> Option<Record> {
        let mut rest = page.get(at..)?;
        let length = usize::try_from(varint(&mut rest)?).ok().filter(|&length| length <= ROW_MAX_BYTES)?;
        let number = varint(&mut rest)?;
        // The part of a row within its page: "Cell Payload Overflow Pages".
        let (most, least) = (self.size - 35, (self.size - 12) * 32 / 255 - 23);
        let wished = least + length.saturating_sub(least) % (self.size - 4);
        let local = match length {
            _ if length <= most => length,
            _ if wished <= most => wished,
            _ => least,
        };
        let mut payload = rest.get(..local)?.to_vec();
        if local < length {
            let next = u32::from_be_bytes(rest.get(local..local + 4)?.try_into().ok()?);
            self.overflow(next, length, &mut payload)?;
        }
        Some(Record { number, columns: columns(&payload)? })
    }

    fn overflow(&self, mut next: u32, length: usize, payload: &mut Vec<u8>) -> Option<()> {
        let mut page = vec![0; self.size];
        while payload.len() < length {
            self.read(next, &mut page)?;
            let take = (length - payload.len()).min(self.size - 4);
            payload.extend_from_slice(&page[4..4 + take]);
            next = u32::from_be_bytes(page[..4].try_into().ok()?);
        }
        Some(())
    }
}

/// The page size in a header, at `at` in `bytes` bytes; `None`: no valid header.
fn size_in(file: &File, at: u64, bytes: usize, begins: &[u8]) -> Option<usize> {
    let (mut header, mut size) = (vec![0; begins.len()], [0; 4]);
    file.read_exact_at(&mut header, 0).ok().filter(|()| header == begins)?;
    file.read_exact_at(&mut size[4 - bytes..], at).ok()?;
    let size = u32::from_be_bytes(size);
    // In two bytes 1 stands for 65,536.
    let size = if size == 1 { 65_536 } else { size };
    usize::try_from(size).ok().filter(|size| size.is_power_of_two() && (512..=65_536).contains(size))
}

/// The offset in the log of the last version of each page; frames of an earlier use of the log have another salt and
/// do not count.
fn frames(log: &File, size: usize) -> BTreeMap<u32, u64> {
    let (mut found, mut at, mut salt) = (BTreeMap::new(), LOG_HEADER, [0; 8]);
    if log.read_exact_at(&mut salt, 16).is_err() {
        return found;
    }
    let mut header = [0; 24];
    while log.read_exact_at(&mut header, at).is_ok() {
        if header[8..16] != salt {
            break;
        }
        let number = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        found.insert(number, at + FRAME_HEADER);
        at += FRAME_HEADER + size as u64;
    }
    found
}

/// A number of one to nine bytes with seven bits each, the ninth with eight.
fn varint(rest: &mut &[u8]) -> Option<i64> {
    let mut value: u64 = 0;
    for at in 0..9 {
        let byte = *rest.first()?;
        *rest = &rest[1..];
        if at == 8 {
            return Some((value << 8 | u64::from(byte)).cast_signed());
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(value.cast_signed());
        }
    }
    None
}

/// The values of a record: a header of kinds, and then the values.
fn columns(payload: &[u8]) -> Option<Vec<Value>> {
    let mut rest = payload;
    let header = usize::try_from(varint(&mut rest)?).ok()?;
    let mut values = payload.get(header..)?;
    let mut kinds = payload.get(payload.len() - rest.len()..header)?;
    let mut columns = Vec::new();
    while !kinds.is_empty() {
        let kind = varint(&mut kinds)?;
        columns.push(value(kind, &mut values)?);
    }
    Some(columns)
}

fn value(kind: i64, values: &mut &[u8]) -> Option<Value> {
    let mut take = |length: usize| {
        let (taken, rest) = values.split_at_checked(length)?;
        *values = rest;
        Some(taken)
    };
    Some(match kind {
        0 => Value::Null,
        1..=6 => {
            let length = [0, 1, 2, 3, 4, 6, 8][usize::try_from(kind).ok()?];
            let bytes = take(length)?;
            let sign = if bytes.first()? & 0x80 == 0 { 0 } else { -1 };
            Value::Integer(bytes.iter().fold(sign, |value, &byte| value << 8 | i64::from(byte)))
        }
        7 => Value::Real(f64::from_be_bytes(take(8)?.try_into().ok()?)),
        8 => Value::Integer(0),
        9 => Value::Integer(1),
        12.. => {
            let bytes = take(usize::try_from((kind - 12) / 2).ok()?)?;
            match kind % 2 {
                0 => Value::Blob(bytes.to_vec()),
                _ => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the bytes are, nothing is read beyond them.
    #[test]
    fn noise_is_no_record() {
        let mut state = 1u64;
        for length in 0..2_000 {
            let noise: Vec<u8> = (0..length % 64)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    state.to_be_bytes()[0]
                })
                .collect();
            let _ = columns(&noise);
        }
        assert!(columns(&[]).is_none());
    }

    #[test]
    fn values_are_those_that_sqlite_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        let long = "x".repeat(20_000);
        connection
            .execute_batch(&format!(
                "CREATE TABLE t (n INTEGER PRIMARY KEY, a, b, c, d, e); \
                 INSERT INTO t VALUES (7, -2, 1, 1.5, '{long}', NULL), \
                 (-5, 70000, -9000000000000, 0, 'y', x'0102'), (8, 127, -128, 8388607, '', -140737488355328)"
            ))
            .unwrap();
        drop(connection);
        let (mut all, integer) = (Vec::new(), Value::Integer);
        Pages::open(&path).unwrap().records(6..=6, |record| all.push((record.number, record.columns)));
        let text = |text: &str| Value::Text(text.to_owned());
        let null = Value::Null;
        let want = [
            (
                -5,
                vec![
                    null.clone(),
                    integer(70_000),
                    integer(-9_000_000_000_000),
                    integer(0),
                    text("y"),
                    Value::Blob(vec![1, 2]),
                ],
            ),
            (7, vec![null.clone(), integer(-2), integer(1), Value::Real(1.5), text(&long), null.clone()]),
            (8, vec![null, integer(127), integer(-128), integer(8_388_607), text(""), integer(-(1 << 47))]),
        ];
        assert_eq!(all, want);
    }
}
