//! The state of the judgement and what each event does to it; what follows from the new state is in `rules`.
//!
//! Owns all jobs that wait or live, the queue, the slots, the cores and the timers. Whatever holds is held
//! twice: what is *wanted* of a job, and what was *told* to be done (`carry` asks for the difference).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pinfold_topo::CpuSet;

use crate::arrays::Arrays;
use crate::asides::Aside;
use crate::chunks::Chunks;
use crate::cores::Cores;
use crate::even::Evenness;
use crate::holders::{Holders, Key, Promotable};
use crate::interference::Interference;
use crate::job::{Failure, Job, JobInfo, Live, Out, Stage, Waiting};
use crate::memory::{Held, Memory};
use crate::projects::Pools;
use crate::protect::Idleness;
use crate::queue::{Entry, Queue, RANK_AGED, Shape};
use crate::slow::Steering;
use crate::trials::Trials;
use crate::{Action, Class, Command, Decision, Event, Instant, JobId, Machine, Reason, Request, Settings};

/// How long a job that got a signal may use it undisturbed, and without a slot if it had none.
const GRACE: Duration = Duration::from_secs(5);
/// The longest pause before a failed start is tried again; the first is [`crate::carry::RETRY`].
const START_RETRY_MAX: Duration = Duration::from_secs(60);

/// The state of the judgement.
#[derive(Debug, Default)]
pub struct Policy {
    pub(crate) settings: Settings,
    pub(crate) machine: Machine,
    /// The time of the last event; never goes back.
    pub(crate) now: Instant,
    /// Boxed, for jobs come and go all the time and a tree moves its neighbours at each.
    pub(crate) jobs: BTreeMap<JobId, Box<Job>>,
    pub(crate) queue: Queue,
    pub(crate) holders: Holders,
    /// Jobs that were told to start and are not over.
    pub(crate) lives: BTreeSet<JobId>,
    pub(crate) memory: Memory,
    pub(crate) steering: Steering,
    /// Jobs that wait until this one is over.
    followers: BTreeMap<JobId, Vec<JobId>>,
    pub(crate) cores: Cores,
    /// Cores that are set aside, by name.
    pub(crate) asides: Vec<Aside>,
    pub(crate) chunks: Chunks,
    /// Which kinds of jobs run faster apart.
    pub(crate) trials: Trials,
    /// Which arrays may start one more member.
    pub(crate) arrays: Arrays,
    /// What is whose.
    pub(crate) pools: Pools,
    pub(crate) idleness: Idleness,
    pub(crate) interference: Interference,
    pub(crate) evenness: Evenness,
    /// One timer for each job that has something due.
    timers: BTreeSet<(Instant, JobId)>,
    /// Jobs of which something else may be wanted than they were told, and why; in the order in which it was decided.
    pub(crate) marked: Vec<(JobId, Reason)>,
    /// Jobs to be started, and why.
    pub(crate) starts: Vec<(JobId, Reason)>,
    /// Jobs thawed without a slot to receive a signal.
    pub(crate) dying: BTreeSet<JobId>,
    /// The exclusive job that has the host to itself.
    pub(crate) exclusive: Option<JobId>,
    /// Slots taken by the holders.
    pub(crate) used: usize,
    /// Jobs that have not started.
    waiting: usize,
    /// Jobs were adopted and the rules have not looked at them.
    unsettled: bool,
    /// The primary whose end is being dealt with.
    pub(crate) ended: Option<JobId>,
    pub(crate) decisions: Vec<Decision>,
}

