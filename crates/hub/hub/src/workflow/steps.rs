//! The steps of a run beside the same steps of earlier runs: steps slower or larger beyond the spread of earlier runs.
//! With fewer than [`RUNS_MIN`] earlier runs there is no verdict.

use std::collections::BTreeMap;

use crate::store::{RunDetail, RunJob};

/// The fewest earlier runs that show the usual spread.
pub const RUNS_MIN: usize = 3;

/// The deviation of a changed run, in spreads of the earlier runs, and the least spread as a part of the median: a
/// deviation below a tenth is never a change.
const SPREADS: f64 = 3.0;
const SPREAD_MIN: f64 = 0.1 / SPREADS;

/// A step's figure compared with earlier runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Too few earlier runs have this step, or no job of it ended well.
    TooFew,
    /// Within the spread of earlier runs.
    Within,
    /// Above the spread of earlier runs.
    More,
    /// Below the spread of earlier runs.
    Less,
}

impl Change {
    /// The word in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::TooFew => "too_few",
            Self::Within => "within",
            Self::More => "more",
            Self::Less => "less",
        }
    }
}

/// The medians of earlier runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Before {
    /// The smallest median.
    pub low: f64,
    /// The median of the medians.
    pub middle: f64,
    /// The largest median.
    pub high: f64,
}

/// A figure of a step: the medians over its jobs that ended well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The median in this run; `None`: no job ended well.
    pub now: Option<f64>,
    /// The figure in the earlier runs; `None`: no earlier run has a value.
    pub before: Option<Before>,
    /// The verdict.
    pub change: Change,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Name of the step.
    pub step: String,
    /// Number of jobs.
    pub jobs: usize,
    /// Number of failed jobs.
    pub failed: usize,
    /// Earlier runs in which jobs of the step ended well.
    pub earlier_runs: usize,
    /// Jobs of the step that ended well in earlier runs.
    pub earlier_jobs: usize,
    /// Running time of a job without suspensions, in seconds.
    pub ran_s: Figure,
    /// The most memory of a job, in bytes.
    pub peak_bytes: Figure,
    /// Allocated core hours.
    pub core_h: f64,
    /// Requested memory times time, in GiB times hours.
    pub claimed_gibh: f64,
    /// Waiting time in hours.
    pub queued_h: f64,
}

/// The median; of an even count the mean of the middle two; `None` of no values.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let upper = *values.get(count / 2)?;
    Some(if count % 2 == 1 { upper } else { values[count / 2 - 1].midpoint(upper) })
}

/// The median of a figure over these jobs.
fn middle_of(jobs: &[&RunJob], figure: fn(&RunJob) -> f64) -> Option<f64> {
    median(&mut jobs.iter().map(|job| figure(job)).collect::<Vec<_>>())
}

fn figure(now: &[&RunJob], earlier: &[Vec<&RunJob>], of: fn(&RunJob) -> f64) -> Figure {
    beside(middle_of(now, of), earlier.iter().filter_map(|jobs| middle_of(jobs, of)).collect())
}

/// Compares a median with earlier medians and their spread.
#[must_use]
pub fn beside(now: Option<f64>, mut medians: Vec<f64>) -> Figure {
    let Some(middle) = median(&mut medians) else {
        return Figure { now, before: None, change: Change::TooFew };
    };
    let before = Before { low: medians[0], middle, high: medians[medians.len() - 1] };
    let change = match now {
        Some(now) if medians.len() >= RUNS_MIN => {
            let off: &mut Vec<f64> = &mut medians.iter().map(|median| (median - middle).abs()).collect();
            // The factor 1.4826 makes a median absolute deviation a standard deviation.
            let spread = median(off).unwrap_or(0.0) * 1.4826;
            let spread = spread.max((before.high - before.low) / 2.0).max(middle * SPREAD_MIN);
            match now - middle {
                off if off > SPREADS * spread => Change::More,
                off if off < -SPREADS * spread => Change::Less,
                _ => Change::Within,
            }
        }
        _ => Change::TooFew,
    };
    Figure { now, before: Some(before), change }
}

#[expect(clippy::cast_precision_loss, reason = "15 digits of a size are enough")]
fn precise(number: u64) -> f64 {
    number as f64
}

