//! Turns rows into the views of `status`, `report` and `batch`, and views into text.
//!
//! JSON is the views unchanged; the text is for users: aligned, in units, never wider than asked, and without
//! terminal escapes, because names and reasons come from users. Absent here: the store, sockets, colours outside a
//! terminal (the caller decides).

mod card;
pub(crate) use card::end;
mod files;
mod host;
mod list;
mod processes;
mod resources;
mod summary;
mod table;
mod top;
pub mod units;

use std::time::SystemTime;

use crate::store::details::{DECISIONS_FIRST, DECISIONS_LAST};
use pinfold_proto::row::{DecisionRow, JobRow, SampleRow};
use pinfold_proto::view::{DecisionView, JobView, PointView, ReportView, VERSION, seconds};
use pinfold_proto::{JobState, Resource};

pub use card::{write_report, write_why};
pub use files::{file_view, write_files};
pub use host::{host_points, write_host};
pub use list::{write_batch, write_host_lines, write_lines, write_status, write_status_at};
pub use processes::{process_view, write_processes, write_threads};
pub use resources::{resource_lines, resources_in_use};
pub use summary::{By, notes, summary, write_summary};
pub use table::{Align, Cell, Column, Table, plain};
pub use top::{
    CoreUse, HostProcess, Load, Past, Screen, Sort, cores_frame, frame, help_frame, process_frame, shown,
    with_said, write_ps, write_ps_all,
};
pub use units::{
    clock_here, counted, date_here, date_utc, duration, parse_date, show_times_in_system_zone, size, total,
    with_dates_here, zone,
};

/// A job for `report`, with its series if `samples` are given. A running job is counted until `now_us`.
#[must_use]
#[expect(clippy::too_many_lines, reason = "a line for each of its fields")]
pub fn report_view(row: &JobRow, samples: Option<&[SampleRow]>, now_us: u64) -> ReportView {
    let over_us = if row.state == JobState::Exited { row.ended_us } else { None };
    let until_us = over_us.unwrap_or(now_us);
    let waited_until_us = row.started_us.unwrap_or(until_us);
    let frozen_us = match (row.frozen_since_us, over_us) {
        (Some(since_us), None) => now_us.saturating_sub(since_us),
        _ => 0,
    };
    let ending = row.ending.as_ref();
    let usage = &row.usage;
    let mut view = ReportView {
        version: VERSION,
        job: row.job,
        name: name(row),
        command: row.spec.command.clone(),
        directory: row.spec.directory.clone(),
        user: row.user.clone(),
        project: row.spec.project.clone(),
        state: row.state,
        class: row.class,
        priority: row.priority,
        cpus: row.cpus.clone(),
        array_id: row.spec.array.and_then(|array| array.array),
        array_index: row.spec.array.map(|array| array.index),
        external: row.spec.external.as_ref().map(ToString::to_string),
        submitted_s: seconds(row.submitted_us),
        started_s: row.started_us.map(seconds),
        ended_s: row.ended_us.map(seconds),
        exit_code: ending.and_then(|ending| ending.exit_code),
        signal: ending.and_then(|ending| ending.signal),
        end: row.end,
        reason: row.reason.clone(),
        timeout_s: row.spec.terms.timeout_us.map(seconds),
        cpu_limit_s: row.spec.terms.cpu_limit_us.map(seconds),
        begin_s: row.spec.terms.begin_us.map(seconds),
        comment: row.spec.terms.comment.clone(),
        output: None,
        error_output: None,
        resources: resources(row),
        queued_s: seconds(waited_until_us.saturating_sub(row.submitted_us)),
        wall_s: row.started_us.map(|started_us| seconds(until_us.saturating_sub(started_us))),
        suspended_s: seconds(row.suspended_us.saturating_add(frozen_us)),
        requeues: row.requeues,
        checkpoints: row.checkpoints,
        cpu_user_s: seconds(usage.cpu_user_us),
        cpu_system_s: seconds(usage.cpu_system_us),
        cores: row.spec.cores,
        claim_bytes: row.spec.claim_bytes,
        input_bytes: row.spec.input_bytes,
        limit_bytes: row.spec.limit_bytes,
        memory_peak_bytes: usage.memory_peak_bytes,
        memory_mean_bytes: usage.memory_mean_bytes,
        cache_peak_bytes: usage.cache_peak_bytes,
        swap_peak_bytes: usage.swap_peak_bytes,
        virtual_peak_bytes: usage.virtual_peak_bytes,
        io_read_bytes: usage.io_read_bytes,
        io_write_bytes: usage.io_write_bytes,
        processes_total: usage.processes_total,
        processes_peak: usage.processes_peak,
        threads_peak: usage.threads_peak,
        samples: usage.samples,
        memory_peak_kernel_bytes: usage.memory_peak_kernel_bytes,
        anonymous_peak_bytes: usage.anonymous_peak_bytes,
        shared_peak_bytes: usage.shared_peak_bytes,
        mapped_peak_bytes: usage.mapped_peak_bytes,
        io_read_calls: usage.counts.io_read_calls,
        io_write_calls: usage.counts.io_write_calls,
        faults_minor: usage.counts.faults_minor,
        faults_major: usage.counts.faults_major,
        switches_voluntary: usage.counts.switches_voluntary,
        switches_forced: usage.counts.switches_forced,
        waited_s: usage.counts.waited_us.map(seconds),
        cpu_stalled_s: usage.stalls.map(|stalls| seconds(stalls.cpu_us)),
        memory_stalled_s: usage.stalls.map(|stalls| seconds(stalls.memory_us)),
        memory_full_stalled_s: usage.stalls.map(|stalls| seconds(stalls.memory_full_us)),
        io_stalled_s: usage.stalls.map(|stalls| seconds(stalls.io_us)),
        io_full_stalled_s: usage.stalls.map(|stalls| seconds(stalls.io_full_us)),
        processes_from: usage.processes_from.word().map(str::to_owned),
        numa: None,
        numa_local: None,
        files: None,
        files_from: None,
        files_left_out: None,
        processes: None,
        threads: None,
        threads_left_out: None,
        series: samples.map(|samples| points(samples, row.started_us)),
        notes: Vec::new(),
    };
    view.notes = notes(&view);
    view
}

