//! The events of a cluster of self-deciding hosts: submissions, ends, and hosts' wake-ups.
//!
//! A job over several hosts runs at the speed of its slowest part. At each moment all ends come first, then hosts'
//! wake-ups, then all submissions, then passes of the dispatcher.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use pinfold_cluster::dispatch::Dispatcher;
use pinfold_cluster::graph::Graph;
use pinfold_cluster::job::Job;
use pinfold_cluster::metrics::Span;
use pinfold_cluster::play::{Arrivals, Options, PROGRESS_EVERY, Played};
use pinfold_cluster::{Micros, SECOND};
use pinfold_policy::{Machine, Settings};
use pinfold_proto::config::Config;
use pinfold_topo::{CpuSet, PuOs, Topology};

use crate::contention::Contention;
use crate::host::Host;
pub use crate::host::Toll;
use crate::memory;
pub use crate::memory::Hardware;
use crate::settings;

/// The kind of the hosts, beside their number.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// The policy's settings and the machine of each host; `None`: plain hosts, which start each job at once.
    pub pinfold: Option<(Settings, Machine)>,
    /// Memory of each; `None`: it is not simulated.
    pub hardware: Option<Hardware>,
    /// Contention of jobs on a host beside cores and memory; `None`: none.
    pub contention: Option<Contention>,
    /// Whether jobs' memory over time is recorded.
    pub series: bool,
}

impl Hosts {
    /// Hosts under pinfold with this configuration: of a fully described machine, or of a number of cores alone. `memory`:
    /// RAM and swap of each host, unreduced.
    #[must_use]
    pub fn pinfold(
        config: &Config,
        topology: Option<&Topology>,
        cores: u32,
        memory: Option<Hardware>,
    ) -> Self {
        let machine = match topology {
            Some(topology) => Machine::of(topology, &topology.usable()),
            None => Machine::flat((0..cores).map(|pu| CpuSet::single(PuOs(pu))).collect()),
        };
        let settings = settings::settings(config, memory.map(|memory| memory.ram));
        let hardware = memory.map(|memory| Hardware {
            ram: settings::budget(config, memory.ram),
            swap: config.host_swap.unwrap_or(u64::MAX).min(memory.swap),
            ..memory
        });
        Self { pinfold: Some((settings, machine)), hardware, contention: None, series: false }
    }

    /// Plain hosts.
    #[must_use]
    pub fn plain(hardware: Option<Hardware>) -> Self {
        Self { pinfold: None, hardware, contention: None, series: false }
    }

    /// The number of single-core jobs that the dispatcher may submit to a host with this many cores: at least one a core.
    #[must_use]
    pub fn slots(&self, cores: u32) -> u32 {
        let slots = |(settings, _): &(Settings, Machine)| {
            if settings.backfill {
                u32::try_from(settings.slots(cores as usize)).unwrap_or(cores)
            } else {
                cores
            }
        };
        self.pinfold.as_ref().map_or(cores, slots).max(cores)
    }
}

/// The memory of all jobs of a host from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The moment.
    pub at_us: Micros,
    /// In RAM, in bytes.
    pub resident: u64,
    /// In swap, in bytes.
    pub swapped: u64,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The times and places of jobs. A job that never ran ended at its submission.
    pub played: Played,
    /// Jobs that never ended, as no host let them run; their figures are meaningless.
    pub stuck: usize,
    /// The hosts' operations.
    pub toll: Toll,
    /// Jobs' memory over time on each host, if requested.
    pub held: Vec<Vec<Held>>,
}

impl From<Played> for Outcome {
    /// For plain hosts without a model of memory.
    fn from(played: Played) -> Self {
        Self { played, stuck: 0, toll: Toll::default(), held: Vec::new() }
    }
}

/// The end of the simulation, some 146,000 years after the beginning: a job that has not ended by then never does.
const LAST_US: Micros = u64::MAX / 4;

/// A future event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A job's work is done, if its speed is still that of this version.
    End(usize, u64),
    /// A host wakes up, if nothing happened to it meanwhile.
    Wake(usize, u64),
}

/// A job that was handed to its hosts.
#[derive(Debug)]
struct Active {
    /// Work that is left, in microseconds of its own time, times 1000.
    left: u128,
    speed: u16,
    /// The speed of each part, in the order of its hosts; 0 before the part's start.
    parts: Vec<(usize, u16)>,
    waiting: usize,
    settled_us: Micros,
    version: u64,
}

