//! The doctor's report: the abilities of pinfold on this host, with changes that an administrator can make. Pure: facts
//! and plan in, findings out.
//!
//! Absent here: reading the host (`mode::probe`), and showing the findings.

use crate::cgroup::Generation;
use crate::mode::{AbilityName, Facts, Mode, Plan};

/// A line of the doctor's report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The subject.
    pub subject: &'static str,
    /// Whether it suits pinfold.
    pub ok: bool,
    /// The finding.
    pub found: String,
    /// The change that an administrator could make.
    pub change: Option<String>,
}

/// A job takes up to five open files: one for each of four hierarchies and one for its events.
const FILES_PER_JOB: u64 = 5;
/// Jobs that a host should be able to hold at once without a second thought.
const JOBS_USUAL: u64 = 1000;

const GIB: u64 = 1 << 30;

/// Examines a host. The order is fixed: the mode, the abilities, then the conditions that affect them.
#[must_use]
pub fn examine(facts: &Facts, plan: &Plan) -> Vec<Finding> {
    let mut findings = vec![mode(facts, plan)];
    findings.extend(plan.abilities.iter().map(|ability| Finding {
        subject: ability.name.as_str(),
        ok: ability.real,
        found: ability.how.clone(),
        change: ability.change.clone(),
    }));
    findings.extend([
        swap(facts),
        pressure(facts),
        triggers(facts),
        smt(facts),
        idle_class(facts, plan),
        open_files(facts, plan),
        leftovers(facts),
        systemd(facts, plan),
        delegation(facts, plan),
        tmp(facts),
        private_tmp(facts),
        no_network(facts),
    ]);
    findings
}

fn good(subject: &'static str, found: impl Into<String>) -> Finding {
    Finding { subject, ok: true, found: found.into(), change: None }
}

fn lacking(subject: &'static str, found: impl Into<String>, change: impl Into<String>) -> Finding {
    Finding { subject, ok: false, found: found.into(), change: Some(change.into()) }
}

fn mode(facts: &Facts, plan: &Plan) -> Finding {
    let found = format!("{}: {}", plan.mode, plan.why);
    if plan.mode != Mode::Rootless {
        return good("mode", found);
    }
    let change = if facts.hierarchies.is_empty() {
        "mount the unified hierarchy of control groups at /sys/fs/cgroup"
    } else if facts.systemd {
        "run the daemon as a system service, or see delegation"
    } else {
        "run the daemon as root"
    };
    lacking("mode", found, change)
}

fn swap(facts: &Facts) -> Finding {
    let (memory, swap) = (facts.memory_bytes, facts.swap_bytes);
    let amounts = format!("{} of swap for {} of memory", gibibytes(swap), gibibytes(memory));
    if swap >= memory {
        return good("swap", amounts);
    }
    let missing = gibibytes(memory - swap);
    let effect = if swap == 0 {
        "no swap: a frozen job keeps its memory, so jobs that do not fit together run one after the other"
    } else {
        "not every job can be pushed out to make room for one"
    };
    let change = format!("add {missing}: fallocate -l, chmod 600, mkswap, swapon, and a line in /etc/fstab");
    lacking("swap", format!("{amounts}; {effect}"), change)
}

fn pressure(facts: &Facts) -> Finding {
    if facts.pressure {
        return good("pressure", "stalls are accounted (PSI)");
    }
    let change = if facts.kernel_at_least(4, 20) { "boot with psi=1" } else { "a kernel of 4.20 or later" };
    lacking("pressure", "stalls are not accounted, so memory is judged by what is free alone", change)
}

fn triggers(facts: &Facts) -> Finding {
    let subject = "pressure_triggers";
    if !facts.pressure {
        return lacking(subject, "none without pressure", "see pressure");
    }
    if facts.may_exceed_limits {
        return good(subject, "windows from 500 ms (CAP_SYS_RESOURCE)");
    }
    let found = "windows in steps of 2 s only; finer readings are differences of totals";
    lacking(subject, found, "grant the daemon CAP_SYS_RESOURCE")
}

