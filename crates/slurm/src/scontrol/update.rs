//! `scontrol update`: what can be changed of a job.

use pinfold_proto::wire::Verb;

use crate::trouble::{Trouble, words};
use crate::units::{limit_s, memory_bytes, moment, whole};

use super::{connect, named};

/// `JobId=N KEY=VALUE...`.
pub(super) fn update(operands: &[String]) -> Result<u8, Trouble> {
    let (mut jobs, mut changes) = (None, Vec::new());
    for word in operands {
        let Some((key, value)) = word.split_once('=') else {
            return Err(Trouble::new(format!("Invalid input: {word}\nRequest aborted")));
        };
        match key.to_ascii_lowercase().as_str() {
            "job" | "jobid" => jobs = Some(value.to_owned()),
            key => changes.push((key.to_owned(), value.to_owned())),
        }
    }
    let jobs = jobs.ok_or_else(|| Trouble::new("No valid entity in update command"))?;
    if changes.is_empty() {
        return Err(Trouble::new("No changes specified"));
    }
    let mut cluster = connect()?;
    for job in named(&mut cluster, &jobs)? {
        for (key, value) in &changes {
            change(&mut cluster, job.job, key, value)?;
        }
    }
    Ok(0)
}

fn change(cluster: &mut crate::cluster::Cluster, job: u64, key: &str, value: &str) -> Result<(), Trouble> {
    let label = match key {
        "account" | "partition" | "qos" => Some((key, value.to_owned())),
        "jobname" | "name" => Some(("name", value.to_owned())),
        "requeue" if matches!(value, "0" | "1") => Some(("requeue", value.to_owned())),
        _ => None,
    };
    if let Some((key, value)) = label {
        return cluster.home.set(job, key, &value).map_err(|error| Trouble::new(error.to_string()));
    }
    let verb = match key {
        "minmemorynode" | "minmemory" => {
            Verb::Memory(memory_bytes(value).ok_or_else(|| invalid(key, value))?)
        }
        "timelimit" => {
            let limit = limit_s(value).ok_or_else(|| invalid(key, value))?;
            Verb::Timeout(limit.map(|limit| limit.saturating_mul(1_000_000)))
        }
        "comment" => Verb::Comment(value.to_owned()),
        "priority" => match value.parse() {
            // As in Slurm, that is a hold.
            Ok(0) => Verb::Hold,
            Ok(priority) => Verb::Priority(priority),
            Err(_) => return Err(invalid(key, value)),
        },
        "starttime" | "begintime" => {
            let at = moment(value).ok_or_else(|| invalid(key, value))?;
            Verb::Begin(Some(whole(at * 1e6)))
        }
        other => {
            return Err(Trouble::new(format!(
                "Update of this parameter is not supported: {other}={value}\nRequest aborted"
            )));
        }
    };
    let told = cluster.control(job, verb);
    told.map_err(|failure| Trouble::bare(format!("{} for job {job}", words(&failure))))
}

fn invalid(key: &str, value: &str) -> Trouble {
    Trouble::new(format!("Invalid {key} value: {value}"))
}
