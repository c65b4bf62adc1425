//! How long the dispatcher believes that a job takes.

use std::collections::BTreeMap;

use crate::Seconds;
use crate::job::Job;

/// Where the dispatcher's estimates come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Runtimes {
    /// What users ask for.
    #[default]
    Requested,
    /// The true run times, which nobody knows: a bound on what better estimates can bring.
    Perfect,
    /// The mean of the last two run times of the job's user, at most what the job asks for.
    ///
    /// Source: Tsafrir, Etsion and Feitelson, "Backfilling using system-generated predictions rather than user runtime
    /// estimates", IEEE TPDS 2007. A job that outlives its estimate is believed to take twice as long as it ran so
    /// far, at most what it asks for.
    Learned,
}

/// What is known of earlier jobs.
#[derive(Debug, Default)]
pub(crate) struct Estimator {
    from: Runtimes,
    /// The last two run times of each user, the later one first.
    last: BTreeMap<u64, (Seconds, Option<Seconds>)>,
}

impl Estimator {
    pub(crate) fn new(from: Runtimes) -> Self {
        Self { from, last: BTreeMap::new() }
    }

    /// How long a job is believed to take when it is submitted: at least a second.
    pub(crate) fn estimate(&self, job: &Job) -> Seconds {
        match self.from {
            Runtimes::Requested => job.requested_s,
            Runtimes::Perfect => job.run_s,
            Runtimes::Learned => match self.last.get(&job.user) {
                None => job.requested_s,
                Some(&(last, None)) => last.min(job.requested_s),
                Some(&(last, Some(before))) => u64::midpoint(last, before).clamp(1, job.requested_s),
            },
        }
    }

    /// How long a job is believed to take that has run for `elapsed_s` and outlived its estimate.
    pub(crate) fn outlived(job: &Job, elapsed_s: Seconds) -> Seconds {
        // It cannot outlive what it asks for: the filter ends it there.
        elapsed_s.saturating_mul(2).max(elapsed_s + 1).min(job.requested_s.max(elapsed_s + 1))
    }

    /// A job ended.
    pub(crate) fn ended(&mut self, job: &Job) {
        if self.from == Runtimes::Learned {
            let before = self.last.get(&job.user).map(|&(last, _)| last);
            self.last.insert(job.user, (job.run_s, before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_the_last_two() {
        let job = |run_s| Job { number: 1, submit_s: 0, run_s, requested_s: 100, processors: 1, user: 7 };
        let mut learned = Estimator::new(Runtimes::Learned);
        assert_eq!(learned.estimate(&job(10)), 100);
        learned.ended(&job(10));
        assert_eq!(learned.estimate(&job(10)), 10);
        learned.ended(&job(20));
        assert_eq!(learned.estimate(&job(10)), 15);
        learned.ended(&job(500));
        assert_eq!(learned.estimate(&job(10)), 100, "at most what it asks for");
        assert_eq!(Estimator::outlived(&job(90), 15), 30);
        assert_eq!(Estimator::outlived(&job(90), 80), 100);
        assert_eq!(Estimator::outlived(&job(90), 0), 1);
    }
}
