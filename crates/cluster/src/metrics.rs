//! Figures of a run, as the literature on job scheduling defines them. Averages are over all jobs, without a warm-up
//! that is cut off.

use crate::Seconds;
use crate::job::Job;

/// Jobs shorter than this count as this long in a bounded slowdown, in seconds.
///
/// Source: Feitelson and Rudolph, "Metrics and benchmarking for parallel job scheduling", JSSPP 1998.
pub const BOUND_S: Seconds = 10;

/// See the module's page. All are 0 where there is no job.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Metrics {
    /// Jobs.
    pub jobs: usize,
    /// From the first submission to the last end.
    pub makespan_s: f64,
    /// Processor seconds used, of those that there were in the makespan: 0 to 1.
    pub utilisation: f64,
    /// From submission to start.
    pub mean_wait_s: f64,
    /// The wait that 95 of 100 jobs do not exceed (nearest rank).
    pub p95_wait_s: f64,
    /// From submission to end.
    pub mean_turnaround_s: f64,
    /// max(1, turnaround / max([`BOUND_S`], run time)).
    pub mean_bounded_slowdown: f64,
}

/// The figures of a run on so many processors; `starts_s` is in the order of `jobs`.
#[must_use]
pub fn metrics(jobs: &[Job], starts_s: &[Seconds], processors: u32) -> Metrics {
    if jobs.is_empty() || processors == 0 {
        return Metrics::default();
    }
    let mut waits: Vec<Seconds> =
        jobs.iter().zip(starts_s).map(|(job, &start)| start - job.submit_s).collect();
    let sum = |values: &mut dyn Iterator<Item = Seconds>| values.map(u128::from).sum::<u128>();
    let waited = sum(&mut waits.iter().copied());
    let ran = sum(&mut jobs.iter().map(|job| job.run_s));
    let used: u128 = jobs.iter().map(|job| u128::from(job.run_s) * u128::from(job.processors)).sum();
    let slowdowns: f64 = jobs.iter().zip(&waits).map(|(job, &wait_s)| bounded_slowdown(job, wait_s)).sum();
    let last =
        jobs.iter().zip(starts_s).map(|(job, &start)| start.saturating_add(job.run_s)).max().unwrap_or(0);
    let makespan_s = last - jobs.iter().map(|job| job.submit_s).min().unwrap_or(0);
    waits.sort_unstable();
    let count = jobs.len() as f64;
    let p95 = waits[(waits.len() * 95).div_ceil(100) - 1];
    Metrics {
        jobs: jobs.len(),
        makespan_s: makespan_s as f64,
        utilisation: used as f64 / (makespan_s as f64 * f64::from(processors)).max(f64::MIN_POSITIVE),
        mean_wait_s: waited as f64 / count,
        p95_wait_s: p95 as f64,
        mean_turnaround_s: (waited + ran) as f64 / count,
        mean_bounded_slowdown: slowdowns / count,
    }
}

fn bounded_slowdown(job: &Job, wait_s: Seconds) -> f64 {
    let turnaround_s = (wait_s + job.run_s) as f64;
    (turnaround_s / job.run_s.max(BOUND_S) as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_jobs_one_after_the_other() {
        let job =
            |submit_s, run_s| Job { number: 1, submit_s, run_s, requested_s: run_s, processors: 2, user: 0 };
        let jobs = [job(0, 20), job(10, 5)];
        let figures = metrics(&jobs, &[0, 20], 4);
        assert_eq!((figures.makespan_s, figures.mean_wait_s, figures.p95_wait_s), (25.0, 5.0, 10.0));
        assert_eq!((figures.mean_turnaround_s, figures.utilisation), (17.5, 0.5));
        // The second took 15 s, and counts as 10 s long.
        assert!((figures.mean_bounded_slowdown - 1.25).abs() < 1e-12);
        assert_eq!(metrics(&[], &[], 4), Metrics::default());
    }
}
