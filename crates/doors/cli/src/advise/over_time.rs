//! Jobs with their memory over time, told to a learner one after the other: what it would have advised for when, and
//! what that costs, beside its advice by peaks alone.
//!
//! A job knows the runs of its class that had ended when it was submitted. An attempt fails at the moment at which
//! the job needs more than it has, and has held what it had until then. After one that failed before its last
//! segment the job gets that segment from its start, and from there on it goes as by peaks. Absent: tables of peaks
//! ([`super::replay`]).

use std::collections::BTreeMap;

use pinfold_advise::{Learner, Order, Plan};
use serde::Serialize;

use super::replay::{Asked, RUNS_MIN, attempts, ordered};
use super::series::{Job, Jobs};

/// A segment, as JSON has it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct SegmentView {
    /// Seconds since the start of the run.
    pub(super) from_s: f64,
    pub(super) bytes: u64,
}

/// What was advised for one job.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Scored<'a> {
    pub(super) id: &'a str,
    /// All attempts over time, up to the first that suffices.
    pub(super) attempts: Vec<Vec<SegmentView>>,
    /// The same by peaks alone.
    pub(super) attempts_bytes: Vec<u64>,
}

/// What some advice came to.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(super) struct Sum {
    /// Attempts that failed.
    pub(super) failures: usize,
    /// What was held and not used, in GB x hours.
    pub(super) wastage_gbh: f64,
}

/// What all advice came to.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    pub(super) version: u32,
    pub(super) jobs: usize,
    pub(super) failures: usize,
    pub(super) wastage_gbh: f64,
    pub(super) classes: usize,
    /// Jobs that were given more than one segment.
    pub(super) segmented: usize,
    pub(super) by_peak: Sum,
}

/// What is known of one class, and what is not yet.
struct Told<'a> {
    learner: Learner,
    /// By when they end and by place.
    waiting: BTreeMap<(u64, usize), &'a Job>,
}

/// Replays all jobs.
pub(super) fn replay(
    jobs: &Jobs,
    asked: Asked,
    mut each: impl FnMut(&Scored<'_>) -> Result<(), String>,
) -> Result<Summary, String> {
    let settings = asked.settings(Order::Time);
    let told = |_: &String| Told { learner: Learner::new(settings), waiting: BTreeMap::new() };
    let mut classes: Vec<Told<'_>> = jobs.classes.iter().map(told).collect();
    let (mut over_time, mut by_peak, mut segmented) = (Sum::default(), Sum::default(), 0);
    for (place, job) in jobs.jobs.iter().enumerate() {
        let class = &mut classes[job.class];
        class.look(job.submit_s);
        let attempts_bytes = attempts(&mut class.learner, &job.row);
        let peaks: Vec<Plan> = attempts_bytes.iter().map(|&bytes| Plan::flat(bytes)).collect();
        let first = class.first(job, attempts_bytes[0]);
        segmented += usize::from(first.is_some());
        let plans = following(first, &peaks, job);
        over_time.add(job, &plans);
        by_peak.add(job, &peaks);
        let attempts = plans.iter().map(views).collect();
        each(&Scored { id: &job.id, attempts, attempts_bytes })?;
        class.waiting.insert((ordered(job.end_s), place), job);
    }
    Ok(Summary {
        version: 1,
        jobs: jobs.jobs.len(),
        failures: over_time.failures,
        wastage_gbh: over_time.wastage_gbh,
        classes: jobs.classes.len(),
        segmented,
        by_peak,
    })
}

impl Told<'_> {
    /// Has the learner know what had ended by then.
    fn look(&mut self, now_s: f64) {
        let later = self.waiting.split_off(&(ordered(now_s), usize::MAX));
        for job in std::mem::replace(&mut self.waiting, later).into_values() {
            self.learner.observe_curve("", &job.row, &job.curve);
        }
    }

    /// The first attempt, if it is not the peak from the start.
    fn first(&mut self, job: &Job, peak_bytes: u64) -> Option<Plan> {
        if self.learner.runs("") < RUNS_MIN {
            return None;
        }
        Some(self.learner.over_time("", &job.row.features, peak_bytes)?.plan)
    }
}

/// All attempts of a job: `first`, and those by peaks that are left after it.
fn following(first: Option<Plan>, peaks: &[Plan], job: &Job) -> Vec<Plan> {
    let Some(first) = first else { return peaks.to_vec() };
    let short_early = first.shortage(&job.curve).is_some_and(|shortage| shortage.early);
    let left = &peaks[usize::from(!short_early)..];
    std::iter::once(first).chain(left.iter().cloned()).collect()
}

