//! The host's figures: readings become points, and points a table for users.

use std::io::{self, Write};

use pinfold_proto::host::{HostPoint, HostRow, HostView};
use pinfold_proto::view::seconds;

use super::table::{Align, Cell, Column, Table, plain};
use super::units::{counted, date_here, duration, precise, size};

/// The points of readings, oldest first. Totals since boot become means since the reading before; the first reading
/// after a reboot has no mean.
#[must_use]
pub fn host_points(rows: &[HostRow]) -> Vec<HostPoint> {
    let before = std::iter::once(None).chain(rows.iter().map(Some));
    rows.iter().zip(before).map(|(row, before)| point(row, before)).collect()
}

fn point(row: &HostRow, before: Option<&HostRow>) -> HostPoint {
    let before =
        before.filter(|before| before.cpu_busy_us <= row.cpu_busy_us && before.time_us < row.time_us);
    let span_us = before.map(|before| row.time_us - before.time_us);
    let part = |of: fn(&HostRow) -> Option<u64>| -> Option<f64> {
        let moved = of(row)?.checked_sub(of(before?)?)?;
        Some(seconds(moved) / seconds(span_us?))
    };
    // Two clocks: a fraction may come out slightly above 1.
    let stalled = |of| part(of).map(|part| part.min(1.0));
    HostPoint {
        time_s: seconds(row.time_us),
        span_s: span_us.map(seconds),
        cpu_busy: part(|row| Some(row.cpu_busy_us)),
        memory_used_bytes: row.memory_used_bytes,
        swap_used_bytes: row.swap_used_bytes,
        cpu_stalled: stalled(|row| row.cpu_stalled_us),
        memory_stalled: stalled(|row| row.memory_stalled_us),
        memory_full_stalled: stalled(|row| row.memory_full_stalled_us),
        io_stalled: stalled(|row| row.io_stalled_us),
        io_full_stalled: stalled(|row| row.io_full_stalled_us),
        temperature_celsius: row.temperature_milli.map(|milli| precise(milli) / 1e3),
        frequency_mhz: row.frequency_khz.map(|khz| precise(khz) / 1e3),
    }
}

const fn column(head: &'static str, leave_out: u8) -> Column {
    Column { head, align: Align::Right, leave_out }
}

const HOST: [Column; 9] = [
    column("TIME", 0),
    column("PUS BUSY", 0),
    column("MEMORY", 0),
    column("SWAP", 2),
    column("WAITED: CPU", 3),
    column("MEMORY", 1),
    column("STORAGE", 4),
    column("CELSIUS", 6),
    column("MHZ", 5),
];

/// `pinfold host` as text, in lines of up to `width` characters.
///
/// # Errors
/// When `out` fails.
pub fn write_host(view: &HostView, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let head = format!("{}: {} PUs, {} of memory", plain(&view.host), view.pus, size(view.memory_bytes));
    let Some((first, last)) = view.samples.first().zip(view.samples.last()) else {
        return writeln!(out, "{head}; nothing was read since then: the host is read while jobs run");
    };
    let over = duration(last.time_s - first.time_s);
    let count = view.samples.len();
    writeln!(out, "{head}; {} over {over}, while jobs ran", counted(count as u64, "reading"))?;
    let percent = |part: Option<f64>| part.map_or(String::new(), |part| format!("{:.1} %", part * 100.0));
    let some =
        |figure: Option<f64>, digits: usize| figure.map_or(String::new(), |it| format!("{it:.digits$}"));
    let mut table = Table::new(&HOST);
    for one in &view.samples {
        table.push(
            [
                date_here(one.time_s),
                some(one.cpu_busy, 2),
                size(one.memory_used_bytes),
                if one.swap_used_bytes > 0 { size(one.swap_used_bytes) } else { String::new() },
                percent(one.cpu_stalled),
                percent(one.memory_stalled),
                percent(one.io_stalled),
                some(one.temperature_celsius, 0),
                some(one.frequency_mhz, 0),
            ]
            .map(|text| Cell::new(&text))
            .into(),
        );
    }
    table.write(width, false, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time_s: u64, cpu_busy_s: u64) -> HostRow {
        HostRow {
            time_us: time_s * 1_000_000,
            cpu_busy_us: cpu_busy_s * 1_000_000,
            memory_used_bytes: 3 << 30,
            memory_stalled_us: Some(time_s * 100_000),
            temperature_milli: Some(41_500),
            ..HostRow::default()
        }
    }

    #[test]
    fn counters_become_means_and_a_restart_has_none() {
        let points = host_points(&[row(100, 50), row(110, 65), row(200, 5), row(210, 10)]);
        let busy: Vec<Option<f64>> = points.iter().map(|point| point.cpu_busy).collect();
        assert_eq!(busy, [None, Some(1.5), None, Some(0.5)]);
        assert_eq!((points[1].span_s, points[1].memory_stalled), (Some(10.0), Some(0.1)));
        assert_eq!((points[2].span_s, points[2].memory_stalled), (None, None));
        assert_eq!((points[1].temperature_celsius, points[1].frequency_mhz), (Some(41.5), None));
        assert_eq!((points[1].cpu_stalled, points[1].io_full_stalled), (None, None), "it is not told here");
    }

    #[test]
    fn as_a_table() {
        let samples = host_points(&[row(100, 50), row(110, 65)]);
        let view = HostView { version: 1, host: "farm".to_owned(), pus: 4, memory_bytes: 8 << 30, samples };
        let text = |view: &HostView, width| {
            let mut out = Vec::new();
            write_host(view, width, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let wide = text(&view, 200);
        assert!(wide.starts_with("farm: 4 PUs, 8.00 GiB of memory; 2 readings over 10.0 s"), "{wide}");
        assert!(wide.contains("1.50") && wide.contains("10.0 %") && wide.contains("42"), "{wide}");
        assert!(!wide.contains("MHZ"), "what nobody tells has no column: {wide}");
        assert!(text(&view, 50).lines().skip(1).all(|line| line.chars().count() <= 50));
        let none = HostView { samples: Vec::new(), ..view };
        assert!(text(&none, 80).contains("while jobs run"));
    }
}