/// A job for `status`: its row, and its present memory if it runs.
#[must_use]
pub fn job_view(row: &JobRow, memory_bytes: Option<u64>, swap_bytes: Option<u64>, pids: Vec<u32>) -> JobView {
    let ending = row.ending.as_ref();
    JobView {
        job: row.job,
        name: name(row),
        user: row.user.clone(),
        project: row.spec.project.clone(),
        state: row.state,
        class: row.class,
        priority: row.priority,
        cpus: row.cpus.clone(),
        array_id: row.spec.array.and_then(|array| array.array),
        array_index: row.spec.array.map(|array| array.index),
        external: row.spec.external.as_ref().map(ToString::to_string),
        command: row.spec.line.map(|_| line_text(&row.spec.command)),
        set: row.set(),
        memory_bytes,
        swap_bytes,
        pids,
        cpu_s: None,
        place: None,
        own_nodes: None,
        cpu_cores: None,
        seen_s: None,
        submitted_s: seconds(row.submitted_us),
        started_s: row.started_us.map(seconds),
        ended_s: row.ended_us.map(seconds),
        exit_code: ending.and_then(|ending| ending.exit_code),
        signal: ending.and_then(|ending| ending.signal),
        end: row.end,
        reason: row.reason.clone(),
        timeout_s: row.spec.terms.timeout_us.map(seconds),
        cpu_limit_s: row.spec.terms.cpu_limit_us.map(seconds),
        begin_s: row.spec.terms.begin_us.map(seconds),
        comment: row.spec.terms.comment.clone(),
        output: None,
        error_output: None,
        resources: resources(row),
    }
}

/// The most characters of a line of a list that `status` has.
const LINE_MAX: usize = 200;

