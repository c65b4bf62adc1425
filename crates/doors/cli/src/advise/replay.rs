//! A table of finished jobs, replayed to a learner in order: its advice, and the cost of that advice.

use std::collections::BTreeMap;

pub(super) use pinfold_advise::RUNS_MIN;
use pinfold_advise::{Learner, Order, Row, Settings};
use serde::Serialize;

use super::table::{Job, Table};

/// The advice where the class is new and no request is known: 4 GB.
const UNKNOWN_BYTES: u64 = 4_000_000_000;
/// When a job was submitted before an earlier job of the file, its class is learnt anew from this many runs,
const RELEARNT: usize = 100;
/// and at most this often.
const RELEARNT_TIMES: usize = 300;
/// Twice as much this often is more than a job can need.
const ATTEMPTS_MAX: u32 = 64;

/// The advice for a job.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Scored {
    /// The job's line, the header being 0.
    pub(super) row: usize,
    /// All attempts, up to the first that suffices.
    pub(super) attempts_bytes: Vec<u64>,
}

/// The sum of all advice.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    pub(super) version: u32,
    /// Jobs that were scored.
    pub(super) jobs: usize,
    /// Attempts that failed.
    pub(super) failures: usize,
    /// Allocated memory that was not needed, and all memory of failed attempts, in GB x hours.
    pub(super) wastage_gbh: f64,
    /// Classes of all jobs.
    pub(super) classes: usize,
    /// The same for the requests of jobs; `None`: no job has a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requested: Option<Requested>,
}

/// The cost of the requests of some jobs, each doubled after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(super) struct Requested {
    pub(super) jobs: usize,
    pub(super) failures: usize,
    pub(super) wastage_gbh: f64,
}

/// The jobs of a class that the learner knows.
#[derive(Debug)]
struct Told<'a> {
    learner: Learner,
    train: Vec<&'a Job>,
    /// Jobs that the learner does not know yet, by end and by line.
    waiting: BTreeMap<(u64, usize), &'a Job>,
    /// All jobs with a known end, in the same order.
    ended: BTreeMap<(u64, usize), &'a Job>,
    /// The learner knows jobs that ended up to this time; `u64::MAX`: it knows some without a time.
    horizon: u64,
}

/// How a table is replayed; unset options have their usual values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked {
    /// See [`Settings`].
    pub(super) risk: Option<f64>,
    /// The cost of a failed attempt besides its memory.
    pub(super) price_gbh: Option<f64>,
    /// Chooses which runs of a long history are scored.
    pub(super) seed: u64,
}

impl Asked {
    /// For runs in this order.
    pub(super) fn settings(&self, order: Order) -> Settings {
        let usual = Settings::of(order);
        Settings {
            risk: self.risk.unwrap_or(usual.risk),
            failure_gbh: self.price_gbh.unwrap_or(usual.failure_gbh),
            seed: self.seed,
            ..usual
        }
    }
}

/// Replays `table`. The error names the line.
pub(super) fn replay(
    table: &Table,
    asked: Asked,
    mut each: impl FnMut(&Scored) -> Result<(), String>,
) -> Result<Summary, String> {
    let timed = table.jobs.iter().any(|job| job.times.is_some());
    let settings = asked.settings(if timed { Order::Time } else { Order::Exchangeable });
    let mut classes: Vec<Told<'_>> = table.classes.iter().map(|_| Told::new(settings)).collect();
    for job in table.jobs.iter().filter(|job| job.train) {
        classes[job.class].train.push(job);
        classes[job.class].learner.observe(&job.row);
    }
    let mut summary = Summary {
        version: 1,
        jobs: 0,
        failures: 0,
        wastage_gbh: 0.0,
        classes: table.classes.len(),
        requested: None,
    };
    let mut relearnt = 0;
    for job in table.jobs.iter().filter(|job| !job.train) {
        let told = &mut classes[job.class];
        told.look(job, &settings, &mut relearnt)?;
        let attempts_bytes = attempts(&mut told.learner, job, timed);
        summary.add(job, &attempts_bytes);
        each(&Scored { row: job.line, attempts_bytes })?;
        told.tell(job);
    }
    Ok(summary)
}

impl Summary {
    fn add(&mut self, job: &Job, attempts_bytes: &[u64]) {
        self.jobs += 1;
        self.failures += attempts_bytes.len().saturating_sub(1);
        self.wastage_gbh += waste_gbh(&job.row, attempts_bytes);
        if let Some(request) = job.request_bytes {
            let requested = self.requested.get_or_insert_default();
            let attempts_bytes = doubled(request, job.row.peak_bytes);
            requested.jobs += 1;
            requested.failures += attempts_bytes.len() - 1;
            requested.wastage_gbh += waste_gbh(&job.row, &attempts_bytes);
        }
    }
}

