//! The abilities, and by which means each is provided on given facts. Pure.

use std::fmt;

use super::facts::{Facts, Hierarchy};
use crate::cgroup::Generation;

/// An operation on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AbilityName {
    /// Give it more or less of the processor than others.
    Weigh,
    /// Let it run only when no other process wants the processor.
    IdleClass,
    /// Bind it to PUs.
    Pin,
    /// Stop all its processes where they are, and let them go on.
    Freeze,
    /// Bound its memory.
    Limit,
    /// Move its memory to swap.
    PageOut,
    /// Bound the number of its processes.
    Processes,
    /// Keep it to the processor time of the submitting process.
    Quota,
    /// Keep it to the I/O rates of the submitting process.
    IoRate,
    /// End all its processes at once.
    Kill,
    /// Account its use.
    Measure,
}

impl AbilityName {
    /// All abilities, in the order of the report.
    pub const ALL: [Self; 11] = [
        Self::Weigh,
        Self::IdleClass,
        Self::Pin,
        Self::Freeze,
        Self::Limit,
        Self::PageOut,
        Self::Processes,
        Self::Quota,
        Self::IoRate,
        Self::Kill,
        Self::Measure,
    ];

    /// Its name on screens.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Weigh => "weigh",
            Self::IdleClass => "idle_class",
            Self::Pin => "pin",
            Self::Freeze => "freeze",
            Self::Limit => "limit",
            Self::PageOut => "page_out",
            Self::Processes => "processes",
            Self::Quota => "quota",
            Self::IoRate => "io_rate",
            Self::Kill => "kill",
            Self::Measure => "measure",
        }
    }
}

impl fmt::Display for AbilityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// By which means an ability is provided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// The unified hierarchy.
    V2,
    /// A first-generation hierarchy.
    V1,
    /// System calls on every process or thread of the job.
    Processes,
    /// Not at all.
    Nothing,
}

/// An ability on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ability {
    /// Which.
    pub name: AbilityName,
    /// By which means.
    pub via: Via,
    /// Whether it has its effect here.
    pub real: bool,
    /// The means, with its limitations.
    pub how: String,
    /// The change by which an administrator could make it effective, or better.
    pub change: Option<String>,
}

const DELEGATE: &str = "run the daemon as root, or delegate it a group (systemd: Delegate=yes)";
const ALLOW_NICE: &str = "grant CAP_SYS_NICE, or set RLIMIT_NICE to 20 or more (limits.conf: nice 0)";
const BY_SESSION: &str = "the nice value of the job's session (autogroup), set for ten sessions a second; a job in the \
                          foreground shares its terminal's session and competes as an equal";
const NO_SWAP: &str = "make a swap file at least as large as the memory";

/// Decides every ability on the hierarchies in use.
pub(super) fn decide_all(facts: &Facts, hierarchies: &[Hierarchy]) -> Vec<Ability> {
    let host = Host { facts, hierarchies };
    AbilityName::ALL.iter().map(|name| host.decide(*name)).collect()
}

struct Host<'a> {
    facts: &'a Facts,
    hierarchies: &'a [Hierarchy],
}

