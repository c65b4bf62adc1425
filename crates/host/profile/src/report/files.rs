//! The files of a job: as views, and as a table people read.

use std::io::{self, Write};

use pinfold_proto::row::FileRow;
use pinfold_proto::view::{FileView, ReportView, seconds};

use super::table::{Align, Cell, Column, Table};
use super::units::{duration, size};

/// So many files are shown as text.
const SHOWN_MAX: usize = 40;

/// A file for `report --files`.
#[must_use]
pub fn file_view(row: &FileRow) -> FileView {
    FileView {
        path: row.path.clone(),
        read: row.read,
        written: row.written,
        opened: row.opened,
        read_bytes: row.read_bytes,
        write_bytes: row.write_bytes,
        either_bytes: row.either_bytes,
        size_bytes: row.size_bytes,
        first_s: seconds(row.first_us),
        last_s: seconds(row.last_us),
    }
}

const fn column(head: &'static str, align: Align, leave_out: u8) -> Column {
    Column { head, align, leave_out }
}

const FILES: [Column; 8] = [
    column("READ", Align::Right, 0),
    column("WRITTEN", Align::Right, 0),
    column("EITHER", Align::Right, 4),
    column("SIZE", Align::Right, 1),
    column("OPENED", Align::Right, 5),
    column("SEEN AFTER", Align::Right, 3),
    column("UNTIL", Align::Right, 2),
    column("FILE", Align::Left, 0),
];

/// `report --files` as text: files with the most transferred bytes first.
///
/// # Errors
/// When `out` fails.
pub fn write_files(view: &ReportView, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let Some(files) = view.files.as_deref() else { return Ok(()) };
    if view.files_from.is_none() && files.is_empty() {
        return writeln!(out, "  files        not recorded; `profile.files=on` does for jobs that run then");
    }
    writeln!(
        out,
        "  files        from: samples of what was open, by how far positions moved, in all no more than was read and \
         written: what was open between two samples only is missing"
    )?;
    if files.is_empty() {
        return writeln!(out, "  none was seen open");
    }
    let mut sorted: Vec<&FileView> = files.iter().collect();
    let bytes = |file: &FileView| file.read_bytes + file.write_bytes + file.either_bytes;
    sorted.sort_by(|one, other| bytes(other).cmp(&bytes(one)).then(one.path.cmp(&other.path)));
    let start_s = view.started_s.unwrap_or(view.submitted_s);
    let some = |bytes: u64, applies: bool| if applies { size(bytes) } else { String::new() };
    let mut table = Table::new(&FILES);
    for file in sorted.iter().take(SHOWN_MAX) {
        table.push(
            [
                some(file.read_bytes, file.read && (file.read_bytes > 0 || file.either_bytes == 0)),
                some(file.write_bytes, file.written && (file.write_bytes > 0 || file.either_bytes == 0)),
                some(file.either_bytes, file.either_bytes > 0),
                size(file.size_bytes),
                file.opened.to_string(),
                duration(file.first_s - start_s),
                duration(file.last_s - start_s),
            ]
            .map(|text| Cell::new(&text))
            .into_iter()
            .chain([Cell::path(&file.path)])
            .collect(),
        );
    }
    table.write(width, false, out)?;
    if sorted.len() > SHOWN_MAX {
        writeln!(out, "  and {} more: --json has them", sorted.len() - SHOWN_MAX)?;
    }
    match view.files_left_out {
        Some(others @ 1..) => {
            writeln!(out, "  {others} more files or so were seen and are not told one by one")
        }
        _ => Ok(()),
    }
}
