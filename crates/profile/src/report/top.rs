//! `pinfold top` and `pinfold ps`: the host and its jobs on one screen, and managed processes in a table. Pure: a
//! screen is made of two views, one after the other, and a size. Absent here: terminals and keys.

use std::cmp::Ordering;
use std::io::{self, Write};

use pinfold_proto::JobState;
use pinfold_proto::view::{JobView, ProcessView, ReportView, StatusView};

use super::list::class_word;
use super::table::{Align, Cell, Column, Table, cut, plain};
use super::units::{duration, precise, rounded, size};
use super::{now_s, state_word};

/// By what jobs are sorted, the largest first; by number the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// Cores in use.
    #[default]
    Cpu,
    /// Memory held.
    Memory,
    /// Number.
    Number,
}

/// What is to be seen.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    /// Columns.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// The order of jobs.
    pub sort: Sort,
    /// Only jobs whose name or user holds this; empty: all.
    pub filter: String,
    /// The job at which the mark stands, counted from the top.
    pub selected: usize,
    /// Whether codes for colours may be in it.
    pub colour: bool,
}

/// The jobs as the screen has them, in order: what the mark counts.
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
    let then = before?.jobs.iter().find(|then| then.job == job.job)?;
    let span_s = job.seen_s? - then.seen_s?;
    (span_s > 0.0).then(|| ((job.cpu_s.unwrap_or(0.0) - then.cpu_s.unwrap_or(0.0)) / span_s).max(0.0))
}

const fn column(head: &'static str, align: Align, leave_out: u8) -> Column {
    Column { head, align, leave_out }
}

const TOP: [Column; 12] = [
    column("", Align::Left, 0),
    column("JOB", Align::Right, 0),
    column("STATE", Align::Left, 0),
    column("CLASS", Align::Left, 4),
    column("PRI", Align::Right, 6),
    column("CPUS", Align::Left, 5),
    column("CORES", Align::Right, 0),
    column("MEMORY", Align::Right, 0),
    column("OF BUDGET", Align::Left, 3),
    column("SWAP", Align::Right, 7),
    column("TIME", Align::Right, 1),
    column("NAME", Align::Left, 0),
];

/// The screen: at most `height` lines of at most `width` characters.
#[must_use]
pub fn frame(now: &StatusView, before: Option<&StatusView>, screen: &Screen) -> Vec<String> {
    let (slots, memory) = (&now.slots, &now.memory);
    let pressure = memory
        .pressure_full_avg10
        .map_or(String::new(), |full| format!("   stalled for memory {:.1} %", full * 100.0));
    let count = |state| now.jobs.iter().filter(|job| job.state == state).count();
    let part = precise(memory.held_bytes) / precise(memory.budget_bytes.max(1));
    let mut lines = vec![
        format!(
            "{} ({})   slots {} of {}   running {}  frozen {}  queued {}  held {}",
            plain(&now.host),
            plain(&now.mode),
            slots.used,
            slots.total,
            count(JobState::Running),
            count(JobState::Frozen) + count(JobState::Parked),
            count(JobState::Queued),
            count(JobState::Held)
        ),
        format!(
            "memory [{}] {} of {}, swap {}{pressure}",
            bar(part, (screen.width / 4).clamp(10, 40)),
            size(memory.held_bytes),
            size(memory.budget_bytes),
            size(memory.swap_held_bytes)
        ),
    ];
    lines.extend(now.warnings.iter().map(|warning| format!("warning: {}", plain(warning))));
    let filter =
        if screen.filter.is_empty() { String::new() } else { format!("   only {}", plain(&screen.filter)) };
    let by = match screen.sort {
        Sort::Cpu => "cores",
        Sort::Memory => "memory",
        Sort::Number => "number",
    };
    lines.push(format!("by {by}{filter}   c cores  m memory  n number  / filter  up down enter  q quit"));
    lines.iter_mut().for_each(|line| *line = cut(line, screen.width));
    let jobs = shown(now, before, screen);
    let mut table = Table::new(&TOP);
    for (at, job) in jobs.iter().enumerate() {
        table.push(row(job, before, at == screen.selected, memory.budget_bytes));
    }
    let mut text = Vec::new();
    // Writing into memory does not fail.
    let _ = table.write(screen.width, screen.colour, &mut text);
    let text = String::from_utf8_lossy(&text);
    let mut rows = text.lines();
    lines.extend(rows.next().map(str::to_owned));
    let room = screen.height.saturating_sub(lines.len());
    // The marked job stays in sight.
    let first = (screen.selected + 1).saturating_sub(room).min(jobs.len().saturating_sub(room));
    lines.extend(rows.skip(first).take(room).map(str::to_owned));
    lines.truncate(screen.height);
    lines
}

