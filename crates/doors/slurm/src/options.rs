//! The options of each command and their effects; docs/slurm.md has the same tables, and a test compares them.

use crate::getopt::{Meaning, Opt, Takes};

const NO: Takes = Takes::Nothing;
const VALUE: Takes = Takes::Value;
const MAYBE: Takes = Takes::Maybe;

/// Message for refused requests of devices.
const GRES: &str = "Invalid generic resource (gres) specification";
const FEATURE: &str = "Invalid feature specification";
const LICENSE: &str = "Invalid license specification";
const RESERVATION: &str = "Requested reservation is invalid";
const HETJOB: &str = "heterogeneous jobs are not supported";
const NOT_HERE: &str = "not supported on a single host of pinfold's";

const fn opt(long: &'static str, short: char, takes: Takes, meaning: Meaning) -> Opt {
    Opt { long, short: if short == ' ' { None } else { Some(short) }, takes, meaning, also: &[] }
}

const fn same(long: &'static str, short: char, takes: Takes) -> Opt {
    opt(long, short, takes, Meaning::Same)
}

const fn ignored(long: &'static str, short: char, takes: Takes) -> Opt {
    opt(long, short, takes, Meaning::Ignored)
}

const fn refused(long: &'static str, short: char, takes: Takes, why: &'static str) -> Opt {
    opt(long, short, takes, Meaning::Refused(why))
}

const fn lacking(long: &'static str, short: char, takes: Takes, why: &'static str) -> Opt {
    opt(long, short, takes, Meaning::Lacking(why))
}

/// Common to all commands.
const EVERY: &[Opt] = &[same("clusters", 'M', VALUE), same("usage", ' ', NO), same("version", 'V', NO)];

/// Common to the commands that show data.
const SHOW: &[Opt] = &[
    ignored("local", ' ', NO),
    ignored("verbose", 'v', NO),
    refused("json", ' ', MAYBE, NOT_HERE),
    refused("yaml", ' ', MAYBE, NOT_HERE),
];

/// Common to squeue and sinfo.
const TABLE: &[Opt] = &[
    same("Format", 'O', VALUE),
    same("all", 'a', NO),
    same("format", 'o', VALUE),
    same("help", ' ', NO),
    same("long", 'l', NO),
    same("noheader", 'h', NO),
    same("partition", 'p', VALUE).or(&["partitions"]),
    same("states", 't', VALUE),
    ignored("expand-patterns", ' ', NO),
    ignored("federation", ' ', NO),
    ignored("hide", ' ', NO),
    ignored("noconvert", ' ', NO),
];

