//! A request in numbers, defaults filled in.

use super::binding::CpuBind;
use super::binding::Level;
use super::distribution::{Distribution, OverHosts};
use super::error::LayoutError;
use super::grid::{Grid, Select};
use super::hostlist::HostList;
use super::request::{COUNT_MAX, LayoutRequest};

/// The resolved request, for all stages of the layout.
#[derive(Debug, Clone)]
pub(super) struct Wants {
    pub(super) ntasks: usize,
    pub(super) cpus_per_task: usize,
    /// The CPUs of an overcommitted job.
    overcommitted_cpus: usize,
    /// The fewest hosts.
    pub(super) min_hosts: usize,
    /// The most hosts, if given.
    pub(super) max_hosts: Option<usize>,
    pub(super) min_sockets: usize,
    pub(super) min_cores: usize,
    pub(super) threads_per_core: Option<usize>,
    pub(super) ntasks_per_core: Option<usize>,
    pub(super) ntasks_per_socket: Option<usize>,
    pub(super) ntasks_per_node: Option<usize>,
    /// Fewest CPUs of a suitable host.
    pub(super) mincpus: usize,
    /// Fewest CPUs that a chosen host gives.
    pub(super) least_cpus: usize,
    pub(super) overcommit: bool,
    pub(super) exclusive: bool,
    /// Tasks see only their requested CPUs.
    pub(super) exact: bool,
    pub(super) distribution: Distribution,
    /// The host of each task, if a list is given.
    pub(super) named: Option<Vec<usize>>,
    pub(super) bind: CpuBind,
    pub(super) select: Select,
}

impl Wants {
    /// The request on `present` hosts.
    pub(super) fn new(request: &LayoutRequest, select: Select, present: usize) -> Result<Self, LayoutError> {
        let request = request.resolved();
        if let (Some(per_core), Some(threads)) = (request.ntasks_per_core, request.threads_per_core)
            && per_core > threads
        {
            return Err(LayoutError::TasksPerCore { per_core, threads });
        }
        let (least, most) = request.nodes.unzip();
        let per_node = request.ntasks_per_node;
        let listed = list_of(&request)?;
        let ntasks = request.ntasks.unwrap_or_else(|| {
            listed.map_or_else(|| least.unwrap_or(1) * per_node.unwrap_or(1), HostList::len)
        });
        if ntasks > COUNT_MAX {
            return Err(LayoutError::TooManyTasks { asked: ntasks, most: COUNT_MAX });
        }
        let named = listed.map(|list| list.of_tasks(ntasks, present)).transpose()?;
        let mut min_hosts = least.unwrap_or(1).min(ntasks);
        if let Some(per_node) = per_node {
            min_hosts = min_hosts.max(ntasks.div_ceil(per_node));
        }
        let cpus_per_task = request.cpus_per_task.unwrap_or(1);
        let tasks_together = per_node.unwrap_or(1).max(request.ntasks_per_socket.unwrap_or(1));
        let geometry = [request.sockets_per_node, request.cores_per_socket, request.threads_per_core];
        let of_geometry =
            geometry.iter().copied().collect::<Option<Vec<usize>>>().map(|all| all.iter().product());
        let mut bind = request.cpu_bind.clone();
        bind.level = bind.level.or_else(|| implied_level(&request));
        Ok(Self {
            ntasks,
            cpus_per_task,
            overcommitted_cpus: of_geometry.filter(|_| request.cpus_per_task.is_some()).unwrap_or(min_hosts),
            min_hosts,
            max_hosts: most.map(|most| most.min(ntasks)),
            min_sockets: request.sockets_per_node.unwrap_or(1),
            min_cores: request.cores_per_socket.unwrap_or(1),
            threads_per_core: request.threads_per_core,
            ntasks_per_core: request.ntasks_per_core,
            ntasks_per_socket: request.ntasks_per_socket,
            ntasks_per_node: per_node,
            mincpus: request.mincpus.max(cpus_per_task * tasks_together),
            least_cpus: request.mincpus.max(cpus_per_task * per_node.unwrap_or(1)),
            overcommit: request.overcommit,
            exclusive: request.exclusive,
            exact: request.exact
                || (request.exclusive && request.ntasks.is_some())
                || request.cpus_per_task.is_some(),
            distribution: request.distribution.unwrap_or_default(),
            named,
            bind,
            select,
        })
    }

    /// The CPUs that a core contributes to this request.
    pub(super) fn cpus_per_core(&self, grid: &Grid) -> usize {
        let by_tasks = self.ntasks_per_core.map_or(usize::MAX, |tasks| tasks * self.cpus_per_task);
        grid.threads.min(by_tasks).min(self.threads_per_core.unwrap_or(usize::MAX))
    }

    /// Most tasks per core, by either option.
    pub(super) fn tasks_per_core_max(&self) -> usize {
        let tasks = self.ntasks_per_core.unwrap_or(usize::MAX);
        tasks.min(self.threads_per_core.unwrap_or(usize::MAX))
    }

    /// One task per core, and the task needs several cores.
    pub(super) fn whole_cores_per_task(&self, cpus_per_core: usize) -> bool {
        self.tasks_per_core_max() == 1 && self.cpus_per_task > cpus_per_core
    }

    /// The CPUs of all tasks.
    pub(super) fn cpus(&self) -> usize {
        if self.overcommit { self.overcommitted_cpus } else { self.ntasks * self.cpus_per_task }
    }

    /// The CPUs per task when hosts are filled.
    pub(super) fn unit(&self) -> usize {
        if self.overcommit { 1 } else { self.cpus_per_task }
    }
}

/// The list of hosts for `--distribution=arbitrary`.
fn list_of(request: &LayoutRequest) -> Result<Option<&HostList>, LayoutError> {
    let arbitrary = request.distribution.is_some_and(|by| by.hosts == Some(OverHosts::Arbitrary));
    match (&request.hosts, arbitrary) {
        (None, true) => Err(LayoutError::NoNames),
        (Some(_), false) => Err(LayoutError::NamesWithoutUse),
        (list, _) => Ok(list.as_ref()),
    }
}

/// Multi-core options imply a binding level; `--cpu-bind` overrides the implied level.
fn implied_level(request: &LayoutRequest) -> Option<Level> {
    if request.threads_per_core.is_some() || request.extra_node_info_levels == 3 {
        Some(Level::Threads)
    } else if request.extra_node_info_levels > 0 {
        Some(match request.extra_node_info_levels {
            1 => Level::Sockets,
            _ => Level::Cores,
        })
    } else if let Some(per_core) = request.ntasks_per_core {
        Some(if per_core == 1 { Level::Cores } else { Level::Threads })
    } else if request.ntasks_per_socket.is_some() {
        Some(Level::Sockets)
    } else {
        None
    }
}
