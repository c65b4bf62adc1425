//! Free room on each host over time, for reservations of many jobs.

use crate::Micros;
use crate::fleet::{Part, Parts};
use crate::hosts::{Host, Hosts};
use crate::job::Job;

/// The free room on a host from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    at_us: Micros,
    free: u32,
    memory: u64,
}

/// The free room on each host over time: steps in time, the last for ever.
#[derive(Debug)]
pub(crate) struct Plan {
    hosts: Vec<Vec<Step>>,
}

/// A span of time on a host: its first step, and the step behind its last.
type Span = (usize, usize);

impl Plan {
    pub(crate) fn new(now_us: Micros, slots: u32, hosts: &[Host]) -> Self {
        let steps = |host: &Host| {
            let mut steps = vec![Step { at_us: now_us, free: slots - host.used, memory: host.memory }];
            let mut last = steps[0];
            for end in &host.ends {
                if end.at_us > last.at_us {
                    steps.push(Step { at_us: end.at_us, ..last });
                }
                let place = steps.len() - 1;
                steps[place].free += end.processors;
                steps[place].memory = steps[place].memory.saturating_add(end.memory);
                last = steps[place];
            }
            steps
        };
        Self { hosts: hosts.iter().map(steps).collect() }
    }

    /// Reserves at the first moment from which on there is room for so long; gives that moment, and where. `None` if
    /// there never is.
    pub(crate) fn reserve(&mut self, job: &Job, length_us: Micros, hosts: &Hosts) -> Option<(Micros, Parts)> {
        let (at_us, parts) = if hosts.fleet.on_one_host(job) {
            self.first_one(job, length_us, hosts)?
        } else {
            self.first_many(job, length_us, hosts)?
        };
        for &part in parts.iter() {
            self.take(part, job, at_us, length_us, hosts);
        }
        Some((at_us, parts))
    }

    fn first_one(&self, job: &Job, length_us: Micros, hosts: &Hosts) -> Option<(Micros, Parts)> {
        let (processors, memory) = (job.processors, job.memory_of(job.processors));
        let first = |(steps, host): (&Vec<Step>, u32)| {
            let from = first_gap(steps, length_us, |step| step.free >= processors && step.memory >= memory)?;
            // Hosts with a free core come before hosts with a free slot alone.
            let left = (steps[from].free - processors).checked_sub(hosts.extra()).unwrap_or(u32::MAX);
            Some((steps[from].at_us, left, host))
        };
        let (at_us, _, host) = self.hosts.iter().zip(0..).filter_map(first).min()?;
        Some((at_us, Part { host, processors }.into()))
    }

    fn first_many(&self, job: &Job, length_us: Micros, hosts: &Hosts) -> Option<(Micros, Parts)> {
        let mut moments: Vec<Micros> = self.hosts.iter().flatten().map(|step| step.at_us).collect();
        moments.sort_unstable();
        moments.dedup();
        moments.into_iter().find_map(|at_us| {
            let mut room: Vec<(u32, u32)> = self
                .hosts
                .iter()
                .zip(0..)
                .map(|(steps, host)| {
                    let (from, until) = span(steps, at_us, length_us);
                    let most = steps[from..until].iter().map(|s| hosts.most_of(job, s.free, s.memory)).min();
                    (most.unwrap_or(0), host)
                })
                .collect();
            room.sort_unstable_by(|one, other| other.cmp(one));
            let mut left = job.processors;
            let mut parts = Vec::new();
            for (most, host) in room {
                let processors = most.min(left);
                if processors == 0 {
                    break;
                }
                left -= processors;
                parts.push(Part { host, processors });
            }
            (left == 0).then_some((at_us, Parts::Many(parts)))
        })
    }

    fn take(&mut self, part: Part, job: &Job, at_us: Micros, length_us: Micros, hosts: &Hosts) {
        let steps = &mut self.hosts[part.host as usize];
        let end_us = at_us.saturating_add(length_us);
        for moment in [at_us, end_us] {
            let place = steps.partition_point(|step| step.at_us < moment);
            if place > 0 && steps.get(place).is_none_or(|step| step.at_us > moment) {
                steps.insert(place, Step { at_us: moment, ..steps[place - 1] });
            }
        }
        let memory = if hosts.fleet.memory.is_some() { job.memory_of(part.processors) } else { 0 };
        let (from, until) = span(steps, at_us, length_us);
        for step in &mut steps[from..until] {
            step.free -= part.processors;
            step.memory -= memory;
        }
    }
}

/// The steps of so long a time.
fn span(steps: &[Step], at_us: Micros, length_us: Micros) -> Span {
    let end_us = at_us.saturating_add(length_us);
    let from = steps.partition_point(|step| step.at_us <= at_us).saturating_sub(1);
    (from, steps.partition_point(|step| step.at_us < end_us).max(from + 1))
}

/// The first step from which on all fit for so long.
fn first_gap(steps: &[Step], length_us: Micros, fits: impl Fn(&Step) -> bool) -> Option<usize> {
    let mut from = 0;
    for (place, step) in steps.iter().enumerate() {
        if place > from && step.at_us >= steps[from].at_us.saturating_add(length_us) {
            break;
        }
        if !fits(step) {
            from = place + 1;
        }
    }
    (from < steps.len()).then_some(from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Fleet;
    use crate::hosts::Hosts;

    #[track_caller]
    fn check(plan: &mut Plan, hosts: &Hosts, processors: u32, length_us: u64, want: u64) {
        let job = Job { processors, ..Job::default() };
        let got = plan.reserve(&job, length_us, hosts).map(|(at_us, _)| at_us);
        assert_eq!(got, Some(want), "{processors} for {length_us}");
    }

    #[test]
    fn reservations_take_the_first_gap_that_lasts() {
        // Four processors: one free now, all at 10.
        let mut hosts = Hosts::new(Fleet::pool(4), 1);
        hosts.start(
            0,
            &Job { processors: 3, ..Job::default() },
            Part { host: 0, processors: 3 }.into(),
            0,
            10,
        );
        let mut plan = Plan::new(0, 4, hosts.each());
        check(&mut plan, &hosts, 4, 5, 10);
        check(&mut plan, &hosts, 1, 10, 0); // it ends as the first begins
        check(&mut plan, &hosts, 1, 1, 15);
        check(&mut plan, &hosts, 3, 100, 15);
        check(&mut plan, &hosts, 2, 1, 115);
        let steps: Vec<_> = plan.hosts[0].iter().map(|step| (step.at_us, step.free)).collect();
        assert_eq!(steps, [(0, 0), (10, 0), (15, 0), (16, 1), (115, 2), (116, 4)]);
    }

    #[test]
    fn hosts_are_filled_one_by_one() {
        let hosts =
            Hosts::new(Fleet { hosts: 2, cores: 4, slots: 4, memory: Some(10), job_memory: u64::MAX }, 0);
        let mut plan = Plan::new(0, 4, hosts.each());
        check(&mut plan, &hosts, 3, 10, 0);
        check(&mut plan, &hosts, 2, 10, 0);
        check(&mut plan, &hosts, 4, 10, 10); // 3 are free, but not on one host
        check(&mut plan, &hosts, 8, 10, 20);
        let large = Job { processors: 1, memory: 8, ..Job::default() };
        let mut at = |length_us| plan.reserve(&large, length_us, &hosts).map(|(at_us, _)| at_us);
        assert_eq!([at(5), at(5), at(5), at(5)], [Some(0), Some(0), Some(5), Some(5)]);
    }
}
