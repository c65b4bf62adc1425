//! Containment of jobs on this host: facts are probed, then a plan is decided from them purely.
//!
//! Purpose: [`probe`] reads the host's facts into [`Facts`]; [`decide`] turns facts into a [`Plan`], with the means of
//! each ability, whether it is effective here, and the change that would make it so. Owner of state: none. Absent here:
//! acting on the plan, which is `container`'s.

mod abilities;
mod facts;
mod outside;
mod probe;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use crate::cgroup::{FakeKernel, Generation};

pub use abilities::{Ability, AbilityName, Via};
pub use facts::{Facts, Hierarchy};
pub use outside::{Outside, outside};
pub use probe::probe;
pub(crate) use probe::{DAEMON_LEAF, JOBS_UNIT, is_marked_delegated};

/// The roots of the trees for containment: the real trees, or fakes below some directory.
#[derive(Debug, Clone)]
pub struct Roots {
    /// The mounts of control groups, `/sys/fs/cgroup`.
    pub cgroup: PathBuf,
    /// The process file system, `/proc`.
    pub proc: PathBuf,
    /// The runtime directory, with the marks of root's daemons in a directory of pinfold's: `/run`.
    pub run: PathBuf,
    /// The fake kernel of a fake tree of control groups; `None` on real trees.
    pub fake: Option<Arc<dyn FakeKernel>>,
}

impl Default for Roots {
    fn default() -> Self {
        let [cgroup, proc, run] = ["/sys/fs/cgroup", "/proc", "/run"].map(PathBuf::from);
        Self { cgroup, proc, run, fake: None }
    }
}

impl Roots {
    /// The path of a mount point of the kernel below these roots; `None`: outside them.
    #[must_use]
    pub fn resolve(&self, mount_point: &str) -> Option<PathBuf> {
        let usual = Path::new("/sys/fs/cgroup");
        match Path::new(mount_point).strip_prefix(usual) {
            Ok(rest) if rest.as_os_str().is_empty() => Some(self.cgroup.clone()),
            Ok(rest) => Some(self.cgroup.join(rest)),
            // Some hosts mount hierarchies elsewhere; a fake tree must never lead there.
            Err(_) if self.cgroup == usual => Some(PathBuf::from(mount_point)),
            Err(_) => None,
        }
    }
}

/// The three ways of containment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The unified hierarchy of control groups.
    V2,
    /// First-generation controllers, with the unified hierarchy beside them if present.
    Hybrid,
    /// No control groups: affinity, scheduling class and stop signals for each process.
    Rootless,
}

impl Mode {
    /// Its name in settings and on screens.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::Hybrid => "hybrid",
            Self::Rootless => "rootless",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no mode of containment; there are v2, hybrid and rootless")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "v2" => Ok(Self::V2),
            "hybrid" => Ok(Self::Hybrid),
            "rootless" => Ok(Self::Rootless),
            other => Err(UnknownMode(other.to_owned())),
        }
    }
}

/// The mode that was asked for cannot be had here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// The unified hierarchy is not mounted.
    #[error("the mode v2 needs the unified hierarchy of control groups, and none is mounted")]
    NoTree,
    /// The unified hierarchy is there, but no group can be made in it.
    #[error("the mode v2 needs to make groups in {}, and user {user} may not", .mount.display())]
    TreeNotOurs {
        /// The mount point.
        mount: PathBuf,
        /// The asking user.
        user: u32,
    },
    /// No first-generation hierarchy of use can be written.
    #[error(
        "the mode hybrid needs a first-generation hierarchy (cpu, cpuset, memory) that user {user} may write"
    )]
    NoHierarchy {
        /// The asking user.
        user: u32,
    },
}

/// The means of containment on this host.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The mode.
    pub mode: Mode,
    /// The reason for this mode, in one sentence.
    pub why: String,
    /// Every ability, in the order of [`AbilityName::ALL`].
    pub abilities: Vec<Ability>,
    /// The hierarchies that the plan uses.
    pub hierarchies: Vec<Hierarchy>,
    /// The facts it was decided from.
    pub facts: Facts,
}

impl Plan {
    /// An ability.
    #[must_use]
    pub fn ability(&self, name: AbilityName) -> &Ability {
        self.abilities.iter().find(|ability| ability.name == name).expect("decide() fills in every ability")
    }

    /// The means of an ability.
    #[must_use]
    pub fn via(&self, name: AbilityName) -> Via {
        self.ability(name).via
    }

