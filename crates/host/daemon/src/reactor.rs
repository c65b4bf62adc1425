//! The daemon: its rooms, and the loop that is the only place that sees them all.
//!
//! One thread owns everything. The loop waits, gathers what happened, hands each event to its handler, has the scheduler
//! take in what the handlers ask for, commits what changed, and only then carries the effects out (`reactor/turn.rs`).
//!
//! A room keeps its state to itself and does not know of the daemon: what its methods may touch, they are given. What takes
//! several rooms is a flow, in a file below this one, and reads from top to bottom. Absent here: what a room does by itself.
//!
//! The loop: `turn`, `timers`, `decide`, `commit`, `act`, `house` (every few seconds), `open`, `restore` and
//! `stop`.
//! A job's way: `submit`, `gates`, `start`, `keeper`, `finish`, `timeouts`, `requeue`, `checkpoint`, `control`
//! (words of users), `resources`, `squeeze`.
//! Processes of others: `adopted`, `belongs`, `taken_in`, `part`, `in_place`.
//! Answers: `requests`, `answer`, `reports`, `named`, `now`, `then`, `looks`, `pieces`, `figures`. The host:
//! `operate`, `neighbours`.

mod act;
mod adopted;
mod answer;
mod belongs;
mod checkpoint;
mod commit;
mod control;
mod decide;
mod figures;
mod finish;
mod gates;
mod house;
mod in_place;
mod keeper;
mod looks;
mod named;
mod neighbours;
mod now;
mod open;
mod operate;
mod part;
mod pieces;
mod reports;
mod requests;
mod requeue;
mod resources;
mod restore;
mod squeeze;
mod start;
mod stop;
mod submit;
mod taken_in;
mod then;
mod timeouts;
mod timers;
mod turn;

use pinfold_sys::signals::{SIGHUP, Signals};

use crate::clients::Clients;
use crate::clients::cost::Load;
use crate::core::poller::Ready;
use crate::core::service::Service;
use crate::core::turns::work;
use crate::core::{ConnectionId, Ctx, Event, Outbox};
use crate::host::Host;
use crate::jobs::Jobs;
use crate::meters::{Meters, readings};
use crate::store::events::Events;
use crate::surroundings::Surroundings;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Daemon {
    /// What every handler may read.
    ctx: Ctx,
    /// What handlers want committed, decided and done.
    outbox: Outbox,
    jobs: Jobs,
    clients: Clients,
    host: Host,
    meters: Meters,
    surroundings: Surroundings,
    /// What the scheduler is told, recorded.
    events: Events,
    /// The process itself: its service manager, its watchdog, its end.
    service: Service,
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
        self.ctx.poller.watch(Ready::Listener, &self.clients.server)?;
        self.ctx.poller.watch(Ready::Signals, signals)?;
        self.ctx.poller.watch(Ready::Site, &self.surroundings.hooks)?;
        self.ctx.poller.watch(Ready::Nodes, &self.host.own_nodes)?;
        self.ctx.poller.watch(Ready::Cleared, &self.surroundings.clearing)?;
        self.ctx.poller.watch(Ready::Flushed, &self.outbox.durable)?;
        self.ctx.poller.watch(Ready::Names, &self.clients.names)?;
        self.meters.memory.watch_memory(&self.ctx);
        self.service.manager.ready();
        // The service manager, which waited for the daemon to be ready, need not wait for this as well.
        self.meters.learned.learn_from_history(&self.ctx, &mut self.outbox);
        self.settle();
        let end = loop {
            let timeout = self.timeout();
            self.service.turn.ends();
            let ready = self.ctx.poller.wait(timeout);
            self.service.turn.begins();
            if let Some(end) = self.signalled(&ready, signals) {
                break end;
            }
            let mut events = self.gather(&ready);
            self.due(&mut events);
            self.turns(events);
            self.service.manager.beat(self.ctx.clock.now_us());
            let is_idle = !self.is_busy() && self.clients.server.is_idle();
            if self.service.is_over(is_idle, self.ctx.clock.now_us()) {
                break End::Idle;
            }
        };
        tracing::info!(reason = ?end, "stopping");
        self.service.manager.stopping();
        self.stop();
        // Groups that hold jobs stay, for the next daemon to find them.
        self.ctx.containers.close();
        Ok(())
    }

    fn signalled(&mut self, ready: &[Ready], signals: &Signals) -> Option<End> {
        if !ready.contains(&Ready::Signals) {
            return None;
        }
        self.service.turn.busy_with(work::SIGNALS);
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
        match self.ctx.options.configured_again() {
            Ok(configured) => {
                self.ctx.configured = configured;
                self.clients.names.look_up_configured(&self.ctx);
                self.clients.names.look_up_reserved(self.host.sets.users());
                self.apply_configuration();
                self.turns(Vec::new());
                tracing::info!("configuration read again");
            }
            Err(error) => tracing::error!(error = %format!("{error:#}"), "the configuration stays as it was"),
        }
    }

    /// Turns what is ready into events.
    fn gather(&mut self, ready: &[Ready]) -> Vec<Event> {
        self.service.turn.busy_with(work::READING);
        let mut events = Vec::new();
        self.clients.server.begin_turn(self.load());
        self.clients.looks.begin_turn(looks::JOBS_A_PART);
        self.jobs.gates.begin_turn();
        self.meters.processes.begin_turn();
        let backlog = std::mem::take(&mut self.clients.backlog);
        for &ready in ready {
            match ready {
                Ready::Listener => {
                    for id in self.clients.server.accept(&self.ctx.proc) {
                        if !self.clients.names.arrived(&self.ctx, &self.clients.server, id) {
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
                    self.meters.memory.was_told();
                    events.push(Event::MemoryDue);
                }
                Ready::MemoryAlarmGone => self.meters.memory.drop_alarm(),
                Ready::Metrics => events.push(Event::MetricsWanted),
                Ready::Site => events.push(Event::HooksDone),
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
        Load {
            jobs: self.jobs.table.len(),
            processes: self.host.processes_seen,
            readings: readings::kept_max(&self.ctx),
            reading_every_us: readings::EVERY_US,
            now_us: self.ctx.clock.now_us(),
            refuses: false,
        }
    }

    /// Reads what a connection has to say.
    fn hear(&mut self, id: ConnectionId, events: &mut Vec<Event>) {
        let heard = self.clients.server.read(id);
        events.extend(heard.requests.into_iter().map(|request| Event::Request(id, request)));
        if heard.more {
            self.clients.backlog.insert(id);
        }
        if heard.closed {
            events.push(Event::Closed(id));
        }
    }
}
