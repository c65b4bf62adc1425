//! The simulated daemon: feeds the judgement, writes its disk, carries actions out on the simulated host, and
//! crashes.
//!
//! Owns everything of an episode but its course. What is on the disk survives a crash; what the judgement
//! knows does not, and is built up again from the disk (what should be) and the host (what is).

use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::{
    Action, Adopted, Aside, Class, Decision, Event, Instant, JobId, JobInfo, Machine, Policy, Request,
    Running, Settings, State,
};
use pinfold_topo::synthetic::facts_of;
use pinfold_topo::{CpuSet, Topology};

use crate::checks::{Left, Scene, Stalled, Violation};
use crate::dice::Dice;
use crate::isolated::Alone;
use crate::ledger::{Ledger, Phase};
use crate::meddling::{Meddling, Write};
use crate::mutant::Mutant;
use crate::shrink::Only;
use crate::swarm::{Chaos, Options};
use crate::tally::{Fnv, name};
use crate::world::{Work, World};

/// The daemon's clock when the episode begins: far enough from 0 to be set back.
const CLOCK_ORIGIN_US: u64 = 1_000_000_000_000;

/// How long what is lent may take to come back, beside the time of a start: as long as someone who got a signal is left
/// alone, and as a failed action rests.
const OWED_MAX_US: u64 = 6_000_000;

/// The name of the set of cores that may be set aside.
pub(crate) const SET: &str = "s";