/// Unneeded memory of a job's attempts, in GB x hours: of the last attempt beyond the peak, of the others all.
pub(super) fn waste_gbh(row: &Row, attempts_bytes: &[u64]) -> f64 {
    let Some((last, failed)) = attempts_bytes.split_last() else { return 0.0 };
    let gbh = |bytes: f64| bytes / 1e9 * row.wall_s / 3600.0;
    gbh(*last as f64 - row.peak_bytes as f64) + failed.iter().map(|&bytes| gbh(bytes as f64)).sum::<f64>()
}

impl<'a> Told<'a> {
    fn new(settings: Settings) -> Self {
        Self {
            learner: Learner::new(settings),
            train: Vec::new(),
            waiting: BTreeMap::new(),
            ended: BTreeMap::new(),
            horizon: 0,
        }
    }

    /// Teaches the learner the jobs that had ended when `job` was submitted, and no others.
    fn look(&mut self, job: &Job, settings: &Settings, relearnt: &mut usize) -> Result<(), String> {
        let Some((submit, _)) = job.times else {
            for job in std::mem::take(&mut self.waiting).into_values() {
                self.learner.observe(&job.row);
            }
            self.horizon = u64::MAX;
            return Ok(());
        };
        let now = ordered(submit);
        let later = self.waiting.split_off(&(now, usize::MAX));
        if now < self.horizon {
            *relearnt += 1;
            if *relearnt > RELEARNT_TIMES {
                return Err(format!(
                    "line {}: submit_s {submit} is before what earlier lines have told, for the {relearnt}th time; \
                     sort the table by submit_s",
                    job.line
                ));
            }
            self.learner = Learner::new(*settings);
            let known: Vec<&Job> =
                self.ended.range(..=(now, usize::MAX)).rev().take(RELEARNT).map(|(_, job)| *job).collect();
            for job in self.train.iter().chain(known.iter().rev()) {
                self.learner.observe(&job.row);
            }
            self.waiting = self.ended.range((now, usize::MAX)..).map(|(&at, &job)| (at, job)).collect();
            self.horizon = self.ended.range(..=(now, usize::MAX)).next_back().map_or(0, |(at, _)| at.0);
            return Ok(());
        }
        for (at, job) in std::mem::replace(&mut self.waiting, later) {
            self.learner.observe(&job.row);
            self.horizon = self.horizon.max(at.0);
        }
        Ok(())
    }

    /// Takes the job in, for jobs that may know of it.
    fn tell(&mut self, job: &'a Job) {
        match job.times {
            Some((_, end)) => {
                self.waiting.insert((ordered(end), job.line), job);
                self.ended.insert((ordered(end), job.line), job);
            }
            None => {
                self.learner.observe(&job.row);
                self.horizon = u64::MAX;
            }
        }
    }
}

/// The attempts of a job without advice: its request, and twice as much after each failure.
pub(super) fn doubled(request: u64, peak_bytes: u64) -> Vec<u64> {
    let next = |&last: &u64| (last < peak_bytes).then(|| last.saturating_mul(2));
    std::iter::successors(Some(request.max(1)), next).collect()
}

/// The attempts that a job of the learner's class would have been given, up to the first that suffices. In the order of
/// time the first is never above the request: no manager raises a request.
fn attempts(learner: &mut Learner, job: &Job, timed: bool) -> Vec<u64> {
    let (request, row) = (job.request_bytes, &job.row);
    let first = match request.filter(|_| learner.runs() < RUNS_MIN) {
        Some(request) => request,
        None => {
            let advice = learner.advise(&row.features).map(|advice| advice.bytes).or(request);
            let most = request.filter(|_| timed).unwrap_or(u64::MAX);
            advice.unwrap_or(UNKNOWN_BYTES).min(most)
        }
    };
    let mut attempts = vec![first];
    let retry = learner.retry(request);
    let mut last = first;
    for failed in 1..=ATTEMPTS_MAX {
        if last >= row.peak_bytes {
            break;
        }
        last = retry.next(last, failed);
        attempts.push(last);
    }
    attempts
}

