//! Reads a host's facts. The only write: in each hierarchy it makes an empty group and removes it again, which is the only
//! reliable way to learn whether that is allowed and which files the group has.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Access;

use super::Roots;
use super::facts::{Facts, Hierarchy};
use crate::cgroup::{CgroupError, Generation, Group, Mount, own_group, parse_mounts};
use crate::procfs::{PressureResource, Proc};

/// The leaf into which processes of a delegated group are moved: a group that hands controllers down may not hold
/// processes itself.
pub(crate) const DAEMON_LEAF: &str = "pinfold-daemon";

/// The unit beside the daemon's own to which systemd hands the jobs' groups: systemd before 254 can start no service
/// again while groups below the service's own hold processes.
pub(crate) const JOBS_UNIT: &str = "pinfold-jobs.service";

const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_NICE: u32 = 23;
const CAP_SYS_RESOURCE: u32 = 24;

/// Probes the host. Unreadable facts count as absent.
#[must_use]
pub fn probe(roots: &Roots) -> Facts {
    let proc = Proc::open(&roots.proc).ok();
    let text =
        |file: &str| proc.as_ref().and_then(|proc| proc.long_text(file).ok().flatten()).unwrap_or_default();
    let status = text("self/status");
    let memory = proc.as_ref().and_then(|proc| proc.memory_info().ok());
    let capable = |bit: u32| effective_capabilities(&status) >> bit & 1 == 1;
    let limits = text("self/limits");
    let hierarchies = hierarchies(roots, &text("self/mountinfo"), &text("self/cgroup"));
    Facts {
        kernel: text("sys/kernel/osrelease").trim().to_owned(),
        user: effective_user(&status),
        may_raise_weight: capable(CAP_SYS_NICE),
        may_exceed_limits: capable(CAP_SYS_RESOURCE),
        may_mount: capable(CAP_SYS_ADMIN),
        user_namespaces: user_namespaces(|file| text(file)),
        network_namespaces: text("sys/user/max_net_namespaces")
            .trim()
            .parse()
            .is_ok_and(|most: u64| most > 0),
        autogroup: text("sys/kernel/sched_autogroup_enabled").trim() == "1"
            && !in_cpu_group(&hierarchies, &text("self/cgroup")),
        nice_ceiling: soft_limit(&limits, "Max nice priority"),
        open_files: soft_limit(&limits, "Max open files"),
        pus: proc.as_ref().and_then(|proc| proc.host_cpu().ok()).map_or(1, |host| host.pus.len()),
        smt: siblings_share_cores(&text("cpuinfo")),
        memory_bytes: memory.map_or(0, |memory| memory.total_bytes),
        swap_bytes: memory.map_or(0, |memory| memory.swap_total_bytes),
        pressure: proc
            .as_ref()
            .is_some_and(|proc| matches!(proc.pressure(PressureResource::Memory), Ok(Some(_)))),
        children_listed: proc.as_ref().is_some_and(lists_children),
        systemd: text("1/comm").trim() == "systemd",
        leftovers: leftovers(roots, &hierarchies),
        hierarchies,
    }
}

/// Distributions have switches of their own for this, beside the kernel's bound on how many there may be.
fn user_namespaces(text: impl Fn(&str) -> String) -> bool {
    let number = |file: &str| text(file).trim().parse::<u64>().ok();
    number("sys/user/max_user_namespaces").is_some_and(|most| most > 0)
        && number("sys/kernel/unprivileged_userns_clone") != Some(0)
        && number("sys/kernel/apparmor_restrict_unprivileged_userns") != Some(1)
}

/// Whether this process is in a group of a cpu controller, where autogroup does not apply. The first group of all has no
/// `cpu.weight`.
fn in_cpu_group(hierarchies: &[Hierarchy], own: &str) -> bool {
    hierarchies.iter().any(|one| match one.generation {
        Generation::V1 => {
            one.controllers.iter().any(|name| name == "cpu")
                && own_group(own, Generation::V1, "cpu").is_some_and(|group| group != "/")
        }
        Generation::V2 => own_group(own, Generation::V2, "").is_some_and(|group| {
            let place = one.mount.join(group.trim_start_matches('/'));
            let mut above = place.ancestors().take_while(|path| path.starts_with(&one.mount));
            above.any(|path| path.join("cpu.weight").exists())
        }),
    })
}

fn lists_children(proc: &Proc) -> bool {
    let own = std::process::id();
    matches!(proc.text(&format!("{own}/task/{own}/children")), Ok(Some(_)))
}

