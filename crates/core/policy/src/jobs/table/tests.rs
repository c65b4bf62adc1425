//! What the table keeps of jobs that are over, and what it tells of how others wait.

use pinfold_topo::{CpuSet, PuOs};

use crate::{Adopted, Class, Command, Event, Instant, JobId, Machine, Policy, Request, Running, Settings};

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

/// What was noted of each job by the last step that changed how it waits is what the next daemon passes on.
#[test]
fn a_step_tells_whose_wait_it_changed() {
    let mut policy = host();
    policy.step(Instant(0), Event::Configure(Settings { drain: true, ..Settings::default() }));
    let mut check = |at: u64, event: Event, want: &[(u64, Option<u64>)]| {
        let said = format!("{at}: {event:?}");
        policy.step(Instant(at), event);
        let told: Vec<_> = policy.waits_changed().map(|(job, since)| (job.0, since.map(|at| at.0))).collect();
        assert_eq!(told, want, "{said}");
    };
    let plain = |job| Request::plain(JobId(job));
    let command = |job, command| Event::Command(JobId(job), command);
    check(1, Event::Submit(plain(1)), &[(1, Some(1))]);
    check(2, Event::Submit(Request { held: true, ..plain(2) }), &[(2, None)]);
    check(3, Event::Submit(Request { gated: true, after: vec![JobId(1)], ..plain(3) }), &[(3, None)]);
    check(4, Event::Tick, &[]);
    check(5, command(2, Command::Release), &[(2, Some(5))]);
    check(6, command(2, Command::Release), &[]);
    check(7, command(2, Command::Hold), &[(2, None)]);
    // The other job is still to end.
    check(8, Event::Gate { job: JobId(3), closed: false }, &[(3, None)]);
    check(9, command(1, Command::Cancel { signal: 15 }), &[(3, Some(9))]);
    check(10, Event::Gate { job: JobId(3), closed: true }, &[(3, None)]);
    let (request, submitted, waits_since) = (plain(4), Instant(2), Some(Instant(6)));
    let adopted = Adopted { request, submitted, waits_since, array_room_since: None, running: None };
    check(11, Event::Adopt(adopted), &[(4, Some(6))]);
    // It starts, which does not change since when it waited, and is begun anew.
    check(12, Event::Configure(Settings::default()), &[]);
    check(13, Event::Started(JobId(4)), &[]);
    check(14, Event::Requeued(JobId(4)), &[(4, Some(14))]);
    // Should the start of one fail that starts at once, it has waited since then.
    check(15, Event::Submit(plain(5)), &[(5, Some(15))]);
}
