//! Picks the cores of an allocation: spread over the sockets, or socket after socket.

use super::distribution::Within;
use super::grid::{Grid, Select};
use super::wants::Wants;

/// The cores out of `offered` that hold `cpus` CPUs.
pub(super) fn take(grid: &Grid, wants: &Wants, offered: &[bool], cpus: usize) -> Vec<bool> {
    // Where CPUs are counted singly the distribution has no say in which cores are taken.
    if wants.select == Select::Cpu || wants.distribution.by_socket_blocks() {
        in_blocks(grid, wants, offered, cpus)
    } else {
        Cyclic::new(grid, wants, offered).take(cpus)
    }
}

/// How many cores hold `cpus` CPUs.
fn cores_needed(wants: &Wants, grid: &Grid, cpus: usize) -> usize {
    let per_core = wants.cpus_per_core(grid);
    if wants.whole_cores_per_task(per_core) {
        cpus / wants.cpus_per_task * wants.cpus_per_task.div_ceil(per_core)
    } else {
        cpus.div_ceil(per_core)
    }
}

/// Fills the smallest socket that holds all cores, or else sockets from the largest down.
fn in_blocks(grid: &Grid, wants: &Wants, offered: &[bool], cpus: usize) -> Vec<bool> {
    let mut missing = cores_needed(wants, grid, cpus);
    let mut taken = vec![false; offered.len()];
    let counts: Vec<usize> =
        offered.chunks(grid.cores).map(|socket| socket.iter().filter(|core| **core).count()).collect();
    let mut order: Vec<usize> = (0..counts.len()).filter(|&s| counts[s] > 0).collect();
    order.sort_by_key(|&s| (std::cmp::Reverse(counts[s]), s));
    let holds_all = (0..counts.len()).filter(|&s| counts[s] >= missing).min_by_key(|&s| (counts[s], s));
    for socket in holds_all.into_iter().chain(order) {
        for core in (socket * grid.cores..(socket + 1) * grid.cores).filter(|&core| offered[core]) {
            if missing > 0 && !taken[core] {
                taken[core] = true;
                missing -= 1;
            }
        }
    }
    taken
}

/// The cores out of `held` for a step with `--exact`; `None` when `held` has too few.
pub(super) fn pick(
    grid: &Grid,
    wants: &Wants,
    held: &[bool],
    cpus: usize,
    tasks: usize,
) -> Option<Vec<bool>> {
    if tasks == grid.core_count() && held.iter().all(|core| *core) {
        return Some(held.to_vec());
    }
    let mut missing = cores_needed(wants, grid, cpus);
    let in_turn = (0..grid.cores).flat_map(|core| (0..grid.sockets).map(move |socket| (socket, core)));
    let mut order: Vec<usize> = in_turn.map(|(socket, core)| socket * grid.cores + core).collect();
    if wants.distribution.sockets == Some(Within::Block) {
        order.sort_unstable();
    }
    let mut picked = vec![false; held.len()];
    for core in order.into_iter().filter(|&core| held[core]) {
        if missing == 0 {
            break;
        }
        picked[core] = true;
        missing -= 1;
    }
    (missing == 0).then_some(picked)
}

/// Takes a core of each socket in turn.
struct Cyclic<'a> {
    grid: &'a Grid,
    wants: &'a Wants,
    offered: &'a [bool],
    per_core: usize,
    /// The next candidate core of each socket.
    next: Vec<usize>,
    taken: Vec<bool>,
    /// CPUs that the current task still needs.
    left_of_task: usize,
}

impl<'a> Cyclic<'a> {
    fn new(grid: &'a Grid, wants: &'a Wants, offered: &'a [bool]) -> Self {
        Self {
            grid,
            wants,
            offered,
            per_core: wants.cpus_per_core(grid),
            next: (0..grid.sockets).map(|socket| socket * grid.cores).collect(),
            taken: vec![false; offered.len()],
            left_of_task: wants.cpus_per_task,
        }
    }

    fn take(mut self, mut cpus: usize) -> Vec<bool> {
        let mut avoid = vec![false; self.grid.sockets];
        if let Some(per_socket) = self.wants.ntasks_per_socket {
            avoid = self.sockets_to_avoid(per_socket * self.wants.cpus_per_task, cpus);
        } else if self.wants.cpus_per_task > 1 {
            cpus = self.take_whole_tasks(cpus);
        }
        while cpus > 0 {
            let before = cpus;
            for socket in (0..self.grid.sockets).filter(|&socket| !avoid[socket]) {
                if cpus == 0 {
                    break;
                }
                while let Some(core) = self.look(socket) {
                    if self.offered[core] {
                        cpus = cpus.saturating_sub(self.count(core));
                        break;
                    }
                }
            }
            if before == cpus {
                break;
            }
        }
        self.taken
    }

    /// The next core of a socket.
    fn look(&mut self, socket: usize) -> Option<usize> {
        let core = self.next[socket];
        (core < (socket + 1) * self.grid.cores).then(|| {
            self.next[socket] += 1;
            core
        })
    }

    /// Takes a core; returns the number of CPUs counted for it.
    fn count(&mut self, core: usize) -> usize {
        self.taken[core] = true;
        if !self.wants.whole_cores_per_task(self.per_core) {
            return self.per_core;
        }
        let counted = self.left_of_task.min(self.per_core);
        self.left_of_task =
            if self.left_of_task > counted { self.left_of_task - counted } else { self.wants.cpus_per_task };
        counted
    }

    /// Fills sockets in order, each with as many whole tasks as it holds; returns the number of CPUs still
    /// missing, for tasks that must be split.
    fn take_whole_tasks(&mut self, mut cpus: usize) -> usize {
        for socket in 0..self.grid.sockets {
            let cores = &self.offered[socket * self.grid.cores..(socket + 1) * self.grid.cores];
            let mut room = cores.iter().filter(|core| **core).count() * self.per_core;
            room -= room % self.wants.cpus_per_task;
            while room > 0 && cpus > 0 {
                let Some(core) = self.look(socket) else { break };
                if self.offered[core] {
                    let counted = self.count(core);
                    room = room.saturating_sub(counted);
                    cpus = cpus.saturating_sub(counted);
                }
            }
        }
        cpus
    }

    /// Fills sockets in order, each with as many whole tasks as fit; returns the number of CPUs missing for tasks
    /// that must be split.
    fn sockets_to_avoid(&self, per_socket: usize, cpus: usize) -> Vec<bool> {
        let mut counts: Vec<usize> = self
            .offered
            .chunks(self.grid.cores)
            .map(|socket| socket.iter().filter(|core| **core).count() * self.per_core)
            .collect();
        let mut total: usize = counts.iter().sum();
        for count in &mut counts {
            if total > cpus && *count > per_socket {
                total -= *count - per_socket;
                *count = per_socket;
            }
        }
        let mut avoid = vec![false; counts.len()];
        for (socket, &count) in counts.iter().enumerate() {
            if total > cpus && count <= per_socket && total - count >= cpus {
                avoid[socket] = true;
                total -= count;
            }
        }
        avoid
    }
}
