//! The stand-in for the kernel: what it does when a group is made, read, written and removed.

mod hierarchy;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pinfold_sys::cgroup::{FakeKernel, Generation};
use pinfold_topo::CpuSet;
use rustix::io::Errno;
use rustix::process::Signal;

use super::files::{V1_GROUP, V2_GROUP, V2_TOP, v1_controller, v2_controller};
use super::members::{Processes, signal};

pub(super) use hierarchy::Hierarchy;
use writes::{bound, idle, weigh};

/// The NUMA nodes of the fake host. All memory is on the first.
const NODES: &str = "0-1";

/// One fake group.
#[derive(Debug, Default)]
pub(super) struct GroupState {
    members: BTreeSet<u32>,
    frozen: bool,
    peak_bytes: u64,
    last_us: BTreeMap<u32, (u64, u64)>,
    ended_us: (u64, u64),
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) groups: BTreeMap<PathBuf, GroupState>,
    pub(super) refused: BTreeMap<String, Errno>,
    pub(super) left_out: BTreeSet<String>,
    pub(super) no_groups_in: BTreeSet<PathBuf>,
    /// Groups that handed controllers down while processes were in them: what is below takes none.
    threaded: BTreeSet<PathBuf>,
}

#[derive(Debug)]
pub(super) struct Kernel {
    hierarchies: Vec<Hierarchy>,
    processes: Processes,
    state: Mutex<State>,
}

