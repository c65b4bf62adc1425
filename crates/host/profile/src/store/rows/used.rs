//! Jobs' files and NUMA nodes as columns.

use pinfold_proto::row::{FileRow, NodeRow};
use rusqlite::Row;

use super::super::fields::{Binder, Fields};

/// The columns of `files`.
pub(crate) const FILE: [&str; 11] = [
    "job",
    "path",
    "read",
    "written",
    "opened",
    "read_bytes",
    "write_bytes",
    "either_bytes",
    "size_bytes",
    "first_us",
    "last_us",
];

/// A file into a statement over [`FILE`].
pub(crate) fn bind_file(row: &FileRow, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
    to.number(row.job)?.put(&row.path)?.put(row.read)?.put(row.written)?.number(row.opened)?;
    to.number(row.read_bytes)?.number(row.write_bytes)?.number(row.either_bytes)?;
    to.number(row.size_bytes)?.number(row.first_us)?.number(row.last_us)?;
    Ok(())
}

/// A file out of a row over [`FILE`].
pub(crate) fn read_file(row: &Row<'_>) -> rusqlite::Result<FileRow> {
    let number = |at| row.get::<_, i64>(at).map(|value| u64::try_from(value).unwrap_or(0));
    Ok(FileRow {
        job: number(0)?,
        path: row.get(1)?,
        read: row.get(2)?,
        written: row.get(3)?,
        opened: number(4)?,
        read_bytes: number(5)?,
        write_bytes: number(6)?,
        either_bytes: number(7)?,
        size_bytes: number(8)?,
        first_us: number(9)?,
        last_us: number(10)?,
    })
}

/// The columns of `nodes`.
pub(crate) const NODE: [&str; 5] = ["job", "node", "memory_bytes", "memory_mean_bytes", "memory_peak_bytes"];

/// A node into a statement over [`NODE`].
pub(crate) fn bind_node(row: &NodeRow, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
    to.number(row.job)?.put(row.node)?.number(row.memory_bytes)?;
    to.number(row.memory_mean_bytes)?.number(row.memory_peak_bytes)?;
    Ok(())
}

/// A node out of a row over [`NODE`].
pub(crate) fn read_node(row: &Row<'_>) -> rusqlite::Result<NodeRow> {
    let from = &mut Fields::new(row);
    Ok(NodeRow {
        job: from.number()?,
        node: from.small()?,
        memory_bytes: from.number()?,
        memory_mean_bytes: from.number()?,
        memory_peak_bytes: from.number()?,
    })
}
