//! The bounds of the control groups around a process, whatever program made them: a workload manager for its job, a
//! service manager for a user. A job that the process submits enters a group elsewhere, and would leave these bounds
//! behind. Reads the process's own group and all groups above. Absent here: the consequences.

use std::path::PathBuf;

use pinfold_topo::CpuSet;

use crate::cgroup::{Generation, Group, own_group, parse_limit};
use crate::container::levels::TOP;
use crate::container::{IoRate, Limited, is_device};
use crate::managers;
use crate::mode::{Hierarchy, Roots};
use crate::procfs::Proc;

/// The first generation shows "no limit" as the largest number of whole pages.
const NO_LIMIT_BYTES: u64 = 1 << 62;
/// The most nested groups that are read; managers nest a handful of levels.
const DEPTH_MAX: usize = 64;

/// The bounds found around a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The PUs common to all groups around it; `None`: no group names PUs.
    pub cpus: Option<CpuSet>,
    /// The smallest memory limit around it, in bytes.
    pub memory_bytes: Option<u64>,
    /// The group of that limit, the uppermost of several: all processes within it share the memory.
    pub memory_group: Option<PathBuf>,
    /// Other bounds by groups that a job leaves: each with its group, the bounds of a resource from the uppermost down,
    /// each smaller than the one before. All processes within a group share its bound.
    pub limits: Vec<GroupBound>,
    /// The workload manager of its job, by the names of groups and the processes above it.
    pub manager: Option<String>,
    /// The job of this instance that contains it; the groups of a job set no bounds here.
    pub job: Option<u64>,
}

impl Bounds {
    /// The common bounds of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.cpus = match (self.cpus, other.cpus) {
            (Some(one), Some(other)) => Some(one.intersection(&other)),
            (one, other) => one.or(other),
        };
        let least = [self.memory_bytes.zip(self.memory_group), other.memory_bytes.zip(other.memory_group)];
        (self.memory_bytes, self.memory_group) = least.into_iter().flatten().min().unzip();
        other.limits.into_iter().for_each(|bound| note(&mut self.limits, bound));
        self.manager = self.manager.or(other.manager);
        self.job = self.job.or(other.job);
        self
    }
}

/// A bound of a group on a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupBound {
    /// The resource.
    pub what: Limited,
    /// The bound, in the resource's unit.
    pub most: u64,
    /// The group.
    pub group: PathBuf,
}

/// The most bounds reported for a resource; beyond them the smallest replaces the last.
const BOUNDS_MAX: usize = 6;
/// The most resources read in all; a host has a handful of block devices with bounds.
const LIMITED_MAX: usize = 64;

/// Finds the bounds around a process. A vanished process has no bounds, and an unreadable bound is left out. `used`:
/// the hierarchies in which a job gets a group of its own; in the others it stays in its client's.
#[must_use]
pub fn around(
    hierarchies: &[Hierarchy],
    used: &[Hierarchy],
    roots: &Roots,
    proc: &Proc,
    instance: &str,
    pid: u32,
) -> Bounds {
    let manager = managers::of_process(proc, pid);
    let own = proc.text(&format!("{pid}/cgroup")).ok().flatten();
    let found = own.map(|own| along(hierarchies, used, roots, &own, instance)).unwrap_or_default();
    Bounds { manager, ..found }
}

/// As [`around`], for the groups that `/proc/PID/cgroup` of a present or past process names; reports no manager.
#[must_use]
pub fn along(
    hierarchies: &[Hierarchy],
    used: &[Hierarchy],
    roots: &Roots,
    own: &str,
    instance: &str,
) -> Bounds {
    let mut found = Bounds::default();
    for hierarchy in hierarchies {
        let unified = hierarchy.generation == Generation::V2;
        let leaves = used.iter().any(|one| one.mount == hierarchy.mount);
        for controller in ["cpuset", "memory", "pids", "cpu", "io"] {
            if unified || hierarchy.carries(controller) {
                let Some(path) = own_group(own, hierarchy.generation, controller) else { continue };
                let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
                if names.contains(&"..") {
                    continue;
                }
                // A user may nest more groups below a delegated group; the groups above set the bounds.
                let names = &names[..names.len().min(DEPTH_MAX)];
                match job_in(hierarchy, names, instance) {
                    Some(job) => found.job = Some(job),
                    None if controller == "cpuset" || controller == "memory" => {
                        look_along(hierarchy, roots, controller, names, &mut found);
                        if controller == "memory" && leaves {
                            limits_along(hierarchy, roots, controller, names, &mut found.limits);
                        }
                    }
                    None if leaves => limits_along(hierarchy, roots, controller, names, &mut found.limits),
                    None => {}
                }
            }
        }
    }
    found
}