impl Active {
    fn settle(&mut self, now_us: Micros) {
        let elapsed_us = now_us - std::mem::replace(&mut self.settled_us, now_us);
        self.left = self.left.saturating_sub(u128::from(elapsed_us) * u128::from(self.speed));
    }

    fn done_us(&self, job: &Job) -> u128 {
        u128::from(job.run_us).saturating_sub(self.left / 1000)
    }
}

#[derive(Debug)]
struct Run<'a> {
    jobs: &'a [Job],
    dispatcher: Dispatcher<'a>,
    arrivals: Arrivals<'a>,
    hosts: Vec<Host>,
    /// The jobs on each host.
    on: Vec<BTreeSet<usize>>,
    versions: Vec<u64>,
    active: BTreeMap<usize, Active>,
    agenda: BinaryHeap<Reverse<(Micros, What)>>,
    spans: Vec<Span>,
    /// Hosts to which something happened.
    touched: BTreeSet<usize>,
    /// Hosts with possible news.
    noisy: BTreeSet<usize>,
    /// A job left the hosts: others may start.
    freed: bool,
    ended: usize,
    events: u64,
    killed: u64,
    held: Option<Vec<Vec<Held>>>,
}

/// Plays jobs, which are in order of submission; `progress` is called now and then with how many have ended.
///
/// # Panics
/// As [`pinfold_cluster::play::play`].
#[must_use]
pub fn play(
    jobs: &[Job],
    graph: &Graph,
    options: &Options,
    hosts: &Hosts,
    mut progress: impl FnMut(usize),
) -> Outcome {
    // Found once for all hosts: a host has no access to the others.
    let ran_before: Vec<usize> = (0..jobs.len()).filter(|&index| jobs[index].runs_before > 0).collect();
    let host = || {
        let host = match &hosts.pinfold {
            Some((settings, machine)) => Host::pinfold(machine, settings, hosts.hardware),
            None => Host::plain(hosts.hardware),
        };
        let mut host = host.contended(options.fleet.cores, hosts.contention);
        host.remember(jobs, &ran_before);
        host
    };
    let count = options.fleet.hosts as usize;
    let mut run = Run {
        jobs,
        dispatcher: Dispatcher::new(jobs, options.fleet, options.dispatch, options.runtimes),
        arrivals: Arrivals::new(jobs, graph),
        hosts: std::iter::repeat_with(host).take(count).collect(),
        on: vec![BTreeSet::new(); count],
        versions: vec![0; count],
        active: BTreeMap::new(),
        agenda: BinaryHeap::new(),
        spans: vec![Span::default(); jobs.len()],
        touched: BTreeSet::new(),
        noisy: BTreeSet::new(),
        freed: false,
        ended: 0,
        events: 0,
        killed: 0,
        held: hosts.series.then(|| vec![Vec::new(); count]),
    };
    let mut moments = 0_u64;
    while let Some(now_us) = run.next_us().filter(|&at_us| at_us < LAST_US) {
        run.moment(now_us);
        moments += 1;
        if moments.is_multiple_of(PROGRESS_EVERY) {
            progress(run.ended);
        }
    }
    run.finish()
}