/// Common to sbatch, srun and salloc.
const JOB: &[Opt] = &[
    same("account", 'A', VALUE),
    same("begin", 'b', VALUE),
    same("chdir", 'D', VALUE),
    same("comment", ' ', VALUE),
    same("cpus-per-task", 'c', VALUE),
    same("dependency", 'd', VALUE),
    same("exclusive", ' ', MAYBE),
    same("help", 'h', NO),
    same("hold", 'H', NO),
    same("job-name", 'J', VALUE),
    same("mem", ' ', VALUE),
    same("mem-per-cpu", ' ', VALUE),
    same("nodelist", 'w', VALUE),
    same("nodes", 'N', VALUE),
    same("ntasks", 'n', VALUE),
    same("ntasks-per-node", ' ', VALUE),
    same("partition", 'p', VALUE),
    same("qos", 'q', VALUE),
    same("quiet", 'Q', NO),
    same("signal", ' ', VALUE),
    same("time", 't', VALUE),
    same("verbose", 'v', NO),
    same("exclude", 'x', VALUE),
    ignored("acctg-freq", ' ', VALUE),
    ignored("contiguous", ' ', NO),
    ignored("cores-per-socket", ' ', VALUE),
    ignored("cpu-freq", ' ', VALUE),
    ignored("delay-boot", ' ', VALUE),
    ignored("distribution", 'm', VALUE),
    ignored("extra", ' ', VALUE),
    ignored("extra-node-info", 'B', VALUE),
    ignored("gid", ' ', VALUE),
    ignored("hint", ' ', VALUE),
    ignored("kill-on-invalid-dep", ' ', VALUE),
    ignored("mail-type", ' ', VALUE),
    ignored("mail-user", ' ', VALUE),
    ignored("mcs-label", ' ', VALUE),
    ignored("mem-bind", ' ', VALUE),
    ignored("mincpus", ' ', VALUE),
    ignored("network", ' ', VALUE),
    ignored("nice", ' ', MAYBE),
    ignored("no-kill", 'k', MAYBE),
    ignored("ntasks-per-core", ' ', VALUE),
    ignored("ntasks-per-socket", ' ', VALUE),
    ignored("overcommit", 'O', NO),
    ignored("oversubscribe", 's', NO),
    ignored("power", ' ', VALUE),
    ignored("priority", ' ', VALUE),
    ignored("profile", ' ', VALUE),
    ignored("reboot", ' ', NO),
    ignored("sockets-per-node", ' ', VALUE),
    ignored("spread-job", ' ', NO),
    ignored("switches", ' ', VALUE),
    ignored("thread-spec", ' ', VALUE),
    ignored("threads-per-core", ' ', VALUE),
    ignored("time-min", ' ', VALUE),
    ignored("tmp", ' ', VALUE),
    ignored("use-min-nodes", ' ', NO),
    ignored("wckey", ' ', VALUE),
    ignored("core-spec", 'S', VALUE),
    refused("batch", ' ', VALUE, FEATURE),
    refused("bb", ' ', VALUE, NOT_HERE),
    refused("bbf", ' ', VALUE, NOT_HERE),
    refused("cluster-constraint", ' ', VALUE, FEATURE),
    refused("constraint", 'C', VALUE, FEATURE),
    refused("container", ' ', VALUE, NOT_HERE),
    refused("container-id", ' ', VALUE, NOT_HERE),
    lacking("cpus-per-gpu", ' ', VALUE, GRES),
    refused("deadline", ' ', VALUE, NOT_HERE),
    lacking("gpu-bind", ' ', VALUE, GRES),
    lacking("gpu-freq", ' ', VALUE, GRES),
    lacking("gpus", 'G', VALUE, GRES),
    lacking("gpus-per-node", ' ', VALUE, GRES),
    lacking("gpus-per-socket", ' ', VALUE, GRES),
    lacking("gpus-per-task", ' ', VALUE, GRES),
    lacking("gres", ' ', VALUE, GRES),
    lacking("gres-flags", ' ', VALUE, GRES),
    refused("het-group", ' ', VALUE, HETJOB),
    lacking("licenses", 'L', VALUE, LICENSE),
    lacking("mem-per-gpu", ' ', VALUE, GRES),
    refused("nodefile", 'F', VALUE, NOT_HERE),
    lacking("ntasks-per-gpu", ' ', VALUE, GRES),
    refused("prefer", ' ', VALUE, FEATURE),
    refused("reservation", ' ', VALUE, RESERVATION),
    lacking("tres-bind", ' ', VALUE, GRES),
    lacking("tres-per-task", ' ', VALUE, GRES),
    refused("uid", ' ', VALUE, "Access/permission denied"),
];

/// Common to sbatch and srun: a job's streams and its environment.
const STREAMS: &[Opt] = &[
    same("error", 'e', VALUE),
    same("export", ' ', VALUE),
    same("input", 'i', VALUE),
    same("open-mode", ' ', VALUE),
    same("output", 'o', VALUE),
    ignored("propagate", ' ', MAYBE),
];

/// Common to srun and salloc.
const NOW: &[Opt] = &[ignored("immediate", 'I', MAYBE), ignored("no-requeue", ' ', NO)];

/// Common to sbatch and salloc.
const LOGIN: &[Opt] = &[ignored("get-user-env", ' ', MAYBE)];

