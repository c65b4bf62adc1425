//! Operations on a job by the kernel's groups, and by its members' threads where the host lacks the controller. Owner
//! of state: the kernel. Absent here: jobs without groups (`family`).

use std::collections::BTreeSet;

use pinfold_topo::CpuSet;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

use super::drift::weight_file;
use super::members::ROUNDS_MAX;
use super::process::{self, Reached};
use super::{Applied, Container, ContainerError, Entered, Share, Tree, WEIGHT_MAX};
use crate::cgroup::{CgroupError, Events, Group, GroupRemoval, parse_events, parse_pids};
use crate::identity::Process;
use crate::mode::{AbilityName, Via};

/// The most threads of a job that the daemon's loop moves to the idle I/O class at a time.
const IO_IDLE_MAX: usize = 4_096;
/// The most threads that get their usual I/O class back: more than `IO_IDLE_MAX`, as threads inherit the idle class.
const IO_USUAL_MAX: usize = 16_384;
/// Tells systemd-oomd to leave a group alone.
const OOM_DAEMON_OMIT: &str = "user.oomd_omit";
const KEPT_IDLE: &str = "a thread cannot leave the idle class without CAP_SYS_NICE or RLIMIT_NICE of 20";
const KEPT_WEIGHT: &str = "a weight cannot be raised without CAP_SYS_NICE or RLIMIT_NICE";
const KEPT_CPUS: &str = "the host lets the job use none of these PUs";
const KEPT_ELSEWHERE: &str = "its workload manager bound it to PUs, and that stays";
const KEPT_LIMIT: &str = "the job holds more than that and the kernel cannot take it away without a kill";
const NO_LIMIT: &str = "nothing here bounds the memory of a job";

impl Container {
    pub(super) fn tree(&self) -> Option<&Group> {
        self.tree.get().map(|tree| &tree.group)
    }

    pub(super) fn group(&self, role: Option<usize>) -> Option<&Group> {
        if role.is_some() && role == self.shared.roles.tree { self.tree() } else { self.groups.get(role?) }
    }

