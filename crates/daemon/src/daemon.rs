//! The loop: waits, gathers what happened, decides, writes, acts; results come back as events.
//!
//! One thread owns everything. A turn takes the events that are there, lets the judgement decide, writes all
//! that changed in one transaction, and only then carries the effects out: but for freezes as memory runs short, for the
//! write may have to wait for the very disk that memory is moved to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use pinfold_policy::{Instant, JobId, Policy};
use pinfold_proto::row::ProcessId;
use pinfold_sys::container::{Container, Containers};
use pinfold_sys::mode::Mode;
use pinfold_sys::procfs::Proc;
use pinfold_sys::signals::{SIGHUP, Signals};
use pinfold_topo::Topology;

use crate::around::Chains;
use crate::audit::Audit;
use crate::clock::Clock;
use crate::cost::Load;
use crate::drift::Drifts;
use crate::event::{ConnectionId, Effect, Event, urgent_freezes};
use crate::files::JobFiles;
use crate::guard::Guard;
use crate::jobs::Jobs;
use crate::journal::Journal;
use crate::learn::Learned;
use crate::machine::Seen;
use crate::memory::Governor;
use crate::metrics::{Ended, Metrics};
use crate::numa::JobNodes;
use crate::options::{Configured, Options};
use crate::pieces::Pieces;
use crate::poller::{Poller, Ready};
use crate::processes::Processes;
use crate::sample::Sampler;
use crate::scratch::Scratches;
use crate::server::Server;
use crate::sets::Sets;
use crate::shares::Shares;
use crate::starts::Starts;
use crate::turns::work;

/// How often old jobs are struck off the store, and a store in trouble is tried again.
const HOUSE_KEEPING: Duration = Duration::from_secs(5);

/// How long the loop may take at a time to bring the store to its size; a step takes some 10 ms.
const BOUND_TURN: Duration = Duration::from_millis(50);
/// When it goes on if that was not enough, in microseconds.
const BOUND_AGAIN_US: u64 = 500_000;
/// How much the store is kept below its size, at most; an eighth if that is less.
const BOUND_ROOM_BYTES: u64 = 64 << 20;

/// So many of the last samples of a job that runs stay as rows, which other programs can read.
pub(crate) const SAMPLES_LOOSE: usize = 3_600;

