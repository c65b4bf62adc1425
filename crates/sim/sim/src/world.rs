//! The simulated host: containers with their class, cores and freezer, and jobs that compute in them.
//!
//! Time is continuous: between two events each job computes at a constant rate. On each core the normal class is served
//! first, in proportion to its jobs' demands there; the idle class shares the rest. Numbers are whole, so that a history is
//! the same on every machine.
//!
//! Absent: the policy, the daemon, any decision; the loss of jobs that want a core at the same moments ([`bursts`]).

mod bursts;

use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::{Class, JobId};
use pinfold_topo::{CpuSet, PuOs};

/// The work of a core in a microsecond.
const CORE_RATE: u64 = 1000;

/// Work without end: the caller ends it ([`World::end`]).
pub const ENDLESS: u64 = u64::MAX;

/// The work of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The work, in microseconds of a core x [`CORE_RATE`]; [`ENDLESS`]: it never becomes less.
    pub left: u64,
    /// The part of the time each of its threads wants a core, in thousandths.
    pub duty_milli: u64,
    /// Its threads.
    pub threads: u64,
    /// Whether it survives a signal.
    pub stubborn: bool,
}

/// A job's container with its processes.
#[derive(Debug, Clone)]
pub struct Container {
    /// Remaining work of its processes.
    pub work: Work,
    /// The class of its group.
    pub class: Class,
    /// The weight of its group.
    pub priority: u8,
    /// Whether it backfills with a primary's weight.
    pub even: bool,
    /// The PUs of its group; empty: all.
    pub cpus: CpuSet,
    /// The state of its freezer.
    pub frozen: bool,
    /// The freeze under way; a thaw or a later freeze cancels it.
    pub freezing: Option<u64>,
    rate: u64,
}

/// The host.
#[derive(Debug)]
pub struct World {
    /// The PUs of each core.
    cores: Vec<CpuSet>,
    /// Containers with processes in them.
    pub containers: BTreeMap<JobId, Container>,
    /// Jobs without processes whose end is not reported yet.
    pub ended: BTreeSet<JobId>,
    now_us: u64,
    /// Core time used up by each core, in microseconds x [`CORE_RATE`].
    busy: Vec<u64>,
    core_rates: Vec<u64>,
    /// The idle class's part.
    idle_class: u64,
    idle_class_rate: u64,
    /// See [`World::in_bursts`].
    bursts: bool,
}

/// A job's demand on cores.
#[derive(Debug)]
struct Place {
    job: JobId,
    /// The cores, by their place in the world.
    cores: Vec<usize>,
    /// The demand on each core.
    each: u64,
    /// Its class: 0 normal, 1 idle.
    idle: usize,
}

impl World {
    /// A host with these cores, of `pus` PUs each.
    #[must_use]
    pub fn new(cores: u32, pus_per_core: u32) -> Self {
        // Siblings are numbered as most machines do it: 0 and N/2, 1 and N/2 + 1 ...
        let core = |core: u32| (0..pus_per_core).map(|thread| PuOs(thread * cores + core)).collect();
        Self::with((0..cores).map(core).collect())
    }

    /// A host with these cores.
    #[must_use]
    pub fn with(cores: Vec<CpuSet>) -> Self {
        let count = cores.len();
        Self {
            cores,
            containers: BTreeMap::new(),
            ended: BTreeSet::new(),
            now_us: 0,
            busy: vec![0; count],
            core_rates: vec![0; count],
            idle_class: 0,
            idle_class_rate: 0,
            bursts: false,
        }
    }

    /// The PUs of each core.
    #[must_use]
    pub fn cores(&self) -> &[CpuSet] {
        &self.cores
    }

    /// The time.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Puts a job's first process into its container.
    pub fn spawn(&mut self, job: JobId, work: Work, class: Class, priority: u8, cpus: CpuSet) {
        let container =
            Container { work, class, priority, even: false, cpus, frozen: false, freezing: None, rate: 0 };
        self.containers.insert(job, container);
        self.share();
    }

    /// Changes a container; nothing if its processes are gone.
    pub fn change(&mut self, job: JobId, change: impl FnOnce(&mut Container)) {
        if let Some(container) = self.containers.get_mut(&job) {
            change(container);
            self.share();
        }
    }

    /// Ends all processes of a job.
    pub fn end(&mut self, job: JobId) {
        if self.containers.remove(&job).is_some() {
            self.ended.insert(job);
            self.share();
        }
    }

    /// The present speed of a job, in thousandths of a core.
    #[must_use]
    pub fn rate(&self, job: JobId) -> u64 {
        self.containers.get(&job).map_or(0, |container| container.rate)
    }

