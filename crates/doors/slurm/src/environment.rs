//! The environment of jobs: the filter of `--export`, and Slurm's variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Command;

use crate::commands;
use crate::home::{self, Label};
use crate::jobs::{CLUSTER, PARTITION};

/// Variables kept even with `--export=NONE`: without these, programs find neither the user's files nor the daemon.
const ALWAYS: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "LANG",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "PINFOLD_SOCKET",
];

/// A parsed `--export`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Export {
    all: bool,
    names: Vec<String>,
    set: Vec<(String, String)>,
}

fn parse(text: &str) -> Export {
    let mut export = Export { all: false, names: Vec::new(), set: Vec::new() };
    for part in parts(text) {
        // Removes quotes around the whole part, or around the value; other quotes belong to the value.
        let part = if part.starts_with(['\'', '"']) { unquoted(&part) } else { part };
        match part.split_once('=') {
            Some((name, value)) if value.starts_with(['\'', '"']) => {
                export.set.push((name.to_owned(), unquoted(value)));
            }
            Some((name, value)) => export.set.push((name.to_owned(), value.to_owned())),
            None if part.eq_ignore_ascii_case("ALL") => export.all = true,
            None if part.eq_ignore_ascii_case("NONE") || part.eq_ignore_ascii_case("NIL") => {}
            None => export.names.push(part),
        }
    }
    export
}

/// The end of a quoted text at the start of `text`; `None` without closed quotes.
fn quoted(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|&c| c == '\'' || c == '"')?;
    text[1..].find(quote).map(|at| at + 2)
}

/// The parts between commas; commas within quotes do not split.
fn parts(text: &str) -> Vec<String> {
    let (mut all, mut part, mut rest) = (Vec::new(), String::new(), text);
    while let Some(c) = rest.chars().next() {
        let taken = quoted(rest).unwrap_or(c.len_utf8());
        match c {
            ',' => all.push(std::mem::take(&mut part)),
            _ => part.push_str(&rest[..taken]),
        }
        rest = &rest[taken..];
    }
    all.push(part);
    all.into_iter().filter(|part| !part.is_empty()).collect()
}

