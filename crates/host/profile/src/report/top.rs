//! `pinfold top` and `pinfold ps`: the host and its jobs on a screen, and managed processes in a table. Pure: a
//! screen is made of two consecutive views and a size. A view may be of a past moment. Reading order: [`frame`] (the
//! jobs), [`cores`] (the cores and their jobs), [`inside`] (a job's processes), [`help`] (the keys), [`load`] (meters
//! and history), [`head`] (the lines above each table, as far as they fit). Absent here: terminals and keys.

mod cores;
mod head;
mod help;
mod inside;
mod load;

use std::cmp::Ordering;
use std::io::{self, Write};

use pinfold_proto::view::{JobView, ProcessView, ReportView, StatusView};

use super::list::{class_text, number, state_colour};
use super::now_s;
use super::table::{Align, Cell, Column, Table, cut, plain};
use super::units::{duration, precise, rounded, size, with_dates_here};

pub use cores::{CoreUse, cores_frame};
pub use help::help_frame;
pub use inside::process_frame;
pub use load::{Load, Past};

use head::{Head, Rows};

/// The sort key of jobs, descending; numbers ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// Cores in use.
    #[default]
    Cpu,
    /// Memory held.
    Memory,
    /// Number.
    Number,
    /// Run time.
    Time,
}

impl Sort {
    const fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cores",
            Self::Memory => "memory",
            Self::Number => "number",
            Self::Time => "time",
        }
    }
}

/// The settings of a screen.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    /// Columns.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// The order of jobs.
    pub sort: Sort,
    /// Only jobs with this text in their name or user; empty: all.
    pub filter: String,
    /// The job at which the mark stands, counted from the top.
    pub selected: usize,
    /// Whether colour codes are allowed.
    pub colour: bool,
    /// How busy the host is.
    pub load: Load,
    /// The result of the last key, shown at the foot until the next key.
    pub said: String,
}

/// Which of many lines a screen shows.
struct Span {
    first: usize,
    count: usize,
}

impl Span {
    /// The range of `lines` from the selected line on; scrolling stops at the end.
    fn of(lines: usize, screen: &Screen) -> Self {
        let count = lines.min(screen.height);
        Self { first: screen.selected.min(lines - count), count }
    }
}

/// Appends the result of the last key, over the last line if needed.
#[must_use]
pub fn with_said(mut lines: Vec<String>, screen: &Screen) -> Vec<String> {
    if !screen.said.is_empty() && screen.height > 0 {
        lines.truncate(screen.height - 1);
        lines.push(cut(&plain(&screen.said), screen.width));
    }
    lines
}

/// The screen's jobs in order, as the selection counts.
#[must_use]
pub fn shown<'a>(now: &'a StatusView, before: Option<&StatusView>, screen: &Screen) -> Vec<&'a JobView> {
    let fits = |job: &&JobView| {
        screen.filter.is_empty() || job.name.contains(&screen.filter) || job.user.contains(&screen.filter)
    };
    let mut jobs: Vec<&JobView> = now.jobs.iter().filter(fits).collect();
    jobs.sort_by(|one, other| {
        let order = match screen.sort {
            Sort::Number => Ordering::Equal,
            Sort::Memory => other.memory_bytes.cmp(&one.memory_bytes),
            Sort::Time => {
                let since_s = |job: &JobView| job.started_s.unwrap_or(f64::INFINITY);
                since_s(one).total_cmp(&since_s(other))
            }
            Sort::Cpu => {
                let cores = |job: &JobView| cores(job, before).unwrap_or(-1.0);
                cores(other).total_cmp(&cores(one))
            }
        };
        order.then(one.job.cmp(&other.job))
    });
    jobs
}

/// Cores in use between two views of a job.
fn cores(job: &JobView, before: Option<&StatusView>) -> Option<f64> {
    if job.cpu_cores.is_some() {
        return job.cpu_cores;
    }
    let then = before?.jobs.iter().find(|then| then.job == job.job)?;
    let span_s = job.seen_s? - then.seen_s?;
    (span_s > 0.0).then(|| ((job.cpu_s.unwrap_or(0.0) - then.cpu_s.unwrap_or(0.0)) / span_s).max(0.0))
}

const fn column(head: &'static str, align: Align, leave_out: u8) -> Column {
    Column { head, align, leave_out }
}

const TOP: [Column; 13] = [
    column("", Align::Left, 0),
    column("JOB", Align::Right, 0),
    column("STATE", Align::Left, 2),
    column("CLASS", Align::Left, 7),
    column("PRI", Align::Right, 9),
    column("CPUS", Align::Left, 8),
    column("CORES", Align::Right, 3),
    column("MEMORY", Align::Right, 1),
    column("OF BUDGET", Align::Left, 6),
    column("SWAP", Align::Right, 10),
    column("TIME", Align::Right, 4),
    column("NAME", Align::Left, 0),
    column("WHY", Align::Left, 5),
];

fn filtered(screen: &Screen) -> String {
    if screen.filter.is_empty() { String::new() } else { format!("   only {}", plain(&screen.filter)) }
}