impl Host<'_> {
    fn decide(&self, name: AbilityName) -> Ability {
        match name {
            AbilityName::Weigh => self.weigh(),
            AbilityName::IdleClass => self.idle_class(),
            AbilityName::Pin => self.pin(),
            AbilityName::Freeze => self.freeze(),
            AbilityName::Limit => self.limit(),
            AbilityName::PageOut => self.page_out(),
            AbilityName::Processes => self.processes(),
            AbilityName::Quota => self.quota(),
            AbilityName::IoRate => self.io_rate(),
            AbilityName::Kill => self.kill(),
            AbilityName::Measure => self.measure(),
        }
    }

    fn weigh(&self) -> Ability {
        let name = AbilityName::Weigh;
        match self.via("cpu") {
            Via::V2 => ability(name, Via::V2, "cpu.weight of the job's group"),
            Via::V1 => ability(name, Via::V1, "cpu.shares of the job's group"),
            _ if self.facts.autogroup => {
                ability(name, Via::Processes, BY_SESSION).changed_by(self.delegate())
            }
            _ if self.facts.weight_can_rise() => {
                ability(name, Via::Processes, "the nice value of every thread").changed_by(self.delegate())
            }
            _ => {
                let how = "the nice value of every thread, which can lower a weight but not raise it again";
                ability(name, Via::Processes, how).unreal(ALLOW_NICE)
            }
        }
    }

    fn idle_class(&self) -> Ability {
        let name = AbilityName::IdleClass;
        match self.via("cpu") {
            Via::V2 if self.offers("cpu.idle", (5, 15)) => {
                ability(name, Via::V2, "cpu.idle of the job's group")
            }
            Via::V1 if self.first_has("cpu.idle") => ability(name, Via::V1, "cpu.idle of the job's group"),
            _ if self.facts.autogroup => {
                ability(name, Via::Processes, BY_SESSION).changed_by(self.delegate())
            }
            _ if self.facts.weight_can_rise() => ability(name, Via::Processes, "SCHED_IDLE on every thread"),
            _ => {
                let how =
                    "SCHED_IDLE on every thread, which a thread cannot leave again without CAP_SYS_NICE";
                ability(name, Via::Processes, how).changed_by(ALLOW_NICE)
            }
        }
    }

    fn pin(&self) -> Ability {
        let name = AbilityName::Pin;
        match self.via("cpuset") {
            Via::V2 => ability(name, Via::V2, "cpuset.cpus of the job's group"),
            Via::V1 => ability(name, Via::V1, "cpuset.cpus of the job's group"),
            _ => {
                let how = "the affinity of every thread, which the job itself may change";
                ability(name, Via::Processes, how).changed_by(self.delegate())
            }
        }
    }

    fn freeze(&self) -> Ability {
        let name = AbilityName::Freeze;
        if self.tree().is_some_and(|tree| tree.has_file("cgroup.freeze")) {
            return ability(name, Via::V2, "cgroup.freeze of the job's group");
        }
        if self.first("freezer").is_some() {
            return ability(name, Via::V1, "freezer.state of the job's group, which may take several tries");
        }
        let how = "SIGSTOP to every process, which shells notice and a process of the same user may undo";
        ability(name, Via::Processes, how).changed_by(self.delegate())
    }

    fn limit(&self) -> Ability {
        let name = AbilityName::Limit;
        match self.via("memory") {
            Via::V2 => ability(name, Via::V2, "memory.max of the job's group"),
            Via::V1 => ability(name, Via::V1, "memory.limit_in_bytes of the job's group"),
            _ => {
                ability(name, Via::Nothing, "nothing here bounds the memory of a job").unreal(self.delegate())
            }
        }
    }

    fn page_out(&self) -> Ability {
        let name = AbilityName::PageOut;
        let found = match self.via("memory") {
            Via::V2 if self.offers("memory.reclaim", (5, 19)) => ability(name, Via::V2, "memory.reclaim"),
            Via::V2 => ability(name, Via::V2, "memory.high lowered for a moment"),
            Via::V1 => ability(name, Via::V1, "memory.limit_in_bytes lowered for a moment"),
            // The kernel wants CAP_SYS_NICE for advice on the memory of another process.
            _ if self.facts.may_raise_weight && self.facts.kernel_at_least(5, 10) => {
                ability(name, Via::Processes, "advice to the kernel (MADV_PAGEOUT) on every private mapping")
            }
            _ => {
                return ability(name, Via::Nothing, "nothing here pages out a job at will")
                    .unreal(self.delegate());
            }
        };
        if self.facts.swap_bytes > 0 {
            return found;
        }
        let how = format!("{}; there is no swap, so only file pages can go", found.how);
        Ability { how, ..found }.unreal(NO_SWAP)
    }

    fn processes(&self) -> Ability {
        let name = AbilityName::Processes;
        match self.via("pids") {
            via @ (Via::V1 | Via::V2) => ability(name, via, "pids.max of the job's group"),
            _ if self.tree().is_some() && !self.has_elsewhere("pids") => {
                let how = "nothing here bounds the number of a job's processes";
                ability(name, Via::Nothing, how).unreal("make the pids controller available")
            }
            _ => {
                let how = "no bound of its own: the job stays in the pids group of its client";
                ability(name, Via::Nothing, how).unreal(self.delegate())
            }
        }
    }

    fn quota(&self) -> Ability {
        let name = AbilityName::Quota;
        match self.via("cpu") {
            Via::V2 => ability(name, Via::V2, "cpu.max of the job's group"),
            Via::V1 => ability(name, Via::V1, "cpu.cfs_quota_us of the job's group"),
            _ => self.stays(name, "cpu"),
        }
    }

    fn io_rate(&self) -> Ability {
        let name = AbilityName::IoRate;
        match self.tree().is_some_and(|tree| tree.carries("io")) {
            true => ability(name, Via::V2, "io.max of the job's group"),
            // Groups of the first generation for input and output are not used.
            false => self.stays(name, "io"),
        }
    }

    /// A job does not leave the groups of hierarchies that are not used.
    fn stays(&self, name: AbilityName, controller: &str) -> Ability {
        if self.tree().is_some() && self.hierarchies.len() == 1 && !self.has_elsewhere(controller) {
            let how = "nothing here bounds it, and a job is refused where that bounds the client";
            return ability(name, Via::Nothing, how)
                .unreal("make the controller available to groups of pinfold's");
        }
        ability(name, Via::Processes, "the job stays in the groups of its client")
    }

    /// Whether a first-generation hierarchy, whose groups a job then stays in, may carry a controller.
    fn has_elsewhere(&self, controller: &str) -> bool {
        self.facts.hierarchies.iter().any(|one| one.generation == Generation::V1 && one.carries(controller))
    }

    fn kill(&self) -> Ability {
        let name = AbilityName::Kill;
        if self.tree().is_some_and(|tree| tree.has_file("cgroup.kill")) {
            return ability(name, Via::V2, "cgroup.kill of the job's group");
        }
        if self.hierarchies.is_empty() {
            let how = "SIGKILL to every process found, again until none is new";
            return ability(name, Via::Processes, how).changed_by(self.delegate());
        }
        let how = "SIGKILL to every process in the group, again until none is new";
        ability(name, Via::Processes, how).changed_by("a kernel of 5.14 or later ends a group at once")
    }

    fn measure(&self) -> Ability {
        let name = AbilityName::Measure;
        match self.via("memory") {
            Via::V2 => ability(name, Via::V2, "cpu.stat and memory.stat of the job's group"),
            Via::V1 if self.tree().is_some() => {
                ability(name, Via::V1, "memory.stat of the job's group, cpu.stat of the unified one")
            }
            Via::V1 => ability(name, Via::V1, "memory.stat and cpuacct of the job's groups"),
            _ if self.hierarchies.is_empty() => {
                let how = "sums over processes; those that end between two readings are known by their parents only";
                ability(name, Via::Processes, how).changed_by(self.delegate())
            }
            _ => {
                let how =
                    "sums over the processes of the group for memory, in which shared pages count repeatedly";
                ability(name, Via::Processes, how).changed_by("make the memory controller available")
            }
        }
    }

    /// The generation that carries a controller here; the second is preferred, as it can do more.
    fn via(&self, controller: &str) -> Via {
        if self.tree().is_some_and(|tree| tree.carries(controller)) {
            Via::V2
        } else if self.first(controller).is_some() {
            Via::V1
        } else {
            Via::Nothing
        }
    }

    /// The advice that gives pinfold groups, or controllers in its group.
    fn delegate(&self) -> &'static str {
        if self.tree().is_some_and(|tree| tree.delegated) { "see delegation" } else { DELEGATE }
    }

    fn tree(&self) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|one| one.generation == Generation::V2)
    }

    fn first(&self, controller: &str) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|one| one.generation == Generation::V1 && one.carries(controller))
    }

    fn first_has(&self, file: &str) -> bool {
        self.hierarchies.iter().any(|one| one.generation == Generation::V1 && one.has_file(file))
    }

    /// A file of the unified hierarchy shows only once its controller is enabled, which a probe does not do; until
    /// then the kernel's version has to serve.
    fn offers(&self, file: &str, since: (u32, u32)) -> bool {
        self.tree().is_some_and(|tree| tree.has_file(file)) || self.facts.kernel_at_least(since.0, since.1)
    }
}

fn ability(name: AbilityName, via: Via, how: &str) -> Ability {
    Ability { name, via, real: true, how: how.to_owned(), change: None }
}

impl Ability {
    fn changed_by(self, change: &str) -> Self {
        Self { change: Some(change.to_owned()), ..self }
    }

    fn unreal(self, change: &str) -> Self {
        Self { real: false, ..self }.changed_by(change)
    }
}
