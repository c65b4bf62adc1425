//! The containers of an instance: made, found again, listed, and their groups removed at the end.

use std::sync::{Arc, Mutex};

use pinfold_topo::CpuSet;

use super::levels::{self, Shared};
use super::spare::Spare;
use super::{Container, ContainerError, Containers, Shape, marks};
use crate::cgroup::Group;
use crate::mode::{Hierarchy, Plan, Roots};

impl Containers {
    /// Makes the groups of this instance where the plan has them. `instance`: 1 to 32 of a-z, 0-9 and -.
    ///
    /// An unavailable controller is left out, and the plan is decided again without it: read [`Containers::plan`]
    /// afterwards.
    pub fn open(plan: Plan, roots: Roots, instance: &str) -> Result<Self, ContainerError> {
        let in_place = Arc::new(Shared::without_groups(&plan, &roots, instance)?);
        Ok(Self { shared: Arc::new(Shared::open(plan, roots, instance)?), in_place })
    }

    /// Whether the kernel has any group of this instance; `false` where the plan has no groups.
    #[must_use]
    pub fn are_left(plan: &Plan, roots: &Roots, instance: &str) -> bool {
        let is_there = |hierarchy: &Hierarchy| {
            let path = hierarchy.base_path().join(levels::TOP).join(instance);
            matches!(Group::open(&path, roots.fake.clone()), Ok(Some(_)))
        };
        plan.hierarchies.is_empty() || plan.hierarchies.iter().any(is_there)
    }

    /// The shared state for a job: without groups if its processes stay in another manager's groups.
    pub(super) fn shared_for(&self, job: u64) -> &Arc<Shared> {
        if self.in_place.is_taken(job) { &self.in_place } else { &self.shared }
    }

    /// The plan in force.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    /// Whether containers have doors here: see [`Container::doors`].
    #[must_use]
    pub fn have_doors(&self) -> bool {
        self.shared.have_doors()
    }

    /// Makes the empty container of a job. An empty group left by an earlier daemon is removed first; a group with
    /// processes is [`ContainerError::Occupied`].
    pub fn create(&self, job: u64, shape: &Shape) -> Result<Container, ContainerError> {
        let shared = self.shared_for(job);
        let spare = shared.take_spare(job, shape);
        let Spare { groups, doors, cpus, nodes, share, limit, limits, .. } = match spare {
            Some(spare) => spare,
            None => Spare::fresh(job, shared.make_groups(job)?),
        };
        let mut container = Container { groups, doors, ..Container::bare(job, shared) };
        (container.cpus, container.share, container.limit) = (Some(cpus), Some(share), Some(limit));
        (container.nodes, container.high, container.limits) = (Some(nodes), Some(None), Some(limits));
        if shared.levels.is_empty() {
            container.family = Some(Mutex::new(shared.family(job)));
        }
        let early = if shared.have_doors() { Ok(()) } else { container.make_tree(true) };
        if let Err(error) = early.and_then(|()| container.shape(shape)) {
            // The caller needs the failure; a group that could not be removed shows in list().
            let _ = container.remove_groups();
            return Err(error);
        }
        Ok(container)
    }

    /// Finds the container of a job again after a restart; `None`: nothing is left. `main` serves hosts without groups:
    /// the number and the start, in clock ticks, of the job's process. Its environment may lack the mark: before it
    /// executes the job's command, or where that command cleared it.
    pub fn adopt(&self, job: u64, main: Option<(u32, u64)>) -> Result<Option<Container>, ContainerError> {
        let shared = self.shared_for(job);
        if shared.levels.is_empty() {
            let mut family = shared.family(job);
            if let Some((pid, start_ticks)) = main {
                family.take_in(&shared.proc, pid, start_ticks)?;
            }
            let alive = !family.scan_all(&shared.proc)?.is_empty();
            let container = Container { family: Some(Mutex::new(family)), ..Container::bare(job, shared) };
            return Ok(alive.then_some(container));
        }
        let Some(groups) = self.shared.find_groups(job)? else {
            return self.find_by_processes(job, main.map(|(pid, _)| pid));
        };
        let container = Container { groups, ..Container::bare(job, &self.shared) };
        container.make_tree(false)?;
        container.complete_entries()?;
        Ok(Some(container))
    }

    /// The jobs of this instance of which the kernel still holds a container, ascending.
    pub fn list(&self) -> Result<Vec<u64>, ContainerError> {
        if self.shared.levels.is_empty() {
            return Ok(marks::marked_jobs(&self.shared.proc, &self.shared.instance)?);
        }
        let mut jobs = self.shared.jobs()?;
        jobs.retain(|&job| !self.shared.is_spare(job));
        if self.plan().is_delegated() {
            jobs.extend(marks::marked_jobs(&self.shared.proc, &self.shared.instance)?);
            jobs.sort_unstable();
            jobs.dedup();
        }
        Ok(jobs)
    }

    /// The PUs that the groups of this instance may use; `None`: no group limits them.
    pub fn allowed_cpus(&self) -> Result<Option<CpuSet>, ContainerError> {
        self.shared.allowed_cpus()
    }

    /// PUs that the kernel reserves for one job each and hides from all other processes.
    #[must_use]
    pub fn isolated_cpus(&self) -> CpuSet {
        self.shared.in_partitions()
    }

    /// Returns PUs that are on line again to the groups above the jobs: first-generation groups lose a PU for good when
    /// it goes off line.
    pub fn give_back(&self, cpus: &CpuSet) -> Result<(), ContainerError> {
        self.shared.give_back(cpus)
    }

    /// Removes the empty groups of this instance. Groups with jobs stay for the next daemon.
    pub fn close(self) {
        self.shared.close();
    }
}
