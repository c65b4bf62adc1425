//! The simulated daemon: feeds the policy, writes its disk, carries actions out on the simulated host, and crashes.
//!
//! Owns the state of an episode, but not its course. The disk survives a crash; the policy does not, and is rebuilt from the
//! disk (wanted state) and the host (actual state).
//!
//! `actions`, `restart`, `isolated`, `meddling` (another writer), `promises` (checked after each step).

mod actions;
mod isolated;
mod meddling;
mod promises;
mod restart;

use std::collections::BTreeMap;

use pinfold_policy::{
    Action, Aside, Class, Event, Instant, JobId, Machine, Policy, Request, Settings, State,
};
use pinfold_topo::synthetic::facts_of;
use pinfold_topo::{CpuSet, Topology};

use crate::alone::Alone;
use crate::checks::{Left, Stalled};
use crate::dice::Dice;
use crate::ledger::Ledger;
use crate::mutant::Mutant;
use crate::only::Only;
use crate::swarm::Options;
use crate::tally::Fnv;
use crate::violation::Violation;
use crate::world::{Work, World};

use meddling::{Meddling, Write};

/// The daemon's clock when the episode begins: far enough from 0 to be set back.
const CLOCK_ORIGIN_US: u64 = 1_000_000_000_000;

/// The name of the set of cores.
pub(crate) const SET: &str = "s";

/// A scheduled event.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    /// A job is submitted.
    Arrive(JobId),
    /// A start, the so-many-th, is carried out.
    StartDone(JobId, u64),
    /// A freeze, the so-many-th, has taken effect.
    Frozen(JobId, u64),
    /// A job dies of a signal.
    Die(JobId),
    /// A report to the daemon of this generation.
    Report(u64, Box<Event>),
    /// Readings are taken.
    Sample,
    /// A disturbance.
    Chaos,
    /// The set of cores changes.
    SetAside,
    /// The daemon looks for cores for the jobs that wait to be isolated.
    KeepHouse,
    /// Another program writes to a job's group.
    Meddle,
    /// A program that insists writes once more.
    Insist(Write),
    /// A new daemon starts.
    Up,
}

/// A job on the disk.
#[derive(Debug, Clone)]
struct Record {
    request: Request,
    submitted: Instant,
    started: Option<Instant>,
    suspended: bool,
    /// Its keeper recorded its start.
    spawned: bool,
}

/// A start that is under way.
#[derive(Debug, Clone)]
struct Start {
    token: u64,
    class: Class,
    cpus: CpuSet,
    priority: u8,
}

/// A host with its daemon.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) dice: Dice,
    /// For later features, so that the histories of older seeds stay.
    pub(crate) more: Dice,
    pub(crate) options: Options,
    pub(crate) world: World,
    pub(crate) ledger: Ledger,
    pub(crate) settings: Settings,
    pub(crate) cores: Vec<CpuSet>,
    /// The cores of the set, none of them among `cores`.
    pub(crate) set: Vec<CpuSet>,
    /// The topology of the cores, if not all alike.
    topology: Option<Topology>,
    /// Faults happen.
    pub(crate) chaos: bool,
    pub(crate) mutant: Option<Mutant>,
    /// The part of the episode that is played.
    pub(crate) only: Only,
    /// The number of disturbances, left-out disturbances included.
    pub(crate) upsets: u64,
    /// The lines of the history, if it is kept.
    pub(crate) trace: Option<Vec<String>>,
    pub(crate) works: BTreeMap<JobId, (Request, Work)>,
    pub(crate) crashes: u64,
    pub(crate) decisions: u64,
    pub(crate) hash: Fnv,
    pub(crate) tally: BTreeMap<&'static str, u64>,
    /// Jobs that are to have cores to themselves.
    pub(crate) alone: Alone,
    /// Other programs that write to jobs' groups.
    pub(crate) meddling: Meddling,
    pub(crate) policy: Option<Policy>,
    pub(crate) adopting: bool,
    disk: BTreeMap<JobId, Record>,
    starting: BTreeMap<JobId, Start>,
    /// Failures not yet reported to the policy.
    unreported: BTreeMap<JobId, u32>,
    agenda: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    generation: u64,
    /// Since when each job waits for a share that its project owns, in true time.
    owed_us: BTreeMap<JobId, u64>,
    /// The idle part of the cores, by the samples.
    left: Left,
    /// Jobs that wait for a core, by the samples.
    stalled: Stalled,
    /// The clock's offset beyond the origin and the true time, in us.
    offset_us: i64,
    pub(crate) clock: Instant,
}

