//! A host under pinfold: the policy of its daemon, its cores as the kernel divides them, and its memory.
//!
//! The caller reports events with their times; the host returns starts and the present speed of each job. A plain host has
//! no policy and starts each job at once. Absent: the order among hosts, and the completion of a job's work
//! ([`crate::play`]).

use std::collections::{BTreeMap, VecDeque};

use pinfold_cluster::job::Job;
use pinfold_cluster::{Micros, SECOND};
use pinfold_policy::claims::{Claims, Peak};
use pinfold_policy::{
    Action, Class, Decision, Event, Instant, JobId, JobMemory, Kind, Machine, MemorySample, Policy, Request,
    Sample, Settings,
};
use pinfold_sim::world::{ENDLESS, Work, World};

use crate::contention::{Contention, Doing};
use crate::memory::{Body, Hardware, Memory};

/// The policy's clock when the first second begins.
const ORIGIN_US: u64 = 1_000_000_000_000;
/// The number of readings of the cores, a second apart, after a change of jobs' cores or activity.
const LOOKS: u8 = 3;
/// Memory is read this often at most while it is scarce and otherwise, as the daemon does,
const READING_TIGHT: Micros = SECOND / 10;
const READING_MIN: Micros = SECOND;
/// this often at least while jobs are suspended,
const READING_SUSPENDED: Micros = 10 * SECOND;
/// and this often where RAM is far from full.
const READING_MAX: Micros = 60 * SECOND;
/// A class keeps its last 500 runs: more equal runs add nothing.
const RUNS_KEPT: u16 = 500;

/// A job on a host, or its part there.
#[derive(Debug, Clone, Copy)]
struct Part {
    processors: u32,
    busy_milli: u16,
    io_rate: u64,
    frozen_us: Option<Micros>,
}

/// Changes of jobs since the last query.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub started: Vec<usize>,
    /// Refused or struck off: they will never run.
    pub dropped: Vec<usize>,
}

/// Totals of the hosts' operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Toll {
    /// The number of freezes,
    pub freezes: u64,
    /// and for how long together.
    pub frozen_us: Micros,
    /// Bytes moved to swap.
    pub paged_bytes: u64,
    /// Jobs that the kernel killed for memory; a killed job counts as never started.
    pub killed: u64,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Host {
    under: Option<Under>,
    /// The contention of its jobs, and the number of cores.
    contention: Option<(u32, Contention)>,
    pub memory: Option<Memory>,
    /// Jobs that were handed to it and wait,
    waiting: BTreeMap<usize, Part>,
    /// and started jobs.
    parts: BTreeMap<usize, Part>,
    pub news: News,
    pub toll: Toll,
}

/// The additional state of a host under pinfold.
#[derive(Debug)]
struct Under {
    policy: Policy,
    world: World,
    claims: Claims,
    /// The time of the next reading of the cores, the last reading, and the number of remaining readings.
    look_us: Option<Micros>,
    looked_us: Micros,
    looks: u8,
    /// The time of the next reading of memory.
    reading_us: Option<Micros>,
}

impl Host {
    /// A host on which everything starts at once.
    pub(crate) fn plain(hardware: Option<Hardware>) -> Self {
        let memory = hardware.map(Memory::new);
        Self {
            under: None,
            contention: None,
            memory,
            waiting: BTreeMap::new(),
            parts: BTreeMap::new(),
            news: News::default(),
            toll: Toll::default(),
        }
    }

    /// The same host, on these cores with this contention.
    pub(crate) fn contended(mut self, cores: u32, contention: Option<Contention>) -> Self {
        if let Some(under) = self.under.as_mut().filter(|_| contention.is_some()) {
            let world = std::mem::replace(&mut under.world, World::with(Vec::new()));
            under.world = world.in_bursts();
        }
        Self { contention: contention.map(|contention| (cores, contention)), ..self }
    }

    /// A host with this policy on this machine.
    pub(crate) fn pinfold(machine: &Machine, settings: &Settings, hardware: Option<Hardware>) -> Self {
        let mut host = Self::plain(hardware);
        host.under = Some(Under {
            policy: Policy::default(),
            world: World::with(machine.cores.clone()),
            claims: Claims::default(),
            look_us: None,
            looked_us: 0,
            looks: 0,
            reading_us: None,
        });
        host.deliver(Event::Configure(settings.clone()), 0);
        host.deliver(Event::Machine(machine.clone()), 0);
        host.read(0);
        host
    }

