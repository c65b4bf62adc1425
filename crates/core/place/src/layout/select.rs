//! Selects a request's hosts, and the cores that each host offers.

use std::collections::BTreeMap;

use super::error::LayoutError;
use super::grid::Grid;
use super::wants::Wants;

/// A host's offer.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    /// The cores that the request may take.
    pub(super) cores: Vec<bool>,
    /// The CPUs that the request may use.
    pub(super) cpus: usize,
}

/// The offer of `grid` out of the cores `free`; `None` when the host is unsuitable.
pub(super) fn offer(grid: &Grid, wants: &Wants, free: &[bool]) -> Option<Offer> {
    if grid.core_count() == 0 {
        return None;
    }
    let per_core = wants.cpus_per_core(grid);
    if wants.ntasks_per_socket.is_some_and(|tasks| tasks > grid.cores * grid.threads) {
        return None;
    }
    let mut in_socket: Vec<usize> =
        free.chunks(grid.cores).map(|socket| socket.iter().filter(|core| **core).count()).collect();
    for cores in &mut in_socket {
        if *cores < wants.min_cores {
            *cores = 0;
        }
    }
    if in_socket.iter().filter(|cores| **cores > 0).count() < wants.min_sockets {
        return None;
    }
    let cpus: usize = in_socket.iter().map(|cores| cores * per_core).sum();
    let mut tasks: usize = in_socket
        .iter()
        .map(|cores| (cores * per_core).min(wants.ntasks_per_socket.unwrap_or(usize::MAX)))
        .sum();
    if let Some(per_node) = wants.ntasks_per_node.filter(|_| !wants.exclusive) {
        tasks = tasks.min(per_node);
    }
    let cpus = usable_cpus(wants, per_core, cpus, &mut tasks);
    let too_few_tasks = wants.ntasks_per_node.is_some_and(|per_node| tasks < per_node) && !wants.overcommit;
    if tasks == 0 || too_few_tasks || cpus < wants.mincpus {
        return None;
    }
    Some(cut_to(grid, wants, free, &in_socket, cpus, tasks))
}

/// The CPUs that the tasks can use of `cpus`; sets `tasks` to the number of tasks that fit.
fn usable_cpus(wants: &Wants, per_core: usize, cpus: usize, tasks: &mut usize) -> usize {
    let per_task = wants.cpus_per_task;
    if per_task < 2 {
        return *tasks;
    }
    if wants.whole_cores_per_task(per_core) {
        let task_cpus = per_task.next_multiple_of(per_core);
        let fit = cpus / task_cpus;
        *tasks = fit.min(*tasks);
        return fit * per_task;
    }
    *tasks = (*tasks).min(cpus / per_task);
    *tasks * per_task
}

/// The first cores that hold `cpus` CPUs; of each socket at most as many as its tasks need.
fn cut_to(
    grid: &Grid,
    wants: &Wants,
    free: &[bool],
    in_socket: &[usize],
    mut cpus: usize,
    tasks: usize,
) -> Offer {
    let per_core = wants.cpus_per_core(grid);
    let socket_cpus = wants.ntasks_per_socket.map_or(tasks.max(cpus), |tasks| tasks * wants.cpus_per_task);
    let mut cores = vec![false; free.len()];
    let mut given = 0;
    let mut left_of_task = wants.cpus_per_task;
    let mut used = vec![0; grid.sockets];
    for core in (0..free.len()).filter(|&core| free[core]) {
        let socket = core / grid.cores;
        if cpus == 0 {
            break;
        }
        if in_socket[socket] == 0 || used[socket] >= socket_cpus {
            continue;
        }
        used[socket] += per_core;
        cores[core] = true;
        let counted = if wants.whole_cores_per_task(per_core) {
            let counted = left_of_task.min(per_core);
            left_of_task = if left_of_task > counted { left_of_task - counted } else { wants.cpus_per_task };
            counted
        } else {
            per_core
        };
        given += counted.min(cpus);
        cpus -= counted.min(cpus);
    }
    Offer { cores, cpus: given }
}

/// Chosen hosts by index, each with its usable CPUs.
pub(super) type Chosen = Vec<(usize, usize)>;

/// Picks the first hosts in order that suffice together; when small hosts take places that the request needs,
/// retries without the smallest hosts.
pub(super) fn choose(wants: &Wants, grids: &[Grid], offers: &[Option<Offer>]) -> Result<Chosen, LayoutError> {
    let largest = offers.iter().flatten().map(|offer| offer.cpus).max().unwrap_or(0);
    (0..largest.max(1))
        .find_map(|least| {
            let large_enough = |host: &usize| offers[*host].as_ref().is_some_and(|offer| offer.cpus > least);
            let hosts: Vec<usize> = (0..offers.len()).filter(large_enough).collect();
            first_that_suffice(wants, grids, offers, &hosts)
        })
        .ok_or(LayoutError::NotAvailable)
}

/// The hosts of a list, each with the CPUs of its tasks.
pub(super) fn named(wants: &Wants, offers: &[Option<Offer>], hosts: &[usize]) -> Result<Chosen, LayoutError> {
    let mut cpus = BTreeMap::new();
    for host in hosts {
        *cpus.entry(*host).or_insert(0) += wants.unit();
    }
    let needed = (cpus.len(), wants.min_hosts, wants.max_hosts.unwrap_or(usize::MAX));
    if needed.0 < needed.1 || needed.0 > needed.2 {
        let hosts = if needed.0 < needed.1 { needed.1 } else { needed.0 };
        return Err(LayoutError::NodeCount { hosts, present: needed.0.min(needed.2) });
    }
    cpus.into_iter()
        .map(|(host, cpus)| {
            let offered = offers[host].as_ref().map_or(0, |offer| offer.cpus);
            let used = if wants.overcommit { cpus.min(offered) } else { cpus };
            let used = if wants.exclusive { offered.max(used) } else { used };
            (used > 0 && used <= offered).then_some((host, used)).ok_or(LayoutError::NotAvailable)
        })
        .collect()
}

fn first_that_suffice(
    wants: &Wants,
    grids: &[Grid],
    offers: &[Option<Offer>],
    hosts: &[usize],
) -> Option<Chosen> {
    let mut chosen = Chosen::new();
    let mut cpus_left = wants.cpus();
    let most = wants.max_hosts.unwrap_or(usize::MAX);
    let wanted = wants.max_hosts.unwrap_or(wants.min_hosts);
    for &host in hosts {
        if chosen.len() >= most || (chosen.len() >= wanted && cpus_left == 0) {
            break;
        }
        let offered = offers[host].as_ref().map_or(0, |offer| offer.cpus);
        // The last allowed host must hold the remainder.
        if most - chosen.len() == 1 && offered < cpus_left {
            continue;
        }
        let used = if wants.exclusive {
            offered
        } else {
            // Reserves a core for each host still required.
            let others = wants.min_hosts.saturating_sub(chosen.len() + 1);
            let reserved = others * wants.cpus_per_core(&grids[host]);
            let used = offered.min(cpus_left.saturating_sub(reserved).max(wants.least_cpus));
            used - used % wants.unit()
        };
        if used == 0 {
            continue;
        }
        cpus_left = cpus_left.saturating_sub(used);
        chosen.push((host, used));
    }
    let tasks: usize = chosen.iter().map(|(_, cpus)| cpus / wants.cpus_per_task).sum();
    let enough = wants.overcommit || tasks >= wants.ntasks;
    (enough && cpus_left == 0 && chosen.len() >= wants.min_hosts).then_some(chosen)
}