/// See the module's page. Its parts are public to the crate's other modules, each of which handles one side
/// of its life.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub policy: Policy,
    pub jobs: Jobs,
    pub journal: Journal,
    pub containers: Containers,
    pub server: Server,
    pub poller: Poller,
    pub guard: Guard,
    pub clock: Clock,
    /// How long turns of the loop take.
    pub turn: crate::turns::Watchdog,
    pub options: Options,
    pub configured: Configured,
    pub topology: Topology,
    pub seen: Seen,
    pub drifts: Drifts,
    pub proc: Proc,
    pub sampler: Sampler,
    pub processes: Processes,
    pub files: JobFiles,
    pub shares: Shares,
    pub jobs_nodes: JobNodes,
    pub pieces: Pieces,
    pub governor: Governor,
    pub learned: Learned,
    pub scratches: Scratches,
    pub disks: crate::disk::Disks,
    /// Directories of jobs that are over.
    pub clearing: crate::clearing::Clearer,
    pub around: Chains,
    pub audit: Audit,
    /// What waits until it is on disk.
    pub durable: crate::durable::Durable,
    pub metrics: Option<Metrics>,
    /// Jobs that ended since the start.
    pub ended: Ended,
    /// The state directory.
    pub state: PathBuf,
    /// Whether the host was restarted since the last daemon.
    pub rebooted: bool,
    /// What it takes to keep jobs anew.
    pub starts: Starts,
    /// Cores that are set aside.
    pub sets: Sets,
    /// Jobs that have cores to themselves, or wait for them.
    pub isolated: crate::isolated::Isolated,
    /// NUMA nodes that are a set's alone.
    pub own_nodes: crate::own_nodes::OwnNodes,
    /// Whether nothing new starts.
    pub draining: bool,
    pub instance: String,
    pub host: String,
    /// What users should know before anything else.
    pub warnings: Vec<String>,
    /// Clients that wait until jobs are over.
    pub waiters: Vec<(ConnectionId, BTreeSet<JobId>, Vec<u64>)>,
    /// Whether containers have doors here.
    pub doors: bool,
    /// When to close the doors of which job, in order.
    pub doors_due: VecDeque<(u64, JobId)>,
    /// How many processes the host had when they were last counted.
    pub processes_seen: usize,
    /// When to kill which cancelled job.
    pub kills: BTreeSet<(u64, JobId)>,
    /// Jobs that have a container.
    pub running: BTreeSet<JobId>,
    /// The processes at the other ends, as far as they keep jobs.
    pub keepers: BTreeMap<ConnectionId, ProcessId>,
    /// Keepers that are to say something.
    pub unheard: crate::unheard::Unheard,
    pub lingering: crate::lingering::Lingering,
    /// Descriptors of children that wait to become jobs.
    pub children: crate::child::Children,
    /// What the groups around those at the other ends let them have.
    pub askers: crate::allocation::Askers,
    pub host_processes: crate::limits::HostProcesses,
    /// The arrays whose members come over connections.
    pub arriving: crate::arrays::Arriving,
    /// What doctor found of the host, and when.
    pub examined: Option<(u64, pinfold_proto::view::DoctorView)>,
    /// Names and numbers of users.
    pub names: crate::names::Names,
    /// What is to be done after the write.
    pub effects: Vec<Effect>,
    /// Connections that have something to be sent.
    pub to_flush: BTreeSet<ConnectionId>,
    /// Connections of which not all was heard that they said.
    pub backlog: BTreeSet<ConnectionId>,
    /// How many jobs of each user wait, and when that was counted.
    pub waiting: crate::places::InQueue,
    /// How long it stays without a job and without a client, when it is private.
    pub service: crate::service::Service,
    pub private_idle: Option<Duration>,
    pub idle_since_us: u64,
    pub house_keeping_us: u64,
}

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Asked,
    Idle,
}

impl Daemon {
    /// Runs until it is told to stop or, when private, until nobody needs it.
    pub(crate) fn run(mut self, signals: &Signals) -> anyhow::Result<()> {
        self.poller.watch(Ready::Listener, &self.server)?;
        self.poller.watch(Ready::Signals, signals)?;
        self.poller.watch(Ready::Site, &self.around)?;
        self.poller.watch(Ready::Nodes, &self.own_nodes)?;
        self.poller.watch(Ready::Cleared, &self.clearing)?;
        self.poller.watch(Ready::Flushed, &self.durable)?;
        self.poller.watch(Ready::Names, &self.names)?;
        self.watch_memory();
        self.service.ready();
        // Whoever waited for the daemon to be ready need not wait for this as well.
        self.learn_from_history();
        let end = loop {
            let timeout = self.timeout();
            self.turn.ends();
            let ready = self.poller.wait(timeout);
            self.turn.begins();
            if let Some(end) = self.signalled(&ready, signals) {
                break end;
            }
            let mut events = self.gather(&ready);
            self.due(&mut events);
            self.turns(events);
            self.service.beat(self.clock.now_us());
            if self.private_idle.is_some_and(|limit| self.idle_for() >= limit) {
                break End::Idle;
            }
        };
        tracing::info!(reason = ?end, "stopping");
        self.service.stopping();
        self.stop();
        // Groups that hold jobs stay, for the next daemon to find them.
        self.containers.close();
        Ok(())
    }

    fn signalled(&mut self, ready: &[Ready], signals: &Signals) -> Option<End> {
        if !ready.contains(&Ready::Signals) {
            return None;
        }
        self.turn.busy_with(work::SIGNALS);
        let mut end = None;
        while let Some(arrived) = signals.next() {
            if arrived.signal == SIGHUP {
                self.reload();
            } else {
                end = Some(End::Asked);
            }
        }
        end
    }

    /// Reads the configuration file again, and takes it whole or not at all.
    fn reload(&mut self) {
        match self.options.configured() {
            Ok(configured) => {
                self.configured = configured;
                self.look_up_configured();
                self.apply_configuration();
                self.turns(Vec::new());
                tracing::info!("configuration read again");
            }
            Err(error) => tracing::error!(error = %format!("{error:#}"), "the configuration stays as it was"),
        }
    }

