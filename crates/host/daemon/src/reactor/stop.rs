//! The daemon's end, in order.

use pinfold_policy::JobId;
use pinfold_sys::container::Container;

use crate::clients::pieces::Pieces;
use crate::jobs::record::Begin;
use crate::reactor::Daemon;

impl Daemon {
    /// Ends in order: nothing frozen, everything written, jobs left running.
    pub(super) fn stop(&mut self) {
        let frozen: Vec<JobId> = self
            .jobs
            .table
            .values()
            .filter(|live| live.row.frozen_since_us.is_some())
            .map(|live| live.id())
            .collect();
        let now_us = self.ctx.clock.now_us();
        for live in self.jobs.table.values_mut().filter(|_| self.ctx.containers.can_steer_memory()) {
            if let Some(container) = &mut live.container {
                crate::reactor::restore::free_memory_of(live.row.job, container);
            }
        }
        self.host.neighbours.stop();
        let away = self.host.own_nodes.stop();
        for live in self
            .jobs
            .table
            .values_mut()
            .filter(|live| !live.memory_nodes.is_empty() || away.contains(&live.id()))
        {
            if let Some(Err(error)) = live.container.as_mut().map(|container| container.near(&[])) {
                tracing::error!(job = live.row.job, %error, "a job's memory stays bound; `pinfold admin rescue` unbinds it");
            }
        }
        for job in frozen {
            let Some(live) = self.jobs.table.get_mut(&job) else { continue };
            let thawed = live.container.as_deref_mut().map_or(Ok(()), Container::thaw);
            match thawed {
                Ok(()) => live.set_state(pinfold_proto::JobState::Running, now_us),
                Err(error) => {
                    tracing::error!(job = job.0, %error, "a job stays frozen; `pinfold admin rescue` thaws it")
                }
            }
            self.outbox.journal.touch(job);
        }
        let files = self.meters.files.stop();
        files.into_iter().for_each(|row| self.outbox.journal.file(row));
        for live in self.jobs.table.values_mut().filter(|live| live.begin != Begin::No) {
            live.does_not_begin();
            self.outbox.journal.touch(live.id());
        }
        while !self.jobs.waits_noted.is_empty() {
            self.jobs.write_waits(&mut self.outbox.journal);
        }
        self.outbox.journal.tries_again();
        self.outbox.journal.write(&mut self.jobs.table);
        self.outbox.journal.close_numbers();
        // Nothing follows any more.
        let _ = self.outbox.flush();
        self.outbox.durable.close();
        self.clients.audit.close(pinfold_proto::view::seconds(self.ctx.clock.now_us()));
        for job in self.jobs.finished.all() {
            self.jobs.finished.remove(&self.ctx, &mut self.jobs.lingering, job);
        }
        self.host.isolated.stop_housekeeping(&self.ctx);
        self.clients.pieces = Pieces::default();
        self.surroundings.finish_clearing();
        self.surroundings.scratches.close();
        self.surroundings.disks.close(&self.ctx);
        self.clients.server.remove_socket(&self.ctx.state, !self.jobs.table.is_empty());
        self.host.guard.stand_down();
        self.jobs.finished.remove_all();
    }
}