    /// The hierarchy in use that carries `controller` in the given generation.
    #[must_use]
    pub fn carrier(&self, generation: Generation, controller: &str) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|one| one.generation == generation && one.carries(controller))
    }

    /// Whether the groups are below a group delegated to a user other than root: then processes elsewhere may be out of
    /// reach.
    #[must_use]
    pub fn is_delegated(&self) -> bool {
        self.facts.user != 0 && self.tree().is_some_and(|tree| tree.delegated)
    }

    /// The unified hierarchy, where it is in use.
    #[must_use]
    pub fn tree(&self) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|one| one.generation == Generation::V2)
    }
}

/// The controllers of the first generation that a hybrid host is worth using for.
const FIRST_GENERATION: [&str; 3] = ["cpu", "cpuset", "memory"];

/// Chooses the mode and the means of every ability. Pure: equal facts give equal plans.
pub fn decide(facts: &Facts, wanted: Option<Mode>) -> Result<Plan, ModeError> {
    let tree = facts.hierarchies.iter().find(|one| one.generation == Generation::V2 && one.writable);
    let first: Vec<&Hierarchy> = facts
        .hierarchies
        .iter()
        .filter(|one| one.generation == Generation::V1 && one.writable)
        .filter(|one| FIRST_GENERATION.iter().any(|controller| one.carries(controller)))
        .collect();
    let mode = match wanted {
        Some(Mode::V2) if tree.is_none() => return Err(no_tree(facts)),
        Some(Mode::Hybrid) if first.is_empty() => return Err(ModeError::NoHierarchy { user: facts.user }),
        Some(mode) => mode,
        None if !first.is_empty() => Mode::Hybrid,
        None if tree.is_some() => Mode::V2,
        None => Mode::Rootless,
    };
    let why = reason(facts, mode, wanted.is_some());
    let mut hierarchies = used(facts, mode);
    let abilities = abilities::decide_all(facts, &hierarchies);
    keep_only_what_serves(&mut hierarchies, &abilities);
    Ok(Plan { mode, why, abilities, hierarchies, facts: facts.clone() })
}

fn no_tree(facts: &Facts) -> ModeError {
    match facts.hierarchies.iter().find(|one| one.generation == Generation::V2) {
        Some(tree) => ModeError::TreeNotOurs { mount: tree.mount.clone(), user: facts.user },
        None => ModeError::NoTree,
    }
}

fn used(facts: &Facts, mode: Mode) -> Vec<Hierarchy> {
    let may_serve = |one: &&Hierarchy| match mode {
        Mode::Rootless => false,
        Mode::V2 => one.writable && one.generation == Generation::V2,
        Mode::Hybrid => one.writable,
    };
    facts.hierarchies.iter().filter(may_serve).cloned().collect()
}

/// Drops hierarchies that no ability uses: each costs a directory for every job.
fn keep_only_what_serves(hierarchies: &mut Vec<Hierarchy>, abilities: &[Ability]) {
    let has_tree = hierarchies.iter().any(|one| one.generation == Generation::V2);
    let by_first = |name: AbilityName| abilities.iter().any(|one| one.name == name && one.via == Via::V1);
    hierarchies.retain(|one| match one.generation {
        Generation::V2 => true,
        Generation::V1 => {
            one.carries("cpu") && (by_first(AbilityName::Weigh) || by_first(AbilityName::IdleClass))
                || one.carries("cpuset") && by_first(AbilityName::Pin)
                || one.carries("memory") && by_first(AbilityName::Limit)
                || one.carries("pids") && by_first(AbilityName::Processes)
                || one.carries("freezer") && by_first(AbilityName::Freeze)
                // The unified hierarchy counts processor time without any controller.
                || one.carries("cpuacct") && !has_tree
        }
    });
}

fn reason(facts: &Facts, mode: Mode, wanted: bool) -> String {
    let mounts = |generation: Generation| -> String {
        let ours = facts.hierarchies.iter().filter(|one| one.generation == generation && one.writable);
        ours.map(|one| one.mount.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    let asked = if wanted { "it was asked for; " } else { "" };
    match mode {
        Mode::V2 => {
            format!("{asked}groups can be made in the unified hierarchy at {}", mounts(Generation::V2))
        }
        Mode::Hybrid => {
            let beside = match mounts(Generation::V2) {
                tree if tree.is_empty() => "no unified hierarchy beside them".to_owned(),
                tree => format!("the unified hierarchy beside them at {tree}"),
            };
            format!(
                "{asked}controllers are in first-generation hierarchies ({}), {beside}",
                mounts(Generation::V1)
            )
        }
        Mode::Rootless if wanted => "it was asked for".to_owned(),
        Mode::Rootless if facts.hierarchies.is_empty() => {
            "no hierarchy of control groups is mounted".to_owned()
        }
        Mode::Rootless => format!("user {} may make no group in any hierarchy of control groups", facts.user),
    }
}

#[cfg(test)]
pub(crate) mod tests;
