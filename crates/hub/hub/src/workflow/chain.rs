//! The spending of a run's time, as far as times show: hosts do not know dependencies of jobs, so the predecessor of
//! each job is the last job to end before its submission, from the last job of all backwards.

use crate::store::RunJob;

/// Tolerated difference of hosts' clocks between an end and the next submission, in microseconds.
const SLACK_US: u64 = 1_000_000;

/// A job of the chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Index among the run's jobs.
    pub at: usize,
    /// Time from the predecessor's end to the submission, in seconds.
    pub idle_s: f64,
    /// Waiting time.
    pub queued_s: f64,
    /// Running time.
    pub ran_s: f64,
    /// Suspended time.
    pub suspended_s: f64,
}

/// The chain of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chain {
    /// The jobs of the chain, oldest first.
    pub links: Vec<Link>,
    /// Time in which no job of the chain was submitted, in seconds.
    pub idle_s: f64,
    /// Waiting time of the chain's jobs.
    pub queued_s: f64,
    /// Running time, in seconds.
    pub ran_s: f64,
    /// Suspended time, in seconds.
    pub suspended_s: f64,
}

impl Chain {
    /// The chain of jobs sorted by end.
    #[must_use]
    pub fn of(jobs: &[RunJob]) -> Self {
        let seconds = pinfold_proto::view::seconds;
        let mut chain = Self::default();
        let mut next = jobs.len().checked_sub(1);
        while let Some(at) = next {
            let job = &jobs[at];
            let before =
                jobs[..at].partition_point(|one| one.ended_us <= job.submitted_us.saturating_add(SLACK_US));
            next = before.checked_sub(1);
            let idle_us = next.map_or(0, |before| job.submitted_us.saturating_sub(jobs[before].ended_us));
            let started_us = job.started_us.unwrap_or(job.ended_us);
            let link = Link {
                at,
                idle_s: seconds(idle_us),
                queued_s: seconds(started_us.saturating_sub(job.submitted_us)),
                ran_s: (job.wall_s - job.suspended_s).max(0.0),
                suspended_s: job.suspended_s,
            };
            chain.idle_s += link.idle_s;
            chain.queued_s += link.queued_s;
            chain.ran_s += link.ran_s;
            chain.suspended_s += link.suspended_s;
            chain.links.push(link);
        }
        chain.links.reverse();
        chain
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A job with these seconds of submission, start and end.
    pub(crate) fn job(run: &str, step: &str, (submitted, started, ended): (u64, u64, u64)) -> RunJob {
        RunJob {
            id: 1,
            run: run.into(),
            step: step.into(),
            submitted_us: submitted * 1_000_000,
            started_us: Some(started * 1_000_000),
            ended_us: ended * 1_000_000,
            failed: false,
            wall_s: pinfold_proto::view::seconds((ended - started) * 1_000_000),
            suspended_s: 0.0,
            cpu_s: 0.0,
            cores: 1,
            peak_bytes: 1 << 30,
            claim_bytes: None,
            unused_gibh: 0.0,
        }
    }

    #[test]
    fn the_chain_goes_back_from_the_last_end() {
        let mut jobs = vec![
            job("r", "a", (0, 5, 100)),
            job("r", "b", (0, 5, 60)),
            job("r", "c", (110, 130, 200)),
            job("r", "d", (110, 111, 150)),
        ];
        jobs.sort_by_key(|job| job.ended_us);
        let chain = Chain::of(&jobs);
        let steps: Vec<&str> = chain.links.iter().map(|link| jobs[link.at].step.as_str()).collect();
        assert_eq!(steps, ["a", "c"]);
        assert_eq!((chain.idle_s, chain.queued_s, chain.ran_s), (10.0, 25.0, 165.0));
        assert_eq!(Chain::of(&[]), Chain::default());
    }

    #[test]
    fn it_ends_whatever_the_times_say() {
        // All jobs at the same moment, and jobs that end before their submission.
        let mut jobs: Vec<RunJob> = (0..100).map(|_| job("r", "a", (7, 7, 7))).collect();
        jobs.push(RunJob { submitted_us: u64::MAX, ..job("r", "a", (7, 7, 8)) });
        assert!(Chain::of(&jobs).links.len() <= jobs.len());
    }
}
