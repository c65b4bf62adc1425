//! Two users on a host of two cores, or in a set of two cores.

use pinfold_topo::{CpuSet, PuOs};

use crate::{Action, Aside, Event, Instant, JobId, Machine, Policy, Request, Settings};

struct Host {
    policy: Policy,
    now: u64,
    running: Vec<JobId>,
    /// The set that all jobs ask for.
    set: Option<&'static str>,
}

impl Host {
    /// One slot a core.
    fn new(set: Option<&'static str>) -> Self {
        let mut policy = Policy::default();
        policy.step(Instant(0), Event::Configure(Settings { factor_milli: 1000, ..Settings::default() }));
        let cores = |pus: std::ops::Range<u32>| pus.map(|pu| CpuSet::single(PuOs(pu))).collect();
        let aside = |name: &str| Aside { name: name.to_owned(), cores: cores(2..4), ..Aside::default() };
        let machine = Machine { asides: set.map(aside).into_iter().collect(), ..Machine::flat(cores(0..2)) };
        policy.step(Instant(0), Event::Machine(machine));
        Self { policy, now: 0, running: Vec::new(), set }
    }

    fn send(&mut self, event: Event) {
        self.now += 1_000;
        let decisions = self.policy.step(Instant(self.now), event);
        let starts = decisions.iter().filter(|one| matches!(one.action, Action::Start { .. }));
        self.running.extend(starts.map(|one| one.job));
    }

    fn submit(&mut self, job: u64, owner: u32, cores: u32) -> bool {
        let aside = self.set.map(str::to_owned);
        self.send(Event::Submit(Request { owner, cores, aside, ..Request::plain(JobId(job)) }));
        self.running.contains(&JobId(job))
    }

    fn end(&mut self, job: u64) {
        self.running.retain(|&one| one != JobId(job));
        self.send(Event::Exited(JobId(job)));
    }

    /// How many of `count` jobs of this owner start, each after the end of the one before.
    fn start_of(&mut self, owner: u32, count: u64) -> u64 {
        let first = 100 * u64::from(owner);
        let mut started = 0;
        for job in first..first + count {
            if !self.submit(job, owner, 1) {
                break;
            }
            started += 1;
            self.end(job);
        }
        started
    }
}

#[test]
fn a_job_that_waits_for_its_owners_holds_up_its_owners_alone() {
    for set in [None, Some("a")] {
        let mut host = Host::new(set);
        assert!(host.submit(1, 1, 1));
        assert!(!host.submit(2, 1, 2), "it needs both cores");
        assert_eq!(host.start_of(2, 50), 50, "the other user goes on: {set:?}");
        assert_eq!(host.start_of(1, 50), 8, "its own user's jobs do not pass it for ever: {set:?}");
        // What waits behind it starts when it is through, and the wide job does not starve.
        host.end(1);
        assert!(host.running.contains(&JobId(2)), "{:?}", host.running);
    }
}

#[test]
fn a_job_that_waits_for_others_is_passed_so_often() {
    for set in [None, Some("a")] {
        let mut host = Host::new(set);
        assert!(host.submit(1, 1, 1));
        assert!(!host.submit(2, 2, 2), "it needs both cores");
        assert_eq!(host.start_of(3, 50), 8);
        host.end(1);
        assert!(host.running.contains(&JobId(2)), "{:?}", host.running);
    }
}

/// One that could not start beside its user's other job, if the host had nobody else's, is that user's matter: however
/// much others hold as well.
#[test]
fn what_never_fits_beside_its_owners_holds_up_its_owners_alone() {
    let mut host = Host::new(None);
    host.send(Event::Configure(Settings { factor_milli: 1000, ..Settings::default() }));
    let cores = (0..4).map(|pu| CpuSet::single(PuOs(pu))).collect();
    host.send(Event::Machine(Machine::flat(cores)));
    assert!(host.submit(1, 1, 1) && host.submit(3, 3, 1));
    assert!(!host.submit(2, 1, 4), "it needs all cores, of which one is its user's and one another's");
    assert_eq!(host.start_of(2, 50), 50, "others go on");
    assert_eq!(host.start_of(1, 50), 8, "its own user's jobs do not pass it for ever");
    host.end(3);
    assert_eq!(host.start_of(3, 50), 50);
    host.end(1);
    assert!(host.running.contains(&JobId(2)), "{:?}", host.running);
}

#[test]
fn what_never_fits_in_a_set_beside_its_owners_holds_up_its_owners_alone() {
    let mut host = Host::new(Some("a"));
    let cores = |pus: std::ops::Range<u32>| pus.map(|pu| CpuSet::single(PuOs(pu))).collect();
    let aside = Aside { name: "a".to_owned(), cores: cores(2..6), ..Aside::default() };
    host.send(Event::Machine(Machine { asides: vec![aside], ..Machine::flat(cores(0..2)) }));
    assert!(host.submit(1, 1, 1) && host.submit(3, 3, 2));
    assert!(!host.submit(2, 1, 4), "it needs all cores, of which one is its user's and two another's");
    assert_eq!(host.start_of(2, 50), 50, "others go on");
    assert_eq!(host.start_of(1, 50), 8, "its own user's jobs do not pass it for ever");
}
