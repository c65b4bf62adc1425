//! The pool of processors: how many are free, and when more are believed to be.

use std::collections::BTreeSet;

use crate::Seconds;
use crate::job::Job;
use crate::runtimes::Estimator;

/// A job that runs.
#[derive(Debug, Clone, Copy)]
struct Running {
    /// When it started.
    start_s: Seconds,
    /// When it is believed to end.
    expected_s: Seconds,
}

/// Processors, and the jobs on them.
#[derive(Debug)]
pub(crate) struct Pool {
    free: u32,
    /// What runs, by when it is believed to end.
    by_end: BTreeSet<(Seconds, usize)>,
    running: Vec<Option<Running>>,
}

impl Pool {
    pub(crate) fn new(processors: u32, jobs: usize) -> Self {
        Self { free: processors, by_end: BTreeSet::new(), running: vec![None; jobs] }
    }

    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// A job starts and is believed to take so long.
    pub(crate) fn start(&mut self, index: usize, job: &Job, now_s: Seconds, estimate_s: Seconds) {
        let expected_s = now_s.saturating_add(estimate_s);
        self.free -= job.processors;
        self.by_end.insert((expected_s, index));
        self.running[index] = Some(Running { start_s: now_s, expected_s });
    }

    /// A job ends.
    pub(crate) fn end(&mut self, index: usize, job: &Job) {
        if let Some(running) = self.running[index].take() {
            self.by_end.remove(&(running.expected_s, index));
            self.free += job.processors;
        }
    }

    /// Jobs that should have ended by now are believed to take longer.
    pub(crate) fn revise(&mut self, jobs: &[Job], now_s: Seconds) {
        while let Some(&(expected_s, index)) = self.by_end.first()
            && expected_s <= now_s
            && let Some(running) = &mut self.running[index]
        {
            self.by_end.remove(&(expected_s, index));
            running.expected_s = running.start_s + Estimator::outlived(&jobs[index], now_s - running.start_s);
            self.by_end.insert((running.expected_s, index));
        }
    }

    /// When so many processors are believed to be free, and how many are then.
    pub(crate) fn when_free(&self, jobs: &[Job], processors: u32, now_s: Seconds) -> (Seconds, u32) {
        let (mut free, mut at_s) = (self.free, now_s);
        for &(expected_s, index) in &self.by_end {
            // All that end in the same second are free then.
            if free >= processors && expected_s > at_s {
                break;
            }
            free += jobs[index].processors;
            at_s = expected_s;
        }
        (at_s, free)
    }

    /// What runs: when each is believed to end, and its processors.
    pub(crate) fn ends(&self, jobs: &[Job]) -> impl Iterator<Item = (Seconds, u32)> {
        self.by_end.iter().map(|&(expected_s, index)| (expected_s, jobs[index].processors))
    }
}