fn hierarchies(roots: &Roots, mountinfo: &str, own: &str) -> Vec<Hierarchy> {
    let useful = |mount: &Mount| {
        mount.generation == Generation::V2
            || ["cpu", "cpuset", "memory", "freezer", "cpuacct", "pids"]
                .iter()
                .any(|wanted| mount.controllers.iter().any(|have| have == wanted))
    };
    let mut found: Vec<Hierarchy> = Vec::new();
    for mount in parse_mounts(mountinfo).iter().filter(|mount| useful(mount)) {
        let Some(point) = roots.resolve(&mount.point) else { continue };
        let hierarchy = examine(roots, mount, point, own);
        // The same hierarchy may be mounted twice; the first that can be written is as good as any.
        let known = found.iter_mut().find(|one| {
            one.generation == mount.generation
                && (mount.generation == Generation::V2 || one.controllers == mount.controllers)
        });
        match known {
            Some(known) if !known.writable && hierarchy.writable => *known = hierarchy,
            Some(_) => {}
            None => found.push(hierarchy),
        }
    }
    found
}

fn examine(roots: &Roots, mount: &Mount, point: PathBuf, own: &str) -> Hierarchy {
    let (base, delegated) = match mount.generation {
        Generation::V1 => (String::new(), false),
        Generation::V2 => base_in_tree(mount, &point, own),
    };
    let mut hierarchy = Hierarchy {
        generation: mount.generation,
        mount: point,
        base,
        delegated,
        controllers: mount.controllers.clone(),
        writable: false,
        files: Vec::new(),
    };
    let Ok(Some(group)) = Group::open(&hierarchy.base_path(), roots.fake.clone()) else { return hierarchy };
    if mount.generation == Generation::V2 {
        let listed = group.read("cgroup.controllers").ok().flatten().unwrap_or_default();
        hierarchy.controllers = listed.split_ascii_whitespace().map(str::to_owned).collect();
    }
    if !mount.read_only
        && let Ok(files) = try_group(&group)
    {
        hierarchy.writable = true;
        hierarchy.files = files;
    }
    hierarchy
}

/// Makes a group, lists its files, removes it.
fn try_group(base: &Group) -> Result<Vec<String>, CgroupError> {
    remove_left(base);
    let name = format!("{PROBE}{}-{:?}", std::process::id(), std::thread::current().id());
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let (group, _) = base.make(&name)?;
    let files = group.files();
    base.remove(&name, false)?;
    files
}

/// The prefix of probing groups; the number of their process follows.
const PROBE: &str = "pinfold-probe-";
/// A probe takes a millisecond: a probing group of this age is of a killed daemon.
const PROBE_MAX: Duration = Duration::from_secs(30);

/// Removes the groups of processes that were killed during a probe.
fn remove_left(base: &Group) {
    for name in base.children().unwrap_or_default() {
        let Some(pid) = pid_of_probe(&name) else { continue };
        let made = std::fs::metadata(base.path().join(&name)).and_then(|found| found.modified());
        let old = made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age >= PROBE_MAX));
        // Processes in another namespace are judged by the group's age only.
        if old && !Path::new("/proc").join(pid).exists() {
            let _ = base.remove(&name, false);
        }
    }
}

fn pid_of_probe(name: &str) -> Option<&str> {
    let pid = name.strip_prefix(PROBE)?.split('-').next()?;
    pid.parse::<u32>().is_ok().then_some(pid)
}

/// The place of pinfold's groups in the unified hierarchy: below our own group if a manager delegated it to us (or
/// delegated its parent and put us into a leaf), else at the top if we may write there, else below our own group.
fn base_in_tree(mount: &Mount, point: &Path, own: &str) -> (String, bool) {
    let Some(own) = own_group(own, Generation::V2, "") else { return (String::new(), false) };
    // A mount made inside a container shows only the part of the hierarchy below its root.
    let own = own.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(&own);
    let own = own.trim_matches('/');
    // An earlier daemon may have moved all processes, this process included, into this leaf of its delegated group.
    let own = own.strip_suffix(DAEMON_LEAF).map_or(own, |group| group.trim_end_matches('/'));
    if own.is_empty() || own.split('/').any(|part| part == "..") {
        return (String::new(), false);
    }
    if let Some(base) = delegated_near(own, |group| is_marked_delegated(&point.join(group))) {
        return (base, true);
    }
    let may_write = |path: &Path| rustix::fs::access(path, Access::WRITE_OK).is_ok();
    // A directory without its list of processes is of no use: no process could be put into a group below it.
    let is_ours = |group: &Path| may_write(group) && may_write(&group.join("cgroup.procs"));
    if !may_write(point) && is_ours(&point.join(own)) {
        return (own.to_owned(), true);
    }
    (String::new(), false)
}

/// The group near a process's own group that a manager handed over: the jobs' unit beside it, itself, its parent.
fn delegated_near(own: &str, is_delegated: impl Fn(&str) -> bool) -> Option<String> {
    let parent = own.rsplit_once('/').map(|(parent, _)| parent);
    let beside = parent.map_or(JOBS_UNIT.to_owned(), |parent| format!("{parent}/{JOBS_UNIT}"));
    let mut candidates = [Some(beside.as_str()), Some(own), parent].into_iter().flatten();
    candidates.find(|group| is_delegated(group)).map(str::to_owned)
}

