//! What a monitoring system is told: the host and its running jobs as OpenMetrics text, version 1.0.0.
//!
//! Pure: figures in, text out. The number of series is bounded: a fixed set for the host, [`PROJECT_SERIES`] for each of
//! at most [`PROJECTS_MAX`] projects, and [`JOB_SERIES`] for each job that it is given. Names, their units and meaning are
//! in `docs/metrics.md`, which a test holds against this module. Absent here: sockets, and which jobs are told of.

use std::fmt::Write as _;

use pinfold_proto::JobState;
use pinfold_proto::view::{ProjectView, seconds};

use crate::report::state_word;
use crate::report::units::precise;

/// What the text is, for the header of an answer.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How many series a job has at most.
pub const JOB_SERIES: usize = 12;

/// How many series a project has at most,
pub const PROJECT_SERIES: usize = 10;

/// and for how many projects there are any; the jobs of no project count as one.
pub const PROJECTS_MAX: usize = 100;

/// The most bytes of a label's value: a job's name may be as long as its user likes.
const LABEL_BYTES_MAX: usize = 128;

/// How long jobs took to stand still for want of memory, from the moment at which it was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FreezeFigures {
    /// How often,
    pub count: u64,
    /// and all of them together.
    pub sum_us: u64,
    /// Half of the last took at most so long,
    pub half_us: u64,
    /// and all but one in a thousand.
    pub most_us: u64,
}

/// How long turns of the daemon's loop took since it started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoopFigures {
    /// So many took at most so many microseconds, by ascending bounds: those of a bound count for all beyond it.
    pub within: Vec<(u64, u64)>,
    /// How many there were,
    pub count: u64,
    /// and all of them together.
    pub sum_us: u64,
    /// The longest of all,
    pub longest_us: u64,
    /// and of the last minute.
    pub last_minute_us: u64,
}

/// The host as it is told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostFigures {
    /// The daemon's version.
    pub version: String,
    /// The host's name.
    pub host: String,
    /// `v2`, `hybrid` or `rootless`.
    pub mode: String,
    /// Cores that jobs may use.
    pub cores: u64,
    /// All slots.
    pub slots: u64,
    /// Slots in use.
    pub slots_used: u64,
    /// Whether nothing new starts.
    pub draining: bool,
    /// Jobs that are not over, by state.
    pub jobs: Vec<(JobState, u64)>,
    /// Jobs that ended since the daemon started, by how: `succeeded`, `failed`, `killed`, `not_started`.
    pub ended: [(&'static str, u64); 4],
    /// What all jobs together may hold.
    pub memory_budget_bytes: u64,
    /// What they hold.
    pub memory_held_bytes: u64,
    /// What they have in swap.
    pub swap_held_bytes: u64,
    /// Jobs frozen for want of memory.
    pub freezes: FreezeFigures,
    /// Stalls of the whole host since it came up: resource, `some` or `full`, microseconds.
    pub stalled: Vec<(&'static str, &'static str, u64)>,
    /// Turns of the daemon's loop.
    pub turns: LoopFigures,
    /// The size of the job store with its log.
    pub store_bytes: u64,
    /// Whether it can be written.
    pub store_writable: bool,
    /// Processor time that the daemon has used.
    pub daemon_cpu_us: u64,
    /// Resident size of the daemon.
    pub daemon_resident_bytes: u64,
    /// Running jobs that are left out, because there are more than are told of.
    pub jobs_left_out: u64,
    /// What projects have, where any is configured; the jobs of no project are told of by an empty name.
    pub projects: Vec<ProjectView>,
}

/// One running job as it is told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobFigures {
    /// Its number.
    pub job: u64,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// Its project; empty: none.
    pub project: String,
    /// `primary`, `backfill` or `exclusive`.
    pub class: String,
    /// User time.
    pub cpu_user_us: u64,
    /// System time.
    pub cpu_system_us: u64,
    /// Anonymous and shared memory.
    pub memory_bytes: u64,
    /// The most of it.
    pub memory_peak_bytes: u64,
    /// Page cache, where it is told apart.
    pub cache_bytes: Option<u64>,
    /// Swap.
    pub swap_bytes: u64,
    /// Bytes read from storage.
    pub io_read_bytes: u64,
    /// Bytes written to storage.
    pub io_write_bytes: u64,
    /// Processes.
    pub processes: u64,
    /// How long it was frozen.
    pub suspended_us: u64,
    /// Whether it stands still.
    pub frozen: bool,
}

