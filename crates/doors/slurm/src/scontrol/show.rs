//! `scontrol show`.

use pinfold_proto::text::plain;
use pinfold_proto::view::StatusView;

use crate::batch_step::KILL_WAIT;
use crate::cluster::MIN_JOB_AGE_S;
use crate::fields;
use crate::jobs::{CLUSTER, Job, PARTITION, in_rows};
use crate::say;
use crate::squeue::around;
use crate::state::State;
use crate::trouble::{Trouble, words};
use crate::units::{date, long_time, whole};

use super::{connect, named};

/// Shows the entity of the first word.
pub(super) fn show(operands: &[String], oneliner: bool) -> Result<u8, Trouble> {
    let Some(first) = operands.first() else {
        return Err(Trouble::new("too few arguments for keyword:show"));
    };
    // `show job=12` is `show job 12`.
    let (what, joined) = first.split_once('=').map_or((&first[..], None), |(what, of)| (what, Some(of)));
    let of = joined.or(operands.get(1).map(String::as_str));
    let text = match entity(&what.to_ascii_lowercase()) {
        Some("jobs") => jobs(of, oneliner)?,
        Some("config") => config()?,
        Some("partitions") => partition(of, oneliner)?,
        Some("nodes") => node(of, oneliner)?,
        Some("hostnames") => hostnames(of)?,
        Some(_) => format!("{}\n", of.unwrap_or_default()),
        None => return Err(Trouble::new(format!("invalid entity:{what} for keyword:show"))),
    };
    say::out(&text).map(|()| 0)
}

/// The entity of a word: the first entity with this prefix, as in Slurm.
fn entity(word: &str) -> Option<&'static str> {
    const ENTITIES: &[(&str, &str)] = &[
        ("config", "config"),
        ("hostlistsorted", "hostlist"),
        ("hostnames", "hostnames"),
        ("jobs", "jobs"),
        ("jobid", "jobs"),
        ("nodes", "nodes"),
        ("nodename", "nodes"),
        ("partitions", "partitions"),
        ("partitionname", "partitions"),
    ];
    let begun = ENTITIES.iter().find(|(name, _)| !word.is_empty() && name.starts_with(word));
    begun.map(|(_, entity)| *entity)
}

/// A record in several lines, or in a single line.
fn record(lines: &[Vec<(&str, String)>], oneliner: bool) -> String {
    // A blank within a value would split it in single-line records.
    let shown = |(name, value): &(&str, String)| {
        let value = plain(value);
        let value = if oneliner { value.replace(' ', "_") } else { value };
        format!("{name}={value}")
    };
    let lines = lines.iter().map(|line| line.iter().map(shown).collect::<Vec<_>>().join(" "));
    match oneliner {
        true => format!("{}\n", lines.collect::<Vec<_>>().join(" ")),
        false => format!("{}\n\n", lines.collect::<Vec<_>>().join("\n   ")),
    }
}

fn jobs(of: Option<&str>, oneliner: bool) -> Result<String, Trouble> {
    let mut cluster = connect()?;
    let jobs = match of {
        Some(list) => named(&mut cluster, list)?,
        None => cluster.jobs(true).map_err(|failure| Trouble::of_load("slurm_load_jobs", &failure))?,
    };
    if jobs.is_empty() {
        return Ok("No jobs in the system\n".to_owned());
    }
    Ok(in_rows(jobs).iter().map(|job| record(&of_job(job), oneliner)).collect())
}

