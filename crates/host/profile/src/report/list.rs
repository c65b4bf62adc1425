//! Many jobs as a table: `status` and the end of `batch`.

use std::io::{self, Write};

use pinfold_proto::array::called;
use pinfold_proto::view::{BatchResultView, BatchView, JobView, ProjectView, ReportView, StatusView};
use pinfold_proto::{End, JobState};

use super::now_s;
use super::resources::resources_in_use;
use super::table::{Align, Cell, Column, Table, cut, plain};
use super::units::{counted, duration, precise, size, total, with_dates_here};

/// Batches of up to this many results are shown whole; larger batches in part.
const RESULTS_MAX: usize = 40;

/// How many of the failed and how many of the longest are shown of a large batch.
const RESULTS_PICKED: usize = 10;

/// `pinfold status` as text, in lines of up to `width` characters.
///
/// # Errors
/// When `out` fails.
pub fn write_status(view: &StatusView, width: usize, colour: bool, out: &mut dyn Write) -> io::Result<()> {
    write_status_at(view, now_s(), width, colour, out)
}

/// [`write_status`] at a given time in Unix seconds.
///
/// # Errors
/// When `out` fails.
pub fn write_status_at(
    view: &StatusView,
    now_s: f64,
    width: usize,
    colour: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let head = head(view);
    let mut line = String::new();
    for part in &head {
        if !line.is_empty() && line.chars().count() + 3 + part.chars().count() > width {
            writeln!(out, "{}", cut(&line, width))?;
            line.clear();
        }
        if !line.is_empty() {
            line.push_str("   ");
        }
        line.push_str(part);
    }
    writeln!(out, "{}", cut(&line, width))?;
    if view.draining {
        writeln!(out, "draining: nothing new starts until `pinfold admin undrain`")?;
    }
    if let Some(neighbours) = view.neighbours.as_ref().filter(|neighbours| neighbours.users > 1) {
        writeln!(out, "{}", cut(&neighbours.to_string(), width))?;
    }
    for warning in &view.warnings {
        let warning = format!("warning: {}", plain(warning));
        if colour { writeln!(out, "\x1b[33m{warning}\x1b[0m")? } else { writeln!(out, "{warning}")? }
    }
    for project in &view.projects {
        writeln!(out, "{}", cut(&project_line(project), width))?;
    }
    if view.jobs.is_empty() {
        return writeln!(out, "no jobs");
    }
    let mut table = Table::new(&STATUS);
    view.jobs.iter().for_each(|job| table.push(status_row(job, now_s)));
    table.write(width, colour, out)
}

fn head(view: &StatusView) -> Vec<String> {
    let (slots, memory) = (&view.slots, &view.memory);
    let mut held = format!("memory {} of {}", size(memory.held_bytes), size(memory.budget_bytes));
    if memory.swap_held_bytes > 0 {
        held.push_str(&format!(", swap {}", size(memory.swap_held_bytes)));
    }
    let mut parts = vec![
        format!("{} ({})", plain(&view.host), plain(&view.mode)),
        format!(
            "slots {} of {} ({} x {})",
            slots.used,
            slots.total,
            counted(slots.cores, "core"),
            slots.factor
        ),
        held,
    ];
    if let Some(full) = memory.pressure_full_avg10 {
        parts.push(format!("memory pressure full {:.1} %", full * 100.0));
    }
    parts.extend(resources_in_use(&view.resources));
    parts.extend(other_load(view));
    parts
}

/// Load of processes that are no jobs, if significant.
pub(super) fn other_load(view: &StatusView) -> Option<String> {
    let load = view.other_load.filter(|load| load.slots_withheld > 0 || load.cores >= 0.5)?;
    let memory = load.memory_bytes.map_or(String::new(), |bytes| format!(" and {}", size(bytes)));
    let fewer = match load.slots_withheld {
        0 => String::new(),
        1 => ", 1 slot is left to them".to_owned(),
        slots => format!(", {slots} slots are left to them"),
    };
    Some(format!("other processes use {:.1} cores{memory}{fewer}", load.cores))
}