/// The job whose group these names lead into, if any.
fn job_in(hierarchy: &Hierarchy, names: &[&str], instance: &str) -> Option<u64> {
    let mut rest = names.iter();
    let base = hierarchy.base.split('/').filter(|name| !name.is_empty());
    for name in base.chain([TOP, instance]) {
        if rest.next() != Some(&name) {
            return None;
        }
    }
    rest.next()?.strip_prefix("job-")?.parse().ok()
}

/// Reads a controller's bounds in each group on the way down from the top, which has none.
fn look_along(hierarchy: &Hierarchy, roots: &Roots, controller: &str, names: &[&str], found: &mut Bounds) {
    let mut path = hierarchy.mount.clone();
    for name in names {
        path.push(name);
        let Ok(Some(group)) = Group::open(&path, roots.fake.clone()) else { return };
        let text = |file: &str| group.read(file).ok().flatten();
        if controller == "cpuset" {
            let cpus = text("cpuset.cpus").and_then(|text| text.parse::<CpuSet>().ok());
            if let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) {
                found.cpus = Some(found.cpus.take().map_or(cpus.clone(), |all| all.intersection(&cpus)));
            }
            continue;
        }
        let file = match hierarchy.generation {
            Generation::V1 => "memory.limit_in_bytes",
            Generation::V2 => "memory.max",
        };
        let limit = text(file).as_deref().and_then(parse_limit).filter(|&limit| limit < NO_LIMIT_BYTES);
        if let Some(limit) = limit.filter(|&limit| found.memory_bytes.is_none_or(|have| limit < have)) {
            (found.memory_bytes, found.memory_group) = (Some(limit), Some(path.clone()));
        }
    }
}

/// Reads a controller's bounds in each group on the way down, except in groups that also contain jobs' groups: the kernel
/// applies their bounds to jobs anyway.
fn limits_along(
    hierarchy: &Hierarchy,
    roots: &Roots,
    controller: &str,
    names: &[&str],
    limits: &mut Vec<GroupBound>,
) {
    let base: Vec<&str> = hierarchy.base.split('/').filter(|name| !name.is_empty()).collect();
    let mut path = hierarchy.mount.clone();
    let mut with_jobs = true;
    for (depth, name) in names.iter().enumerate() {
        path.push(name);
        with_jobs &= base.get(depth) == Some(name);
        if with_jobs {
            continue;
        }
        let Ok(Some(group)) = Group::open(&path, roots.fake.clone()) else { return };
        for (what, most) in limits_of(&group, hierarchy.generation, controller) {
            note(limits, GroupBound { what, most, group: path.clone() });
        }
    }
}

/// Adds a bound of a lower group, if the groups above permit more.
fn note(limits: &mut Vec<GroupBound>, bound: GroupBound) {
    let above: Vec<usize> = (0..limits.len()).filter(|&place| limits[place].what == bound.what).collect();
    match above.last() {
        Some(&last) if limits[last].most <= bound.most => {}
        Some(&last) if above.len() >= BOUNDS_MAX => limits[last] = bound,
        None if limits.len() >= LIMITED_MAX * BOUNDS_MAX => {}
        _ => limits.push(bound),
    }
}

/// The bounds of one group by a controller.
fn limits_of(group: &Group, generation: Generation, controller: &str) -> Vec<(Limited, u64)> {
    let text = |file: &str| group.read(file).ok().flatten().unwrap_or_default();
    let number = |file: &str| text(file).trim().parse::<u64>().ok();
    match (controller, generation) {
        ("pids", _) => number("pids.max").map(|most| (Limited::Processes, most)).into_iter().collect(),
        ("memory", Generation::V2) => {
            number("memory.swap.max").map(|most| (Limited::Swap, most)).into_iter().collect()
        }
        ("cpu", Generation::V2) => {
            cpu_max(&text("cpu.max")).map(|most| (Limited::Cpu, most)).into_iter().collect()
        }
        ("cpu", Generation::V1) => {
            let parts = number("cpu.cfs_quota_us").zip(number("cpu.cfs_period_us"));
            parts
                .and_then(|(quota, period)| millionths(quota, period))
                .map(|most| (Limited::Cpu, most))
                .into_iter()
                .collect()
        }
        ("io", Generation::V2) => text("io.max").lines().flat_map(io_max).collect(),
        _ => Vec::new(),
    }
}