#[expect(clippy::too_many_lines, reason = "the lines of one record")]
fn of_job(job: &Job) -> Vec<Vec<(&'static str, String)>> {
    let around = around();
    let field = |name: &str| fields::squeue(job, name, &around);
    let or_null = |text: &str| if text.is_empty() { "(null)".to_owned() } else { text.to_owned() };
    let elapsed = job.elapsed_s(around.now_s);
    let limit = job.limit_s.map_or_else(|| "UNLIMITED".to_owned(), long_time);
    let reason = match (job.state, job.reason_word()) {
        (State::Pending | State::Failed | State::Timeout | State::NodeFail | State::OutOfMemory, word) => {
            word
        }
        _ => "None",
    };
    let mut first = vec![("JobId", job.job.to_string())];
    if let Some((array, index)) = job.member {
        let index = match job.members.is_empty() {
            true => index.to_string(),
            false => pinfold_proto::array::show_indexes(&job.members),
        };
        first.extend([("ArrayJobId", array.to_string()), ("ArrayTaskId", index)]);
    }
    first.push(("JobName", job.name.clone()));
    let node = if job.started_s.is_some() { around.host.clone() } else { String::new() };
    let mut lines = vec![
        first,
        vec![
            ("UserId", format!("{}({})", job.user, field("userid"))),
            ("GroupId", format!("{}({})", around.group, around.gid)),
            ("MCS_label", "N/A".to_owned()),
        ],
        vec![
            ("Priority", job.priority.to_string()),
            ("Nice", "0".to_owned()),
            ("Account", or_null(&job.label.account)),
            ("QOS", field("qos")),
        ],
        vec![
            ("JobState", job.state.long().to_owned()),
            ("Reason", reason.to_owned()),
            ("Dependency", field("dependency")),
        ],
        vec![
            ("Requeue", field("requeue")),
            ("Restarts", job.restarts().to_string()),
            ("BatchFlag", u8::from(job.label.batch).to_string()),
            ("Reboot", "0".to_owned()),
            ("ExitCode", format!("{}:{}", job.exit().0, job.exit().1)),
        ],
        vec![("RunTime", long_time(elapsed)), ("TimeLimit", limit), ("TimeMin", "N/A".to_owned())],
        vec![
            ("SubmitTime", date(job.submitted_s)),
            ("EligibleTime", date(job.begin_s.unwrap_or(job.submitted_s))),
        ],
        vec![
            ("StartTime", job.started_s.map_or_else(|| "Unknown".to_owned(), date)),
            ("EndTime", job.ended_s.map_or_else(|| "Unknown".to_owned(), date)),
            ("Deadline", "N/A".to_owned()),
        ],
        vec![("Partition", job.partition().to_owned()), ("AllocNode:Sid", format!("{}:0", around.host))],
        vec![("ReqNodeList", "(null)".to_owned()), ("ExcNodeList", "(null)".to_owned())],
        vec![("NodeList", node.clone())],
    ];
    if !node.is_empty() {
        lines.push(vec![("BatchHost", node)]);
    }
    lines.push(vec![
        ("NumNodes", "1".to_owned()),
        ("NumCPUs", job.cores.to_string()),
        ("NumTasks", job.label.ntasks.max(1).to_string()),
        ("CPUs/Task", job.label.cpus_per_task.max(1).to_string()),
        ("ReqB:S:C:T", "0:0:*:*".to_owned()),
    ]);
    lines.push(vec![("ReqTRES", field("tres-alloc"))]);
    lines.push(vec![
        ("MinCPUsNode", job.label.cpus_per_task.max(1).to_string()),
        ("MinMemoryNode", field("minmemory")),
        ("MinTmpDiskNode", "0".to_owned()),
    ]);
    lines.push(vec![
        ("OverSubscribe", field("oversubscribe")),
        ("Contiguous", "0".to_owned()),
        ("Licenses", "(null)".to_owned()),
    ]);
    lines.push(vec![("Command", or_null(&job.command_shown()))]);
    lines.push(vec![("WorkDir", job.label.directory.clone())]);
    if !job.comment.is_empty() {
        lines.push(vec![("Comment", job.comment.clone())]);
    }
    if job.label.batch {
        lines.push(vec![("StdErr", field("stderr"))]);
        lines.push(vec![("StdIn", field("stdin"))]);
        lines.push(vec![("StdOut", field("stdout"))]);
    }
    lines
}

