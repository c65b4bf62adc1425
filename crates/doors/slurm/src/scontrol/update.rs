//! `scontrol update`: changes of a job.

use pinfold_proto::wire::Verb;

use crate::cluster::Cluster;
use crate::jobs::Job;
use crate::trouble::{Trouble, of_job};
use crate::units::{Toward, limit_s, memory_bytes, moment, whole};

use super::{connect, named, pair};

/// `JobId=N KEY=VALUE...`.
pub(super) fn update(operands: &[String]) -> Result<u8, Trouble> {
    let (mut jobs, mut changes) = (None, Vec::new());
    for word in operands {
        let Some((key, value)) = pair(word) else {
            return Err(Trouble::new(format!("Invalid input: {word}\nRequest aborted")));
        };
        match key.as_str() {
            "job" | "jobid" => jobs = Some(value.to_owned()),
            _ => changes.push((key, value.to_owned())),
        }
    }
    let jobs = jobs.ok_or_else(|| Trouble::new("No valid entity in update command"))?;
    if changes.is_empty() {
        return Err(Trouble::new("No changes specified"));
    }
    let mut cluster = connect()?;
    for job in named(&mut cluster, &jobs)? {
        for (key, value) in &changes {
            change(&mut cluster, &job, key, value)?;
        }
    }
    Ok(0)
}

/// A limit in seconds; `TimeLimit+=30` and `TimeLimit=+30` add minutes to the present limit.
fn new_limit(key: &str, value: &str, now_s: Option<u64>) -> Option<Option<u64>> {
    let (sign, text) = match key.strip_prefix("timelimit")? {
        "" if value.starts_with(['+', '-']) => value.split_at(1),
        sign => (sign, value),
    };
    match sign {
        "" => limit_s(text),
        "+" => Some(Some(now_s?.checked_add(limit_s(text)??)?)),
        "-" => Some(Some(now_s?.checked_sub(limit_s(text)??)?.max(1))),
        _ => None,
    }
}

fn change(cluster: &mut Cluster, of: &Job, key: &str, value: &str) -> Result<(), Trouble> {
    let job = of.job;
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
        "timelimit" | "timelimit+" | "timelimit-" => {
            let limit = new_limit(key, value, of.limit_s).ok_or_else(|| invalid(key, value))?;
            Verb::Timeout(limit.map(|limit| limit.saturating_mul(1_000_000)))
        }
        "comment" => Verb::Comment(value.to_owned()),
        "priority" => match value.parse() {
            // As in Slurm, priority 0 is a hold.
            Ok(0) => Verb::Hold,
            Ok(priority) => Verb::Priority(priority),
            Err(_) => return Err(invalid(key, value)),
        },
        "starttime" | "begintime" => {
            let at = moment(value, Toward::Next).ok_or_else(|| invalid(key, value))?;
            Verb::Begin(Some(whole(at * 1e6)))
        }
        other => {
            return Err(Trouble::new(format!(
                "Update of this parameter is not supported: {other}={value}\nRequest aborted"
            )));
        }
    };
    let told = cluster.control(job, verb);
    told.map_err(|failure| Trouble::bare(of_job(&failure, &job.to_string())))
}

fn invalid(key: &str, value: &str) -> Trouble {
    Trouble::new(format!("Invalid {key} value: {value}"))
}

#[cfg(test)]
mod tests {
    use super::new_limit;

    #[test]
    fn limits_and_what_is_added_to_them() {
        let check = |key: &str, value: &str, now_s: Option<u64>, want: Option<Option<u64>>| {
            assert_eq!(new_limit(key, value, now_s), want, "{key}={value}");
        };
        check("timelimit", "30", Some(60), Some(Some(1800)));
        check("timelimit", "UNLIMITED", Some(60), Some(None));
        check("timelimit+", "30", Some(60), Some(Some(1860)));
        check("timelimit", "+1:00:00", Some(60), Some(Some(3660)));
        check("timelimit-", "1", Some(90), Some(Some(30)));
        check("timelimit", "-1", Some(60), Some(Some(1)));
        // Less than nothing, more than no limit, and what means nothing.
        check("timelimit-", "5", Some(60), None);
        check("timelimit+", "5", None, None);
        check("timelimit", "-1", None, None);
        check("timelimit", "x", Some(60), None);
    }
}
