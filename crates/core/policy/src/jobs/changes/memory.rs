//! Changes of a job that concern its memory: readings, what follows from a shortage, checkpoints and requeues.

use crate::api::{Instant, JobId, JobMemory};
use crate::jobs::table::JobTable;

/// A freeze that takes its time: a job that was to be suspended and grows by so much from one reading to the next still
/// runs.
const SETTLED_BYTES: u64 = 1 << 20;

impl JobTable {
    /// Takes a reading in; `comes_back`: from swap. Gives how often it had missed what went out before.
    pub(crate) fn read_memory(&mut self, now: Instant, memory: &JobMemory, comes_back: bool) -> Option<u32> {
        let job = self.get_mut(&memory.job)?;
        let live = job.live()?;
        let writes = live.phase.writes_until().is_some();
        let stands = !writes && live.phase.suspend_reason().is_some();
        let (before, times_before) = (job.held.total(), job.held.cold.times());
        let runs = (job.has_slot() || writes) && !comes_back;
        job.held.read(now, memory, runs);
        job.held.settling = stands && job.held.total() >= before.saturating_add(SETTLED_BYTES);
        if stands {
            job.held.forget_growth();
        }
        Some(times_before)
    }

    /// A running job: what part of what it holds it needs, if some is cold.
    pub(crate) fn note_part(&mut self, id: JobId) -> Option<u16> {
        let job = self.get_mut(&id)?;
        let total = job.held.total();
        job.held.cold.note_part(total)
    }

    /// A little of it is moved to swap, to see whether it misses that.
    pub(crate) fn probe(&mut self, id: JobId, now: Instant) {
        if let Some(job) = self.get_mut(&id) {
            job.held.cold.probed = Some(now);
        }
    }

    /// Whether it starts, or runs, before all that is expected fits.
    pub(crate) fn set_overcommitted(&mut self, id: JobId, early: bool) {
        if let Some(job) = self.get_mut(&id) {
            job.held.early = early;
        }
    }

    /// It is not throttled again before this.
    pub(crate) fn unthrottle(&mut self, id: JobId, until: Instant) {
        if let Some(job) = self.get_mut(&id) {
            job.held.slowed_until = Some(until);
        }
    }

    /// It is frozen for memory, grew by so much, and does not return before this; `reclaimed`: for a pool's guarantee.
    pub(crate) fn freeze_for_memory(
        &mut self,
        id: JobId,
        growth: u64,
        rests_until: Instant,
        reclaimed: bool,
    ) {
        let Some(job) = self.get_mut(&id) else { return };
        job.held.growth = growth;
        job.held.rests_until = rests_until;
        job.held.freezes += 1;
        job.held.taken_back = reclaimed;
        job.held.growth_before = 0;
        job.held.forget_growth();
    }

    /// It goes on after it was frozen, and is not frozen for memory before this.
    pub(crate) fn resume_in_memory(&mut self, id: JobId, now: Instant, runs_until: Instant) {
        let Some(job) = self.get_mut(&id) else { return };
        (job.held.resumed, job.held.taken_back) = (now, false);
        job.held.runs_until = runs_until;
    }

    /// It is thawed to write a checkpoint, which is given up at this time.
    pub(crate) fn write_checkpoint(&mut self, id: JobId, until: Instant) {
        if let Some(live) = self.live_mut(id)
            && live.phase.write(until)
        {
            live.applied.frozen = Some(false);
        }
    }

    /// Its checkpoint is written, and it is ended.
    pub(crate) fn checkpoint_written(&mut self, id: JobId) {
        let Some(job) = self.get_mut(&id) else { return };
        if job.live_mut().is_some_and(|live| live.phase.written()) {
            job.checkpoints = job.checkpoints.saturating_add(1);
        }
    }

    /// Its checkpoint failed: it is not asked again before this.
    pub(crate) fn checkpoint_failed(&mut self, id: JobId, rests_until: Instant) {
        let Some(live) = self.live_mut(id) else { return };
        live.checkpoints.rests_until = rests_until;
        live.checkpoints.failures += 1;
    }

    /// What it writes is not waited for any more, and whether it is frozen not known: it stays. `None`: it wrote
    /// nothing; else as for [`Self::cancel_requeue`].
    pub(crate) fn stop_checkpoint(&mut self, id: JobId) -> Option<bool> {
        let live = self.live_mut(id).filter(|live| live.phase.writes_until().is_some())?;
        live.applied.frozen = None;
        live.phase.stay()
    }

    /// It is ended, to begin anew later, though it was writing a checkpoint; gives how often that was done to it.
    pub(crate) fn requeue(&mut self, id: JobId) -> Option<u32> {
        let job = self.get_mut(&id)?;
        job.live_mut().filter(|live| !live.phase.is_ending())?.phase.end(false).then(|| {
            job.requeues += 1;
            job.requeues
        })
    }

    /// It is ended to begin anew, as its user asks; says whether it is: one that starts, or is being ended for that
    /// already, is not.
    pub(crate) fn requeue_as_asked(&mut self, id: JobId) -> bool {
        let Some(live) = self.live_mut(id) else { return false };
        let ends = live.phase.end(true);
        if ends {
            live.signal = None; // it would reach nobody
        }
        ends
    }

    /// It is not ended after all, and stays. `None`: it was not to be; else whether its user suspended it meanwhile,
    /// and it is not frozen.
    pub(crate) fn cancel_requeue(&mut self, id: JobId) -> Option<bool> {
        self.live_mut(id)?.phase.stay()
    }
}