/// A number in the order of the times: finite times only.
pub(super) fn ordered(time_s: f64) -> u64 {
    let bits = (time_s + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "class,submit_s,end_s,train,input_bytes,request_bytes,peak_bytes,wall_s";

    fn of(text: &str) -> (Vec<Vec<u64>>, Summary) {
        let mut all = Vec::new();
        let table = Table::read(&format!("{HEAD}\n{text}")).unwrap();
        let summary = replay(&table, Asked::default(), |scored| {
            all.push(scored.attempts_bytes.clone());
            Ok(())
        });
        (all, summary.unwrap())
    }

    #[test]
    fn the_request_stands_until_three_runs_have_ended() {
        let job = |at: u32| format!("a,{at},{},,,8000000000,1000000000,1\n", at + 10);
        let text: String = [0, 1, 2, 11, 12, 13].map(job).concat();
        let (attempts, summary) = of(&text);
        assert!(attempts[..4].iter().all(|attempts| attempts == &[8_000_000_000]));
        assert!(attempts[4][0] < 2_000_000_000, "three have ended: {attempts:?}");
        assert_eq!((summary.jobs, summary.failures, summary.classes), (6, 0, 1));
    }

    #[test]
    fn what_had_not_ended_is_not_known() {
        // The fourth is submitted before the others end, whatever line it stands on.
        let early = "a,5,6,,,8000000000,1000000000,1\n";
        let others: String =
            (10..20).map(|at| format!("a,{at},{at}.5,,,8000000000,1000000000,1\n")).collect();
        let (attempts, _) = of(&format!("{others}{early}"));
        assert_eq!(attempts.last().unwrap(), &[8_000_000_000]);
        let (known, _) = of(&format!("{others}a,30,31,,,8000000000,1000000000,1\n"));
        assert!(known.last().unwrap()[0] < 2_000_000_000);
    }

    #[test]
    fn a_job_that_tells_no_time_knows_all_lines_before_it_and_one_that_does_only_what_ended() {
        let plain = "a,,,,,8000000000,1000000000,1\n".repeat(4);
        let (attempts, _) = of(&format!("{plain}a,1,2,,,8000000000,1000000000,1\n"));
        assert!(attempts[3][0] < 3_000_000_000 && attempts[4] == [8_000_000_000], "{attempts:?}");
    }

    #[test]
    fn rows_for_training_are_known_and_not_scored() {
        let train: String = (0..20).map(|n| format!("a,,,1,,,{},1\n", 1_000_000_000 + n)).collect();
        let (attempts, summary) = of(&format!("a,,,0,,,1000000000,3600\n{train}"));
        assert_eq!(attempts.len(), 1);
        assert_eq!(summary.jobs, 1);
        assert!(attempts[0][0] < 1_300_000_000 && summary.wastage_gbh < 0.3, "{attempts:?}");
    }

    #[test]
    fn waste_counts_failed_attempts_whole_and_the_requests_are_told_too() {
        let (attempts, summary) = of("a,,,,,1000000000,1500000000,3600\n");
        assert_eq!(attempts, [[1_000_000_000, 2_000_000_000]]);
        assert_eq!((summary.failures, summary.wastage_gbh), (1, 1.5));
        let (_, summary) =
            of("a,,,,,1000000000,2500000000,3600\na,,,,,,5,1\na,,,,,8000000000,1000000000,3600\n");
        assert_eq!(summary.requested, Some(Requested { jobs: 2, failures: 2, wastage_gbh: 4.5 + 7.0 }));
        assert_eq!(of("a,,,,,,5,1\n").1.requested, None);
    }

    #[test]
    fn peaks_of_nothing_equal_and_above_requests_are_answered() {
        let (attempts, _) = of(&"a,0,1,,0,0,0,0\n".repeat(9));
        assert!(attempts.iter().all(|attempts| attempts.len() == 1));
        let text: String = (0..40).map(|at| format!("a,{at},{at},,5,1000000000,3000000000,60\n")).collect();
        let (attempts, _) = of(&text);
        let enough = |attempts: &Vec<u64>| attempts.last().is_some_and(|&last| last >= 3_000_000_000);
        assert!(attempts.iter().all(|attempts| attempts[0] <= 1_000_000_000 && enough(attempts)));
    }

    #[test]
    fn a_table_in_no_order_is_answered_or_refused_with_its_line() {
        let line = |at: u32| format!("a,{at},{at},,,8000000000,1000000000,1\n");
        let (attempts, _) = of(&(0..300).rev().map(line).collect::<String>());
        assert!(attempts.iter().all(|attempts| attempts == &[8_000_000_000]), "nothing had ended");
        let wild: String = (0..4_000).map(|n| line((n * 7_919) % 4_001)).collect();
        let table = Table::read(&format!("{HEAD}\n{wild}")).unwrap();
        let error = replay(&table, Asked::default(), |_| Ok(())).unwrap_err();
        assert!(error.starts_with("line ") && error.contains("sort the table"), "{error}");
    }

    #[test]
    fn the_same_seed_gives_the_same_answer() {
        let text: String = (0..300)
            .map(|at| {
                format!(
                    "a,{at},{},,{},9000000000,{},60\n",
                    at + 3,
                    at * 977 % 501,
                    1_000_000_000u64 + at * 7_919_333 % 999_999_999
                )
            })
            .collect();
        assert_eq!(of(&text), of(&text));
    }
}