fn row(job: &JobView, before: Option<&StatusView>, selected: bool, budget_bytes: u64) -> Vec<Cell> {
    let until_s = job.ended_s.unwrap_or_else(now_s);
    let held = job.memory_bytes.unwrap_or(0);
    [
        if selected { ">".to_owned() } else { String::new() },
        job.job.to_string(),
        state_word(job.state).to_owned(),
        class_word(job.class).to_owned(),
        job.priority.to_string(),
        job.cpus.clone().unwrap_or_default(),
        cores(job, before).map_or(String::new(), |cores| format!("{cores:.2}")),
        job.memory_bytes.map_or(String::new(), size),
        bar(precise(held) / precise(budget_bytes.max(1)), 12),
        job.swap_bytes.filter(|&bytes| bytes > 0).map_or(String::new(), size),
        duration(until_s - job.started_s.unwrap_or(job.submitted_s)),
        job.name.clone(),
    ]
    .map(|text| Cell::new(&text))
    .into()
}

fn bar(part: f64, width: usize) -> String {
    let filled = usize::try_from(rounded(part.clamp(0.0, 1.0) * precise(width as u64))).unwrap_or(width);
    format!("{}{}", "#".repeat(filled.min(width)), ".".repeat(width - filled.min(width)))
}

/// One job's processes as a screen.
#[must_use]
pub fn process_frame(view: &ReportView, screen: &Screen) -> Vec<String> {
    let mut lines = vec![cut(
        &format!(
            "job {}: {}   {} processes in all   any key: back",
            view.job,
            plain(&view.name),
            view.processes_total
        ),
        screen.width,
    )];
    let mut text = Vec::new();
    let _ = write_ps(std::slice::from_ref(view), screen.width, &mut text);
    lines.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned));
    lines.truncate(screen.height);
    lines
}

const PS: [Column; 9] = [
    column("JOB", Align::Right, 0),
    column("PID", Align::Right, 0),
    column("PARENT", Align::Right, 4),
    column("CLASS", Align::Left, 3),
    column("CPU", Align::Right, 0),
    column("PEAK", Align::Right, 1),
    column("THREADS", Align::Right, 2),
    column("USER", Align::Left, 5),
    column("COMMAND", Align::Left, 0),
];

/// `pinfold ps`: the processes that live, of jobs reported with their processes.
///
/// # Errors
/// Those of `out`.
pub fn write_ps(views: &[ReportView], width: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&PS);
    for view in views {
        let living = view.processes.iter().flatten().filter(|process| process.ended_s.is_none());
        living.for_each(|process| table.push(process_row(view, process)));
    }
    table.write(width, false, out)
}

fn process_row(view: &ReportView, process: &ProcessView) -> Vec<Cell> {
    let command = if process.command.is_empty() { "(new)" } else { &process.command };
    [
        view.job.to_string(),
        process.pid.to_string(),
        process.parent.map_or(String::new(), |parent| parent.to_string()),
        class_word(view.class).to_owned(),
        duration(process.cpu_user_s + process.cpu_system_s),
        size(process.memory_peak_bytes),
        process.threads.to_string(),
        cut(&view.user, 12),
        cut(command, 300),
    ]
    .map(|text| Cell::new(&text))
    .into()
}
