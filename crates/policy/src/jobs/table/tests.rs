//! What the table keeps of jobs that are over.

use pinfold_topo::{CpuSet, PuOs};

use crate::{Adopted, Class, Command, Event, Instant, JobId, Machine, Policy, Request, Running};

fn host() -> Policy {
    let mut policy = Policy::default();
    let cores = (0..2).map(|pu| CpuSet::single(PuOs(pu))).collect();
    policy.step(Instant(0), Event::Machine(Machine::flat(cores)));
    policy
}

/// A user who has a job wait for ever, and hands over and cancels others that were to follow it, fills no memory.
#[test]
fn one_that_is_over_follows_none() {
    let mut policy = host();
    policy.step(Instant(0), Event::Submit(Request { held: true, ..Request::plain(JobId(1)) }));
    for job in (2..100).map(JobId) {
        let after = vec![JobId(1)];
        policy.step(Instant(1), Event::Submit(Request { after, ..Request::plain(job) }));
        let waits = policy.rooms().jobs.followers.len();
        policy.step(Instant(2), Event::Command(job, Command::Cancel { signal: 15 }));
        assert_eq!((waits, policy.rooms().jobs.followers.len()), (1, 0), "after job {job}");
    }
}

/// What it was to follow, one that is found running does not wait for, though it is not over.
#[test]
fn one_that_runs_follows_none() {
    let mut policy = host();
    let cpus = CpuSet::single(PuOs(0));
    let running =
        Running { started: Instant(0), class: Class::Primary, cpus, frozen: false, suspended: false };
    let held = Request { held: true, ..Request::plain(JobId(1)) };
    let runs = Request { after: vec![JobId(1)], ..Request::plain(JobId(2)) };
    for (request, running) in [(held, None), (runs, Some(running))] {
        policy.step(
            Instant(0),
            Event::Adopt(Adopted {
                request,
                submitted: Instant(0),
                waits_since: None,
                array_room_since: None,
                running,
            }),
        );
    }
    policy.step(Instant(1), Event::Tick);
    assert!(policy.rooms().jobs.followers.is_empty(), "{:?}", policy.rooms().jobs.followers);
}
