//! On which NUMA nodes a job's memory may lie: `cpuset.mems` of its group, in both generations.
//!
//! The kernel takes new pages from these nodes only, and ends a process for want of memory when they are full though others
//! are not; so whoever asks for it counts what they have. Told fewer nodes than before, a group of the second generation has
//! its pages moved while the writer waits; in the first they stay (`cpuset.memory_migrate` is left off). Told more, none
//! is moved. Owner of state: the kernel. Absent: jobs without groups, and which nodes are near (the judgement).

use pinfold_topo::{CpuSet, PuOs};
use rustix::io::Errno;

use super::levels::Shared;
use super::{Applied, Container, ContainerError, Containers};
use crate::cgroup::{CgroupError, Generation, Group};
use crate::mode::{AbilityName, Via};

/// The file that says which nodes a group may use.
pub(super) const MEMS: &str = "cpuset.mems";

const NO_NODES: &str = "nothing here binds the memory of a job to NUMA nodes";
const KEPT_NODES: &str = "the host lets the job use none of these NUMA nodes";

impl Containers {
    /// Whether the memory of jobs can be bound to NUMA nodes here.
    #[must_use]
    pub fn can_bind_memory(&self) -> bool {
        self.shared.binds_memory()
    }
}

impl Container {
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
        match group.write(MEMS, &wanted) {
            Ok(()) => {}
            // Nodes that are not there, or not the group's above.
            Err(error)
                if matches!(
                    error.errno(),
                    Some(Errno::NOSPC | Errno::ACCESS | Errno::RANGE | Errno::INVAL)
                ) =>
            {
                return Ok(Applied::Kept(KEPT_NODES));
            }
            Err(error) => return Err(error.into()),
        }
        self.nodes = Some(nodes.to_vec());
        Ok(Applied::Done)
    }

    /// The nodes that the job's memory may lie on, as the kernel has it now; `None`: no group says so.
    pub fn nodes(&self) -> Result<Option<Vec<u32>>, ContainerError> {
        let Some(group) = self.group(self.shared.roles.cpuset).filter(|_| self.shared.binds_memory()) else {
            return Ok(None);
        };
        let own = read_nodes(group, MEMS)?;
        match own.is_empty() {
            // In the second generation it then has those of the group above.
            true => Ok(Some(numbers(&self.shared.all_nodes()?.unwrap_or_default()))),
            false => Ok(Some(own)),
        }
    }
}

impl Shared {
    fn binds_memory(&self) -> bool {
        matches!(self.plan.via(AbilityName::Pin), Via::V1 | Via::V2) && self.roles.cpuset.is_some()
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

/// The numbers in a kernel list; none in one that is odd.
pub(super) fn numbers(text: &str) -> Vec<u32> {
    text.trim().parse::<CpuSet>().unwrap_or_default().iter().map(|node| node.0).collect()
}

fn read_nodes(group: &Group, file: &str) -> Result<Vec<u32>, CgroupError> {
    Ok(numbers(&group.read(file)?.unwrap_or_default()))
}