impl Host {
    pub(crate) fn new(dice: Dice, more: Dice, options: Options, mutant: Option<Mutant>) -> Self {
        let machine = options.machine.as_deref().and_then(|text| facts_of(text).ok()?.assemble().ok());
        let world = match &machine {
            Some(machine) => World::with(machine.cores_within(&machine.usable())),
            None => World::new(options.cores, options.pus_per_core),
        };
        Self {
            settings: options.settings.clone(),
            cores: world.cores().to_vec(),
            alone: Alone::new(world.cores()),
            meddling: Meddling::new(options.meddle_seed),
            set: Vec::new(),
            topology: machine,
            dice,
            more,
            options,
            world,
            ledger: Ledger::default(),
            chaos: true,
            mutant,
            only: Only::default(),
            upsets: 0,
            trace: None,
            works: BTreeMap::new(),
            crashes: 0,
            decisions: 0,
            hash: Fnv::default(),
            tally: BTreeMap::new(),
            policy: None,
            adopting: false,
            disk: BTreeMap::new(),
            starting: BTreeMap::new(),
            unreported: BTreeMap::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            generation: 0,
            owed_us: BTreeMap::new(),
            left: Left::default(),
            stalled: Stalled::default(),
            offset_us: 0,
            clock: Instant::default(),
        }
    }

    /// The machine as the daemon finds it.
    pub(crate) fn machine(&self) -> Machine {
        let all: CpuSet = self.cores.iter().flat_map(CpuSet::iter).collect();
        let mut machine = match &self.topology {
            Some(topology) => Machine::of(topology, &all),
            None => Machine::flat(self.cores.clone()),
        };
        if !self.set.is_empty() {
            let (name, cores) = (SET.to_owned(), self.set.clone());
            machine.asides.push(Aside { name, cores, ..Aside::default() });
        }
        self.isolated_in(&mut machine);
        machine
    }

    /// Whether the daemon runs.
    pub(crate) fn is_up(&self) -> bool {
        self.policy.is_some()
    }

    pub(crate) fn plan(&mut self, in_us: u64, happening: Happening) {
        self.sequence += 1;
        self.agenda.insert((self.world.now_us().saturating_add(in_us), self.sequence), happening);
    }

    pub(crate) fn next_planned_us(&self) -> Option<u64> {
        self.agenda.first_key_value().map(|(&(at, _), _)| at)
    }

    pub(crate) fn take_planned(&mut self) -> Option<Happening> {
        self.agenda.pop_first().map(|(_, happening)| happening)
    }

    /// The true time at which the policy wants to be woken.
    pub(crate) fn wakeup_us(&self) -> Option<u64> {
        Some(self.true_us(self.policy.as_ref()?.next_wakeup()?))
    }

    /// Sets the clock forth or back.
    pub(crate) fn set_clock(&mut self, by_us: i64) {
        self.offset_us = self.offset_us.saturating_add(by_us);
    }

    pub(crate) fn raw_clock(&self) -> u64 {
        (CLOCK_ORIGIN_US + self.world.now_us()).saturating_add_signed(self.offset_us)
    }

    /// The true time of a moment by the daemon's clock.
    pub(crate) fn true_us(&self, at: Instant) -> u64 {
        if at <= self.clock {
            return self.world.now_us();
        }
        self.world.now_us().saturating_add(at.0.saturating_sub(self.raw_clock()))
    }

