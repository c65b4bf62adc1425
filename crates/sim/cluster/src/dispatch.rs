//! The rules by which a workload manager picks the next job. Each is a pass over the queue at one moment.
//!
//! Absent: events and time: the caller ([`crate::play`], or a simulator of hosts) reports events with their times.

use crate::Micros;
use crate::fleet::{Fleet, Part, Parts};
use crate::hosts::{Hosts, Reservation};
use crate::job::Job;
use crate::line::{Free, Hole, Line, Place, Waiting};
use crate::plan::Plan;
use crate::runtimes::{Estimator, Runtimes};

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
    /// EASY with candidates in order of estimated length, the shortest first.
    ///
    /// Source: Tsafrir, Etsion and Feitelson, IEEE TPDS 2007.
    ShortestFirst,
    /// Conservative backfilling: each job has a reservation, and a later job starts if it delays none of them. All
    /// reservations are made anew, in order of submission, at each change.
    ///
    /// Source: Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling
    /// the IBM SP2 with backfilling", IEEE TPDS 2001.
    Conservative,
}

/// A workload manager: takes submissions and ends, and returns starts with their hosts.
#[derive(Debug)]
pub struct Dispatcher<'a> {
    jobs: &'a [Job],
    rule: Dispatch,
    hosts: Hosts,
    line: Line,
    estimator: Estimator,
}

impl<'a> Dispatcher<'a> {
    /// Dispatches these jobs, by their places in the list, on these hosts. A job for which the hosts have no room
    /// ([`Fleet::room`]) would wait for ever, and block all jobs behind it: [`crate::job::Filter`] drops it.
    ///
    /// # Panics
    /// If the hosts have no room for a job.
    #[must_use]
    pub fn new(jobs: &'a [Job], fleet: Fleet, rule: Dispatch, runtimes: Runtimes) -> Self {
        let fits = |job: &Job| job.processors <= fleet.room(job);
        assert!(jobs.iter().all(fits), "a job is wider than the machine, or needs more memory");
        let hosts = Hosts::new(fleet, jobs.len());
        Self { jobs, rule, hosts, line: Line::default(), estimator: Estimator::new(runtimes) }
    }

    /// Adds a job at the end of the queue.
    pub fn submit(&mut self, index: usize) {
        let job = &self.jobs[index];
        let estimate_us = self.estimator.estimate(job);
        let on_one_host = self.hosts.fleet.on_one_host(job);
        let (processors, memory) = (job.processors, job.memory);
        self.line.push(Waiting { index, processors, memory, estimate_us, on_one_host });
    }

    /// A job that was started is over.
    pub fn ended(&mut self, index: usize) {
        self.hosts.end(index, &self.jobs[index]);
        self.estimator.ended(&self.jobs[index]);
    }

    /// The jobs that start now.
    pub fn pass(&mut self, now_us: Micros) -> Vec<usize> {
        if self.line.is_empty() {
            return Vec::new();
        }
        let mut pass = Pass {
            jobs: self.jobs,
            hosts: &mut self.hosts,
            line: &mut self.line,
            now_us,
            started: Vec::new(),
        };
        pass.run(self.rule);
        pass.started
    }

    /// The present or past place of a job.
    #[must_use]
    pub fn parts(&self, index: usize) -> &[Part] {
        self.hosts.parts(index)
    }

    /// The place of each job; empty if it never started.
    #[must_use]
    pub fn into_parts(self) -> Vec<Parts> {
        self.hosts.into_parts()
    }
}

/// A pass: its inputs, and the jobs that it starts.
#[derive(Debug)]
struct Pass<'a> {
    jobs: &'a [Job],
    hosts: &'a mut Hosts,
    line: &'a mut Line,
    now_us: Micros,
    /// The jobs that were started.
    started: Vec<usize>,
}