/// The steps of a run, the most core hours first.
#[must_use]
pub fn of(detail: &RunDetail) -> Vec<Step> {
    let mut now: BTreeMap<&str, Vec<&RunJob>> = BTreeMap::new();
    detail.jobs.iter().for_each(|job| now.entry(&job.step).or_default().push(job));
    let mut earlier: BTreeMap<&str, BTreeMap<&str, Vec<&RunJob>>> = BTreeMap::new();
    for job in detail.earlier_jobs.iter().filter(|job| !job.failed && now.contains_key(job.step.as_str())) {
        earlier.entry(&job.step).or_default().entry(&job.run).or_default().push(job);
    }
    let mut steps: Vec<Step> = now
        .iter()
        .map(|(name, jobs)| {
            let before: Vec<Vec<&RunJob>> = earlier.remove(name).unwrap_or_default().into_values().collect();
            step(name, jobs, &before)
        })
        .collect();
    steps.sort_by(|a, b| b.core_h.total_cmp(&a.core_h).then_with(|| a.step.cmp(&b.step)));
    steps
}

fn step(name: &str, jobs: &[&RunJob], before: &[Vec<&RunJob>]) -> Step {
    let well: Vec<&RunJob> = jobs.iter().copied().filter(|job| !job.failed).collect();
    let ran_s = |job: &RunJob| (job.wall_s - job.suspended_s).max(0.0);
    let sum = |of: &dyn Fn(&RunJob) -> f64| jobs.iter().map(|job| of(job)).sum::<f64>();
    let queued_us = |job: &RunJob| job.started_us.unwrap_or(job.ended_us).saturating_sub(job.submitted_us);
    Step {
        step: name.to_owned(),
        jobs: jobs.len(),
        failed: jobs.len() - well.len(),
        earlier_runs: before.len(),
        earlier_jobs: before.iter().map(Vec::len).sum(),
        ran_s: figure(&well, before, ran_s),
        peak_bytes: figure(&well, before, |job| precise(job.peak_bytes)),
        core_h: sum(&|job| precise(job.cores) * ran_s(job)) / 3_600.0,
        claimed_gibh: sum(&|job| precise(job.claim_bytes.unwrap_or(0)) / 1_073_741_824.0 * job.wall_s)
            / 3_600.0,
        queued_h: sum(&|job| pinfold_proto::view::seconds(queued_us(job))) / 3_600.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::tests::job;
    use super::*;
    use crate::store::RunRow;

    /// A run with jobs of this length in its only step, after runs with a job each.
    fn changed(now: &[u64], earlier: &[u64]) -> Step {
        let run = RunRow {
            workflow: "w".into(),
            version: None,
            run: "now".into(),
            user: "ann".into(),
            hosts: 1,
            jobs: 1,
            failed: 0,
            begun_us: 0,
            ended_us: 1,
            core_h: 0.0,
            cpu_h: 0.0,
            claimed_gibh: 0.0,
            unused_gibh: 0.0,
            queued_h: 0.0,
        };
        let detail = RunDetail {
            run,
            earlier: Vec::new(),
            jobs: now.iter().map(|ran| job("now", "a", (0, 0, *ran))).collect(),
            earlier_jobs: earlier
                .iter()
                .zip(1..)
                .map(|(ran, run)| job(&format!("r{run}"), "a", (0, 0, *ran)))
                .collect(),
            cut: false,
        };
        of(&detail).remove(0)
    }

    #[test]
    fn a_step_is_slower_when_it_is_beyond_what_runs_differ_by() {
        let change = |now: &[u64], earlier: &[u64]| changed(now, earlier).ran_s.change;
        assert_eq!(change(&[150], &[]), Change::TooFew);
        assert_eq!(change(&[150], &[100, 100]), Change::TooFew);
        assert_eq!(change(&[150], &[100, 101, 99]), Change::More);
        assert_eq!(change(&[109], &[100, 100, 100, 100]), Change::Within, "less than a tenth");
        assert_eq!(change(&[60], &[100, 101, 99, 100]), Change::Less);
        assert_eq!(change(&[150], &[70, 100, 130, 100]), Change::Within, "runs differ by that anyway");
        // A slow job among many does not change the step's median.
        assert_eq!(change(&[100, 100, 100, 900], &[100, 100, 100]), Change::Within);
    }

    #[test]
    fn what_is_compared_is_told() {
        let step = changed(&[150, 160], &[100, 90, 110]);
        assert_eq!((step.jobs, step.earlier_runs, step.earlier_jobs), (2, 3, 3));
        assert_eq!(step.ran_s.now, Some(155.0));
        assert_eq!(step.ran_s.before, Some(Before { low: 90.0, middle: 100.0, high: 110.0 }));
        assert_eq!(step.peak_bytes.change, Change::Within);
    }
}
