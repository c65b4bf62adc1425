//! The cluster as a whole: totals, hosts in order of trouble, its users, and the reasons of waiting jobs. Hosts that
//! are away do not count. Absent here: markup.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pinfold_proto::JobState;
use pinfold_proto::view::{JobView, StatusView};
use serde::Deserialize;

use super::figures::precise;
use crate::hub::HostNow;
use crate::store::Access;

/// The part of the time, with all threads stalled for memory, from which a host is under pressure.
pub(super) const PRESSED: f64 = 0.05;

/// The difference from the hub's clock above which a host's clock is a trouble, in microseconds.
pub(super) const CLOCK_APART_US: u64 = 5_000_000;

/// A host's fault, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    Nothing,
    Warning,
    Pressure,
    Away,
}

/// A host, and the jobs that the viewer may see, by its last status.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub host: &'a HostNow,
    pub trouble: Trouble,
    /// The status while the host is connected.
    pub status: Option<&'a StatusView>,
    pub jobs: Vec<JobView>,
}

impl<'a> Line<'a> {
    pub(super) fn of(host: &'a HostNow, access: &Access) -> Self {
        let status = host.live.as_ref().filter(|_| host.here).map(|live| &live.status);
        let jobs = host.seen_by(access).map(|seen| seen.jobs).unwrap_or_default();
        let mut line = Self { host, trouble: Trouble::Nothing, status, jobs };
        let refused = host.live.as_ref().is_some_and(|live| live.spool.refused > 0);
        let apart = host.clock_ahead_us.is_some_and(|us| us.unsigned_abs() > CLOCK_APART_US);
        line.trouble = match status {
            None => Trouble::Away,
            Some(_) if line.pressure() >= PRESSED => Trouble::Pressure,
            Some(status) if refused || apart || !status.warnings.is_empty() => Trouble::Warning,
            Some(_) => Trouble::Nothing,
        };
        line
    }

    /// Busy cores, and all cores.
    pub(super) fn cores(&self) -> (f64, f64) {
        let Some(status) = self.status else { return (0.0, 0.0) };
        let busy = status.reading.as_ref().and_then(|reading| reading.cpu_busy);
        let all = precise(status.slots.cores);
        (busy.unwrap_or(precise(status.slots.used)).min(all), all)
    }

    /// Memory held by jobs, and memory allowed to jobs.
    pub(super) fn memory(&self) -> (f64, f64) {
        let of =
            |status: &StatusView| (precise(status.memory.held_bytes), precise(status.memory.budget_bytes));
        self.status.map_or((0.0, 0.0), of)
    }

    /// The part of the time with all threads stalled for memory.
    pub(super) fn pressure(&self) -> f64 {
        self.status.and_then(|status| status.memory.pressure_full_avg10).unwrap_or(0.0).clamp(0.0, 1.0)
    }

    /// Number of jobs in these states, also of other users.
    pub(super) fn count(&self, states: &[JobState]) -> usize {
        let jobs = self.status.iter().flat_map(|status| &status.jobs);
        jobs.filter(|job| states.contains(&job.state)).count()
    }
}

pub(super) const RUNNING: &[JobState] = &[JobState::Running];
pub(super) const SUSPENDED: &[JobState] = &[JobState::Frozen, JobState::Parked];
pub(super) const WAITING: &[JobState] = &[JobState::Queued, JobState::Held];

/// The order of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Sort {
    #[default]
    Trouble,
    Host,
    Cores,
    Memory,
    Pressure,
    Running,
    Suspended,
    Waiting,
}

/// Puts hosts in order: names from A on, everything else from the most down, and the other way round if `up`.
pub(super) fn sort(lines: &mut [Line<'_>], by: Sort, up: bool) {
    // Lines come by name, and the sort is stable.
    match by {
        Sort::Trouble => lines.sort_by_key(|line| Reverse(line.trouble)),
        Sort::Host => {}
        Sort::Cores => lines.sort_by(|one, other| other.cores().0.total_cmp(&one.cores().0)),
        Sort::Memory => lines.sort_by(|one, other| other.memory().0.total_cmp(&one.memory().0)),
        Sort::Pressure => lines.sort_by(|one, other| other.pressure().total_cmp(&one.pressure())),
        Sort::Running => lines.sort_by_key(|line| Reverse(line.count(RUNNING))),
        Sort::Suspended => lines.sort_by_key(|line| Reverse(line.count(SUSPENDED))),
        Sort::Waiting => lines.sort_by_key(|line| Reverse(line.count(WAITING))),
    }
    if up {
        lines.reverse();
    }
}

/// Current use of a user or a project.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Use {
    pub jobs: usize,
    pub waiting: usize,
    pub cores: f64,
    pub memory_bytes: u64,
}

/// Users or projects of unfinished jobs, the most memory first.
pub(super) fn used_by<'a>(lines: &'a [Line<'_>], of: impl Fn(&'a JobView) -> &'a str) -> Vec<(&'a str, Use)> {
    let mut found: BTreeMap<&str, Use> = BTreeMap::new();
    for job in lines.iter().filter(|line| line.status.is_some()).flat_map(|line| &line.jobs) {
        let used = found.entry(of(job)).or_default();
        if WAITING.contains(&job.state) {
            used.waiting += 1;
            continue;
        }
        used.jobs += 1;
        used.cores += job.cpu_cores.unwrap_or(0.0);
        used.memory_bytes = used.memory_bytes.saturating_add(job.memory_bytes.unwrap_or(0));
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, used)| Reverse((used.memory_bytes, used.jobs, used.waiting)));
    found
}