impl Policy {
    /// Takes in what happened at `now` and says what to do, in this order. A time before that of an earlier
    /// event counts as that one's.
    pub fn step(&mut self, now: Instant, event: Event) -> Vec<Decision> {
        self.now = self.now.max(now);
        let found = self.unsettled;
        self.unsettled = matches!(event, Event::Adopt(_));
        let mut newcomer = None;
        match event {
            Event::Configure(settings) => self.configure(settings),
            Event::Machine(machine) => self.set_machine(machine),
            Event::Submit(request) => newcomer = self.submit(request),
            Event::Adopt(adopted) => self.adopt(adopted),
            Event::Started(job) => self.started(job),
            Event::Failed { job, action, error } => self.failed(job, &action, error),
            Event::Exited(job) => self.exited(job),
            Event::Requeued(job) => self.requeued(job),
            Event::Checkpointed { job, error } => self.checkpointed(job, error),
            Event::Withdrawn(job) => self.withdrawn(job),
            Event::Command(job, command) => self.command(job, command),
            Event::Sample(sample) => self.sample(&sample),
            Event::Memory(sample) => self.measured(&sample),
            Event::Nodes(reading) => self.nodes_read(&reading),
            Event::Learned(kind, claim) => self.learned(kind, claim),
            Event::Ran(ran) => self.trials.ended(ran),
            Event::Tick => {}
        }
        if found && !self.unsettled {
            self.forget_unknown_predecessors();
        }
        // After the event: who ends in the moment in which it would expire has ended.
        self.fire_timers();
        if !self.unsettled {
            self.settle();
        }
        if newcomer.is_some_and(|job| self.refuse_if_full(job)) && !self.unsettled {
            self.settle(); // it may have stood before others
        }
        if !self.unsettled {
            self.steer();
            self.settle_chunks();
            self.look_at_evenness();
            self.carry_out();
            self.carry_nodes();
        }
        self.ended = None;
        std::mem::take(&mut self.decisions)
    }

