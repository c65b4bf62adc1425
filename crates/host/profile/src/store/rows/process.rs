//! Processes as columns.

use pinfold_proto::row::{ProcessRow, ProcessShare, ProcessSource, ProcessUsage};
use rusqlite::Row;

use super::super::fields::{Binder, Fields};

/// The columns of `processes`; the key first.
pub(crate) const PROCESS: [&str; 30] = [
    "job",
    "number",
    "pid",
    "parent",
    "count",
    "command",
    "started_us",
    "ended_us",
    "exit_code",
    "signal",
    "failed",
    "threads",
    "cpu_user_us",
    "cpu_system_us",
    "waited_us",
    "memory_peak_bytes",
    "io_read_bytes",
    "io_write_bytes",
    "io_read_calls",
    "io_write_calls",
    "faults_minor",
    "faults_major",
    "switches_voluntary",
    "switches_forced",
    "source",
    "pss_us",
    "pss_bytes",
    "pss_peak_bytes",
    "virtual_peak_bytes",
    "counted",
];

/// A process into a statement over [`PROCESS`].
pub(crate) fn bind_process(row: &ProcessRow, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
    to.number(row.job)?.number(row.number)?.put(row.pid)?.put(row.parent)?.number(row.count)?;
    to.put(&row.command)?.maybe(row.started_us)?.maybe(row.ended_us)?;
    to.put(row.exit_code)?.put(row.signal)?.number(row.failed)?.number(row.threads)?;
    let used = &row.used;
    to.number(used.cpu_user_us)?.number(used.cpu_system_us)?.number(used.waited_us)?;
    to.number(used.memory_peak_bytes)?.number(used.io_read_bytes)?.number(used.io_write_bytes)?;
    to.number(used.io_read_calls)?.number(used.io_write_calls)?;
    to.number(used.faults_minor)?.number(used.faults_major)?;
    to.number(used.switches_voluntary)?.number(used.switches_forced)?.put(source_word(row.source))?;
    let share = |of: fn(&ProcessShare) -> u64| row.share.as_ref().map(of);
    to.maybe(share(|share| share.time_us))?.maybe(share(|share| share.bytes))?;
    to.maybe(share(|share| share.peak_bytes))?.maybe(used.virtual_peak_bytes)?.put(row.counted)?;
    Ok(())
}

/// A process out of a row over [`PROCESS`].
pub(crate) fn read_process_row(row: &Row<'_>) -> rusqlite::Result<ProcessRow> {
    let from = &mut Fields::new(row);
    let mut process = ProcessRow {
        job: from.number()?,
        number: from.number()?,
        pid: from.small()?,
        parent: from.maybe()?.map(|parent| u32::try_from(parent).unwrap_or(u32::MAX)),
        count: from.number()?,
        command: from.text()?,
        started_us: from.maybe()?,
        ended_us: from.maybe()?,
        exit_code: from.maybe_small()?,
        signal: from.maybe_small()?,
        failed: from.number()?,
        threads: from.number()?,
        used: ProcessUsage {
            cpu_user_us: from.number()?,
            cpu_system_us: from.number()?,
            waited_us: from.number()?,
            memory_peak_bytes: from.number()?,
            io_read_bytes: from.number()?,
            io_write_bytes: from.number()?,
            io_read_calls: from.number()?,
            io_write_calls: from.number()?,
            faults_minor: from.number()?,
            faults_major: from.number()?,
            switches_voluntary: from.number()?,
            switches_forced: from.number()?,
            virtual_peak_bytes: None,
        },
        counted: false,
        source: source_of(&from.text()?),
        share: match (from.maybe()?, from.maybe()?, from.maybe()?) {
            (Some(time_us), Some(bytes), Some(peak_bytes)) => {
                Some(ProcessShare { time_us, bytes, peak_bytes })
            }
            _ => None,
        },
    };
    (process.used.virtual_peak_bytes, process.counted) = (from.maybe()?, from.yes()?);
    Ok(process)
}

const fn source_word(source: ProcessSource) -> &'static str {
    match source {
        ProcessSource::Running => "running",
        ProcessSource::Exit => "exit",
        ProcessSource::Sample => "sample",
        ProcessSource::Unseen => "unseen",
    }
}

fn source_of(word: &str) -> ProcessSource {
    match word {
        "running" => ProcessSource::Running,
        "exit" => ProcessSource::Exit,
        "sample" => ProcessSource::Sample,
        _ => ProcessSource::Unseen,
    }
}
