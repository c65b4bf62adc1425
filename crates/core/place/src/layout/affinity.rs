//! Binds the tasks of a host to PUs.

use pinfold_topo::{CpuSet, PuOs};

use super::binding::{Level, Manual};
use super::distribution::Within;
use super::error::LayoutError;
use super::grid::Grid;
use super::wants::Wants;

/// The part of a step on a single host.
#[derive(Debug)]
pub(super) struct Part<'a> {
    /// The host's index in the list.
    pub(super) host: usize,
    pub(super) grid: &'a Grid,
    pub(super) wants: &'a Wants,
    /// The step's CPUs on this host, as a map over the grid's CPUs.
    pub(super) cpus: Vec<bool>,
    /// How many tasks.
    pub(super) tasks: usize,
}

/// The CPUs of a task, as numbers of the grid.
type Mask = Vec<usize>;

impl Part<'_> {
    /// The binding of each task; `None` is unbound.
    pub(super) fn bind(&self) -> Result<Vec<Option<CpuSet>>, LayoutError> {
        if let Some(manual) = &self.wants.bind.manual {
            return self.manual(manual);
        }
        let Some(level) = self.wants.bind.level.or_else(|| self.automatic()) else {
            return Ok(vec![Some(self.allocated()); self.tasks]);
        };
        let count = self.cpus.iter().filter(|cpu| **cpu).count();
        if count < self.tasks && !self.wants.overcommit {
            return Err(LayoutError::TooFewToBind { host: self.host, cpus: count, tasks: self.tasks });
        }
        let per_task = self.wants.cpus_per_task.min(count / self.tasks).max(1);
        let masks = if self.wants.distribution.by_socket_blocks() {
            self.blocks(level, per_task)
        } else {
            self.cyclic(level, per_task)
        };
        Ok(masks.iter().map(|mask| Some(self.widened(mask, level))).collect())
    }

    fn allocated(&self) -> CpuSet {
        self.grid.pus_of((0..self.cpus.len()).filter(|&cpu| self.cpus[cpu]))
    }

    /// The level with exactly as many objects as the tasks ask for CPUs; without such a level `None`: all tasks then
    /// share the allocation.
    fn automatic(&self) -> Option<Level> {
        let (whole_sockets, part_sockets) = self.whole_and_part(self.grid.cores * self.grid.threads);
        let (whole_cores, part_cores) = self.whole_and_part(self.grid.threads);
        let asked = self.tasks * self.wants.cpus_per_task;
        if asked == whole_sockets && part_sockets == 0 {
            Some(Level::Sockets)
        } else if asked == whole_cores && part_cores == 0 {
            Some(Level::Cores)
        } else if asked == self.cpus.iter().filter(|cpu| **cpu).count() {
            Some(Level::Threads)
        } else {
            None
        }
    }

    /// How many objects of so many CPUs the step has whole, and how many in part.
    fn whole_and_part(&self, size: usize) -> (usize, usize) {
        let objects = self.cpus.chunks(size);
        let held = objects.map(|object| object.iter().filter(|cpu| **cpu).count());
        held.fold((0, 0), |(whole, part), held| match held {
            0 => (whole, part),
            held if held == size => (whole + 1, part),
            _ => (whole, part + 1),
        })
    }

    /// A binding by list.
    fn manual(&self, manual: &Manual) -> Result<Vec<Option<CpuSet>>, LayoutError> {
        let allocated = self.allocated();
        let whole_host = self.cpus.iter().filter(|cpu| **cpu).count() == self.grid.cpu_count();
        let form = match manual {
            Manual::None if whole_host => return Ok(vec![None; self.tasks]),
            Manual::None => return Ok(vec![Some(allocated); self.tasks]),
            Manual::MapCpu(list) => {
                let masks: Vec<CpuSet> = list.iter().map(|&pu| CpuSet::single(PuOs(pu))).collect();
                return self.listed(&masks, &allocated);
            }
            Manual::MaskCpu(masks) => return self.listed(masks, &allocated),
            Manual::RankLdom => "rank_ldom",
            Manual::MapLdom(_) => "map_ldom",
            Manual::MaskLdom(_) => "mask_ldom",
        };
        if !whole_host {
            return Err(LayoutError::WholeHostNeeded { host: self.host, form });
        }
        let ldoms = self.grid.ldoms();
        let ldom = |node: u32| ldoms.iter().find(|(os, _)| *os == node).map(|(_, pus)| (*pus).clone());
        let bound = (0..self.tasks).map(|task| {
            let pus = match manual {
                Manual::MapLdom(list) => ldom(list[task % list.len()]).unwrap_or_default(),
                Manual::MaskLdom(list) => {
                    let nodes = &list[task % list.len()];
                    nodes
                        .iter()
                        .filter_map(|node| ldom(node.0))
                        .fold(CpuSet::new(), |all, pus| all.union(&pus))
                }
                _ => ldoms.get(task % ldoms.len().max(1)).map_or_else(CpuSet::new, |(_, pus)| (*pus).clone()),
            };
            // An absent node leaves the whole allocation.
            Some(if pus.is_empty() { allocated.clone() } else { pus })
        });
        Ok(bound.collect())
    }

    /// Each task to a mask of the list in turn; every mask must lie within the allocation.
    fn listed(&self, masks: &[CpuSet], allocated: &CpuSet) -> Result<Vec<Option<CpuSet>>, LayoutError> {
        if masks.iter().any(|mask| !mask.is_subset(allocated)) {
            let allocated = allocated.to_string();
            return Err(LayoutError::OutsideAllocation { host: self.host, allocated });
        }
        Ok((0..self.tasks).map(|task| Some(masks[task % masks.len()].clone())).collect())
    }

    /// CPUs in order, task after task.
    fn blocks(&self, level: Level, per_task: usize) -> Vec<Mask> {
        let mut count = Counts::new(self);
        let mut masks: Vec<Mask> = Vec::new();
        let mut mask = Mask::new();
        while masks.len() < self.tasks {
            let before = (masks.len(), mask.len());
            let mut cpu = 0;
            while cpu < self.cpus.len() && masks.len() < self.tasks {
                if self.cpus[cpu] && count.admits(cpu) {
                    count.thread(cpu);
                    mask.push(cpu);
                    if mask.len() == per_task {
                        count.task(cpu);
                        cpu += self.threads_to_skip(level, per_task);
                        masks.push(std::mem::take(&mut mask));
                    }
                }
                cpu += 1;
            }
            count.reset();
            if before == (masks.len(), mask.len()) {
                break;
            }
        }
        masks
    }

    /// CPUs of the sockets in turn, a task on each.
    fn cyclic(&self, level: Level, per_task: usize) -> Vec<Mask> {
        let per_socket = self.grid.cores * self.grid.threads;
        let mut next = vec![0; self.grid.sockets];
        let mut count = Counts::new(self);
        let mut masks: Vec<Mask> = Vec::new();
        let mut mask = Mask::new();
        let mut socket = 0;
        let full_cyclic = self.wants.distribution.sockets == Some(Within::FullCyclic);
        let one_thread =
            self.wants.bind.one_thread && self.wants.threads_per_core.is_none_or(|most| most == 1);
        // Bounds the loop: each round over all CPUs binds a task.
        let mut idle_steps = 0;
        while masks.len() < self.tasks && idle_steps <= 2 * self.cpus.len() + self.grid.sockets {
            let first = socket;
            while next[socket] >= per_socket {
                socket = (socket + 1) % self.grid.sockets;
                if socket == first {
                    next.fill(0);
                    count.reset();
                }
            }
            let cpu = socket * per_socket + next[socket];
            next[socket] += 1;
            if one_thread {
                next[socket] += self.grid.threads - 1;
            }
            idle_steps += 1;
            if !self.cpus[cpu] || !count.admits(cpu) {
                continue;
            }
            idle_steps = 0;
            count.thread(cpu);
            mask.push(cpu);
            let here = socket;
            if full_cyclic {
                socket = (socket + 1) % self.grid.sockets;
            }
            if mask.len() < per_task {
                continue;
            }
            count.task(cpu);
            next[here] += self.threads_to_skip(level, per_task);
            masks.push(std::mem::take(&mut mask));
            if !full_cyclic {
                socket = (socket + 1) % self.grid.sockets;
            }
        }
        masks
    }

    /// Threads of a core that stay idle behind a task bound to cores.
    fn threads_to_skip(&self, level: Level, per_task: usize) -> usize {
        let threads = self.grid.threads;
        match level {
            Level::Cores if per_task < threads => threads - per_task,
            Level::Cores => per_task % threads,
            _ => 0,
        }
    }

    /// The PUs of a mask, widened to whole objects of the level; within the allocation, except for NUMA
    /// nodes.
    fn widened(&self, mask: &Mask, level: Level) -> CpuSet {
        let size = match level {
            Level::Threads => 1,
            Level::Cores => self.grid.threads,
            Level::Sockets => self.grid.threads * self.grid.cores,
            Level::Ldoms => {
                let pus = self.grid.pus_of(mask.iter().copied());
                let near = self.grid.ldoms().into_iter().filter(|(_, ldom)| !ldom.is_disjoint(&pus));
                return near.fold(CpuSet::new(), |all, (_, ldom)| all.union(ldom));
            }
        };
        let objects: std::collections::BTreeSet<usize> = mask.iter().map(|cpu| cpu / size).collect();
        let cpus = objects.into_iter().flat_map(|object| object * size..(object + 1) * size);
        self.grid.pus_of(cpus.filter(|&cpu| self.cpus[cpu]))
    }
}