    /// The present idleness of each core, in thousandths.
    pub fn idle_milli(&self) -> impl Iterator<Item = u16> + '_ {
        let idle = |&rate: &u64| u16::try_from((CORE_RATE - rate.min(CORE_RATE)) * 1000 / CORE_RATE);
        self.core_rates.iter().map(move |rate| idle(rate).unwrap_or(0))
    }

    /// The time at which the next job completes its work, if nothing changes.
    #[must_use]
    pub fn next_end_us(&self) -> Option<u64> {
        let end = |container: &Container| match container.rate {
            0 => None,
            _ if container.work.left == ENDLESS => None,
            rate => Some(self.now_us.saturating_add(container.work.left.div_ceil(rate))),
        };
        self.containers.values().filter_map(end).min()
    }

    /// Lets time go by; jobs that have done their work end.
    pub fn advance(&mut self, to_us: u64) {
        let elapsed = to_us.saturating_sub(self.now_us);
        self.now_us = self.now_us.max(to_us);
        let mut done = Vec::new();
        for (&job, container) in &mut self.containers {
            if container.work.left != ENDLESS {
                let done = elapsed.saturating_mul(container.rate);
                container.work.left = container.work.left.saturating_sub(done);
            }
            if container.work.left == 0 && !container.frozen {
                done.push(job);
            }
        }
        for (busy, rate) in self.busy.iter_mut().zip(&self.core_rates) {
            *busy = busy.saturating_add(elapsed.saturating_mul(*rate));
        }
        let used = elapsed.saturating_mul(self.idle_class_rate);
        self.idle_class = self.idle_class.saturating_add(used);
        done.into_iter().for_each(|job| self.end(job));
    }

    /// The busy time of each core since the last call, in thousandths of `elapsed_us`.
    pub fn take_busy_milli(&mut self, elapsed_us: u64) -> Vec<u64> {
        let milli = |busy: &mut u64| std::mem::take(busy) / elapsed_us.max(1);
        self.busy.iter_mut().map(milli).collect()
    }

    /// The idle class's use since the last call, in thousandths of a core over `elapsed_us`.
    pub fn take_idle_class_milli(&mut self, elapsed_us: u64) -> u64 {
        std::mem::take(&mut self.idle_class) / elapsed_us.max(1)
    }

    /// Shares the cores out anew.
    fn share(&mut self) {
        let mut wanted = vec![[0u64; 2]; self.cores.len()];
        let places: Vec<Place> =
            self.containers.iter().filter_map(|(&job, container)| self.wants(job, container)).collect();
        for place in &places {
            place.cores.iter().for_each(|&core| wanted[core][place.idle] += place.each);
        }
        for container in self.containers.values_mut() {
            container.rate = 0;
        }
        self.core_rates = wanted.iter().map(|wanted| (wanted[0] + wanted[1]).min(CORE_RATE)).collect();
        let idle_class = |wanted: &[u64; 2]| wanted[1].min(CORE_RATE.saturating_sub(wanted[0]));
        self.idle_class_rate = wanted.iter().map(idle_class).sum();
        for place in &places {
            let got = |&core: &usize| {
                let (each, wants) = (place.each, wanted[core][place.idle]);
                let capacity = if place.idle == 0 { CORE_RATE } else { left(&wanted[core]) };
                if wants <= capacity { each } else { each * capacity / wants }
            };
            let rate: u64 = place.cores.iter().map(got).sum();
            if let Some(container) = self.containers.get_mut(&place.job) {
                container.rate = rate.max(1);
            }
        }
        if self.bursts {
            self.collide(&places, &wanted);
        }
    }

    /// The cores a job wants, how much of each, and whether in the idle class.
    fn wants(&self, job: JobId, container: &Container) -> Option<Place> {
        if container.frozen {
            return None;
        }
        let on = |core: &usize| !self.cores[*core].is_disjoint(&container.cpus);
        let mut cores: Vec<usize> = (0..self.cores.len()).filter(on).collect();
        if cores.is_empty() {
            cores = (0..self.cores.len()).collect();
        }
        let all = container.work.threads * container.work.duty_milli * CORE_RATE / 1000;
        let each = (all / cores.len() as u64).clamp(1, CORE_RATE);
        let idle = usize::from(container.class == Class::Backfill && !container.even);
        Some(Place { job, cores, each, idle })
    }
}

/// The rest of a core beside the normal class: the kernel gives the idle class a few thousandths even of a busy core.
fn left(wanted: &[u64; 2]) -> u64 {
    CORE_RATE.saturating_sub(wanted[0]).max(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(ms: u64, duty_milli: u64) -> Work {
        Work { left: ms * 1000 * CORE_RATE, duty_milli, threads: 1, stubborn: false }
    }

    /// Spawns `(class, PU, work in ms, duty)` and checks when each ends, in ms.
    #[track_caller]
    fn check(jobs: &[(Class, u32, u64, u64)], want: &[u64]) {
        let mut world = World::new(2, 1);
        for (job, &(class, pu, ms, duty)) in (1..).zip(jobs) {
            world.spawn(JobId(job), work(ms, duty), class, 10, CpuSet::single(PuOs(pu)));
        }
        let mut ends = vec![0; jobs.len()];
        while let Some(at) = world.next_end_us() {
            world.advance(at);
            for job in std::mem::take(&mut world.ended) {
                ends[usize::try_from(job.0).unwrap() - 1] = at / 1000;
            }
        }
        assert_eq!(ends, want);
    }

    #[test]
    fn cores_are_shared() {
        check(&[(Class::Primary, 0, 100, 1000)], &[100]);
        check(&[(Class::Primary, 0, 100, 500)], &[200]);
        check(&[(Class::Primary, 0, 100, 1000), (Class::Primary, 0, 100, 1000)], &[200, 200]);
        check(&[(Class::Primary, 0, 100, 1000), (Class::Primary, 1, 300, 1000)], &[100, 300]);
        // The idle class has the rest: half of the core while the primary waits half of its time.
        check(&[(Class::Primary, 0, 100, 500), (Class::Backfill, 0, 100, 1000)], &[200, 200]);
        // Of a busy core it has 3 of 1,000: 3 ms in the first second.
        check(&[(Class::Primary, 0, 1000, 1000), (Class::Backfill, 0, 103, 1000)], &[1000, 1100]);
    }

    #[test]
    fn a_frozen_job_stands_still() {
        let mut world = World::new(1, 1);
        world.spawn(JobId(1), work(100, 1000), Class::Primary, 10, CpuSet::new());
        world.advance(40_000);
        world.change(JobId(1), |container| container.frozen = true);
        assert_eq!(world.next_end_us(), None);
        world.advance(1_000_000);
        world.change(JobId(1), |container| container.frozen = false);
        assert_eq!(world.next_end_us(), Some(1_060_000));
        assert_eq!(world.take_busy_milli(1_000_000), [40]);
    }
}
