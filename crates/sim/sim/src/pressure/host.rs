//! The simulated daemon of an episode under pressure: passes readings to the policy, executes its decisions, learns from
//! ended jobs, and crashes.
//!
//! Owns everything of an episode but its course.

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_policy::claims::{Claims, Peak};
use pinfold_policy::{
    Action, Adopted, Class, Decision, Event, Instant, JobId, Kind, Machine, MemoryReason, Policy, Reason,
    Request, Running,
};
use pinfold_topo::{CpuSet, PuOs};

use crate::dice::Dice;
use crate::only::Only;
use crate::pressure::books::Books;
use crate::pressure::mutant::Mutant;
use crate::pressure::options::{Options, Regime};
use crate::pressure::readings::RELAXED_US;
use crate::pressure::shares::Owed;
use crate::pressure::world::{TICK_US, World};
use crate::tally::Fnv;
use crate::violation::Violation;

const CLOCK_ORIGIN_US: u64 = 1_000_000_000_000;
/// The size in swap above which the pager reads a job back, as the daemon has it.
const FETCH_BYTES: u64 = 4 << 20;
/// The longest time for the processes of a killed job to vanish.
const EMPTIES_US: u64 = 300_000;
/// The longest checkpoint, and the frequency of its failures.
const CHECKPOINT_US: u64 = 20_000_000;
const CHECKPOINT_FAILS_PERMILLE: u32 = 300;
/// The most failures of a job's freeze or thaw in a row: then it works, so that further delay is the policy's alone.
const FAILS_MAX: u32 = 3;

/// A scheduled event.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    /// A job is submitted.
    Arrive(JobId),
    /// A start is carried out.
    StartDone(JobId),
    /// A report to the daemon of this generation.
    Report(u64, Box<Event>),
    /// The processes of a job that was ended to begin anew are gone.
    Emptied(JobId),
    /// The daemon is killed.
    Crash,
    /// A new daemon starts.
    Up,
    /// A user suspends some job,
    Suspend,
    /// and resumes it.
    Resume(JobId),
    /// An operator changes the bound on all jobs.
    Budget,
}

/// A host with its daemon.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) dice: Dice,
    pub(crate) options: Options,
    pub(crate) world: World,
    pub(crate) books: Books,
    pub(crate) mutant: Option<Mutant>,
    /// The part of the episode that is played,
    pub(crate) only: Only,
    /// and the number of disturbances, left-out disturbances included.
    pub(crate) upsets: u64,
    /// The bound on all jobs at the start.
    pub(crate) budget_bytes: u64,
    pub(crate) trace: Option<Vec<String>>,
    pub(crate) hash: Fnv,
    pub(crate) decisions: u64,
    pub(crate) crashes: u64,
    pub(crate) tally: BTreeMap<&'static str, u64>,
    pub(crate) policy: Option<Policy>,
    /// The token holder's paged-out memory when it got the token.
    pub(crate) token_paged: Option<(JobId, u64)>,
    /// The moment since which each job is suspended in the world against its wanted state, or runs against it.
    pub(crate) astray: BTreeMap<JobId, u64>,
    /// Jobs that wait for their project's own memory.
    pub(crate) owed: Owed,
    /// The daemon died while a job was suspended that swap does not take: all run then, which no job counted with.
    pub(crate) exposed: bool,
    /// The time for which users suspended jobs, and the time to move their memory out and back, in microseconds.
    pub(crate) suspended_us: u64,
    /// The serial bound on the end of the last job.
    pub(crate) serial_us: u64,
    claims: Claims,
    /// The peaks of ended jobs, as they are on the disk.
    history: Vec<(Kind, JobId, Peak, Option<u64>)>,
    requests: BTreeMap<JobId, (Request, Instant, Option<Instant>)>,
    starting: BTreeMap<JobId, Class>,
    /// Failures in a row of each job's last freeze or thaw.
    failed: BTreeMap<JobId, u32>,
    agenda: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    pub(super) generation: u64,
    pub(super) read_us: u64,
    pub(super) due_us: Option<u64>,
    pub(super) readings: u64,
    pub(super) stalled_us: u64,
}

