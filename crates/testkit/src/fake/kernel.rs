//! The stand-in for the kernel: what it does when a group is made, read, written and removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pinfold_sys::cgroup::{FakeKernel, Generation};
use pinfold_topo::CpuSet;
use rustix::io::Errno;
use rustix::process::Signal;

use super::files::{NO_BOUND, V1_GROUP, V2_GROUP, V2_TOP, v1_controller, v2_controller};
use super::members::{Processes, signal};

/// The NUMA nodes of the fake host. All memory is on the first.
const NODES: &str = "0-1";

/// One fake hierarchy.
#[derive(Debug)]
pub(super) struct Hierarchy {
    generation: Generation,
    pub(super) point: PathBuf,
    controllers: Vec<&'static str>,
}

impl Hierarchy {
    pub(super) fn v1(point: PathBuf, controller: &'static str) -> Self {
        Self { generation: Generation::V1, point, controllers: vec![controller] }
    }

    pub(super) fn v2(point: PathBuf, controllers: &[&'static str]) -> Self {
        Self { generation: Generation::V2, point, controllers: controllers.to_vec() }
    }

    pub(super) fn mount_line(&self, index: usize, point: &str) -> String {
        let number = 30 + index;
        match self.generation {
            Generation::V1 => {
                format!(
                    "{number} 1 0:{number} / {point} rw - cgroup cgroup rw,{}\n",
                    self.controllers.join(",")
                )
            }
            Generation::V2 => format!("{number} 1 0:{number} / {point} rw - cgroup2 cgroup2 rw\n"),
        }
    }

    pub(super) fn own_line(&self, index: usize) -> String {
        match self.generation {
            Generation::V1 => format!("{}:{}:/\n", index + 1, self.controllers.join(",")),
            Generation::V2 => "0::/\n".to_owned(),
        }
    }
}

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

    fn enter(&self, state: &mut State, group: &Path, value: &str) -> io::Result<()> {
        let pid: u32 = value.trim().parse().map_err(|_| Errno::INVAL)?;
        if self.processes.stat(pid).is_none() {
            return Err(Errno::SRCH.into());
        }
        let hierarchy = self.hierarchy(group)?;
        let has = |file: &str| fs::read_to_string(group.join(file)).is_ok_and(|text| !text.trim().is_empty());
        if hierarchy.generation == Generation::V2 && group != hierarchy.point && has("cgroup.subtree_control")
        {
            return Err(Errno::BUSY.into());
        }
        if group.ancestors().skip(1).any(|above| state.threaded.contains(above)) {
            return Err(Errno::OPNOTSUPP.into());
        }
        if hierarchy.controllers.contains(&"cpuset")
            && hierarchy.generation == Generation::V1
            && !(has("cpuset.cpus") && has("cpuset.mems"))
        {
            return Err(Errno::NOSPC.into());
        }
        for (_, other) in state.groups.iter_mut().filter(|(path, _)| path.starts_with(&hierarchy.point)) {
            other.members.remove(&pid);
        }
        let Some(one) = state.groups.get_mut(group) else { return Err(Errno::NODEV.into()) };
        one.members.insert(pid);
        if one.frozen {
            signal(&BTreeSet::from([pid]), Signal::STOP);
        }
        if let Ok(cpus) = fs::read_to_string(group.join("cpuset.cpus")).unwrap_or_default().parse::<CpuSet>()
            && !cpus.is_empty()
        {
            self.processes.bind(&BTreeSet::from([pid]), &cpus);
        }
        Ok(())
    }

    fn freeze(&self, state: &mut State, group: &Path, freeze: bool) -> io::Result<()> {
        let pids = self.everybody(state, group)?;
        for (_, one) in state.groups.iter_mut().filter(|(path, _)| path.starts_with(group)) {
            one.frozen = freeze;
        }
        signal(&pids, if freeze { Signal::STOP } else { Signal::CONT });
        Ok(())
    }

    fn bind(&self, state: &mut State, group: &Path, value: &str) -> io::Result<()> {
        let cpus: CpuSet = value.trim().parse().map_err(|_| Errno::INVAL)?;
        let usable = usable_cpus()?;
        let pids = self.everybody(state, group)?;
        let hierarchy = self.hierarchy(group)?;
        if cpus.last().is_some_and(|last| last.0 >= 8192) {
            return Err(Errno::RANGE.into());
        }
        if hierarchy.generation == Generation::V1 {
            let above = group.parent().unwrap_or(group).join("cpuset.cpus");
            let above: CpuSet = fs::read_to_string(above)?.trim().parse().map_err(|_| Errno::INVAL)?;
            if !cpus.is_subset(&above) {
                return Err(Errno::ACCESS.into());
            }
        }
        let had = fs::read_to_string(group.join("cpuset.cpus"))?;
        if cpus.is_empty() && !had.trim().is_empty() && !pids.is_empty() {
            return Err(Errno::NOSPC.into());
        }
        fs::write(group.join("cpuset.cpus"), format!("{cpus}\n"))?;
        self.processes.bind(&pids, if cpus.is_empty() { &usable } else { &cpus });
        Ok(())
    }