    /// Reports an event to the daemon. No effect without a daemon.
    pub(crate) fn deliver(&mut self, event: Event) -> Result<(), Violation> {
        let turns = matches!(
            event,
            Event::Submit(_)
                | Event::Command(..)
                | Event::Machine(_)
                | Event::Exited(_)
                | Event::Withdrawn(_)
        );
        self.step(event)?;
        self.end_isolation()?;
        if turns { self.isolate_waiting() } else { Ok(()) }
    }

    /// Passes an event to the policy and executes its decisions.
    pub(crate) fn step(&mut self, event: Event) -> Result<(), Violation> {
        if self.policy.is_none() {
            return Ok(());
        }
        self.clock = self.clock.max(Instant(self.raw_clock()));
        let now = self.clock;
        self.tell(|| format!("{} {event:?}", now.0));
        self.write_down(&event);
        self.ledger.passed(now);
        if self.mutant.is_some_and(|mutant| mutant.swallows(&event)) {
            return self.check();
        }
        let event = match self.mutant {
            Some(mutant) => mutant.hear_event(event),
            None => event,
        };
        let Some(policy) = &mut self.policy else { return Ok(()) };
        let mut decisions = policy.step(now, event);
        if let Some(mutant) = self.mutant {
            mutant.twist(&mut decisions, &self.ledger);
        }
        for decision in decisions {
            self.decisions += 1;
            *self.tally.entry(decision.reason.code()).or_default() += 1;
            self.hash.add(now, &decision);
            self.tell(|| format!("  {} {:?}: {}", decision.job, decision.action, decision.reason));
            self.ledger.decided(&decision, now)?;
            self.stalled.decided(&decision, &self.settings)?;
            self.inside_its_border(&decision)?;
            if self.chaos && self.dice.chance(self.options.crash_permille) {
                self.crash();
                return Ok(());
            }
            self.carry_out(decision);
        }
        self.check()
    }

    pub(crate) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    /// Writes to the daemon's disk, before the policy sees an event.
    fn write_down(&mut self, event: &Event) {
        let now = self.clock;
        match event {
            Event::Submit(request) => {
                self.ledger.submitted(request.clone(), now);
                let record = Record {
                    request: request.clone(),
                    submitted: now,
                    started: None,
                    suspended: false,
                    spawned: false,
                };
                self.disk.insert(request.job, record);
            }
            Event::Started(job) => self.ledger.started(*job, now),
            Event::Failed { job, action, .. } => {
                self.ledger.failed(*job, action, now);
                if let (Action::Start { .. }, Some(record)) = (action, self.disk.get_mut(job)) {
                    record.started = None;
                }
                self.copy_to_disk(*job);
            }
            Event::Exited(job) => {
                self.ledger.over(*job);
                self.disk.remove(job);
                self.starting.remove(job);
            }
            Event::Command(job, command) => {
                let state = self.policy.as_ref().and_then(|policy| policy.job(*job)).map(|info| info.state);
                let out = matches!(state, Some(State::Frozen { .. }));
                self.ledger.commanded(*job, *command, out, now);
                self.copy_to_disk(*job);
            }
            Event::Sample(sample) => self.left.told(sample, now),
            Event::Configure(settings) => {
                self.stalled.configured();
                if !settings.hold_back {
                    self.ledger.jobs.values_mut().for_each(|entry| entry.held_back = None);
                }
            }
            Event::Machine(_)
            | Event::Adopt(_)
            | Event::Gate { .. }
            | Event::Withdrawn(_)
            | Event::Requeued(_)
            | Event::Checkpointed { .. }
            | Event::Memory(_)
            | Event::Nodes(_)
            | Event::Learned(..)
            | Event::Ran(_)
            | Event::Others(_)
            | Event::Idle(_)
            | Event::Tick => {}
        }
    }

    fn copy_to_disk(&mut self, job: JobId) {
        if let (Some(record), Some(entry)) = (self.disk.get_mut(&job), self.ledger.jobs.get(&job)) {
            record.request.priority = entry.request.priority;
            record.request.held = entry.held;
            record.suspended = entry.suspended;
        }
    }
}
