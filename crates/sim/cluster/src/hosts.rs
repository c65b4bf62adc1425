//! Free room on each host, the jobs running there, and their estimated ends.
//!
//! A job that fits on a single host gets the host that it fills best; if no host has a core left, the host with the fewest
//! jobs. Hosts with enough RAM come before hosts that would have to swap other jobs out. A wider job takes cores on any
//! hosts, the emptiest first.

use std::collections::BTreeSet;

use crate::Micros;
use crate::fleet::{Fleet, Part, Parts};
use crate::job::Job;
use crate::runtimes::Estimator;
use crate::wanted::Tables;

/// A job that runs.
#[derive(Debug, Clone, Copy)]
struct Running {
    start_us: Micros,
    /// The estimated end.
    expected_us: Micros,
}

/// A job's part that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    /// The estimated end.
    pub at_us: Micros,
    /// The job's place in the list.
    pub index: usize,
    /// Processors that become free.
    pub processors: u32,
    pub memory: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Host {
    /// Slots that are taken.
    pub used: u32,
    /// Memory that is free, in bytes; `u64::MAX` where memory does not count.
    pub memory: u64,
    /// The parts on it, in order of estimated end.
    pub ends: Vec<End>,
}

/// A place in the future at which the head of the queue starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reservation {
    /// When.
    pub at_us: Micros,
    /// On which host; `None`: on several.
    pub host: Option<u32>,
    /// Processors that are free beside it at that time,
    pub beyond: u32,
    /// and memory.
    pub memory: u64,
}

/// All hosts, and the jobs on them.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub fleet: Fleet,
    hosts: Vec<Host>,
    /// Hosts by how many slots are free,
    by_free: BTreeSet<(u32, u32)>,
    /// and by how much memory, where that counts.
    by_memory: BTreeSet<(u64, u32)>,
    /// Cores that no job was given.
    free_cores: u64,
    /// Running jobs by estimated end.
    by_end: BTreeSet<(Micros, usize)>,
    running: Vec<Option<Running>>,
    /// The present or past place of each job.
    parts: Vec<Parts>,
    tables: Tables,
}

impl Hosts {
    pub(crate) fn new(fleet: Fleet, jobs: usize) -> Self {
        let memory = fleet.memory.unwrap_or(u64::MAX);
        let host = Host { memory, ..Host::default() };
        let looks = fleet.memory.is_some();
        Self {
            fleet,
            hosts: vec![host; fleet.hosts as usize],
            by_free: (0..fleet.hosts).map(|host| (fleet.slots, host)).collect(),
            by_memory: (0..fleet.hosts).filter(|_| looks).map(|host| (memory, host)).collect(),
            free_cores: fleet.all_cores(),
            by_end: BTreeSet::new(),
            running: vec![None; jobs],
            parts: vec![Parts::default(); jobs],
            tables: Tables::default(),
        }
    }

    pub(crate) fn parts(&self, index: usize) -> &[Part] {
        &self.parts[index]
    }

    pub(crate) fn into_parts(self) -> Vec<Parts> {
        self.parts
    }

    pub(crate) fn each(&self) -> &[Host] {
        &self.hosts
    }

    /// Memory of a host beyond its RAM, in bytes.
    fn swap(&self) -> u64 {
        self.fleet.memory.map_or(0, |all| all.saturating_sub(self.fleet.job_memory))
    }

    /// Slots beyond the cores of a host.
    pub(crate) fn extra(&self) -> u32 {
        self.fleet.slots - self.fleet.cores
    }

    /// Whether no slot is free anywhere.
    pub(crate) fn are_full(&self) -> bool {
        self.by_free.last().is_none_or(|&(free, _)| free == 0)
    }

    /// The most free slots on any host but this.
    pub(crate) fn largest_but(&self, but: Option<u32>) -> u32 {
        self.by_free.iter().rev().find(|&&(_, host)| Some(host) != but).map_or(0, |&(free, _)| free)
    }

    /// The slots that are free on a host.
    pub(crate) fn free_on(&self, host: u32) -> u32 {
        self.fleet.slots - self.hosts[host as usize].used
    }

    /// Cores that no job was given, at most `u32::MAX`.
    pub(crate) fn free_cores(&self) -> u32 {
        u32::try_from(self.free_cores).unwrap_or(u32::MAX)
    }

    /// The most free memory on any host.
    pub(crate) fn largest_memory(&self) -> u64 {
        self.by_memory.last().map_or(u64::MAX, |&(memory, _)| memory)
    }

