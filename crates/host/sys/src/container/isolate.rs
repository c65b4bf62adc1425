//! PUs that the kernel reserves for a job.
//!
//! The second generation makes a job's group a partition: its PUs leave the sets of all other groups, so that every movable
//! process of the host leaves them, except kernel threads with PUs of their own. A partition far below the top, beneath
//! groups that are no partitions, needs kernel 6.7 (`cpuset.cpus.exclusive`). With a single PU it is `isolated`, so that no
//! scheduling domain spans it; with several it is a `root`, because an isolated partition does not balance a job's threads.
//!
//! The first generation's `cpuset.cpu_exclusive` is not used: it keeps other sets from naming these PUs, but no process
//! from running on them, as a process outside all sets is in the topmost, which has every PU. Setting it on a job's
//! group needs it on all groups above, which keeps other daemons' groups from being made beside them. Owner of state:
//! the kernel, and the PUs that are in partitions now. Absent here: the choice of these PUs.

use pinfold_topo::CpuSet;

use super::levels::Shared;
use super::{Container, ContainerError};
use crate::cgroup::{CgroupError, Group};
use crate::mode::{AbilityName, Via};

const EXCLUSIVE: &str = "cpuset.cpus.exclusive";
const PARTITION: &str = "cpuset.cpus.partition";

/// The degree of a job's isolation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Isolation {
    /// The kernel keeps off all other processes that it can move.
    Partition {
        /// `isolated` or `root`.
        kind: &'static str,
    },
    /// No other job uses them; the rest of the host may, for this reason.
    JobsOnly {
        /// Why, as a sentence's end.
        why: String,
    },
}

impl Container {
    /// Reserves the job's PUs for it as far as the kernel can. A second call changes nothing.
    ///
    /// # Errors
    /// When a group cannot be used; that the kernel refuses is no error but an answer.
    pub fn isolate(&self, cpus: &CpuSet) -> Result<Isolation, ContainerError> {
        let jobs_only = |why: &str| Ok(Isolation::JobsOnly { why: why.to_owned() });
        match self.shared.plan.via(AbilityName::Pin) {
            Via::V2 => {}
            Via::V1 => {
                return jobs_only(
                    "control groups of the first generation keep no process off that is in none",
                );
            }
            Via::Processes | Via::Nothing => return jobs_only("there are no control groups here"),
        }
        let Some((level, group)) = self.shared.tree_level().zip(self.tree()) else {
            return jobs_only("the job has no group in the unified hierarchy");
        };
        if !group.has(EXCLUSIVE) {
            return jobs_only("partitions below other groups need kernel 6.7");
        }
        let kind = if cpus.len() == 1 { "isolated" } else { "root" };
        let refused = |why: String| Isolation::JobsOnly { why };
        self.shared.note_partition(self.job, Some(cpus.clone()));
        for above in level.groups_above_jobs() {
            let have: CpuSet = read_set(above, EXCLUSIVE)?;
            let wanted = have.union(cpus);
            if wanted != have
                && let Err(error) = above.write(EXCLUSIVE, &wanted.to_string())
            {
                self.share_again()?;
                return Ok(refused(format!("the kernel says: {}", cause(&error))));
            }
        }
        let made = group
            .write(EXCLUSIVE, &cpus.to_string())
            .and_then(|()| group.write(PARTITION, kind))
            .and_then(|()| group.read(PARTITION));
        match made {
            Ok(Some(state)) if state.trim() == kind => Ok(Isolation::Partition { kind }),
            Ok(state) => {
                self.share_again()?;
                Ok(refused(format!("the kernel says: {}", state.unwrap_or_default().trim())))
            }
            Err(error) => {
                self.share_again()?;
                Ok(refused(format!("the kernel says: {}", cause(&error))))
            }
        }
    }

    /// Returns the PUs to the groups around.
    ///
    /// # Errors
    /// When a group cannot be used.
    pub fn share_again(&self) -> Result<(), ContainerError> {
        if self.shared.note_partition(self.job, None).is_none() {
            return Ok(());
        }
        if let Some(group) = self.tree() {
            for (file, value) in [(PARTITION, "member"), (EXCLUSIVE, "\n")] {
                match group.write(file, value) {
                    Err(error) if !error.is_gone() => return Err(error.into()),
                    _ => {}
                }
            }
        }
        self.shared.narrow_partitions()
    }
}

impl Shared {
    /// Records the PUs of a job's partition, or that it has none; returns the earlier entry.
    fn note_partition(&self, job: u64, cpus: Option<CpuSet>) -> Option<CpuSet> {
        let mut partitions = self.partitions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match cpus {
            Some(cpus) => partitions.insert(job, cpus),
            None => partitions.remove(&job),
        }
    }

    /// The PUs in partitions: other groups, and processes outside of all, do not see them.
    pub(super) fn in_partitions(&self) -> CpuSet {
        let partitions = self.partitions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        partitions.values().fold(CpuSet::new(), |all, cpus| all.union(cpus))
    }

    /// Narrows the groups above the jobs to the PUs that partitions still have.
    pub(super) fn narrow_partitions(&self) -> Result<(), ContainerError> {
        let Some(level) = self.tree_level() else { return Ok(()) };
        let [top, own] = level.groups_above_jobs();
        if !own.has(EXCLUSIVE) {
            return Ok(());
        }
        // From below, as a group cannot have PUs that its parent lacks. The top group also serves other instances.
        write_set(own, &self.in_partitions())?;
        let mut all = CpuSet::new();
        for name in top.children()? {
            if let Some(instance) = top.child(&name)? {
                all = all.union(&read_set(&instance, EXCLUSIVE)?);
            }
        }
        Ok(write_set(top, &all)?)
    }

    /// Finds the partitions that an earlier daemon made.
    pub(super) fn find_partitions(&self) -> Result<(), ContainerError> {
        let Some(level) = self.tree_level() else { return Ok(()) };
        for job in self.jobs()? {
            let Some(group) = level.job(job)? else { continue };
            let state = group.read(PARTITION)?.unwrap_or_default();
            if state.trim() != "member" && !state.trim().is_empty() {
                self.note_partition(job, Some(read_set(&group, "cpuset.cpus")?));
            }
        }
        self.narrow_partitions()
    }

    /// A job's group is gone, and its partition with it.
    pub(super) fn forget_partition(&self, job: u64) {
        if self.note_partition(job, None).is_some()
            && let Err(error) = self.narrow_partitions()
        {
            tracing::debug!(error = &error as &dyn std::error::Error, "exclusive PUs stay with a group");
        }
    }
}

fn read_set(group: &Group, file: &str) -> Result<CpuSet, CgroupError> {
    Ok(group.read(file)?.unwrap_or_default().trim().parse().unwrap_or_default())
}

fn write_set(group: &Group, cpus: &CpuSet) -> Result<(), CgroupError> {
    if read_set(group, EXCLUSIVE)? == *cpus {
        return Ok(());
    }
    group.write(EXCLUSIVE, &if cpus.is_empty() { "\n".to_owned() } else { cpus.to_string() })
}

fn cause(error: &CgroupError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