    /// All groups that are there, the unified hierarchy's last.
    pub(super) fn all_groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().chain(self.tree())
    }

    /// Whether the host has a unified hierarchy and the job has no group in it yet. A job in another manager's groups never
    /// has a group and misses none.
    pub fn is_missing_in_tree(&self) -> bool {
        self.shared.roles.tree.is_some() && self.tree.get().is_none()
    }

    /// Makes the job's group in the unified hierarchy if it is missing. A group left by an earlier daemon serves too,
    /// unless `fresh`.
    pub(super) fn make_tree(&self, fresh: bool) -> Result<(), ContainerError> {
        let Some(level) = self.shared.roles.tree.and_then(|index| self.shared.levels.get(index)) else {
            return Ok(());
        };
        if self.tree.get().is_none() {
            let group = match fresh {
                true => self.shared.make_fresh(level, self.job)?,
                false => level.job_or_new(self.job)?,
            };
            let events = group.open_file("cgroup.events")?;
            let tree = Tree { group, events };
            // The kernel reports changes since the last reading; without a reading the first poll returns at once.
            tree.read_events()?;
            // No race: one thread at a time uses a container.
            let _ = self.tree.set(tree);
        }
        Ok(())
    }

    /// Writes a process's number into all groups, as long as it is its own.
    pub(super) fn enter_groups(&self, process: &Process) -> Result<Entered, ContainerError> {
        let text = process.pid().to_string();
        for group in self.all_groups() {
            if !process.is_alive(&self.shared.proc)? {
                return Ok(Entered::Gone);
            }
            match group.write("cgroup.procs", &text) {
                Ok(()) => {}
                Err(error) if error.errno() == Some(Errno::SRCH) => return Ok(Entered::Gone),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Entered::Yes)
    }

    /// Applies the settings that a group cannot give to a process that just entered.
    pub(super) fn enter_settings(&self, pid: u32) -> Result<(), ContainerError> {
        let by_processes = |name| self.shared.plan.via(name) == Via::Processes;
        if by_processes(AbilityName::Pin)
            && !self.bound_elsewhere
            && let Some(cpus) = self.cpus.as_ref().filter(|cpus| !cpus.is_empty())
        {
            self.each_thread_of("bind", usize::MAX, || Ok(vec![pid]), |thread| process::bind(thread, cpus))?;
        }
        if self.share == Some(Share::Idle) {
            let apply = |thread| process::set_io_idle(thread, true);
            self.each_thread_of("change the I/O class of", IO_IDLE_MAX, || Ok(vec![pid]), apply)?;
        }
        match self.share {
            Some(Share::Idle) if by_processes(AbilityName::IdleClass) => {
                let apply = |thread| process::set_idle_class(thread, true);
                let pids = || Ok(vec![pid]);
                self.each_thread_or_session("change the class of", Share::Idle, pids, apply)?;
            }
            Some(share @ Share::Normal { weight }) if weight != 100 && by_processes(AbilityName::Weigh) => {
                let nice = process::nice_of_weight(weight);
                let apply = |thread| process::set_nice(thread, nice);
                self.each_thread_or_session("change the weight of", share, || Ok(vec![pid]), apply)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Completes entries that a crash interrupted: moves members into the groups that they had not reached.
    pub(super) fn complete_entries(&self) -> Result<(), ContainerError> {
        // A process halfway in may fork before it is moved; the next round finds its child.
        for _ in 0..ROUNDS_MAX {
            let mut listed = Vec::with_capacity(self.groups.len() + 1);
            for group in self.all_groups() {
                listed.push(members_below(group)?);
            }
            let all: BTreeSet<u32> = listed.iter().flatten().copied().collect();
            let halfway = |pid: &u32| listed.iter().any(|pids| pids.binary_search(pid).is_err());
            let halfway: Vec<u32> = all.into_iter().filter(halfway).collect();
            if halfway.is_empty() {
                break;
            }
            for pid in halfway {
                self.complete_entry(pid)?;
            }
        }
        Ok(())
    }

    /// Moves a process that is in some of the groups into all.
    fn complete_entry(&self, pid: u32) -> Result<(), ContainerError> {
        let Some(process) = Process::open(&self.shared.proc, pid)? else { return Ok(()) };
        // Another process may have got the number since the listing; a number that is still listed after the opening
        // belongs to the opened process.
        let mut listed = false;
        for group in self.all_groups() {
            listed = listed || members_below(group)?.binary_search(&pid).is_ok();
        }
        if !listed {
            return Ok(());
        }
        let whence = self.whence(&process)?;
        self.enter_groups(&process)?;
        if !process.is_alive(&self.shared.proc)? {
            self.turn_out(&process, &whence)?;
        }
        Ok(())
    }

    /// The `tasks` files of the first-generation groups, where a process needs no other group at first.
    pub(super) fn open_doors(&self) -> Result<Vec<OwnedFd>, ContainerError> {
        if !self.shared.have_doors() || self.groups.iter().any(Group::is_fake) {
            return Ok(Vec::new());
        }
        Ok(self.groups.iter().map(|group| group.open_to_write("tasks")).collect::<Result<_, _>>()?)
    }

    pub(super) fn group_pids(&self) -> Result<Vec<u32>, ContainerError> {
        let memory = || self.group(self.shared.roles.memory);
        match self.tree().or_else(memory).or_else(|| self.groups.first()) {
            Some(group) => Ok(members_below(group)?),
            None => Ok(Vec::new()),
        }
    }

    pub(super) fn bind_group(&self, cpus: &CpuSet) -> Result<Applied, ContainerError> {
        let Some(group) = self.group(self.shared.roles.cpuset) else { return Ok(Applied::Done) };
        let wanted = if cpus.is_empty() {
            // The kernel accepts an empty set in an empty group only: both generations refuse it for a group with
            // processes.
            let file = match self.shared.plan.via(AbilityName::Pin) {
                Via::V2 => "cpuset.cpus.effective",
                _ => "cpuset.cpus",
            };
            let level = self.shared.roles.cpuset.and_then(|index| self.shared.levels.get(index));
            match level.map(|level| level.instance.read(file)).transpose()?.flatten() {
                Some(above) => above.trim().to_owned(),
                None => return Ok(Applied::Done),
            }
        } else {
            cpus.to_string()
        };
        match group.write("cpuset.cpus", &wanted) {
            Ok(()) => Ok(Applied::Done),
            // ENOSPC: no PU of the set is online or allowed; EACCES: outside the parent group's set; ERANGE and EINVAL:
            // numbers that this host cannot have.
            Err(error)
                if matches!(
                    error.errno(),
                    Some(Errno::NOSPC | Errno::ACCESS | Errno::RANGE | Errno::INVAL)
                ) =>
            {
                Ok(Applied::Kept(KEPT_CPUS))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn bind_processes(&self, cpus: &CpuSet) -> Result<Applied, ContainerError> {
        if self.bound_elsewhere {
            return Ok(Applied::Kept(KEPT_ELSEWHERE));
        }
        let kept = std::cell::Cell::new(false);
        let reached = self.each_thread("bind", |thread| match process::bind(thread, cpus) {
            Err(Errno::INVAL) => {
                kept.set(true);
                Ok(Reached::Forbidden)
            }
            other => other,
        })?;
        Ok(if kept.get() || reached == Reached::Forbidden { Applied::Kept(KEPT_CPUS) } else { Applied::Done })
    }

    pub(super) fn to_idle(&self) -> Result<Applied, ContainerError> {
        match self.shared.plan.via(AbilityName::IdleClass) {
            Via::V1 | Via::V2 => {
                if let Some(group) = self.group(self.shared.roles.cpu) {
                    group.write("cpu.idle", "1")?;
                }
                Ok(Applied::Done)
            }
            Via::Processes | Via::Nothing => {
                let apply = |thread| process::set_idle_class(thread, true);
                self.each_thread_or_session("change the class of", Share::Idle, || self.pids(), apply)?;
                Ok(Applied::Done)
            }
        }
    }

    /// Puts the job's I/O behind that of all others, or back to normal. By its threads in every mode: the groups' I/O
    /// weights know no idle class. Best effort, as some threads may be another user's, and for a bounded number of threads.
    pub(super) fn set_io_idle(&self, idle: bool) -> Result<(), ContainerError> {
        let most = if idle { IO_IDLE_MAX } else { IO_USUAL_MAX };
        let apply = |thread| process::set_io_idle(thread, idle);
        self.each_thread_of("change the I/O class of", most, || self.pids(), apply).map(drop)
    }

    pub(super) fn to_weight(&self, weight: u32) -> Result<Applied, ContainerError> {
        // The setting is unknown after adoption; then both steps are taken.
        let was_idle = !matches!(self.share, Some(Share::Normal { .. }));
        let weigh = self.shared.plan.via(AbilityName::Weigh);
        if was_idle && self.leave_idle()? == Reached::Forbidden {
            return Ok(Applied::Kept(KEPT_IDLE));
        }
        let (file, value, usual) = match weigh {
            Via::V1 | Via::V2 => {
                let (file, value) = weight_file(weigh, weight);
                (file, value, weight_file(weigh, 100).1)
            }
            Via::Processes | Via::Nothing => {
                let nice = process::nice_of_weight(weight);
                let (share, apply) = (Share::Normal { weight }, |thread| process::set_nice(thread, nice));
                let reached =
                    self.each_thread_or_session("change the weight of", share, || self.pids(), apply)?;
                return Ok(match reached {
                    Reached::Forbidden => Applied::Kept(KEPT_WEIGHT),
                    Reached::Yes | Reached::Gone => Applied::Done,
                });
            }
        };
        // Leaving the idle class sets the usual weight.
        let is_usual = self.share == Some(Share::Idle) || self.share == Some(Share::NORMAL);
        if let Some(group) = self.group(self.shared.roles.cpu)
            && !(is_usual && value == usual)
        {
            group.write(file, &value.to_string())?;
        }
        Ok(Applied::Done)
    }

    fn leave_idle(&self) -> Result<Reached, ContainerError> {
        match self.shared.plan.via(AbilityName::IdleClass) {
            Via::V1 | Via::V2 => {
                if let Some(group) = self.group(self.shared.roles.cpu) {
                    group.write("cpu.idle", "0")?;
                }
                Ok(Reached::Yes)
            }
            Via::Processes | Via::Nothing => {
                let apply = |thread| process::set_idle_class(thread, false);
                self.each_thread_or_session("change the class of", Share::NORMAL, || self.pids(), apply)
            }
        }
    }

    pub(super) fn limit_group(&self, bytes: Option<u64>) -> Result<Applied, ContainerError> {
        let Some(group) = self.group(self.shared.roles.memory) else {
            // No bound exists and none is requested: nothing to do.
            return Ok(if bytes.is_none() { Applied::Done } else { Applied::Kept(NO_LIMIT) });
        };
        match (self.shared.plan.via(AbilityName::Limit), bytes) {
            (Via::V2, None) => group.write("memory.max", "max")?,
            (Via::V2, Some(bytes)) => {
                // The kernel kills when a bound is set below the memory that it can reclaim, so reclaim first.
                let held = group.read_number("memory.current")?.unwrap_or(0);
                if held > bytes {
                    self.page_out_v2(held - bytes)?;
                }
                if group.read_number("memory.current")?.unwrap_or(0) > bytes {
                    return Ok(Applied::Kept(KEPT_LIMIT));
                }
                group.write("memory.max", &bytes.to_string())?;
            }
            (_, None) => group.write("memory.limit_in_bytes", "-1")?,
            (_, Some(bytes)) => match group.write("memory.limit_in_bytes", &bytes.to_string()) {
                Ok(()) => {}
                Err(error) if error.errno() == Some(Errno::BUSY) => return Ok(Applied::Kept(KEPT_LIMIT)),
                Err(error) => return Err(error.into()),
            },
        }
        Ok(Applied::Done)
    }

    /// Gives a job the highest weight while it is being frozen: each of its threads has to run for a moment before it
    /// stops. In the idle class a thread would wait for all busy threads, and with the usual weight for some of the
    /// scheduler's turns: up to 30 ms for a job of 15 processes that had just been thawed. Best effort.
    pub(super) fn hurry(&mut self) {
        let by_group = |name| matches!(self.shared.plan.via(name), Via::V1 | Via::V2);
        let Some(group) = self.group(self.shared.roles.cpu) else { return };
        let woken = match self.share {
            Some(Share::Idle) => by_group(AbilityName::IdleClass) && group.write("cpu.idle", "0").is_ok(),
            Some(Share::Normal { .. }) => false,
            None => return,
        };
        let may_weigh = by_group(AbilityName::Weigh) && (woken || self.share != Some(Share::Idle));
        self.hurries = (may_weigh && self.weigh_group(group, WEIGHT_MAX).is_ok()) || woken;
    }

    /// Restores the weight before the job runs again. If that fails, the job runs all the same, and the drift check
    /// reports it.
    pub(super) fn hurry_no_more(&mut self) {
        let hurries = std::mem::take(&mut self.hurries);
        let Some(group) = self.group(self.shared.roles.cpu).filter(|_| hurries) else { return };
        match self.share {
            Some(Share::Normal { weight }) => drop(self.weigh_group(group, weight)),
            // A group in the idle class has its weight.
            Some(Share::Idle) => drop(self.to_idle()),
            None => {}
        }
    }

    fn weigh_group(&self, group: &Group, weight: u32) -> Result<(), CgroupError> {
        let (file, value) = weight_file(self.shared.plan.via(AbilityName::Weigh), weight);
        group.write(file, &value.to_string())
    }

    pub(super) fn freeze_group(&self, freeze: bool) -> Result<(), ContainerError> {
        let written = if let Some(group) = self.group(self.shared.roles.freezer) {
            group.write("freezer.state", if freeze { "FROZEN" } else { "THAWED" })
        } else if let Some(group) = self.tree() {
            group.write("cgroup.freeze", if freeze { "1" } else { "0" })
        } else {
            Ok(())
        };
        // Out-of-memory daemons kill groups without progress, as a frozen job is (ManagedOOMPreference in
        // systemd.resource-control). Best effort, as some kernels and hosts lack these attributes.
        if let Some(group) = self.tree() {
            let _ = group.mark(OOM_DAEMON_OMIT, freeze.then_some("1"));
        }
        match written {
            // The group was removed: no process is left to stop or to wake.
            Err(error) if error.is_gone() => Ok(()),
            other => Ok(other?),
        }
    }

    pub(super) fn is_frozen_by_freezer(&self) -> Result<bool, ContainerError> {
        let Some(group) = self.group(self.shared.roles.freezer) else { return Ok(false) };
        let state = group.read("freezer.state")?.unwrap_or_default();
        if state.trim() == "FREEZING"
            && group.read("freezer.self_freezing")?.is_none_or(|own| own.trim() == "1")
        {
            // A thread that was in the kernel at the first try is only tried again when the state is written anew.
            group.write("freezer.state", "FROZEN")?;
            return Ok(group.read("freezer.state")?.is_some_and(|state| state.trim() == "FROZEN"));
        }
        Ok(state.trim() == "FROZEN")
    }

    pub(super) fn kill_group(&self) -> Result<(), ContainerError> {
        match self.tree().map(|group| group.write("cgroup.kill", "1")) {
            Some(Err(error)) if error.is_gone() => Ok(()),
            Some(result) => Ok(result?),
            None => Ok(()),
        }
    }

    /// Whether every process of the group is stopped or ended, for hosts where freezing is a stop signal.
    pub(super) fn are_all_at_rest(&self) -> Result<bool, ContainerError> {
        for pid in self.pids()? {
            if self.shared.proc.stat(pid)?.is_some_and(|stat| !stat.is_at_rest()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn remove_groups(&self) -> Result<GroupRemoval, ContainerError> {
        // The unified hierarchy first: as long as a process is in it, the job keeps all its resources.
        let tree = self.tree().zip(self.shared.roles.tree);
        let others = self.groups.iter().zip(0..);
        for (group, index) in tree.into_iter().chain(others) {
            let Some(level) = self.shared.levels.get(index) else { continue };
            if level.remove_job(self.job, false)? == GroupRemoval::Gone {
                continue;
            }
            // Busy with processes, or with groups that the job made below its own and left empty.
            if !members_below(group)?.is_empty() || level.remove_job(self.job, true)? == GroupRemoval::Busy {
                return Ok(GroupRemoval::Busy);
            }
        }
        Ok(GroupRemoval::Gone)
    }
}

impl Tree {
    /// Populated and frozen, as the kernel has it now.
    pub(super) fn read_events(&self) -> Result<Events, ContainerError> {
        let nobody = Events { populated: false, frozen: false };
        if self.group.is_fake() {
            return Ok(self.group.read_parsed("cgroup.events", parse_events)?.unwrap_or(nobody));
        }
        let path = || self.group.path().join("cgroup.events");
        let mut buffer = [0u8; 256];
        match rustix::io::pread(self.events.as_fd(), &mut buffer, 0) {
            Ok(length) => match std::str::from_utf8(&buffer[..length]).ok().and_then(parse_events) {
                Some(events) => Ok(events),
                None => Err(CgroupError::Parse { path: path() }.into()),
            },
            // The group was removed and has no process.
            Err(Errno::NODEV | Errno::NOENT) => Ok(nobody),
            Err(errno) => Err(CgroupError::Read { path: path(), source: errno.into() }.into()),
        }
    }
}

/// The members of a group and of all groups below it, ascending.
pub(crate) fn members_below(group: &Group) -> Result<Vec<u32>, CgroupError> {
    let mut pids = group.read_parsed("cgroup.procs", parse_pids)?.unwrap_or_default();
    if group.has_children() {
        for name in group.children()? {
            if let Some(child) = group.child(&name)? {
                pids.extend(members_below(&child)?);
            }
        }
        pids.sort_unstable();
        pids.dedup();
    }
    Ok(pids)
}