/// The settings that engines read, with host and time.
fn config() -> Result<String, Trouble> {
    let mut cluster = connect()?;
    let view = host(&mut cluster)?;
    let lines = [
        ("ClusterName", CLUSTER.to_owned()),
        ("DefMemPerNode", "UNLIMITED".to_owned()),
        ("InactiveLimit", "0 sec".to_owned()),
        ("JobAcctGatherFrequency", "1".to_owned()),
        ("JobRequeue", "1".to_owned()),
        ("KillWait", format!("{} sec", KILL_WAIT.as_secs())),
        // The most members of an array plus 1: engines size their arrays by this value.
        ("MaxArraySize", (pinfold_proto::array::MEMBERS_MAX + 1).to_string()),
        ("MaxJobCount", "10000".to_owned()),
        ("MinJobAge", format!("{MIN_JOB_AGE_S} sec")),
        ("SchedulerType", "sched/pinfold".to_owned()),
        ("SelectType", "select/cons_tres".to_owned()),
        ("SLURM_VERSION", say::VERSION.trim_start_matches("slurm ").to_owned()),
        ("SlurmctldHost[0]", view.host),
        ("AccountingStorageType", "accounting_storage/pinfold".to_owned()),
    ];
    let mut text = format!("Configuration data as of {}\n", date(crate::units::now_s()));
    for (name, value) in lines {
        text.push_str(&format!("{name:<23} = {value}\n"));
    }
    text.push_str(&format!("\nSlurmctld(primary) at {} is UP\n", pinfold_sys::peer::host_name()));
    Ok(text)
}

fn host(cluster: &mut crate::cluster::Cluster) -> Result<StatusView, Trouble> {
    cluster.host().map_err(|failure| Trouble::new(words(&failure)))
}

fn partition(of: Option<&str>, oneliner: bool) -> Result<String, Trouble> {
    if let Some(other) = of.filter(|name| *name != PARTITION) {
        return Err(Trouble::bare(format!("Partition {other} not found")));
    }
    let mut cluster = connect()?;
    let view = host(&mut cluster)?;
    let lines = [
        vec![("PartitionName", PARTITION.to_owned())],
        vec![
            ("AllowGroups", "ALL".to_owned()),
            ("AllowAccounts", "ALL".to_owned()),
            ("AllowQos", "ALL".to_owned()),
        ],
        vec![("AllocNodes", "ALL".to_owned()), ("Default", "YES".to_owned()), ("QoS", "N/A".to_owned())],
        vec![
            ("DefaultTime", "NONE".to_owned()),
            ("DisableRootJobs", "NO".to_owned()),
            ("Hidden", "NO".to_owned()),
        ],
        vec![("MaxNodes", "1".to_owned()), ("MaxTime", "UNLIMITED".to_owned()), ("MinNodes", "0".to_owned())],
        vec![("Nodes", view.host.clone())],
        vec![
            ("State", if view.draining { "DRAIN" } else { "UP" }.to_owned()),
            ("TotalCPUs", view.slots.cores.to_string()),
            ("TotalNodes", "1".to_owned()),
        ],
        vec![("DefMemPerNode", "UNLIMITED".to_owned()), ("MaxMemPerNode", "UNLIMITED".to_owned())],
        vec![("TRES", format!("cpu={},mem={}M,node=1", view.slots.cores, view.memory.budget_bytes >> 20))],
    ];
    Ok(record(&lines, oneliner))
}

fn node(of: Option<&str>, oneliner: bool) -> Result<String, Trouble> {
    let mut cluster = connect()?;
    let view = host(&mut cluster)?;
    if let Some(other) = of.filter(|name| *name != view.host && *name != "localhost") {
        return Err(Trouble::bare(format!("Node {other} not found")));
    }
    let jobs = cluster.jobs(false).map_err(|failure| Trouble::of_load("slurm_load_jobs", &failure))?;
    let used = crate::sinfo::cores_used(&jobs, view.slots.cores);
    let free = view.memory.budget_bytes.saturating_sub(view.memory.held_bytes);
    let lines = [
        vec![
            ("NodeName", view.host.clone()),
            ("Arch", std::env::consts::ARCH.to_owned()),
            ("CoresPerSocket", view.slots.cores.to_string()),
        ],
        vec![
            ("CPUAlloc", used.to_string()),
            ("CPUEfctv", view.slots.cores.to_string()),
            ("CPUTot", view.slots.cores.to_string()),
            ("CPULoad", "N/A".to_owned()),
        ],
        vec![("AvailableFeatures", "(null)".to_owned())],
        vec![("ActiveFeatures", "(null)".to_owned())],
        vec![("Gres", "(null)".to_owned())],
        vec![
            ("NodeAddr", view.host.clone()),
            ("NodeHostName", view.host.clone()),
            ("Version", say::VERSION.trim_start_matches("slurm ").to_owned()),
        ],
        vec![("OS", "Linux".to_owned())],
        vec![
            ("RealMemory", (view.memory.budget_bytes >> 20).to_string()),
            ("AllocMem", (view.memory.held_bytes >> 20).to_string()),
            ("FreeMem", (free >> 20).to_string()),
            ("Sockets", "1".to_owned()),
            ("Boards", "1".to_owned()),
        ],
        vec![
            ("State", crate::sinfo::node_state(&view, used).to_ascii_uppercase()),
            ("ThreadsPerCore", "1".to_owned()),
            ("TmpDisk", "0".to_owned()),
            ("Weight", "1".to_owned()),
            ("Owner", "N/A".to_owned()),
            ("MCS_label", "N/A".to_owned()),
        ],
        vec![("Partitions", PARTITION.to_owned())],
        vec![("BootTime", date(boot_s())), ("SlurmdStartTime", date(boot_s()))],
        vec![("CfgTRES", format!("cpu={},mem={}M", view.slots.cores, view.memory.budget_bytes >> 20))],
        vec![("AllocTRES", if used > 0 { format!("cpu={used}") } else { String::new() })],
    ];
    Ok(record(&lines, oneliner))
}

