//! `sinfo`: the partition and its node.

use std::ffi::OsString;

use pinfold_proto::JobState;
use pinfold_proto::view::StatusView;

use crate::cluster::Cluster;
use crate::form::{Column, of_letters, of_names};
use crate::getopt::{Order, parse};
use crate::jobs::{CLUSTER, Job, PARTITION};
use crate::options;
use crate::request::cluster as only_cluster;
use crate::say;
use crate::squeue::list;
use crate::trouble::Trouble;
use crate::units::now_s;

const USUAL: &str = "%9P %.5a %.10l %.6D %.6t %N";
const LONG: &str = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N";
const SUMMARY: &str = "%9P %.5a %.10l %.16F  %N";
const NODE: &str = "%N %.6D %.9P %6t";
const NODE_LONG: &str = "%N %.6D %.9P %11T %.4c %.8z %.6m %.8d %.6w %8f %20E";

/// The cores of running jobs, at most all cores.
pub(crate) fn cores_used(jobs: &[Job], cores: u64) -> u64 {
    let runs = |job: &&Job| !matches!(job.phase, JobState::Queued | JobState::Held | JobState::Exited);
    jobs.iter().filter(runs).map(|job| u64::from(job.cores)).sum::<u64>().min(cores)
}

/// The node's state in sinfo's words.
pub(crate) fn node_state(view: &StatusView, used: u64) -> &'static str {
    match (view.draining, used) {
        (true, 0) => "drained",
        (true, _) => "draining",
        (false, 0) => "idle",
        (false, used) if used < view.slots.cores => "mixed",
        _ => "allocated",
    }
}

struct Node<'a> {
    view: &'a StatusView,
    used: u64,
    host: String,
}

/// The letters, and the words above their columns.
const LETTERS: &[(char, &str, &str)] = &[
    ('a', "available", "AVAIL"),
    ('A', "nodeai", "NODES(A/I)"),
    ('b', "features_act", "ACTIVE_FEATURES"),
    ('B', "maxcpuspernode", "MAX_CPUS_PER_NODE"),
    ('c', "cpus", "CPUS"),
    ('C', "cpusstate", "CPUS(A/I/O/T)"),
    ('d', "disk", "TMP_DISK"),
    ('D', "nodes", "NODES"),
    ('e', "freemem", "FREE_MEM"),
    ('E', "reason", "REASON"),
    ('f', "features", "AVAIL_FEATURES"),
    ('F', "nodeaiot", "NODES(A/I/O/T)"),
    ('g', "groups", "GROUPS"),
    ('G', "gres", "GRES"),
    ('h', "oversubscribe", "OVERSUBSCRIBE"),
    ('H', "timestamp", "TIMESTAMP"),
    ('I', "prioritytier", "PRIO_TIER"),
    ('l', "time", "TIMELIMIT"),
    ('L', "defaulttime", "DEFAULTTIME"),
    ('m', "memory", "MEMORY"),
    ('M', "preemptmode", "PREEMPT_MODE"),
    ('n', "nodehost", "HOSTNAMES"),
    ('N', "nodelist", "NODELIST"),
    ('o', "nodeaddr", "NODE_ADDR"),
    ('O', "cpusload", "CPU_LOAD"),
    ('p', "priorityjobfactor", "PRIO_JOB_FACTOR"),
    ('P', "partition", "PARTITION"),
    ('r', "root", "ROOT"),
    ('R', "partitionname", "PARTITION"),
    ('s', "size", "JOB_SIZE"),
    ('S', "allocnodes", "ALLOCNODES"),
    ('t', "statecompact", "STATE"),
    ('T', "statelong", "STATE"),
    ('u', "user", "USER"),
    ('U', "userlong", "USER"),
    ('v', "version", "VERSION"),
    ('V', "cluster", "CLUSTER"),
    ('w', "weight", "WEIGHT"),
    ('X', "sockets", "SOCKETS"),
    ('Y', "cores", "CORES"),
    ('Z', "threads", "THREADS"),
    ('z', "socketcorethread", "S:C:T"),
];

fn value(field: &str, node: &Node<'_>) -> String {
    let (view, used, cores) = (node.view, node.used, node.view.slots.cores);
    let busy = u64::from(used > 0);
    match field {
        "available" => "up".to_owned(),
        "nodeai" => format!("{busy}/{}", 1 - busy),
        "nodeaiot" => format!("{busy}/{}/0/1", 1 - busy),
        "cpus" | "cores" => cores.to_string(),
        "cpusstate" => format!("{used}/{}/0/{cores}", cores - used),
        "nodes" | "sockets" | "threads" | "weight" | "prioritytier" | "priorityjobfactor" => "1".to_owned(),
        "freemem" => (view.memory.budget_bytes.saturating_sub(view.memory.held_bytes) >> 20).to_string(),
        "memory" => (view.memory.budget_bytes >> 20).to_string(),
        "allocmem" => (view.memory.held_bytes >> 20).to_string(),
        "disk" => "0".to_owned(),
        "reason" => "none".to_owned(),
        "features" | "features_act" | "gres" | "gresused" => "(null)".to_owned(),
        "groups" | "allocnodes" => "all".to_owned(),
        "oversubscribe" | "root" => "NO".to_owned(),
        "time" => "infinite".to_owned(),
        "defaulttime" => "n/a".to_owned(),
        "maxcpuspernode" => "UNLIMITED".to_owned(),
        "preemptmode" => "SUSPEND".to_owned(),
        "nodehost" | "nodelist" | "nodeaddr" => node.host.clone(),
        "partition" => format!("{PARTITION}*"),
        "partitionname" => PARTITION.to_owned(),
        "size" => "1".to_owned(),
        "statecompact" => match node_state(view, used) {
            "mixed" => "mix",
            "allocated" => "alloc",
            "drained" => "drain",
            "draining" => "drng",
            other => other,
        }
        .to_owned(),
        "statelong" | "statecomplete" => node_state(view, used).to_owned(),
        "socketcorethread" => format!("1:{cores}:1"),
        "version" => say::VERSION.trim_start_matches("slurm ").to_owned(),
        "cluster" => CLUSTER.to_owned(),
        "user" | "userlong" | "timestamp" => "Unknown".to_owned(),
        _ => "N/A".to_owned(),
    }
}