impl Pass<'_> {
    fn run(&mut self, rule: Dispatch) {
        let Some(head) = self.start_heads() else { return };
        if self.hosts.are_full() {
            return;
        }
        match rule {
            Dispatch::Fcfs => {}
            Dispatch::Easy => self.backfill(head),
            Dispatch::ShortestFirst => self.backfill_shortest(head),
            Dispatch::Conservative => self.reserve_all(),
        }
    }

    fn start(&mut self, place: Place, job: Waiting, parts: Parts) {
        self.line.remove(place);
        self.hosts.start(job.index, &self.jobs[job.index], parts, self.now_us, job.estimate_us);
        self.started.push(job.index);
    }

    /// Starts the head of the queue as long as it fits; returns the first that does not fit.
    fn start_heads(&mut self) -> Option<(Place, Waiting)> {
        while let Some((place, job)) = self.line.head() {
            let Some(parts) = self.hosts.choose(&self.jobs[job.index], None) else {
                return Some((place, job));
            };
            self.start(place, job, parts);
        }
        None
    }

    fn reserve(&mut self, head: Waiting) -> Reservation {
        self.hosts.revise(self.jobs, self.now_us);
        self.hosts.reserve(&self.jobs[head.index], self.jobs, self.now_us)
    }

    /// The free room beside a reservation.
    fn hole(&self, reserved: &Reservation, failed: Vec<(Waiting, bool)>) -> Hole {
        let hosts = &self.hosts;
        let in_time = Free { one: hosts.largest_but(None), all: hosts.free_cores() };
        let outliving = match reserved.host {
            Some(host) => {
                let (here, extra) = (hosts.free_on(host), hosts.extra());
                let (cores, kept) = (here.saturating_sub(extra), here.min(reserved.beyond));
                let all = in_time.all - cores + cores.min(reserved.beyond);
                Free { one: hosts.largest_but(Some(host)).max(kept), all }
            }
            None => Free { one: in_time.one.min(reserved.beyond), all: in_time.all.min(reserved.beyond) },
        };
        let window_us = reserved.at_us - self.now_us;
        Hole { window_us, in_time, outliving, memory: hosts.largest_memory(), failed }
    }

    fn backfill(&mut self, (mut place, head): (Place, Waiting)) {
        let mut reserved = self.reserve(head);
        let mut hole = self.hole(&reserved, Vec::new());
        while let Some((next, job)) = self.line.next_that_may_fit(place, &hole) {
            place = next;
            if self.fill(&mut reserved, next, job) {
                hole = self.hole(&reserved, hole.failed);
            } else {
                hole.failed.push((job, job.estimate_us <= hole.window_us));
            }
        }
    }

    fn backfill_shortest(&mut self, (place, head): (Place, Waiting)) {
        let mut reserved = self.reserve(head);
        let mut candidates = self.line.all();
        candidates.retain(|&(other, _)| other != place);
        candidates.sort_by_key(|&(place, job)| (job.estimate_us, place));
        for (place, job) in candidates {
            self.fill(&mut reserved, place, job);
        }
    }

    /// Starts a job beside a reservation, if it fits.
    fn fill(&mut self, reserved: &mut Reservation, place: Place, job: Waiting) -> bool {
        let asked = &self.jobs[job.index];
        let outlives = job.estimate_us > reserved.at_us - self.now_us;
        let Some(parts) = self.hosts.choose(asked, outlives.then_some(&*reserved)) else { return false };
        if outlives {
            let concerned = parts.iter().filter(|part| reserved.host.is_none_or(|host| host == part.host));
            let taken: u32 = concerned.map(|part| part.processors).sum();
            reserved.beyond -= taken;
            if reserved.host.is_some() {
                reserved.memory = reserved.memory.saturating_sub(asked.memory_of(taken));
            }
        }
        self.start(place, job, parts);
        true
    }

    fn reserve_all(&mut self) {
        self.hosts.revise(self.jobs, self.now_us);
        let mut plan = Plan::new(self.now_us, self.hosts.fleet.slots, self.hosts.each());
        for (place, job) in self.line.all() {
            let reserved = plan.reserve(&self.jobs[job.index], job.estimate_us, self.hosts);
            if let Some((at_us, parts)) = reserved
                && at_us == self.now_us
            {
                self.start(place, job, parts);
            }
            if self.hosts.are_full() {
                // Nothing more starts now, and all reservations are made anew next time.
                break;
            }
        }
    }
}