/// A project's usage and guarantees.
fn project_line(project: &ProjectView) -> String {
    let name = project
        .project
        .as_ref()
        .map_or_else(|| "no project".to_owned(), |name| format!("project {}", plain(name)));
    let part = |used: String, own: Option<String>, borrowed: Option<String>, owed: Option<String>| {
        let own = own.map_or_else(String::new, |own| format!(" of its {own}"));
        let more: Vec<String> =
            [borrowed.map(|b| format!("{b} borrowed")), owed.map(|o| format!("{o} owed"))]
                .into_iter()
                .flatten()
                .collect();
        let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
        format!("{used}{own}{more}")
    };
    let some = |amount: u64| Some(amount).filter(|&amount| amount > 0);
    let cores = part(
        project.cores_used.to_string(),
        project.cores_guaranteed.map(|cores| cores.to_string()),
        project.cores_borrowed.and_then(some).map(|cores| cores.to_string()),
        some(project.cores_owed).map(|cores| cores.to_string()),
    );
    let memory = part(
        size(project.memory_used_bytes),
        project.memory_guaranteed_bytes.map(size),
        project.memory_borrowed_bytes.and_then(some).map(size),
        some(project.memory_owed_bytes).map(size),
    );
    let waiting = match project.jobs_waiting {
        0 => String::new(),
        1 => ", 1 waits".to_owned(),
        waiting => format!(", {waiting} wait"),
    };
    format!("{name}: cores {cores}   memory {memory}   jobs {}{waiting}", project.jobs_started)
}

const fn column(head: &'static str, align: Align, leave_out: u8) -> Column {
    Column { head, align, leave_out }
}

const STATUS: [Column; 11] = [
    column("JOB", Align::Right, 0),
    column("STATE", Align::Left, 0),
    column("CLASS", Align::Left, 4),
    column("PRI", Align::Right, 6),
    column("CPUS", Align::Left, 5),
    column("MEMORY", Align::Right, 2),
    column("SWAP", Align::Right, 7),
    column("TIME", Align::Right, 1),
    column("USER", Align::Left, 8),
    column("NAME", Align::Left, 0),
    column("WHY", Align::Left, 3),
];

/// A job's number; for a member of an array, its name.
pub(super) fn number(job: &JobView) -> String {
    called(job.job, job.array_id, job.array_index)
}

fn status_row(job: &JobView, now_s: f64) -> Vec<Cell> {
    let optional = |text: Option<&str>| Cell::new(text.unwrap_or(""));
    let bytes = |bytes: Option<u64>| Cell::new(&bytes.map_or(String::new(), size));
    vec![
        Cell::new(&number(job)),
        Cell::coloured(&state_text(job), state_colour(job)),
        Cell::new(&class_text(job)),
        Cell::new(&job.priority.to_string()),
        optional(job.cpus.as_deref()),
        bytes(job.memory_bytes),
        bytes(job.swap_bytes.filter(|&bytes| bytes > 0)),
        Cell::new(&since(job, now_s)),
        Cell::new(&cut(&job.user, 12)),
        // A line of a list is known by its command.
        Cell::new(&cut(job.external.as_ref().or(job.command.as_ref()).unwrap_or(&job.name), 32)),
        optional(job.reason.as_deref().map(with_dates_here).as_deref()),
    ]
}

/// A job's class; a job in a set shows the set, because it has the set's cores whatever its class.
pub(super) fn class_text(job: &JobView) -> String {
    job.set.as_ref().map_or_else(|| job.class.word().to_owned(), |set| format!("in {}", plain(set)))
}

/// How long the job has waited, runs or ran, depending on its state.
fn since(job: &JobView, now_s: f64) -> String {
    let until_s = job.ended_s.unwrap_or(now_s);
    duration(until_s - job.started_s.unwrap_or(job.submitted_s))
}

/// The state of an ended job that never ran.
const NOT_RUN: &str = "not run";

fn state_text(job: &JobView) -> String {
    match (job.state, job.signal, job.exit_code) {
        // A program may exit with 0 on the signal.
        (JobState::Exited, ..) if let (Some(end), Some(0)) = (job.end, job.exit_code) => {
            end.as_str().to_owned()
        }
        (JobState::Exited, Some(signal), _) => format!("signal {signal}"),
        (JobState::Exited, None, Some(code)) => format!("exited {code}"),
        (JobState::Exited, None, None) if job.started_s.is_none() => NOT_RUN.to_owned(),
        (state, _, _) => state.word().to_owned(),
    }
}