    /// When [`Event::Tick`] is wanted next, if at all.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        if self.unsettled { Some(self.now) } else { self.timers.first().map(|&(at, _)| at) }
    }

    /// The jobs that wait or live, by number.
    pub fn jobs(&self) -> impl Iterator<Item = JobInfo> + '_ {
        self.jobs.values().map(|job| self.info(job))
    }

    /// One job; `None` when it is unknown or over.
    #[must_use]
    pub fn job(&self, job: JobId) -> Option<JobInfo> {
        self.jobs.get(&job).map(|job| self.info(job))
    }

    /// The slots in use and all slots. An exclusive job uses all. More may be in use than there are: when
    /// slots became fewer and the jobs on them may not be frozen, and while scheduling is off.
    #[must_use]
    pub fn slots(&self) -> (usize, usize) {
        let total = self.total();
        (if self.exclusive.is_some() { total.max(self.used) } else { self.used }, total)
    }

    /// How many jobs wait for their start, held ones included.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The machine as last told.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The settings as last told.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// All slots: without backfill only those that are cores.
    pub(crate) fn total(&self) -> usize {
        let slots = self.settings.slots(self.cores.len());
        if self.settings.backfill {
            self.less_held_back(self.protected(slots))
        } else {
            slots.min(self.cores.len())
        }
    }

    fn configure(&mut self, settings: Settings) {
        let old = std::mem::replace(&mut self.settings, settings);
        if old.projects != self.settings.projects {
            self.renew_pools();
        }
        self.protect();
        self.set_holding_back();
        self.clip();
        // Which PUs a job has depends on the settings, and with them the nodes beside it.
        self.holders_changed();
        if old.schedule != self.settings.schedule {
            self.reclass_all();
            // Where nothing waits for slots, nobody is shut out.
            self.look_at_borders();
        } else if old.affinity != self.settings.affinity {
            self.mark_holders(&Reason::Asked);
        }
        if old.drain != self.settings.drain {
            let all: Vec<JobId> = self.jobs.keys().copied().collect();
            for job in all {
                self.dequeue(job);
                self.enqueue(job);
            }
        }
        if old.queue_ttl != self.settings.queue_ttl {
            let all: Vec<JobId> = self.jobs.keys().copied().collect();
            all.into_iter().for_each(|job| self.rearm(job));
        }
    }

    /// Scheduling went off: holders lose their homes. It went on: the highest and oldest get them.
    fn reclass_all(&mut self) {
        let schedule = self.settings.schedule;
        let all = self.holders_highest_first();
        for &job in &all {
            self.release(job);
        }
        for job in self.in_asides() {
            self.release(job);
            let asks = &self.jobs[&job];
            let room = self.aside_of(asks).and_then(|at| self.room_in(at, asks, &CpuSet::new()));
            self.occupy(job, Class::Primary, room.filter(|_| schedule).unwrap_or_default());
            self.mark(job, if schedule { Reason::Asked } else { Reason::Unscheduled });
        }
        for job in all {
            let request = &self.jobs[&job].request;
            let (slots, backfill) = (request.cores as usize, request.class == Some(Class::Backfill));
            let (wish, shape) = (request.wish.as_deref(), self.jobs[&job].shape());
            let (class, cores) = match self.cores.choose_homes(slots, &[], wish, shape) {
                _ if !schedule => (Class::Primary, Vec::new()),
                Some(homes) if !backfill => (Class::Primary, homes),
                _ => (Class::Backfill, Vec::new()),
            };
            self.occupy(job, class, cores);
            self.mark(job, if schedule { Reason::Asked } else { Reason::Unscheduled });
        }
    }

    fn submit(&mut self, mut request: Request) -> Option<JobId> {
        request.cores = request.cores.max(1);
        request.priority = request.priority.clamp(1, 16);
        let set = request.aside.as_ref().and_then(|name| self.asides.iter().find(|set| set.name == *name));
        let (job, cores) = (request.job, set.map_or(self.cores.len(), |set| set.cores.len()));
        if self.jobs.contains_key(&job) {
            return None;
        }
        if cores > 0 && request.cores as usize > cores {
            let reason = Reason::TooLarge { asked: request.cores, cores };
            self.decisions.push(Decision { job, action: Action::Drop { refused: true }, reason });
            return None;
        }
        self.add_waiting(request, self.now);
        Some(job)
    }

    pub(crate) fn add_waiting(&mut self, request: Request, submitted: Instant) {
        let (id, held) = (request.job, request.held);
        // After a restart not all jobs are known yet.
        let known = |id: &&JobId| self.unsettled || self.jobs.contains_key(id);
        let after = request.after.iter().filter(known).copied().collect();
        let stage = Stage::Waiting(Waiting { held, after, ..Waiting::default() });
        let (since, passed, aged, armed, queued) = (submitted, 0, false, None, None);
        let held = Held::default();
        let (requeues, pools) = (request.requeues, self.pools.of(request.project.as_deref()));
        let job = Job {
            request,
            submitted,
            since,
            requeues,
            checkpoints: 0,
            passed,
            aged,
            armed,
            queued,
            stage,
            held,
            pools,
            lies: None,
        };
        if let Stage::Waiting(waiting) = &job.stage {
            for &before in &waiting.after {
                self.followers.entry(before).or_default().push(id);
            }
        }
        self.arrays.join(&job.request, self.now);
        self.jobs.insert(id, Box::new(job));
        self.waiting += 1;
        self.enqueue(id);
    }

    /// Only after the rules had their say: who starts at once does not wait.
    fn refuse_if_full(&mut self, job: JobId) -> bool {
        let depth = (self.settings.queue_depth as usize).saturating_mul(self.cores.len().max(1));
        let is_full = self.waiting > depth && self.jobs.get(&job).is_some_and(|job| job.live().is_none());
        if is_full {
            self.strike_off(job, true, Reason::QueueFull { depth });
        }
        is_full
    }

    fn started(&mut self, id: JobId) {
        let Some(live) = self.live_mut(id).filter(|live| live.starting) else { return };
        live.starting = false;
        self.chunks.touch();
        let Some(live) = self.live(id) else { return };
        if live.suspended {
            self.park(id, Out::Suspended, Reason::Asked);
        } else if live.signal.is_some() {
            self.mark(id, Reason::Asked);
        }
    }

    /// A start failed: the job waits again. Its slot is free meanwhile, so that it holds nobody up.
    pub(crate) fn start_failed(&mut self, id: JobId, error: String) {
        self.release(id);
        self.unmark(id);
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Stage::Live(live) = &job.stage else { return };
        let failures = live.failures + 1;
        let pause = crate::carry::RETRY.saturating_mul(1 << (failures - 1).min(10)).min(START_RETRY_MAX);
        let (held, cancelled, withdrawn) = (live.suspended, live.signal.is_some(), live.withdrawn);
        let failed = Some(Failure { again: now.after(pause), error, tried: false });
        job.stage = Stage::Waiting(Waiting { held, failures, failed, ..Waiting::default() });
        job.held = Held::default();
        self.arrays.returned(&job.request, now);
        let array = job.request.array;
        self.lives.remove(&id);
        self.forget_memory(id);
        self.forget_steering(id);
        self.waiting += 1;
        self.next_members_wait(array);
        if cancelled {
            self.strike_off(id, false, Reason::Asked);
        } else if withdrawn {
            self.strike_off(id, false, Reason::Withdrawn);
        } else {
            self.rearm(id);
        }
    }

    fn exited(&mut self, id: JobId) {
        let left_home =
            |live: &Live| live.aside.is_none() && live.class == Class::Primary && !live.cores.is_empty();
        if self.live(id).is_some_and(left_home) {
            self.ended = Some(id);
        }
        self.forget(id);
    }

    fn withdrawn(&mut self, id: JobId) {
        match self.jobs.get_mut(&id).map(|job| &mut job.stage) {
            Some(Stage::Waiting(_)) => self.strike_off(id, false, Reason::Withdrawn),
            Some(Stage::Live(live)) => live.withdrawn = live.starting || live.requeuing,
            None => {}
        }
    }

    fn command(&mut self, id: JobId, command: Command) {
        let Some(job) = self.jobs.get(&id) else { return };
        let waits = job.live().is_none();
        match command {
            Command::Suspend | Command::Hold if waits => self.hold(id, true),
            Command::Resume | Command::Release if waits => self.hold(id, false),
            Command::Suspend => self.suspend(id),
            Command::Resume => self.resume(id),
            Command::Hold | Command::Release => {}
            Command::Cancel { .. } if waits => self.strike_off(id, false, Reason::Asked),
            Command::Cancel { signal } => self.cancel(id, signal),
            Command::SetMemory(bytes) => self.set_memory(id, bytes),
            Command::SetPriority(priority) => self.set_priority(id, priority.clamp(1, 16)),
        }
    }

    fn hold(&mut self, id: JobId, hold: bool) {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Stage::Waiting(waiting) = &mut job.stage else { return };
        if waiting.held == hold {
            return;
        }
        waiting.held = hold;
        // What it was held for does not count as waiting, neither for its right to go first nor against it.
        (job.since, job.aged) = (now, false);
        let array = job.request.array;
        self.dequeue(id);
        self.enqueue(id);
        self.next_members_wait(array);
    }

    fn suspend(&mut self, id: JobId) {
        let Some(live) = self.live_mut(id).filter(|live| !live.suspended) else { return };
        live.suspended = true;
        if live.starting || live.requeuing {
            return; // it is frozen once it has started, or held once it waits again
        }
        self.dequeue(id);
        self.forget_memory(id);
        self.park(id, Out::Suspended, Reason::Asked);
    }

    fn resume(&mut self, id: JobId) {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(live) = job.live_mut().filter(|live| live.suspended) else { return };
        live.suspended = false;
        if live.out.is_some() && !live.requeuing {
            job.since = now;
            self.enqueue(id);
        }
    }

    fn cancel(&mut self, id: JobId, signal: i32) {
        let until = self.now.after(GRACE);
        let dying = self.dying.contains(&id);
        let Some(live) = self.live_mut(id) else { return };
        live.signal = Some(signal);
        live.suspended = false;
        // What it would write down is of no use any more.
        live.requeuing &= live.checkpoints.until.take().is_none();
        if live.starting || live.requeuing {
            return; // it gets its signal once it has started, or is struck off once it waits again
        }
        // Who signals again and again does not keep a job running without a slot.
        if !dying {
            live.grace = Some(until);
        }
        // A frozen job cannot die of a signal, so it is thawed even without a slot.
        if live.out.take().is_some() {
            self.dequeue(id);
            self.forget_memory(id);
            self.dying.insert(id);
        }
        self.mark(id, Reason::Asked);
        self.rearm(id);
    }

    fn set_priority(&mut self, id: JobId, priority: u8) {
        self.dequeue(id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let before = std::mem::replace(&mut job.request.priority, priority);
        if let Some(live) = job.live_mut() {
            if let Some(key) = &mut live.key {
                key.priority = priority;
            }
            if let Some(key) = live.key.filter(|_| live.aside.is_none()) {
                self.holders.remove(&Key { priority: before, ..key });
                self.holders.insert(&key);
            }
            self.mark(id, Reason::PriorityChanged { priority });
            self.evenness.touch();
        }
        self.enqueue(id);
    }

    fn set_memory(&mut self, id: JobId, bytes: u64) {
        self.dequeue(id);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.request.memory = Some(bytes);
        }
        self.enqueue(id);
    }

    /// A job is over: those that waited for it stand in the queue from now on, unless they wait for others too.
    fn release_followers(&mut self, of: JobId) {
        let Some(followers) = self.followers.remove(&of) else { return };
        let now = self.now;
        for id in followers {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let Stage::Waiting(waiting) = &mut job.stage else { continue };
            if waiting.after.remove(&of) && waiting.after.is_empty() {
                job.since = now;
                self.enqueue(id);
            }
        }
    }

    /// After a restart: jobs that nobody knows any more are over.
    fn forget_unknown_predecessors(&mut self) {
        let unknown = |id: &JobId| !self.jobs.contains_key(id);
        let over: Vec<JobId> = self.followers.keys().copied().filter(unknown).collect();
        over.into_iter().for_each(|id| self.release_followers(id));
    }

    /// A job that had started waits again.
    pub(crate) fn one_more_waits(&mut self) {
        self.waiting += 1;
    }

    /// Strikes a waiting job off.
    pub(crate) fn strike_off(&mut self, job: JobId, refused: bool, reason: Reason) {
        self.forget(job);
        self.decisions.push(Decision { job, action: Action::Drop { refused }, reason });
    }

    fn forget(&mut self, id: JobId) {
        self.unlearn(id);
        self.release_followers(id);
    }

    /// Forgets what is known of a job, but that it is not over: those that were to start after it still wait for it.
    pub(crate) fn unlearn(&mut self, id: JobId) {
        self.dequeue(id);
        self.release(id);
        self.unmark(id);
        self.lives.remove(&id);
        self.forget_memory(id);
        self.forget_steering(id);
        self.chunks.forget(id);
        if let Some(job) = self.jobs.remove(&id) {
            self.waiting -= usize::from(job.live().is_none());
            if let Some(at) = job.armed {
                self.timers.remove(&(at, id));
            }
            self.arrays.leave(&job.request, job.live().is_some(), self.now);
            self.next_members_wait(job.request.array);
        }
    }

    /// Puts a job into the queue if it wants a slot and may have one, and sets its timer.
    pub(crate) fn enqueue(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let mut shape = Shape {
            cores: job.request.cores,
            homes: job.request.cores,
            class: job.request.class,
            wishes: job.request.wish.is_some(),
            memory: self.memory_bucket(job),
            tmp_bytes: if job.live().is_some() { 0 } else { job.request.tmp_bytes },
            pools: job.pools,
            array: job.request.array.filter(|_| job.live().is_none()).map(|array| array.array),
        };
        let first = job.aged || job.live().and_then(|live| live.out).is_some_and(Out::is_memory);
        let wants = match &job.stage {
            Stage::Waiting(waiting) if self.settings.drain || !waiting.after.is_empty() => false,
            // Its set is gone.
            Stage::Waiting(_) if job.request.aside.is_some() && self.aside_of(job).is_none() => false,
            Stage::Waiting(_) if self.is_shut_out(job) => false,
            Stage::Waiting(waiting) => !waiting.held && waiting.failed.as_ref().is_none_or(|f| f.tried),
            Stage::Live(live) => {
                let clipped = u32::try_from(self.clipped(job)).unwrap_or(u32::MAX);
                let short = clipped < shape.cores || self.is_shut_out(job);
                if short && shape.class == Some(Class::Primary) {
                    shape.class = None; // there are not so many homes, or not where it may have them
                }
                shape.cores = clipped;
                let rests = live.suspended || live.requeuing || live.rests.is_some();
                let rests = rests || self.memory.frozen.contains(&id);
                live.out.is_some() && !rests
            }
        };
        let aside = self.aside_of(job);
        let clips = job.live().is_some() || shape.class == Some(Class::Exclusive); // others wait for a larger set
        if let Some(at) = aside.filter(|_| clips) {
            shape.cores = u32::try_from(self.wanted_in(job, at)).unwrap_or(u32::MAX).max(1);
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if wants && job.queued.is_none() {
            let entry = Entry {
                rank: if first { RANK_AGED } else { job.request.priority },
                shape,
                new: job.live().is_none(),
                expected_us: job.request.expected.map(|e| u64::try_from(e.as_micros()).unwrap_or(u64::MAX)),
                job: id,
            };
            job.queued = Some(entry);
            match aside {
                Some(at) => self.asides[at].queue.insert(&entry),
                None => self.queue.insert(&entry),
            }
        }
        self.rearm(id);
    }

    pub(crate) fn dequeue(&mut self, id: JobId) {
        if let Some(entry) = self.jobs.get_mut(&id).and_then(|job| job.queued.take()) {
            match self.jobs.get(&id).and_then(|job| self.aside_of(job)) {
                Some(at) => self.asides[at].queue.remove(&entry),
                None => self.queue.remove(&entry),
            }
        }
    }

    /// Makes a waiting job one that starts; the caller gives it its slot.
    pub(crate) fn make_live(&mut self, id: JobId, live: Live) {
        if let Some(job) = self.jobs.get_mut(&id) {
            if job.live().is_none() {
                self.waiting -= 1;
                self.arrays.began(&job.request);
            }
            job.stage = Stage::Live(Box::new(live));
            self.lives.insert(id);
        }
    }

    /// Gives a job its slots, in this class, on these cores. It must have none.
    pub(crate) fn occupy(&mut self, id: JobId, class: Class, cores: Vec<usize>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let aside = self.aside_of(job);
        let class = if aside.is_some() { Class::Primary } else { class };
        let slots = if aside.is_some() { 0 } else { self.clipped(job) };
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (priority, shape) = (job.request.priority, job.shape());
        let promotable = match job.request.class {
            Some(Class::Backfill) => None,
            _ if job.request.wish.is_some() => Some(Promotable::ToWished),
            _ => Some(Promotable::To(job.slots())),
        };
        let Some(live) = job.live_mut() else { return };
        debug_assert!(live.key.is_none(), "job {id} has its slots already");
        let key = Key { priority, started: live.started, job: id, class, promotable };
        match (aside, class) {
            (Some(at), _) => {
                self.asides[at].cores.take_homes(id, &cores);
                self.asides[at].cores.lie(&cores, shape);
                self.asides[at].holders.push(id);
            }
            (None, Class::Primary) => {
                self.cores.take_homes(id, &cores);
                self.cores.lie(&cores, shape);
            }
            (None, Class::Backfill) => self.cores.pin(&cores),
            (None, Class::Exclusive) => self.exclusive = Some(id),
        }
        (live.class, live.cores, live.key, live.out) = (class, cores, Some(key), None);
        (live.slots, live.aside) = (slots, aside);
        if aside.is_none() {
            self.holders.insert(&key);
        }
        self.holders_changed();
        self.used += slots;
        self.dying.remove(&id);
    }

    /// Takes a job's slots and cores away, if it has any.
    pub(crate) fn release(&mut self, id: JobId) {
        self.dying.remove(&id);
        self.holders_changed();
        let Some(live) = self.live_mut(id) else { return };
        let Some(key) = live.key.take() else { return };
        let slots = std::mem::take(&mut live.slots);
        let cores = std::mem::take(&mut live.cores);
        live.drift = Default::default();
        live.lay = None;
        if let Some(at) = live.aside.take() {
            self.asides[at].cores.leave_homes(id, &cores);
            self.asides[at].holders.retain(|&holder| holder != id);
            return;
        }
        match key.class {
            Class::Primary => self.cores.leave_homes(id, &cores),
            Class::Backfill => self.cores.unpin(&cores),
            Class::Exclusive => self.exclusive = None,
        }
        self.holders.remove(&key);
        self.used -= slots;
    }

    /// Takes a job's slot and freezes it; unless a user did so, it stands in the queue to return.
    pub(crate) fn park(&mut self, id: JobId, out: Out, reason: Reason) {
        let now = self.now;
        self.release(id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        (job.since, job.passed) = (now, 0);
        if out == Out::Suspended {
            job.aged = false;
        }
        if let Some(live) = job.live_mut() {
            live.out = Some(out);
            live.grace = None;
        }
        self.enqueue(id);
        self.mark(id, reason);
    }

    fn fire_timers(&mut self) {
        while let Some(&(at, id)) = self.timers.first()
            && at <= self.now
        {
            self.timers.pop_first();
            if let Some(job) = self.jobs.get_mut(&id) {
                job.armed = None;
                self.due(id);
            }
        }
    }

    /// Deals with all that is due for a job, and sets its timer again.
    fn due(&mut self, id: JobId) {
        let now = self.now;
        let Some(job) = self.jobs.get(&id) else { return };
        if let Some((at, ttl)) = self.expires_at(job)
            && at <= now
        {
            return self.strike_off(id, true, Reason::Expired { ttl });
        }
        let aged = job.aged || self.ages_at(job).is_some_and(|at| at <= now);
        let slots = self.total();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let mut requeue = aged != job.aged;
        let (mut reason, mut survived) = (None, false);
        job.aged = aged;
        match &mut job.stage {
            Stage::Waiting(waiting) => {
                if let Some(failed) = waiting.failed.as_mut().filter(|f| !f.tried && f.again <= now) {
                    failed.tried = true;
                    requeue = true;
                }
            }
            Stage::Live(live) => {
                for failed in live.failed.values_mut().filter(|f| !f.tried && f.again <= now) {
                    failed.tried = true;
                    reason = Some(Reason::Retry { error: failed.error.clone() });
                }
                requeue |= live.rests.take_if(|until| *until <= now).is_some();
                if live.grace.is_some_and(|until| until <= now) {
                    live.grace = None;
                    survived = self.dying.remove(&id);
                }
            }
        }
        if survived {
            reason = Some(Reason::SlotsShrank { slots });
            self.survive(id);
        }
        if let Some(reason) = reason {
            self.mark_due(id, reason);
        }
        if requeue {
            self.dequeue(id);
            self.enqueue(id);
        } else {
            self.rearm(id);
        }
    }

    /// Thawed for a signal, a job went on regardless: it needs a slot, or has one too many if it may not be frozen.
    fn survive(&mut self, id: JobId) {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.request.no_suspend {
            self.occupy(id, Class::Backfill, Vec::new());
            return;
        }
        job.since = now;
        if let Some(live) = job.live_mut() {
            live.out = Some(Out::Survived);
        }
        self.enqueue(id);
    }

    /// Sets the timer of a job to the first thing that is due for it.
    pub(crate) fn rearm(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let mut due = self.ages_at(job);
        let mut sooner = |at: Option<Instant>| due = due.into_iter().chain(at).min();
        sooner(self.expires_at(job).map(|(at, _)| at));
        match &job.stage {
            Stage::Waiting(waiting) => {
                sooner(waiting.failed.as_ref().filter(|f| !f.tried && !waiting.held).map(|f| f.again));
            }
            Stage::Live(live) => {
                sooner(live.grace);
                sooner(live.rests);
                sooner(live.failed.values().filter(|f| !f.tried).map(|f| f.again).min());
            }
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.armed != due {
            let armed = std::mem::replace(&mut job.armed, due);
            armed.map(|at| self.timers.remove(&(at, id)));
            due.map(|at| self.timers.insert((at, id)));
        }
    }

    pub(crate) fn live(&self, id: JobId) -> Option<&Live> {
        self.jobs.get(&id).and_then(|job| job.live())
    }

    pub(crate) fn live_mut(&mut self, id: JobId) -> Option<&mut Live> {
        self.jobs.get_mut(&id).and_then(|job| job.live_mut())
    }
}