/// Name, type, unit and help of a family; the order here is the order of the text.
type Family = (&'static str, &'static str, &'static str, &'static str);

const HOST: [Family; 18] = [
    ("pinfold", "info", "", "the daemon and its host"),
    ("pinfold_cores", "gauge", "", "cores that jobs may use"),
    ("pinfold_slots", "gauge", "", "slots there are"),
    ("pinfold_slots_used", "gauge", "", "slots in use"),
    ("pinfold_draining", "gauge", "", "1 while nothing new starts"),
    ("pinfold_jobs", "gauge", "", "jobs that are not over, by state"),
    ("pinfold_jobs_ended", "counter", "", "jobs that ended since the daemon started, by how they ended"),
    ("pinfold_jobs_left_out", "gauge", "", "running jobs without series of their own"),
    ("pinfold_memory_budget_bytes", "gauge", "bytes", "what all jobs together may hold in RAM"),
    ("pinfold_memory_held_bytes", "gauge", "bytes", "anonymous and shared memory that all jobs hold"),
    ("pinfold_swap_held_bytes", "gauge", "bytes", "what all jobs have in swap"),
    (
        "pinfold_freeze_seconds",
        "summary",
        "seconds",
        "time until a job frozen for want of memory stood still, from the moment at which it was noticed",
    ),
    ("pinfold_stalled_seconds", "counter", "seconds", "time the whole host was stalled, by resource (PSI)"),
    ("pinfold_store_bytes", "gauge", "bytes", "size of the job store with its log"),
    ("pinfold_store_writable", "gauge", "", "1 while the job store can be written"),
    ("pinfold_daemon_cpu_seconds", "counter", "seconds", "processor time that the daemon used"),
    (
        "pinfold_loop_turn_seconds",
        "histogram",
        "seconds",
        "turns of the daemon's loop since it started, from one wait for events to the next",
    ),
    (
        "pinfold_loop_turn_longest_seconds",
        "gauge",
        "seconds",
        "the longest turn of the daemon's loop, since it started and of the last minute",
    ),
];

const RESIDENT: Family =
    ("pinfold_daemon_resident_bytes", "gauge", "bytes", "memory that the daemon holds, file pages included");

const PROJECTS_LEFT_OUT: Family =
    ("pinfold_projects_left_out", "gauge", "", "projects without series of their own");

const PROJECT: [Family; 9] = [
    ("pinfold_project_cores_guaranteed", "gauge", "", "cores that are a project's own when it wants them"),
    ("pinfold_project_cores_used", "gauge", "", "home cores that a project's jobs have"),
    ("pinfold_project_cores_borrowed", "gauge", "", "of these, cores that are lent to it"),
    ("pinfold_project_cores_owed", "gauge", "", "cores that are its own, that it wants and does not have"),
    (
        "pinfold_project_memory_guaranteed_bytes",
        "gauge",
        "bytes",
        "memory that is a project's own when it wants it",
    ),
    (
        "pinfold_project_memory_used_bytes",
        "gauge",
        "bytes",
        "memory that a project's jobs hold, swap included",
    ),
    ("pinfold_project_memory_borrowed_bytes", "gauge", "bytes", "of that, memory that is lent to it"),
    (
        "pinfold_project_memory_owed_bytes",
        "gauge",
        "bytes",
        "memory that is its own, that its next job waits for and does not have",
    ),
    (
        "pinfold_project_jobs",
        "gauge",
        "",
        "jobs of a project that are not over, by whether they have started",
    ),
];

const JOB: [Family; 10] = [
    ("pinfold_job", "info", "", "a running job"),
    ("pinfold_job_cpu_seconds", "counter", "seconds", "processor time of a job, by mode"),
    ("pinfold_job_memory_bytes", "gauge", "bytes", "anonymous and shared memory of a job"),
    ("pinfold_job_memory_peak_bytes", "gauge", "bytes", "the most of that so far"),
    ("pinfold_job_cache_bytes", "gauge", "bytes", "page cache charged to a job"),
    ("pinfold_job_swap_bytes", "gauge", "bytes", "what a job has in swap"),
    ("pinfold_job_io_bytes", "counter", "bytes", "bytes of a job from and to storage"),
    ("pinfold_job_processes", "gauge", "", "processes of a job"),
    (
        "pinfold_job_suspended_seconds",
        "counter",
        "seconds",
        "time that a job stood still, finished intervals",
    ),
    ("pinfold_job_frozen", "gauge", "", "1 while a job is suspended"),
];

