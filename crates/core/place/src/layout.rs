//! Layout of tasks as Slurm 24.11 does it, from Slurm's options.
//!
//! A request passes five stages, each its own module: [`request`] and `wants` (options to numbers), `select`
//! (each host's offer, and the hosts taken), `cores` (the cores of each host), `tasks` (the ranks of each
//! host), `affinity` (the binding of each task). Every stage sees hosts as regular grids (`grid`), so the
//! kernel's numbering of PUs has no influence. `docs/slurm-layout-differences.md` lists the known differences
//! from Slurm.

mod affinity;
mod binding;
mod cores;
mod distribution;
mod error;
mod grid;
mod hostlist;
mod request;
mod select;
mod tasks;
mod wants;

use pinfold_topo::CpuSet;

pub use binding::{CpuBind, Level, Manual};
pub use distribution::{Distribution, OverHosts, Within};
pub use error::{LayoutError, OptionError};
pub use grid::{Host, Select};
pub use hostlist::HostList;
pub use request::{Hint, LayoutRequest};

use affinity::Part;
use grid::Grid;
use select::{Chosen, Offer};
use wants::Wants;

/// A job's part of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The host's index in the list.
    pub host: usize,
    /// The job's PUs there.
    pub allocated: CpuSet,
}

/// The place of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPlace {
    /// Its rank.
    pub task: usize,
    /// The host's index in the list.
    pub host: usize,
    /// The PUs of its binding; `None` is unbound.
    pub cpus: Option<CpuSet>,
}

/// The result of a layout.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// The hosts used, in order.
    pub hosts: Vec<Share>,
    /// The tasks by rank.
    pub tasks: Vec<TaskPlace>,
}

/// Lays a request out on hosts, without reserving PUs.
///
/// # Errors
/// When the hosts cannot meet the request; see [`LayoutError`].
pub fn lay_out(hosts: &[Host], request: &LayoutRequest, select: Select) -> Result<Layout, LayoutError> {
    let wants = Wants::new(request, select, hosts.len())?;
    let grids: Vec<Grid> = hosts.iter().map(Grid::new).collect();
    let (offers, chosen) = allocate(&wants, &grids)?;
    let room: Vec<usize> = chosen.iter().map(|&(_, cpus)| cpus).collect();
    let given = if wants.named.is_some() { room } else { tasks::cpus_per_host(&wants, &room) };
    let mut parts: Vec<(usize, Vec<bool>)> = Vec::new();
    for (&(host, _), &cpus) in chosen.iter().zip(&given) {
        let offered = offers[host].as_ref().map(|offer| offer.cores.as_slice()).unwrap_or_default();
        let cores = if wants.exclusive {
            grids[host].existing()
        } else {
            cores::take(&grids[host], &wants, offered, cpus)
        };
        parts.push((host, cores));
    }
    step(&wants, &grids, &parts, &given)
}

/// Every host's offer, and the chosen hosts.
fn allocate(wants: &Wants, grids: &[Grid]) -> Result<(Vec<Option<Offer>>, Chosen), LayoutError> {
    if grids.is_empty() {
        return Err(LayoutError::NoHost);
    }
    let most = wants.max_hosts.unwrap_or(usize::MAX);
    if wants.min_hosts > grids.len() || wants.min_hosts > most {
        return Err(LayoutError::NodeCount { hosts: wants.min_hosts, present: grids.len() });
    }
    let present: usize = grids.iter().map(Grid::cpu_count).sum();
    if wants.cpus() > present {
        return Err(LayoutError::TooManyCpus { asked: wants.cpus(), present });
    }
    let fits = |grid: &Grid| {
        grid.sockets >= wants.min_sockets
            && grid.cores >= wants.min_cores
            && grid.threads >= wants.threads_per_core.unwrap_or(1)
    };
    if !grids.iter().any(fits) {
        return Err(LayoutError::Geometry);
    }
    let offers = |cores_of: &dyn Fn(&Grid) -> Vec<bool>| -> Vec<Option<Offer>> {
        let one = |grid: &Grid| fits(grid).then(|| select::offer(grid, wants, &cores_of(grid))).flatten();
        grids.iter().map(one).collect()
    };
    let now = offers(&|grid: &Grid| {
        let busy = wants.exclusive && !grid.idle();
        if busy { vec![false; grid.core_count()] } else { grid.free() }
    });
    let choose = |offers: &[Option<Offer>]| match &wants.named {
        Some(hosts) => select::named(wants, offers, hosts),
        None => select::choose(wants, grids, offers),
    };
    if let Ok(chosen) = choose(&now) {
        return Ok((now, chosen));
    }
    let idle = offers(&Grid::existing);
    choose(&idle)?;
    Err(LayoutError::Busy)
}

/// Places the tasks on an allocation: `parts` are hosts and their cores, `given` the CPUs of each host.
fn step(
    wants: &Wants,
    grids: &[Grid],
    parts: &[(usize, Vec<bool>)],
    given: &[usize],
) -> Result<Layout, LayoutError> {
    let mut layout = Layout::default();
    let room: Vec<usize> = parts
        .iter()
        .zip(given)
        .map(|((host, cores), &given)| {
            let per_core = wants.cpus_per_core(&grids[*host]);
            let held = cores.iter().filter(|core| **core).count() * per_core;
            // With single CPUs a job may use only its counted CPUs.
            let cpus = if wants.select == Select::Cpu && !wants.exclusive { held.min(given) } else { held };
            cpus / wants.cpus_per_task
        })
        .collect();
    let ranks = match &wants.named {
        Some(hosts) => parts.iter().map(|(host, _)| tasks::ranks_on(hosts, *host)).collect(),
        None => tasks::ranks_per_host(wants, &room, false),
    };
    for ((host, cores), ranks) in parts.iter().zip(&ranks) {
        let grid = &grids[*host];
        layout.hosts.push(Share { host: *host, allocated: grid.pus_of_cores(cores) });
        let held = if wants.exact {
            let needed = ranks.len() * wants.cpus_per_task;
            cores::pick(grid, wants, cores, needed, ranks.len()).ok_or(LayoutError::Busy)?
        } else {
            cores.clone()
        };
        let cpus = held.iter().flat_map(|&core| std::iter::repeat_n(core, grid.threads)).collect();
        let part = Part { host: *host, grid, wants, cpus, tasks: ranks.len() };
        if ranks.is_empty() {
            continue;
        }
        for (&task, cpus) in ranks.iter().zip(part.bind()?) {
            layout.tasks.push(TaskPlace { task, host: *host, cpus });
        }
    }
    layout.tasks.sort_by_key(|place| place.task);
    if layout.tasks.len() < wants.ntasks {
        return Err(LayoutError::Step);
    }
    Ok(layout)
}