pub(super) fn state_colour(job: &JobView) -> &'static str {
    match job.state {
        JobState::Running => "32",
        JobState::Queued => "33",
        JobState::Held => "35",
        JobState::Frozen | JobState::Parked => "36",
        JobState::Exited if job.ended_well() => "2",
        JobState::Exited => "31",
    }
}

/// Measured jobs, a line each.
///
/// # Errors
/// When `out` fails.
pub fn write_lines(reports: &[ReportView], width: usize, out: &mut dyn Write) -> io::Result<()> {
    if reports.is_empty() {
        return writeln!(out, "no jobs");
    }
    let mut table = Table::new(&REPORT);
    reports.iter().for_each(|report| table.push(report_row(report)));
    table.write(width, false, out)
}

/// As [`write_lines`], for jobs of several hosts, each with the name of its host.
///
/// # Errors
/// When `out` fails.
pub fn write_host_lines(
    reports: &[(&str, &ReportView)],
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    if reports.is_empty() {
        return writeln!(out, "no jobs");
    }
    let mut columns = vec![column("HOST", Align::Left, 0)];
    columns.extend(REPORT);
    let mut table = Table::new(&columns);
    for (host, report) in reports {
        let mut row = vec![Cell::new(&plain(host))];
        row.extend(report_row(report));
        table.push(row);
    }
    table.write(width, false, out)
}

fn report_row(report: &ReportView) -> Vec<Cell> {
    let end = match (report.end, report.signal, report.exit_code) {
        // The cause says more than its signal.
        (Some(end), ..) => end.as_str().to_owned(),
        (None, Some(signal), _) => format!("signal {signal}"),
        (None, None, Some(code)) => format!("exit {code}"),
        (None, None, None) if report.state == JobState::Exited && report.started_s.is_none() => {
            NOT_RUN.to_owned()
        }
        (None, None, None) => report.state.word().to_owned(),
    };
    vec![
        Cell::new(&called(report.job, report.array_id, report.array_index)),
        Cell::new(&plain(&report.user)),
        Cell::new(&end),
        Cell::new(&duration(report.queued_s)),
        Cell::new(&report.wall_s.map_or_else(String::new, duration)),
        Cell::new(&duration(report.cpu_user_s + report.cpu_system_s)),
        Cell::new(&size(report.memory_peak_bytes)),
        Cell::new(&plain(&report.name)),
        Cell::new(&plain(&report.command.join(" "))),
    ]
}

const REPORT: [Column; 9] = [
    column("JOB", Align::Right, 0),
    column("USER", Align::Left, 3),
    column("END", Align::Left, 0),
    column("QUEUED", Align::Right, 2),
    column("RAN", Align::Right, 0),
    column("CPU", Align::Right, 1),
    column("MEMORY", Align::Right, 1),
    column("NAME", Align::Left, 0),
    column("COMMAND", Align::Left, 4),
];

/// The end of `pinfold batch` as text: failures with their causes, then a table. A large batch shows failed and
/// longest jobs, and the distribution of all.
///
/// # Errors
/// When `out` fails.
pub fn write_batch(view: &BatchView, out: &mut dyn Write) -> io::Result<()> {
    write_failures(view, out)?;
    let picked = pick(&view.results);
    if !picked.is_empty() {
        let mut table = Table::new(&BATCH);
        picked.iter().for_each(|result| table.push(batch_row(result)));
        table.write(120, false, out)?;
    }
    if picked.len() < view.results.len() {
        writeln!(out, "(of {} jobs: the first that failed, and the longest)", view.results.len())?;
        for (what, text) in [
            ("ran", spread(&view.results, |result| result.wall_s, duration)),
            ("CPU", spread(&view.results, |result| result.cpu_s, duration)),
            (
                "memory",
                spread(
                    &view.results,
                    |result| precise(result.memory_peak_bytes),
                    |b| size(super::units::rounded(b)),
                ),
            ),
        ] {
            writeln!(out, "{what:<7} {text}")?;
        }
    }
    let cpu_s = total(view.results.iter().map(|result| result.cpu_s));
    let cores = if view.makespan_s > 0.0 { cpu_s / view.makespan_s } else { 0.0 };
    writeln!(
        out,
        "{}, {} failed, in {}; {} of CPU time, {cores:.2} cores busy on average",
        counted(view.jobs, "job"),
        view.failed,
        duration(view.makespan_s),
        duration(cpu_s)
    )
}