    fn bind_memory(&self, state: &mut State, group: &Path, value: &str) -> io::Result<()> {
        let parsed = |text: &str| text.trim().parse::<CpuSet>().map_err(|_| io::Error::from(Errno::INVAL));
        let nodes = parsed(value)?;
        if nodes.last().is_some_and(|last| last.0 >= 1024) {
            return Err(Errno::RANGE.into());
        }
        if !nodes.is_subset(&parsed(NODES)?) {
            return Err(Errno::INVAL.into());
        }
        let file = group.join("cpuset.mems");
        if self.hierarchy(group)?.generation == Generation::V1 {
            let above = group.parent().unwrap_or(group).join("cpuset.mems");
            if !nodes.is_subset(&parsed(&fs::read_to_string(above)?)?) {
                return Err(Errno::ACCESS.into());
            }
        }
        let had = fs::read_to_string(&file)?;
        if nodes.is_empty() && !had.trim().is_empty() && !self.everybody(state, group)?.is_empty() {
            return Err(Errno::NOSPC.into());
        }
        fs::write(file, format!("{nodes}\n"))
    }

    fn bound_memory(&self, state: &mut State, group: &Path, name: &str, value: &str) -> io::Result<()> {
        let none = if name.ends_with("in_bytes") { "-1" } else { "max" };
        if value.trim() == none {
            let shown = if none == "max" { "max\n" } else { NO_BOUND };
            return fs::write(group.join(name), shown);
        }
        let bytes: u64 = value.trim().parse().map_err(|_| Errno::INVAL)?;
        let pids = self.everybody(state, group)?;
        let (anon, shmem) = self.processes.memory(&pids);
        // Nothing can be pushed out here: the first generation then refuses the bound, the second kills.
        if anon + shmem > bytes && name == "memory.limit_in_bytes" {
            return Err(Errno::BUSY.into());
        }
        if anon + shmem > bytes && name == "memory.max" {
            signal(&pids, Signal::KILL);
        }
        fs::write(group.join(name), format!("{bytes}\n"))
    }

    fn hand_down(&self, state: &mut State, group: &Path, value: &str) -> io::Result<()> {
        let hierarchy = self.hierarchy(group)?;
        let own = fs::read_to_string(group.join("cgroup.controllers"))?;
        let handed = fs::read_to_string(group.join("cgroup.subtree_control"))?;
        let mut handed: BTreeSet<String> = handed.split_ascii_whitespace().map(str::to_owned).collect();
        for word in value.split_ascii_whitespace() {
            let (add, controller) = match (word.strip_prefix('+'), word.strip_prefix('-')) {
                (Some(controller), _) => (true, controller),
                (_, Some(controller)) => (false, controller),
                _ => return Err(Errno::INVAL.into()),
            };
            if !own.split_ascii_whitespace().any(|have| have == controller) {
                return Err(Errno::NOENT.into());
            }
            if !add {
                return Err(Errno::OPNOTSUPP.into());
            }
            handed.insert(controller.to_owned());
            if group != hierarchy.point && state.groups.get(group).is_some_and(|one| !one.members.is_empty())
            {
                if !matches!(controller, "cpu" | "cpuset" | "pids") {
                    return Err(Errno::BUSY.into());
                }
                state.threaded.insert(group.to_owned());
            }
        }
        let list = handed.iter().cloned().collect::<Vec<_>>().join(" ") + "\n";
        fs::write(group.join("cgroup.subtree_control"), &list)?;
        for child in state.groups.keys().filter(|path| path.parent() == Some(group)) {
            fs::write(child.join("cgroup.controllers"), &list)?;
            for controller in &handed {
                fill_missing(child, v2_controller(controller), &state.left_out)?;
            }
        }
        Ok(())
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

fn weigh(group: &Path, name: &str, value: &str) -> io::Result<()> {
    let weight: u64 = value.trim().parse().map_err(|_| Errno::INVAL)?;
    if fs::read_to_string(group.join("cpu.idle")).is_ok_and(|idle| idle.trim() == "1") {
        return Err(Errno::INVAL.into());
    }
    let weight = match name {
        "cpu.weight" if !(1..=10_000).contains(&weight) => return Err(Errno::RANGE.into()),
        "cpu.weight" => weight,
        _ => weight.clamp(2, 262_144),
    };
    fs::write(group.join(name), format!("{weight}\n"))
}

fn idle(group: &Path, value: &str) -> io::Result<()> {
    if !matches!(value.trim(), "0" | "1") {
        return Err(Errno::INVAL.into());
    }
    let was = fs::read_to_string(group.join("cpu.idle"))?;
    fs::write(group.join("cpu.idle"), format!("{}\n", value.trim()))?;
    if was.trim() != value.trim() {
        // Either way the kernel forgets the weight: idle groups have the least one, others the usual one.
        let (v1, v2) = if value.trim() == "1" { ("3\n", "0\n") } else { ("1024\n", "100\n") };
        for (file, text) in [("cpu.shares", v1), ("cpu.weight", v2)] {
            if group.join(file).exists() {
                fs::write(group.join(file), text)?;
            }
        }
    }
    Ok(())
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

/// A bound on processes or on processor time, of which the kernel takes a quota of a millisecond at least.
fn bound(file: &Path, name: &str, value: &str) -> io::Result<()> {
    let (first, rest) = value.trim().split_once(' ').unwrap_or((value.trim(), "100000"));
    let least = if name == "pids.max" { 0 } else { 1_000 };
    let fits = |text: &str| text.parse::<u64>().is_ok_and(|number| number >= least);
    let free = if name == "cpu.cfs_quota_us" { "-1" } else { "max" };
    if !(first == free || fits(first)) || !rest.parse::<u64>().is_ok_and(|period| period <= 1_000_000) {
        return Err(Errno::INVAL.into());
    }
    fs::write(file, format!("{}\n", value.trim()))
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