    /// Turns what is ready into events.
    fn gather(&mut self, ready: &[Ready]) -> Vec<Event> {
        self.turn.busy_with(work::READING);
        let mut events = Vec::new();
        self.server.begin_turn(self.load());
        let backlog = std::mem::take(&mut self.backlog);
        for &ready in ready {
            match ready {
                Ready::Listener => {
                    for id in self.server.accept(&self.proc) {
                        if !self.arrived(id) {
                            continue;
                        }
                        self.watch_connection(id);
                        // Its first words are there as a rule by the time that it is taken.
                        self.hear(id, &mut events);
                    }
                }
                Ready::Connection(id) => self.hear(id, &mut events),
                Ready::Container(job) => events.push(Event::ContainerChanged(job)),
                Ready::Keeper(job) => events.push(Event::KeeperGone(job)),
                Ready::MemoryAlarm => {
                    self.governor.was_told();
                    events.push(Event::MemoryDue);
                }
                Ready::MemoryAlarmGone => self.governor.drop_alarm(),
                Ready::Metrics => events.push(Event::MetricsWanted),
                Ready::Site => events.push(Event::SiteSaid),
                Ready::Nodes => events.push(Event::NodesCleared),
                Ready::Names => events.push(Event::NamesKnown),
                Ready::Cleared => events.push(Event::DirectoriesCleared),
                Ready::Flushed => events.push(Event::Flushed),
                Ready::Signals => {}
            }
        }
        for id in backlog {
            if !ready.contains(&Ready::Connection(id)) {
                self.hear(id, &mut events);
            }
        }
        events
    }

    /// What requests of this turn may have to look at.
    fn load(&self) -> Load {
        Load { jobs: self.jobs.len(), processes: self.processes_seen, refuses: false }
    }

    /// Reads what a connection has to say.
    fn hear(&mut self, id: ConnectionId, events: &mut Vec<Event>) {
        let heard = self.server.read(id);
        events.extend(heard.requests.into_iter().map(|request| Event::Request(id, request)));
        if heard.more {
            self.backlog.insert(id);
        }
        if heard.closed {
            events.push(Event::Closed(id));
        }
        self.to_flush.insert(id);
    }

    /// Adds the events whose time has come.
    fn due(&mut self, events: &mut Vec<Event>) {
        let now_us = self.clock.now_us();
        if self.policy.next_wakeup().is_some_and(|at| at.0 <= now_us) {
            events.push(Event::PolicyDue);
        }
        if self.sampler.sample_due_us().is_some_and(|at| at <= now_us) {
            events.push(Event::SampleDue);
        }
        if self.sampler.idle_due_us().is_some_and(|at| at <= now_us) {
            events.push(Event::IdleDue);
        }
        if self.processes.due_us().is_some_and(|at| at <= now_us) {
            events.push(Event::RecordsDue);
        }
        if self.governor.due_us().is_some_and(|at| at <= now_us) {
            self.governor.was_told();
            events.push(Event::MemoryDue);
        }
        if self.look_due_us().is_some_and(|at| at <= now_us) {
            events.push(Event::LookDue);
        }
        if self.drifts.due().is_some_and(|at| at.0 <= now_us) {
            events.push(Event::DriftDue);
        }
        if self.doors_due.front().is_some_and(|&(at, _)| at <= now_us) {
            events.push(Event::DoorsDue);
        }
        if self.pieces.is_due(now_us) {
            events.push(Event::PieceDue);
        }
        while let Some(&(at, job)) = self.kills.first()
            && at <= now_us
        {
            self.kills.pop_first();
            events.push(Event::KillDue(job));
        }
        if self.sets_due_us().is_some_and(|at| at <= now_us) {
            events.push(Event::SetsDue);
        }
        if self.names.due_us().is_some_and(|at| at <= now_us) {
            events.push(Event::NamesKnown);
        }
        if self.own_nodes.due_us().is_some_and(|at| at <= now_us) {
            events.push(Event::NodesDue);
        }
        if self.unheard.due_us().is_some_and(|at| at <= now_us) {
            events.push(Event::UnheardDue);
        }
        if self.lingering.due_us().is_some_and(|at| at <= now_us) {
            events.push(Event::LingeringDue);
        }
        if self.house_keeping_us <= now_us {
            events.push(Event::HouseKeeping);
        }
    }