/// Waiting jobs with reasons that differ in numbers only, and the job that waits longest.
#[derive(Debug, PartialEq)]
pub(super) struct Wait<'a> {
    pub jobs: usize,
    pub host: &'a str,
    pub first: &'a JobView,
}

/// The reasons why jobs wait, the most frequent first.
pub(super) fn waits<'a>(lines: &'a [Line<'_>]) -> Vec<Wait<'a>> {
    let mut found: BTreeMap<String, Wait<'_>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.status.is_some()) {
        for job in line.jobs.iter().filter(|job| WAITING.contains(&job.state)) {
            let reason = job.reason.as_deref().unwrap_or_default();
            let shape: String = reason.chars().filter(|sign| !sign.is_ascii_digit()).collect();
            let wait = found.entry(shape).or_insert(Wait { jobs: 0, host: &line.host.name, first: job });
            wait.jobs += 1;
            if job.submitted_s < wait.first.submitted_s {
                (wait.host, wait.first) = (&line.host.name, job);
            }
        }
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_by_key(|wait| Reverse(wait.jobs));
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pinfold_hubwire::bundle::{Live, SpoolFigures};
    use serde_json::{Value, json};

    use super::*;

    fn job(job: u64, user: &str, state: &str, more: Value) -> Value {
        let mut view = json!({
            "job": job, "name": "x", "user": user, "project": null, "state": state, "class": "primary", "priority": 10,
            "cpus": null, "memory_bytes": null, "swap_bytes": null, "pids": [], "submitted_s": 100.0, "started_s": null,
            "ended_s": null, "exit_code": null, "signal": null, "reason": null,
        });
        view.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        view
    }

    fn host(name: &str, here: bool, stalled: f64, warnings: &[&str], jobs: &[Value]) -> HostNow {
        let status: StatusView = serde_json::from_value(json!({
            "version": 1, "host": name, "mode": "v2", "slots": { "cores": 4, "factor": 1.0, "total": 4, "used": 9 },
            "memory": { "budget_bytes": 100, "held_bytes": 10, "swap_held_bytes": 0, "pressure_full_avg10": stalled },
            "reading": null, "jobs": jobs, "warnings": warnings,
        }))
        .unwrap();
        let live = Live {
            version: 1,
            boot: String::new(),
            sent_us: 1,
            status,
            spool: SpoolFigures::default(),
            map: None,
            topology: None,
            asked: Vec::new(),
        };
        HostNow {
            id: 1,
            name: name.to_owned(),
            seen_us: Some(1),
            clock_ahead_us: None,
            live: Some(Arc::new(live)),
            here,
        }
    }

    #[test]
    fn hosts_in_trouble_come_first_and_figures_of_a_host_that_is_away_do_not_count() {
        let hosts = [
            host("a", true, 0.0, &[], &[]),
            host("b", true, 0.0, &["its disk is full"], &[]),
            host("c", false, 0.0, &[], &[]),
            host("d", true, 0.3, &["short"], &[]),
            host("e", true, 0.04, &[], &[]),
        ];
        let mut lines: Vec<Line<'_>> = hosts.iter().map(|host| Line::of(host, &Access::All)).collect();
        let names = |lines: &[Line<'_>]| lines.iter().map(|line| line.host.name.as_str()).collect::<String>();
        assert_eq!(
            (lines[2].cores(), lines[0].cores()),
            ((0.0, 0.0), (4.0, 4.0)),
            "no more cores are busy than there are"
        );
        sort(&mut lines, Sort::Trouble, false);
        assert_eq!(names(&lines), "cdbae");
        sort(&mut lines, Sort::Pressure, false);
        assert_eq!(names(&lines), "decba");
        sort(&mut lines, Sort::Pressure, true);
        assert_eq!(names(&lines), "abced");
    }

    #[test]
    fn jobs_that_wait_for_the_same_reason_are_one_row_and_others_jobs_are_not_told() {
        let waits_for =
            |reason: &str, submitted_s: f64| json!({ "reason": reason, "submitted_s": submitted_s });
        let jobs = [
            job(1, "ann", "running", json!({ "memory_bytes": 7, "cpu_cores": 1.5 })),
            job(2, "ann", "queued", waits_for("it asks for 4 slots, and 2 are free", 50.0)),
            job(3, "ann", "queued", waits_for("it asks for 16 slots, and 2 are free", 40.0)),
            job(4, "ann", "held", waits_for("it is held", 60.0)),
            job(5, "bo", "queued", waits_for("it is held", 1.0)),
        ];
        let hosts = [host("a", true, 0.0, &[], &jobs)];
        let own =
            Access::Some(vec![crate::store::Grant { user: Some("ann".to_owned()), ..Default::default() }]);
        let lines: Vec<Line<'_>> = hosts.iter().map(|host| Line::of(host, &own)).collect();
        let told: Vec<(usize, u64)> = waits(&lines).iter().map(|wait| (wait.jobs, wait.first.job)).collect();
        assert_eq!(told, [(2, 3), (1, 4)], "each with the job that waits longest");
        let used = used_by(&lines, |job| &job.user);
        assert_eq!(used, [("ann", Use { jobs: 1, waiting: 3, cores: 1.5, memory_bytes: 7 })]);
        assert_eq!(lines[0].count(WAITING), 4, "the host's own count has all");
    }
}