/// Of sbatch alone.
const BATCH: &[Opt] = &[
    same("array", 'a', VALUE),
    same("no-requeue", ' ', NO),
    same("parsable", ' ', NO),
    same("requeue", ' ', NO),
    same("test-only", ' ', NO),
    same("wait", 'W', NO),
    same("wrap", ' ', VALUE),
    ignored("ignore-pbs", ' ', NO),
    refused("export-file", ' ', VALUE, NOT_HERE),
];

/// Of srun alone.
const RUN: &[Opt] = &[
    same("kill-on-bad-exit", 'K', MAYBE),
    same("label", 'l', NO),
    same("cpu-bind", ' ', VALUE),
    same("jobid", ' ', VALUE),
    same("mpi", ' ', VALUE),
    ignored("accel-bind", ' ', VALUE),
    ignored("bcast", ' ', MAYBE),
    ignored("compress", ' ', MAYBE),
    ignored("disable-status", 'X', NO),
    ignored("epilog", ' ', VALUE),
    ignored("exact", ' ', NO),
    ignored("external-launcher", ' ', NO),
    ignored("interactive", ' ', NO),
    ignored("msg-timeout", ' ', VALUE),
    ignored("no-allocate", 'Z', NO),
    ignored("oom-kill-step", ' ', MAYBE),
    ignored("overlap", ' ', NO),
    ignored("preserve-env", 'E', NO),
    ignored("prolog", ' ', VALUE),
    ignored("pty", ' ', MAYBE),
    ignored("quit-on-interrupt", ' ', NO),
    ignored("relative", 'r', VALUE),
    ignored("resv-ports", ' ', MAYBE),
    ignored("send-libs", ' ', MAYBE),
    ignored("slurmd-debug", ' ', VALUE),
    ignored("task-epilog", ' ', VALUE),
    ignored("task-prolog", ' ', VALUE),
    ignored("threads", 'T', VALUE),
    ignored("unbuffered", 'u', NO),
    ignored("wait", 'W', VALUE),
    ignored("whole", ' ', NO),
    refused("multi-prog", ' ', NO, NOT_HERE),
];

/// Of salloc alone.
const ALLOC: &[Opt] = &[
    ignored("bell", ' ', NO),
    ignored("kill-command", 'K', MAYBE),
    ignored("no-bell", ' ', NO),
    ignored("wait-all-nodes", ' ', VALUE),
    refused("no-shell", ' ', NO, NOT_HERE),
];

/// Of squeue alone.
const SQUEUE: &[Opt] = &[
    same("account", 'A', VALUE).or(&["accounts"]),
    same("array", 'r', NO),
    same("array-unique", ' ', NO),
    same("jobs", 'j', MAYBE),
    same("me", ' ', NO),
    same("name", 'n', VALUE),
    same("only-job-state", ' ', NO),
    same("qos", 'q', VALUE),
    same("sort", 'S', VALUE),
    same("start", ' ', NO),
    refused("steps", 's', MAYBE, "steps are shown by sacct"),
    same("user", 'u', VALUE).or(&["users"]),
    same("nodelist", 'w', VALUE).or(&["nodes"]),
    refused("notme", ' ', NO, NOT_HERE),
    ignored("priority", 'P', NO),
    ignored("sibling", ' ', NO),
    refused("iterate", 'i', VALUE, "not supported: call squeue again instead"),
    refused("licenses", 'L', VALUE, LICENSE),
    refused("reservation", 'R', VALUE, RESERVATION),
];