/// Removes quotes as a shell does; an unclosed quote is an ordinary character.
fn unquoted(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        match quoted(rest) {
            Some(end) => {
                out.push_str(&rest[1..end - 1]);
                rest = &rest[end..];
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

/// Sets a job's environment on a command.
pub(crate) fn export(command: &mut Command, option: Option<&str>) {
    let own = |command: &mut Command| {
        command.env(home::VARIABLE, home::directory());
        // A script's `srun` is never another Slurm's.
        if let Some(directory) = commands::found().or_else(|| commands::directory().ok()) {
            command.env(commands::VARIABLE, directory);
        }
    };
    own(command);
    let Some(option) = option else { return };
    let export = parse(option);
    if !export.all {
        command.env_clear();
        let kept = ALWAYS.iter().map(|name| (*name).to_owned()).chain(export.names);
        command.envs(kept.filter_map(|name| Some((OsString::from(&name), std::env::var_os(&name)?))));
        own(command);
        command.env("SLURM_EXPORT_ENV", option);
    }
    command.envs(export.set);
}

/// Filters the environment of a step's tasks by `--export`; the tasks keep the job's variables of Slurm and pinfold.
pub(crate) fn export_step(command: &mut Command, option: Option<&str>) {
    let Some(export) = option.map(parse) else { return };
    if !export.all {
        command.env_clear();
        let kept = |name: &str| {
            ["SLURM", "PINFOLD_"].iter().any(|prefix| name.starts_with(prefix))
                || ALWAYS.contains(&name)
                || export.names.iter().any(|one| one == name)
        };
        command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(kept)));
    }
    command.envs(export.set);
}

/// Whether a variable describes a job in Slurm's words; a new job must not inherit these from its submitter.
fn is_of_a_job(name: &str) -> bool {
    const KEPT: &[&str] = &["SLURM_CONF", "SLURM_TIME_FORMAT", "SLURM_EXPORT_ENV", "SLURM_UMASK"];
    name.starts_with("SLURM") && !KEPT.contains(&name)
}

/// Which of these variables a new job does not have.
pub(crate) fn stale(names: impl IntoIterator<Item = String>) -> Vec<String> {
    names.into_iter().filter(|name| is_of_a_job(name)).collect()
}

/// The variables that a job's first process adds.
pub(crate) fn of_job(
    label: &Label,
    job: u64,
    member: Option<(u64, u32)>,
    restarts: u32,
    host: &str,
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut set = |name: &str, value: String| drop(all.insert(name.to_owned(), value));
    let (ntasks, cpus) = (label.ntasks.max(1), label.ntasks.max(1) * label.cpus_per_task.max(1));
    for name in ["SLURM_JOB_ID", "SLURM_JOBID"] {
        set(name, job.to_string());
    }
    for name in ["SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR"] {
        set(name, host.to_owned());
    }
    for name in ["SLURM_JOB_NUM_NODES", "SLURM_NNODES"] {
        set(name, "1".to_owned());
    }
    for name in ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS"] {
        set(name, "0".to_owned());
    }
    for name in ["SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE"] {
        set(name, ntasks.to_string());
    }
    for name in ["SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"] {
        set(name, cpus.to_string());
    }
    if label.cpus_per_task_said {
        set("SLURM_CPUS_PER_TASK", label.cpus_per_task.to_string());
    }
    if let Some(tasks) = label.ntasks_per_node {
        // Lightning treats several tasks as a mistake without this variable.
        set("SLURM_NTASKS_PER_NODE", tasks.to_string());
    }
    if !label.dependency.is_empty() {
        set("SLURM_JOB_DEPENDENCY", label.dependency.clone());
    }
    if let Some(bytes) = label.mem_bytes {
        match label.mem_per_cpu {
            true => set("SLURM_MEM_PER_CPU", ((bytes / u64::from(cpus)) >> 20).to_string()),
            false => set("SLURM_MEM_PER_NODE", (bytes >> 20).to_string()),
        }
    }
    set("SLURM_JOB_NAME", label.name.clone());
    set("SLURM_SUBMIT_DIR", label.submit_directory.clone());
    set("SLURM_SUBMIT_HOST", label.submit_host.clone());
    let partition = Some(&label.partition).filter(|text| !text.is_empty()).cloned();
    set("SLURM_JOB_PARTITION", partition.unwrap_or_else(|| PARTITION.to_owned()));
    if !label.account.is_empty() {
        set("SLURM_JOB_ACCOUNT", label.account.clone());
    }
    set("SLURM_JOB_QOS", if label.qos.is_empty() { "normal".to_owned() } else { label.qos.clone() });
    set("SLURM_CLUSTER_NAME", CLUSTER.to_owned());
    set("SLURM_RESTART_COUNT", restarts.to_string());
    set("SLURM_JOB_START_TIME", crate::units::whole(crate::units::now_s()).to_string());
    if let Some(user) = pinfold_sys::peer::user(pinfold_sys::peer::own_uid()) {
        set("SLURM_JOB_USER", user.name);
        set("SLURM_JOB_UID", pinfold_sys::peer::own_uid().to_string());
    }
    if let Some((array, index)) = member {
        all.extend(of_member(label, array, index));
    }
    all
}

/// An array member's variables.
fn of_member(label: &Label, array: u64, index: u32) -> impl Iterator<Item = (String, String)> {
    let spec = label.array.as_deref().and_then(|text| text.parse::<pinfold_proto::array::ArraySpec>().ok());
    let of_all = spec.into_iter().flat_map(|spec| {
        let (first, last) = (spec.indexes.first().copied(), spec.indexes.last().copied());
        let step = spec.indexes.get(1).zip(first).map_or(1, |(second, first)| second - first);
        [
            ("TASK_MIN", first.unwrap_or(0).to_string()),
            ("TASK_MAX", last.unwrap_or(0).to_string()),
            ("TASK_STEP", step.to_string()),
            ("TASK_COUNT", spec.indexes.len().to_string()),
        ]
    });
    [("JOB_ID", array.to_string()), ("TASK_ID", index.to_string())]
        .into_iter()
        .chain(of_all)
        .map(|(name, value)| (format!("SLURM_ARRAY_{name}"), value))
}

