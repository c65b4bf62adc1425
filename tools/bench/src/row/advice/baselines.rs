//! Reference rules for advice, in the order of time: each allocates by the runs of a class that had ended when a job was
//! submitted, once there are three, and else the request; never more than that at first; and after a failure twice as much
//! or the request, whichever is more.
//!
//! Tovar: B. Tovar and others, A job sizing strategy for high-throughput scientific workflows, TPDS 29, 2018. The line over
//! input sizes: C. Witt and others, HPCS 2019, with the largest residual in place of a deviation.

use std::collections::BTreeMap;

use serde::Serialize;

use super::data::{Job, Set};

/// Runs of a class that a rule takes.
pub(super) const RUNS_MIN: usize = 3;
/// Without a request a job gets this much, in GB.
const UNKNOWN: f64 = 4.0;
/// Twice as much so often is more than a job can need.
const ATTEMPTS_MAX: usize = 64;

/// The result for some jobs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(super) struct Score {
    pub(super) jobs: usize,
    /// Attempts that failed.
    pub(super) failures: usize,
    /// Jobs with a failed attempt.
    pub(super) failed_jobs: usize,
    pub(super) waste_gbh: f64,
}

impl Score {
    /// Adds a job with these attempts, in GB.
    pub(super) fn add(&mut self, job: &Job, attempts: &[f64]) {
        let Some((last, failed)) = attempts.split_last() else { return };
        self.jobs += 1;
        self.failures += failed.len();
        self.failed_jobs += usize::from(!failed.is_empty());
        self.waste_gbh += (last - job.peak + failed.iter().sum::<f64>()) * job.hours;
    }

    /// The share of jobs with a failure.
    pub(super) fn failed_share(&self) -> f64 {
        self.failed_jobs as f64 / self.jobs.max(1) as f64
    }

    /// Waste and failures, as a table has them.
    pub(super) fn told(&self) -> String {
        format!("{:.0} ({:.1} %)", self.waste_gbh, 100.0 * self.failed_share())
    }
}

/// A rule: the first attempt for a job by the runs that are known, in GB.
pub(super) struct Rule {
    pub(super) name: &'static str,
    first: fn(&[&Job], &Job) -> f64,
}

impl Rule {
    /// The attempts for a job by the runs that are known.
    pub(super) fn tried(&self, runs: &[&Job], job: &Job) -> Vec<f64> {
        let first = if runs.len() < RUNS_MIN { request(job) } else { (self.first)(runs, job) };
        attempts(job, first)
    }
}

/// All rules; the first is the users' request.
pub(super) const RULES: [Rule; 7] = [
    Rule { name: "request", first: |_, job| request(job) },
    Rule { name: "max", first: |runs, _| largest(runs) },
    Rule { name: "max x1.1", first: |runs, _| largest(runs) * 1.1 },
    Rule { name: "p95", first: |runs, _| percentile(runs, 0.95) },
    Rule { name: "p99 x1.1", first: |runs, _| percentile(runs, 0.99) * 1.1 },
    Rule { name: "Tovar", first: |runs, _| tovar(runs) },
    Rule { name: "line", first: line },
];

/// The result of `rule` on a set.
pub(super) fn score(set: &Set, rule: &Rule) -> Score {
    play(set, |runs, job| rule.tried(runs, job))
}

/// The result of an oracle that knows each peak once three runs of the class have ended.
pub(super) fn oracle(set: &Set) -> Score {
    play(set, |_, job| attempts(job, job.peak.min(request(job))))
}

fn play(set: &Set, allocate: impl Fn(&[&Job], &Job) -> Vec<f64>) -> Score {
    let mut score = Score::default();
    in_time(&set.jobs, |at, known| {
        let job = &set.jobs[at];
        let runs: Vec<&Job> = known.iter().map(|&run| &set.jobs[run]).collect();
        let tried = if runs.len() < RUNS_MIN { attempts(job, request(job)) } else { allocate(&runs, job) };
        score.add(job, &tried);
    });
    score
}

/// Passes on the place of each job, and the places of the runs of its class that had ended at its submission.
pub(super) fn in_time(jobs: &[Job], mut take: impl FnMut(usize, &[usize])) {
    let mut before: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, job) in jobs.iter().enumerate() {
        let submit = job.times.map_or(f64::INFINITY, |times| times.0);
        let ended = |run: &usize| jobs[*run].times.is_some_and(|times| times.1 <= submit);
        let class = before.entry(&job.class).or_default();
        let known: Vec<usize> = class.iter().copied().filter(ended).collect();
        class.push(at);
        take(at, &known);
    }
}

pub(super) fn request(job: &Job) -> f64 {
    job.request.unwrap_or(UNKNOWN)
}

pub(super) fn attempts(job: &Job, first: f64) -> Vec<f64> {
    let mut last = first.max(0.0).min(request(job));
    let mut attempts = vec![last];
    while last < job.peak && attempts.len() < ATTEMPTS_MAX {
        last = (last * 2.0).max(request(job));
        attempts.push(last);
    }
    attempts
}

