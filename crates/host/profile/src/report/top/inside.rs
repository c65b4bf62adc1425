//! A job's processes on a screen.

use std::cmp::Ordering;

use pinfold_proto::view::{ProcessView, ReportView};

use super::super::table::{Table, plain};
use super::super::units::{date_here, duration};
use super::head::{Head, Line, Rows};
use super::{PS, Screen, Sort, filtered, process_row};

/// The screen: at most `height` lines of at most `width` columns. Lists processes that lived at `at_s`, or that live
/// now, with the filter in their command. `selected` counts scrolled lines.
#[must_use]
pub fn process_frame(view: &ReportView, at_s: Option<f64>, screen: &Screen) -> Vec<String> {
    let lived = |process: &&ProcessView| match at_s {
        None => process.ended_s.is_none(),
        Some(at_s) => {
            process.started_s.is_some_and(|started| started <= at_s)
                && process.ended_s.is_none_or(|ended| ended > at_s)
        }
    };
    let all = view.processes.as_deref().unwrap_or(&[]);
    let mut processes: Vec<&ProcessView> = all.iter().filter(lived).collect();
    let count = processes.len();
    processes.retain(|process| process.command.contains(&screen.filter));
    processes.sort_by(|one, other| order(one, other, screen.sort).then(one.number.cmp(&other.number)));
    let moment = at_s.map_or_else(
        || format!("{count} now, {} in all", view.processes_total),
        |at_s| format!("{count} at {}; figures are their last", date_here(at_s)),
    );
    let mut head = Head::default();
    head.push(Line::Moment, format!("job {}: {}   processes: {moment}", view.job, plain(&view.name)));
    let mut table = Table::new(&PS);
    processes.iter().for_each(|process| table.push(process_row(view, process, "")));
    let rows = Rows {
        table: &table,
        what: "processes",
        by: format!("by {}{}", screen.sort.word(), filtered(screen)),
        keys: format!(
            "ran {}, CPU {}   ? help  / filter  up down  q back",
            duration(view.wall_s.unwrap_or(0.0)),
            duration(view.cpu_user_s + view.cpu_system_s)
        ),
    };
    rows.below(head, screen, |room| screen.selected.min(processes.len().saturating_sub(room)))
}

fn order(one: &ProcessView, other: &ProcessView, sort: Sort) -> Ordering {
    let cpu = |process: &ProcessView| process.cpu_user_s + process.cpu_system_s;
    let since = |process: &ProcessView| process.started_s.unwrap_or(f64::INFINITY);
    match sort {
        Sort::Cpu => cpu(other).total_cmp(&cpu(one)),
        Sort::Memory => other.memory_peak_bytes.cmp(&one.memory_peak_bytes),
        Sort::Number => one.pid.cmp(&other.pid),
        Sort::Time => since(one).total_cmp(&since(other)),
    }
}
