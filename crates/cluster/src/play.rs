//! The events of a run: submissions and ends, and a pass of the dispatcher after those of each second.
//!
//! At one second all ends come first, then all submissions, then one pass.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Seconds;
use crate::dispatch::{Dispatch, Pass};
use crate::free::Pool;
use crate::job::Job;
use crate::line::{Line, Waiting};
use crate::runtimes::{Estimator, Runtimes};

/// What a run is made of, beside its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Processors of the machine, all alike.
    pub processors: u32,
    /// The rule.
    pub dispatch: Dispatch,
    /// Where estimates come from.
    pub runtimes: Runtimes,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// When each job started, in the order of the jobs given.
    pub starts_s: Vec<Seconds>,
    /// How many submissions and ends there were.
    pub events: u64,
}

/// Plays jobs, which are in order of submission ([`crate::job::Filter`]); `progress` is called now and then with how
/// many have ended. A job that is wider than the machine would wait for ever: the filter drops those.
///
/// # Panics
/// A job is wider than the machine, or the jobs are not in order of submission.
#[must_use]
pub fn play(jobs: &[Job], options: &Options, mut progress: impl FnMut(usize)) -> Played {
    assert!(jobs.iter().all(|job| job.processors <= options.processors), "a job is wider than the machine");
    assert!(jobs.is_sorted_by_key(|job| job.submit_s), "jobs are in order of submission");
    let mut run = Run {
        jobs,
        options,
        pool: Pool::new(options.processors, jobs.len()),
        line: Line::new(),
        estimator: Estimator::new(options.runtimes),
        ends: BinaryHeap::new(),
        starts_s: vec![0; jobs.len()],
        submitted: 0,
        ended: 0,
    };
    let mut told = 0;
    while let Some(now_s) = run.next_s() {
        run.second(now_s);
        if run.ended >= told + PROGRESS_EVERY {
            told = run.ended;
            progress(told);
        }
    }
    Played { starts_s: run.starts_s, events: 2 * jobs.len() as u64 }
}

/// After so many ends progress is told.
const PROGRESS_EVERY: usize = 10_000;

#[derive(Debug)]
struct Run<'a> {
    jobs: &'a [Job],
    options: &'a Options,
    pool: Pool,
    line: Line,
    estimator: Estimator,
    ends: BinaryHeap<Reverse<(Seconds, usize)>>,
    starts_s: Vec<Seconds>,
    submitted: usize,
    ended: usize,
}

impl Run<'_> {
    /// When the next event is.
    fn next_s(&self) -> Option<Seconds> {
        let submission = self.jobs.get(self.submitted).map(|job| job.submit_s);
        let end = self.ends.peek().map(|Reverse((at_s, _))| *at_s);
        submission.into_iter().chain(end).min()
    }

    fn second(&mut self, now_s: Seconds) {
        while let Some(&Reverse((at_s, index))) = self.ends.peek()
            && at_s == now_s
        {
            self.ends.pop();
            self.pool.end(index, &self.jobs[index]);
            self.estimator.ended(&self.jobs[index]);
            self.ended += 1;
        }
        while let Some(job) = self.jobs.get(self.submitted)
            && job.submit_s == now_s
        {
            let estimate_s = self.estimator.estimate(job);
            self.line.push(Waiting { index: self.submitted, processors: job.processors, estimate_s });
            self.submitted += 1;
        }
        if self.line.is_empty() {
            return;
        }
        let (jobs, pool, line) = (self.jobs, &mut self.pool, &mut self.line);
        let mut pass = Pass { jobs, pool, line, now_s, started: Vec::new() };
        pass.run(self.options.dispatch);
        for index in pass.started {
            self.starts_s[index] = now_s;
            self.ends.push(Reverse((now_s.saturating_add(jobs[index].run_s), index)));
        }
    }
}
