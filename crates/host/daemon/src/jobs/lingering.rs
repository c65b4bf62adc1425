//! Jobs that are over but for processes that live on: their command's status is known, or can no longer be, and the last
//! process decides when they end. Where the kernel does not tell of the last one, a look does; without such looks a job
//! that is to be requeued, was cancelled or lost its keeper would wait for the next sample (`profile.interval`). So it is
//! with groups of jobs that are over, as long as a last process is on its way out of them.
//!
//! Owns when each of these jobs is looked at next. Absent here: what follows once a job is empty (`finish`, `requeue`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pinfold_policy::JobId;
use pinfold_topo::backoff::Backoff;

/// A job is looked at so soon after its command ended: most of what is left then is on its way out.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Each pause is twice the last one, up to this.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The looks of one turn of the loop stop after this long, in microseconds; without groups one may read all of `/proc`.
pub(crate) const TURN_MAX_US: u64 = 20_000;
/// The next looks follow no sooner than after so many times what the last ones took.
const REST_FACTOR: u64 = 4;

/// The jobs to look at, and when.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    /// When each is looked at next, in microseconds, and the pauses after that.
    jobs: BTreeMap<JobId, (u64, Backoff)>,
    /// The same by time.
    due: BTreeSet<(u64, JobId)>,
    /// Nothing is looked at before this.
    rests_until_us: u64,
}

impl Lingering {
    /// When there is something to look at.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.due.first().map(|&(at, _)| at.max(self.rests_until_us))
    }

    /// Has this job looked at until it is forgotten, soon at first; one that is known keeps its time.
    pub(crate) fn watch(&mut self, job: JobId, now_us: u64) {
        self.watch_after(job, Backoff::new(FIRST_PAUSE, PAUSE_MAX), now_us);
    }

    /// The same for a job that is given time first: the longest pause.
    pub(crate) fn watch_later(&mut self, job: JobId, now_us: u64) {
        self.forget(job);
        self.watch_after(job, Backoff::new(PAUSE_MAX, PAUSE_MAX), now_us);
    }

    fn watch_after(&mut self, job: JobId, pauses: Backoff, now_us: u64) {
        if !self.jobs.contains_key(&job) {
            self.set(job, pauses, now_us);
        }
    }

    fn set(&mut self, job: JobId, mut pauses: Backoff, now_us: u64) {
        self.forget(job);
        let pause_us = u64::try_from(pauses.pause().as_micros()).unwrap_or(u64::MAX);
        let at_us = now_us.saturating_add(pause_us);
        self.jobs.insert(job, (at_us, pauses));
        self.due.insert((at_us, job));
    }

    /// There is nothing more to look at.
    pub(crate) fn forget(&mut self, job: JobId) {
        if let Some((at_us, _)) = self.jobs.remove(&job) {
            self.due.remove(&(at_us, job));
        }
    }

    /// The job that has been due for longest, if any is; its next time is set.
    pub(crate) fn next(&mut self, now_us: u64) -> Option<JobId> {
        let &(at_us, job) = self.due.first()?;
        if at_us.max(self.rests_until_us) > now_us {
            return None;
        }
        let first = Backoff::new(FIRST_PAUSE, PAUSE_MAX);
        let pauses = self.jobs.get(&job).map_or(first, |&(_, pauses)| pauses);
        self.set(job, pauses, now_us);
        Some(job)
    }

    /// The looks of a turn took so long.
    pub(crate) fn rest(&mut self, took_us: u64, now_us: u64) {
        self.rests_until_us = now_us.saturating_add(took_us.saturating_mul(REST_FACTOR));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_PAUSE_US: u64 = 10_000;
    const PAUSE_MAX_US: u64 = 1_000_000;

    const ONE: JobId = JobId(1);
    const TWO: JobId = JobId(2);

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let mut lingering = Lingering::default();
        assert_eq!(lingering.due_us(), None, "an idle host is not woken");
        lingering.watch(ONE, 0);
        assert_eq!(lingering.next(FIRST_PAUSE_US - 1), None);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            let at = lingering.due_us().expect("watched");
            assert_eq!(lingering.next(at), Some(ONE));
            pauses.push(lingering.due_us().expect("still watched") - at);
        }
        assert_eq!(pauses[..3], [20_000, 40_000, 80_000]);
        assert_eq!(pauses[9], PAUSE_MAX_US);
        lingering.forget(ONE);
        assert_eq!((lingering.due_us(), lingering.next(u64::MAX)), (None, None));
    }

    #[test]
    fn a_job_that_is_watched_keeps_its_time() {
        let mut lingering = Lingering::default();
        lingering.watch(ONE, 0);
        lingering.watch(ONE, 9_000);
        assert_eq!(lingering.due_us(), Some(FIRST_PAUSE_US));
        lingering.watch_later(ONE, 9_000);
        assert_eq!(lingering.due_us(), Some(9_000 + PAUSE_MAX_US));
    }

    #[test]
    fn looks_take_turns_and_leave_time_to_others() {
        let mut lingering = Lingering::default();
        lingering.watch(TWO, 0);
        lingering.watch(ONE, 1);
        let now_us = 1_000_000;
        assert_eq!(lingering.next(now_us), Some(TWO));
        lingering.rest(30_000, now_us);
        assert_eq!(lingering.due_us(), Some(now_us + 30_000 * REST_FACTOR));
        assert_eq!(lingering.next(now_us + 30_000), None, "it rests");
        assert_eq!(
            lingering.next(now_us + 30_000 * REST_FACTOR),
            Some(ONE),
            "the one that waited for longer"
        );
    }
}
