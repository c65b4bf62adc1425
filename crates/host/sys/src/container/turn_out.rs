//! Moving a stranger back. The kernel moves a process into a group by number; if the process just ended, another
//! process may have its number and is then in a group of a foreign job, where it could be stopped, bound and killed.
//!
//! A process inherits its parent's groups, PUs and share: so it is moved to its parent's. Owner of state: the kernel.
//! Absent here: the detection (`Container::enter_process`), and certainty: a stranger without a parent cannot be traced
//! back; it moves to the origin of the ended process if both have the same user, and else to the top of its hierarchy
//! for this instance.

use std::collections::BTreeSet;
use std::path::Path;

use super::grouped::members_below;
use super::levels::Level;
use super::{Container, ContainerError, process};
use crate::adoptee;
use crate::affinity;
use crate::cgroup::{Generation, Group, own_group};
use crate::identity::Process;
use crate::mode::{AbilityName, Via};
use crate::procfs::ProcessStat;

/// The most rounds of the search for a stranger's new children.
const ROUNDS_MAX: usize = 8;
/// The process that inherits orphans.
const FIRST: u32 = 1;

/// The origin of a process before its entry.
#[derive(Debug, Default)]
pub(super) struct Whence {
    /// Its groups, as `/proc/PID/cgroup` has them.
    groups: String,
    user: Option<u32>,
}

impl Container {
    /// Notes where a process is, as long as its number is its own.
    pub(super) fn whence(&self, process: &Process) -> Result<Whence, ContainerError> {
        let proc = &self.shared.proc;
        let groups = if self.shared.levels.is_empty() {
            None
        } else {
            proc.text(&format!("{}/cgroup", process.pid()))?
        };
        let user = proc.status(process.pid())?.map(|status| status.user);
        Ok(Whence { groups: groups.unwrap_or_default(), user })
    }

    /// Moves the process that now has the number of `gone` back, with all processes that it started since.
    pub(super) fn turn_out(&self, gone: &Process, whence: &Whence) -> Result<(), ContainerError> {
        if let Some(mut family) = self.family() {
            family.forget(gone.pid(), gone.start_ticks());
        }
        let proc = &self.shared.proc;
        for round in 0..ROUNDS_MAX {
            // A stranger may have started within the same tick; but it has not ended.
            let is_another = |stat: &ProcessStat| stat.start_ticks != gone.start_ticks() || !stat.is_ended();
            let Some(stranger) = proc.stat(gone.pid())?.filter(is_another) else { return Ok(()) };
            let strangers = adoptee::tree(proc, &[stranger.pid])?;
            if round == 0 {
                tracing::warn!(
                    job = self.job,
                    pid = stranger.pid,
                    "a process ended as it was taken in, and another has its number: that one is put back"
                );
                self.settings_as_its_parent_has_them(&stranger)?;
            }
            let mut inside = BTreeSet::new();
            for group in self.all_groups() {
                inside.extend(members_below(group)?);
            }
            let strangers: Vec<ProcessStat> =
                strangers.into_iter().filter(|stat| inside.contains(&stat.pid)).collect();
            if strangers.is_empty() {
                return Ok(());
            }
            for stat in strangers {
                self.put_back(&stat, whence)?;
            }
        }
        Ok(())
    }

    fn put_back(&self, stat: &ProcessStat, whence: &Whence) -> Result<(), ContainerError> {
        let proc = &self.shared.proc;
        let user = proc.status(stat.pid)?.map(|status| status.user);
        let inherited = stat.parent <= FIRST && user == whence.user;
        let of_parent = if inherited { None } else { proc.text(&format!("{}/cgroup", stat.parent))? };
        let text = of_parent.as_deref().unwrap_or(&whence.groups);
        for level in &self.shared.levels {
            let target = group_in(level, text)?;
            let target = target.as_ref().unwrap_or_else(|| level.base());
            match target.write("cgroup.procs", &stat.pid.to_string()) {
                // The process has ended.
                Err(error) if error.errno() == Some(rustix::io::Errno::SRCH) => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Undoes settings of single threads: a thread inherits its parent's.
    fn settings_as_its_parent_has_them(&self, stat: &ProcessStat) -> Result<(), ContainerError> {
        let by_processes = |name| self.shared.plan.via(name) == Via::Processes;
        let failed = |errno: rustix::io::Errno| ContainerError::Process {
            operation: "put back what was set for",
            pid: stat.pid,
            source: errno.into(),
        };
        for thread in self.shared.proc.threads(stat.pid)?.unwrap_or_default() {
            if by_processes(AbilityName::Pin)
                && let Ok(Some(cpus)) = affinity::of(stat.parent)
            {
                process::bind(thread, &cpus).map_err(failed)?;
            }
            if by_processes(AbilityName::IdleClass) {
                process::set_idle_class(thread, false).map_err(failed)?;
            }
            if by_processes(AbilityName::Weigh)
                && let Some(nice) = process::nice(stat.parent)
            {
                process::set_nice(thread, nice).map_err(failed)?;
            }
            process::set_io_idle(thread, false).map_err(failed)?;
        }
        Ok(())
    }
}

/// The group of a hierarchy that this text of `/proc/PID/cgroup` names; `None`: the group does not exist.
fn group_in(level: &Level, text: &str) -> Result<Option<Group>, ContainerError> {
    let hierarchy = &level.hierarchy;
    let controller = match hierarchy.generation {
        Generation::V2 => "",
        Generation::V1 => hierarchy.controllers.first().map_or("", String::as_str),
    };
    let Some(path) = own_group(text, hierarchy.generation, controller) else { return Ok(None) };
    let inside = Path::new(path.trim_start_matches('/'));
    if inside.components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
        return Ok(None);
    }
    Ok(level.base().elsewhere(&hierarchy.mount.join(inside))?)
}