impl Host {
    pub(crate) fn new(dice: Dice, options: Options, serial_us: u64, mutant: Option<Mutant>) -> Self {
        let world = World::new(options.hardware.clone());
        let budget_bytes = options.settings.memory.budget_bytes;
        let history = options
            .history
            .iter()
            .map(|&(kind, peak)| (Kind::of(kind), JobId(0), Peak::of(peak << 10), None))
            .collect();
        Self {
            dice,
            world,
            books: Books::new(options.settings.clone()),
            options,
            mutant,
            trace: None,
            only: Only::default(),
            upsets: 0,
            budget_bytes,
            hash: Fnv::default(),
            decisions: 0,
            crashes: 0,
            tally: BTreeMap::new(),
            policy: None,
            token_paged: None,
            astray: BTreeMap::new(),
            owed: Owed::default(),
            exposed: false,
            suspended_us: 0,
            serial_us,
            claims: Claims::default(),
            history,
            requests: BTreeMap::new(),
            starting: BTreeMap::new(),
            failed: BTreeMap::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            generation: 0,
            read_us: 0,
            due_us: None,
            readings: 0,
            stalled_us: 0,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant(CLOCK_ORIGIN_US + self.world.now_us())
    }

    pub(crate) fn plan(&mut self, in_us: u64, happening: Happening) {
        self.sequence += 1;
        self.agenda.insert((self.world.now_us() + in_us, self.sequence), happening);
    }

    /// The next due event.
    pub(crate) fn take_due(&mut self) -> Option<Happening> {
        let entry = self.agenda.first_entry()?;
        (entry.key().0 <= self.world.now_us()).then(|| entry.remove())
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    /// Passes an event to the policy and executes its decisions. No effect without a daemon.
    pub(crate) fn deliver(&mut self, event: Event) -> Result<(), Violation> {
        if self.policy.is_none() {
            return Ok(());
        }
        let now = self.now();
        self.tell(|| {
            format!("{:.2} {event:?}", Duration::from_micros(now.0 - CLOCK_ORIGIN_US).as_secs_f64())
        });
        match &event {
            Event::Memory(sample) => self.books.measured(sample, now),
            Event::Learned(kind, claim) => {
                self.books.learned.insert(*kind, *claim);
            }
            _ => {}
        }
        let heard = match self.mutant {
            Some(mutant) => mutant.hear(event, self.readings),
            None => Some(event),
        };
        let (Some(event), Some(policy)) = (heard, &mut self.policy) else { return Ok(()) };
        let mut decisions = policy.step(now, event);
        if let Some(mutant) = self.mutant {
            mutant.twist(&mut decisions, &self.books);
        }
        if let Some(policy) = &self.policy {
            self.books.note_cold(policy, now)?;
            self.books.note_parts(policy)?;
        }
        for decision in decisions {
            self.decisions += 1;
            self.hash.add(now, &decision);
            self.tell(|| format!("  {} {:?}: {}", decision.job, decision.action, decision.reason));
            *self.tally.entry(name(&decision.action)).or_default() += 1;
            self.books.decided(&decision, now)?;
            self.carry_out(decision);
        }
        if let Some(policy) = &self.policy {
            self.books.check_step(policy, now)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, Decision { job, action, reason }: Decision) {
        let may_fail = matches!(action, Action::Freeze | Action::Thaw | Action::Slow { .. });
        let failed = if may_fail { self.failed.remove(&job).unwrap_or(0) } else { 0 };
        if may_fail && self.dice.chance(self.options.fail_permille) && failed < FAILS_MAX {
            self.failed.insert(job, failed + 1);
            let generation = self.generation;
            let error = "simulated failure".to_owned();
            if matches!(action, Action::Slow { allowance: Some(_) }) {
                self.books.not_slowed(job);
            }
            let failed = Event::Failed { job, action, error };
            self.plan(1000, Happening::Report(generation, Box::new(failed)));
            return;
        }
        match action {
            Action::Start { class, .. } => {
                self.starting.insert(job, class);
                if let Some(request) = self.requests.get_mut(&job) {
                    request.2 = Some(Instant(CLOCK_ORIGIN_US + self.world.now_us()));
                }
                let in_us = self.dice.between(0, self.options.start_us);
                self.plan(in_us, Happening::StartDone(job));
            }
            Action::Weigh { class, .. } => {
                if let Some(body) = self.world.bodies.get_mut(&job) {
                    body.backfills = class == Class::Backfill;
                }
            }
            Action::Freeze => {
                let at = self.world.now_us() + self.dice.between(0, self.options.freeze_us);
                if let Some(body) = self.world.bodies.get_mut(&job) {
                    body.freezes_at = Some(at);
                }
            }
            Action::Thaw => {
                if let Some(body) = self.world.bodies.get_mut(&job) {
                    (body.frozen, body.freezes_at) = (false, None);
                }
                self.fetch(job);
            }
            Action::PageOut { bytes } => self.world.page_out(job, bytes >> 10),
            Action::Slow { allowance } => {
                let (now, mut runs) = (self.world.now_us(), false);
                if let Some(body) = self.world.bodies.get_mut(&job) {
                    runs = !body.frozen && body.freezes_at.is_none();
                    body.high = allowance.map(|bytes| body.resident + (bytes >> 10));
                    body.slowed_us = allowance.map(|_| now);
                    body.bound_ticks = 0;
                }
                if allowance.is_none() && runs {
                    self.fetch(job);
                }
            }
            Action::Protect { bytes } => {
                if let Some(body) = self.world.bodies.get_mut(&job) {
                    body.protected = bytes >> 10;
                }
            }
            Action::Checkpoint => self.write_checkpoint(job),
            Action::Requeue => {
                if let Some((request, ..)) = self.requests.get_mut(&job)
                    && reason != Reason::Memory(MemoryReason::Checkpointed)
                {
                    request.requeues += 1;
                }
                let in_us = self.dice.between(0, EMPTIES_US);
                self.plan(in_us, Happening::Emptied(job));
            }
            Action::Bind { .. } | Action::Signal { .. } | Action::Drop { .. } | Action::Near { .. } => {}
        }
    }

    /// Reads a resuming job's memory back from swap, as the daemon does.
    fn fetch(&mut self, job: JobId) {
        let info = self.policy.as_ref().and_then(|policy| policy.job(job));
        if info.is_some_and(|info| info.swapped_bytes - info.cold_bytes >= FETCH_BYTES) {
            self.world.fetch(job);
        }
    }

    fn write_checkpoint(&mut self, job: JobId) {
        if let Some(body) = self.world.bodies.get_mut(&job) {
            (body.frozen, body.freezes_at) = (false, None);
        }
        let error = self.dice.chance(CHECKPOINT_FAILS_PERMILLE).then(|| "simulated failure".to_owned());
        let in_us = self.dice.between(0, CHECKPOINT_US);
        let told = Event::Checkpointed { job, error };
        self.plan(in_us, Happening::Report(self.generation, Box::new(told)));
    }

    pub(crate) fn arrive(&mut self, job: JobId) -> Result<(), Violation> {
        let Some(request) = self.request(job) else { return Ok(()) };
        let now = self.now();
        self.requests.insert(job, (request.clone(), now, None));
        self.books.submitted(request.clone(), None, now);
        self.deliver(Event::Submit(request))
    }

    fn request(&self, job: JobId) -> Option<Request> {
        let task = self.options.tasks.get(usize::try_from(job.0 - 1).ok()?)?;
        Some(Request {
            priority: task.priority,
            cores: task.plan.width,
            no_suspend: task.no_suspend,
            requeue: task.requeue,
            checkpoint: task.checkpoint.then(|| Duration::from_micros(CHECKPOINT_US)),
            memory: task.asked.map(|kib| kib << 10),
            kind: task.kind.map(Kind::of),
            project: task.project.map(str::to_owned),
            ..Request::plain(job)
        })
    }

    fn spawn(&mut self, job: JobId) -> bool {
        let Some(class) = self.starting.remove(&job) else { return false };
        let task = usize::try_from(job.0 - 1).ok().and_then(|index| self.options.tasks.get(index));
        if let Some(task) = task {
            self.world.spawn(job, task.plan.clone(), class == Class::Backfill);
        }
        true
    }

    pub(crate) fn start_done(&mut self, job: JobId) -> Result<(), Violation> {
        if self.spawn(job) { self.deliver(Event::Started(job)) } else { Ok(()) }
    }

    /// Removes a job that was killed for a requeue, if it did not end before.
    pub(crate) fn emptied(&mut self, job: JobId) -> Result<(), Violation> {
        let Some(body) = self.world.bodies.remove(&job) else { return Ok(()) };
        let Some((request, _, started)) = self.requests.get_mut(&job) else { return Ok(()) };
        *started = None;
        // The longest rest, for how often it was ended after a checkpoint is not counted here.
        let rest_us = if request.checkpoint.is_some() { 40_000_000 } else { 5_000_000 << request.requeues };
        self.serial_us += body.plan.alone_us(TICK_US) + self.options.start_us + rest_us;
        self.books.requeued(job);
        self.deliver(Event::Requeued(job))
    }

    pub(crate) fn report(&mut self, generation: u64, event: Event) -> Result<(), Violation> {
        if generation == self.generation { self.deliver(event) } else { Ok(()) }
    }

    /// Ends a job: the policy first learns its class's need.
    pub(crate) fn finish(&mut self, job: JobId, peak: u64) -> Result<(), Violation> {
        let lost = self.world.lost.contains(&job);
        let Some((request, ..)) = self.requests.remove(&job) else {
            return Err(Violation::new("a job ends once", format!("job {job}")));
        };
        if let Some(kind) = request.kind.filter(|_| !lost) {
            let held = self.policy.as_ref().and_then(|policy| policy.job(job));
            let held_bytes = (peak << 10).max(held.as_ref().map_or(0, |info| info.memory_peak_bytes));
            // Memory that no reading showed cold counts as needed.
            let cold = held.map_or(0, |info| info.memory_peak_bytes - info.memory_need_bytes);
            let peak = Peak { held_bytes, needed_bytes: held_bytes - cold };
            self.history.push((kind, job, peak, request.memory));
            let claim = self.claims.ended(kind, job, peak, request.memory);
            self.deliver(Event::Learned(kind, claim))?;
        }
        self.books.over(job)?;
        self.deliver(Event::Exited(job))
    }

    /// Kills the daemon; its guard thaws all jobs.
    pub(crate) fn crash(&mut self) {
        self.tell(|| "the daemon is killed".to_owned());
        self.crashes += 1;
        self.policy = None;
        self.generation += 1;
        self.world.forget_orders();
        let stands = self.world.bodies.values().any(|body| body.frozen || body.freezes_at.is_some());
        self.exposed |= stands && self.options.regime != Regime::Ample;
        for body in self.world.bodies.values_mut() {
            (body.frozen, body.freezes_at) = (false, None);
            (body.high, body.slowed_us, body.protected) = (None, None, 0);
        }
        for job in self.starting.keys().copied().collect::<Vec<_>>() {
            if self.dice.chance(500) {
                self.spawn(job);
            } else {
                self.starting.remove(&job);
                if let Some(request) = self.requests.get_mut(&job) {
                    request.2 = None;
                }
            }
        }
        let in_us = self.dice.between(0, 2_000_000);
        self.plan(in_us, Happening::Up);
    }

    /// Starts a daemon: reports the host to a new policy.
    pub(crate) fn start_up(&mut self) -> Result<(), Violation> {
        self.policy = Some(Policy::default());
        self.books.begin_anew();
        (self.token_paged, self.due_us, self.readings) = (None, None, 0);
        self.astray.clear();
        self.owed = Owed::default();
        self.deliver(Event::Configure(self.options.settings.clone()))?;
        let cores = 0..u32::try_from(self.options.hardware.cores).unwrap_or(1);
        let cores = cores.map(|core| CpuSet::single(PuOs(core))).collect();
        self.deliver(Event::Machine(Machine::flat(cores)))?;
        self.claims = Claims::default();
        for (kind, job, peak, asked) in self.history.clone() {
            let claim = self.claims.ended(kind, job, peak, asked);
            self.deliver(Event::Learned(kind, claim))?;
        }
        let now = self.now();
        for (job, (request, submitted, started)) in self.requests.clone() {
            let body = self.world.bodies.get(&job);
            let ended = self.world.ended.contains_key(&job);
            self.books.submitted(request.clone(), started.filter(|_| body.is_some()), now);
            if ended {
                continue;
            }
            let running = body.map(|body| Running {
                started: started.unwrap_or(submitted),
                class: if body.backfills { Class::Backfill } else { Class::Primary },
                cpus: CpuSet::new(),
                frozen: false,
                suspended: false,
            });
            self.deliver(Event::Adopt(Adopted {
                request,
                submitted,
                waits_since: None,
                array_room_since: None,
                running,
            }))?;
        }
        self.read_us = self.world.now_us();
        let sample = self.reading(RELAXED_US);
        self.readings += 1;
        self.deliver(Event::Memory(sample))?;
        self.deliver(Event::Tick)
    }

    /// Jobs that ended in the world, each with its peak.
    pub(crate) fn take_ended(&mut self) -> BTreeMap<JobId, u64> {
        std::mem::take(&mut self.world.ended)
    }
}

fn name(action: &Action) -> &'static str {
    match action {
        Action::Start { .. } => "start",
        Action::Bind { .. } => "bind",
        Action::Weigh { .. } => "weigh",
        Action::Freeze => "freeze",
        Action::Thaw => "thaw",
        Action::PageOut { .. } => "page out",
        Action::Signal { .. } => "signal",
        Action::Drop { .. } => "drop",
        Action::Checkpoint => "checkpoint",
        Action::Requeue => "requeue",
        Action::Slow { allowance: Some(_) } => "slow",
        Action::Slow { allowance: None } => "let grow",
        Action::Protect { .. } => "protect",
        Action::Near { .. } => "near",
    }
}
