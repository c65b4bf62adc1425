//! The groups of an instance: opened once, and the groups of jobs made, found and removed below them.
//!
//! A *level* is one hierarchy with the instance's group open in it. Owner of state: the open directories. Absent here:
//! the settings of a job's group.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Mutex;

use pinfold_topo::CpuSet;
use rustix::io::Errno;

use super::ContainerError;
use super::family::Look;
use super::mark::Mark;
use super::spare::Spare;
use super::taken::Taken;
use crate::cgroup::{CgroupError, Generation, Group, GroupRemoval};
use crate::mode::{AbilityName, DAEMON_LEAF, Hierarchy, JOBS_UNIT, Mode, Plan, Roots, Via, decide};
use crate::procfs::Proc;
use crate::scratch::Scratch;

/// The group below which every instance has its own.
pub(crate) const TOP: &str = "pinfold";
/// Where the package's service had jobs until version 0.1: below the group of the daemon. Jobs of that time end there.
const EARLIER_BASE: &str = "system.slice/pinfoldd.service";
/// Controllers of the unified hierarchy that are of use.
const USEFUL: [&str; 5] = ["cpu", "cpuset", "memory", "io", "pids"];

/// A hierarchy with the instance's group in it.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) hierarchy: Hierarchy,
    base: Group,
    top: Group,
    pub(super) instance: Group,
    /// The instance's group below [`EARLIER_BASE`], as long as a job has a group there.
    earlier: Option<Group>,
    /// The mark that the instance is in use, for a rescue by this user, or by root in another user namespace.
    _held: Option<OwnedFd>,
}

/// The level that serves each purpose: an index into the levels.
#[derive(Debug, Default)]
pub(super) struct Roles {
    pub(super) tree: Option<usize>,
    pub(super) cpu: Option<usize>,
    pub(super) cpuset: Option<usize>,
    pub(super) memory: Option<usize>,
    pub(super) freezer: Option<usize>,
    pub(super) cpuacct: Option<usize>,
    pub(super) processes: Option<usize>,
}

/// The state that all containers of an instance share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) instance: String,
    /// First-generation levels, then the unified level if it is used.
    pub(super) levels: Vec<Level>,
    pub(super) roles: Roles,
    pub(super) proc: Proc,
    /// The jobs' directories in memory.
    pub(super) scratch: Scratch,
    /// Groups that are kept for the next jobs.
    pub(super) spares: Mutex<Vec<Spare>>,
    /// The PUs of jobs that have a partition.
    pub(super) partitions: Mutex<BTreeMap<u64, CpuSet>>,
    /// Adopted jobs.
    pub(super) taken: Mutex<BTreeMap<u64, Taken>>,
    /// The last look at every process of the host, for jobs without groups.
    pub(super) look: Mutex<Look>,
    /// The mark that the instance is in use, for a rescue by root of root's groups.
    mark: Option<Mark>,
}

impl Level {
    /// pinfold's own and below it the instance's.
    pub(super) fn groups_above_jobs(&self) -> [&Group; 2] {
        [&self.top, &self.instance]
    }

    /// A job's group; `None`: there is none.
    pub(super) fn job(&self, job: u64) -> Result<Option<Group>, CgroupError> {
        let name = group_name(job);
        match (self.instance.child(&name)?, &self.earlier) {
            (None, Some(earlier)) => earlier.child(&name),
            (found, _) => Ok(found),
        }
    }

    /// A job's group, made if there is none.
    pub(super) fn job_or_new(&self, job: u64) -> Result<Group, CgroupError> {
        self.job(job)?.map_or_else(|| Ok(self.instance.make(&group_name(job))?.0), Ok)
    }

    /// Removes a job's group; it must be empty, or hold nothing but empty groups when `deep`.
    pub(super) fn remove_job(&self, job: u64, deep: bool) -> Result<GroupRemoval, CgroupError> {
        let name = group_name(job);
        match &self.earlier {
            Some(earlier) if earlier.remove(&name, deep)? == GroupRemoval::Busy => Ok(GroupRemoval::Busy),
            _ => self.instance.remove(&name, deep),
        }
    }