    /// How long the loop may sleep.
    fn timeout(&self) -> Option<Duration> {
        if !self.backlog.is_empty() || self.pieces.has_due() {
            return Some(Duration::ZERO);
        }
        let now_us = self.clock.now_us();
        let all_written = self.journal.trouble().is_none() && !self.audit.lags();
        let quiet = self.jobs.is_empty() && self.around.is_empty() && self.clearing.rests() && all_written;
        let idle_end = self.private_idle.filter(|_| quiet && self.server.is_idle());
        let idle_end = idle_end.map(|limit| {
            self.idle_since_us.saturating_add(u64::try_from(limit.as_micros()).unwrap_or(u64::MAX))
        });
        let dues = [
            self.policy.next_wakeup().map(|at| at.0),
            self.sampler.sample_due_us(),
            self.sampler.idle_due_us(),
            self.processes.due_us(),
            self.governor.due_us(),
            self.look_due_us(),
            self.drifts.due().map(|at| at.0),
            self.sets_due_us(),
            self.own_nodes.due_us(),
            self.names.due_us(),
            self.unheard.due_us(),
            self.lingering.due_us(),
            self.kills.first().map(|&(at, _)| at),
            self.doors_due.front().map(|&(at, _)| at),
            self.service.due_us(),
            self.pieces.late_us(),
            idle_end,
            // A host without jobs is left alone: nothing to keep house for but once in a long while.
            Some(if quiet { self.house_keeping_us + 600_000_000 } else { self.house_keeping_us }),
        ];
        let due = dues.into_iter().flatten().min()?;
        // One millisecond at least, so that a timer that cannot be met does not spin.
        Some(Duration::from_micros(due.saturating_sub(now_us)).max(Duration::from_millis(1)))
    }

    fn idle_for(&mut self) -> Duration {
        let now_us = self.clock.now_us();
        let busy = !self.jobs.is_empty() || !self.around.is_empty() || !self.clearing.rests();
        if busy || !self.server.is_idle() {
            self.idle_since_us = now_us;
        }
        Duration::from_micros(now_us.saturating_sub(self.idle_since_us))
    }

    /// Handles events until none is left: decide, freeze for memory, write, act, and what comes of that again.
    pub(crate) fn turns(&mut self, mut events: Vec<Event>) {
        while !events.is_empty() || !self.effects.is_empty() {
            for event in events {
                self.handle(event);
            }
            let frozen = self.freeze_at_once();
            self.turn.busy_with(work::STORE);
            self.journal.write(&mut self.jobs);
            self.turn.busy_with(work::AUDIT);
            self.audit.flush();
            // Nobody waits for the removal of a container; clients wait for the replies.
            let (removals, effects): (Vec<_>, Vec<_>) = std::mem::take(&mut self.effects)
                .into_iter()
                .partition(|effect| matches!(effect, Effect::Remove(_)));
            let done = effects.into_iter().filter_map(|effect| self.carry_out(effect));
            events = frozen.into_iter().chain(done).collect();
            if !removals.is_empty() {
                // Who is told to go may be one that must be known to have gone, if the host goes down.
                self.turn.busy_with(work::STORE);
                self.journal.write(&mut self.jobs);
                self.flush();
                events.extend(removals.into_iter().filter_map(|effect| self.carry_out(effect)));
            }
        }
        // What the last effects changed (a start's time and process) has no effect of its own to wait for it.
        self.turn.busy_with(work::STORE);
        self.journal.write(&mut self.jobs);
        self.flush_turn();
        if !self.effects.is_empty() {
            // The disk refuses: nothing waits for it.
            return self.turns(Vec::new());
        }
        self.flush();
        let now_us = self.clock.now_us();
        self.sampler.schedule(!self.running.is_empty(), now_us);
        self.unheard.schedule(!self.running.is_empty(), now_us);
        let has_groups = self.containers.plan().mode != Mode::Rootless;
        self.drifts.schedule(if has_groups { self.running.len() } else { 0 }, Instant(now_us));
        let tight = self.policy.memory_is_tight() || self.askers.near_the_end;
        self.governor.schedule(!self.running.is_empty(), tight, now_us);
    }