/// Counts the whole host's cores for an exclusive job.
pub(crate) fn of_whole_host(variables: &mut BTreeMap<String, String>, cores: usize) {
    for name in ["SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"] {
        let asked = variables.get(name).and_then(|text| text.parse().ok()).unwrap_or(1);
        variables.insert(name.to_owned(), cores.max(asked).to_string());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn exports() {
        let check = |text: &str, all: bool, names: &[&str], set: &[(&str, &str)]| {
            let export = parse(text);
            let own = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
            assert_eq!((export.all, export.names), (all, names.iter().map(|it| (*it).to_owned()).collect()));
            assert_eq!(export.set, set.iter().map(own).collect::<Vec<_>>(), "{text}");
        };
        check("ALL", true, &[], &[]);
        check("NONE", false, &[], &[]);
        check("ALL,A=1,B='x,y'", true, &[], &[("A", "1"), ("B", "x,y")]);
        check("HOME,A=", false, &["HOME"], &[("A", "")]);
        check("\"A=x,y\",'B=1'", false, &[], &[("A", "x,y"), ("B", "1")]);
        // As Python's shlex.quote writes it.
        check(r#"ALL,A='it'"'"'s, so'"#, true, &[], &[("A", "it's, so")]);
        // Quotes within a value are part of it, and one that nothing ends hides nothing.
        check(r#"ALL,A={"a":1},B=x"y,z"w"#, true, &[], &[("A", r#"{"a":1}"#), ("B", r#"x"y,z"w"#)]);
        check("ALL,A=don't,B=2", true, &[], &[("A", "don't"), ("B", "2")]);
        check("ALL,A='open,B=2", true, &[], &[("A", "'open"), ("B", "2")]);
        check("A==\u{e9},B='\u{e9}'", false, &[], &[("A", "=\u{e9}"), ("B", "\u{e9}")]);
    }

    proptest! {
        #[test]
        fn hostile_exports_never_panic(text in "[A,='\"\u{e9} ]{0,16}") {
            let _ = parse(&text);
        }
    }

    #[test]
    fn a_member_of_an_array() {
        let label =
            Label { array: Some("2-8:3%2".to_owned()), ntasks: 2, cpus_per_task: 3, ..Label::default() };
        let all = of_job(&label, 15, Some((12, 5)), 1, "h1");
        let check =
            |name: &str, want: &str| assert_eq!(all.get(name).map(String::as_str), Some(want), "{name}");
        check("SLURM_JOB_ID", "15");
        check("SLURM_ARRAY_JOB_ID", "12");
        check("SLURM_ARRAY_TASK_ID", "5");
        check("SLURM_ARRAY_TASK_MIN", "2");
        check("SLURM_ARRAY_TASK_MAX", "8");
        check("SLURM_ARRAY_TASK_STEP", "3");
        check("SLURM_ARRAY_TASK_COUNT", "3");
        check("SLURM_CPUS_ON_NODE", "6");
        check("SLURM_RESTART_COUNT", "1");
        for name in ["SLURM_CPUS_PER_TASK", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_DEPENDENCY"] {
            assert_eq!(all.get(name), None, "{name} was not asked for");
        }
    }

    #[test]
    fn variables_tell_the_request() {
        let label = Label {
            ntasks: 4,
            ntasks_per_node: Some(4),
            dependency: "afterok:7".to_owned(),
            ..Label::default()
        };
        let all = of_job(&label, 15, None, 0, "h1");
        assert_eq!((all["SLURM_NTASKS"].as_str(), all["SLURM_NTASKS_PER_NODE"].as_str()), ("4", "4"));
        assert_eq!(all["SLURM_JOB_DEPENDENCY"], "afterok:7");
    }

    #[test]
    fn a_job_that_has_the_host_for_itself() {
        let label = Label { ntasks: 2, cpus_per_task: 3, ..Label::default() };
        for (cores, want) in [(16, "16"), (1, "6")] {
            let mut all = of_job(&label, 15, None, 0, "h1");
            of_whole_host(&mut all, cores);
            assert_eq!(all["SLURM_CPUS_ON_NODE"], want);
            assert_eq!((all["SLURM_JOB_CPUS_PER_NODE"].as_str(), all["SLURM_NTASKS"].as_str()), (want, "2"));
        }
    }

    #[test]
    fn another_jobs_variables_go() {
        let names = ["SLURM_JOB_ID", "SLURM_CONF", "SLURMD_NODENAME", "SLURP", "PATH"];
        assert_eq!(stale(names.map(str::to_owned)), ["SLURM_JOB_ID", "SLURMD_NODENAME"]);
    }
}
