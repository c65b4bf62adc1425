//! A turn of the loop: events are handled, the scheduler takes its steps, what changed is committed, effects follow.

use pinfold_policy::{Action, Decision, Instant, JobId};
use pinfold_proto::wire::{Reply, Request};
use pinfold_sys::mode::Mode;

use crate::core::event::urgent_freezes;
use crate::core::poller::Ready;
use crate::core::turns::work;
use crate::core::{Effect, Event, Next};
use crate::host::{Host, drift};
use crate::jobs::WAITS_A_TURN;
use crate::meters::memory::note_parked;
use crate::reactor::Daemon;

impl Daemon {
    /// Handles events until none is left: decide, freeze for memory, commit, act, and what comes of that again.
    pub(super) fn turns(&mut self, mut events: Vec<Event>) {
        while !events.is_empty() || !self.outbox.is_empty() {
            self.settle();
            for event in events {
                self.handle(event);
                self.settle();
            }
            // Before the commit: the write may have to wait for the very disk that memory is moved to.
            let frozen = self.freeze_at_once();
            // Before every other effect: nothing acts before its cause is committed.
            self.commit();
            self.service.turn.busy_with(work::AUDIT);
            self.clients.audit.flush();
            // Nobody waits for the removal of a container; clients wait for the replies.
            let (removals, effects): (Vec<_>, Vec<_>) = self
                .outbox
                .take_effects()
                .into_iter()
                .partition(|effect| matches!(effect, Effect::Remove(_)));
            let done = effects.into_iter().filter_map(|effect| self.carry_out(effect));
            events = frozen.into_iter().chain(done).collect();
            if !removals.is_empty() {
                // A job that is told to go may be one that must be known to have gone, if the host goes down.
                self.commit();
                self.flush();
                events.extend(removals.into_iter().filter_map(|effect| self.carry_out(effect)));
            }
        }
        // What the last effects changed (a start's time and process) has no effect of its own to wait for it.
        self.commit();
        self.flush_turn();
        if !self.outbox.is_empty() {
            // The disk refuses: nothing waits for it.
            return self.turns(Vec::new());
        }
        self.flush();
        self.schedule();
    }

    /// Writes what changed.
    fn commit(&mut self) {
        self.service.turn.busy_with(work::STORE);
        self.outbox.journal.write(&mut self.jobs.table);
    }

    /// Sets the timers of what is read only while jobs run.
    fn schedule(&mut self) {
        let now_us = self.ctx.clock.now_us();
        let runs = !self.jobs.running.is_empty();
        self.meters.sampler.schedule(runs || !self.jobs.finished.is_empty(), now_us);
        self.jobs.unheard.schedule(runs, now_us);
        let has_groups = self.ctx.containers.plan().mode != Mode::Rootless;
        self.host.drifts.schedule(if has_groups { self.jobs.running.len() } else { 0 }, Instant(now_us));
        let tight = self.ctx.policy.memory_is_tight() || self.clients.askers.near_the_end;
        self.meters.memory.schedule(runs, tight, now_us);
    }

    /// Freezes those that are frozen as memory runs short, before that is written. If this process dies in between,
    /// its guard and the next daemon thaw them, whatever their rows say.
    fn freeze_at_once(&mut self) -> Vec<Event> {
        let short = |job| self.jobs.table.get(&job).is_some_and(|live| live.freezes_since.is_some());
        let (freezes, others) = urgent_freezes(self.outbox.take_effects(), short);
        self.outbox.extend(others);
        freezes.into_iter().filter_map(|effect| self.carry_out(effect)).collect()
    }

    /// Takes the steps that handlers asked for, and what follows them, until none is left. What one of them asks for in
    /// turn comes right behind it.
    pub(super) fn settle(&mut self) {
        while let Some((next, behind)) = self.outbox.next() {
            match next {
                Next::Step(event) => self.step(*event),
                Next::Machine => self.step_machine(),
                Next::Configure => self.step(pinfold_policy::Event::Configure(self.settings())),
                Next::SetsChanged => self.sets_changed(),
                Next::Adopt(job, runs) => self.adopt(job, runs),
                Next::NotStarted(job, reason, code) => self.refuse_start(job, &reason, code),
                Next::CallKeepers => {
                    self.jobs.starts.call_keepers(&self.ctx, &self.jobs.table, &self.clients.server)
                }
                Next::Withdraw(job, reason) => self.withdrawn(job, reason.to_owned()),
                Next::LookForEnd(job) => self.finish_if_empty(job),
                Next::Follow(job) => self.follow_policy(job),
                Next::Reason(job, words) => self.jobs.set_reason(&mut self.outbox.journal, job, words),
                Next::Isolate => {
                    let Host { isolated, sets, .. } = &mut self.host;
                    isolated.isolate_waiting(&self.ctx, &mut self.outbox, &self.jobs.table, sets);
                }
                Next::IsolateOne => {
                    let Host { isolated, sets, .. } = &mut self.host;
                    isolated.isolate_one(&self.ctx, &mut self.outbox, &self.jobs.table, sets);
                }
                Next::MemoryRead => self.on_memory_read(),
                Next::Adopted { asked, job, processes } => self.on_adopted(asked, job, processes),
            }
            self.outbox.behind(behind);
        }
    }

