//! Hierarchies of control groups in a plain directory, kept up by a stand-in for the kernel.
//!
//! A new group fills with the files of its hierarchy; what is written is judged as the kernel judges it and has
//! its effect on real processes (they are stopped, bound, killed); lists and counters are brought up to date
//! before they are read. So the same checks can run on the fake and on the kernel, and the fake cannot drift.
//! Owner of state: [`FakeHost`]. Absent here: threads, swap, weights that weigh.

mod files;
mod kernel;
mod members;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_sys::mode::Roots;
use rustix::io::Errno;

use kernel::{Hierarchy, Kernel};

/// A host with fake hierarchies below a directory of the test's own.
#[derive(Debug)]
pub struct FakeHost {
    dir: PathBuf,
    kernel: Arc<Kernel>,
}

impl FakeHost {
    /// A host with the unified hierarchy alone, all controllers in it.
    ///
    /// # Errors
    /// If the directory cannot be filled.
    pub fn unified(dir: &Path) -> io::Result<Self> {
        let tree = Hierarchy::v2(dir.join("cgroup"), &["cpu", "cpuset", "io", "memory", "pids"]);
        Self::with(dir, vec![tree])
    }

    /// A host with `cpu`, `cpuset`, `memory` and `pids` in hierarchies of the first generation and a unified hierarchy
    /// without controllers beside them.
    ///
    /// # Errors
    /// If the directory cannot be filled.
    pub fn hybrid(dir: &Path) -> io::Result<Self> {
        let mut all = Self::first_generation(dir, &["cpu", "cpuset", "memory", "pids"]);
        all.push(Hierarchy::v2(dir.join("cgroup/unified"), &[]));
        Self::with(dir, all)
    }

    /// A host of the first generation only: `cpu`, `cpuset`, `memory`, `freezer` and `cpuacct`.
    ///
    /// # Errors
    /// If the directory cannot be filled.
    pub fn first_only(dir: &Path) -> io::Result<Self> {
        Self::with(dir, Self::first_generation(dir, &["cpu", "cpuset", "memory", "freezer", "cpuacct"]))
    }

    fn first_generation(dir: &Path, controllers: &[&'static str]) -> Vec<Hierarchy> {
        controllers.iter().map(|one| Hierarchy::v1(dir.join("cgroup").join(one), one)).collect()
    }

    fn with(dir: &Path, hierarchies: Vec<Hierarchy>) -> io::Result<Self> {
        let mounts: Vec<String> = hierarchies
            .iter()
            .enumerate()
            .map(|(index, one)| {
                let below = one.point.strip_prefix(dir.join("cgroup")).unwrap_or(Path::new(""));
                let point = Path::new("/sys/fs/cgroup").join(below);
                one.mount_line(index, point.to_string_lossy().trim_end_matches('/'))
            })
            .collect();
        let own: Vec<String> =
            hierarchies.iter().enumerate().map(|(index, one)| one.own_line(index)).collect();
        files::write_proc(&dir.join("proc"), &mounts.concat(), &own.concat())?;
        fs::create_dir_all(dir.join("run"))?;
        let kernel = Arc::new(Kernel::new(hierarchies)?);
        Ok(Self { dir: dir.to_owned(), kernel })
    }

    /// A host with the unified hierarchy alone, of which a manager handed the group `box` to us; the processes given
    /// are in it, as a daemon and its shell would be.
    ///
    /// # Errors
    /// If the directory cannot be filled, or its file system keeps no extended attributes.
    pub fn delegated(dir: &Path, pids: &[u32]) -> io::Result<Self> {
        use pinfold_sys::cgroup::FakeKernel as _;
        let host = Self::unified(dir)?;
        let top = dir.join("cgroup");
        let group = top.join("box");
        host.kernel.written(&top.join("cgroup.subtree_control"), "+cpu +cpuset +io +memory +pids")?;
        fs::create_dir(&group)?;
        host.kernel.made(&group)?;
        rustix::fs::setxattr(&group, "user.delegate", b"1", rustix::fs::XattrFlags::empty())?;
        for pid in pids {
            host.kernel.written(&group.join("cgroup.procs"), &pid.to_string())?;
        }
        fs::write(dir.join("proc/self/cgroup"), "0::/box\n")?;
        Ok(host)
    }

    /// The roots to contain jobs in: fake groups, real processes.
    #[must_use]
    pub fn roots(&self) -> Roots {
        let fake: Arc<dyn pinfold_sys::cgroup::FakeKernel> = Arc::clone(&self.kernel) as _;
        let (cgroup, run) = (self.dir.join("cgroup"), self.dir.join("run"));
        Roots { cgroup, proc: PathBuf::from("/proc"), run, fake: Some(fake) }
    }

    /// The roots to probe: fake groups, and a description of a capable host with these mounts.
    #[must_use]
    pub fn probe_roots(&self) -> Roots {
        Roots { proc: self.dir.join("proc"), ..self.roots() }
    }

    /// From now on, writing to files of this name fails with this error.
    pub fn refuse(&self, file: &str, errno: Errno) {
        self.kernel.lock().refused.insert(file.to_owned(), errno);
    }

    /// Files of this name can be written again.
    pub fn allow(&self, file: &str) {
        self.kernel.lock().refused.remove(file);
    }

    /// Groups made from now on lack files of this name, as on another kernel.
    pub fn leave_out(&self, file: &str) {
        self.kernel.lock().left_out.insert(file.to_owned());
    }

    /// From now on no group can be made in the hierarchy mounted at this name below the top (empty: the top itself).
    pub fn forbid_groups(&self, mount: &str) {
        let point = self.dir.join("cgroup").join(mount);
        self.kernel.lock().no_groups_in.insert(point);
    }

    /// What a file of a group holds, with lists and counters brought up to date. The path is relative to the top.
    ///
    /// # Errors
    /// If it is not there.
    pub fn read(&self, file: &str) -> io::Result<String> {
        let path = self.dir.join("cgroup").join(file);
        pinfold_sys::cgroup::FakeKernel::reading(&*self.kernel, &path)?;
        fs::read_to_string(path)
    }

    /// Every group there is, relative to the top, sorted.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        let top = self.dir.join("cgroup");
        let state = self.kernel.lock();
        let relative = |path: &PathBuf| path.strip_prefix(&top).map(|path| path.display().to_string()).ok();
        state.groups.keys().filter_map(relative).collect()
    }
}
