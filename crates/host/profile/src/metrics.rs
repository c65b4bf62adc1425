//! The host and its running jobs as OpenMetrics text, version 1.0.0.
//!
//! Each figure is declared once, as a [`Family`] with its name, type, unit, meaning and function for samples. Pure:
//! figures in, text out. The number of series is bounded: a fixed set for the host, [`PROJECT_SERIES`] for each of at
//! most [`PROJECTS_MAX`] projects, and [`JOB_SERIES`] for each given job. `docs/metrics.md` lists names, units and
//! meanings, and a test compares the page with this module. Absent here: sockets, and the choice of jobs.

use std::fmt::Write as _;

use pinfold_proto::view::{ProjectView, seconds};

use crate::report::units::precise;

mod figures;

pub use figures::{FreezeFigures, HostFigures, JobFigures, LoopFigures};

/// Content type of the HTTP answer.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How many series a job has at most.
pub const JOB_SERIES: usize = 12;

/// How many series a project has at most,
pub const PROJECT_SERIES: usize = 10;

/// and the most projects with series; the jobs without a project count as a project.
pub const PROJECTS_MAX: usize = 100;

/// Most bytes of a label's value, because users choose job names of any length.
const LABEL_BYTES_MAX: usize = 128;

/// A family of series: name, meaning, and the function that makes its samples.
struct Family<T> {
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    help: &'static str,
    samples: fn(&T, &mut Samples<'_>),
}

const fn family<T>(
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    help: &'static str,
    samples: fn(&T, &mut Samples<'_>),
) -> Family<T> {
    Family { name, kind, unit, help, samples }
}

/// The families of the host, in the order of the text.
const HOST: &[Family<HostFigures>] = &[
    family("pinfold", "info", "", "the daemon and its host", |host, out| {
        let labels = [("version", &*host.version), ("host", &*host.host), ("mode", &*host.mode)];
        out.put("_info", &labels, 1.0);
    }),
    family("pinfold_cores", "gauge", "", "cores that jobs may use", |host, out| out.count(host.cores)),
    family("pinfold_slots", "gauge", "", "slots there are", |host, out| out.count(host.slots)),
    family("pinfold_slots_used", "gauge", "", "slots in use", |host, out| out.count(host.slots_used)),
    family("pinfold_draining", "gauge", "", "1 while nothing new starts", |host, out| {
        out.flag(host.draining)
    }),
    family("pinfold_jobs", "gauge", "", "jobs that are not over, by state", |host, out| {
        for &(state, count) in &host.jobs {
            out.put("", &[("state", state.word())], precise(count));
        }
    }),
    family(
        "pinfold_jobs_ended",
        "counter",
        "",
        "jobs that ended since the daemon started, by how they ended",
        |host, out| {
            for (how, count) in host.ended {
                out.put("_total", &[("how", how)], precise(count));
            }
        },
    ),
    family("pinfold_jobs_left_out", "gauge", "", "running jobs without series of their own", |host, out| {
        out.count(host.jobs_left_out);
    }),
    family(
        "pinfold_memory_budget_bytes",
        "gauge",
        "bytes",
        "what all jobs together may hold in RAM",
        |host, out| out.count(host.memory_budget_bytes),
    ),
    family(
        "pinfold_memory_held_bytes",
        "gauge",
        "bytes",
        "anonymous and shared memory that all jobs hold",
        |host, out| out.count(host.memory_held_bytes),
    ),
    family("pinfold_swap_held_bytes", "gauge", "bytes", "what all jobs have in swap", |host, out| {
        out.count(host.swap_held_bytes);
    }),
    family(
        "pinfold_freeze_seconds",
        "summary",
        "seconds",
        "time until a job frozen for want of memory has stopped, from the moment at which the want was noticed",
        freeze_samples,
    ),
    family(
        "pinfold_stalled_seconds",
        "counter",
        "seconds",
        "time the whole host was stalled, by resource (PSI)",
        |host, out| {
            for &(resource, who, us) in &host.stalled {
                out.put("_total", &[("resource", resource), ("who", who)], seconds(us));
            }
        },
    ),
    family("pinfold_store_bytes", "gauge", "bytes", "size of the job store with its log", |host, out| {
        out.count(host.store_bytes);
    }),
    family("pinfold_store_writable", "gauge", "", "1 while the job store can be written", |host, out| {
        out.flag(host.store_writable);
    }),
    family(
        "pinfold_daemon_cpu_seconds",
        "counter",
        "seconds",
        "processor time that the daemon used",
        |host, out| out.put("_total", &[], seconds(host.daemon_cpu_us)),
    ),
    family(
        "pinfold_loop_turn_seconds",
        "histogram",
        "seconds",
        "turns of the daemon's loop since it started, from one wait for events to the next",
        turn_samples,
    ),
    family(
        "pinfold_loop_turn_longest_seconds",
        "gauge",
        "seconds",
        "the longest turn of the daemon's loop, since it started and of the last minute",
        |host, out| {
            out.put("", &[("since", "start")], seconds(host.turns.longest_us));
            out.put("", &[("since", "minute")], seconds(host.turns.last_minute_us));
        },
    ),
];

/// Present where the figure is known.
const RESIDENT: Family<HostFigures> = family(
    "pinfold_daemon_resident_bytes",
    "gauge",
    "bytes",
    "memory that the daemon holds, file pages included",
    |host, out| out.count(host.daemon_resident_bytes),
);

/// Present where projects exist.
const PROJECTS_LEFT_OUT: Family<HostFigures> =
    family("pinfold_projects_left_out", "gauge", "", "projects without series of their own", |host, out| {
        out.count(host.projects.len().saturating_sub(PROJECTS_MAX) as u64)
    });

/// The families of each project.
const PROJECT: &[Family<ProjectView>] = &[
    family(
        "pinfold_project_cores_guaranteed",
        "gauge",
        "",
        "cores that are a project's own when it wants them",
        |project, out| out.known(project.cores_guaranteed),
    ),
    family(
        "pinfold_project_cores_used",
        "gauge",
        "",
        "home cores that a project's jobs have",
        |project, out| out.count(project.cores_used),
    ),
    family(
        "pinfold_project_cores_borrowed",
        "gauge",
        "",
        "of these, cores that are lent to it",
        |project, out| out.known(project.cores_borrowed),
    ),
    family(
        "pinfold_project_cores_owed",
        "gauge",
        "",
        "cores that are its own, that it wants and does not have",
        |project, out| out.count(project.cores_owed),
    ),
    family(
        "pinfold_project_memory_guaranteed_bytes",
        "gauge",
        "bytes",
        "memory that is a project's own when it wants it",
        |project, out| out.known(project.memory_guaranteed_bytes),
    ),
    family(
        "pinfold_project_memory_used_bytes",
        "gauge",
        "bytes",
        "memory that a project's jobs hold, swap included",
        |project, out| out.count(project.memory_used_bytes),
    ),
    family(
        "pinfold_project_memory_borrowed_bytes",
        "gauge",
        "bytes",
        "of that, memory that is lent to it",
        |project, out| out.known(project.memory_borrowed_bytes),
    ),
    family(
        "pinfold_project_memory_owed_bytes",
        "gauge",
        "bytes",
        "memory that is its own, that its next job waits for and does not have",
        |project, out| out.count(project.memory_owed_bytes),
    ),
    family(
        "pinfold_project_jobs",
        "gauge",
        "",
        "jobs of a project that are not over, by whether they have started",
        |project, out| {
            out.put("", &[("started", "yes")], precise(project.jobs_started));
            out.put("", &[("started", "no")], precise(project.jobs_waiting));
        },
    ),
];

/// The families of each job.
const JOB: &[Family<JobFigures>] = &[
    family("pinfold_job", "info", "", "a running job", |job, out| {
        let labels =
            [("name", &*job.name), ("user", &*job.user), ("project", &*job.project), ("class", &*job.class)];
        out.put("_info", &labels, 1.0);
    }),
    family(
        "pinfold_job_cpu_seconds",
        "counter",
        "seconds",
        "processor time of a job, by mode",
        |job, out| {
            out.put("_total", &[("mode", "user")], seconds(job.cpu_user_us));
            out.put("_total", &[("mode", "system")], seconds(job.cpu_system_us));
        },
    ),
    family(
        "pinfold_job_memory_bytes",
        "gauge",
        "bytes",
        "anonymous and shared memory of a job",
        |job, out| out.count(job.memory_bytes),
    ),
    family("pinfold_job_memory_peak_bytes", "gauge", "bytes", "the most of that so far", |job, out| {
        out.count(job.memory_peak_bytes);
    }),
    family("pinfold_job_cache_bytes", "gauge", "bytes", "page cache charged to a job", |job, out| {
        out.known(job.cache_bytes);
    }),
    family("pinfold_job_swap_bytes", "gauge", "bytes", "what a job has in swap", |job, out| {
        out.count(job.swap_bytes);
    }),
    family("pinfold_job_io_bytes", "counter", "bytes", "bytes of a job from and to storage", |job, out| {
        out.put("_total", &[("direction", "read")], precise(job.io_read_bytes));
        out.put("_total", &[("direction", "write")], precise(job.io_write_bytes));
    }),
    family("pinfold_job_processes", "gauge", "", "processes of a job", |job, out| out.count(job.processes)),
    family(
        "pinfold_job_suspended_seconds",
        "counter",
        "seconds",
        "time that a job was suspended, finished intervals",
        |job, out| out.put("_total", &[], seconds(job.suspended_us)),
    ),
    family("pinfold_job_frozen", "gauge", "", "1 while a job is suspended", |job, out| out.flag(job.frozen)),
];

/// The text, complete with its end mark.
#[must_use]
pub fn text(host: &HostFigures, jobs: &[JobFigures]) -> String {
    let mut out = String::with_capacity(4096 + jobs.len() * 1024);
    for family in HOST {
        family.write(&mut out, [(host, None)]);
    }
    if host.daemon_resident_bytes > 0 {
        RESIDENT.write(&mut out, [(host, None)]);
    }
    if !host.projects.is_empty() {
        PROJECTS_LEFT_OUT.write(&mut out, [(host, None)]);
        let told = &host.projects[..host.projects.len().min(PROJECTS_MAX)];
        let name = |project: &ProjectView| project.project.clone().unwrap_or_default();
        for family in PROJECT {
            family.write(&mut out, told.iter().map(|project| (project, Some(("project", name(project))))));
        }
    }
    for family in JOB {
        family.write(&mut out, jobs.iter().map(|job| (job, Some(("job", job.job.to_string())))));
    }
    out.push_str("# EOF\n");
    out
}

impl<T> Family<T> {
    /// Writes the head, and the samples of each item with its distinguishing label.
    fn write<'a>(
        &self,
        out: &mut String,
        of: impl IntoIterator<Item = (&'a T, Option<(&'static str, String)>)>,
    ) where
        T: 'a,
    {
        let Self { name, kind, unit, help, samples } = self;
        let _ = writeln!(out, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        let _ = writeln!(out, "# HELP {name} {help}");
        for (figures, own) in of {
            samples(figures, &mut Samples { out, name, own });
        }
    }
}

fn freeze_samples(host: &HostFigures, out: &mut Samples<'_>) {
    let FreezeFigures { count, sum_us, half_us, most_us } = host.freezes;
    for (quantile, us) in [("0.5", half_us), ("0.999", most_us)].into_iter().filter(|_| count > 0) {
        out.put("", &[("quantile", quantile)], seconds(us));
    }
    out.put("_count", &[], precise(count));
    out.put("_sum", &[], seconds(sum_us));
}

fn turn_samples(host: &HostFigures, out: &mut Samples<'_>) {
    let turns = &host.turns;
    for &(bound_us, count) in &turns.within {
        // With a decimal point, as the form wants a bound.
        out.put("_bucket", &[("le", &format!("{:?}", seconds(bound_us)))], precise(count));
    }
    out.put("_bucket", &[("le", "+Inf")], precise(turns.count));
    out.put("_count", &[], precise(turns.count));
    out.put("_sum", &[], seconds(turns.sum_us));
}

/// Where the samples of a family go.
struct Samples<'a> {
    out: &'a mut String,
    name: &'static str,
    /// The label of the item.
    own: Option<(&'static str, String)>,
}

impl Samples<'_> {
    fn count(&mut self, value: u64) {
        self.put("", &[], precise(value));
    }

    /// An unknown or missing figure is absent, not 0.
    fn known(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.count(value);
        }
    }

    fn flag(&mut self, value: bool) {
        self.put("", &[], f64::from(u8::from(value)));
    }

    /// Writes a sample under the family's name plus `suffix`.
    fn put(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        let Self { out, name, own } = self;
        let _ = write!(out, "{name}{suffix}");
        let own = own.as_ref().map(|(label, text)| (*label, text.as_str()));
        let mut opened = false;
        for (label, text) in own.into_iter().chain(labels.iter().copied()) {
            let _ = write!(out, "{}{label}=\"", if opened { ',' } else { '{' });
            escape(text, out);
            out.push('"');
            opened = true;
        }
        let _ = writeln!(out, "{} {value}", if opened { "}" } else { "" });
    }
}

/// A label's value, escaped so that a job's name cannot end the value or the line.
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