/// `QUOTA PERIOD`, of which the first may be `max`.
fn cpu_max(text: &str) -> Option<u64> {
    let (quota, period) = text.trim().split_once(' ')?;
    millionths(quota.parse().ok()?, period.trim().parse().ok()?)
}

fn millionths(quota: u64, period: u64) -> Option<u64> {
    let part = (u128::from(quota) * 1_000_000).checked_div(u128::from(period))?;
    Some(u64::try_from(part).unwrap_or(u64::MAX))
}

/// A line of `io.max`: a device, and `KEY=VALUE` for each rate.
fn io_max(line: &str) -> Vec<(Limited, u64)> {
    let mut words = line.split_ascii_whitespace();
    let Some(device) = words.next().filter(|device| is_device(device)) else { return Vec::new() };
    let bound = |word: &str| {
        let (key, value) = word.split_once('=')?;
        let rate = IoRate::ALL.into_iter().find(|rate| rate.as_str() == key)?;
        Some((Limited::Io { device: device.to_owned(), rate }, value.parse().ok()?))
    };
    words.filter_map(bound).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn hierarchy(root: &Path, generation: Generation, base: &str, controllers: &[&str]) -> Hierarchy {
        Hierarchy {
            generation,
            mount: root.to_owned(),
            base: base.to_owned(),
            delegated: false,
            controllers: controllers.iter().map(|&one| one.to_owned()).collect(),
            writable: true,
            files: Vec::new(),
        }
    }

    /// Files with contents, below a directory.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path: PathBuf = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[track_caller]
    fn check(hierarchies: &[Hierarchy], groups: &str, want: &Bounds) {
        let proc = tree(&[("7/cgroup", groups)]);
        let proc = Proc::open(proc.path()).unwrap();
        let found = around(hierarchies, hierarchies, &Roots::default(), &proc, "i1", 7);
        assert_eq!(found.memory_group.is_some(), found.memory_bytes.is_some(), "{groups:?}");
        assert_eq!(Bounds { memory_group: None, manager: None, ..found }, *want, "{groups:?}");
        assert_eq!(
            around(hierarchies, &[], &Roots::default(), &proc, "i1", 8),
            Bounds::default(),
            "no process"
        );
    }

    fn bounds(cpus: &str, memory_bytes: Option<u64>, job: Option<u64>) -> Bounds {
        Bounds {
            cpus: (!cpus.is_empty()).then(|| cpus.parse().unwrap()),
            memory_bytes,
            memory_group: None,
            limits: Vec::new(),
            manager: None,
            job,
        }
    }

    #[test]
    fn the_unified_hierarchy() {
        let root = tree(&[
            ("memory.max", "1\n"),
            ("slurm/cpuset.cpus", "\n"),
            ("slurm/memory.max", "max\n"),
            ("slurm/job_3/cpuset.cpus", "0-3\n"),
            ("slurm/job_3/memory.max", "4096\n"),
            ("slurm/job_3/step_0/cpuset.cpus", "2-5\n"),
            ("slurm/job_3/step_0/memory.max", "8192\n"),
            ("own/pinfold/i1/job-12/cpuset.cpus", "1\n"),
            ("own/pinfold/i1/job-12/memory.max", "4096\n"),
        ]);
        let all = [hierarchy(root.path(), Generation::V2, "own", &[])];
        check(&all, "0::/\n", &bounds("", None, None));
        check(&all, "0::/slurm\n", &bounds("", None, None));
        check(&all, "0::/slurm/job_3\n", &bounds("0-3", Some(4096), None));
        check(&all, "0::/slurm/job_3/step_0\n", &bounds("2-3", Some(4096), None));
        check(&all, "0::/slurm/job_3/step_0/gone\n", &bounds("2-3", Some(4096), None));
        check(&all, "0::/../slurm/job_3\n", &bounds("", None, None));
        check(&all, "0::/own/pinfold/i1/job-12\n", &bounds("", None, Some(12)));
        check(&all, "0::/own/pinfold/i1/job-12/below\n", &bounds("", None, Some(12)));
        // Groups of another daemon's job, or that are only called so, bound as any.
        check(&all, "0::/own/pinfold/i2/job-12\n", &bounds("", None, None));
        check(&all, "no line of the kernel's\n", &bounds("", None, None));
    }

    /// The bounds around a process in this group, as `WHAT=MOST GROUP`.
    fn limits(root: &Path, all: &[Hierarchy], used: &[Hierarchy], groups: &str) -> Vec<String> {
        let proc = tree(&[("7/cgroup", groups)]);
        let proc = Proc::open(proc.path()).unwrap();
        let found = around(all, used, &Roots::default(), &proc, "i1", 7).limits;
        let words = |bound: &GroupBound| {
            let group = bound.group.strip_prefix(root).unwrap().display();
            format!("{}={} {group}", bound.what, bound.most)
        };
        found.iter().map(words).collect()
    }

    #[test]
    fn processes_time_swap_and_rates_are_bounded_from_above() {
        let root = tree(&[
            ("pids.max", "7\n"),
            ("user/pids.max", "100\n"),
            ("user/cpu.max", "max 100000\n"),
            ("user/u1/pids.max", "max\n"),
            ("user/u1/cpu.max", "150000 100000\n"),
            ("user/u1/memory.swap.max", "0\n"),
            ("user/u1/io.max", "8:0 rbps=max wbps=4096 riops=9 wiops=max\n1 rbps=3\n"),
            ("user/u1/s/pids.max", "40\n"),
            ("user/u1/s/cpu.max", "50000 25000\n"),
            ("user/u1/s/io.max", "8:0 rbps=5 wbps=8192 riops=max wiops=max\n"),
            ("user/u1/s/t/pids.max", "60\n"),
        ]);
        let all = [hierarchy(root.path(), Generation::V2, "", &[])];
        let of = |groups: &str| limits(root.path(), &all, &all, groups);
        assert_eq!(of("0::/\n"), [""; 0], "the top bounds nobody");
        assert_eq!(of("0::/user\n"), ["processes=100 user"]);
        let want = [
            "swap=0 user/u1",
            "processes=100 user",
            "processes=40 user/u1/s",
            "cpu=1500000 user/u1",
            "io 8:0 wbps=4096 user/u1",
            "io 8:0 riops=9 user/u1",
            "io 8:0 rbps=5 user/u1/s",
        ];
        assert_eq!(of("0::/user/u1/s/t\n"), want);
        assert_eq!(limits(root.path(), &all, &[], "0::/user/u1/s/t\n"), [""; 0], "a job stays there");
        // Bounds around the daemon's groups too hold anyway, and are not reported.
        let all = [hierarchy(root.path(), Generation::V2, "user/u1", &[])];
        let want = [
            "processes=40 user/u1/s",
            "cpu=2000000 user/u1/s",
            "io 8:0 rbps=5 user/u1/s",
            "io 8:0 wbps=8192 user/u1/s",
        ];
        assert_eq!(limits(root.path(), &all, &all, "0::/user/u1/s/t\n"), want);
    }

    #[test]
    fn bounds_of_two_groups_combine_to_the_smallest() {
        let root = tree(&[
            ("a/cpuset.cpus", "0-3\n"),
            ("a/memory.max", "4096\n"),
            ("a/pids.max", "10\n"),
            ("b/cpuset.cpus", "2-5\n"),
            ("b/memory.max", "1024\n"),
            ("b/pids.max", "20\n"),
            ("b/cpu.max", "50000 100000\n"),
            ("c/memory.max", "max\n"),
        ]);
        let all = [hierarchy(root.path(), Generation::V2, "", &[])];
        let of = |group: &str| along(&all, &all, &Roots::default(), &format!("0::/{group}\n"), "i1");
        for both in [of("a").and(of("b")), of("b").and(of("a")).and(of("c"))] {
            assert_eq!(both.cpus, Some("2-3".parse().unwrap()));
            assert_eq!((both.memory_bytes, both.memory_group.unwrap()), (Some(1024), root.path().join("b")));
            let least =
                |what| both.limits.iter().filter(|bound| bound.what == what).map(|bound| bound.most).min();
            assert_eq!((least(Limited::Processes), least(Limited::Cpu)), (Some(10), Some(500_000)));
        }
        assert_eq!(of("c").and(of("gone")), Bounds::default());
    }

    #[test]
    fn however_deep_groups_are_nested_the_smallest_bound_is_told() {
        let names: Vec<String> = (1..=20).map(|depth| vec!["g"; depth].join("/")).collect();
        let files: Vec<(String, String)> = names
            .iter()
            .zip(0..)
            .map(|(name, at)| (format!("{name}/pids.max"), format!("{}\n", 100 - at)))
            .collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let root = tree(&files);
        let all = [hierarchy(root.path(), Generation::V2, "", &[])];
        let found = limits(root.path(), &all, &all, &format!("0::/{}\n", names[19]));
        assert_eq!(found.len(), BOUNDS_MAX);
        assert_eq!(
            (&found[0], &found[BOUNDS_MAX - 1]),
            (&"processes=100 g".to_owned(), &format!("processes=81 {}", names[19]))
        );
    }

    #[test]
    fn the_first_generation_bounds_processes_and_time() {
        let pids = tree(&[("a/pids.max", "max\n"), ("a/b/pids.max", "12\n")]);
        let cpu = tree(&[
            ("c/cpu.cfs_quota_us", "-1\n"),
            ("c/d/cpu.cfs_quota_us", "20000\n"),
            ("c/cpu.cfs_period_us", "100000\n"),
            ("c/d/cpu.cfs_period_us", "50000\n"),
        ]);
        let all = [
            hierarchy(pids.path(), Generation::V1, "", &["pids"]),
            hierarchy(cpu.path(), Generation::V1, "", &["cpu", "cpuacct"]),
        ];
        let proc = tree(&[("7/cgroup", "3:pids:/a/b\n2:cpu,cpuacct:/c/d\n")]);
        let proc = Proc::open(proc.path()).unwrap();
        let found = around(&all, &all[1..], &Roots::default(), &proc, "i1", 7).limits;
        assert_eq!(found.len(), 1, "it stays in its group of processes: {found:?}");
        let found = around(&all, &all, &Roots::default(), &proc, "i1", 7).limits;
        let found: Vec<(String, u64)> =
            found.iter().map(|bound| (bound.what.to_string(), bound.most)).collect();
        assert_eq!(found, [("processes".to_owned(), 12), ("cpu".to_owned(), 400_000)]);
    }

    #[test]
    fn processes_within_a_limit_share_its_group() {
        let root = tree(&[
            ("slurm/memory.max", "max\n"),
            ("slurm/job_3/memory.max", "4096\n"),
            ("slurm/job_3/step_0/memory.max", "4096\n"),
            ("slurm/job_3/step_1/memory.max", "1024\n"),
        ]);
        let all = [hierarchy(root.path(), Generation::V2, "own", &[])];
        let group = |of: &str| {
            let proc = tree(&[("7/cgroup", &format!("0::/slurm/{of}\n"))]);
            let proc = Proc::open(proc.path()).unwrap();
            let found = around(&all, &all, &Roots::default(), &proc, "i1", 7).memory_group;
            found.map(|path| path.strip_prefix(root.path()).unwrap().display().to_string())
        };
        assert_eq!(group("job_3/step_0").as_deref(), Some("slurm/job_3"), "that of the job, not of its part");
        assert_eq!(group("job_3/step_1").as_deref(), Some("slurm/job_3/step_1"), "a smaller one is its own");
        assert_eq!(group("job_4"), None);
    }

    #[test]
    fn the_first_generation() {
        let cpuset = tree(&[("a/cpuset.cpus", "0-1\n"), ("a/b/cpuset.cpus", "1\n")]);
        let memory = tree(&[
            ("m/memory.limit_in_bytes", "65536\n"),
            ("m/n/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        let all = [
            hierarchy(cpuset.path(), Generation::V1, "", &["cpuset"]),
            hierarchy(memory.path(), Generation::V1, "", &["memory"]),
        ];
        check(&all, "3:cpuset:/a/b\n2:memory:/m/n\n", &bounds("1", Some(65536), None));
        check(&all, "3:cpuset:/pinfold/i1/job-4\n2:memory:/m\n", &bounds("", Some(65536), Some(4)));
        check(&all, "3:cpuset:/\n2:memory:/\n", &bounds("", None, None));
    }
}