/// systemd marks a delegated group with an extended attribute, `trusted.` for root's, `user.` for others'.
pub(crate) fn is_marked_delegated(group: &Path) -> bool {
    ["trusted.delegate", "user.delegate"].iter().any(|name| {
        let mut value = [0u8; 4];
        matches!(rustix::fs::getxattr(group, *name, &mut value[..]), Ok(length) if value[..length] == *b"1")
    })
}

fn leftovers(roots: &Roots, hierarchies: &[Hierarchy]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for hierarchy in hierarchies {
        let top = hierarchy.base_path().join("pinfold");
        let Ok(Some(group)) = Group::open(&top, roots.fake.clone()) else { continue };
        found.extend(group.children().unwrap_or_default().into_iter().map(|name| top.join(name)));
    }
    found.sort();
    found
}

fn effective_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn effective_user(status: &str) -> u32 {
    // Four numbers: real, effective, saved, file system.
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.and_then(|users| users.split_ascii_whitespace().nth(1)?.parse().ok()).unwrap_or(u32::MAX)
}

fn soft_limit(limits: &str, name: &str) -> u64 {
    let line = limits.lines().find_map(|line| line.strip_prefix(name));
    match line.and_then(|values| values.split_ascii_whitespace().next()) {
        Some("unlimited") => u64::MAX,
        Some(number) => number.parse().unwrap_or(0),
        None => 0,
    }
}

fn siblings_share_cores(cpuinfo: &str) -> Option<bool> {
    let number = |key: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(key))?;
        line.split_once(':')?.1.trim().parse::<u32>().ok()
    };
    Some(number("siblings")? > number("cpu cores")?)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rights_are_read_from_the_status() {
        let status = "Name:\tx\nUid:\t1000\t33\t1000\t1000\nCapEff:\t0000000000800000\n";
        assert_eq!(effective_user(status), 33);
        assert_eq!(effective_capabilities(status) >> CAP_SYS_NICE & 1, 1);
        assert_eq!(effective_capabilities(status) >> CAP_SYS_RESOURCE & 1, 0);
        assert_eq!(effective_user(""), u32::MAX, "who is unknown is not root");
    }

    #[test]
    fn limits_and_siblings() {
        let limits = "Max open files            1024                 524288               files     \n\
                      Max nice priority         unlimited            0                    \n";
        assert_eq!(soft_limit(limits, "Max open files"), 1024);
        assert_eq!(soft_limit(limits, "Max nice priority"), u64::MAX);
        assert_eq!(soft_limit(limits, "Max realtime priority"), 0);
        assert_eq!(siblings_share_cores("siblings\t: 8\ncpu cores\t: 4\n"), Some(true));
        assert_eq!(siblings_share_cores("siblings\t: 4\ncpu cores\t: 4\n"), Some(false));
        assert_eq!(siblings_share_cores("processor : 0\n"), None);
    }

    #[test]
    fn groups_of_a_killed_probe_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let base = Group::open(dir.path(), None).unwrap().unwrap();
        let make = |name: &str, old: bool| {
            base.make(name).unwrap();
            let age = if old { PROBE_MAX * 2 } else { Duration::ZERO };
            let directory = std::fs::File::open(dir.path().join(name)).unwrap();
            directory.set_modified(SystemTime::now() - age).unwrap();
        };
        let own = format!("pinfold-probe-{}-ThreadId1", std::process::id());
        // No process has so high a number (PID_MAX_LIMIT is 2^22).
        make("pinfold-probe-4194305-ThreadId1", true);
        make("pinfold-probe-4194306-ThreadId1", false);
        make(&own, true);
        make("pinfold-probe-x-ThreadId1", true);
        make("pinfold", true);
        remove_left(&base);
        let mut left = ["pinfold", "pinfold-probe-4194306-ThreadId1", "pinfold-probe-x-ThreadId1", &own];
        left.sort_unstable();
        assert_eq!(base.children().unwrap(), left);
    }

    #[test]
    fn the_jobs_unit_goes_before_the_daemons_own() {
        let check = |own: &str, delegated: &[&str], want: Option<&str>| {
            assert_eq!(delegated_near(own, |group| delegated.contains(&group)).as_deref(), want, "{own}");
        };
        let (service, jobs) = ("a.slice/pinfoldd.service", "a.slice/pinfold-jobs.service");
        check(service, &[service, jobs], Some(jobs));
        check(service, &[service], Some(service));
        check(service, &["a.slice"], Some("a.slice"));
        check(service, &["b.slice/pinfold-jobs.service"], None);
        check("pinfoldd.service", &["pinfold-jobs.service"], Some("pinfold-jobs.service"));
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(text in any::<String>()) {
            let _ = effective_capabilities(&text);
            let _ = effective_user(&text);
            let _ = soft_limit(&text, "");
            let _ = siblings_share_cores(&text);
        }
    }
}