/// Something that will happen.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    /// A job is asked for.
    Arrive(JobId),
    /// A start, the so-many-th, is carried out.
    StartDone(JobId, u64),
    /// A freeze, the so-many-th, has taken effect.
    Frozen(JobId, u64),
    /// A job dies of a signal.
    Die(JobId),
    /// The daemon of this generation hears of something.
    Report(u64, Box<Event>),
    /// Readings are taken.
    Sample,
    /// A disturbance.
    Chaos,
    /// Cores are set aside, or others, or none.
    SetAside,
    /// The daemon looks whether there are cores for who waits to be isolated.
    KeepHouse,
    /// Another program writes to a job's group,
    Meddle,
    /// and insists.
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
    /// Its keeper noted that it began.
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
    /// For what was added later, so that the histories of older seeds stay as they are.
    pub(crate) more: Dice,
    pub(crate) options: Options,
    pub(crate) world: World,
    pub(crate) ledger: Ledger,
    pub(crate) settings: Settings,
    pub(crate) cores: Vec<CpuSet>,
    /// Cores that are set aside, none of them among `cores`.
    pub(crate) set: Vec<CpuSet>,
    /// How the cores lie, if not all alike.
    topology: Option<Topology>,
    /// Faults happen.
    pub(crate) chaos: bool,
    pub(crate) mutant: Option<Mutant>,
    /// What the episode is played with,
    pub(crate) only: Only,
    /// and how many disturbances there were, those left out included.
    pub(crate) upsets: u64,
    /// What is told of the history, if anyone listens.
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
    /// Failures the judgement has not heard of yet.
    unreported: BTreeMap<JobId, u32>,
    agenda: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    generation: u64,
    /// Since when jobs want what is their project's own and do not have it, in true time.
    owed_us: BTreeMap<JobId, u64>,
    /// What is left of the cores, as told.
    left: Left,
    /// Who waits for a core, as told.
    stalled: Stalled,
    /// What the clock shows beyond the origin and the true time.
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
            machine.asides.push(Aside { name, cores, topology: None, memory_bytes: 0 });
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

    /// The true time at which the judgement wants to be woken.
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

    /// The true time of what is due by the daemon's clock.
    pub(crate) fn true_us(&self, at: Instant) -> u64 {
        if at <= self.clock {
            return self.world.now_us();
        }
        self.world.now_us().saturating_add(at.0.saturating_sub(self.raw_clock()))
    }

    /// The daemon hears of something. Nothing while there is none.
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

    /// Tells the judgement of an event and carries out what it decides.
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
            *self.tally.entry(name(&decision.reason)).or_default() += 1;
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

    fn check(&mut self) -> Result<(), Violation> {
        let Some(policy) = self.policy.as_ref().filter(|_| !self.adopting) else { return Ok(()) };
        let turn = usize::try_from(self.decisions).unwrap_or(0);
        let owed = Scene {
            policy,
            ledger: &self.ledger,
            world: &self.world,
            settings: &self.settings,
            cores: &self.cores,
            set: &self.set,
            alone: &self.alone,
            watch: &self.meddling.watch,
            unreported: &self.unreported,
            now: self.clock,
            turn,
        }
        .check()?;
        let clock = self.has_true_clock();
        self.left.check(policy, &self.settings, self.cores.len(), self.clock, clock)?;
        Stalled::check(policy, &self.settings, self.cores.len())?;
        self.owed_not_long(owed)
    }

    /// Whether the daemon's clock goes like the true one.
    pub(crate) fn has_true_clock(&self) -> bool {
        !self.options.chaos.contains(&Chaos::Clock)
    }

    /// What is a project's own and is lent comes back within the time that a start and a signal may take.
    fn owed_not_long(&mut self, owed: BTreeSet<JobId>) -> Result<(), Violation> {
        let now_us = self.world.now_us();
        self.owed_us.retain(|job, _| owed.contains(job));
        for job in owed {
            let since_us = *self.owed_us.entry(job).or_insert(now_us);
            let bound_us = OWED_MAX_US + self.options.start_us;
            // Set back, the daemon's clock stands still until it is later than before.
            if self.has_true_clock() && now_us - since_us > bound_us {
                let found = format!("job {job} waits for it since {} us", now_us - since_us);
                return Err(Violation::new("what is lent comes back in time", found));
            }
        }
        Ok(())
    }

    /// Whoever starts does so inside its border.
    fn inside_its_border(&self, decision: &Decision) -> Result<(), Violation> {
        let Action::Start { class, cpus, .. } = &decision.action else { return Ok(()) };
        let request = self.ledger.jobs.get(&decision.job).map(|entry| &entry.request);
        let beside = request.filter(|request| request.aside.is_none() && *class != Class::Exclusive);
        let within = beside.and_then(|request| request.wish.as_deref()).map(|wish| &wish.within);
        let kept = self.settings.schedule && self.settings.affinity;
        match within.filter(|within| kept && !within.is_empty()) {
            Some(within) if !cpus.is_subset(within) => {
                let found = format!("{decision:?}, which may be on {within}");
                Err(Violation::new("whoever starts is inside its border", found))
            }
            _ => Ok(()),
        }
    }

    /// How much each primary waits for a core: more with a backfiller on it, as the judgement has them.
    pub(crate) fn stalled_milli(&mut self) -> Result<Vec<(JobId, u16)>, Violation> {
        let Some(policy) = &self.policy else { return Ok(Vec::new()) };
        let of = |class: Class| {
            let runs = move |info: &JobInfo| info.state == State::Running && info.class == Some(class);
            policy.jobs().filter(runs).collect::<Vec<JobInfo>>()
        };
        let (primaries, backfillers) = (of(Class::Primary), of(Class::Backfill));
        let beside = |one: &JobInfo| {
            let one = one.clone();
            backfillers.iter().filter(move |other| !other.cpus.is_disjoint(&one.cpus))
        };
        let noise = |job: JobId| {
            let turn = self.world.now_us() / 500_000;
            let noise = (job.0 * 7 + turn * 13) % (u64::from(self.options.noise_milli) + 1);
            u16::try_from(noise).unwrap_or(0)
        };
        let reading = |one: &JobInfo| {
            let stall = if beside(one).next().is_some() { self.options.stall_milli } else { 0 };
            (one.job, stall + noise(one.job))
        };
        let stalled: Vec<(JobId, u16)> = primaries.iter().map(reading).collect();
        // Those that may surely be frozen: lower than the primary, and nothing speaks against it.
        let now = Instant(self.raw_clock()).max(self.clock);
        let true_clock = self.has_true_clock();
        let scheduled = self.settings.schedule && self.settings.affinity && self.settings.backfill;
        let held_back = scheduled && self.settings.hold_back;
        let could = |job: JobId| {
            let Some(one) = primaries.iter().find(|one| one.job == job) else { return false };
            // Beside one that shares evenly it waits for its like.
            if beside(one).any(|other| self.ledger.jobs.get(&other.job).is_some_and(|entry| entry.even)) {
                return false;
            }
            let gives_way = |other: &&JobInfo| {
                let lower =
                    other.priority <= one.priority && (other.started, other.job) > (one.started, one.job);
                let entry = self.ledger.jobs.get(&other.job);
                lower
                    && entry.is_some_and(|entry| {
                        !entry.exempt(now) && !entry.may_be_aged(now) && entry.failed.is_empty()
                    })
            };
            let mine = |job: JobId| self.ledger.jobs.get(&job).is_some_and(|e| e.request.aside.is_none());
            true_clock
                && held_back
                && mine(job)
                && beside(one).any(|other| gives_way(&other) && mine(other.job))
        };
        let mut checked = std::mem::take(&mut self.stalled);
        let found = checked.told(&stalled, could, now, self.world.now_us());
        self.stalled = checked;
        found.map(|()| stalled)
    }

    /// What the daemon writes to its disk before it lets the judgement look at an event.
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
            | Event::Others(_)
            | Event::Memory(_)
            | Event::Nodes(_)
            | Event::Learned(..)
            | Event::Ran(_)
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

    fn carry_out(&mut self, decision: Decision) {
        let Decision { job, action, .. } = decision;
        let kind = match action {
            Action::Start { .. } => 0,
            Action::Bind { .. } => 1,
            Action::Weigh { .. } => 2,
            Action::Freeze => 3,
            Action::Thaw => 4,
            Action::Signal { .. } => 5,
            // This host has no memory: see `pressure`.
            Action::PageOut { .. }
            | Action::Checkpoint
            | Action::Requeue
            | Action::Slow { .. }
            | Action::Protect { .. }
            | Action::Near { .. } => return,
            Action::Drop { .. } => {
                self.disk.remove(&job);
                return;
            }
        };
        let fails = self.chaos && self.dice.chance(self.options.fail_permille[kind]);
        // A failure is sometimes reported although the kernel did it.
        self.is_meant(job, &action, !fails);
        if !fails || (kind != 0 && self.dice.chance(300)) {
            self.apply(job, &action, fails);
        } else if let Action::Start { .. } = action {
            self.fail_start(job);
        }
        if fails {
            let error = "simulated failure".to_owned();
            let started = matches!(action, Action::Start { .. });
            let gives_up = started && self.dice.chance(200);
            let in_us = self.dice.between(0, 1000);
            self.report(in_us, Event::Failed { job, action, error });
            if gives_up {
                self.report(in_us, Event::Exited(job));
            }
        }
    }

    /// What the daemon of an earlier generation was to hear, nobody hears.
    pub(crate) fn deliver_report(&mut self, generation: u64, event: Event) -> Result<(), Violation> {
        if generation != self.generation {
            return Ok(());
        }
        if let Event::Failed { job, .. } = &event
            && let Some(count) = self.unreported.get_mut(job)
        {
            *count -= 1;
        }
        self.deliver(event)
    }

    fn report(&mut self, in_us: u64, event: Event) {
        if let Event::Failed { job, .. } = &event {
            *self.unreported.entry(*job).or_default() += 1;
        }
        self.plan(in_us, Happening::Report(self.generation, Box::new(event)));
    }

    fn fail_start(&mut self, job: JobId) {
        if let Some(record) = self.disk.get_mut(&job) {
            record.started = None;
        }
    }

    fn apply(&mut self, job: JobId, action: &Action, reported_failed: bool) {
        self.sequence += 1;
        let token = self.sequence;
        match action {
            Action::Start { class, cpus, priority } => {
                let clock = self.clock;
                if let Some(record) = self.disk.get_mut(&job) {
                    record.started = Some(clock);
                }
                let start = Start { token, class: *class, cpus: cpus.clone(), priority: *priority };
                self.starting.insert(job, start);
                let in_us = self.dice.between(0, self.options.start_us);
                self.plan(in_us, Happening::StartDone(job, token));
            }
            Action::Bind { cpus } => self.world.change(job, |container| container.cpus = cpus.clone()),
            Action::Weigh { class, priority, even } => self.world.change(job, |container| {
                (container.class, container.priority, container.even) = (*class, *priority, *even);
            }),
            Action::Freeze => {
                let in_us = self.dice.between(0, self.options.freeze_us);
                self.world.change(job, |container| container.freezing = Some(token));
                self.plan(in_us, Happening::Frozen(job, token));
            }
            Action::Thaw => self.world.change(job, |container| {
                (container.frozen, container.freezing) = (false, None);
            }),
            Action::Signal { .. } => {
                let container = self.world.containers.get(&job);
                let dies = container.is_some_and(|c| !c.frozen && !c.work.stubborn) && !reported_failed;
                if dies {
                    let in_us = self.dice.between(0, 200_000);
                    self.plan(in_us, Happening::Die(job));
                }
            }
            Action::Drop { .. }
            | Action::PageOut { .. }
            | Action::Checkpoint
            | Action::Requeue
            | Action::Slow { .. }
            | Action::Protect { .. }
            | Action::Near { .. } => {}
        }
    }

    /// A start's answer is due.
    pub(crate) fn start_done(&mut self, job: JobId, token: u64) -> Result<(), Violation> {
        if self.starting.get(&job).is_some_and(|start| start.token == token) {
            self.spawn(job);
            self.deliver(Event::Started(job))?;
        }
        Ok(())
    }

    fn spawn(&mut self, job: JobId) {
        let (Some(start), Some((_, work))) = (self.starting.remove(&job), self.works.get(&job)) else {
            return;
        };
        self.world.spawn(job, work.clone(), start.class, start.priority, start.cpus);
        self.remember(job);
        if let Some(record) = self.disk.get_mut(&job) {
            record.spawned = true;
        }
    }

    /// The keeper of a job dies, or the job itself.
    pub(crate) fn lose_keeper(&mut self, job: JobId) -> Result<(), Violation> {
        let running = self.world.containers.contains_key(&job);
        if running {
            self.world.end(job);
            return Ok(());
        }
        if !self.is_up() {
            // The next daemon finds nobody who asks for the job.
            if self.disk.remove(&job).is_some() {
                self.ledger.over(job);
            }
            return Ok(());
        }
        if self.dice.chance(500) {
            return self.deliver(Event::Withdrawn(job));
        }
        self.deliver(Event::Exited(job))
    }

    /// The daemon is gone, with all it knew; a new one comes.
    pub(crate) fn crash(&mut self) {
        self.tell(|| "the daemon is killed".to_owned());
        self.crashes += 1;
        self.policy = None;
        self.generation += 1;
        self.unreported.clear();
        self.owed_us.clear();
        self.left = Left::default();
        self.stalled = Stalled::default();
        self.meddling.restart();
        // A start that was under way happens or does not.
        let starting: Vec<JobId> = self.starting.keys().copied().collect();
        for job in starting {
            if self.dice.chance(500) {
                self.spawn(job);
            } else {
                self.starting.remove(&job);
            }
        }
        let in_us = self.dice.between(0, 2_000_000);
        self.plan(in_us, Happening::Up);
    }

    /// A daemon starts: it reads its disk, looks at the host, and tells a new judgement.
    pub(crate) fn start_up(&mut self) -> Result<(), Violation> {
        // Nothing binds the clock to what the last daemon saw of it.
        self.clock = Instant(self.raw_clock());
        self.policy = Some(Policy::default());
        self.adopting = true;
        let found = self.take_stock();
        let settings = self.settings.clone();
        let heard = self.mutant.map_or_else(|| settings.clone(), |mutant| mutant.hear(settings.clone()));
        let unswallowed = self.mutant.take();
        self.deliver(Event::Configure(heard))?;
        self.deliver(Event::Machine(self.machine()))?;
        self.mutant = unswallowed;
        for adopted in found {
            self.deliver(Event::Adopt(adopted))?;
        }
        let running: Vec<JobId> = self.world.containers.keys().copied().collect();
        running.into_iter().for_each(|job| self.remember(job));
        self.adopting = false;
        self.restore_isolation()?;
        self.deliver(Event::Tick)
    }

    /// Whether the daemon has a job on its disk.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.disk.contains_key(&job)
    }

    /// What the disk and the host say of each job, the ledger put right accordingly.
    fn take_stock(&mut self) -> Vec<Adopted> {
        let now = self.clock;
        let world = &self.world;
        self.disk.retain(|job, record| !record.spawned || world.containers.contains_key(job));
        self.world.ended.clear();
        let mut found = Vec::new();
        let ended: Vec<JobId> =
            self.ledger.jobs.keys().filter(|job| !self.disk.contains_key(job)).copied().collect();
        ended.into_iter().for_each(|job| self.ledger.over(job));
        for (&job, record) in &mut self.disk {
            if self.ledger.over.remove(&job) {
                // It was struck off, and the daemon died before that was on the disk.
                self.ledger.submitted(record.request.clone(), record.submitted);
            }
            let Some(entry) = self.ledger.jobs.get_mut(&job) else { continue };
            let container = self.world.containers.get(&job);
            entry.request = record.request.clone();
            entry.failed.clear();
            (entry.grace, entry.slotless, entry.aged) = (None, false, false);
            entry.held_back = None;
            let running = container.map(|container| {
                // A freeze under way counts as done: it will be.
                let frozen = container.frozen || container.freezing.is_some();
                (entry.phase, entry.class, entry.cpus) =
                    (Phase::Running, container.class, container.cpus.clone());
                entry.even = container.even;
                (entry.frozen, entry.suspended, entry.since) = (frozen, record.suspended, now);
                entry.started = record.started.unwrap_or_default();
                Running {
                    started: entry.started,
                    class: container.class,
                    cpus: container.cpus.clone(),
                    frozen,
                    suspended: record.suspended,
                }
            });
            if running.is_none() {
                // Its start was lost; whoever was to be suspended then is held now.
                record.request.held |= std::mem::take(&mut record.suspended);
                record.started = None;
                (entry.phase, entry.held, entry.since) =
                    (Phase::Waiting, record.request.held, record.submitted);
                (entry.suspended, entry.frozen) = (false, false);
            }
            let request = record.request.clone();
            found.push(Adopted { request, submitted: record.submitted, running });
        }
        found
    }
}
