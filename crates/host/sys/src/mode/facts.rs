//! The facts about a host, as plain data. Absent here: their probing, and the consequences.

use std::path::PathBuf;

use crate::cgroup::Generation;

/// The facts that [`super::probe`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The kernel's release, for instance `6.18.44`.
    pub kernel: String,
    /// The effective user.
    pub user: u32,
    /// We may raise weights and leave the idle class (CAP_SYS_NICE).
    pub may_raise_weight: bool,
    /// We may exceed resource limits (CAP_SYS_RESOURCE); pressure triggers then take any window.
    pub may_exceed_limits: bool,
    /// We may mount file systems (CAP_SYS_ADMIN).
    pub may_mount: bool,
    /// The kernel's settings let any user make a user namespace.
    pub user_namespaces: bool,
    /// The kernel makes network namespaces.
    pub network_namespaces: bool,
    /// RLIMIT_NICE of this process, 0 to 40: 20 lets a thread come back from the idle class to nice 0.
    pub nice_ceiling: u64,
    /// The kernel divides processor time among sessions before it looks at their threads (autogroup, `sched(7)`): a thread's
    /// class and nice value count within its session only.
    pub autogroup: bool,
    /// Open files that this process may hold; a job takes up to five.
    pub open_files: u64,
    /// Online PUs.
    pub pus: usize,
    /// Whether PUs share cores; `None`: unknown.
    pub smt: Option<bool>,
    /// Memory of the host, in bytes.
    pub memory_bytes: u64,
    /// Swap of the host, in bytes.
    pub swap_bytes: u64,
    /// Pressure is accounted (PSI).
    pub pressure: bool,
    /// The kernel lists the children of a process, which makes finding descendants cheap.
    pub children_listed: bool,
    /// The first process is systemd.
    pub systemd: bool,
    /// Every mounted hierarchy that may be of use.
    pub hierarchies: Vec<Hierarchy>,
    /// Groups of earlier or other daemons: directories of instances below any `pinfold` group.
    pub leftovers: Vec<PathBuf>,
}

impl Facts {
    /// Whether the kernel is at least `major.minor`. A release that cannot be read counts as old.
    #[must_use]
    pub fn kernel_at_least(&self, major: u32, minor: u32) -> bool {
        let mut numbers =
            self.kernel.split(|c: char| !c.is_ascii_digit()).map(|word| word.parse::<u32>().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(have_major), Some(have_minor)) => (have_major, have_minor) >= (major, minor),
            _ => false,
        }
    }

    /// Whether a thread can come back from a lower weight or the idle class.
    #[must_use]
    pub fn weight_can_rise(&self) -> bool {
        // The kernel asks for 20 - nice, and 0 is the nice value that jobs come back to.
        self.may_raise_weight || self.nice_ceiling >= 20
    }
}

/// A mounted hierarchy of control groups, seen from the place of pinfold's groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// First or second generation.
    pub generation: Generation,
    /// The mount point, below the root in use.
    pub mount: PathBuf,
    /// The group below which pinfold's go, relative to the mount; empty: its top.
    pub base: String,
    /// The base is our own group, delegated by a manager (systemd, for instance), not the top.
    pub delegated: bool,
    /// The controllers to be had there.
    pub controllers: Vec<String>,
    /// A group could be made (and was removed again).
    pub writable: bool,
    /// The files in a group of this hierarchy, sorted.
    pub files: Vec<String>,
}

impl Hierarchy {
    /// Whether it has this controller.
    #[must_use]
    pub fn carries(&self, controller: &str) -> bool {
        self.controllers.iter().any(|one| one == controller)
    }

    /// Whether a new group in it has this file at once.
    #[must_use]
    pub fn has_file(&self, file: &str) -> bool {
        self.files.iter().any(|one| one == file)
    }

    /// The directory below which pinfold's groups go.
    #[must_use]
    pub fn base_path(&self) -> PathBuf {
        if self.base.is_empty() { self.mount.clone() } else { self.mount.join(&self.base) }
    }
}
