//! Figures of a run, as the literature on job scheduling defines them. Averages are over all jobs, without cutting a
//! warm-up off.

use crate::job::Job;
use crate::{Micros, SECOND};

/// Jobs shorter than this count as this long in a bounded slowdown.
///
/// Source: Feitelson and Rudolph, "Metrics and benchmarking for parallel job scheduling", JSSPP 1998.
pub const BOUND: Micros = 10 * SECOND;

/// The times of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The earliest possible start: submitted, and all predecessors ended.
    pub submit_us: Micros,
    /// The start.
    pub start_us: Micros,
    /// The end.
    pub end_us: Micros,
}

/// See the module's page. All are 0 where there is no job.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Metrics {
    /// Jobs.
    pub jobs: usize,
    /// From the first submission to the last end.
    pub makespan_s: f64,
    /// Processor seconds of jobs, as if each ran alone on its processors, over the processor seconds of the makespan: 0 to
    /// 1, above 1 where processors did the work of several jobs.
    pub utilisation: f64,
    /// From submission to start.
    pub mean_wait_s: f64,
    /// The wait that 95 of 100 jobs do not exceed (nearest rank).
    pub p95_wait_s: f64,
    /// From submission to end.
    pub mean_turnaround_s: f64,
    /// max(1, turnaround / max([`BOUND`], run time)).
    pub mean_bounded_slowdown: f64,
}

/// The figures of a run on this many processors; `spans` is in the order of `jobs`.
#[must_use]
pub fn metrics(jobs: &[Job], spans: &[Span], processors: u64) -> Metrics {
    if jobs.is_empty() || processors == 0 {
        return Metrics::default();
    }
    let mut waits: Vec<Micros> = spans.iter().map(|span| span.start_us - span.submit_us).collect();
    let sum = |values: &mut dyn Iterator<Item = Micros>| seconds(values.map(u128::from).sum());
    let waited = sum(&mut waits.iter().copied());
    let turned = sum(&mut spans.iter().map(|span| span.end_us - span.submit_us));
    let used = jobs.iter().map(|job| u128::from(job.run_us) * u128::from(job.processors)).sum();
    let slowdowns: f64 = jobs.iter().zip(spans).map(|(job, span)| bounded_slowdown(job, span)).sum();
    let last = spans.iter().map(|span| span.end_us).max().unwrap_or(0);
    let makespan_s = seconds(u128::from(last - spans.iter().map(|span| span.submit_us).min().unwrap_or(0)));
    waits.sort_unstable();
    let count = jobs.len() as f64;
    let p95 = waits[(waits.len() * 95).div_ceil(100) - 1];
    Metrics {
        jobs: jobs.len(),
        makespan_s,
        utilisation: seconds(used) / (makespan_s * processors as f64).max(f64::MIN_POSITIVE),
        mean_wait_s: waited / count,
        p95_wait_s: seconds(p95.into()),
        mean_turnaround_s: turned / count,
        mean_bounded_slowdown: slowdowns / count,
    }
}

fn seconds(us: u128) -> f64 {
    us as f64 / SECOND as f64
}

fn bounded_slowdown(job: &Job, span: &Span) -> f64 {
    let turnaround_us = (span.end_us - span.submit_us) as f64;
    (turnaround_us / job.run_us.max(BOUND) as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_jobs_one_after_the_other() {
        let job = |submit_s, run_s| Job {
            submit_us: submit_s * SECOND,
            run_us: run_s * SECOND,
            processors: 2,
            ..Job::default()
        };
        let span = |submit_s, start_s, end_s| Span {
            submit_us: submit_s * SECOND,
            start_us: start_s * SECOND,
            end_us: end_s * SECOND,
        };
        let jobs = [job(0, 20), job(10, 5)];
        let figures = metrics(&jobs, &[span(0, 0, 20), span(10, 20, 25)], 4);
        assert_eq!((figures.makespan_s, figures.mean_wait_s, figures.p95_wait_s), (25.0, 5.0, 10.0));
        assert_eq!((figures.mean_turnaround_s, figures.utilisation), (17.5, 0.5));
        // The second took 15 s, and counts as 10 s long.
        assert!((figures.mean_bounded_slowdown - 1.25).abs() < 1e-12);
        assert_eq!(metrics(&[], &[], 4), Metrics::default());
    }
}