    /// Teaches the host the peaks of jobs that ran before.
    pub(crate) fn remember(&mut self, jobs: &[Job], ran_before: &[usize]) {
        for &index in ran_before {
            let job = &jobs[index];
            let held = peak(job, job.processors);
            (0..job.runs_before.min(RUNS_KEPT)).for_each(|_| self.learn(index, job, job.processors, held, 0));
        }
    }

    /// Teaches the policy a successful run with this peak.
    fn learn(&mut self, index: usize, job: &Job, processors: u32, held: u64, now_us: Micros) {
        let Some(under) = &mut self.under else { return };
        let Some(kind) = kind(job, processors).filter(|_| held > 0) else { return };
        let asked = Some(job.memory_of(processors)).filter(|&asked| asked > 0);
        let claim = under.claims.ended(kind, id(index), Peak::of(held), asked);
        self.deliver(Event::Learned(kind, claim), now_us);
    }

    /// Submits a job, or its part, to the host.
    pub(crate) fn submit(&mut self, index: usize, job: &Job, processors: u32, alone: bool, now_us: Micros) {
        let io_rate = job.io_rate.saturating_mul(processors.into());
        let busy_milli = job.ramp_busy_milli.unwrap_or(job.busy_milli);
        self.waiting.insert(index, Part { processors, busy_milli, io_rate, frozen_us: None });
        if self.under.is_none() {
            self.start(index, peak(job, processors));
            return;
        }
        let asked = job.memory_of(processors);
        self.deliver(
            Event::Submit(Request {
                cores: processors,
                // If one part is suspended, all parts wait, and the other hosts' cores are lost meanwhile.
                class: (!alone).then_some(Class::Primary),
                no_suspend: !alone,
                list: (job.list > 0).then_some(job.list.into()),
                memory: Some(asked).filter(|&asked| asked > 0),
                kind: kind(job, processors),
                ..Request::plain(id(index))
            }),
            now_us,
        );
    }

    /// A job has done its work, or was killed.
    pub(crate) fn ended(&mut self, index: usize, job: &Job, done: bool, now_us: Micros) {
        let waits = || self.waiting.remove(&index);
        let Some(part) = self.parts.remove(&index).or_else(waits) else { return };
        self.toll.frozen_us += part.frozen_us.map_or(0, |since| now_us - since);
        let held =
            self.memory.as_ref().and_then(|memory| memory.bodies.get(&index)).map_or(0, |body| body.held);
        if let Some(memory) = &mut self.memory {
            memory.remove(index);
        }
        let Some(under) = &mut self.under else { return };
        under.world.end(id(index));
        under.world.ended.clear();
        if done {
            self.learn(index, job, part.processors, held, now_us);
        }
        self.deliver(Event::Exited(id(index)), now_us);
        self.read(now_us);
    }

    /// Handles an event that was due by [`Host::next_us`].
    pub(crate) fn wake(&mut self, now_us: Micros) {
        let Some(under) = &mut self.under else { return };
        if under.look_us.is_some_and(|at| at <= now_us) {
            under.look_us = None;
            let sample = under.look(now_us);
            self.deliver(Event::Sample(sample), now_us);
        }
        let Some(under) = &self.under else { return };
        if under.reading_us.is_some_and(|at| at <= now_us) {
            self.read(now_us);
        }
        let Some(under) = &self.under else { return };
        if under.policy.next_wakeup().is_some_and(|at| at <= clock(now_us)) {
            self.deliver(Event::Tick, now_us);
        }
    }

    /// The time of the next event for the policy, beside jobs' events.
    pub(crate) fn next_us(&self) -> Option<Micros> {
        let under = self.under.as_ref()?;
        let tick = under.policy.next_wakeup().map(|at| at.0.saturating_sub(ORIGIN_US));
        under.look_us.into_iter().chain(under.reading_us).chain(tick).min()
    }

    /// The speed of each job here, in thousandths of its speed alone.
    pub(crate) fn speeds(&self) -> Vec<(usize, u16)> {
        let mut jobs: Vec<Doing> = self.parts.iter().map(|(&index, part)| self.doing(index, part)).collect();
        if let Some((cores, contention)) = &self.contention {
            contention.apply(*cores, &mut jobs);
        }
        let speed = |job: &Doing| u16::try_from(job.speed_milli).unwrap_or(1000);
        self.parts.keys().copied().zip(jobs.iter().map(speed)).collect()
    }

