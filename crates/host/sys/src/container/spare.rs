//! Groups of jobs that are over, kept for the next ones.
//!
//! To make and remove the three groups of a short job costs more than all of the job's other work: the kernel allocates
//! and frees counters for each PU, the freeing long after the removal. A rename costs a tenth. So a few groups are
//! kept, under the name of their last job, and renamed for the next job. Owner of state: [`super::Containers`], for the
//! life of a daemon; the next daemon finds empty groups and removes them.
//!
//! A group is kept only if it is clean: without processes, groups below, notable memory, or counters that cannot be
//! reset. The unified hierarchy cannot rename; its groups are made when they are needed.

use std::sync::{MutexGuard, OnceLock, PoisonError};

use pinfold_topo::CpuSet;

use super::levels::{Shared, group_name};
use super::{Container, ContainerError, Doors, Limits, Shape, Share};
use crate::cgroup::{Group, GroupRemoval, keyed, parse_pids};

/// Kept groups for each PU: between the end of a job and the start of the next, both jobs have groups.
const KEPT_PER_PU: usize = 2;
/// However many PUs there are.
const KEPT_MAX: usize = 64;

/// The most memory of a job that may stay charged to its group, in bytes: pages of files that it read first. More would
/// distort the next job's figures.
const PAGES_LEFT_MAX: u64 = 64 * 1024;
/// The same by the kernel's own count, which includes its reserve on each PU (64 pages), in bytes.
const CHARGE_LEFT_MAX: u64 = 1024 * 1024;

/// The first-generation groups of a job that is over, or of a job about to start.
#[derive(Debug)]
pub(super) struct Spare {
    /// The job in their name.
    job: u64,
    pub(super) groups: Vec<Group>,
    pub(super) doors: OnceLock<Doors>,
    pub(super) cpus: CpuSet,
    /// The NUMA nodes; empty: all.
    pub(super) nodes: Vec<u32>,
    pub(super) share: Share,
    pub(super) limit: Option<u64>,
    pub(super) limits: Limits,
}

impl Spare {
    /// Groups as the kernel makes them.
    pub(super) fn fresh(job: u64, groups: Vec<Group>) -> Self {
        let (cpus, nodes, share, limit) = (CpuSet::new(), Vec::new(), Share::NORMAL, None);
        let limits = Limits::default();
        Self { job, groups, doors: OnceLock::new(), cpus, nodes, share, limit, limits }
    }
}

impl Shared {
    fn spares(&self) -> MutexGuard<'_, Vec<Spare>> {
        // A panic while the lock was held leaves the list whole.
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether empty groups of this name are kept.
    pub(super) fn is_spare(&self, job: u64) -> bool {
        self.spares().iter().any(|spare| spare.job == job)
    }

    /// Kept groups for a job, with the fewest changes needed; `None`: make new groups.
    pub(super) fn take_spare(&self, job: u64, shape: &Shape) -> Option<Spare> {
        let mut spares = self.spares();
        // Groups that already have the name block it for any others.
        let named = spares.iter().position(|spare| spare.job == job);
        let fitting =
            || spares.iter().position(|spare| spare.cpus == shape.cpus && spare.share == shape.share);
        let bound = || spares.iter().position(|spare| spare.cpus == shape.cpus);
        let chosen = named.or_else(fitting).or_else(bound).or_else(|| spares.len().checked_sub(1))?;
        let mut spare = spares.swap_remove(chosen);
        drop(spares);
        if spare.job == job || self.rename(&mut spare, job) {
            return Some(spare);
        }
        self.discard(&spare);
        None
    }

    /// Renames the groups to a job. If one rename fails, the others are undone.
    fn rename(&self, spare: &mut Spare, job: u64) -> bool {
        let (old, new) = (group_name(spare.job), group_name(job));
        for index in 0..spare.groups.len() {
            let Some(level) = self.levels.get(index) else { return false };
            if let Err(error) = level.instance.rename(&mut spare.groups[index], &old, &new) {
                tracing::debug!(job, error = &error as &dyn std::error::Error, "kept groups cannot be used");
                for (level, group) in self.levels.iter().zip(&mut spare.groups).take(index) {
                    let _ = level.instance.rename(group, &new, &old);
                }
                return false;
            }
        }
        spare.job = job;
        true
    }

    fn discard(&self, spare: &Spare) {
        let name = group_name(spare.job);
        for (level, _) in self.levels.iter().zip(&spare.groups) {
            // A group that cannot be removed shows in jobs().
            let _ = level.instance.remove(&name, false);
        }
    }

    /// Removes all that is kept.
    pub(super) fn discard_spares(&self) {
        let spares = std::mem::take(&mut *self.spares());
        spares.iter().for_each(|spare| self.discard(spare));
    }

    fn may_keep_one_more(&self) -> bool {
        self.spares().len() < (KEPT_PER_PU * self.plan.facts.pus.max(1)).min(KEPT_MAX)
    }
}

impl Container {
    /// Keeps the groups of a job that is over; returns the container if they cannot be kept.
    pub(super) fn keep_as_spare(self) -> Result<Option<Self>, ContainerError> {
        // A freezer of the first generation may hold on to its state, and fake groups know no other name.
        let suited = self.shared.have_doors()
            && self.shared.roles.freezer.is_none()
            && !self.groups.iter().any(Group::is_fake);
        let (Some(cpus), Some(nodes), Some(share), Some(limit), Some(limits)) =
            (&self.cpus, &self.nodes, self.share, self.limit, &self.limits)
        else {
            return Ok(Some(self));
        };
        if !suited || !self.shared.may_keep_one_more() || !self.is_left_clean()? {
            return Ok(Some(self));
        }
        let (job, cpus, nodes, limits) = (self.job, cpus.clone(), nodes.clone(), limits.clone());
        let Self { shared, groups, doors, .. } = self;
        shared.spares().push(Spare { job, groups, doors, cpus, nodes, share, limit, limits });
        Ok(None)
    }

    /// Whether the groups are clean. Removes the group of the unified hierarchy.
    fn is_left_clean(&self) -> Result<bool, ContainerError> {
        for group in &self.groups {
            let empty = group.read_parsed("cgroup.procs", parse_pids)?.is_some_and(|pids| pids.is_empty());
            if !empty || group.has_children() {
                return Ok(false);
            }
        }
        let tree = self.tree().and(self.shared.roles.tree).and_then(|index| self.shared.levels.get(index));
        if let Some(level) = tree
            && level.remove_job(self.job, false)? == GroupRemoval::Busy
        {
            return Ok(false);
        }
        let Some(memory) = self.group(self.shared.roles.memory) else { return Ok(false) };
        let (Some(stat), Some(oom)) = (memory.read("memory.stat")?, memory.read("memory.oom_control")?)
        else {
            return Ok(false);
        };
        let figure = |key| keyed(&stat, key).unwrap_or(0);
        let pages = figure("total_rss") + figure("total_cache") + figure("total_swap");
        if pages > PAGES_LEFT_MAX || keyed(&oom, "oom_kill").is_none_or(|kills| kills > 0) {
            return Ok(false);
        }
        // A write resets the peak to the present charge.
        memory.write("memory.max_usage_in_bytes", "0")?;
        Ok(memory.read_number("memory.max_usage_in_bytes")?.is_some_and(|bytes| bytes <= CHARGE_LEFT_MAX))
    }
}
