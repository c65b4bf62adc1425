//! What arrays cost, counted.

use std::collections::VecDeque;

use pinfold_topo::{CpuSet, PuOs};

use crate::{Action, ArrayLimit, Command, Decision, Event, Instant, JobId, Machine, Policy, Request};

/// A host of eight cores, and a clock that goes on with each event.
struct Host {
    policy: Policy,
    now: u64,
    running: VecDeque<JobId>,
}

impl Host {
    fn new() -> Self {
        let mut host = Self { policy: Policy::default(), now: 0, running: VecDeque::new() };
        let cores = (0..8).map(|pu| CpuSet::single(PuOs(pu))).collect();
        host.send(Event::Machine(Machine::flat(cores)));
        host
    }

    fn send(&mut self, event: Event) {
        self.now += 1_000;
        let starts = |one: &Decision| matches!(one.action, Action::Start { .. });
        let decided = self.policy.step(Instant(self.now), event);
        self.running.extend(decided.iter().filter(|one| starts(one)).map(|one| one.job));
    }

    fn submit(&mut self, members: u64, at_most: u32, held: bool) {
        for job in (1..=members).map(JobId) {
            let array = Some(ArrayLimit { array: 1, at_most });
            self.send(Event::Submit(Request { array, held, ..Request::plain(job) }));
        }
    }

    /// Ends jobs, those first that started first, until none runs; gives how many.
    fn run_dry(&mut self) -> u64 {
        let mut ended = 0;
        while let Some(job) = self.running.pop_front() {
            self.send(Event::Started(job));
            self.send(Event::Exited(job));
            ended += 1;
        }
        ended
    }

    fn looked_at(&self) -> usize {
        self.policy.rooms().queue.arrays().looked_at.get()
    }
}

const MEMBERS: u32 = 2_000;

/// Each of them is looked at a few times at most, whatever the number of those beside it.
#[track_caller]
fn check_looks(host: &Host) {
    let looked_at = host.looked_at();
    assert!(looked_at as u64 <= 4 * u64::from(MEMBERS), "{looked_at} looks at {MEMBERS} members");
}

#[test]
fn the_end_of_a_member_costs_the_same_however_many_may_start() {
    for at_most in [1, 8, MEMBERS / 2, MEMBERS] {
        let mut host = Host::new();
        host.submit(MEMBERS.into(), at_most, false);
        assert_eq!(host.run_dry(), MEMBERS.into());
        check_looks(&host);
    }
}

#[test]
fn members_are_released_and_held_at_the_same_cost_however_many_wait() {
    let mut host = Host::new();
    host.submit(MEMBERS.into(), MEMBERS, true);
    for job in (1..=u64::from(MEMBERS)).rev().map(JobId) {
        host.send(Event::Command(job, Command::Release));
    }
    check_looks(&host);
    assert_eq!(host.run_dry(), MEMBERS.into());
    check_looks(&host);
    // Of held ones none is next, and the few others come behind them all.
    let mut host = Host::new();
    host.submit(MEMBERS.into(), MEMBERS, true);
    for job in (MEMBERS - 100..=MEMBERS).map(|job| JobId(job.into())) {
        host.send(Event::Command(job, Command::Release));
        host.send(Event::Command(job, Command::Hold));
        host.send(Event::Command(job, Command::Release));
    }
    assert_eq!(host.run_dry(), 101);
    check_looks(&host);
}