/// The text of a line of a list, without the shell that runs it.
fn line_text(command: &[String]) -> String {
    let text = match command {
        [_, option, text] if option == "-c" => text.clone(),
        words => words.join(" "),
    };
    table::cut(&text, LINE_MAX)
}

/// The resources of a job; device numbers only after its start.
fn resources(row: &JobRow) -> Vec<Resource> {
    let numbers = |one: &Resource| if row.started_us.is_some() { one.numbers.clone() } else { Vec::new() };
    let view = |one: &Resource| Resource { numbers: numbers(one), ..Resource::asked(&one.name, one.count) };
    row.spec.terms.resources.iter().map(view).collect()
}

/// A decision for `why`.
#[must_use]
pub fn decision_view(row: &DecisionRow) -> DecisionView {
    let codes = row.codes.as_ref();
    DecisionView {
        time_s: seconds(row.time_us),
        action: row.action.clone(),
        reason: row.reason.clone(),
        text: row.reason.clone(),
        action_code: codes.map(|codes| codes.action.clone()),
        code: codes.map(|codes| codes.reason.clone()),
        figures: codes.map(|codes| codes.figures.clone()).unwrap_or_default(),
    }
}

/// The decisions to show of all stored decisions about a job, and the gap of omitted decisions, in microseconds since
/// the Unix epoch: the last decision before and the first after. `None`: complete.
#[must_use]
pub fn shown_decisions(mut stored: Vec<DecisionRow>) -> (Vec<DecisionRow>, Option<(u64, u64)>) {
    // A row more than is shown: the store has dropped decisions, or would with the next.
    let shown = DECISIONS_FIRST.saturating_add(DECISIONS_LAST);
    let (Ok(first), true) = (usize::try_from(DECISIONS_FIRST), stored.len() as u64 == shown + 1) else {
        return (stored, None);
    };
    stored.remove(first);
    let gap = (stored[first - 1].time_us, stored[first].time_us);
    (stored, Some(gap))
}

/// The series of a job. The cores of the first point are a mean since the start, of later points since the point
/// before.
#[must_use]
pub fn points(samples: &[SampleRow], started_us: Option<u64>) -> Vec<PointView> {
    let mut points = Points::since(started_us);
    samples.iter().map(|sample| points.next(sample)).collect()
}

/// A series built from samples as they come.
#[derive(Debug, Clone, Copy)]
pub struct Points {
    /// Time and CPU time of the point before.
    before: (Option<u64>, u64),
}

impl Points {
    /// The series of a job that started then.
    #[must_use]
    pub const fn since(started_us: Option<u64>) -> Self {
        Self { before: (started_us, 0) }
    }

    /// The next point.
    pub fn next(&mut self, sample: &SampleRow) -> PointView {
        let cpu_us = sample.cpu_user_us.saturating_add(sample.cpu_system_us);
        let span_us = self.before.0.map_or(0, |before_us| sample.time_us.saturating_sub(before_us));
        let used_us = cpu_us.saturating_sub(self.before.1);
        self.before = (Some(sample.time_us), cpu_us);
        PointView {
            time_s: seconds(sample.time_us),
            cpu_cores: if span_us == 0 { 0.0 } else { seconds(used_us) / seconds(span_us) },
            memory_bytes: sample.memory_bytes,
            cache_bytes: sample.cache_bytes,
            swap_bytes: sample.swap_bytes,
            io_read_bytes: sample.io_read_bytes,
            io_write_bytes: sample.io_write_bytes,
            processes: sample.processes,
            threads: sample.threads,
            state: sample.state,
        }
    }
}

fn name(row: &JobRow) -> String {
    if !row.spec.name.is_empty() {
        return row.spec.name.clone();
    }
    let command = row.spec.command.first().map_or("", String::as_str);
    command.rsplit('/').next().unwrap_or(command).to_owned()
}

/// Text of several lines without terminal escapes.
pub(crate) fn plain_lines(text: &str) -> String {
    text.split('\n').map(table::plain).collect::<Vec<_>>().join("\n")
}

/// Now, in Unix seconds, for relative times in text.
fn now_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64())
}

#[cfg(test)]
mod tests;