/// When the host was started, in Unix seconds.
fn boot_s() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("btime "));
    let seconds = line.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
    std::time::Duration::from_secs(seconds.min(whole(crate::units::now_s()))).as_secs_f64()
}

/// Expands `a[1-3,5]` to lines; by default the nodes of the surrounding job.
fn hostnames(of: Option<&str>) -> Result<String, Trouble> {
    let list = of.map(str::to_owned).or_else(|| std::env::var("SLURM_JOB_NODELIST").ok());
    let list = list.ok_or_else(|| Trouble::new("host list is empty"))?;
    let mut text = String::new();
    for name in hosts(&list).ok_or_else(|| Trouble::new(format!("Invalid hostlist: {list}")))? {
        text.push_str(&name);
        text.push('\n');
    }
    Ok(text)
}

/// The most names of a list.
const HOSTS_MAX: usize = 100_000;

fn hosts(list: &str) -> Option<Vec<String>> {
    let (mut all, mut part, mut depth) = (Vec::new(), String::new(), 0);
    for c in list.chars().chain([',']) {
        match c {
            ',' if depth == 0 => {
                all.extend(expand(&std::mem::take(&mut part))?);
                if all.len() > HOSTS_MAX {
                    return None;
                }
            }
            c => {
                depth += i32::from(c == '[') - i32::from(c == ']');
                part.push(c);
            }
        }
    }
    (depth == 0).then_some(all)
}

fn expand(part: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = part.split_once('[') else { return Some(vec![part.to_owned()]) };
    let (inside, after) = rest.split_once(']')?;
    let mut all = Vec::new();
    for range in inside.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (low, high) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if low > high || high - low > HOSTS_MAX {
            return None;
        }
        let width = first.len();
        all.extend((low..=high).map(|number| format!("{before}{number:0width$}{after}")));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_by_their_beginnings() {
        for (word, want) in [
            ("job", Some("jobs")),
            ("jobs", Some("jobs")),
            ("jobid", Some("jobs")),
            ("conf", Some("config")),
            ("part", Some("partitions")),
            ("nod", Some("nodes")),
            ("hostname", Some("hostnames")),
            ("hostlist", Some("hostlist")),
            ("", None),
            ("jobx", None),
            ("steps", None),
        ] {
            assert_eq!(entity(word), want, "{word}");
        }
    }

    #[test]
    fn lists_of_hosts() {
        let check = |list: &str, want: Option<&[&str]>| {
            assert_eq!(
                hosts(list).as_deref().map(|all| all.iter().map(String::as_str).collect::<Vec<_>>()),
                want.map(<[&str]>::to_vec),
                "{list}"
            );
        };
        check("h1", Some(&["h1"]));
        check("a[1-3],b", Some(&["a1", "a2", "a3", "b"]));
        check("n[08-10,12].x", Some(&["n08.x", "n09.x", "n10.x", "n12.x"]));
        check("a[1", None);
        check("a[3-1]", None);
        check("a[1-99999999999]", None);
    }
}