/// The text, whole with its end mark.
#[must_use]
pub fn text(host: &HostFigures, jobs: &[JobFigures]) -> String {
    let mut out = String::with_capacity(4096 + jobs.len() * 1024);
    for family in HOST {
        head(&mut out, family);
        host_lines(&mut out, family.0, host);
    }
    if host.daemon_resident_bytes > 0 {
        head(&mut out, RESIDENT);
        line(&mut out, RESIDENT.0, &[], precise(host.daemon_resident_bytes));
    }
    if !host.projects.is_empty() {
        let told = &host.projects[..host.projects.len().min(PROJECTS_MAX)];
        head(&mut out, PROJECTS_LEFT_OUT);
        line(&mut out, PROJECTS_LEFT_OUT.0, &[], precise((host.projects.len() - told.len()) as u64));
        for family in PROJECT {
            head(&mut out, family);
            told.iter().for_each(|project| project_lines(&mut out, family.0, project));
        }
    }
    for family in JOB {
        head(&mut out, family);
        jobs.iter().for_each(|job| job_lines(&mut out, family.0, job));
    }
    out.push_str("# EOF\n");
    out
}

fn head(out: &mut String, (name, kind, unit, help): Family) {
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let _ = writeln!(out, "# HELP {name} {help}");
}

fn host_lines(out: &mut String, name: &'static str, host: &HostFigures) {
    let one = |yes: bool| if yes { 1.0 } else { 0.0 };
    let value = match name {
        "pinfold" => {
            let labels =
                [("version", host.version.as_str()), ("host", host.host.as_str()), ("mode", &host.mode)];
            return line(out, "pinfold_info", &labels, 1.0);
        }
        "pinfold_jobs" => {
            for &(state, count) in &host.jobs {
                line(out, name, &[("state", state_word(state))], precise(count));
            }
            return;
        }
        "pinfold_jobs_ended" => {
            for (how, count) in host.ended {
                line(out, "pinfold_jobs_ended_total", &[("how", how)], precise(count));
            }
            return;
        }
        "pinfold_stalled_seconds" => {
            for &(resource, who, us) in &host.stalled {
                let labels = [("resource", resource), ("who", who)];
                line(out, "pinfold_stalled_seconds_total", &labels, seconds(us));
            }
            return;
        }
        "pinfold_freeze_seconds" => {
            let FreezeFigures { count, sum_us, half_us, most_us } = host.freezes;
            for (quantile, us) in [("0.5", half_us), ("0.999", most_us)].into_iter().filter(|_| count > 0) {
                line(out, name, &[("quantile", quantile)], seconds(us));
            }
            line(out, "pinfold_freeze_seconds_count", &[], precise(count));
            return line(out, "pinfold_freeze_seconds_sum", &[], seconds(sum_us));
        }
        "pinfold_daemon_cpu_seconds" => {
            return line(out, "pinfold_daemon_cpu_seconds_total", &[], seconds(host.daemon_cpu_us));
        }
        "pinfold_loop_turn_seconds" => return turn_lines(out, name, &host.turns),
        "pinfold_loop_turn_longest_seconds" => {
            line(out, name, &[("since", "start")], seconds(host.turns.longest_us));
            return line(out, name, &[("since", "minute")], seconds(host.turns.last_minute_us));
        }
        "pinfold_cores" => precise(host.cores),
        "pinfold_slots" => precise(host.slots),
        "pinfold_slots_used" => precise(host.slots_used),
        "pinfold_draining" => one(host.draining),
        "pinfold_jobs_left_out" => precise(host.jobs_left_out),
        "pinfold_memory_budget_bytes" => precise(host.memory_budget_bytes),
        "pinfold_memory_held_bytes" => precise(host.memory_held_bytes),
        "pinfold_swap_held_bytes" => precise(host.swap_held_bytes),
        "pinfold_store_bytes" => precise(host.store_bytes),
        "pinfold_store_writable" => one(host.store_writable),
        other => unreachable!("the family {other} stands in the table and has no arm"),
    };
    line(out, name, &[], value);
}

