//! Jobs, samples, processes, threads, files and host readings as tables for other programs: CSV, JSON lines, Parquet.
//! Absent here: the store, and the choice of rows.

mod parquet;

use std::io::{self, Write};

use pinfold_proto::host::HostPoint;
use pinfold_proto::text::plain;
use pinfold_proto::view::{NodeView, PointView, ReportView};
use serde_json::{Map, Value};

use crate::csv;

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Comma-separated values with a header line (RFC 4180); absent values are empty.
    Csv,
    /// A JSON object per line; absent values are `null`.
    JsonLines,
    /// Apache Parquet: groups of some ten thousand rows, plain encoding, no compression.
    Parquet,
}

/// Rows of a group in a Parquet file: some megabytes, which a reader loads together.
const GROUP_ROWS: usize = 50_000;

/// A table written in steps, by sheets with the same columns.
#[derive(Debug)]
pub struct Table {
    form: Form,
    begun: bool,
    /// Pending rows of the next Parquet group.
    group: Sheet,
    parquet: parquet::File,
}

impl Table {
    /// An empty table in this form.
    #[must_use]
    pub fn new(form: Form) -> Self {
        Self { form, begun: false, group: Sheet::default(), parquet: parquet::File::default() }
    }

    /// Writes the next rows; a sheet without rows names the columns.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn add(&mut self, sheet: Sheet, out: &mut dyn Write) -> io::Result<()> {
        let first = !std::mem::replace(&mut self.begun, true);
        match self.form {
            Form::Csv => sheet.write_csv(first, out),
            Form::JsonLines => sheet.write_json_lines(out),
            Form::Parquet => {
                self.group.append(sheet);
                if self.group.rows < GROUP_ROWS {
                    return Ok(());
                }
                let none = self.group.emptied();
                self.parquet.add(&std::mem::replace(&mut self.group, none), out)
            }
        }
    }

    /// Writes the rest and the end.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn end(mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.form != Form::Parquet {
            return Ok(());
        }
        if self.group.rows > 0 || self.parquet.is_empty() {
            self.parquet.add(&self.group, out)?;
        }
        self.parquet.end(&self.group, out)
    }
}

/// Columns of equal length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sheet {
    columns: Vec<(&'static str, Cells)>,
    rows: usize,
}

/// The values of a column; absent values are `None`.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// Numbers.
    Real(Vec<Option<f64>>),
    /// Words.
    Text(Vec<Option<String>>),
}

impl Sheet {
    /// Prepends a text column with a word per row.
    #[must_use]
    pub fn headed(mut self, name: &'static str, words: impl IntoIterator<Item = String>) -> Self {
        let mut cells: Vec<Option<String>> = words.into_iter().map(Some).collect();
        cells.resize(self.rows, None);
        self.columns.insert(0, (name, Cells::Text(cells)));
        self
    }

    /// Replaces all text that a terminal would act on.
    #[must_use]
    pub fn plain(mut self) -> Self {
        for (_, cells) in &mut self.columns {
            if let Cells::Text(words) = cells {
                words.iter_mut().flatten().for_each(|word| *word = plain(word));
            }
        }
        self
    }

    fn new(rows: usize) -> Self {
        Self { columns: Vec::new(), rows }
    }

    /// A sheet of existing columns, each of `rows` values.
    #[must_use]
    pub fn of(rows: usize, columns: Vec<(&'static str, Cells)>) -> Self {
        debug_assert!(columns.iter().all(|(_, cells)| cells.len() == rows), "columns are of equal length");
        Self { columns, rows }
    }

    fn whole<T>(&mut self, name: &'static str, of: &[T], cell: impl Fn(&T) -> Option<u64>) {
        // No count comes near 2^63.
        let whole = |one: &T| cell(one).map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        self.columns.push((name, Cells::Whole(of.iter().map(whole).collect())));
    }

    fn signed<T>(&mut self, name: &'static str, of: &[T], cell: impl Fn(&T) -> Option<i32>) {
        let cells = of.iter().map(|one| cell(one).map(i64::from)).collect();
        self.columns.push((name, Cells::Whole(cells)));
    }

    fn real<T>(&mut self, name: &'static str, of: &[T], cell: impl Fn(&T) -> Option<f64>) {
        self.columns.push((name, Cells::Real(of.iter().map(cell).collect())));
    }

    fn text<T>(&mut self, name: &'static str, of: &[T], cell: impl Fn(&T) -> Option<String>) {
        self.columns.push((name, Cells::Text(of.iter().map(cell).collect())));
    }

    /// Writes the sheet.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write(self, form: Form, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new(form);
        table.add(self, out)?;
        table.end(out)
    }