fn smt(facts: &Facts) -> Finding {
    match facts.smt {
        Some(true) => good("smt", format!("{} PUs share cores; a core is counted once", facts.pus)),
        Some(false) => good("smt", format!("{} PUs, each a core of its own", facts.pus)),
        None => good("smt", format!("{} PUs; the kernel does not say whether they share cores", facts.pus)),
    }
}

fn idle_class(facts: &Facts, plan: &Plan) -> Finding {
    let subject = "kernel_idle_class";
    let carries = |generation| plan.carrier(generation, "cpu").is_some();
    if !carries(Generation::V1) && !carries(Generation::V2) {
        return lacking(subject, "no cpu controller to put a group into the idle class", "see idle_class");
    }
    match plan.via(AbilityName::IdleClass) {
        crate::mode::Via::V1 | crate::mode::Via::V2 => {
            good(subject, format!("kernel {} has cpu.idle for groups", facts.kernel))
        }
        _ => {
            lacking(subject, format!("kernel {} has no cpu.idle", facts.kernel), "a kernel of 5.15 or later")
        }
    }
}

fn open_files(facts: &Facts, plan: &Plan) -> Finding {
    let subject = "open_files";
    if plan.mode == Mode::Rootless {
        return good(subject, "jobs without groups take none");
    }
    let jobs = facts.open_files / FILES_PER_JOB;
    let found = match facts.open_files {
        u64::MAX => "without bound".to_owned(),
        files => format!("{files}, enough for about {jobs} jobs at once"),
    };
    if jobs >= JOBS_USUAL {
        return good(subject, found);
    }
    let wanted = JOBS_USUAL * FILES_PER_JOB + 256;
    lacking(subject, found, format!("raise the limit to {wanted} or more (LimitNOFILE=, ulimit -n)"))
}

/// The most leftover groups of daemons that are named.
const LEFTOVERS_NAMED: usize = 4;

fn leftovers(facts: &Facts) -> Finding {
    if facts.leftovers.is_empty() {
        return good("leftover_groups", "none");
    }
    let named = facts.leftovers.iter().take(LEFTOVERS_NAMED);
    let mut names = named.map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = facts.leftovers.len().checked_sub(LEFTOVERS_NAMED) {
        names.push_str(&format!(" and {more} more"));
    }
    // A running daemon's groups look the same, so this is no fault by itself.
    let found =
        format!("of running or earlier daemons: {names}; `pinfold admin rescue` lifts those of earlier ones");
    good("leftover_groups", found)
}

const HANDED_DOWN: &str =
    "start pinfold-jobs.service before the daemon's service, or give this service Delegate=yes";

fn systemd(facts: &Facts, plan: &Plan) -> Finding {
    let subject = "systemd";
    if !facts.systemd {
        return good(subject, "the first process is not systemd; nobody else manages the groups");
    }
    match plan.tree() {
        Some(tree) if tree.delegated => {
            good(subject, format!("hands down the group {}", tree.base_path().display()))
        }
        Some(tree) => lacking(
            subject,
            format!(
                "manages the hierarchy at {}, and our group at its top is not its own",
                tree.mount.display()
            ),
            HANDED_DOWN,
        ),
        None => lacking(subject, "hands down no group", HANDED_DOWN),
    }
}

/// The controllers that a group for jobs should have.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "io", "memory", "pids"];

/// The command by which a user gets a group from the own service manager.
const OWN_SCOPE: &str = "systemd-run --user --scope -p Delegate=yes $SHELL";

