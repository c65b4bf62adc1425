//! The processes and threads of a job: as views, and as tables people read by command.

use std::collections::BTreeMap;
use std::io::{self, Write};

use pinfold_proto::row::{ProcessRow, ProcessSource};
use pinfold_proto::view::{ProcessView, ReportView, ThreadView, seconds};

use super::table::{Align, Cell, Column, Table, cut};
use super::units::{duration, size};

/// So many single processes are shown below the table by command.
const SHOWN_MAX: usize = 20;

/// A process for `report --processes`.
#[must_use]
pub fn process_view(row: &ProcessRow) -> ProcessView {
    let used = &row.used;
    ProcessView {
        number: row.number,
        pid: row.pid,
        parent: row.parent,
        count: row.count,
        command: row.command.clone(),
        started_s: row.started_us.map(seconds),
        ended_s: row.ended_us.map(seconds),
        exit_code: row.exit_code,
        signal: row.signal,
        failed: row.failed,
        threads: row.threads,
        cpu_user_s: seconds(used.cpu_user_us),
        cpu_system_s: seconds(used.cpu_system_us),
        waited_s: row.counted.then(|| seconds(used.waited_us)),
        memory_peak_bytes: used.memory_peak_bytes,
        virtual_peak_bytes: used.virtual_peak_bytes,
        pss_bytes: row.share.map(|share| share.bytes),
        pss_read_s: row.share.map(|share| seconds(share.time_us)),
        pss_peak_bytes: row.share.map(|share| share.peak_bytes),
        io_read_bytes: used.io_read_bytes,
        io_write_bytes: used.io_write_bytes,
        io_read_calls: used.io_read_calls,
        io_write_calls: used.io_write_calls,
        faults_minor: used.faults_minor,
        faults_major: used.faults_major,
        switches_voluntary: row.counted.then_some(used.switches_voluntary),
        switches_forced: row.counted.then_some(used.switches_forced),
        source: match row.source {
            ProcessSource::Running => "running",
            ProcessSource::Exit => "exit",
            ProcessSource::Sample => "sample",
            ProcessSource::Unseen => "unseen",
        }
        .to_owned(),
    }
}

/// The reliability of a process count, as a suffix.
pub(super) fn found(from: Option<&str>) -> &'static str {
    match from {
        Some("records") => " (each told of by the kernel)",
        Some("events") => " (each told of by the kernel, figures by samples)",
        Some("samples") => " (by samples: those that lived for less than one may be missing)",
        Some("gaps") => " (told of by the kernel with gaps: some may be missing)",
        _ => "",
    }
}

/// The processes of a command, added up.
#[derive(Debug, Default)]
struct Together {
    count: u64,
    failed: u64,
    cpu_s: f64,
    memory_peak_bytes: u64,
    io_read_bytes: u64,
    io_write_bytes: u64,
    longest_s: f64,
}

const fn column(head: &'static str, align: Align, leave_out: u8) -> Column {
    Column { head, align, leave_out }
}

const BY_COMMAND: [Column; 8] = [
    column("COUNT", Align::Right, 0),
    column("FAILED", Align::Right, 4),
    column("CPU", Align::Right, 0),
    column("PEAK", Align::Right, 0),
    column("READ", Align::Right, 3),
    column("WRITTEN", Align::Right, 2),
    column("LONGEST", Align::Right, 1),
    column("COMMAND", Align::Left, 0),
];

const SINGLE: [Column; 10] = [
    column("PID", Align::Right, 0),
    column("PARENT", Align::Right, 4),
    column("END", Align::Left, 0),
    column("LIVED", Align::Right, 1),
    column("CPU", Align::Right, 0),
    column("WAITED", Align::Right, 5),
    column("PEAK", Align::Right, 0),
    column("PSS", Align::Right, 2),
    column("THREADS", Align::Right, 3),
    column("COMMAND", Align::Left, 0),
];

/// `report --processes` as text: by command, then the largest processes singly.
///
/// # Errors
/// When `out` fails.
pub fn write_processes(view: &ReportView, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let Some(processes) = view.processes.as_deref() else { return Ok(()) };
    if processes.is_empty() {
        return writeln!(out, "job {}: no process was recorded\n", view.job);
    }
    let mut by_command: BTreeMap<String, Together> = BTreeMap::new();
    for process in processes {
        add(by_command.entry(program(&process.command)).or_default(), process);
    }
    let mut by_command: Vec<(String, Together)> = by_command.into_iter().collect();
    by_command.sort_by(|(_, one), (_, other)| other.cpu_s.total_cmp(&one.cpu_s));
    writeln!(out, "job {}: processes by command", view.job)?;
    let mut table = Table::new(&BY_COMMAND);
    for (command, of) in &by_command {
        table.push(
            [
                of.count.to_string(),
                of.failed.to_string(),
                duration(of.cpu_s),
                size(of.memory_peak_bytes),
                size(of.io_read_bytes),
                size(of.io_write_bytes),
                duration(of.longest_s),
                command.clone(),
            ]
            .map(|text| Cell::new(&text))
            .into(),
        );
    }
    table.write(width, false, out)?;
    writeln!(out, "\nthe largest, by CPU time")?;
    let mut single: Vec<&ProcessView> = processes.iter().filter(|process| process.count == 1).collect();
    let cpu_s = |process: &ProcessView| process.cpu_user_s + process.cpu_system_s;
    single.sort_by(|one, other| cpu_s(other).total_cmp(&cpu_s(one)).then(one.number.cmp(&other.number)));
    let mut table = Table::new(&SINGLE);
    single.iter().take(SHOWN_MAX).for_each(|process| table.push(row(process)));
    table.write(width, false, out)?;
    let of = |source: &str| -> u64 {
        processes.iter().filter(|process| process.source == source).map(|process| process.count).sum()
    };
    writeln!(
        out,
        "figures: {} from the kernel's records of their end, {} from the last sample, {} running, {} without",
        of("exit"),
        of("sample"),
        of("running"),
        of("unseen")
    )?;
    write_divided(processes, out)?;
    writeln!(out)
}