    /// The group above pinfold's own, which belongs to the host.
    pub(super) fn base(&self) -> &Group {
        &self.base
    }

    /// The group above all instances.
    pub(super) fn top(&self) -> &Group {
        &self.top
    }
}

impl Shared {
    /// Whether all that a job needs at its start is in first-generation groups, which a process can enter by itself.
    pub(super) fn have_doors(&self) -> bool {
        let needed = [self.roles.cpu, self.roles.cpuset, self.roles.memory];
        let all = [AbilityName::Pin, AbilityName::IdleClass, AbilityName::Weigh, AbilityName::Limit];
        // Second-generation bounds must hold from the first moment, and self-attach files do not reach that hierarchy.
        let bounded_late = self.plan.via(AbilityName::Processes) == Via::V2
            || self.tree_level().is_some_and(|tree| tree.hierarchy.carries("io"));
        all.into_iter().all(|name| self.plan.via(name) == Via::V1) && !needed.contains(&None) && !bounded_late
    }

    /// For jobs that are held by their processes alone, whatever the plan for other jobs.
    pub(super) fn without_groups(plan: &Plan, roots: &Roots, instance: &str) -> Result<Self, ContainerError> {
        // Rootless mode needs no groups, so that it is never refused.
        let plan = decide(&plan.facts, Some(Mode::Rootless)).unwrap_or_else(|_| plan.clone());
        Self::open(plan, roots.clone(), instance)
    }

    pub(super) fn open(plan: Plan, roots: Roots, instance: &str) -> Result<Self, ContainerError> {
        let usable = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !(1..=32).contains(&instance.len()) || !instance.chars().all(usable) {
            return Err(ContainerError::Instance(instance.to_owned()));
        }
        // Taken before any group exists, so that a rescue does not take a new group for a dead daemon's.
        let has_groups = !plan.hierarchies.is_empty();
        let mark = if has_groups { Mark::of_daemon(&roots.run, instance) } else { None };
        let plan = enable_controllers(plan, &roots, instance)?;
        let mut levels = Vec::with_capacity(plan.hierarchies.len());
        let is_tree = |one: &&Hierarchy| one.generation == Generation::V2;
        let (trees, first): (Vec<_>, Vec<_>) = plan.hierarchies.iter().partition(is_tree);
        for hierarchy in first.into_iter().chain(trees) {
            levels.push(open_level(hierarchy, &roots, instance, plan.facts.pus)?);
        }
        let roles = Roles::assign(&plan, &levels);
        let proc = Proc::open(&roots.proc)?;
        let spares = Mutex::new(Vec::new());
        let (partitions, taken) = (Mutex::new(BTreeMap::new()), Mutex::new(BTreeMap::new()));
        let scratch = Scratch::new(&plan.facts, instance);
        let instance = instance.to_owned();
        let look = Mutex::new(Look::default());
        let shared =
            Self { plan, instance, levels, roles, proc, scratch, spares, partitions, taken, look, mark };
        if shared.plan.via(AbilityName::Pin) == Via::V2 {
            shared.find_partitions()?;
        }
        Ok(shared)
    }

    /// The unified hierarchy.
    pub(super) fn tree_level(&self) -> Option<&Level> {
        self.levels.get(self.roles.tree?)
    }

    /// The levels of the first generation.
    fn first_levels(&self) -> &[Level] {
        &self.levels[..self.roles.tree.unwrap_or(self.levels.len())]
    }

    /// Makes fresh groups for a job on every level of the first generation.
    pub(super) fn make_groups(&self, job: u64) -> Result<Vec<Group>, ContainerError> {
        let mut groups = Vec::with_capacity(self.levels.len());
        for level in self.first_levels() {
            match self.make_fresh(level, job) {
                Ok(group) => groups.push(group),
                Err(error) => {
                    for made in self.levels.iter().take(groups.len()) {
                        // The caller needs the first failure; an empty group left behind shows in jobs().
                        let _ = made.instance.remove(&group_name(job), false);
                    }
                    return Err(error);
                }
            }
        }
        Ok(groups)
    }