    /// The same columns without rows.
    fn emptied(&self) -> Self {
        let none = |cells: &Cells| match cells {
            Cells::Whole(_) => Cells::Whole(Vec::new()),
            Cells::Real(_) => Cells::Real(Vec::new()),
            Cells::Text(_) => Cells::Text(Vec::new()),
        };
        let columns = self.columns.iter().map(|(name, cells)| (*name, none(cells))).collect();
        Self { columns, rows: 0 }
    }

    /// Adds the rows of a sheet of the same columns.
    fn append(&mut self, other: Self) {
        if self.columns.is_empty() {
            *self = other;
            return;
        }
        self.rows += other.rows;
        for ((_, own), (_, others)) in self.columns.iter_mut().zip(other.columns) {
            match (own, others) {
                (Cells::Whole(own), Cells::Whole(others)) => own.extend(others),
                (Cells::Real(own), Cells::Real(others)) => own.extend(others),
                (Cells::Text(own), Cells::Text(others)) => own.extend(others),
                _ => unreachable!("sheets of one table have the same columns"),
            }
        }
    }

    fn write_csv(&self, with_names: bool, out: &mut dyn Write) -> io::Result<()> {
        if with_names {
            let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
            write!(out, "{}\r\n", names.join(","))?;
        }
        for row in 0..self.rows {
            for (at, (_, cells)) in self.columns.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                match cells.at(row) {
                    Value::Null => write!(out, "{comma}")?,
                    Value::String(text) => write!(out, "{comma}{}", csv::cell(&text))?,
                    number => write!(out, "{comma}{number}")?,
                }
            }
            write!(out, "\r\n")?;
        }
        Ok(())
    }

    fn write_json_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        for row in 0..self.rows {
            let object: Map<String, Value> =
                self.columns.iter().map(|(name, cells)| ((*name).to_owned(), cells.at(row))).collect();
            serde_json::to_writer(&mut *out, &object)?;
            writeln!(out)?;
        }
        Ok(())
    }
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Self::Whole(cells) => cells.len(),
            Self::Real(cells) => cells.len(),
            Self::Text(cells) => cells.len(),
        }
    }

    fn at(&self, row: usize) -> Value {
        match self {
            Self::Whole(cells) => cells[row].map_or(Value::Null, Value::from),
            Self::Real(cells) => cells[row].map_or(Value::Null, Value::from),
            Self::Text(cells) => cells[row].clone().map_or(Value::Null, Value::from),
        }
    }
}

