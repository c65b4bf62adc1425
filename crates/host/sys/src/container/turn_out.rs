//! Putting a stranger back to where it came from. The kernel takes a process into a group by its number; one that ended
//! in the moment before may have left its number to another, which is then in a group of a job that it has nothing to do
//! with, and could be stopped, bound and killed there.
//!
//! A process is born into its parent's groups, with its parent's PUs and its parent's share: so that is where it goes.
//! Owner of state: the kernel. Absent here: when that happened (`Container::enter_process`), and certainty: one whose
//! parent has ended as well cannot be traced back; it goes to where the process that it was taken for came from if it is
//! of the same user, and else to where its hierarchy begins for this instance.

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

/// How often is looked for what a stranger started meanwhile.
const ROUNDS_MAX: usize = 8;
/// The process that inherits those whose parents have ended.
const FIRST: u32 = 1;

/// Where a process was before it was taken in.
#[derive(Debug, Default)]
pub(super) struct Whence {
    /// Its groups, as `/proc/PID/cgroup` has them.
    groups: String,
    /// Its user.
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

    /// Puts the process that has the number of `gone` now back to where it came from, with all that it started since.
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
                // It has ended.
                Err(error) if error.errno() == Some(rustix::io::Errno::SRCH) => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Undoes what was set for single threads: a thread is born with what its parent has.
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

/// The group of a hierarchy that this text, of `/proc/PID/cgroup`, names; `None`: none that is there.
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
