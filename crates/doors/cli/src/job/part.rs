//! Whether this process is a part of a job already. A command then runs as a part of that job: it has the job's cores
//! and memory, and to queue behind itself would be a deadlock.
//!
//! The daemon says so, from the process's group and descent (`Request::Part`). This process's own view only tells
//! whether the question is worth a round trip: variables stay behind when their job is over.

use std::path::Path;
use std::sync::OnceLock;

use pinfold_client::{Dial, Failure, dial, unexpected};
use pinfold_proto::wire::{Reply, Request};
use pinfold_proto::{ExitCode, Parent};
use pinfold_sys::adoptee;
use pinfold_sys::container::{INSTANCE_VARIABLE, JOB_VARIABLE};
use pinfold_sys::procfs::Proc;

use super::JobOptions;
use crate::print::say;

/// How far up this process's descent is looked for a job.
const ANCESTORS_MAX: usize = 32;

/// Options that are of no use without a job of its own, by the names of fields.
const REFUSED: [&str; 6] = ["timeout", "timeout_signal", "cpu_limit", "after", "begin", "hold"];

/// Options on a job's resources. A part of a job has the job's resources.
const WITHOUT_EFFECT: [&str; 18] = [
    "priority",
    "primary",
    "backfill",
    "exclusive",
    "cores",
    "place",
    "in",
    "isolated",
    "mem",
    "mem_limit",
    "tmp",
    "disk",
    "ttl",
    "time",
    "resource",
    "no_suspend",
    "requeue",
    "checkpoint",
];

static KNOWN: OnceLock<Option<u64>> = OnceLock::new();

/// The job of this daemon that this process is part of. The daemon is asked once, and only if this may be a job's
/// process.
pub(crate) fn of(dial: &Dial) -> Result<Option<u64>, Failure> {
    if let Some(known) = KNOWN.get() {
        return Ok(*known);
    }
    let job = match may_be().then(|| dial.connect()).transpose()? {
        Some(mut client) => match client.ask(&Request::Part)? {
            Reply::Part { job } => job,
            other => return Err(unexpected(&other)),
        },
        None => None,
    };
    Ok(*KNOWN.get_or_init(|| job))
}

/// As [`of`]; `None` where the lack of a daemon is allowed.
pub(crate) fn of_unless(dial: &Dial, without_daemon: bool) -> Result<Option<u64>, Failure> {
    match of(dial) {
        Err(failure) if without_daemon && failure.without_daemon => Ok(None),
        known => known,
    }
}

/// As [`of`], if the daemon was asked already.
pub(crate) fn known() -> Option<u64> {
    KNOWN.get().copied().flatten()
}

/// Refuses options that a part of this job cannot have, and warns once of options without effect. Only typed options
/// count: options in the environment were meant for the surrounding job, which has them.
pub(crate) fn check(job: u64, options: &JobOptions) -> Result<(), Failure> {
    let refuse = |text: String| Err(Failure::new(ExitCode::Refused, text));
    let typed = |names: &[&str]| {
        names.iter().filter(|name| options.is_typed(name)).map(|name| option(name)).collect()
    };
    let refused: Vec<String> = typed(&REFUSED);
    if let Some(first) = refused.first() {
        let way = match first.as_str() {
            "--timeout" => {
                "`timeout DURATION COMMAND` ends a part of a job, and `pinfold submit` makes a job of its own"
            }
            "--cpu-limit" => {
                "`ulimit -t SECONDS` limits a process, and `pinfold submit` makes a job of its own"
            }
            _ => "`pinfold submit` makes a job of its own",
        };
        return refuse(format!(
            "{first}: this command runs as a part of job {job}, within which it is; {way}"
        ));
    }
    let idle: Vec<String> = typed(&WITHOUT_EFFECT);
    if idle.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{} without effect: this command runs as a part of job {job}, with what that job has; `pinfold submit` makes a job \
         of its own",
        idle.join(", ")
    );
    if options.strict {
        return refuse(format!("{text} (--strict)"));
    }
    say(&format!("warning: {text}"));
    Ok(())
}

/// The job around this process by the environment's word, which the daemon verifies.
pub(crate) fn parent() -> Option<Parent> {
    let instance = std::env::var(INSTANCE_VARIABLE).ok()?;
    let job = std::env::var(JOB_VARIABLE).ok()?.parse().ok()?;
    Some(Parent { instance, job })
}

fn option(field: &str) -> String {
    format!("--{}", field.replace('_', "-"))
}

/// Whether the daemon is worth asking.
fn may_be() -> bool {
    let own_groups = || std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    dial::inside_any() || adoptee::group_of_a_job(&own_groups()).is_some() || is_below_a_job()
}

/// Whether a process above has a job's number in its environment, or may be the keeper of a job, as which this program is
/// known: where there are no groups, jobs are known by descent.
fn is_below_a_job() -> bool {
    let Ok(proc) = Proc::open(Path::new("/proc")) else { return false };
    let parent =
        |pid: &u32| proc.stat(*pid).ok().flatten().map(|stat| stat.parent).filter(|&parent| parent > 1);
    let above = std::iter::successors(parent(&std::process::id()), parent).take(ANCESTORS_MAX);
    above.into_iter().any(|pid| {
        let name = proc.text(&format!("{pid}/comm")).ok().flatten();
        let environ = || proc.environ(pid).ok().flatten();
        name.is_some_and(|name| name.trim() == "pinfold")
            || environ().is_some_and(|environ| adoptee::mark_of_a_job(&environ).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(names: &[&str], strict: bool) -> JobOptions {
        let typed = names.iter().map(|&name| name.to_owned()).collect();
        JobOptions { typed, strict, ..JobOptions::default() }
    }

    #[test]
    fn options_that_need_a_job_of_its_own() {
        let said =
            |names: &[&str], strict| check(7, &typed(names, strict)).map_err(|error| error.to_string());
        assert_eq!(said(&[], true), Ok(()));
        assert_eq!(said(&["name", "private_tmp", "ntasks", "strict"], true), Ok(()));
        assert_eq!(said(&["cores", "mem"], false), Ok(()));
        let strict = said(&["mem_limit", "cores"], true).unwrap_err();
        assert!(strict.starts_with("--cores, --mem-limit without effect: "), "{strict}");
        for (name, way) in
            [("timeout", "`timeout DURATION"), ("cpu_limit", "`ulimit -t"), ("after", "`pinfold submit`")]
        {
            let refused = said(&[name, "cores"], false).unwrap_err();
            assert!(
                refused.starts_with(&option(name)) && refused.contains("job 7") && refused.contains(way),
                "{refused}"
            );
        }
    }

    /// Each name here is that of an option, so that one that is renamed is not forgotten.
    #[test]
    fn the_names_are_those_of_options() {
        use clap::Args as _;
        let all = JobOptions::augment_args(clap::Command::new("run"));
        let ids: Vec<&str> = all.get_arguments().map(|arg| arg.get_id().as_str()).collect();
        for name in REFUSED.iter().chain(&WITHOUT_EFFECT) {
            assert!(ids.contains(name), "{name}: {ids:?}");
        }
    }
}
