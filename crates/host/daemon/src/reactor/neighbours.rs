//! The host is shared with other users' daemons: what this one says, and what follows of who else is active.

use pinfold_policy::JobId;
use pinfold_proto::JobState;
use pinfold_sys::neighbours::Entry;

use crate::core::Next;
use crate::reactor::Daemon;

impl Daemon {
    /// Looks who else has jobs on the host. Cores and memory that come or go with that do so as if the configuration had
    /// been changed.
    pub(super) fn on_neighbours_due(&mut self) {
        let (own, busy) = (self.own_entry(), self.is_busy());
        let share = self.host.neighbours.on_due(&self.ctx, own, busy);
        if share == self.ctx.share {
            return;
        }
        self.ctx.share = share;
        tracing::info!(users = share.users(), "the users who share this host changed");
        self.meters.memory.bound_memory(&self.ctx);
        self.outbox.then(Next::Configure);
        self.outbox.then(Next::Machine);
    }

    /// What this daemon's jobs have and want. Held jobs want nothing.
    fn own_entry(&self) -> Entry {
        let mut entry = Entry::default();
        for job in &self.jobs.running {
            let Some(info) = self.ctx.policy.job(*job) else { continue };
            entry.cores_held += u64::from(info.cores);
            entry.memory_wanted_bytes = entry.memory_wanted_bytes.saturating_add(info.memory_need_bytes);
            entry.memory_held_bytes = entry.memory_held_bytes.saturating_add(info.memory_peak_bytes);
        }
        let waits = self.jobs.table.len().saturating_sub(self.jobs.running.len()) as u64;
        // A job that waits for other users lends the cores that it cannot use: two such users would wait for each other.
        let waits_for_others = |job: JobId| self.ctx.policy.waits_for_neighbours(job);
        // Of many that wait none is held, as a rule: the first tells.
        let mut all = self.jobs.table.iter();
        let any = all.any(|(&job, live)| live.row.state != JobState::Held && !waits_for_others(job));
        entry.slots_wanted = if any { (entry.cores_held + waits).max(1) } else { 0 };
        entry
    }
}
