//! Jobs that are over but for processes that live on: their command's status is known, or can no longer be, and the last
//! process decides when they end. Where the kernel does not tell of the last one, a look does; without such looks a job
//! that is to begin anew, was cancelled or lost its keeper would wait for the next sample (`profile.interval`). So it is
//! with groups of jobs that are over, as long as a last process is on its way out of them.
//!
//! Owns when each of these jobs is looked at next. Absent here: what follows once a job is empty (`finish`, `requeue`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pinfold_policy::JobId;

use crate::daemon::Daemon;

/// A job is looked at so soon after its command ended, in microseconds: most of what is left then is on its way out.
const FIRST_PAUSE_US: u64 = 10_000;
/// Each pause is twice the last one, up to this.
const PAUSE_MAX_US: u64 = 1_000_000;
/// The looks of one turn of the loop stop after this long, in microseconds; without groups one may read all of `/proc`.
const TURN_MAX_US: u64 = 20_000;
/// The next looks follow no sooner than after so many times what the last ones took.
const REST_FACTOR: u64 = 4;

/// The jobs to look at, and when.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    /// When each is looked at next, and the pause before that, in microseconds.
    jobs: BTreeMap<JobId, (u64, u64)>,
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
        self.watch_after(job, FIRST_PAUSE_US, now_us);
    }

    /// The same for a job that is given time first: the longest pause.
    pub(crate) fn watch_later(&mut self, job: JobId, now_us: u64) {
        self.forget(job);
        self.watch_after(job, PAUSE_MAX_US, now_us);
    }

    fn watch_after(&mut self, job: JobId, pause_us: u64, now_us: u64) {
        if !self.jobs.contains_key(&job) {
            self.set(job, now_us.saturating_add(pause_us), pause_us);
        }
    }

    fn set(&mut self, job: JobId, at_us: u64, pause_us: u64) {
        self.forget(job);
        self.jobs.insert(job, (at_us, pause_us));
        self.due.insert((at_us, job));
    }

    /// There is nothing more to look at.
    pub(crate) fn forget(&mut self, job: JobId) {
        if let Some((at_us, _)) = self.jobs.remove(&job) {
            self.due.remove(&(at_us, job));
        }
    }

    /// The job that has been due for longest, if any is; its next time is set.
    fn next(&mut self, now_us: u64) -> Option<JobId> {
        let &(at_us, job) = self.due.first()?;
        if at_us.max(self.rests_until_us) > now_us {
            return None;
        }
        let pause_us = self.jobs.get(&job).map_or(FIRST_PAUSE_US, |&(_, pause_us)| pause_us);
        let pause_us = pause_us.saturating_mul(2).min(PAUSE_MAX_US);
        self.set(job, now_us.saturating_add(pause_us), pause_us);
        Some(job)
    }

    /// The looks of a turn took so long.
    fn rest(&mut self, took_us: u64, now_us: u64) {
        self.rests_until_us = now_us.saturating_add(took_us.saturating_mul(REST_FACTOR));
    }
}

impl Daemon {
    /// Looks at the jobs that are due, for a bounded time.
    pub(crate) fn look_for_last_processes(&mut self) {
        let begun = Instant::now();
        let took_us = || u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let now_us = self.clock.now_us();
        while let Some(job) = self.lingering.next(now_us) {
            if self.lingers(job) {
                self.finish_if_empty(job);
            } else {
                // What stood around it is gone already, or it would not be looked at.
                self.remove(job);
            }
            if !self.lingers(job) && !self.sampler.has_finished(job) {
                self.lingering.forget(job);
            }
            if took_us() >= TURN_MAX_US {
                break;
            }
        }
        self.lingering.rest(took_us(), self.clock.now_us());
    }

    /// Whether only processes that live on keep a job from its end.
    fn lingers(&self, job: JobId) -> bool {
        let told = |live: &crate::live::Live| live.row.ending.is_some() || live.orphaned;
        self.jobs.get(&job).is_some_and(|live| told(live) && live.container.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