/// A row per job; times in Unix seconds.
#[must_use]
pub fn jobs(of: &[ReportView]) -> Sheet {
    let mut sheet = Sheet::new(of.len());
    sheet.whole("job", of, |job| Some(job.job));
    sheet.text("name", of, |job| Some(job.name.clone()));
    sheet.text("user", of, |job| Some(job.user.clone()));
    sheet.text("project", of, |job| job.project.clone());
    sheet.text("command", of, |job| serde_json::to_string(&job.command).ok());
    sheet.text("state", of, |job| Some(job.state.word().to_owned()));
    sheet.text("class", of, |job| Some(format!("{:?}", job.class).to_lowercase()));
    sheet.whole("priority", of, |job| Some(job.priority.into()));
    sheet.whole("cores", of, |job| Some(job.cores.into()));
    sheet.text("cpus", of, |job| job.cpus.clone());
    sheet.real("submitted_s", of, |job| Some(job.submitted_s));
    sheet.real("started_s", of, |job| job.started_s);
    sheet.real("ended_s", of, |job| job.ended_s);
    sheet.signed("exit_code", of, |job| job.exit_code);
    sheet.signed("signal", of, |job| job.signal);
    sheet.text("reason", of, |job| job.reason.clone());
    sheet.real("queued_s", of, |job| Some(job.queued_s));
    sheet.real("wall_s", of, |job| job.wall_s);
    sheet.real("suspended_s", of, |job| Some(job.suspended_s));
    sheet.real("cpu_user_s", of, |job| Some(job.cpu_user_s));
    sheet.real("cpu_system_s", of, |job| Some(job.cpu_system_s));
    sheet.whole("claim_bytes", of, |job| job.claim_bytes);
    sheet.whole("input_bytes", of, |job| job.input_bytes);
    sheet.whole("limit_bytes", of, |job| job.limit_bytes);
    sheet.whole("memory_peak_bytes", of, |job| Some(job.memory_peak_bytes));
    sheet.whole("memory_mean_bytes", of, |job| Some(job.memory_mean_bytes));
    sheet.whole("memory_peak_kernel_bytes", of, |job| job.memory_peak_kernel_bytes);
    sheet.whole("anonymous_peak_bytes", of, |job| job.anonymous_peak_bytes);
    sheet.whole("shared_peak_bytes", of, |job| job.shared_peak_bytes);
    sheet.whole("mapped_peak_bytes", of, |job| job.mapped_peak_bytes);
    sheet.real("numa_local", of, |job| job.numa_local);
    sheet.text("numa_mean_bytes", of, |job| by_node(job, |node| node.memory_mean_bytes));
    sheet.text("numa_peak_bytes", of, |job| by_node(job, |node| node.memory_peak_bytes));
    sheet.whole("cache_peak_bytes", of, |job| job.cache_peak_bytes);
    sheet.whole("swap_peak_bytes", of, |job| Some(job.swap_peak_bytes));
    sheet.whole("virtual_peak_bytes", of, |job| Some(job.virtual_peak_bytes));
    sheet.whole("io_read_bytes", of, |job| Some(job.io_read_bytes));
    sheet.whole("io_write_bytes", of, |job| Some(job.io_write_bytes));
    sheet.whole("io_read_calls", of, |job| job.io_read_calls);
    sheet.whole("io_write_calls", of, |job| job.io_write_calls);
    sheet.whole("faults_minor", of, |job| job.faults_minor);
    sheet.whole("faults_major", of, |job| job.faults_major);
    sheet.whole("switches_voluntary", of, |job| job.switches_voluntary);
    sheet.whole("switches_forced", of, |job| job.switches_forced);
    sheet.real("waited_s", of, |job| job.waited_s);
    sheet.real("cpu_stalled_s", of, |job| job.cpu_stalled_s);
    sheet.real("memory_stalled_s", of, |job| job.memory_stalled_s);
    sheet.real("memory_full_stalled_s", of, |job| job.memory_full_stalled_s);
    sheet.real("io_stalled_s", of, |job| job.io_stalled_s);
    sheet.real("io_full_stalled_s", of, |job| job.io_full_stalled_s);
    sheet.whole("processes_total", of, |job| Some(job.processes_total));
    sheet.whole("processes_peak", of, |job| Some(job.processes_peak));
    sheet.whole("threads_peak", of, |job| Some(job.threads_peak));
    sheet.text("processes_from", of, |job| job.processes_from.clone());
    sheet.whole("samples", of, |job| Some(job.samples));
    sheet.whole("array_id", of, |job| job.array_id);
    sheet.whole("array_index", of, |job| job.array_index.map(u64::from));
    sheet.text("external", of, |job| job.external.clone());
    sheet
}