    /// The scheduler takes an event in. Nothing else in the daemon has it do so.
    pub(super) fn step(&mut self, event: pinfold_policy::Event) {
        let submitted = match &event {
            pinfold_policy::Event::Submit(request) => Some(request.job),
            _ => None,
        };
        let now = Instant(self.ctx.clock.now_us());
        let decisions = self.events.step(&mut self.ctx.policy, now, event);
        self.note_waits();
        if let Some(job) = submitted {
            let refused = |one: &Decision| one.job == job && matches!(one.action, Action::Drop { .. });
            // Before what is decided about it: the client is to know under which number the next words come. A job that
            // is refused at once has its answer by that.
            if !decisions.iter().any(refused) {
                self.accepted(job);
            }
        }
        decisions.into_iter().for_each(|decision| self.decided(decision));
    }

    /// Notes since when jobs wait, as far as the last step changed that: for the next daemon they go on waiting. Thousands may
    /// have waited for one job.
    fn note_waits(&mut self) {
        for (at, (job, since)) in self.ctx.policy.waits_changed().enumerate() {
            let since_us = since.map(|at| at.0);
            if let Some(live) = self.jobs.table.get_mut(&job)
                && live.row.waits_since_us != since_us
            {
                live.row.waits_since_us = since_us;
                if at < WAITS_A_TURN {
                    self.outbox.journal.touch(job);
                } else {
                    self.jobs.waits_noted.insert(job);
                }
            }
        }
    }

    /// The scheduler takes the machine in, if that is not what it has.
    fn step_machine(&mut self) {
        let machine = self.host.sets.machine(&self.ctx);
        if *self.ctx.policy.machine() != machine {
            self.step(pinfold_policy::Event::Machine(machine));
        }
    }

    /// A job is in the queue.
    fn accepted(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        if let (Some(id), Some(ticket)) = (live.keeper, live.ticket.take()) {
            self.outbox.reply(id, Reply::Queued { ticket, job: job.0 });
        }
    }

    fn handle(&mut self, event: Event) {
        self.service.turn.busy_with(work::of_event(&event));
        match event {
            Event::Request(id, request) => {
                // Admission is a check: it finds the machine as it is now, and changes nothing.
                if matches!(request, Request::Submit { .. } | Request::Adopt { .. } | Request::SetAside(_)) {
                    self.host.neighbours.hurry(self.ctx.clock.now_us());
                    self.look_for_what_is_asked(&request);
                    self.look_at_host();
                }
                self.on_request(id, request);
            }
            Event::Closed(id) => self.on_closed(id),
            Event::ContainerChanged(job) => self.on_container_changed(job),
            Event::KeeperGone(job) => self.on_keeper_gone(job),
            Event::Carried(job, action) => self.on_carried(job, &action),
            Event::NotCarried(job, action, error) => self.on_not_carried(job, action, error),
            Event::PutOff(job, action, error) => self.on_put_off(job, action, error),
            Event::ChildGone(job) => self.on_child_gone(job),
            Event::SampleDue => self.meters.on_sample_due(&self.ctx, &mut self.outbox, &mut self.jobs),
            Event::ReadersDue => self.meters.readers.look(&mut self.jobs.table, self.ctx.clock.now_us()),
            Event::RecordsDue => self.meters.read_records(&self.ctx, &mut self.jobs),
            Event::IdleDue => self.meters.on_idle_due(&self.ctx, &mut self.outbox, &self.jobs),
            Event::MemoryDue => self.meters.on_memory_due(&self.ctx, &mut self.outbox, &mut self.jobs),
            Event::LookDue => {
                self.look_at_machine();
                self.outbox.then(Next::Isolate);
            }
            Event::DriftDue => self.on_drift_due(),
            Event::SetsDue => self.on_sets_due(),
            Event::MetricsWanted => self.on_metrics_wanted(),
            Event::HooksDone => self.surroundings.on_hooks_done(&self.ctx, &mut self.outbox, &mut self.jobs),
            Event::NodesCleared => self.host.own_nodes.on_nodes_cleared(
                &self.ctx,
                &mut self.outbox,
                &mut self.jobs.table,
                &mut self.host.guard,
            ),
            Event::NodesDue => {
                self.host.own_nodes.on_nodes_due(&self.ctx, &mut self.outbox, &mut self.jobs.table)
            }
            Event::NeighboursDue => self.on_neighbours_due(),
            Event::NamesKnown => {
                self.look_at_host();
                self.on_names_known();
            }
            Event::AgainDue => self.on_again_due(),
            Event::DirectoriesCleared => {
                self.surroundings.on_directories_cleared(&self.ctx, &mut self.outbox, &mut self.jobs)
            }
            Event::Flushed => self.on_flushed(),
            Event::UnheardDue => self.jobs.unheard.on_unheard_due(
                &self.ctx,
                &mut self.outbox,
                &mut self.jobs.table,
                &self.jobs.running,
            ),
            Event::LingeringDue => self.on_lingering_due(),
            Event::PolicyDue => self.outbox.step(pinfold_policy::Event::Tick),
            Event::PieceDue => self.on_piece_due(),
            Event::LeftDue => self.on_left_due(),
            Event::GatesDue => self.decide_gates(),
            Event::WaitsDue => self.jobs.write_waits(&mut self.outbox.journal),
            Event::LookPartDue => self.on_look_due(),
            Event::KillsDue => self.on_kills_due(),
            Event::BeginsDue => self.on_begins_due(),
            Event::TimeoutsDue => self.on_timeouts_due(),
            Event::SelfAttachDue => self.on_self_attach_due(),
            Event::HouseKeeping => self.on_house_keeping(),
        }
    }

