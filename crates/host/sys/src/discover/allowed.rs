//! The PUs of a process: of this process by `/proc/self/status`; in an archived tree, of the process that made the copy, by
//! its cpuset.

use std::io;
use std::path::{Path, PathBuf};

use pinfold_topo::CpuSet;

use super::DiscoverError;
use super::sysfs::read_small;

/// The `Cpus_allowed_list` of a `/proc/PID/status` file. Unlike `sched_getaffinity` with a fixed mask it has
/// no bound on the number of PUs.
pub(super) fn of_this_process(path: &Path) -> Result<CpuSet, DiscoverError> {
    let text = read_small(path).map_err(|source| DiscoverError::Read { path: path.to_owned(), source })?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).ok_or_else(|| {
        let source = io::Error::new(io::ErrorKind::InvalidData, "no line Cpus_allowed_list");
        DiscoverError::Read { path: path.to_owned(), source }
    })?;
    list.parse().map_err(|source| DiscoverError::List { path: path.to_owned(), source })
}

/// The cpuset of the process that copied the tree below `root`; `None` if the tree does not contain it.
pub(super) fn in_archive(root: &Path) -> Option<CpuSet> {
    let mounts =
        read_small(&root.join("proc/mounts")).or_else(|_| read_small(&root.join("proc/self/mounts"))).ok()?;
    let groups = Groups {
        cgroup: read_small(&root.join("proc/self/cgroup")).unwrap_or_default(),
        cpuset: read_small(&root.join("proc/self/cpuset")).unwrap_or_default(),
    };
    mounts.lines().filter_map(|line| groups.files_of(line)).flatten().find_map(|file| {
        let text = read_small(&root.join(file.strip_prefix("/").unwrap_or(&file))).ok()?;
        text.parse().ok().filter(|set: &CpuSet| !set.is_empty())
    })
}

/// The contents of `/proc/self/cgroup` and `/proc/self/cpuset`.
struct Groups {
    cgroup: String,
    cpuset: String,
}

impl Groups {
    /// The files that may hold the cpuset, if the mount `line` is a hierarchy with cpusets.
    fn files_of(&self, line: &str) -> Option<Vec<PathBuf>> {
        let mut fields = line.split_whitespace().skip(1);
        let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let has = |name: &str| options.split(',').any(|option| option == name);
        let names: &[&str] = match kind {
            "cgroup2" => &["cpuset.cpus.effective"],
            "cpuset" => &["cpus"],
            "cgroup" if has("cpuset") && has("noprefix") => &["cpus"],
            // Only in this mode a group's configured PUs may exceed its effective PUs.
            "cgroup" if has("cpuset") && has("cpuset_v2_mode") => &["cpuset.effective_cpus", "cpuset.cpus"],
            "cgroup" if has("cpuset") => &["cpuset.cpus", "cpuset.effective_cpus"],
            _ => return None,
        };
        let own = if kind == "cgroup2" { self.unified() } else { self.named_by_cpuset() };
        let own = own.unwrap_or("/").trim();
        let group = Path::new(point).join(own.trim_start_matches('/'));
        let outside = group.components().any(|part| part == std::path::Component::ParentDir);
        (!outside).then(|| names.iter().map(|name| group.join(name)).collect())
    }

    fn unified(&self) -> Option<&str> {
        self.cgroup.lines().find_map(|line| line.strip_prefix("0::")).or_else(|| self.cpuset.lines().next())
    }

    fn named_by_cpuset(&self) -> Option<&str> {
        let by_cgroup = self.cgroup.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == "cpuset").then_some(path)
        });
        by_cgroup.or_else(|| self.cpuset.lines().next())
    }
}