/// A figure of each NUMA node: `0=4096 1=0`.
fn by_node(job: &ReportView, figure: fn(&NodeView) -> u64) -> Option<String> {
    let nodes = job.numa.as_deref()?.iter();
    Some(nodes.map(|node| format!("{}={}", node.node, figure(node))).collect::<Vec<_>>().join(" "))
}

/// A row per point of a job's series.
#[must_use]
pub fn points(job: u64, of: &[PointView]) -> Sheet {
    let mut sheet = Sheet::new(of.len());
    sheet.whole("job", of, |_| Some(job));
    sheet.real("time_s", of, |point| Some(point.time_s));
    sheet.text("state", of, |point| Some(point.state.word().to_owned()));
    sheet.real("cpu_cores", of, |point| Some(point.cpu_cores));
    sheet.whole("memory_bytes", of, |point| Some(point.memory_bytes));
    sheet.whole("cache_bytes", of, |point| point.cache_bytes);
    sheet.whole("swap_bytes", of, |point| Some(point.swap_bytes));
    sheet.whole("io_read_bytes", of, |point| Some(point.io_read_bytes));
    sheet.whole("io_write_bytes", of, |point| Some(point.io_write_bytes));
    sheet.whole("processes", of, |point| Some(point.processes.into()));
    sheet.whole("threads", of, |point| Some(point.threads.into()));
    sheet
}

/// A row per sample, of jobs reported with their series.
#[must_use]
pub fn samples(of: &[ReportView]) -> Sheet {
    let mut sheet = points(0, &[]);
    of.iter().for_each(|job| sheet.append(points(job.job, job.series.as_deref().unwrap_or_default())));
    sheet
}

/// A row per living thread, of jobs reported with their threads.
#[must_use]
pub fn threads(of: &[ReportView]) -> Sheet {
    let all = of_each(of, |job| job.threads.as_deref());
    let mut sheet = Sheet::new(all.len());
    sheet.whole("job", &all, |(job, _)| Some(*job));
    sheet.whole("pid", &all, |(_, one)| Some(one.pid.into()));
    sheet.whole("thread", &all, |(_, one)| Some(one.thread.into()));
    sheet.text("name", &all, |(_, one)| Some(one.name.clone()));
    sheet.text("state", &all, |(_, one)| Some(one.state.clone()));
    sheet.real("cpu_user_s", &all, |(_, one)| Some(one.cpu_user_s));
    sheet.real("cpu_system_s", &all, |(_, one)| Some(one.cpu_system_s));
    sheet.real("waited_s", &all, |(_, one)| one.waited_s);
    sheet.whole("pu", &all, |(_, one)| one.pu.map(u64::from));
    sheet
}

/// A row per file, of jobs reported with their files; `read` and `written` are 1 or 0.
#[must_use]
pub fn files(of: &[ReportView]) -> Sheet {
    let all = of_each(of, |job| job.files.as_deref());
    let mut sheet = Sheet::new(all.len());
    sheet.whole("job", &all, |(job, _)| Some(*job));
    sheet.text("path", &all, |(_, one)| Some(one.path.clone()));
    sheet.whole("read", &all, |(_, one)| Some(one.read.into()));
    sheet.whole("written", &all, |(_, one)| Some(one.written.into()));
    sheet.whole("opened", &all, |(_, one)| Some(one.opened));
    sheet.whole("read_bytes", &all, |(_, one)| Some(one.read_bytes));
    sheet.whole("write_bytes", &all, |(_, one)| Some(one.write_bytes));
    sheet.whole("either_bytes", &all, |(_, one)| Some(one.either_bytes));
    sheet.whole("size_bytes", &all, |(_, one)| Some(one.size_bytes));
    sheet.real("first_s", &all, |(_, one)| Some(one.first_s));
    sheet.real("last_s", &all, |(_, one)| Some(one.last_s));
    sheet
}

/// The items of the jobs' lists, each with its job.
fn of_each<'a, T>(
    of: &'a [ReportView],
    list: impl Fn(&'a ReportView) -> Option<&'a [T]>,
) -> Vec<(u64, &'a T)> {
    let each = |job| list(job).unwrap_or_default().iter().map(|one| (job.job, one));
    of.iter().flat_map(each).collect()
}