    /// Lets those stand still that are frozen as memory runs short, before that is written. If this process dies in between,
    /// its guard and the next daemon thaw them, whatever their rows say.
    fn freeze_at_once(&mut self) -> Vec<Event> {
        let short = |job| self.jobs.get(&job).is_some_and(|live| live.freezes_since.is_some());
        let (freezes, others) = urgent_freezes(std::mem::take(&mut self.effects), short);
        self.effects = others;
        freezes.into_iter().filter_map(|effect| self.carry_out(effect)).collect()
    }

    fn handle(&mut self, event: Event) {
        self.turn.busy_with(work::of_event(&event));
        match event {
            Event::Request(id, request) => self.requested(id, request),
            Event::Closed(id) => self.closed(id),
            Event::ContainerChanged(job) => self.container_changed(job),
            Event::KeeperGone(job) => self.keeper_gone(job),
            Event::Carried(job, action) => self.carried(job, &action),
            Event::NotCarried(job, action, error) => self.not_carried(job, action, error),
            Event::ChildGone(job) => self.child_gone(job),
            Event::SampleDue => self.take_samples(),
            Event::RecordsDue => self.take_records(),
            Event::IdleDue => self.take_idleness(),
            Event::MemoryDue => self.read_memory(),
            Event::LookDue => {
                self.look_at_machine();
                self.isolate_waiting();
            }
            Event::DriftDue => self.look_for_drift(),
            Event::SetsDue => {
                self.drop_unused_sets();
                self.isolate_waiting();
            }
            Event::MetricsWanted => self.give_metrics(),
            Event::SiteSaid => self.site_said(),
            Event::NodesCleared => self.nodes_cleared(),
            Event::NodesDue => self.nodes_waited_for(),
            Event::NamesKnown => self.names_known(),
            Event::DirectoriesCleared => self.directories_cleared(),
            Event::Flushed => self.flushed(),
            Event::UnheardDue => self.look_for_unheard(),
            Event::LingeringDue => self.look_for_last_processes(),
            Event::PolicyDue => self.judge(pinfold_policy::Event::Tick),
            Event::PieceDue => self.tell_more(),
            Event::KillDue(job) => self.kill_due(job),
            Event::DoorsDue => self.close_doors(),
            Event::HouseKeeping => self.keep_house(),
        }
    }

    /// Lets the judgement take an event in, and notes what it decides.
    pub(crate) fn judge(&mut self, event: pinfold_policy::Event) {
        let now = Instant(self.clock.now_us());
        for decision in self.policy.step(now, event) {
            self.decided(decision);
        }
    }

    /// Sends what is to be sent, and watches for the room to send the rest.
    fn flush(&mut self) {
        self.turn.busy_with(work::SENDING);
        for id in std::mem::take(&mut self.to_flush) {
            let finished = self.server.flush(id);
            self.pieces.room(id, self.server.unsent_bytes(id));
            if self.server.unblocked(id) {
                self.backlog.insert(id);
            }
            if let Some(watch) = self.server.watch_changed(id)
                && let Some(descriptor) = self.server.descriptor(id)
            {
                let _ = self.poller.watch_for(Ready::Connection(id), descriptor, watch);
            }
            if finished {
                self.turns(vec![Event::Closed(id)]);
            }
        }
    }

    fn keep_house(&mut self) {
        self.guard.send();
        self.isolate_waiting();
        self.call_keepers();
        self.journal.write_waiting();
        let now_us = self.clock.now_us();
        self.audit.keep_up(pinfold_proto::view::seconds(now_us));
        self.house_keeping_us = now_us + u64::try_from(HOUSE_KEEPING.as_micros()).expect("seconds");
        let retain_us = u64::try_from(self.configured.config.profile_retain.as_micros()).unwrap_or(u64::MAX);
        if self.journal.trouble().is_some() {
            return;
        }
        if let Err(error) = self.journal.store().prune(now_us.saturating_sub(retain_us)) {
            tracing::warn!(%error, "old jobs cannot be struck off the store");
        }
        self.prune_host(now_us, retain_us);
        self.pack_samples(now_us);
        self.bound_store();
    }

