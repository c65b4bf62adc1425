//! What follows once what was written is on the disk itself, and which starts wait for that.

use pinfold_policy::JobId;

use crate::core::Effect;
use crate::core::durable::After;
use crate::jobs::record::Begin;
use crate::reactor::Daemon;

impl Daemon {
    /// The end of a turn: whatever was written in it is flushed, if something waits for that. Gives what need not wait.
    pub(super) fn flush_turn(&mut self) {
        let after = self.outbox.flush();
        self.follows(after);
    }

    /// What was waited for is on disk.
    pub(super) fn on_flushed(&mut self) {
        let after = self.outbox.durable.done();
        self.follows(after);
    }

    fn follows(&mut self, after: Vec<After>) {
        for after in after {
            match after {
                After::Begin(job) => self.begin_now(job),
                After::Reply(id, reply) => self.outbox.reply(id, *reply),
                After::Frame(id, frame) => {
                    self.clients.server.let_go(id, frame.len());
                    self.outbox.push(Effect::Frame(id, frame));
                }
                After::EndStart(kept) => self.jobs.starts.end_unneeded(&self.ctx, &self.jobs.table, kept),
                After::KeepStart(kept, uid, start) => self.outbox.push(Effect::KeepStart(kept, uid, start)),
            }
        }
    }

    /// Whether a job may begin now. One that would come back after a restart of the host must be on disk as begun first,
    /// or a power cut would have it begin a second time; it is told to begin again once that is so.
    pub(super) fn is_sure_to_be_known(&mut self, job: JobId) -> bool {
        let Some(live) = self.jobs.table.get_mut(&job) else { return false };
        if !self.jobs.starts.has(&live.row) || live.begin == Begin::Sure {
            return true;
        }
        if live.begin == Begin::No {
            live.begin = Begin::Waits;
            live.row.started_us = Some(self.ctx.clock.now_us());
            self.outbox.journal.touch(job);
            self.outbox.durable.after(After::Begin(job));
        }
        false
    }

    fn begin_now(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get_mut(&job).filter(|live| live.begin == Begin::Waits) else {
            return;
        };
        live.begin = Begin::Sure;
        if live.granted {
            self.jobs.starts.forget_unless_requeued(&mut self.outbox.journal, &self.jobs.table, job);
            self.outbox.push(Effect::Act(job, self.jobs.table.start_action(job)));
        }
    }
}