/// The failures, each with its line, command, cause, and output file.
fn write_failures(view: &BatchView, out: &mut dyn Write) -> io::Result<()> {
    let failed = view.results.iter().filter(|result| !result.ended_well());
    for result in failed.take(RESULTS_PICKED) {
        write!(out, "line {} failed: {}", result.line, batch_end(result))?;
        if let Some(reason) = &result.reason {
            write!(out, ", {}", plain(reason))?;
        }
        if result.attempts > 1 {
            write!(out, ", {} attempts", result.attempts)?;
        }
        writeln!(out, ": {}", cut(&plain(&result.command), 120))?;
        if let Some(file) = &result.output {
            let other = file.strip_suffix(".out").map(|stem| format!(", {stem}.err")).unwrap_or_default();
            writeln!(out, "    output: {}", plain(&format!("{file}{other}")))?;
        }
    }
    let more = usize::try_from(view.failed).unwrap_or(usize::MAX).saturating_sub(RESULTS_PICKED);
    if more > 0 {
        writeln!(out, "and {more} more that failed; --json has them all")?;
    }
    Ok(())
}

fn batch_end(result: &BatchResultView) -> String {
    match (result.end, result.signal, result.exit_code) {
        // The cause says more than its signal.
        (Some(end), ..) if end != End::Dependency => end.as_str().to_owned(),
        (_, Some(signal), _) => format!("signal {signal}"),
        (_, None, Some(code)) => format!("exit {code}"),
        (_, None, None) => NOT_RUN.to_owned(),
    }
}

const BATCH: [Column; 9] = [
    column("LINE", Align::Right, 0),
    column("JOB", Align::Right, 1),
    column("END", Align::Left, 0),
    column("QUEUED", Align::Right, 2),
    column("RAN", Align::Right, 0),
    column("FROZEN", Align::Right, 2),
    column("CPU", Align::Right, 1),
    column("MEMORY", Align::Right, 1),
    column("COMMAND", Align::Left, 0),
];

fn batch_row(result: &BatchResultView) -> Vec<Cell> {
    let end = batch_end(result);
    let frozen = if result.suspended_s > 0.0 { duration(result.suspended_s) } else { String::new() };
    vec![
        Cell::new(&result.line.to_string()),
        Cell::new(&result.job.map_or(String::new(), |job| job.to_string())),
        Cell::new(&end),
        Cell::new(&duration(result.queued_s)),
        Cell::new(&duration(result.wall_s)),
        Cell::new(&frozen),
        Cell::new(&duration(result.cpu_s)),
        Cell::new(&size(result.memory_peak_bytes)),
        Cell::new(&result.command),
    ]
}

/// The results to show, in the order of the lines.
fn pick(results: &[BatchResultView]) -> Vec<&BatchResultView> {
    if results.len() <= RESULTS_MAX {
        return results.iter().collect();
    }
    let failed = |result: &&BatchResultView| !result.ended_well();
    let mut picked: Vec<&BatchResultView> = results.iter().filter(failed).take(RESULTS_PICKED).collect();
    let mut longest: Vec<&BatchResultView> = results.iter().collect();
    longest.sort_by(|one, other| other.wall_s.total_cmp(&one.wall_s).then(one.line.cmp(&other.line)));
    picked.extend(longest.into_iter().take(RESULTS_PICKED));
    picked.sort_by_key(|result| result.line);
    picked.dedup_by_key(|result| result.line);
    picked
}

/// Minimum, median, p90 and maximum of a figure.
fn spread(
    results: &[BatchResultView],
    figure: impl Fn(&BatchResultView) -> f64,
    text: impl Fn(f64) -> String,
) -> String {
    let mut figures: Vec<f64> = results.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    let at = |tenths: usize| text(figures[(figures.len() - 1) * tenths / 10]);
    format!("min {}, median {}, p90 {}, max {}", at(0), at(5), at(9), at(10))
}
