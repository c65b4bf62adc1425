//! The rules by which a workload manager picks the next job. Each is one pass over the queue at one moment.
//!
//! Absent: events and time ([`crate::play`]).

use crate::Seconds;
use crate::free::Pool;
use crate::job::Job;
use crate::line::{Hole, Line, Waiting};

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dispatch {
    /// First come, first served: nothing passes the head of the queue.
    Fcfs,
    /// EASY backfilling: the head has a reservation, and a later job starts if it does not delay the head. Candidates
    /// are tried in order of submission.
    ///
    /// Source: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995.
    #[default]
    Easy,
    /// EASY with candidates tried by the length that they are believed to have, the shortest first.
    ///
    /// Source: Tsafrir, Etsion and Feitelson, IEEE TPDS 2007.
    ShortestFirst,
    /// Conservative backfilling: each job has a reservation, and a later job starts if it delays none of them. All
    /// reservations are made anew, in order of submission, whenever something changed.
    ///
    /// Source: Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling
    /// the IBM SP2 with backfilling", IEEE TPDS 2001.
    Conservative,
}

/// One pass: what it may look at, and what it starts.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    pub jobs: &'a [Job],
    pub pool: &'a mut Pool,
    pub line: &'a mut Line,
    pub now_s: Seconds,
    /// The jobs that were started.
    pub started: Vec<usize>,
}

impl Pass<'_> {
    pub(crate) fn run(&mut self, rule: Dispatch) {
        let Some(head) = self.start_heads() else { return };
        if self.pool.free() == 0 {
            return;
        }
        match rule {
            Dispatch::Fcfs => {}
            Dispatch::Easy => self.backfill(head),
            Dispatch::ShortestFirst => self.backfill_shortest(head),
            Dispatch::Conservative => self.reserve_all(),
        }
    }

    fn start(&mut self, place: usize, job: Waiting) {
        self.line.remove(place);
        self.pool.start(job.index, &self.jobs[job.index], self.now_s, job.estimate_s);
        self.started.push(job.index);
    }

    /// Starts the head of the queue as long as it fits; gives the first that does not.
    fn start_heads(&mut self) -> Option<(usize, Waiting)> {
        while let Some((place, job)) = self.line.head() {
            if job.processors > self.pool.free() {
                return Some((place, job));
            }
            self.start(place, job);
        }
        None
    }

    /// What is free beside the reservation of the head.
    fn hole(&mut self, head: Waiting) -> Hole {
        self.pool.revise(self.jobs, self.now_s);
        let (at_s, free) = self.pool.when_free(self.jobs, head.processors, self.now_s);
        Hole { free: self.pool.free(), window_s: at_s - self.now_s, beyond: free - head.processors }
    }

    fn backfill(&mut self, (mut place, head): (usize, Waiting)) {
        let mut hole = self.hole(head);
        while let Some((next, job)) = self.line.next_that_fits(place, &hole) {
            place = next;
            self.fill(&mut hole, next, job);
        }
    }

    fn backfill_shortest(&mut self, (place, head): (usize, Waiting)) {
        let mut hole = self.hole(head);
        let mut candidates: Vec<_> = self.line.iter().filter(|&(other, _)| other != place).collect();
        candidates.sort_by_key(|&(place, job)| (job.estimate_s, place));
        for (place, job) in candidates {
            if job.processors <= hole.free
                && (job.estimate_s <= hole.window_s || job.processors <= hole.beyond)
            {
                self.fill(&mut hole, place, job);
            }
        }
    }

    /// Starts a job in the hole.
    fn fill(&mut self, hole: &mut Hole, place: usize, job: Waiting) {
        self.start(place, job);
        hole.free -= job.processors;
        if job.estimate_s > hole.window_s {
            hole.beyond -= job.processors;
        }
    }

    fn reserve_all(&mut self) {
        self.pool.revise(self.jobs, self.now_s);
        let mut plan = Plan::new(self.now_s, self.pool.free(), self.pool.ends(self.jobs));
        let waiting: Vec<_> = self.line.iter().collect();
        for (place, job) in waiting {
            if plan.reserve(job.processors, job.estimate_s) == self.now_s {
                self.start(place, job);
            }
            if self.pool.free() == 0 {
                // Nothing more starts now, and all reservations are made anew next time.
                break;
            }
        }
    }
}

/// How many processors are free from when on: steps in time, the last one for ever.
#[derive(Debug)]
struct Plan {
    steps: Vec<(Seconds, u32)>,
}

impl Plan {
    fn new(now_s: Seconds, free: u32, ends: impl Iterator<Item = (Seconds, u32)>) -> Self {
        let mut steps = vec![(now_s, free)];
        for (at_s, processors) in ends {
            match steps.last_mut() {
                Some((last_s, free)) if *last_s == at_s => *free += processors,
                last => {
                    let free = last.map_or(0, |(_, free)| *free);
                    steps.push((at_s, free + processors));
                }
            }
        }
        Self { steps }
    }

    /// Reserves at the first moment from which on so many processors are free for so long; gives that moment.
    fn reserve(&mut self, processors: u32, length_s: Seconds) -> Seconds {
        let mut from = 0;
        for (place, &(at_s, free)) in self.steps.iter().enumerate() {
            if place > from && at_s >= self.steps[from].0.saturating_add(length_s) {
                break;
            }
            if free < processors {
                from = place + 1;
            }
        }
        let start_s = self.steps[from].0;
        let end_s = start_s.saturating_add(length_s);
        let until = self.steps.partition_point(|&(at_s, _)| at_s < end_s);
        if self.steps.get(until).is_none_or(|&(at_s, _)| at_s > end_s) {
            let (_, free) = self.steps[until - 1];
            self.steps.insert(until, (end_s, free));
        }
        self.steps[from..until].iter_mut().for_each(|(_, free)| *free -= processors);
        start_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_take_the_first_gap_that_lasts() {
        // Four processors: one free now, all at 10 s.
        let mut plan = Plan::new(0, 1, [(10, 3)].into_iter());
        assert_eq!(plan.reserve(4, 5), 10);
        assert_eq!(plan.reserve(1, 10), 0, "it ends as the first begins");
        assert_eq!(plan.reserve(1, 1), 15);
        assert_eq!(plan.reserve(3, 100), 15);
        assert_eq!(plan.reserve(2, 1), 115);
        assert_eq!(plan.steps, [(0, 0), (10, 0), (15, 0), (16, 1), (115, 2), (116, 4)]);
    }
}