/// Cores and sockets in use, against the limits of the options.
struct Counts<'a> {
    part: &'a Part<'a>,
    core_tasks: Vec<usize>,
    core_threads: Vec<usize>,
    socket_tasks: Vec<usize>,
}

impl<'a> Counts<'a> {
    fn new(part: &'a Part<'a>) -> Self {
        let cores = part.grid.core_count();
        Self {
            part,
            core_tasks: vec![0; cores],
            core_threads: vec![0; cores],
            socket_tasks: vec![0; part.grid.sockets],
        }
    }

    fn reset(&mut self) {
        self.core_tasks.fill(0);
        self.core_threads.fill(0);
        self.socket_tasks.fill(0);
    }

    fn admits(&self, cpu: usize) -> bool {
        let (core, socket) = self.place(cpu);
        let below = |count: usize, most: Option<usize>| most.is_none_or(|most| count < most);
        let wants = self.part.wants;
        below(self.core_tasks[core], wants.ntasks_per_core)
            && below(self.core_threads[core], wants.threads_per_core)
            && below(self.socket_tasks[socket], wants.ntasks_per_socket)
    }

    fn thread(&mut self, cpu: usize) {
        let (core, _) = self.place(cpu);
        self.core_threads[core] += 1;
    }

    fn task(&mut self, cpu: usize) {
        let (core, socket) = self.place(cpu);
        self.core_tasks[core] += 1;
        self.socket_tasks[socket] += 1;
    }

    fn place(&self, cpu: usize) -> (usize, usize) {
        let core = cpu / self.part.grid.threads;
        (core, core / self.part.grid.cores)
    }
}
