//! Groups of jobs: by name, user, project, class or day, with the distribution of each figure, and usage relative to
//! requests.

use std::collections::BTreeMap;
use std::io::{self, Write};

use pinfold_proto::JobState;
use pinfold_proto::view::{GroupView, ReportView, SpreadView, SummaryView, VERSION};

use super::table::{Align, Cell, Column, Table, cut};
use super::units::{date_here, duration, precise, rounded, size, total};

/// The grouping of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Their name.
    Name,
    /// Their user.
    User,
    /// Their project.
    Project,
    /// Their class.
    Class,
    /// The day of the submission, in the zone of this program.
    Day,
}

impl By {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::User => "user",
            Self::Project => "project",
            Self::Class => "class",
            Self::Day => "day",
        }
    }

    fn of(self, view: &ReportView) -> String {
        match self {
            Self::Name => view.name.clone(),
            Self::User => view.user.clone(),
            Self::Project => view.project.clone().unwrap_or_else(|| "(none)".to_owned()),
            Self::Class => format!("{:?}", view.class).to_lowercase(),
            Self::Day => date_here(view.submitted_s).split(' ').next().unwrap_or("").to_owned(),
        }
    }
}

/// Groups jobs. Jobs that never ran count as jobs and have no figures.
#[must_use]
pub fn summary(views: &[ReportView], by: By) -> SummaryView {
    let mut groups: BTreeMap<String, Vec<&ReportView>> = BTreeMap::new();
    for view in views {
        groups.entry(by.of(view)).or_default().push(view);
    }
    let groups = groups.into_iter().map(|(name, views)| group(name, &views)).collect();
    SummaryView { version: VERSION, by: by.as_str().to_owned(), groups }
}

fn group(group: String, views: &[&ReportView]) -> GroupView {
    let ran: Vec<&ReportView> = views.iter().copied().filter(|view| view.started_s.is_some()).collect();
    let over = |view: &&&ReportView| view.state == JobState::Exited;
    let failed = views.iter().filter(over).filter(|view| !view.ended_well()).count();
    let spread_of =
        |figure: &dyn Fn(&ReportView) -> f64| spread(ran.iter().map(|view| figure(view)).collect());
    let claimed: Vec<&ReportView> =
        ran.iter().copied().filter(|view| view.claim_bytes.is_some_and(|claim| claim > 0)).collect();
    let sum =
        |of: &[&ReportView], figure: &dyn Fn(&ReportView) -> f64| total(of.iter().map(|view| figure(view)));
    let part = |used: f64, asked: f64| (asked > 0.0).then(|| used / asked);
    let asked_s = |view: &ReportView| f64::from(view.cores.max(1)) * active_s(view);
    GroupView {
        group,
        jobs: views.len() as u64,
        failed: failed as u64,
        cpu_s: sum(&ran, &cpu_s),
        wall_s: spread_of(&|view| view.wall_s.unwrap_or(0.0)),
        queued_s: spread_of(&|view| view.queued_s),
        cpu_cores: spread_of(&cores),
        memory_peak_bytes: spread_of(&|view| precise(view.memory_peak_bytes)),
        memory_mean_bytes: spread_of(&|view| precise(view.memory_mean_bytes)),
        cores_used_part: part(sum(&ran, &cpu_s), sum(&ran, &asked_s)),
        claim_used_part: part(
            sum(&claimed, &|view| precise(view.memory_peak_bytes)),
            sum(&claimed, &|view| precise(view.claim_bytes.unwrap_or(0))),
        ),
    }
}

fn cpu_s(view: &ReportView) -> f64 {
    view.cpu_user_s + view.cpu_system_s
}

/// Run time without frozen time.
fn active_s(view: &ReportView) -> f64 {
    (view.wall_s.unwrap_or(0.0) - view.suspended_s).max(0.0)
}

fn cores(view: &ReportView) -> f64 {
    let active_s = active_s(view);
    if active_s > 0.0 { cpu_s(view) / active_s } else { 0.0 }
}

/// `None` without figures.
fn spread(mut figures: Vec<f64>) -> Option<SpreadView> {
    figures.sort_by(f64::total_cmp);
    let last = figures.len().checked_sub(1)?;
    // The nearest existing figure, so that each figure shown belongs to a job.
    let at = |percent: usize| figures[(last * percent + 50) / 100];
    let mean = figures.iter().sum::<f64>() / precise(figures.len() as u64);
    Some(SpreadView { least: at(0), median: at(50), p90: at(90), most: at(100), mean })
}

const fn column(head: &'static str, align: Align, leave_out: u8) -> Column {
    Column { head, align, leave_out }
}

