//! The containers of one instance: made, found again, listed, and their groups removed at the end.

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
    /// A controller that turns out not to be available after all is left out, and the plan is decided again
    /// without it: read [`Containers::plan`] afterwards.
    pub fn open(plan: Plan, roots: Roots, instance: &str) -> Result<Self, ContainerError> {
        let in_place = Arc::new(Shared::without_groups(&plan, &roots, instance)?);
        Ok(Self { shared: Arc::new(Shared::open(plan, roots, instance)?), in_place })
    }

    /// Whether any group of this instance is in the kernel; where the plan has no groups there is nothing to ask.
    #[must_use]
    pub fn are_left(plan: &Plan, roots: &Roots, instance: &str) -> bool {
        let is_there = |hierarchy: &Hierarchy| {
            let path = hierarchy.base_path().join(levels::TOP).join(instance);
            matches!(Group::open(&path, roots.fake.clone()), Ok(Some(_)))
        };
        plan.hierarchies.is_empty() || plan.hierarchies.iter().any(is_there)
    }

    /// What holds a job: no groups, if its processes stay where another manager put them.
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

    /// Makes the container of a job, empty. One that is left from an earlier life is removed first when it is
    /// empty, and [`ContainerError::Occupied`] otherwise.
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
            // The failure is what the caller needs to hear; what could not be removed shows in list().
            let _ = container.remove_groups();
            return Err(error);
        }
        Ok(container)
    }

    /// Finds the container of a job again after a restart; `None`: nothing of it is left. `main` helps where there are
    /// no groups: the process of this number that was started then, in clock ticks, is the job's. Its environment may
    /// not say so: before it executes the job's command, or where that has none.
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

    /// PUs that are one job's alone in the kernel, and that no process outside it sees among its own.
    #[must_use]
    pub fn isolated_cpus(&self) -> CpuSet {
        self.shared.in_partitions()
    }

    /// Gives PUs that are on line again to the groups above the jobs' ones: those of the first generation lose a PU for
    /// good when it goes off line.
    pub fn give_back(&self, cpus: &CpuSet) -> Result<(), ContainerError> {
        self.shared.give_back(cpus)
    }

    /// Removes the groups of this instance where they are empty. What still holds jobs stays for the next life.
    pub fn close(self) {
        self.shared.close();
    }
}
