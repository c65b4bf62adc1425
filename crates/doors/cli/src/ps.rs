//! `pinfold ps`: the processes of running jobs, with the mark, or all processes of the host with marks on the jobs'.
//!
//! The kernel lets only a process itself change its name, and a command line set at its start is lost by its children;
//! so the mark is put here, by which processes belong to a job: the daemon's word, and the control groups' names.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use clap::Args;
use pinfold_profile::report::{self, HostProcess};
use pinfold_proto::view::VERSION;
use pinfold_proto::wire::Request;
use pinfold_sys::procfs::{Proc, ticks_to_us};
use serde_json::{Value, json};

use crate::names::{self, JobRef};
use crate::print::{print_json, print_text, width};
use crate::top::{processes, running, status};
use pinfold_client::{Client, Dial, Failure};

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Only these jobs
    #[arg(value_name = "JOB", conflicts_with = "all")]
    pub jobs: Vec<JobRef>,
    /// All processes of the host, those of jobs with the mark (`mark.character`)
    #[arg(short, long)]
    pub all: bool,
    /// Print one JSON object a job; with --all one in all
    #[arg(long)]
    pub json: bool,
}

/// How much of a command line is shown.
const COMMAND_BYTES_MAX: usize = 1024;

/// `pinfold ps`.
pub(crate) fn ps(dial: &Dial, args: &PsArgs) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    if args.all {
        return all(&mut client, args.json);
    }
    let jobs = match args.jobs.as_slice() {
        [] => running(&mut client)?,
        named => names::jobs(&mut client, named)?,
    };
    let views = if jobs.is_empty() { Vec::new() } else { processes(&mut client, jobs)? };
    if args.json {
        return views.iter().try_for_each(print_json);
    }
    let mark = mark(&mut client)?;
    print_text(|out| report::write_ps(&views, &mark, width(), out))
}

/// The present `mark.character`.
fn mark(client: &mut Client) -> Result<String, Failure> {
    let values = answer!(client.ask(&Request::ConfigGet)?, Config)?;
    let value = values.into_iter().find(|value| value.key == "mark.character");
    // An earlier version's daemon lacks this key.
    Ok(value.map_or_else(String::new, |value| value.value.trim_matches('"').replace("\\", "")))
}

fn all(client: &mut Client, as_json: bool) -> Result<(), Failure> {
    let mark = mark(client)?;
    let jobs: BTreeMap<u32, u64> = status(client, None)?
        .jobs
        .iter()
        .flat_map(|job| job.pids.iter().map(move |&pid| (pid, job.job)))
        .collect();
    let proc =
        Proc::open(Path::new("/proc")).map_err(|error| Failure::doing("the process file system", &error))?;
    let pids = proc.pids().map_err(|error| Failure::doing("the process file system", &error))?;
    let mut users = BTreeMap::new();
    let found: Vec<HostProcess> =
        pids.into_iter().filter_map(|pid| process(&proc, pid, &jobs, &mut users)).collect();
    if as_json {
        let one = |process: &HostProcess| {
            json!({
                "pid": process.pid, "parent": process.parent, "user": process.user, "managed": process.managed,
                "job": process.job, "cpu_s": process.cpu_s, "resident_bytes": process.resident_bytes,
                "command": process.command,
            })
        };
        let processes: Vec<Value> = found.iter().map(one).collect();
        return print_json(&json!({ "version": VERSION, "mark": mark, "processes": processes }));
    }
    print_text(|out| report::write_ps_all(&found, &mark, width(), out))
}

/// A process; `None`: it is gone.
fn process(
    proc: &Proc,
    pid: u32,
    jobs: &BTreeMap<u32, u64>,
    users: &mut BTreeMap<u32, String>,
) -> Option<HostProcess> {
    let stat = proc.stat(pid).ok().flatten()?;
    let uid = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    let user = users.entry(uid).or_insert_with(|| name_of(uid)).clone();
    let groups = proc.text(&format!("{pid}/cgroup")).ok().flatten().unwrap_or_default();
    let page_bytes = pinfold_sys::own::page_bytes();
    let name = || proc.text(&format!("{pid}/comm")).ok().flatten().map(|name| format!("[{}]", name.trim()));
    let line = proc.command_line(pid, COMMAND_BYTES_MAX).ok().flatten();
    Some(HostProcess {
        pid,
        parent: stat.parent,
        job: jobs.get(&pid).copied(),
        managed: jobs.contains_key(&pid) || in_a_job(&groups),
        user,
        cpu_s: pinfold_proto::view::seconds(ticks_to_us(stat.user_ticks + stat.system_ticks)),
        resident_bytes: stat.resident_pages.saturating_mul(page_bytes),
        command: line.or_else(name).unwrap_or_default(),
    })
}

fn name_of(uid: u32) -> String {
    pinfold_sys::peer::user(uid).map_or_else(|| uid.to_string(), |user| user.name)
}

/// Whether a process with these control groups (`/proc/PID/cgroup`) is of a job: `pinfold/INSTANCE/job-N` is in a path.
fn in_a_job(groups: &str) -> bool {
    groups.lines().any(|line| {
        let path = line.splitn(3, ':').nth(2).unwrap_or("");
        let mut parts = path.split('/').skip_while(|part| *part != "pinfold").skip(2);
        parts.next().is_some_and(|part| part.strip_prefix("job-").is_some_and(|n| n.parse::<u64>().is_ok()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_known_by_their_groups() {
        let check = |text, want| assert_eq!(in_a_job(text), want, "{text}");
        check("0::/pinfold/a1b2/job-7\n", true);
        check("4:memory:/user\n3:cpu:/pinfold/a1b2/job-12\n0::/\n", true);
        check("0::/system.slice/pinfold.service/pinfold/a1b2/job-7/task-1\n", true);
        check("0::/pinfold/a1b2/spare-1\n", false);
        check("0::/pinfold/job-7\n", false);
        check("0::/other/a1b2/job-7\n", false);
        check("", false);
    }
}