    fn on_drift_due(&mut self) {
        let (journal, drifts) = (&mut self.outbox.journal, &mut self.host.drifts);
        drift::on_drift_due(&self.ctx, journal, &mut self.jobs, &mut self.clients.audit, drifts);
    }

    fn on_sets_due(&mut self) {
        self.host.sets.on_sets_due(&self.ctx, &mut self.outbox, &self.jobs.table);
        self.outbox.then(Next::Isolate);
    }

    /// The scheduler has taken the reading in.
    fn on_memory_read(&mut self) {
        self.read_nodes();
        self.clients.askers.share_allocations(&mut self.jobs);
        self.host.host_processes.share_limits(&self.ctx, &mut self.jobs);
        self.meters.memory.is_read();
        let (journal, table) = (&mut self.outbox.journal, &mut self.jobs.table);
        note_parked(&self.ctx.policy, journal, table, self.ctx.clock.now_us());
    }

    /// Reads what NUMA nodes have left: others' memory may have to lie on those that are a set's.
    fn read_nodes(&mut self) {
        let Some(available) = self.meters.jobs_nodes.read_nodes(&self.ctx, &mut self.outbox, &self.jobs)
        else {
            return;
        };
        let (journal, table) = (&mut self.outbox.journal, &mut self.jobs.table);
        let Host { own_nodes, guard, .. } = &mut self.host;
        own_nodes.relieve_nodes(&self.ctx, journal, table, guard, available);
    }

    /// Which NUMA nodes are a set's follows from sets and machine.
    pub(super) fn look_at_own_nodes(&mut self) {
        let Host { own_nodes, guard, sets, .. } = &mut self.host;
        own_nodes.look_at_own_nodes(&self.ctx, &mut self.outbox, &mut self.jobs, guard, sets);
    }

    /// Looks whether the machine is still what it was.
    pub(super) fn look_at_machine(&mut self) {
        let Some(first) = self.host.seen.look(&mut self.ctx) else { return };
        if *self.ctx.policy.machine() == self.host.sets.machine(&self.ctx) {
            return;
        }
        if !first {
            tracing::warn!(cpus = %self.ctx.topology.usable(), offline = %self.ctx.topology.offline(), "the machine changed");
        }
        self.outbox.then(Next::Machine);
        if !first {
            self.look_at_own_nodes();
        }
        // A group that lost its last PU lost its processes to the group above; they come back once it has others.
        let running: Vec<JobId> = self.jobs.running.iter().copied().collect();
        self.outbox.extend(running.into_iter().map(Effect::Gather));
    }

    /// Has the scheduler know the machine and its NUMA nodes as they are.
    fn look_at_host(&mut self) {
        self.look_at_machine();
        self.read_nodes();
        self.settle();
    }

    /// Sends what is to be sent, and watches for the room to send the rest.
    fn flush(&mut self) {
        self.service.turn.busy_with(work::SENDING);
        for id in self.clients.server.unflushed() {
            let finished = self.clients.server.flush(id);
            self.clients.pieces.room(id, self.clients.server.unsent_bytes(id));
            if self.clients.server.unblocked(id) {
                self.clients.backlog.insert(id);
            }
            if let Some(watch) = self.clients.server.watch_changed(id)
                && let Some(descriptor) = self.clients.server.descriptor(id)
            {
                let _ = self.ctx.poller.watch_for(Ready::Connection(id), descriptor, watch);
            }
            if finished {
                self.turns(vec![Event::Closed(id)]);
            }
        }
    }

    /// Reservations changed: rights, cores and NUMA nodes follow from them.
    fn sets_changed(&mut self) {
        self.clients.names.look_up_reserved(self.host.sets.users());
        self.step_machine();
        self.look_at_own_nodes();
    }
}