/// The total PSS of the living processes, and the age of the other figures.
fn write_divided(processes: &[ProcessView], out: &mut dyn Write) -> io::Result<()> {
    let (living, over): (Vec<_>, Vec<_>) = processes.iter().partition(|process| process.ended_s.is_none());
    let read: Vec<(u64, f64)> =
        living.iter().filter_map(|process| process.pss_bytes.zip(process.pss_read_s)).collect();
    let (first_s, last_s) = read
        .iter()
        .fold((f64::MAX, 0.0), |(first, last): (f64, f64), (_, at)| (first.min(*at), last.max(*at)));
    if !read.is_empty() {
        writeln!(
            out,
            "PSS, memory divided by those who share it: {} in {} of {} that live, read within {}",
            size(read.iter().map(|(bytes, _)| bytes).sum()),
            read.len(),
            living.len(),
            duration(last_s - first_s)
        )?;
    }
    let age_s = |process: &&ProcessView| Some((process.ended_s? - process.pss_read_s?).max(0.0));
    let ages_s: Vec<f64> = over.iter().copied().filter_map(|process| age_s(&process)).collect();
    if ages_s.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "PSS of those that are over is as it was last read, of {} of {}, up to {} before their end",
        ages_s.len(),
        over.len(),
        duration(ages_s.iter().copied().fold(0.0, f64::max))
    )
}

fn add(to: &mut Together, process: &ProcessView) {
    to.count += process.count;
    to.failed += process.failed;
    to.cpu_s += process.cpu_user_s + process.cpu_system_s;
    to.memory_peak_bytes = to.memory_peak_bytes.max(process.memory_peak_bytes);
    to.io_read_bytes += process.io_read_bytes;
    to.io_write_bytes += process.io_write_bytes;
    if process.count == 1 {
        to.longest_s = to.longest_s.max(lived_s(process).unwrap_or(0.0));
    }
}

fn lived_s(process: &ProcessView) -> Option<f64> {
    Some((process.ended_s? - process.started_s?).max(0.0))
}

fn program(command: &str) -> String {
    let program = command.split_whitespace().next().unwrap_or("(not seen)");
    program.rsplit('/').next().unwrap_or(program).to_owned()
}

fn row(process: &ProcessView) -> Vec<Cell> {
    let end = match (process.ended_s, process.signal, process.exit_code) {
        (None, _, _) => "running".to_owned(),
        (_, Some(signal), _) => format!("signal {signal}"),
        (_, None, Some(code)) => format!("exit {code}"),
        (Some(_), None, None) => "over".to_owned(),
    };
    [
        process.pid.to_string(),
        process.parent.map_or(String::new(), |parent| parent.to_string()),
        end,
        lived_s(process).map_or(String::new(), duration),
        duration(process.cpu_user_s + process.cpu_system_s),
        process.waited_s.map_or(String::new(), duration),
        size(process.memory_peak_bytes),
        process.pss_bytes.map_or(String::new(), size),
        process.threads.to_string(),
        cut(&process.command, 200),
    ]
    .map(|text| Cell::new(&text))
    .into()
}

const THREADS: [Column; 7] = [
    column("PID", Align::Right, 0),
    column("THREAD", Align::Right, 0),
    column("STATE", Align::Left, 2),
    column("PU", Align::Right, 1),
    column("CPU", Align::Right, 0),
    column("WAITED", Align::Right, 3),
    column("NAME", Align::Left, 0),
];

/// `report --threads` as text.
///
/// # Errors
/// When `out` fails.
pub fn write_threads(view: &ReportView, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let Some(threads) = view.threads.as_deref() else { return Ok(()) };
    if threads.is_empty() {
        return writeln!(
            out,
            "job {}: no thread runs; threads are read from the job while it runs\n",
            view.job
        );
    }
    writeln!(out, "job {}: threads", view.job)?;
    let mut table = Table::new(&THREADS);
    for thread in threads {
        table.push(thread_row(thread));
    }
    table.write(width, false, out)?;
    if let Some(others) = view.threads_left_out {
        writeln!(out, "  {others} more threads or so are not told one by one")?;
    }
    writeln!(out)
}

fn thread_row(thread: &ThreadView) -> Vec<Cell> {
    [
        thread.pid.to_string(),
        thread.thread.to_string(),
        thread.state.clone(),
        thread.pu.map_or(String::new(), |pu| pu.to_string()),
        duration(thread.cpu_user_s + thread.cpu_system_s),
        thread.waited_s.map_or(String::new(), duration),
        thread.name.clone(),
    ]
    .map(|text| Cell::new(&text))
    .into()
}