/// Of sacct alone.
const SACCT: &[Opt] = &[
    same("accounts", 'A', VALUE),
    same("allocations", 'X', NO),
    same("allusers", 'a', NO),
    same("array", ' ', NO),
    same("brief", 'b', NO),
    same("delimiter", ' ', VALUE),
    same("endtime", 'E', VALUE),
    same("format", 'o', VALUE).or(&["fields"]),
    same("help", 'h', NO),
    same("helpformat", 'e', NO).or(&["help-fields"]),
    same("jobs", 'j', VALUE),
    same("long", 'l', NO),
    same("me", ' ', NO),
    same("name", ' ', VALUE),
    same("noconvert", ' ', NO),
    same("noheader", 'n', NO),
    same("parsable", 'p', NO),
    same("parsable2", 'P', NO),
    same("partition", 'r', VALUE),
    same("starttime", 'S', VALUE),
    same("state", 's', VALUE),
    ignored("truncate", 'T', NO),
    same("uid", 'u', VALUE),
    same("units", ' ', VALUE),
    same("user", ' ', VALUE),
    ignored("allclusters", 'L', NO),
    ignored("completion", 'c', NO),
    ignored("duplicates", 'D', NO),
    ignored("expand-patterns", ' ', NO),
    ignored("federation", ' ', NO),
    same("nodelist", 'N', VALUE),
    same("qos", 'q', VALUE),
    ignored("use-local-uid", ' ', NO),
    ignored("wckeys", 'W', VALUE),
    refused("batch-script", 'B', NO, NOT_HERE),
    refused("constraints", 'C', VALUE, FEATURE),
    refused("cpus-per-node", ' ', VALUE, NOT_HERE),
    refused("env-vars", ' ', NO, NOT_HERE),
    refused("flags", 'F', VALUE, NOT_HERE),
    refused("group", 'g', VALUE, NOT_HERE).or(&["gid"]),
    refused("ncpus", 'i', VALUE, NOT_HERE),
    refused("nnodes", 'I', VALUE, NOT_HERE),
    refused("reason", 'R', VALUE, NOT_HERE),
    refused("timelimit-max", 'K', VALUE, NOT_HERE),
    refused("timelimit-min", 'k', VALUE, NOT_HERE),
];

/// Of scancel alone.
const SCANCEL: &[Opt] = &[
    same("account", 'A', VALUE),
    same("batch", 'b', NO),
    same("full", 'f', NO),
    same("help", ' ', NO),
    same("jobname", 'n', VALUE),
    same("me", ' ', NO),
    same("name", ' ', VALUE),
    same("nodelist", 'w', VALUE),
    same("partition", 'p', VALUE),
    same("qos", 'q', VALUE),
    same("quiet", 'Q', NO),
    same("signal", 's', VALUE),
    same("state", 't', VALUE),
    same("user", 'u', VALUE),
    same("verbose", 'v', NO),
    ignored("admin-comment", ' ', VALUE),
    ignored("ctld", ' ', NO),
    ignored("hurry", 'H', NO),
    same("interactive", 'i', NO),
    // Without these choices more jobs would end than were meant.
    refused("sibling", ' ', VALUE, NOT_HERE),
    refused("wckey", ' ', VALUE, NOT_HERE),
    refused("cron", 'c', NO, NOT_HERE),
    refused("reservation", 'R', VALUE, RESERVATION),
];

/// Of sinfo alone.
const SINFO: &[Opt] = &[
    same("Node", 'N', NO),
    same("nodes", 'n', VALUE),
    same("summarize", 's', NO),
    ignored("dead", 'd', NO),
    ignored("exact", 'e', NO),
    ignored("future", 'F', NO),
    ignored("responding", 'r', NO),
    ignored("sort", 'S', VALUE),
    refused("iterate", 'i', VALUE, "not supported: call sinfo again instead"),
    refused("list-reasons", 'R', NO, NOT_HERE),
    refused("reservation", 'T', NO, RESERVATION),
];

/// Of scontrol alone.
const SCONTROL: &[Opt] = &[
    same("all", 'a', NO),
    same("details", 'd', NO),
    same("help", 'h', NO),
    same("oneliner", 'o', NO),
    same("quiet", 'Q', NO),
    ignored("federation", 'F', NO),
    ignored("future", ' ', NO),
    ignored("hide", ' ', NO),
    ignored("sibling", ' ', NO),
    refused("uid", 'u', VALUE, "Access/permission denied"),
];