fn largest(runs: &[&Job]) -> f64 {
    runs.iter().map(|run| run.peak).fold(0.0, f64::max)
}

/// Between the two nearest ranks in proportion.
fn percentile(runs: &[&Job], share: f64) -> f64 {
    let mut peaks: Vec<f64> = runs.iter().map(|run| run.peak).collect();
    peaks.sort_by(f64::total_cmp);
    let place = share * (peaks.len() - 1) as f64;
    let below = peaks.iter().enumerate().rfind(|&(at, _)| at as f64 <= place);
    let Some((at, below)) = below else { return 0.0 };
    below + (peaks.get(at + 1).unwrap_or(below) - below) * (place - at as f64)
}

/// The first allocation with the least waste, if the next is the largest peak.
fn tovar(runs: &[&Job]) -> f64 {
    let largest = largest(runs);
    let cost = |first: f64| -> f64 {
        let one =
            |run: &&Job| if run.peak <= first { first * run.hours } else { (first + largest) * run.hours };
        runs.iter().map(one).sum()
    };
    let best =
        runs.iter().map(|run| run.peak).min_by(|a, b| cost(*a).total_cmp(&cost(*b)).then(a.total_cmp(b)));
    best.unwrap_or(largest)
}

/// A line by least squares over the input size, and its largest residual; without inputs the largest peak.
fn line(runs: &[&Job], job: &Job) -> f64 {
    let points: Option<Vec<(f64, f64)>> = runs.iter().map(|run| Some((run.input?, run.peak))).collect();
    let (Some(points), Some(input)) = (points, job.input) else { return largest(runs) };
    let n = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / n;
    let spread = points.iter().map(|point| (point.0 - mean_x).powi(2)).sum::<f64>();
    let slope = match spread {
        spread if spread > 0.0 => {
            points.iter().map(|point| (point.0 - mean_x) * (point.1 - mean_y)).sum::<f64>() / spread
        }
        _ => 0.0,
    };
    let at = |x: f64| mean_y + slope * (x - mean_x);
    at(input) + points.iter().map(|point| point.1 - at(point.0)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs of the same class, in turn, with these inputs and peaks; each runs an hour and asks for 100 GB.
    fn set(of: &[(f64, f64)]) -> Set {
        let job = |(n, &(input, peak)): (usize, &(f64, f64))| Job {
            class: "a".to_owned(),
            times: Some((n as f64 * 10.0, n as f64 * 10.0 + 9.0)),
            train: false,
            input: Some(input),
            request: Some(100.0),
            peak,
            hours: 1.0,
        };
        Set { name: "s".to_owned(), jobs: of.iter().enumerate().map(job).collect() }
    }

    #[track_caller]
    fn check(rule: &str, of: &[(f64, f64)], waste: f64, failed: usize) {
        let rule = RULES.iter().find(|known| known.name == rule).unwrap();
        let score = score(&set(of), rule);
        assert!((score.waste_gbh - waste).abs() < 1e-9, "{}: {}, not {waste}", rule.name, score.waste_gbh);
        assert_eq!(score.failed_jobs, failed, "{}", rule.name);
    }

    #[test]
    fn each_rule_allocates_as_it_says() {
        // The first three get 100 each: 300 - 6 wasted.
        let of = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (2.5, 2.5)];
        check("request", &of, 294.0 + 97.5, 0);
        check("max", &of, 294.0 + 0.5, 0);
        check("max x1.1", &of, 294.0 + 0.8, 0);
        check("p95", &of, 294.0 + 0.4, 0);
        check("p99 x1.1", &of, 294.0 + 2.98 * 1.1 - 2.5, 0);
        // All first allocations would have wasted as much: the least is taken.
        check("Tovar", &of, 294.0 + 1.0 + 100.0 - 2.5, 1);
        check("line", &of, 294.0, 0);
        let failing = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (2.5, 4.0)];
        check("max", &failing, 294.0 + 3.0 + 96.0, 1);
        assert!((oracle(&set(&failing)).waste_gbh - 294.0).abs() < 1e-9);
    }

    #[test]
    fn runs_that_had_not_ended_are_unknown() {
        let mut jobs = set(&[(1.0, 1.0); 4]);
        jobs.jobs[2].times = Some((20.0, 99.0));
        assert!((score(&jobs, &RULES[1]).waste_gbh - 4.0 * 99.0).abs() < 1e-9);
    }

    #[test]
    fn peaks_above_the_request_fail_until_they_fit() {
        let mut jobs = set(&[(1.0, 250.0)]);
        jobs.jobs[0].request = Some(100.0);
        let score = score(&jobs, &RULES[0]);
        assert_eq!((score.failures, score.failed_jobs), (2, 1));
        assert!((score.waste_gbh - (100.0 + 200.0 + 400.0 - 250.0)).abs() < 1e-9);
    }
}