    fn doing(&self, index: usize, part: &Part) -> Doing {
        let full = u64::from(part.processors) * u64::from(part.busy_milli);
        let by_memory = self.memory.as_ref().map_or(1000, |memory| memory.speed_milli(index));
        let by_cores =
            self.under.as_ref().map_or(1000, |under| under.world.rate(id(index)) * 1000 / full.max(1));
        let speed_milli = if part.frozen_us.is_some() { 0 } else { by_memory.min(by_cores).min(1000) };
        Doing {
            rate_milli: full * speed_milli / 1000,
            processors: part.processors,
            busy_milli: part.busy_milli,
            io_rate: part.io_rate,
            speed_milli,
        }
    }

    /// Sets the time of the next reading of memory: soon after a change, and again while anything runs.
    pub(crate) fn plan_reading(&mut self, now_us: Micros) {
        let (Some(under), Some(memory)) = (&mut self.under, &self.memory) else { return };
        let stands = memory.bodies.values().any(|body| body.frozen);
        let growth = memory.growth();
        if !stands && growth == 0 && !memory.is_busy() {
            under.reading_us = None;
            return;
        }
        let full_us = memory.free().saturating_mul(SECOND).checked_div(growth).unwrap_or(u64::MAX);
        let most = if stands || memory.is_busy() { READING_SUSPENDED } else { READING_MAX };
        let least = if under.policy.memory_is_tight() { READING_TIGHT } else { READING_MIN };
        let in_us = (full_us / 8).clamp(least, most);
        let at_us = now_us + in_us;
        under.reading_us = Some(under.reading_us.filter(|&at| at > now_us).map_or(at_us, |at| at.min(at_us)));
    }

    fn read(&mut self, now_us: Micros) {
        let (Some(under), Some(memory)) = (&mut self.under, &self.memory) else { return };
        under.reading_us = None;
        let reading = |(&index, body): (&usize, &Body)| {
            let swapped_bytes = memory.swapped(body);
            JobMemory {
                job: id(index),
                resident_bytes: body.held.saturating_sub(swapped_bytes),
                swapped_bytes,
                cache_bytes: 0,
                waited_milli: None,
            }
        };
        let sample = MemorySample {
            available_bytes: memory.free(),
            swap_free_bytes: memory.swap_free(),
            swap_bytes_per_s: memory.measured_rate,
            stalled_milli: memory.stalled_milli(),
            jobs: memory.bodies.iter().map(reading).collect(),
        };
        self.deliver(Event::Memory(sample), now_us);
    }

    fn start(&mut self, index: usize, peak: u64) {
        self.parts.extend(self.waiting.remove(&index).map(|part| (index, part)));
        if let Some(memory) = &mut self.memory {
            memory.bodies.insert(index, Body { peak, ..Body::default() });
        }
        self.news.started.push(index);
    }

