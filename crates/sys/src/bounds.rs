//! What the control groups around a process let it have, whoever made them: a workload manager for a job of its, a
//! service manager for a user. A job that such a process asks for is put into a group elsewhere, and would leave all that
//! behind. Read only, from the process's own group up to the top. Absent here: what follows from it.

use std::path::PathBuf;

use pinfold_topo::CpuSet;

use crate::cgroup::{Generation, Group, own_group, parse_limit};
use crate::container::levels::TOP;
use crate::mode::{Hierarchy, Roots};
use crate::procfs::Proc;

/// The first generation has no word for "no limit", and says the largest number of whole pages.
const NO_LIMIT_BYTES: u64 = 1 << 62;
/// Nobody nests groups so deep.
const DEPTH_MAX: usize = 64;

/// What is found around one process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The PUs that all groups around it name; `None`: none names any.
    pub cpus: Option<CpuSet>,
    /// The smallest memory limit around it, in bytes.
    pub memory_bytes: Option<u64>,
    /// The group whose limit that is, the uppermost of several: whoever is within it shares that memory.
    pub memory_group: Option<PathBuf>,
    /// The job of this instance that it is part of; the groups of such a one count for nothing.
    pub job: Option<u64>,
}

/// Finds what the groups around a process let it have. One that is gone has no bounds, and what cannot be read is none.
#[must_use]
pub fn around(hierarchies: &[Hierarchy], roots: &Roots, proc: &Proc, instance: &str, pid: u32) -> Bounds {
    let mut found = Bounds::default();
    let Ok(Some(own)) = proc.text(&format!("{pid}/cgroup")) else { return found };
    for hierarchy in hierarchies {
        let unified = hierarchy.generation == Generation::V2;
        for controller in ["cpuset", "memory"] {
            if unified || hierarchy.carries(controller) {
                let Some(path) = own_group(&own, hierarchy.generation, controller) else { continue };
                let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
                if names.contains(&"..") || names.len() > DEPTH_MAX {
                    continue;
                }
                match job_in(hierarchy, &names, instance) {
                    Some(job) => found.job = Some(job),
                    None => look_along(hierarchy, roots, controller, &names, &mut found),
                }
            }
        }
    }
    found
}

/// The job whose group these names lead into, if they do.
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

/// Reads what one controller says in each group on the way from the top, which bounds nobody.
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

    /// Files and what is in them, below a directory.
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
        let found = around(hierarchies, &Roots::default(), &proc, "i1", 7);
        assert_eq!(found.memory_group.is_some(), found.memory_bytes.is_some(), "{groups:?}");
        assert_eq!(Bounds { memory_group: None, ..found }, *want, "{groups:?}");
        assert_eq!(around(hierarchies, &Roots::default(), &proc, "i1", 8), Bounds::default(), "no process");
    }

    fn bounds(cpus: &str, memory_bytes: Option<u64>, job: Option<u64>) -> Bounds {
        Bounds {
            cpus: (!cpus.is_empty()).then(|| cpus.parse().unwrap()),
            memory_bytes,
            memory_group: None,
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
        // Groups that a job of another daemon has, or whoever calls theirs so, bound as any.
        check(&all, "0::/own/pinfold/i2/job-12\n", &bounds("", None, None));
        check(&all, "no line of the kernel's\n", &bounds("", None, None));
    }

    #[test]
    fn whoever_has_the_same_limit_around_shares_it() {
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
            let found = around(&all, &Roots::default(), &proc, "i1", 7).memory_group;
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
