//! Every timer of the daemon, in one table: when it is due, and what follows. A new timer is a line here, and an event.

use std::time::Duration;

use crate::core::Event;
use crate::reactor::Daemon;

/// A host without jobs is left alone: nothing to keep house for but once in a long while, in microseconds.
const QUIET_HOUSE_US: u64 = 600_000_000;

impl Daemon {
    /// The table.
    fn timers(&self) -> [(Option<u64>, Event); 27] {
        let (meters, jobs, host) = (&self.meters, &self.jobs, &self.host);
        [
            (self.ctx.policy.next_wakeup().map(|at| at.0), Event::PolicyDue),
            (meters.sampler.sample_due_us(), Event::SampleDue),
            (meters.sampler.idle_due_us(), Event::IdleDue),
            (meters.readers.due_us(), Event::ReadersDue),
            (meters.processes.due_us(), Event::RecordsDue),
            (meters.memory.due_us(), Event::MemoryDue),
            (self.host.seen.look_due_us(&self.jobs.table), Event::LookDue),
            (host.drifts.due().map(|at| at.0), Event::DriftDue),
            (jobs.self_attach_due.front().map(|&(at, _)| at), Event::SelfAttachDue),
            (self.clients.pieces.due_us(), Event::PieceDue),
            (self.has_look_due().then_some(0), Event::LookPartDue),
            ((!jobs.left.is_empty()).then_some(0), Event::LeftDue),
            (jobs.gates.has_undecided().then_some(0), Event::GatesDue),
            ((!jobs.waits_noted.is_empty()).then_some(0), Event::WaitsDue),
            (jobs.kills.first().map(|&(at, _)| at), Event::KillsDue),
            (jobs.gates.due_us().map(|at| self.ctx.clock.look_us(at)), Event::BeginsDue),
            (jobs.timeouts.due_us(), Event::TimeoutsDue),
            (jobs.cpu_looks.due_us(), Event::TimeoutsDue),
            (self.host.sets.sets_due_us(), Event::SetsDue),
            (self.clients.names.due_us(), Event::NamesKnown),
            (self.clients.again.due_us(), Event::AgainDue),
            (self.surroundings.hooks.due_us(), Event::HooksDone),
            (host.own_nodes.due_us(), Event::NodesDue),
            (host.neighbours.due_us(&self.ctx), Event::NeighboursDue),
            (jobs.unheard.due_us(), Event::UnheardDue),
            (jobs.lingering.due_us(), Event::LingeringDue),
            (Some(self.service.house_keeping_us), Event::HouseKeeping),
        ]
    }

    /// Adds the events whose time has come.
    pub(super) fn due(&mut self, events: &mut Vec<Event>) {
        let now_us = self.ctx.clock.now_us();
        let is_due = |(at, event): (Option<u64>, Event)| at.is_some_and(|at| at <= now_us).then_some(event);
        let due: Vec<Event> = self.timers().into_iter().filter_map(is_due).collect();
        if due.iter().any(|event| matches!(event, Event::MemoryDue)) {
            // From now on counts how long a freeze takes.
            self.meters.memory.was_told();
        }
        events.extend(due);
    }

    /// How long the loop may sleep.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let clients = &self.clients;
        let jobs = &self.jobs;
        let of_jobs = !jobs.left.is_empty() || jobs.gates.has_undecided() || !jobs.waits_noted.is_empty();
        let has_due = clients.pieces.has_due() || self.has_look_due() || of_jobs;
        if has_due || !clients.backlog.is_empty() {
            return Some(Duration::ZERO);
        }
        let now_us = self.ctx.clock.now_us();
        let all_written = self.outbox.journal.trouble().is_none() && !self.clients.audit.lags();
        let quiet = !self.is_busy() && all_written;
        let idle_end = self.service.idle_end_us().filter(|_| quiet && self.clients.server.is_idle());
        let house_rests = quiet && !self.outbox.journal.lacks_spare();
        let at = |(at, event): (Option<u64>, Event)| match event {
            Event::HouseKeeping if house_rests => at.map(|at| at + QUIET_HOUSE_US),
            _ => at,
        };
        let due = self
            .timers()
            .into_iter()
            .filter_map(at)
            .chain(idle_end)
            .chain(self.service.manager.due_us())
            .min()?;
        // One millisecond at least, so that a timer that cannot be met does not spin.
        Some(Duration::from_micros(due.saturating_sub(now_us)).max(Duration::from_millis(1)))
    }

    /// Whether there is a job, or something of one to be taken down.
    pub(super) fn is_busy(&self) -> bool {
        let surroundings = &self.surroundings;
        !self.jobs.table.is_empty() || !surroundings.hooks.is_empty() || !surroundings.clearing.rests()
    }
}