#[derive(Debug, Default)]
struct Asked {
    letters: Option<String>,
    names: Option<String>,
    heads: bool,
    long: bool,
    summary: bool,
    by_node: bool,
    cluster: bool,
    states: Option<Vec<String>>,
    hidden: bool,
    help: Option<&'static str>,
}

impl Asked {
    fn of(arguments: &[OsString]) -> Result<Self, Trouble> {
        let (given, _) = parse(&options::sinfo(), arguments, Order::Free).map_err(say::usage("sinfo"))?;
        let mut asked = Self { heads: true, ..Self::default() };
        asked.letters = std::env::var("SINFO_FORMAT").ok().filter(|text| !text.is_empty());
        for option in &given {
            let value = option.value.clone().unwrap_or_default();
            match option.name.as_str() {
                "Format" => (asked.names, asked.letters) = (Some(value), None),
                "format" => (asked.letters, asked.names) = (Some(value), None),
                "Node" => asked.by_node = true,
                "clusters" => {
                    only_cluster(&value)?;
                    asked.cluster = true;
                }
                "long" => asked.long = true,
                "noheader" => asked.heads = false,
                "nodes" => asked.hidden |= !list(&value).contains(&pinfold_sys::peer::host_name()),
                "partition" => asked.hidden |= !list(&value).iter().any(|name| name == PARTITION),
                "states" => asked.states = Some(list(&value)),
                "summarize" => asked.summary = true,
                "help" => asked.help = Some("help"),
                "usage" => asked.help = Some("usage"),
                "version" => asked.help = Some("version"),
                _ => {}
            }
        }
        Ok(asked)
    }

    fn columns(&self) -> Result<Vec<(Column, String)>, Trouble> {
        let usual = match (self.by_node, self.long, self.summary) {
            (true, false, _) => NODE,
            (true, true, _) => NODE_LONG,
            (_, _, true) => SUMMARY,
            (_, true, _) => LONG,
            _ => USUAL,
        };
        if let Some(names) = &self.names {
            let columns = of_names(names)?.into_iter();
            return Ok(columns
                .map(|column| (column.field.to_ascii_lowercase(), column))
                .map(|(f, c)| (c, f))
                .collect());
        }
        let known = |letter: char| LETTERS.iter().any(|(one, ..)| *one == letter);
        let columns = of_letters(self.letters.as_deref().unwrap_or(usual), known)?;
        let named = |column: Column| {
            let letter = LETTERS.iter().find(|(letter, ..)| column.field.starts_with(*letter));
            let field = letter.map(|(_, field, _)| (*field).to_owned()).unwrap_or_default();
            (column, field)
        };
        Ok(columns.into_iter().map(named).collect())
    }
}

/// Shows the partition and its node.
///
/// # Errors
/// In sinfo's words.
pub(crate) fn sinfo(arguments: &[OsString]) -> Result<u8, Trouble> {
    let asked = Asked::of(arguments)?;
    if let Some(what) = asked.help {
        return say::help("sinfo", what, &options::sinfo());
    }
    let columns = asked.columns()?;
    let failed = |failure| Trouble::of_load("slurm_load_partitions", &failure);
    let mut cluster = Cluster::connect().map_err(failed)?;
    let view = cluster.host().map_err(failed)?;
    let jobs = cluster.jobs(false).map_err(failed)?;
    let used = cores_used(&jobs, view.slots.cores);
    let node = Node { used, host: view.host.clone(), view: &view };
    let mut text = String::new();
    if asked.cluster {
        text.push_str(&format!("CLUSTER: {CLUSTER}\n"));
    }
    if asked.long && asked.heads {
        text.push_str(&format!("{}\n", crate::units::date(now_s())));
    }
    if asked.heads {
        for (column, field) in &columns {
            let head = LETTERS.iter().find(|(_, name, _)| name == field);
            let head = head.map_or_else(|| field.to_ascii_uppercase(), |(.., head)| (*head).to_owned());
            column.write(&head, &mut text);
        }
        text.push('\n');
    }
    let is_meant = |states: &Vec<String>| {
        let own = [value("statelong", &node), value("statecompact", &node), "all".to_owned()];
        states.iter().any(|state| own.iter().any(|own| own.eq_ignore_ascii_case(state)))
    };
    if !asked.hidden && asked.states.as_ref().is_none_or(is_meant) {
        for (column, field) in &columns {
            column.write(&value(field, &node), &mut text);
        }
        text.push('\n');
    }
    say::out(&text)?;
    Ok(0)
}