    /// The parts of a job that could start now, beside a reservation that it outlives.
    pub(crate) fn choose(&self, job: &Job, beside: Option<&Reservation>) -> Option<Parts> {
        if self.fleet.on_one_host(job) { self.choose_one(job, beside) } else { self.choose_many(job, beside) }
    }

    fn choose_one(&self, job: &Job, beside: Option<&Reservation>) -> Option<Parts> {
        let (wanted, memory) = (job.processors, job.memory_of(job.processors));
        if memory > self.largest_memory() {
            return None;
        }
        let with_cores = wanted + self.extra();
        let takes = |&&(_, host): &&(u32, u32)| {
            let left = beside.filter(|reservation| reservation.host.is_none_or(|reserved| reserved == host));
            self.hosts[host as usize].memory >= memory
                && left.is_none_or(|left| wanted <= left.beyond && memory <= left.memory)
        };
        let swap = self.swap();
        let has_ram = |&&(_, host): &&(u32, u32)| {
            self.hosts[host as usize].memory.saturating_sub(swap) >= memory && takes(&&(0, host))
        };
        let idle = || self.by_free.range((with_cores, 0)..);
        let full = || self.by_free.range((wanted, 0)..(with_cores, 0)).rev();
        let roomy = idle().find(has_ram).or_else(|| full().find(has_ram));
        let swapping = || idle().find(takes).or_else(|| full().find(takes));
        let best = if swap == 0 { roomy } else { roomy.or_else(swapping) };
        best.map(|&(_, host)| Part { host, processors: wanted }.into())
    }

    fn choose_many(&self, job: &Job, beside: Option<&Reservation>) -> Option<Parts> {
        let mut left = job.processors;
        if left > self.free_cores() {
            return None;
        }
        if beside.is_some_and(|reservation| reservation.host.is_none() && left > reservation.beyond) {
            return None;
        }
        let mut parts = Vec::new();
        for &(free, host) in self.by_free.iter().rev() {
            let mut most = self.most_of(job, free, self.hosts[host as usize].memory);
            if let Some(reservation) = beside.filter(|reservation| reservation.host == Some(host)) {
                let memory = self.fleet.fitting(job, self.fleet.memory.map(|_| reservation.memory));
                most = most.min(reservation.beyond).min(u32::try_from(memory).unwrap_or(u32::MAX));
            }
            let processors = most.min(left);
            if processors > 0 {
                parts.push(Part { host, processors });
                left -= processors;
            }
            if left == 0 {
                return Some(Parts::Many(parts));
            }
            if free <= self.extra() {
                break;
            }
        }
        None
    }

    /// The most processors of a job over several hosts that fit on a host with this much free.
    pub(crate) fn most_of(&self, job: &Job, free: u32, memory: u64) -> u32 {
        // As with slots, the job gets only unassigned memory: no host can suspend it for others without its parts on other
        // hosts.
        let memory = self.fleet.fitting(job, self.fleet.memory.map(|_| memory.saturating_sub(self.swap())));
        free.saturating_sub(self.extra()).min(u32::try_from(memory).unwrap_or(u32::MAX))
    }

    /// A job starts there and is believed to take so long.
    pub(crate) fn start(
        &mut self,
        index: usize,
        job: &Job,
        parts: Parts,
        now_us: Micros,
        estimate_us: Micros,
    ) {
        let expected_us = now_us.saturating_add(estimate_us);
        for &Part { host, processors } in parts.iter() {
            let memory = self.memory_of(job, processors);
            let end = End { at_us: expected_us, index, processors, memory };
            self.change(host, |host| {
                host.used += processors;
                host.memory -= memory;
                insert(&mut host.ends, end);
            });
        }
        self.parts[index] = parts;
        self.by_end.insert((expected_us, index));
        self.running[index] = Some(Running { start_us: now_us, expected_us });
    }

    /// A job ends.
    pub(crate) fn end(&mut self, index: usize, job: &Job) {
        let Some(running) = self.running[index].take() else { return };
        self.by_end.remove(&(running.expected_us, index));
        let parts = std::mem::take(&mut self.parts[index]);
        for &Part { host, processors } in parts.iter() {
            let memory = self.memory_of(job, processors);
            self.change(host, |host| {
                host.used -= processors;
                host.memory += memory;
                remove(&mut host.ends, running.expected_us, index);
            });
        }
        self.parts[index] = parts;
    }

