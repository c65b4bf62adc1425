//! `scontrol`: jobs, the partition, the node and the configuration in Slurm's words; hold, release and change jobs.

use std::ffi::OsString;

use pinfold_client::Failure;
use pinfold_proto::wire::Verb;

use crate::cluster::Cluster;
use crate::getopt::{Order, parse};
use crate::jobs::Job;
use crate::options;
use crate::request::cluster as only_cluster;
use crate::say;
use crate::select;
use crate::trouble::{INVALID_JOB, Trouble, of_job, words};

mod requeue;
mod show;
mod update;

/// Shows and changes.
///
/// # Errors
/// In scontrol's words.
pub(crate) fn scontrol(arguments: &[OsString]) -> Result<u8, Trouble> {
    let (given, operands) =
        parse(&options::scontrol(), arguments, Order::Free).map_err(say::usage("scontrol"))?;
    let mut oneliner = false;
    for option in &given {
        match option.name.as_str() {
            "oneliner" => oneliner = true,
            "clusters" => only_cluster(option.value.as_deref().unwrap_or_default())?,
            "help" | "usage" | "version" => return say::help("scontrol", &option.name, &options::scontrol()),
            _ => {}
        }
    }
    let words: Vec<String> = operands.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some(verb) = words.first() else {
        return Err(Trouble::new("there is no interactive form: scontrol COMMAND ..."));
    };
    let rest = &words[1..];
    match verb.to_ascii_lowercase().as_str() {
        "show" => show::show(rest, oneliner),
        "hold" | "uhold" | "h" => each(rest, Verb::Hold),
        "release" | "rel" => each(rest, Verb::Release),
        "suspend" => each(rest, Verb::Suspend),
        "resume" => each(rest, Verb::Resume),
        "requeue" => requeue::requeue(rest, false),
        "requeuehold" => requeue::requeue(rest, true),
        "update" => update::update(rest),
        "ping" => ping(),
        "version" => say::out(&format!("{}\n", say::VERSION)).map(|()| 0),
        other => Err(Trouble::new(format!("invalid keyword: {other}"))),
    }
}

fn ping() -> Result<u8, Trouble> {
    let host = pinfold_sys::peer::host_name();
    match Cluster::connect() {
        Ok(_) => say::out(&format!("Slurmctld(primary) at {host} is UP\n")).map(|()| 0),
        Err(_) => {
            say::out(&format!("Slurmctld(primary) at {host} is DOWN\n"))?;
            Ok(1)
        }
    }
}

/// A word as `KEY=VALUE`, the key in small letters.
fn pair(word: &str) -> Option<(String, &str)> {
    word.split_once('=').map(|(key, value)| (key.to_ascii_lowercase(), value))
}

/// The named jobs: numbers, also behind `JobId=`, or the user's own jobs behind `JobName=`.
fn named(cluster: &mut Cluster, list: &str) -> Result<Vec<Job>, Trouble> {
    let list = match pair(list) {
        Some((key, name)) if key == "jobname" || key == "name" => return called(cluster, name),
        Some((key, list)) if key == "jobid" || key == "job" => list,
        _ => list,
    };
    let failed = |failure: Failure| Trouble::bare(format!("slurm_load_jobs error: {}", words(&failure)));
    let names =
        select::names(list).map_err(|_| Trouble::bare(format!("slurm_load_jobs error: {INVALID_JOB}")))?;
    let numbers = select::members(cluster, &names).map_err(failed)?;
    let numbers: Vec<u64> = numbers.into_iter().flatten().collect();
    let jobs = cluster.named(&numbers).map_err(failed)?;
    match jobs.is_empty() {
        true => Err(Trouble::bare(format!("slurm_load_jobs error: {INVALID_JOB}"))),
        false => Ok(jobs),
    }
}

/// The user's own living jobs of this name.
fn called(cluster: &mut Cluster, name: &str) -> Result<Vec<Job>, Trouble> {
    let failed = |failure: Failure| Trouble::of_load("slurm_load_jobs", &failure);
    let own = pinfold_sys::peer::own_name();
    let mut jobs = cluster.jobs(false).map_err(failed)?;
    jobs.retain(|job| job.name == name && job.user == own);
    match jobs.is_empty() {
        true => Err(Trouble::bare(format!("slurm_load_jobs error: {INVALID_JOB}"))),
        false => Ok(jobs),
    }
}

fn connect() -> Result<Cluster, Trouble> {
    Cluster::connect().map_err(|failure| Trouble::of_load("slurm_load_jobs", &failure))
}

/// Applies the verb to each job.
fn each(lists: &[String], verb: Verb) -> Result<u8, Trouble> {
    if lists.is_empty() {
        return Err(Trouble::new("too few arguments for keyword"));
    }
    let mut cluster = connect()?;
    let mut status = 0;
    for list in lists {
        for job in named(&mut cluster, list)? {
            if let Err(failure) = cluster.control(job.job, verb.clone()) {
                status = 1;
                say::bare(&of_job(&failure, &job.shown()));
            }
        }
    }
    Ok(status)
}