/// The screen: at most `height` lines of at most `width` columns.
#[must_use]
pub fn frame(now: &StatusView, before: Option<&StatusView>, screen: &Screen) -> Vec<String> {
    let jobs = shown(now, before, screen);
    let mut table = Table::new(&TOP);
    let at_s = now.at_s.unwrap_or_else(now_s);
    for (at, job) in jobs.iter().enumerate() {
        table.push(row(job, before, at == screen.selected, now.memory.budget_bytes, at_s));
    }
    let rows = Rows {
        table: &table,
        what: "jobs",
        by: format!("by {}{}", screen.sort.word(), filtered(screen)),
        keys: "? help  / filter  enter processes  v cores  s x + - change  q quit".to_owned(),
    };
    // The marked job stays in sight.
    let first = |room: usize| {
        screen.selected.saturating_add(1).saturating_sub(room).min(jobs.len().saturating_sub(room))
    };
    rows.below(Head::of_host(now, screen), screen, first)
}

fn row(
    job: &JobView,
    before: Option<&StatusView>,
    selected: bool,
    budget_bytes: u64,
    at_s: f64,
) -> Vec<Cell> {
    let until_s = job.ended_s.unwrap_or(at_s);
    let held = job.memory_bytes.unwrap_or(0);
    let mut cells: Vec<Cell> = [
        if selected { ">".to_owned() } else { String::new() },
        number(job),
        String::new(),
        class_text(job),
        job.priority.to_string(),
        job.cpus.clone().unwrap_or_default(),
        cores(job, before).map_or("-".to_owned(), |cores| format!("{cores:.2}")),
        job.memory_bytes.map_or(String::new(), size),
        bar(precise(held) / precise(budget_bytes.max(1)), 12),
        job.swap_bytes.filter(|&bytes| bytes > 0).map_or(String::new(), size),
        duration(until_s - job.started_s.unwrap_or(job.submitted_s)),
        cut(job.external.as_ref().unwrap_or(&job.name), 32),
        job.reason.as_deref().map(with_dates_here).unwrap_or_default(),
    ]
    .map(|text| Cell::new(&text))
    .into();
    cells[2] = Cell::coloured(job.state.word(), state_colour(job));
    cells
}

fn bar(part: f64, width: usize) -> String {
    let filled = usize::try_from(rounded(part.clamp(0.0, 1.0) * precise(width as u64))).unwrap_or(width);
    format!("{}{}", "#".repeat(filled.min(width)), ".".repeat(width - filled.min(width)))
}

const PS: [Column; 9] = [
    column("JOB", Align::Right, 0),
    column("PID", Align::Right, 0),
    column("PARENT", Align::Right, 5),
    column("CLASS", Align::Left, 4),
    column("CPU", Align::Right, 1),
    column("PEAK", Align::Right, 2),
    column("THREADS", Align::Right, 3),
    column("USER", Align::Left, 6),
    column("COMMAND", Align::Left, 0),
];

/// `pinfold ps`: the living processes of jobs reported with their processes, each with the mark before its command.
///
/// # Errors
/// When `out` fails.
pub fn write_ps(views: &[ReportView], mark: &str, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&PS);
    for view in views {
        let living = view.processes.iter().flatten().filter(|process| process.ended_s.is_none());
        living.for_each(|process| table.push(process_row(view, process, mark)));
    }
    table.write(width, false, out)
}

/// A process of the host, of a job or not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostProcess {
    /// Its number.
    pub pid: u32,
    /// Its parent's number.
    pub parent: u32,
    /// Its job, if any.
    pub job: Option<u64>,
    /// Whether it belongs to any user's job.
    pub managed: bool,
    /// Its user.
    pub user: String,
    /// Processor time.
    pub cpu_s: f64,
    /// Resident size.
    pub resident_bytes: u64,
    /// Its command line, or the kernel's name for it.
    pub command: String,
}

const PS_ALL: [Column; 7] = [
    column("PID", Align::Right, 0),
    column("PARENT", Align::Right, 3),
    column("USER", Align::Left, 2),
    column("JOB", Align::Right, 0),
    column("CPU", Align::Right, 1),
    column("RESIDENT", Align::Right, 1),
    column("COMMAND", Align::Left, 0),
];

/// `pinfold ps --all`: all processes, with the mark before commands of jobs.
///
/// # Errors
/// When `out` fails.
pub fn write_ps_all(
    processes: &[HostProcess],
    mark: &str,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut table = Table::new(&PS_ALL);
    for process in processes {
        // A blank in place of the mark aligns the commands.
        let sign = if process.managed { mark } else { " " };
        let sign = if mark.is_empty() { "" } else { sign };
        table.push(
            [
                process.pid.to_string(),
                process.parent.to_string(),
                cut(&process.user, 12),
                process.job.map_or(String::new(), |job| job.to_string()),
                duration(process.cpu_s),
                size(process.resident_bytes),
                format!("{sign}{}", cut(&process.command, 300)),
            ]
            .map(|text| Cell::new(&text))
            .into(),
        );
    }
    table.write(width, false, out)
}

fn process_row(view: &ReportView, process: &ProcessView, mark: &str) -> Vec<Cell> {
    let command = if process.command.is_empty() { "(new)" } else { &process.command };
    [
        view.job.to_string(),
        process.pid.to_string(),
        process.parent.map_or(String::new(), |parent| parent.to_string()),
        view.class.word().to_owned(),
        duration(process.cpu_user_s + process.cpu_system_s),
        size(process.memory_peak_bytes),
        process.threads.to_string(),
        cut(&view.user, 12),
        format!("{mark}{}", cut(command, 300)),
    ]
    .map(|text| Cell::new(&text))
    .into()
}

#[cfg(test)]
mod tests;