    /// Passes an event to the policy, and executes its decisions.
    fn deliver(&mut self, event: Event, now_us: Micros) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Some(under) = &mut self.under else { return };
            for decision in under.policy.step(clock(now_us), event) {
                events.extend(self.carry_out(decision, now_us));
            }
        }
    }

    /// Executes a decision; returns the resulting event for the policy.
    fn carry_out(&mut self, Decision { job, action, .. }: Decision, now_us: Micros) -> Option<Event> {
        let index = usize::try_from(job.0 - 1).ok()?;
        let under = self.under.as_mut()?;
        let part = self.parts.get_mut(&index).or(self.waiting.get_mut(&index))?;
        match action {
            Action::Start { class, cpus, priority } => {
                let work = Work {
                    left: ENDLESS,
                    duty_milli: part.busy_milli.into(),
                    threads: part.processors.into(),
                    stubborn: false,
                };
                under.world.advance(now_us);
                under.world.spawn(job, work, class, priority, cpus);
                under.plan_looks(now_us);
                self.start(index, 0);
                return Some(Event::Started(job));
            }
            Action::Bind { cpus } => {
                under.world.change(job, |container| container.cpus = cpus);
                under.plan_looks(now_us);
            }
            Action::Weigh { class, priority, even } => {
                under.world.change(job, |container| {
                    (container.class, container.priority, container.even) = (class, priority, even);
                });
                under.plan_looks(now_us);
            }
            Action::Freeze => {
                under.world.change(job, |container| container.frozen = true);
                under.plan_looks(now_us);
                part.frozen_us = Some(now_us);
                self.toll.freezes += 1;
                self.memory.as_mut()?.freeze(index);
            }
            Action::Thaw => {
                under.world.change(job, |container| container.frozen = false);
                under.plan_looks(now_us);
                self.toll.frozen_us += part.frozen_us.take().map_or(0, |since| now_us - since);
                self.memory.as_mut()?.thaw(index);
            }
            Action::PageOut { bytes } => self.memory.as_mut()?.page_out(index, bytes),
            Action::Drop { .. } => {
                self.waiting.remove(&index);
                self.parts.remove(&index);
                self.news.dropped.push(index);
            }
            // Not simulated: requeues, checkpoints, signals, and the place of memory.
            Action::Requeue | Action::Checkpoint | Action::Signal { .. } => {}
            Action::Slow { .. } | Action::Protect { .. } | Action::Near { .. } => {}
        }
        None
    }

    /// The jobs here that started.
    pub(crate) fn started(&self) -> impl Iterator<Item = usize> + '_ {
        self.parts.keys().copied()
    }

    /// Sets the part of its time in which a started job computes from now on.
    pub(crate) fn set_busy(&mut self, index: usize, busy_milli: u16, now_us: Micros) {
        let part = self.parts.get_mut(&index).filter(|part| part.busy_milli != busy_milli);
        let Some(part) = part else { return };
        part.busy_milli = busy_milli;
        if let Some(under) = &mut self.under {
            under.world.change(id(index), |container| container.work.duty_milli = busy_milli.into());
            under.plan_looks(now_us);
        }
    }

    /// Sets the peak of a started job.
    pub(crate) fn set_peak(&mut self, index: usize, job: &Job) {
        let (Some(part), Some(memory)) = (self.parts.get(&index), &mut self.memory) else { return };
        if let Some(body) = memory.bodies.get_mut(&index) {
            body.peak = peak(job, part.processors);
        }
    }
}

impl Under {
    fn plan_looks(&mut self, now_us: Micros) {
        if self.looks == 0 || self.look_us.is_none() {
            self.world.advance(now_us);
            self.world.take_busy_milli(1);
            self.world.take_idle_class_milli(1);
            self.looked_us = now_us;
        }
        self.looks = LOOKS;
        self.look_us.get_or_insert(now_us + SECOND);
    }

    /// The activity of the cores since the last reading.
    fn look(&mut self, now_us: Micros) -> Sample {
        self.world.advance(now_us);
        let elapsed_us = now_us - std::mem::replace(&mut self.looked_us, now_us);
        let busy = self.world.take_busy_milli(elapsed_us);
        let idle = |busy: u64| u16::try_from(1000 - busy.min(1000)).unwrap_or(0);
        let backfill = self.world.take_idle_class_milli(elapsed_us);
        self.looks -= 1;
        if self.looks > 0 {
            self.look_us = Some(now_us + SECOND);
        }
        Sample {
            idle_milli: busy.into_iter().map(idle).collect(),
            backfill_milli: u32::try_from(backfill).unwrap_or(u32::MAX),
            stalled_milli: Vec::new(),
        }
    }
}

fn clock(now_us: Micros) -> Instant {
    Instant(now_us.saturating_add(ORIGIN_US))
}

fn id(index: usize) -> JobId {
    JobId(index as u64 + 1)
}

/// The peak of a job on this many of its processors; its request if the peak is unknown.
fn peak(job: &Job, processors: u32) -> u64 {
    let each = if job.memory_peak > 0 { job.memory_peak } else { job.memory };
    each.saturating_mul(processors.into())
}

/// The class of a job: the same user and program on as many cores.
fn kind(job: &Job, processors: u32) -> Option<Kind> {
    (job.program > 0).then(|| Kind {
        user: u32::try_from(job.user % u64::from(u32::MAX)).unwrap_or(0),
        class: job.program.wrapping_mul(65_537).wrapping_add(processors.into()),
    })
}