impl Run<'_> {
    fn finish(self) -> Outcome {
        let mut toll = Toll { killed: self.killed, ..Toll::default() };
        for host in &self.hosts {
            toll.freezes += host.toll.freezes;
            toll.frozen_us += host.toll.frozen_us;
            toll.paged_bytes += host.memory.as_ref().map_or(0, |memory| memory.paged);
        }
        let played = Played { spans: self.spans, parts: self.dispatcher.into_parts(), events: self.events };
        Outcome { played, stuck: self.jobs.len() - self.ended, toll, held: self.held.unwrap_or_default() }
    }

    fn next_us(&self) -> Option<Micros> {
        let planned = self.agenda.peek().map(|Reverse((at_us, _))| *at_us);
        // At the end hosts need not wake up any more.
        let planned = planned.filter(|_| !self.active.is_empty());
        self.arrivals.next_us().into_iter().chain(planned).min()
    }

    fn moment(&mut self, now_us: Micros) {
        while let Some(&Reverse((at_us, what))) = self.agenda.peek()
            && at_us <= now_us
        {
            self.agenda.pop();
            match what {
                What::End(index, version) => {
                    if self.active.get(&index).is_some_and(|active| active.version == version) {
                        self.events += 1;
                        self.over(index, true, now_us);
                    }
                }
                What::Wake(host, version) if self.versions[host] == version => {
                    self.events += 1;
                    self.settle(host, now_us);
                    self.hosts[host].wake(now_us);
                    self.touch(host);
                }
                What::Wake(..) => {}
            }
        }
        self.hear(now_us);
        loop {
            for index in self.arrivals.take(now_us) {
                self.events += 1;
                self.spans[index].submit_us = now_us;
                self.dispatcher.submit(index);
            }
            self.freed = false;
            for index in self.dispatcher.pass(now_us) {
                self.hand_over(index, now_us);
            }
            self.hear(now_us);
            while let Some(host) = self.touched.pop_first() {
                self.reshape(host, now_us);
            }
            if !self.freed {
                return;
            }
        }
    }

    /// Submits a job to the hosts that the dispatcher chose.
    fn hand_over(&mut self, index: usize, now_us: Micros) {
        let job = &self.jobs[index];
        let parts = self.dispatcher.parts(index).to_vec();
        self.active.insert(
            index,
            Active {
                left: u128::from(job.run_us) * 1000,
                speed: 0,
                parts: parts.iter().map(|part| (part.host as usize, 0)).collect(),
                waiting: parts.len(),
                settled_us: now_us,
                version: 0,
            },
        );
        for part in &parts {
            let host = part.host as usize;
            self.settle(host, now_us);
            self.on[host].insert(index);
            self.hosts[host].submit(index, job, part.processors, parts.len() == 1, now_us);
            self.touch(host);
        }
    }

    /// Handles hosts' news: started jobs, and jobs that will never start.
    fn hear(&mut self, now_us: Micros) {
        while let Some(host) = self.noisy.pop_first() {
            let news = std::mem::take(&mut self.hosts[host].news);
            for index in news.started {
                self.hosts[host].set_peak(index, &self.jobs[index]);
                if let Some(active) = self.active.get_mut(&index) {
                    active.waiting -= 1;
                    if active.waiting == 0 {
                        self.spans[index].start_us = now_us;
                    }
                }
            }
            for index in news.dropped {
                self.spans[index].start_us = now_us;
                self.killed += 1;
                self.over(index, false, now_us);
            }
        }
    }

    /// Something happened to a host.
    fn touch(&mut self, host: usize) {
        self.touched.insert(host);
        self.noisy.insert(host);
    }

    /// A job leaves its hosts.
    fn over(&mut self, index: usize, done: bool, now_us: Micros) {
        let Some(active) = self.active.remove(&index) else { return };
        for &(host, _) in &active.parts {
            self.settle(host, now_us);
            self.on[host].remove(&index);
            self.hosts[host].ended(index, &self.jobs[index], done, now_us);
            self.touch(host);
        }
        if active.waiting > 0 {
            self.spans[index].start_us = now_us;
        }
        self.spans[index].end_us = now_us;
        self.dispatcher.ended(index);
        self.arrivals.ended(index);
        self.ended += 1;
        self.freed = true;
    }

    /// Brings a host's jobs up to date.
    fn settle(&mut self, host: usize, now_us: Micros) {
        let Some(memory) = &mut self.hosts[host].memory else { return };
        if memory.settled_us == now_us {
            return;
        }
        for (&index, body) in &mut memory.bodies {
            if let Some(active) = self.active.get_mut(&index) {
                active.settle(now_us);
                let done_us = active.done_us(&self.jobs[index]);
                body.held = body.held.max(memory::held_at(body.peak, done_us, &self.jobs[index]));
            }
        }
        memory.settle(now_us);
        if let Some(held) = &mut self.held {
            let (resident, swapped) = memory.held();
            held[host].push(Held { at_us: now_us, resident, swapped });
        }
    }

    /// After a change on a host: its jobs may change speed, and its next wake-up moves.
    fn reshape(&mut self, host: usize, now_us: Micros) {
        self.settle(host, now_us);
        let killed = self.hosts[host].memory.as_ref().and_then(memory::Memory::killed);
        if let Some(index) = killed {
            self.killed += 1;
            self.over(index, false, now_us);
            return; // it is among those touched again
        }
        let phased = self.grow_up(host, now_us);
        for (index, speed) in self.hosts[host].speeds() {
            self.set_speed(index, host, speed, now_us);
        }
        let grows_up = phased.iter().filter_map(|&index| self.grown_in(index)).min();
        let mut next_us = self.grow(host).into_iter().chain(grows_up).min();
        self.hosts[host].plan_reading(now_us);
        if let Some(memory) = &self.hosts[host].memory {
            next_us = next_us.into_iter().chain(memory.next_us()).min();
        }
        let next_us = next_us.map(|in_us| now_us.saturating_add(in_us));
        let next_us = next_us.into_iter().chain(self.hosts[host].next_us()).min();
        self.versions[host] += 1;
        if let Some(at_us) = next_us {
            let at_us = at_us.max(now_us + 1);
            self.agenda.push(Reverse((at_us, What::Wake(host, self.versions[host]))));
        }
    }

    /// A part of a job goes on so fast: the job does so at the speed of its slowest part.
    fn set_speed(&mut self, index: usize, host: usize, speed: u16, now_us: Micros) {
        let Some(active) = self.active.get_mut(&index) else { return };
        if let Some(part) = active.parts.iter_mut().find(|(at, _)| *at == host) {
            part.1 = speed;
        }
        let slowest = active.parts.iter().map(|&(_, speed)| speed).min().unwrap_or(0);
        if slowest == active.speed {
            return;
        }
        active.settle(now_us);
        active.speed = slowest;
        active.version += 1;
        if slowest > 0 {
            let in_us = active.left.div_ceil(u128::from(slowest));
            let at_us = now_us.saturating_add(u64::try_from(in_us).unwrap_or(u64::MAX));
            self.agenda.push(Reverse((at_us, What::End(index, active.version))));
        }
        if active.parts.len() > 1 {
            let others = active.parts.iter().map(|&(other, _)| other).filter(|&other| other != host);
            self.touched.extend(others);
        }
    }

    /// Jobs that have grown compute for another part of their time from then on; returns the jobs that still grow.
    fn grow_up(&mut self, host: usize, now_us: Micros) -> Vec<usize> {
        let phased = |&index: &usize| self.jobs[index].ramp_busy_milli.is_some();
        let mut phased: Vec<usize> = self.hosts[host].started().filter(phased).collect();
        phased.retain(|index| {
            let (job, active) = (&self.jobs[*index], self.active.get_mut(index));
            let grown = active.is_some_and(|active| {
                active.settle(now_us);
                active.done_us(job) >= memory::ramp_us(job)
            });
            if grown {
                self.hosts[host].set_busy(*index, job.grown_busy_milli(), now_us);
            }
            !grown
        });
        phased
    }

    /// In how long a job will have grown, if it goes on as it does.
    fn grown_in(&self, index: usize) -> Option<Micros> {
        let (job, active) = (&self.jobs[index], self.active.get(&index)?);
        let left_us = memory::ramp_us(job).saturating_sub(active.done_us(job));
        let in_us = (left_us * 1000).checked_div(active.speed.into())?.saturating_add(1);
        Some(u64::try_from(in_us).unwrap_or(u64::MAX))
    }

    /// Sets the growth of each job of a host from now on, and returns the time at which the first has grown up.
    fn grow(&mut self, host: usize) -> Option<Micros> {
        let memory = self.hosts[host].memory.as_mut()?;
        let mut first: Option<Micros> = None;
        for (&index, body) in &mut memory.bodies {
            let job = &self.jobs[index];
            let ramp_us = memory::ramp_us(job);
            body.growth = 0;
            let Some(active) = self.active.get(&index) else { continue };
            let done_us = active.done_us(job);
            if active.speed == 0 || done_us >= ramp_us || body.peak == 0 {
                continue;
            }
            let speed = u128::from(active.speed);
            let growth = u128::from(body.peak) * u128::from(SECOND) / ramp_us * speed / 1000;
            body.growth = u64::try_from(growth).unwrap_or(u64::MAX);
            let left_us = ((ramp_us - done_us) * 1000).div_ceil(speed);
            let left_us = u64::try_from(left_us).unwrap_or(u64::MAX);
            first = Some(first.map_or(left_us, |earlier| earlier.min(left_us)));
        }
        first
    }
}