    /// Makes a job's new group on a level.
    pub(super) fn make_fresh(&self, level: &Level, job: u64) -> Result<Group, ContainerError> {
        let name = group_name(job);
        let (group, new) = level.instance.make(&name)?;
        if new {
            return settled(level, group);
        }
        // A group left by an earlier daemon has foreign peaks and settings and is not reused; neither is its group in
        // the unified hierarchy, which is made later and removed first.
        drop(group);
        let tree = self.roles.tree.and_then(|index| self.levels.get(index));
        for level in tree.into_iter().chain([level]) {
            if level.remove_job(job, false)? == GroupRemoval::Busy {
                return Err(ContainerError::Occupied { job });
            }
        }
        settled(level, level.instance.make(&name)?.0)
    }

    /// Opens the first-generation groups that a job still has, and makes the groups that a crash prevented; `None`: no
    /// level has a group of the job.
    pub(super) fn find_groups(&self, job: u64) -> Result<Option<Vec<Group>>, ContainerError> {
        let mut found = Vec::with_capacity(self.levels.len());
        for level in &self.levels {
            found.push(level.job(job)?);
        }
        if found.iter().all(Option::is_none) || self.is_spare(job) {
            return Ok(None);
        }
        let mut groups = Vec::with_capacity(found.len());
        for (level, group) in self.first_levels().iter().zip(found) {
            groups.push(match group {
                Some(group) => group,
                None => settled(level, level.job_or_new(job)?)?,
            });
        }
        Ok(Some(groups))
    }

    /// The jobs that have a group on any level, ascending.
    pub(super) fn jobs(&self) -> Result<Vec<u64>, ContainerError> {
        let mut jobs = BTreeSet::new();
        for level in &self.levels {
            for group in [&level.instance].into_iter().chain(&level.earlier) {
                jobs.extend(group.children()?.iter().filter_map(|name| job_of(name)));
            }
        }
        Ok(jobs.into_iter().collect())
    }

    /// The level of cpusets, and whether it is of the first generation.
    fn cpuset(&self) -> Option<(&Level, bool)> {
        let level = self.levels.get(self.roles.cpuset?)?;
        Some((level, level.hierarchy.generation == Generation::V1))
    }

    pub(super) fn allowed_cpus(&self) -> Result<Option<CpuSet>, ContainerError> {
        let Some((level, first)) = self.cpuset() else { return Ok(None) };
        let file = if first { "cpuset.effective_cpus" } else { "cpuset.cpus.effective" };
        let text = level.instance.read(file)?.unwrap_or_default();
        // An unreadable or empty list allows no conclusion. PUs in partitions still belong to jobs.
        let set: Option<CpuSet> = text.parse().ok();
        Ok(set.map(|set| set.union(&self.in_partitions())).filter(|set| !set.is_empty()))
    }

    pub(super) fn give_back(&self, cpus: &CpuSet) -> Result<(), ContainerError> {
        let Some((level, true)) = self.cpuset() else { return Ok(()) };
        for (group, parent) in [(&level.top, &level.base), (&level.instance, &level.top)] {
            let set = |group: &Group| -> Result<CpuSet, ContainerError> {
                Ok(group.read("cpuset.cpus")?.unwrap_or_default().parse().unwrap_or_default())
            };
            let (have, above) = (set(group)?, set(parent)?);
            let wanted = have.union(&cpus.intersection(&above));
            if wanted != have {
                group.write("cpuset.cpus", &wanted.to_string())?;
            }
        }
        Ok(())
    }

    pub(super) fn close(&self) {
        self.discard_spares();
        for level in &self.levels {
            // Busy is as good as gone here: another instance or a running job needs the group.
            let removed = level.top.remove(&self.instance, false).and_then(|_| level.base.remove(TOP, false));
            if let Err(error) = removed {
                tracing::debug!(error = &error as &dyn std::error::Error, "a group of the instance stays");
            }
        }
        if let Some(mark) = &self.mark {
            mark.remove();
        }
    }
}

