//! What the stand-in does when a file of a group is written, and what it refuses.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use pinfold_sys::cgroup::Generation;
use pinfold_topo::CpuSet;
use rustix::io::Errno;
use rustix::process::Signal;

use super::super::files::{NO_BOUND, v2_controller};
use super::super::members::signal;
use super::{Kernel, NODES, State, fill_missing, usable_cpus};

impl Kernel {
    pub(super) fn enter(&self, state: &mut State, group: &Path, value: &str) -> io::Result<()> {
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

    pub(super) fn freeze(&self, state: &mut State, group: &Path, freeze: bool) -> io::Result<()> {
        let pids = self.everybody(state, group)?;
        for (_, one) in state.groups.iter_mut().filter(|(path, _)| path.starts_with(group)) {
            one.frozen = freeze;
        }
        signal(&pids, if freeze { Signal::STOP } else { Signal::CONT });
        Ok(())
    }

    pub(super) fn bind(&self, state: &mut State, group: &Path, value: &str) -> io::Result<()> {
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

    pub(super) fn bind_memory(&self, state: &mut State, group: &Path, value: &str) -> io::Result<()> {
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

    pub(super) fn bound_memory(
        &self,
        state: &mut State,
        group: &Path,
        name: &str,
        value: &str,
    ) -> io::Result<()> {
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

    pub(super) fn hand_down(&self, state: &mut State, group: &Path, value: &str) -> io::Result<()> {
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

pub(super) fn weigh(group: &Path, name: &str, value: &str) -> io::Result<()> {
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

pub(super) fn idle(group: &Path, value: &str) -> io::Result<()> {
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

/// A bound on processes or on processor time, of which the kernel takes a quota of a millisecond at least.
pub(super) fn bound(file: &Path, name: &str, value: &str) -> io::Result<()> {
    let (first, rest) = value.trim().split_once(' ').unwrap_or((value.trim(), "100000"));
    let least = if name == "pids.max" { 0 } else { 1_000 };
    let fits = |text: &str| text.parse::<u64>().is_ok_and(|number| number >= least);
    let free = if name == "cpu.cfs_quota_us" { "-1" } else { "max" };
    if !(first == free || fits(first)) || !rest.parse::<u64>().is_ok_and(|period| period <= 1_000_000) {
        return Err(Errno::INVAL.into());
    }
    fs::write(file, format!("{}\n", value.trim()))
}