impl Kernel {
    pub(super) fn new(hierarchies: Vec<Hierarchy>) -> io::Result<Self> {
        let processes = Processes::open().map_err(io::Error::other)?;
        let usable = usable_cpus()?;
        let mut state = State::default();
        for one in &hierarchies {
            fs::create_dir_all(&one.point)?;
            match one.generation {
                Generation::V2 => {
                    fill(&one.point, V2_TOP, &state.left_out)?;
                    fs::write(one.point.join("cgroup.controllers"), one.controllers.join(" ") + "\n")?;
                }
                Generation::V1 => {
                    fill(&one.point, V1_GROUP, &state.left_out)?;
                    for controller in &one.controllers {
                        fill(&one.point, v1_controller(controller), &state.left_out)?;
                    }
                    if one.controllers.contains(&"cpuset") {
                        fs::write(one.point.join("cpuset.cpus"), format!("{usable}\n"))?;
                        fs::write(one.point.join("cpuset.mems"), format!("{NODES}\n"))?;
                    }
                }
            }
            state.groups.insert(one.point.clone(), GroupState::default());
        }
        Ok(Self { hierarchies, processes, state: Mutex::new(state) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hierarchy of a group; a mount may lie inside the directory of another.
    fn hierarchy(&self, group: &Path) -> io::Result<&Hierarchy> {
        let mut around =
            self.hierarchies.iter().filter(|one| group.starts_with(&one.point)).collect::<Vec<_>>();
        around.sort_by_key(|one| one.point.as_os_str().len());
        around.pop().ok_or_else(|| Errno::NOENT.into())
    }

    /// Who is in a group and below it, with what they started since.
    fn everybody(&self, state: &mut State, group: &Path) -> io::Result<BTreeSet<u32>> {
        let point = &self.hierarchy(group)?.point;
        let elsewhere: BTreeSet<u32> = state
            .groups
            .iter()
            .filter(|(path, _)| path.starts_with(point) && !path.starts_with(group))
            .flat_map(|(_, one)| one.members.iter().copied())
            .collect();
        let mut all = BTreeSet::new();
        for (_, one) in state.groups.iter_mut().filter(|(path, _)| path.starts_with(group)) {
            let now = self.processes.with_descendants(&one.members);
            one.members = now.difference(&elsewhere).copied().filter(|pid| !all.contains(pid)).collect();
            all.extend(one.members.iter().copied());
        }
        Ok(all)
    }

    fn refresh(&self, state: &mut State, group: &Path, name: &str) -> io::Result<()> {
        let pids = self.everybody(state, group)?;
        let Some(one) = state.groups.get_mut(group) else { return Ok(()) };
        let (anon, shmem) = self.processes.memory(&pids);
        one.peak_bytes = one.peak_bytes.max(anon + shmem);
        let (user, system) = account(one, self.processes.times(&pids));
        let text = match name {
            "cgroup.procs" | "tasks" => one.members.iter().map(|pid| format!("{pid}\n")).collect(),
            "cgroup.events" => {
                let frozen = one.frozen && self.processes.are_stopped(&pids);
                format!("populated {}\nfrozen {}\n", u8::from(!pids.is_empty()), u8::from(frozen))
            }
            "cpu.stat" => format!("usage_usec {}\nuser_usec {user}\nsystem_usec {system}\n", user + system),
            "cpuacct.usage_user" => format!("{}\n", user * 1000),
            "cpuacct.usage_sys" => format!("{}\n", system * 1000),
            "memory.current" | "memory.usage_in_bytes" => format!("{}\n", anon + shmem),
            "memory.peak" | "memory.max_usage_in_bytes" => format!("{}\n", one.peak_bytes),
            "memory.stat" => match self.hierarchy(group)?.generation {
                Generation::V2 => format!("anon {anon}\nfile {shmem}\nshmem {shmem}\n"),
                Generation::V1 => {
                    format!("total_cache {shmem}\ntotal_rss {anon}\ntotal_shmem {shmem}\ntotal_swap 0\n")
                }
            },
            "memory.numa_stat" => match self.hierarchy(group)?.generation {
                Generation::V2 => format!("anon N0={anon}\nfile N0={shmem}\nshmem N0={shmem}\n"),
                Generation::V1 => {
                    let pages = (anon + shmem) / 4096;
                    format!("anon={pages} N0={pages}\nhierarchical_anon={pages} N0={pages}\n")
                }
            },
            "cpuset.cpus.effective" => effective_cpus(group)?,
            "cpuset.mems.effective" => effective_nodes(group)?,
            "pids.current" => format!("{}\n", self.processes.threads(&pids)),
            "freezer.state" => match (one.frozen, self.processes.are_stopped(&pids)) {
                (true, true) => "FROZEN\n".to_owned(),
                (true, false) => "FREEZING\n".to_owned(),
                (false, _) => "THAWED\n".to_owned(),
            },
            _ => return Ok(()),
        };
        fs::write(group.join(name), text)
    }
}

/// Adds up what members use and what those used that are gone.
fn account(group: &mut GroupState, now: BTreeMap<u32, (u64, u64)>) -> (u64, u64) {
    for (pid, (user, system)) in &group.last_us {
        if !now.contains_key(pid) {
            group.ended_us.0 += user;
            group.ended_us.1 += system;
        }
    }
    let living = now.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    group.last_us = now;
    (group.ended_us.0 + living.0, group.ended_us.1 + living.1)
}

/// The group's own set, or that of the next group above that has one, or all.
fn effective_cpus(group: &Path) -> io::Result<String> {
    let above = group.ancestors().map(|one| fs::read_to_string(one.join("cpuset.cpus")).unwrap_or_default());
    match above.into_iter().find(|cpus| !cpus.trim().is_empty()) {
        Some(cpus) => Ok(cpus),
        None => Ok(format!("{}\n", usable_cpus()?)),
    }
}

fn effective_nodes(group: &Path) -> io::Result<String> {
    let above = group.ancestors().map(|one| fs::read_to_string(one.join("cpuset.mems")).unwrap_or_default());
    Ok(above.into_iter().find(|nodes| !nodes.trim().is_empty()).unwrap_or_else(|| format!("{NODES}\n")))
}

fn fill(group: &Path, files: &[(&str, &str)], left_out: &BTreeSet<String>) -> io::Result<()> {
    for (file, text) in files.iter().filter(|(file, _)| !left_out.contains(*file)) {
        fs::write(group.join(file), text)?;
    }
    Ok(())
}

fn fill_missing(group: &Path, files: &[(&str, &str)], left_out: &BTreeSet<String>) -> io::Result<()> {
    let missing: Vec<(&str, &str)> =
        files.iter().copied().filter(|(file, _)| !group.join(file).exists()).collect();
    fill(group, &missing, left_out)
}

fn usable_cpus() -> io::Result<CpuSet> {
    let status = fs::read_to_string("/proc/self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(|list| list.trim().parse().ok()).ok_or_else(|| Errno::NOENT.into())
}

impl FakeKernel for Kernel {
    fn made(&self, group: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let hierarchy = self.hierarchy(group)?;
        let parent = group.parent().unwrap_or(group);
        if !state.groups.contains_key(parent) || state.no_groups_in.contains(&hierarchy.point) {
            fs::remove_dir(group)?;
            return Err(Errno::ACCESS.into());
        }
        let left_out = state.left_out.clone();
        match hierarchy.generation {
            Generation::V2 => {
                fill(group, V2_GROUP, &left_out)?;
                let handed = fs::read_to_string(parent.join("cgroup.subtree_control"))?;
                fs::write(group.join("cgroup.controllers"), &handed)?;
                for controller in handed.split_ascii_whitespace() {
                    fill(group, v2_controller(controller), &left_out)?;
                }
            }
            Generation::V1 => {
                fill(group, V1_GROUP, &left_out)?;
                for controller in &hierarchy.controllers {
                    fill(group, v1_controller(controller), &left_out)?;
                }
                let clone = fs::read_to_string(parent.join("cgroup.clone_children"))?;
                fs::write(group.join("cgroup.clone_children"), &clone)?;
                if hierarchy.controllers.contains(&"cpuset") && clone.trim() == "1" {
                    for file in ["cpuset.cpus", "cpuset.mems"] {
                        fs::copy(parent.join(file), group.join(file))?;
                    }
                }
            }
        }
        let frozen = state.groups.get(parent).is_some_and(|above| above.frozen);
        state.groups.insert(group.to_owned(), GroupState { frozen, ..GroupState::default() });
        Ok(())
    }

    fn reading(&self, file: &Path) -> io::Result<()> {
        let (Some(group), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str()))
        else {
            return Ok(());
        };
        // A file that is not there stays away, as on a kernel that does not have it.
        if !file.exists() {
            return Ok(());
        }
        self.refresh(&mut self.lock(), group, name)
    }

    fn written(&self, file: &Path, value: &str) -> io::Result<()> {
        let (Some(group), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str()))
        else {
            return Err(Errno::INVAL.into());
        };
        let mut state = self.lock();
        if let Some(errno) = state.refused.get(name) {
            return Err((*errno).into());
        }
        let flag = |value: &str| match value.trim() {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(io::Error::from(Errno::INVAL)),
        };
        match name {
            "cgroup.procs" => self.enter(&mut state, group, value),
            "cgroup.freeze" => {
                self.freeze(&mut state, group, flag(value)?)?;
                fs::write(file, format!("{}\n", value.trim()))
            }
            "freezer.state" => match value.trim() {
                "FROZEN" => self.freeze(&mut state, group, true),
                "THAWED" => self.freeze(&mut state, group, false),
                _ => Err(Errno::INVAL.into()),
            },
            "cgroup.kill" => {
                if !flag(value)? {
                    return Err(Errno::INVAL.into());
                }
                let pids = self.everybody(&mut state, group)?;
                signal(&pids, Signal::KILL);
                Ok(())
            }
            "cgroup.subtree_control" => self.hand_down(&mut state, group, value),
            "cgroup.clone_children" => {
                flag(value).and_then(|_| fs::write(file, format!("{}\n", value.trim())))
            }
            "cpu.weight" | "cpu.shares" => weigh(group, name, value),
            "cpu.idle" => idle(group, value),
            "cpu.max" | "cpu.cfs_quota_us" | "cpu.cfs_period_us" | "pids.max" => bound(file, name, value),
            "cpuset.mems" => self.bind_memory(&mut state, group, value),
            "cpuset.cpus" => self.bind(&mut state, group, value),
            "memory.max"
            | "memory.high"
            | "memory.low"
            | "memory.swap.max"
            | "memory.limit_in_bytes"
            | "memory.memsw.limit_in_bytes" => self.bound_memory(&mut state, group, name, value),
            // There is nothing that could go: no file pages, no swap.
            "memory.reclaim" => Err(Errno::AGAIN.into()),
            "io.max" if value.split_once(' ').is_some() => fs::write(file, format!("{}\n", value.trim())),
            "memory.force_empty" => Ok(()),
            "memory.max_usage_in_bytes" => {
                if let Some(one) = state.groups.get_mut(group) {
                    one.peak_bytes = 0;
                }
                Ok(())
            }
            _ => Err(Errno::ACCESS.into()),
        }
    }

    fn removing(&self, group: &Path) -> io::Result<()> {
        let mut state = self.lock();
        if !state.groups.contains_key(group) {
            return Ok(());
        }
        let busy = state.groups.keys().any(|path| path.parent() == Some(group));
        if busy || !self.everybody(&mut state, group)?.is_empty() {
            return Err(Errno::BUSY.into());
        }
        for entry in fs::read_dir(group)? {
            fs::remove_file(entry?.path())?;
        }
        state.groups.remove(group);
        Ok(())
    }
}