    /// Jobs that should have ended by now are believed to take longer.
    pub(crate) fn revise(&mut self, jobs: &[Job], now_us: Micros) {
        while let Some(&(expected_us, index)) = self.by_end.first()
            && expected_us <= now_us
            && let Some(running) = &mut self.running[index]
        {
            self.by_end.remove(&(expected_us, index));
            let longer_us = Estimator::outlived(&jobs[index], now_us - running.start_us);
            let later_us = running.start_us.saturating_add(longer_us);
            running.expected_us = later_us;
            self.by_end.insert((later_us, index));
            for part in self.parts[index].iter() {
                let host = &mut self.hosts[part.host as usize];
                if let Some(end) = remove(&mut host.ends, expected_us, index) {
                    insert(&mut host.ends, End { at_us: later_us, ..end });
                }
                self.tables.changed(part.host);
            }
            if later_us <= now_us {
                break; // the end of time
            }
        }
    }

    /// The estimated start of a job that does not fit now, if nothing else starts.
    pub(crate) fn reserve(&mut self, job: &Job, jobs: &[Job], now_us: Micros) -> Reservation {
        if !self.fleet.on_one_host(job) {
            return self.reserve_many(job, jobs, now_us);
        }
        let (processors, memory) = (job.processors, job.memory_of(job.processors));
        let slots = self.fleet.slots;
        let host = self.tables.first(&self.hosts, slots, processors, memory);
        let (at_us, free, left) = self.hosts[host as usize].fits_at(slots, processors, memory, now_us);
        let (beyond, memory) = (free.saturating_sub(processors), left.saturating_sub(memory));
        Reservation { at_us, host: Some(host), beyond, memory }
    }

    fn reserve_many(&self, job: &Job, jobs: &[Job], now_us: Micros) -> Reservation {
        let mut state: Vec<(u32, u64)> =
            self.hosts.iter().map(|host| (self.fleet.slots - host.used, host.memory)).collect();
        let most = |&(free, memory): &(u32, u64)| u64::from(self.most_of(job, free, memory));
        let mut free: u64 = state.iter().map(most).sum();
        let (wanted, mut at_us) = (u64::from(job.processors), now_us);
        for &(expected_us, index) in &self.by_end {
            // All that end in the same moment are free then.
            if free >= wanted && expected_us > at_us {
                break;
            }
            for part in self.parts[index].iter() {
                let host = &mut state[part.host as usize];
                free -= most(host);
                host.0 += part.processors;
                host.1 += self.memory_of(&jobs[index], part.processors);
                free += most(host);
            }
            at_us = expected_us;
        }
        let beyond = u32::try_from(free.saturating_sub(wanted)).unwrap_or(u32::MAX);
        Reservation { at_us, host: None, beyond, memory: u64::MAX }
    }

    /// Memory that a job takes from a host, if memory counts.
    fn memory_of(&self, job: &Job, processors: u32) -> u64 {
        if self.fleet.memory.is_some() { job.memory_of(processors) } else { 0 }
    }

    fn change(&mut self, at: u32, change: impl FnOnce(&mut Host)) {
        let host = &mut self.hosts[at as usize];
        let (used, memory) = (host.used, host.memory);
        change(host);
        let cores_used = |used: u32| u64::from(used.min(self.fleet.cores));
        self.free_cores = self.free_cores + cores_used(used) - cores_used(host.used);
        self.by_free.remove(&(self.fleet.slots - used, at));
        self.by_free.insert((self.fleet.slots - host.used, at));
        if self.fleet.memory.is_some() {
            self.by_memory.remove(&(memory, at));
            self.by_memory.insert((host.memory, at));
        }
        self.tables.changed(at);
    }
}

impl Host {
    /// The estimated time at which these slots and this memory are free, and the free slots and memory then.
    pub(crate) fn fits_at(
        &self,
        slots: u32,
        processors: u32,
        memory: u64,
        now_us: Micros,
    ) -> (Micros, u32, u64) {
        let (mut free, mut left, mut at_us) = (slots - self.used, self.memory, now_us);
        for end in &self.ends {
            // All that end in the same moment are free then.
            if free >= processors && left >= memory && end.at_us > at_us {
                break;
            }
            free += end.processors;
            left = left.saturating_add(end.memory);
            at_us = end.at_us;
        }
        (at_us, free, left)
    }
}

fn insert(ends: &mut Vec<End>, end: End) {
    let at = ends.partition_point(|other| (other.at_us, other.index) < (end.at_us, end.index));
    ends.insert(at, end);
}

fn remove(ends: &mut Vec<End>, at_us: Micros, index: usize) -> Option<End> {
    let at = ends.partition_point(|other| (other.at_us, other.index) < (at_us, index));
    ends.get(at).is_some_and(|end| end.index == index).then(|| ends.remove(at))
}
