//! The events of a run on plain hosts, on which a started job runs until it ends: submissions and ends, and a dispatcher's
//! pass after the events of each moment.
//!
//! At each moment all ends come first, then all submissions, then a pass.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Micros;
use crate::dispatch::{Dispatch, Dispatcher};
use crate::fleet::{Fleet, Parts};
use crate::graph::Graph;
use crate::job::Job;
use crate::metrics::Span;
use crate::runtimes::Runtimes;

/// The inputs of a run, beside its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The hosts.
    pub fleet: Fleet,
    /// The rule.
    pub dispatch: Dispatch,
    /// The source of estimates.
    pub runtimes: Runtimes,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// The start and end of each job, in the order of the given jobs.
    pub spans: Vec<Span>,
    /// The place of each job.
    pub parts: Vec<Parts>,
    /// The number of submissions and ends.
    pub events: u64,
}

/// The submissions of jobs: in order, and each after the ends of its predecessors.
#[derive(Debug)]
pub struct Arrivals<'a> {
    jobs: &'a [Job],
    graph: &'a Graph,
    waits_for: Vec<u32>,
    /// The first job with a time of submission in the future.
    next: usize,
    /// Jobs past their time of submission whose predecessors have ended.
    released: Vec<usize>,
}

impl<'a> Arrivals<'a> {
    /// Arrivals of jobs in order of submission.
    ///
    /// # Panics
    /// They are not.
    #[must_use]
    pub fn new(jobs: &'a [Job], graph: &'a Graph) -> Self {
        assert!(jobs.is_sorted_by_key(|job| job.submit_us), "jobs are in order of submission");
        let waits_for = graph.waits_for(jobs.len());
        let open: Vec<usize> = (jobs.len()..waits_for.len()).filter(|&place| waits_for[place] == 0).collect();
        let mut arrivals = Self { jobs, graph, waits_for, next: 0, released: Vec::new() };
        open.into_iter().for_each(|barrier| arrivals.ended(barrier));
        arrivals
    }

    /// The next time of submission.
    #[must_use]
    pub fn next_us(&self) -> Option<Micros> {
        self.jobs.get(self.next).map(|job| job.submit_us)
    }

    /// Records the end of a job, and of the barriers that waited for it last.
    pub fn ended(&mut self, index: usize) {
        let (mut over, mut barriers) = (Some(index), Vec::new());
        while let Some(index) = over {
            for &follower in self.graph.followers(index) {
                self.waits_for[follower] -= 1;
                if self.waits_for[follower] > 0 {
                    continue;
                }
                if follower >= self.jobs.len() {
                    barriers.push(follower);
                } else if follower < self.next {
                    self.released.push(follower);
                }
            }
            over = barriers.pop();
        }
    }

    /// The jobs that are submitted now, in the order of the list.
    pub fn take(&mut self, now_us: Micros) -> Vec<usize> {
        let mut due = std::mem::take(&mut self.released);
        due.sort_unstable();
        while let Some(job) = self.jobs.get(self.next)
            && job.submit_us <= now_us
        {
            if self.waits_for[self.next] == 0 {
                due.push(self.next);
            }
            self.next += 1;
        }
        due
    }
}

/// Plays jobs, which are in order of submission ([`crate::job::Filter`]); `progress` is called now and then with how
/// many have ended.
///
/// # Panics
/// The hosts have no room for a job ([`Dispatcher::new`]), or the jobs are not in order of submission.
#[must_use]
pub fn play(jobs: &[Job], graph: &Graph, options: &Options, mut progress: impl FnMut(usize)) -> Played {
    let mut run = Run {
        jobs,
        dispatcher: Dispatcher::new(jobs, options.fleet, options.dispatch, options.runtimes),
        arrivals: Arrivals::new(jobs, graph),
        ends: BinaryHeap::new(),
        spans: vec![Span::default(); jobs.len()],
        ended: 0,
    };
    let mut moments = 0_u64;
    while let Some(now_us) = run.next_us() {
        run.moment(now_us);
        moments += 1;
        if moments.is_multiple_of(PROGRESS_EVERY) {
            progress(run.ended);
        }
    }
    Played { spans: run.spans, parts: run.dispatcher.into_parts(), events: 2 * jobs.len() as u64 }
}