fn turn_lines(out: &mut String, name: &str, turns: &LoopFigures) {
    let bucket = format!("{name}_bucket");
    for &(bound_us, count) in &turns.within {
        // With a decimal point, as the form wants a bound.
        line(out, &bucket, &[("le", &format!("{:?}", seconds(bound_us)))], precise(count));
    }
    line(out, &bucket, &[("le", "+Inf")], precise(turns.count));
    line(out, &format!("{name}_count"), &[], precise(turns.count));
    line(out, &format!("{name}_sum"), &[], seconds(turns.sum_us));
}

fn project_lines(out: &mut String, name: &'static str, project: &ProjectView) {
    let own = ("project", project.project.as_deref().unwrap_or_default());
    let value = match name {
        "pinfold_project_jobs" => {
            line(out, name, &[own, ("started", "yes")], precise(project.jobs_started));
            return line(out, name, &[own, ("started", "no")], precise(project.jobs_waiting));
        }
        "pinfold_project_cores_guaranteed" => project.cores_guaranteed,
        "pinfold_project_cores_used" => Some(project.cores_used),
        "pinfold_project_cores_borrowed" => project.cores_borrowed,
        "pinfold_project_cores_owed" => Some(project.cores_owed),
        "pinfold_project_memory_guaranteed_bytes" => project.memory_guaranteed_bytes,
        "pinfold_project_memory_used_bytes" => Some(project.memory_used_bytes),
        "pinfold_project_memory_borrowed_bytes" => project.memory_borrowed_bytes,
        "pinfold_project_memory_owed_bytes" => Some(project.memory_owed_bytes),
        other => unreachable!("the family {other} stands in the table and has no arm"),
    };
    // What is guaranteed to nobody is absent, not nought.
    if let Some(value) = value {
        line(out, name, &[own], precise(value));
    }
}

fn job_lines(out: &mut String, name: &'static str, job: &JobFigures) {
    let number = job.job.to_string();
    let own = ("job", number.as_str());
    let value = match name {
        "pinfold_job" => {
            let labels = [
                own,
                ("name", job.name.as_str()),
                ("user", job.user.as_str()),
                ("project", job.project.as_str()),
                ("class", job.class.as_str()),
            ];
            return line(out, "pinfold_job_info", &labels, 1.0);
        }
        "pinfold_job_cpu_seconds" => {
            let counter = "pinfold_job_cpu_seconds_total";
            line(out, counter, &[own, ("mode", "user")], seconds(job.cpu_user_us));
            return line(out, counter, &[own, ("mode", "system")], seconds(job.cpu_system_us));
        }
        "pinfold_job_io_bytes" => {
            let counter = "pinfold_job_io_bytes_total";
            line(out, counter, &[own, ("direction", "read")], precise(job.io_read_bytes));
            return line(out, counter, &[own, ("direction", "write")], precise(job.io_write_bytes));
        }
        "pinfold_job_suspended_seconds" => {
            return line(out, "pinfold_job_suspended_seconds_total", &[own], seconds(job.suspended_us));
        }
        "pinfold_job_cache_bytes" => match job.cache_bytes {
            Some(bytes) => precise(bytes),
            None => return,
        },
        "pinfold_job_memory_bytes" => precise(job.memory_bytes),
        "pinfold_job_memory_peak_bytes" => precise(job.memory_peak_bytes),
        "pinfold_job_swap_bytes" => precise(job.swap_bytes),
        "pinfold_job_processes" => precise(job.processes),
        "pinfold_job_frozen" => f64::from(u8::from(job.frozen)),
        other => unreachable!("the family {other} stands in the table and has no arm"),
    };
    line(out, name, &[own], value);
}

fn line(out: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    out.push_str(name);
    for (at, (label, text)) in labels.iter().enumerate() {
        let _ = write!(out, "{}{label}=\"", if at == 0 { '{' } else { ',' });
        escape(text, out);
        out.push('"');
    }
    let _ = writeln!(out, "{} {value}", if labels.is_empty() { "" } else { "}" });
}

/// A label's value: what a user may call a job must not end the value, nor the line.
fn escape(text: &str, out: &mut String) {
    let mut bytes = 0;
    for c in text.chars() {
        bytes += c.len_utf8();
        if bytes > LABEL_BYTES_MAX {
            out.push('…');
            return;
        }
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests;
