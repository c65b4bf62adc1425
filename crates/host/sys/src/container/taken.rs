//! Adopted jobs: their processes ran before they were a job.
//!
//! Two differences: memory from before stays charged to the earlier groups, in both generations (kernel, cgroup-v2:
//! "Memory Ownership"), so that it is read from the processes. And the environment names no job, so that without groups
//! the processes are known by number and start, until the last of them and of their descendants has ended. Owner of
//! state: [`super::Containers`], for the life of a daemon, which records it anew at its start. Absent here: the choice
//! of processes (`adoptee`).

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::family::{Family, Look};
use super::levels::Shared;
use super::measure::{Measure, memory_of_processes};
use super::{Container, ContainerError, Containers};
use crate::procfs::ProcError;

/// Processes that were taken into a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taken {
    /// Each by number and start.
    pub processes: Vec<(u32, u64)>,
    /// User and system time used before the adoption, in clock ticks.
    pub before_ticks: (u64, u64),
    /// Set where its processes stay in the groups of another manager.
    pub in_place: Option<InPlace>,
}

/// A job with processes in the groups of another manager: they are controlled one by one, by descent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InPlace {
    /// Whether that manager bound them to PUs, which pinfold must not overwrite.
    pub bound: bool,
}

impl Containers {
    /// Records that a job is adopted. To be called before the job's container is made or found.
    pub fn takes_in(&self, job: u64, taken: Taken) {
        let shared = if taken.in_place.is_some() { &self.in_place } else { &self.shared };
        shared.taken().insert(job, taken);
    }

    /// Records that a job is held by its processes, as no group can take them: they are outside of this user's
    /// delegated groups. To be called before the job's container is made.
    pub fn holds_by_processes(&self, job: u64) {
        let in_place = Some(InPlace::default());
        self.takes_in(job, Taken { in_place, ..Taken::default() });
    }

    /// Finds a job again after its processes could not enter a group.
    pub(super) fn find_by_processes(
        &self,
        job: u64,
        main_pid: Option<u32>,
    ) -> Result<Option<Container>, ContainerError> {
        let Some(pid) = main_pid.filter(|_| self.plan().is_delegated()) else { return Ok(None) };
        let shared = &self.in_place;
        let mut family = shared.family(job);
        family.take_in_if_marked(&shared.proc, pid)?;
        if family.scan_all(&shared.proc)?.is_empty() {
            return Ok(None);
        }
        self.holds_by_processes(job);
        Ok(Some(Container { family: Some(Mutex::new(family)), ..Container::bare(job, shared) }))
    }
}

impl Shared {
    fn taken(&self) -> MutexGuard<'_, std::collections::BTreeMap<u64, Taken>> {
        // A panic while the lock was held leaves the map whole.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last look at every process of the host.
    pub(super) fn look(&self) -> MutexGuard<'_, Look> {
        // A panic while the lock was held leaves an older look, or none.
        self.look.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_taken(&self, job: u64) -> bool {
        self.taken().contains_key(&job)
    }

    pub(super) fn is_bound_elsewhere(&self, job: u64) -> bool {
        self.taken().get(&job).and_then(|taken| taken.in_place).is_some_and(|in_place| in_place.bound)
    }

    pub(super) fn forget_taken(&self, job: u64) {
        self.taken().remove(&job);
    }

    /// The family of a job, with the remaining processes of its adoption.
    pub(super) fn family(&self, job: u64) -> Family {
        let mut family = Family::new(job, &self.instance);
        let taken = self.taken().get(&job).cloned().unwrap_or_default();
        family.before_ticks = taken.before_ticks;
        for (pid, start_ticks) in taken.processes {
            // An unreadable process belongs to another user, and not to the job.
            let _ = family.take_in(&self.proc, pid, start_ticks);
        }
        family
    }
}

impl Container {
    /// Records the use of its processes before the job, in clock ticks of user and system time. Where groups count,
    /// their count begins with the adoption.
    pub fn used_before(&self, ticks: (u64, u64)) {
        if let Some(mut family) = self.family() {
            family.before_ticks = ticks;
        }
    }

    /// Raises the group's figures to the processes' memory, where that is more.
    pub(super) fn add_charged_elsewhere(&self, pids: &[u32], measure: &mut Measure) -> Result<(), ProcError> {
        let mut held = Measure::default();
        memory_of_processes(&self.shared.proc, pids, &mut held)?;
        if held.memory_bytes > measure.memory_bytes {
            measure.memory_bytes = held.memory_bytes;
            measure.anonymous_bytes = held.anonymous_bytes;
            measure.shared_bytes = held.shared_bytes;
        }
        measure.swap_bytes = measure.swap_bytes.max(held.swap_bytes);
        Ok(())
    }
}