/// The options of sbatch.
pub(crate) fn sbatch() -> Vec<Opt> {
    [EVERY, JOB, STREAMS, LOGIN, BATCH].concat()
}

/// The options of srun.
pub(crate) fn srun() -> Vec<Opt> {
    [EVERY, JOB, STREAMS, NOW, RUN].concat()
}

/// The options of salloc.
pub(crate) fn salloc() -> Vec<Opt> {
    [EVERY, JOB, NOW, LOGIN, ALLOC].concat()
}

/// The options of squeue.
pub(crate) fn squeue() -> Vec<Opt> {
    [EVERY, SHOW, TABLE, SQUEUE].concat()
}

/// The options of sacct.
pub(crate) fn sacct() -> Vec<Opt> {
    [EVERY, SHOW, SACCT].concat()
}

/// The options of scancel.
pub(crate) fn scancel() -> Vec<Opt> {
    [EVERY, SCANCEL].concat()
}

/// The options of sinfo.
pub(crate) fn sinfo() -> Vec<Opt> {
    [EVERY, SHOW, TABLE, SINFO].concat()
}

/// The options of scontrol.
pub(crate) fn scontrol() -> Vec<Opt> {
    [EVERY, SHOW, SCONTROL].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::shown;

    /// Each command with its options.
    fn all() -> [(&'static str, Vec<Opt>); 8] {
        [
            ("sbatch", sbatch()),
            ("srun", srun()),
            ("salloc", salloc()),
            ("squeue", squeue()),
            ("sacct", sacct()),
            ("scancel", scancel()),
            ("sinfo", sinfo()),
            ("scontrol", scontrol()),
        ]
    }

    /// The table of one command as docs/slurm.md has it.
    fn table(opts: &[Opt]) -> String {
        let mut text = "| here | options |\n| --- | --- |\n".to_owned();
        let with = |opt: &Opt| match opt.short {
            Some(letter) if !opt.long.is_empty() => format!("`-{letter} {}`", shown(opt)),
            _ => format!("`{}`", shown(opt)),
        };
        let mut row = |name: &str, is: &dyn Fn(&Opt) -> bool| {
            let listed: Vec<String> = opts.iter().filter(|opt| is(opt)).map(with).collect();
            if !listed.is_empty() {
                text.push_str(&format!("| {name} | {} |\n", listed.join(", ")));
            }
        };
        row("same", &|opt| opt.meaning == Meaning::Same);
        row("ignored", &|opt| opt.meaning == Meaning::Ignored);
        row("refused", &|opt| matches!(opt.meaning, Meaning::Refused(_) | Meaning::Lacking(_)));
        text
    }

    /// `PINFOLD_BLESS=1 cargo test -p pinfold-slurm the_page` writes the tables anew.
    #[test]
    fn the_page_has_each_option_of_each_command() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/slurm.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let mut want = page.clone();
        for (command, opts) in all() {
            let head = format!("\n#### {command}\n\n");
            let (before, rest) = want.split_once(&head).expect("a heading for each command");
            let end = rest.find("\n\n").map_or(rest.len(), |at| at + 1);
            want = format!("{before}{head}{}{}", table(&opts), &rest[end..]);
        }
        if std::env::var_os("PINFOLD_BLESS").is_some() {
            std::fs::write(path, &want).expect("the page is written");
        } else {
            assert!(page == want, "docs/slurm.md is behind the tables of options");
        }
    }

    #[test]
    fn no_option_is_there_twice() {
        for (command, opts) in all() {
            for (at, one) in opts.iter().enumerate() {
                let same = |two: &&Opt| {
                    (two.long == one.long && !one.long.is_empty())
                        || (two.short.is_some() && two.short == one.short)
                };
                assert_eq!(opts[at + 1..].iter().find(same), None, "{command}: {one:?}");
            }
        }
    }
}