fn delegation(facts: &Facts, plan: &Plan) -> Finding {
    let subject = "delegation";
    let Some(tree) = plan.tree().filter(|tree| tree.delegated) else {
        if facts.user == 0 || plan.mode != Mode::Rootless {
            return good(subject, "not needed: the daemon makes its groups at the top of the hierarchies");
        }
        let found = format!("no control group is delegated to user {}", facts.user);
        let has_tree = facts.hierarchies.iter().any(|one| one.generation == Generation::V2);
        let change = match (has_tree, facts.systemd) {
            (false, _) => "mount the unified hierarchy of control groups at /sys/fs/cgroup".to_owned(),
            (true, true) => format!("`{OWN_SCOPE}`, and pinfold from there once this daemon has ended"),
            (true, false) => format!(
                "as root: make a group, `chown {}` its directory, cgroup.procs and cgroup.subtree_control, and start \
                 the session or the daemon in it",
                facts.user
            ),
        };
        return lacking(subject, found, change);
    };
    let group = tree.base_path().display().to_string();
    let missing: Vec<&str> = CONTROLLERS.into_iter().filter(|one| !tree.carries(one)).collect();
    if missing.is_empty() {
        return good(subject, format!("{group} is this daemon's, with {}", CONTROLLERS.join(" ")));
    }
    let missing = missing.join(" ");
    let found = format!("{group} is this daemon's, but without {missing}");
    let elsewhere = facts.hierarchies.iter().any(|one| one.generation == Generation::V1);
    let change = if elsewhere {
        format!(
            "have {missing} in the unified hierarchy: boot with systemd.unified_cgroup_hierarchy=1 or \
                 cgroup_no_v1=all"
        )
    } else if facts.systemd {
        "as root: `pinfold admin delegate`, which gives user@.service Delegate=cpu cpuset io memory pids (a system \
         service: `systemctl edit` of it, with that line below [Service]); then log in again"
            .to_owned()
    } else {
        format!("as root: write `{}` to cgroup.subtree_control of the groups above it", plus(&missing))
    };
    lacking(subject, found, change)
}

fn plus(controllers: &str) -> String {
    controllers.split(' ').map(|one| format!("+{one}")).collect::<Vec<_>>().join(" ")
}

fn tmp(facts: &Facts) -> Finding {
    let subject = "tmp";
    if facts.user == 0 && facts.may_mount {
        return good(subject, "--tmp is a file system in memory, of just the size asked for");
    }
    let found = "--tmp is a directory below /dev/shm, and nothing keeps a job to the size asked for";
    let change = if facts.user == 0 { "grant the daemon CAP_SYS_ADMIN" } else { "run the daemon as root" };
    lacking(subject, found, change)
}

/// The settings that let any user make namespaces: the kernel's bound, and the switches of distributions.
const ALLOW_NAMESPACES: &str = "allow user namespaces: user.max_user_namespaces, kernel.unprivileged_userns_clone=1, \
                                kernel.apparmor_restrict_unprivileged_userns=0";

fn private_tmp(facts: &Facts) -> Finding {
    let subject = "private_tmp";
    match (facts.user == 0 && facts.may_mount, facts.user_namespaces) {
        (_, true) => good(subject, "every user can have a /tmp of its own (user namespaces)"),
        (true, false) => lacking(subject, "only root's jobs can have a /tmp of their own", ALLOW_NAMESPACES),
        (false, false) => lacking(subject, "no job can have a /tmp of its own", ALLOW_NAMESPACES),
    }
}

fn no_network(facts: &Facts) -> Finding {
    let subject = "no_network";
    if !facts.network_namespaces {
        let change = "a kernel with network namespaces (CONFIG_NET_NS), and user.max_net_namespaces above 0";
        return lacking(subject, "no job can be kept off the network", change);
    }
    match (facts.user == 0 && facts.may_mount, facts.user_namespaces) {
        (_, true) => good(subject, "every user can keep a job off the network (user namespaces)"),
        (true, false) => lacking(subject, "only root's jobs can be kept off the network", ALLOW_NAMESPACES),
        (false, false) => lacking(subject, "no job can be kept off the network", ALLOW_NAMESPACES),
    }
}

fn gibibytes(bytes: u64) -> String {
    // One digit is enough to judge by, and rounding up never advises too little.
    let tenths = u128::from(bytes).saturating_mul(10).div_ceil(u128::from(GIB));
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests;