    /// Keeps the store below its size, a few steps at a time.
    fn bound_store(&mut self) {
        let Some(most) = self.configured.config.profile_store_max else { return };
        // Room for what comes until the next look, so that the file itself stays below.
        let aim = most - (most / 8).min(BOUND_ROOM_BYTES);
        let begun = std::time::Instant::now();
        let (mut given_up, mut more) = (None, true);
        while more && begun.elapsed() < BOUND_TURN {
            match self.journal.store().bound(aim) {
                Ok(bounded) => {
                    more = bounded.loss.is_some();
                    given_up = given_up.max(bounded.loss);
                }
                Err(error) => return tracing::warn!(%error, "the store cannot be kept below its size"),
            }
        }
        if more {
            self.house_keeping_us = self.house_keeping_us.min(self.clock.now_us() + BOUND_AGAIN_US);
        }
        if let Some(loss) = given_up {
            tracing::info!(
                bytes_max = most,
                loss = loss.as_str(),
                "the store is at its size (profile.store_max)"
            );
            self.pieces.keep_room();
        }
        // Whoever is told of the store as it was keeps the log: waiting for them would hold the loop up.
        if self.pieces.take_room()
            && let Err(error) = self.journal.store().checkpoint()
        {
            tracing::warn!(%error, "room in the store's file cannot be given back");
        }
    }

    /// Packs samples of jobs that are over, and of one that has run for so long that it has many.
    fn pack_samples(&mut self, now_us: u64) {
        let store = self.journal.store();
        let mut packed = store.compact(now_us).map(drop);
        for job in self.sampler.take_to_pack() {
            packed = packed.and_then(|()| self.journal.store().pack(job.0, SAMPLES_LOOSE));
        }
        if let Err(error) = packed {
            tracing::warn!(%error, "samples cannot be packed");
        }
    }

    /// Ends in order: nothing frozen, everything written, jobs left running.
    fn stop(&mut self) {
        let frozen: Vec<JobId> = self
            .jobs
            .values()
            .filter(|live| live.row.frozen_since_us.is_some())
            .map(|live| live.id())
            .collect();
        let now_us = self.clock.now_us();
        for live in self.jobs.values_mut().filter(|_| self.containers.can_steer_memory()) {
            if let Some(container) = &mut live.container {
                crate::restore::free_memory_of(live.row.job, container);
            }
        }
        let away = self.own_nodes.stop();
        for live in self.jobs.values_mut().filter(|live| !live.near.is_empty() || away.contains(&live.id())) {
            if let Some(Err(error)) = live.container.as_mut().map(|container| container.near(&[])) {
                tracing::error!(job = live.row.job, %error, "a job's memory stays bound; `pinfold rescue` unbinds it");
            }
        }
        for job in frozen {
            let Some(live) = self.jobs.get_mut(&job) else { continue };
            let thawed = live.container.as_deref_mut().map_or(Ok(()), Container::thaw);
            match thawed {
                Ok(()) => live.set_state(pinfold_proto::JobState::Running, now_us),
                Err(error) => {
                    tracing::error!(job = job.0, %error, "a job stays frozen; `pinfold rescue` thaws it")
                }
            }
            self.journal.touch(job);
        }
        let files = self.files.stop();
        files.into_iter().for_each(|row| self.journal.file(row));
        for live in self.jobs.values_mut().filter(|live| live.begin != crate::durable::Begin::No) {
            live.does_not_begin();
            self.journal.touch(live.id());
        }
        self.journal.write(&mut self.jobs);
        self.journal.close_numbers();
        self.durable.close();
        self.audit.close(pinfold_proto::view::seconds(self.clock.now_us()));
        for job in self.sampler.finished() {
            self.remove(job);
        }
        self.stop_housekeeping();
        self.pieces = Pieces::default();
        self.finish_clearing();
        self.scratches.close();
        self.disks.close();
        self.server.remove_socket();
        self.guard.stand_down();
        self.sampler.remove_finished();
    }
}