/// A row per reading of the whole host.
#[must_use]
pub fn host(of: &[HostPoint]) -> Sheet {
    let mut sheet = Sheet::new(of.len());
    sheet.real("time_s", of, |point| Some(point.time_s));
    sheet.real("span_s", of, |point| point.span_s);
    sheet.real("cpu_busy", of, |point| point.cpu_busy);
    sheet.whole("memory_used_bytes", of, |point| Some(point.memory_used_bytes));
    sheet.whole("swap_used_bytes", of, |point| Some(point.swap_used_bytes));
    sheet.real("cpu_stalled", of, |point| point.cpu_stalled);
    sheet.real("memory_stalled", of, |point| point.memory_stalled);
    sheet.real("memory_full_stalled", of, |point| point.memory_full_stalled);
    sheet.real("io_stalled", of, |point| point.io_stalled);
    sheet.real("io_full_stalled", of, |point| point.io_full_stalled);
    sheet.real("temperature_celsius", of, |point| point.temperature_celsius);
    sheet.real("frequency_mhz", of, |point| point.frequency_mhz);
    sheet
}

/// A row per process or group of short-lived processes, of jobs reported with their processes.
#[must_use]
pub fn processes(of: &[ReportView]) -> Sheet {
    let all = of_each(of, |job| job.processes.as_deref());
    let mut sheet = Sheet::new(all.len());
    sheet.whole("job", &all, |(job, _)| Some(*job));
    sheet.whole("number", &all, |(_, one)| Some(one.number));
    sheet.whole("pid", &all, |(_, one)| Some(one.pid.into()));
    sheet.whole("parent", &all, |(_, one)| one.parent.map(u64::from));
    sheet.whole("count", &all, |(_, one)| Some(one.count));
    sheet.text("command", &all, |(_, one)| Some(one.command.clone()));
    sheet.real("started_s", &all, |(_, one)| one.started_s);
    sheet.real("ended_s", &all, |(_, one)| one.ended_s);
    sheet.signed("exit_code", &all, |(_, one)| one.exit_code);
    sheet.signed("signal", &all, |(_, one)| one.signal);
    sheet.whole("failed", &all, |(_, one)| Some(one.failed));
    sheet.whole("threads", &all, |(_, one)| Some(one.threads));
    sheet.real("cpu_user_s", &all, |(_, one)| Some(one.cpu_user_s));
    sheet.real("cpu_system_s", &all, |(_, one)| Some(one.cpu_system_s));
    sheet.real("waited_s", &all, |(_, one)| one.waited_s);
    sheet.whole("memory_peak_bytes", &all, |(_, one)| Some(one.memory_peak_bytes));
    sheet.whole("virtual_peak_bytes", &all, |(_, one)| one.virtual_peak_bytes);
    sheet.whole("pss_bytes", &all, |(_, one)| one.pss_bytes);
    sheet.whole("pss_peak_bytes", &all, |(_, one)| one.pss_peak_bytes);
    sheet.real("pss_read_s", &all, |(_, one)| one.pss_read_s);
    sheet.whole("io_read_bytes", &all, |(_, one)| Some(one.io_read_bytes));
    sheet.whole("io_write_bytes", &all, |(_, one)| Some(one.io_write_bytes));
    sheet.whole("io_read_calls", &all, |(_, one)| Some(one.io_read_calls));
    sheet.whole("io_write_calls", &all, |(_, one)| Some(one.io_write_calls));
    sheet.whole("faults_minor", &all, |(_, one)| Some(one.faults_minor));
    sheet.whole("faults_major", &all, |(_, one)| Some(one.faults_major));
    sheet.whole("switches_voluntary", &all, |(_, one)| one.switches_voluntary);
    sheet.whole("switches_forced", &all, |(_, one)| one.switches_forced);
    sheet.text("source", &all, |(_, one)| Some(one.source.clone()));
    sheet
}

#[cfg(test)]
mod tests;