/// The number of moments between reports of progress, however few jobs ended in them.
pub const PROGRESS_EVERY: u64 = 256;

#[derive(Debug)]
struct Run<'a> {
    jobs: &'a [Job],
    dispatcher: Dispatcher<'a>,
    arrivals: Arrivals<'a>,
    ends: BinaryHeap<Reverse<(Micros, usize)>>,
    spans: Vec<Span>,
    ended: usize,
}

impl Run<'_> {
    /// The time of the next event.
    fn next_us(&self) -> Option<Micros> {
        let end = self.ends.peek().map(|Reverse((at_us, _))| *at_us);
        self.arrivals.next_us().into_iter().chain(end).min()
    }

    fn moment(&mut self, now_us: Micros) {
        while let Some(&Reverse((at_us, index))) = self.ends.peek()
            && at_us == now_us
        {
            self.ends.pop();
            self.dispatcher.ended(index);
            self.arrivals.ended(index);
            self.ended += 1;
        }
        for index in self.arrivals.take(now_us) {
            self.spans[index].submit_us = now_us;
            self.dispatcher.submit(index);
        }
        for index in self.dispatcher.pass(now_us) {
            let end_us = now_us.saturating_add(self.jobs[index].run_us);
            self.spans[index] = Span { start_us: now_us, end_us, ..self.spans[index] };
            self.ends.push(Reverse((end_us, index)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECOND;

    /// The starts of jobs of `(submission, length)` with these predecessors on a single processor.
    #[track_caller]
    fn check(jobs: &[(u64, u64)], after: &[&[usize]], want: &[u64]) {
        let job = |&(submit_us, run_us)| Job { submit_us, run_us, requested_us: run_us, ..Job::default() };
        let jobs: Vec<Job> = jobs.iter().map(job).collect();
        let graph = Graph::new(after.iter().map(|after| after.to_vec()).collect()).unwrap();
        let fleet = Fleet::pool(1);
        let options = Options { fleet, dispatch: Dispatch::Easy, runtimes: Runtimes::Requested };
        let played = play(&jobs, &graph, &options, |_| {});
        assert_eq!(played.spans.iter().map(|span| span.start_us).collect::<Vec<_>>(), want);
    }

    #[test]
    fn a_job_is_submitted_at_the_last_end_of_its_predecessors() {
        check(&[(0, 5), (0, 5), (3, 1)], &[], &[0, 5, 10]);
        check(&[(0, 5), (0, 5), (3, 1)], &[&[1], &[], &[]], &[6, 0, 5]);
        check(&[(0, 5), (0, 5), (9, 1)], &[&[1], &[], &[1]], &[5, 0, 10]);
    }

    #[test]
    fn progress_is_told_before_the_first_job_ends() {
        let job = |number: u64| Job { number, submit_us: number, run_us: SECOND, ..Job::default() };
        let jobs: Vec<Job> = (1..2 * PROGRESS_EVERY).map(job).collect();
        let fleet = Fleet::pool(1);
        let options = Options { fleet, dispatch: Dispatch::Easy, runtimes: Runtimes::Requested };
        let mut told = Vec::new();
        let _ = play(&jobs, &Graph::default(), &options, |ended| told.push(ended));
        assert_eq!(told.first(), Some(&0), "{told:?}");
    }

    #[test]
    fn a_barrier_is_over_with_the_last_that_it_waits_for() {
        // Job 2 waits for both others by barrier 3.
        check(&[(0, 5), (0, 5), (3, 1)], &[&[], &[], &[3], &[0, 1]], &[0, 5, 10]);
        // By barriers 3 and 4, in a chain; 5 waits for nothing, and 6 for 5.
        check(&[(0, 5), (0, 5), (3, 1)], &[&[6], &[4, 5], &[], &[0], &[3], &[], &[5]], &[0, 6, 5]);
    }
}
