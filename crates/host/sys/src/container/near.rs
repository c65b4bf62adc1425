//! On which NUMA nodes a job's memory may lie: `cpuset.mems` of its group, in both generations.
//!
//! The kernel takes new pages from these nodes only, and kills a process when they are full even if other nodes have
//! free memory; so the caller counts the use of each node. If a second-generation group gets fewer nodes, its pages
//! move while the writer waits; in the first generation they stay (`cpuset.memory_migrate` is left off). More nodes
//! move no page. Another thread moves much memory ([`Containers::move_away`]) before the write: while the kernel moves
//! pages because of a write, each process that writes to any set of PUs or enters one waits (both flush one queue:
//! `cpuset_write_resmask`, `cpuset_post_attach`). Owner of state: the kernel. Absent: jobs without groups, and the
//! choice of near nodes (the policy).

use pinfold_topo::{CpuSet, PuOs};
use rustix::io::Errno;

use super::grouped::members_below;
use super::levels::Shared;
use super::{Applied, Container, ContainerError, Containers};
use crate::cgroup::{CgroupError, Generation, Group};
use crate::mode::{AbilityName, Via};
use crate::strays;

/// The file with the permitted nodes of a group.
pub(super) const MEMS: &str = "cpuset.mems";

const NO_NODES: &str = "nothing here binds the memory of a job to NUMA nodes";
const KEPT_NODES: &str = "the host lets the job use none of these NUMA nodes";

impl Containers {
    /// Whether the memory of jobs can be bound to NUMA nodes here.
    #[must_use]
    pub fn can_bind_memory(&self) -> bool {
        self.shared.binds_memory()
    }

    /// All NUMA nodes that jobs' memory may lie on, ascending; empty where memory is not bound.
    pub fn nodes(&self) -> Result<Vec<u32>, ContainerError> {
        let all = if self.shared.binds_memory() { self.shared.all_nodes()? } else { None };
        Ok(numbers(&all.unwrap_or_default()))
    }

    /// Moves a job's pages from some NUMA nodes to others, process by process, as far as the kernel permits; may take
    /// long. Pages that stay show in [`Containers::memory_by_node`]. No effect on a job that is over.
    pub fn move_away(&self, job: u64, nodes: &[u32], others: &[u32]) -> Result<(), ContainerError> {
        let Some(group) = self.shared.cpuset_of(job)? else { return Ok(()) };
        for pid in members_below(&group)? {
            if let Err(errno) = strays::move_pages(pid, nodes, others) {
                tracing::debug!(pid, %errno, "the pages of a process stay where they are");
            }
        }
        Ok(())
    }

    /// As [`Container::near`] from another thread. The job's container must [forget](Container::forget_nodes) its nodes
    /// before. No effect on a job that is over.
    pub fn bind_to_nodes(&self, job: u64, nodes: &[u32]) -> Result<Applied, ContainerError> {
        self.shared.cpuset_of(job)?.map_or(Ok(Applied::Done), |group| write_nodes(&group, &list(nodes)))
    }

    /// The processes of this host that are in no job, without kernel threads.
    #[must_use]
    pub fn of_no_job(&self) -> Vec<u32> {
        strays::of_no_job(&self.shared.proc)
    }
}

impl Container {
    /// Another thread is about to bind the memory: the binding is unknown until the next request.
    pub fn forget_nodes(&mut self) {
        self.nodes = None;
    }

    /// Lets the job's memory lie on these nodes only, by the kernel's numbers; empty: on all that the host lets jobs use.
    pub fn near(&mut self, nodes: &[u32]) -> Result<Applied, ContainerError> {
        if self.nodes.as_deref() == Some(nodes) {
            return Ok(Applied::Done);
        }
        let role = self.shared.roles.cpuset;
        let Some(group) = self.group(role).filter(|_| self.shared.binds_memory()) else {
            return Ok(if nodes.is_empty() { Applied::Done } else { Applied::Kept(NO_NODES) });
        };
        let wanted = match nodes {
            [] => match self.shared.all_nodes()? {
                Some(all) => all,
                None => return Ok(Applied::Done),
            },
            _ => list(nodes),
        };
        let applied = write_nodes(group, &wanted)?;
        if applied == Applied::Done {
            self.nodes = Some(nodes.to_vec());
        }
        Ok(applied)
    }

    /// The nodes that the job's memory may lie on, as read from the kernel; `None`: no group restricts it.
    pub fn nodes(&self) -> Result<Option<Vec<u32>>, ContainerError> {
        let Some(group) = self.group(self.shared.roles.cpuset).filter(|_| self.shared.binds_memory()) else {
            return Ok(None);
        };
        let own = read_nodes(group, MEMS)?;
        match own.is_empty() {
            // In the second generation an empty file means the nodes of the parent group.
            true => Ok(Some(numbers(&self.shared.all_nodes()?.unwrap_or_default()))),
            false => Ok(Some(own)),
        }
    }
}

fn write_nodes(group: &Group, wanted: &str) -> Result<Applied, ContainerError> {
    match group.write(MEMS, wanted) {
        Ok(()) => Ok(Applied::Done),
        // Nodes that are not there, or not the group's above.
        Err(error)
            if matches!(error.errno(), Some(Errno::NOSPC | Errno::ACCESS | Errno::RANGE | Errno::INVAL)) =>
        {
            Ok(Applied::Kept(KEPT_NODES))
        }
        Err(error) => Err(error.into()),
    }
}

impl Shared {
    fn binds_memory(&self) -> bool {
        matches!(self.plan.via(AbilityName::Pin), Via::V1 | Via::V2) && self.roles.cpuset.is_some()
    }

    /// The group with the PUs and nodes of a job; `None`: the host has none, or the job is over.
    fn cpuset_of(&self, job: u64) -> Result<Option<Group>, ContainerError> {
        let level = self.roles.cpuset.and_then(|index| self.levels.get(index));
        let Some(level) = level.filter(|_| self.binds_memory()) else { return Ok(None) };
        Ok(level.job(job)?)
    }

    /// All nodes that jobs may use, as a kernel list.
    pub(super) fn all_nodes(&self) -> Result<Option<String>, ContainerError> {
        let level = self.roles.cpuset.and_then(|index| self.levels.get(index));
        let Some(level) = level else { return Ok(None) };
        let file = match level.hierarchy.generation {
            Generation::V1 => MEMS,
            Generation::V2 => "cpuset.mems.effective",
        };
        let text = level.instance.read(file)?.unwrap_or_default();
        Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
    }
}

/// Nodes in the syntax that the kernel has for all its lists.
pub(super) fn list(nodes: &[u32]) -> String {
    nodes.iter().map(|&node| PuOs(node)).collect::<CpuSet>().to_string()
}

/// The numbers in a kernel list; empty if the list cannot be parsed.
pub(super) fn numbers(text: &str) -> Vec<u32> {
    text.trim().parse::<CpuSet>().unwrap_or_default().iter().map(|node| node.0).collect()
}

fn read_nodes(group: &Group, file: &str) -> Result<Vec<u32>, CgroupError> {
    Ok(numbers(&group.read(file)?.unwrap_or_default()))
}