impl Roles {
    fn assign(plan: &Plan, levels: &[Level]) -> Self {
        let first = |controller: &str| levels.iter().position(|level| is_first(&level.hierarchy, controller));
        let tree = levels.iter().position(|level| level.hierarchy.generation == Generation::V2);
        let by = |via: Via, controller: &str| match via {
            Via::V2 => tree,
            Via::V1 => first(controller),
            Via::Processes | Via::Nothing => None,
        };
        Self {
            tree,
            cpu: by(plan.via(AbilityName::Weigh), "cpu"),
            cpuset: by(plan.via(AbilityName::Pin), "cpuset"),
            memory: by(plan.via(AbilityName::Limit), "memory"),
            freezer: by(plan.via(AbilityName::Freeze), "freezer").filter(|index| Some(*index) != tree),
            processes: by(plan.via(AbilityName::Processes), "pids"),
            cpuacct: if tree.is_none() { first("cpuacct") } else { None },
        }
    }
}

fn is_first(hierarchy: &Hierarchy, controller: &str) -> bool {
    hierarchy.generation == Generation::V1 && hierarchy.carries(controller)
}

pub(super) fn group_name(job: u64) -> String {
    format!("job-{job}")
}

fn job_of(name: &str) -> Option<u64> {
    name.strip_prefix("job-")?.parse().ok()
}

/// Enables controllers for the instance's group of the unified hierarchy. Refused controllers are removed from the
/// facts, and the plan is decided again.
fn enable_controllers(plan: Plan, roots: &Roots, instance: &str) -> Result<Plan, ContainerError> {
    let Some(tree) = plan.tree() else { return Ok(plan) };
    let wanted: Vec<&str> = USEFUL.into_iter().filter(|controller| tree.carries(controller)).collect();
    let base = existing(&tree.base_path(), roots)?;
    let (top, own) = make_instance(&base, instance)?;
    // Not only when the kernel reports the base as busy: with processes in the base, the kernel still enables some
    // controllers, and then treats the groups below as part of a threaded domain, which no process may enter.
    if tree.delegated && !wanted.is_empty() {
        move_to_leaf(&base)?;
    }
    for group in [&base, &top, &own] {
        hand_down(group, &wanted)?;
    }
    let listed = own.read("cgroup.subtree_control")?.unwrap_or_default();
    let has = |controller: &str| listed.split_ascii_whitespace().any(|word| word == controller);
    let missing: Vec<&str> = wanted.iter().copied().filter(|controller| !has(controller)).collect();
    if missing.is_empty() {
        return Ok(plan);
    }
    tracing::warn!(controllers = missing.join(" "), "controllers cannot be enabled for the groups of jobs");
    let mut facts = plan.facts.clone();
    for hierarchy in facts.hierarchies.iter_mut().filter(|one| one.generation == Generation::V2) {
        hierarchy.controllers.retain(|controller| has(controller));
    }
    // The modes that the facts allow do not depend on the controllers of the unified hierarchy.
    Ok(decide(&facts, Some(plan.mode)).unwrap_or(plan))
}

fn hand_down(group: &Group, controllers: &[&str]) -> Result<(), ContainerError> {
    let listed = group.read("cgroup.subtree_control")?.unwrap_or_default();
    let missing =
        controllers.iter().filter(|wanted| !listed.split_ascii_whitespace().any(|have| have == **wanted));
    for controller in missing {
        // Realtime threads outside, a controller in use elsewhere, or missing rights leave the controller absent below,
        // which is checked once for all.
        let _ = group.write("cgroup.subtree_control", &format!("+{controller}"));
    }
    Ok(())
}

