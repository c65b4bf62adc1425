//! The dispatcher's estimates of run times.

use std::collections::BTreeMap;

use crate::job::Job;
use crate::{Micros, SECOND};

/// The source of the dispatcher's estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Runtimes {
    /// The users' requests.
    #[default]
    Requested,
    /// The true run times, unknown in practice: a bound on the gain from better estimates.
    Perfect,
    /// The mean of the last two run times of the job's user, at most the job's request.
    ///
    /// Source: Tsafrir, Etsion and Feitelson, "Backfilling using system-generated predictions rather than user runtime
    /// estimates", IEEE TPDS 2007. A job that outlives its estimate is expected to run twice as long as it ran so far, at
    /// most its request.
    Learned,
}

/// Knowledge from earlier jobs.
#[derive(Debug, Default)]
pub(crate) struct Estimator {
    from: Runtimes,
    /// The last two run times of each user, the later first.
    last: BTreeMap<u64, (Micros, Option<Micros>)>,
}

impl Estimator {
    pub(crate) fn new(from: Runtimes) -> Self {
        Self { from, last: BTreeMap::new() }
    }

    /// The estimated run time of a job at its submission: at least a microsecond.
    pub(crate) fn estimate(&self, job: &Job) -> Micros {
        match self.from {
            Runtimes::Requested => job.requested_us,
            Runtimes::Perfect => job.run_us,
            Runtimes::Learned => match self.last.get(&job.user) {
                None => job.requested_us,
                Some(&(last, None)) => last.min(job.requested_us),
                Some(&(last, Some(before))) => u64::midpoint(last, before).clamp(1, job.requested_us),
            },
        }
    }

    /// The estimated run time of a job that has run for `elapsed_us` and outlived its estimate.
    pub(crate) fn outlived(job: &Job, elapsed_us: Micros) -> Micros {
        let doubled = elapsed_us.saturating_mul(2).max(elapsed_us.saturating_add(SECOND));
        // A job outlives its request only on a shared host.
        if elapsed_us < job.requested_us { doubled.min(job.requested_us) } else { doubled }
    }

    /// A job ended.
    pub(crate) fn ended(&mut self, job: &Job) {
        if self.from == Runtimes::Learned {
            let before = self.last.get(&job.user).map(|&(last, _)| last);
            self.last.insert(job.user, (job.run_us, before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_the_last_two() {
        let job = |run_us| Job { run_us, requested_us: 100, user: 7, ..Job::default() };
        let mut learned = Estimator::new(Runtimes::Learned);
        assert_eq!(learned.estimate(&job(10)), 100);
        learned.ended(&job(10));
        assert_eq!(learned.estimate(&job(10)), 10);
        learned.ended(&job(20));
        assert_eq!(learned.estimate(&job(10)), 15);
        learned.ended(&job(500));
        assert_eq!(learned.estimate(&job(10)), 100, "at most what it asks for");
    }

    #[track_caller]
    fn check(elapsed_s: u64, want_s: u64) {
        let job = Job { run_us: 90 * SECOND, requested_us: 100 * SECOND, ..Job::default() };
        assert_eq!(Estimator::outlived(&job, elapsed_s * SECOND), want_s * SECOND);
    }

    #[test]
    fn an_outlived_estimate_doubles() {
        check(0, 1);
        check(10, 20);
        check(60, 100);
        check(100, 200);
    }
}