const SUMMARY: [Column; 11] = [
    column("JOBS", Align::Right, 0),
    column("FAILED", Align::Right, 2),
    column("CPU", Align::Right, 3),
    column("RAN median", Align::Right, 1),
    column("p90", Align::Right, 6),
    column("MEMORY median", Align::Right, 1),
    column("p90", Align::Right, 5),
    column("peak", Align::Right, 0),
    column("CORES used", Align::Right, 4),
    column("CLAIM used", Align::Right, 4),
    column("", Align::Left, 0),
];

/// A summary as text.
///
/// # Errors
/// When `out` fails.
pub fn write_summary(view: &SummaryView, width: usize, out: &mut dyn Write) -> io::Result<()> {
    if view.groups.is_empty() {
        return writeln!(out, "no jobs");
    }
    let mut table = Table::new(&SUMMARY);
    let percent = |part: Option<f64>| part.map_or(String::new(), |part| format!("{:.0} %", part * 100.0));
    let time = |spread: Option<SpreadView>, of: fn(SpreadView) -> f64| {
        spread.map_or(String::new(), |spread| duration(of(spread)))
    };
    let bytes = |spread: Option<SpreadView>, of: fn(SpreadView) -> f64| {
        spread.map_or(String::new(), |spread| size(rounded(of(spread))))
    };
    for group in &view.groups {
        table.push(
            [
                group.jobs.to_string(),
                group.failed.to_string(),
                duration(group.cpu_s),
                time(group.wall_s, |spread| spread.median),
                time(group.wall_s, |spread| spread.p90),
                bytes(group.memory_peak_bytes, |spread| spread.median),
                bytes(group.memory_peak_bytes, |spread| spread.p90),
                bytes(group.memory_peak_bytes, |spread| spread.most),
                percent(group.cores_used_part),
                percent(group.claim_used_part),
                cut(&group.group, 60),
            ]
            .map(|text| Cell::new(&text))
            .into(),
        );
    }
    table.write(width, false, out)
}

/// Least run time in seconds for notes: shorter runs say little about the next.
const JUDGED_S: f64 = 10.0;
/// A claim is too large when less than this part was used.
const CLAIM_LOW: f64 = 0.5;
/// Cores are idle when less than this part was used.
const CORES_LOW: f64 = 0.5;
/// The size for the next time follows from all runs of the class, not from a single run.
const ADVISE: &str = "`pinfold advise` says what to ask for";
/// Stalls are mentioned from this part of the run on.
const STALL_PART: f64 = 0.2;

/// Notes on a finished job's requests and usage, in plain words: a fact, its cost, and the option for the next time.
/// Empty if requests and usage fit.
#[must_use]
pub fn notes(view: &ReportView) -> Vec<String> {
    let active_s = active_s(view);
    if view.state != JobState::Exited || active_s < JUDGED_S {
        return Vec::new();
    }
    let mut notes = Vec::new();
    let (asked, used) = (f64::from(view.cores.max(1)), cores(view));
    if view.cores > 1 && used < asked * CORES_LOW {
        let better = rounded(used.ceil()).max(1);
        notes.push(format!(
            "it asked for {asked:.0} cores and used {used:.1} on average; others waited for the rest: -c {better} would do"
        ));
    } else if used > asked * 1.25 {
        notes.push(format!(
            "it asked for {asked:.0} {} and kept {used:.1} busy: -c {} would give it its own",
            if view.cores == 1 { "core" } else { "cores" },
            rounded(used.ceil())
        ));
    }
    let peak = precise(view.memory_peak_bytes);
    match view.claim_bytes.filter(|&claim| claim > 0) {
        Some(claim) if peak > precise(claim) => notes.push(format!(
            "it claimed {} and held {}: it may be stopped for want of memory next time; {ADVISE}",
            size(claim),
            size(view.memory_peak_bytes)
        )),
        Some(claim) if peak < precise(claim) * CLAIM_LOW && claim > 64 << 20 => notes.push(format!(
            "it claimed {} and held {} at most; the rest was kept from others; {ADVISE}",
            size(claim),
            size(view.memory_peak_bytes)
        )),
        _ => {}
    }
    let stalls = [("memory", view.memory_stalled_s), ("storage", view.io_stalled_s)];
    for (what, stalled_s) in stalls {
        let part = stalled_s.unwrap_or(0.0) / active_s;
        if part >= STALL_PART {
            notes.push(format!(
                "some of it waited for {what} during {:.0} % of the time it ran",
                part * 100.0
            ));
        }
    }
    notes
}