/// Moves the processes of a delegated group into a leaf below it. Repeats until none is left, as they may fork.
fn move_to_leaf(base: &Group) -> Result<(), ContainerError> {
    for _ in 0..16 {
        let pids = base.read_parsed("cgroup.procs", crate::cgroup::parse_pids)?.unwrap_or_default();
        if pids.is_empty() {
            break;
        }
        let (leaf, _) = base.make(DAEMON_LEAF)?;
        for pid in pids {
            match leaf.write("cgroup.procs", &pid.to_string()) {
                Ok(()) => {}
                Err(error) if error.errno() == Some(Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn existing(path: &Path, roots: &Roots) -> Result<Group, ContainerError> {
    match Group::open(path, roots.fake.clone())? {
        Some(group) => Ok(group),
        None => Err(ContainerError::BaseGone { path: path.to_owned() }),
    }
}

fn make_instance(base: &Group, instance: &str) -> Result<(Group, Group), CgroupError> {
    let mut tries = 0;
    loop {
        let (top, _) = base.make(TOP)?;
        match top.make(instance) {
            Ok((own, _)) => return Ok((top, own)),
            // Another instance closed and took the empty top away in between.
            Err(error) if error.is_gone() && tries < 16 => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

fn open_level(
    hierarchy: &Hierarchy,
    roots: &Roots,
    instance: &str,
    pus: usize,
) -> Result<Level, ContainerError> {
    let base = existing(&hierarchy.base_path(), roots)?;
    let mut tries = 0;
    let (top, own, held) = loop {
        let (top, own) = make_instance(&base, instance)?;
        // The group works without a mark too; only an empty group could then be removed by a rescue.
        let held = own.hold(false).ok().flatten();
        // A rescue may have found it unused a moment ago.
        if tries >= 16 || top.child(instance)?.is_some() {
            break (top, own, held);
        }
        tries += 1;
    };
    for (group, parent) in [(&top, &base), (&own, &top)] {
        prepare(hierarchy, group, parent, pus)?;
    }
    let earlier = earlier(hierarchy, roots, instance)?;
    Ok(Level { hierarchy: hierarchy.clone(), base, top, instance: own, earlier, _held: held })
}

/// The instance's group at the place of earlier versions, if jobs have groups in it; one without any is removed.
fn earlier(hierarchy: &Hierarchy, roots: &Roots, instance: &str) -> Result<Option<Group>, CgroupError> {
    let path = hierarchy.mount.join(EARLIER_BASE).join(TOP);
    match Group::open(&path, roots.fake.clone())?.filter(|_| hierarchy.base.ends_with(JOBS_UNIT)) {
        Some(top) if top.remove(instance, false)? == GroupRemoval::Busy => top.child(instance),
        _ => Ok(None),
    }
}

/// Settings of a job's group that hold for its life.
fn settled(level: &Level, group: Group) -> Result<Group, ContainerError> {
    if is_first(&level.hierarchy, "cpuset") {
        // A group whose PUs are part of a balanced group needs no scheduling domain of its own. If a first-generation
        // set asks for a domain, the kernel rebuilds all domains with each change of its PUs, under a lock of the whole
        // host (cpusets.rst, "sched_load_balance").
        write_unless(&group, "cpuset.sched_load_balance", "0")?;
    }
    Ok(group)
}

/// Settings of the groups above the jobs.
fn prepare(hierarchy: &Hierarchy, group: &Group, parent: &Group, pus: usize) -> Result<(), CgroupError> {
    // A group has its weight once for the whole host: on each of n busy PUs it counts as 1/n of it. With the usual weight
    // all jobs together would weigh as little as a process outside; n times the weight puts a job on a PU even beside a
    // process outside.
    let pus = u64::try_from(pus).unwrap_or(1).max(1);
    match hierarchy.generation {
        Generation::V2 if hierarchy.carries("cpu") => {
            write_unless(group, "cpu.weight", &(100 * pus).min(10_000).to_string())?;
        }
        Generation::V1 if hierarchy.carries("cpu") => {
            write_unless(group, "cpu.shares", &(1024 * pus).min(262_144).to_string())?;
        }
        _ => {}
    }
    if is_first(hierarchy, "cpuset") {
        // Jobs' groups then start with the PUs and memory nodes of the instance, and need no writes of their own.
        write_unless(group, "cgroup.clone_children", "1")?;
        // Memory nodes first: a process may enter only when both are set, and pages must not go astray between.
        for file in ["cpuset.mems", "cpuset.cpus"] {
            let have = group.read(file)?.unwrap_or_default();
            if have.trim().is_empty() {
                let above = parent.read(file)?.unwrap_or_default();
                group.write(file, above.trim())?;
            }
        }
    }
    Ok(())
}

/// Writes a setting if it differs. An absent file is left out: an older kernel or another controller set, which the
/// plan has taken into account.
fn write_unless(group: &Group, file: &str, value: &str) -> Result<(), CgroupError> {
    match group.read(file)? {
        Some(have) if have.trim() != value => group.write(file, value),
        _ => Ok(()),
    }
}