impl Sum {
    /// Adds the attempts of a job, the last of which was enough.
    fn add(&mut self, job: &Job, attempts: &[Plan]) {
        self.failures += attempts.len().saturating_sub(1);
        let held = |plan: &Plan| {
            let until_s = plan.shortage(&job.curve).map_or(job.curve.wall_s(), |shortage| shortage.at_s);
            plan.held_gbh(until_s)
        };
        self.wastage_gbh += attempts.iter().map(held).sum::<f64>() - job.curve.used_gbh();
    }
}

/// The segments of a plan, as JSON has them.
pub(super) fn views(plan: &Plan) -> Vec<SegmentView> {
    let view =
        |segment: &pinfold_advise::Segment| SegmentView { from_s: segment.from_s, bytes: segment.bytes };
    plan.segments().iter().map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs of one class, one after the other: hours, the part from which on they hold 32 GB after 2, and a request.
    fn jobs(of: &[(f64, f64, f64)]) -> Jobs {
        let (mut table, mut series) =
            ("id,task,t0_unix,seconds,input_bytes,mem_req_bytes,mem_peak_mb\n".to_owned(), String::new());
        for (id, (hours, from, request)) in of.iter().enumerate() {
            let minutes = hours * 60.0;
            let seconds = minutes * 60.0 - 2.0;
            let start = id as f64 * 1e6;
            table.push_str(&format!("{id},sort,{start},{seconds},1000,{request},32000\n"));
            series.push_str(&format!("{id}"));
            let mut minute = 0.0;
            while minute < minutes {
                let mb = if minute < from * minutes { 2000 } else { 32000 };
                series.push_str(&format!(" {}:{mb}", if minute > 0.0 { 600 } else { 0 }));
                minute += 1.0;
            }
            series.push('\n');
        }
        Jobs::read(&table, &series).unwrap()
    }

    fn of(jobs: &Jobs) -> (Vec<(usize, usize)>, Summary) {
        let mut all = Vec::new();
        let summary = replay(jobs, Asked::default(), |scored| {
            all.push((scored.attempts.len(), scored.attempts[0].len()));
            Ok(())
        });
        (all, summary.unwrap())
    }

    #[test]
    fn late_needs_are_given_late_once_they_are_known() {
        let (attempts, summary) = of(&jobs(&[(10.0, 0.7, 64e9); 30]));
        assert!(attempts[..5].iter().all(|attempts| attempts == &(1, 1)), "{attempts:?}");
        assert!(attempts[20..].iter().all(|&(count, segments)| count == 1 && segments > 1), "{attempts:?}");
        assert_eq!(
            (summary.jobs, summary.failures, summary.classes, summary.by_peak.failures),
            (30, 0, 1, 0)
        );
        assert!(summary.segmented >= 10, "{summary:?}");
        assert!(summary.wastage_gbh < summary.by_peak.wastage_gbh * 0.8, "{summary:?}");
    }

    #[test]
    fn one_that_is_early_starts_again_with_its_peak() {
        let mut of_class = vec![(10.0, 0.7, 64e9); 30];
        of_class.push((10.0, 0.1, 64e9));
        let (attempts, summary) = of(&jobs(&of_class));
        assert!(attempts[30].0 == 2 && attempts[30].1 > 1, "{attempts:?}");
        assert_eq!((summary.failures, summary.by_peak.failures), (1, 0));
        // The hour until it failed is all that it cost.
        let before = of(&jobs(&of_class[..30])).1;
        let last = summary.wastage_gbh - before.wastage_gbh;
        let by_peak = summary.by_peak.wastage_gbh - before.by_peak.wastage_gbh;
        assert!((1.9..4.0).contains(&(last - by_peak)), "{last} {by_peak}");
    }

    #[test]
    fn too_small_requests_fail_as_by_peaks() {
        let (attempts, summary) = of(&jobs(&[(10.0, 0.7, 20e9); 3]));
        assert_eq!(attempts, [(2, 1); 3]);
        assert_eq!((summary.failures, summary.by_peak.failures), (3, 3));
        // Seven hours of 20 GB, and twice as much for all of it.
        let one = 20.0 * 7.0 + 40.0 * 10.0 - (2.0 * 7.0 + 32.0 * 3.0);
        assert!((summary.wastage_gbh - 3.0 * one).abs() < 1.0, "{summary:?}");
        assert!((summary.wastage_gbh - summary.by_peak.wastage_gbh).abs() < 1e-9);
        assert_eq!(of(&Jobs::default()).1.jobs, 0);
    }
}
