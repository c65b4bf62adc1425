//! Answers about thousands of jobs are made in parts: others ask, and are answered in between.

use pinfold_proto::After;
use pinfold_proto::row::JobRow;
use pinfold_proto::view::StatusView;
use pinfold_proto::wire;

use super::cost::{held, now_us, report, reports_of, store, submit};
use super::*;
use crate::kind::tests;

tests! {
    Best: status_names_thousands_that_are_over, many_waits_for_one_job, an_earlier_moment_with_many_jobs,
        lists_of_thousands_come_in_pieces, status_of_all_and_names_of_thousands, thousands_start_after_one;
}

const JOBS: u64 = 10_000;

/// A job that is over, of this user, by its number.
fn over(job: u64, user: u32, at_us: u64) -> JobRow {
    JobRow::asked_for(job, user, "nobody".to_owned(), spec(), at_us + job).ran_until(at_us + 2 * job)
}

fn status(jobs: Vec<u64>) -> Request {
    Request::Status { jobs, all: false, at_us: None }
}

/// Sends a question and another one, which is answered before it.
fn is_overtaken(wire: &mut Wire, request: Request) -> Reply {
    wire.send_all(&[request, Request::Where]);
    let first = wire.hear();
    assert!(matches!(first, Some(Reply::Where { .. })), "{:.60}", format!("{first:?}"));
    wire.hear().expect("the daemon goes on")
}

/// Stops the daemon (SIGSTOP), and waits until it is stopped: all that is sent from then on it receives in one turn.
fn hold(host: &Host) {
    host.hold_daemon();
    eventually("the daemon is stopped", || {
        let state = status_field(host.daemon_pid(), "State").expect("it lives");
        if state.trim_start().starts_with('T') { Ok(()) } else { Err(state) }
    });
}

/// Those that are over are read in parts, and each is told once, as it is; so is one that ends meanwhile.
fn status_names_thousands_that_are_over(kind: Kind) {
    let mut host = shared(kind, &[]);
    let at_us = now_us() - 3_600_000_000;
    store(&mut host, JOBS, |job| over(job, if job == JOBS { VICTIM } else { ATTACKER }, at_us));
    let all: Vec<u64> = (1..=JOBS).collect();
    let (mut root, mut keeper) = (Wire::greeted(&host), Wire::greeted(&host));
    let Reply::Status(view) = is_overtaken(&mut root, status(all.clone())) else {
        panic!("the host as it is")
    };
    assert_eq!(view.jobs.iter().map(|job| job.job).collect::<Vec<_>>(), all);
    assert!(view.jobs.iter().all(|job| job.state == JobState::Exited));
    // Another user's job is told to nobody, wherever it is named, nor what is not there.
    speak_as(&host, ATTACKER, |mut wire| {
        wire.send(&status(all.clone()));
        let denied = wire.hear();
        assert!(matches!(denied, Some(Reply::Error { code: ErrorCode::Permission, .. })), "{denied:?}");
        wire.send(&status((2..JOBS).chain([JOBS + 9]).collect()));
        let none = wire.hear();
        assert!(
            matches!(&none, Some(Reply::Error { message, .. }) if message.contains("no job")),
            "{none:?}"
        );
    });
    keeper.send_all(&[submit(1, held()), submit(2, held())]);
    let jobs = [(); 2].map(|()| match keeper.hear() {
        Some(Reply::Queued { job, .. }) => job,
        other => panic!("it is queued, not {other:?}"),
    });
    hold(&host);
    root.send(&status([&all[2..], &jobs].concat()));
    keeper.send(&Request::Withdraw { job: jobs[0], reason: "it was a try".to_owned() });
    send(host.daemon_pid(), Signal::CONT);
    let Some(Reply::Status(view)) = root.hear() else { panic!("the host as it is") };
    assert_eq!(view.jobs.iter().map(|job| job.job).collect::<Vec<_>>(), [&all[2..], &jobs].concat());
    let states = [JOBS - 2, JOBS - 1].map(|at| view.jobs[usize::try_from(at).expect("some")].state);
    assert_eq!(states, [JobState::Exited, JobState::Held]);
    serves(&host);
}

/// One job ends for which many wait, each together with hundreds that are over: they are not all told in one turn.
fn many_waits_for_one_job(kind: Kind) {
    const WAITS: usize = 16;
    let mut host = shared(kind, &[]);
    let at_us = now_us() - 3_600_000_000;
    store(&mut host, 200, |job| over(job, ATTACKER, at_us));
    let (mut root, mut keeper) = (Wire::greeted(&host), Wire::greeted(&host));
    keeper.send(&submit(1, held()));
    let Some(Reply::Queued { job, .. }) = keeper.hear() else { panic!("it is queued") };
    let wanted: Vec<u64> = (1..=200).chain([job]).collect();
    root.send_all(&vec![Request::Wait { jobs: wanted.clone() }; WAITS]);
    root.send(&Request::Where);
    assert!(matches!(root.hear(), Some(Reply::Where { .. })), "all wait");
    hold(&host);
    root.send_all(&vec![Request::Where; 60]);
    keeper.send(&Request::Withdraw { job, reason: "it was a try".to_owned() });
    send(host.daemon_pid(), Signal::CONT);
    let mut reports = Vec::new();
    for at in 0..60 + WAITS {
        match root.hear() {
            Some(Reply::Where { .. }) => {}
            Some(Reply::Report(told)) => {
                assert_eq!(told.iter().map(|report| report.job).collect::<Vec<_>>(), wanted);
                assert_eq!(told[200].state, JobState::Exited);
                reports.push(at);
            }
            other => panic!("{:.60}", format!("{other:?}")),
        }
    }
    assert_eq!(reports.len(), WAITS);
    assert!(reports[WAITS - 1] - reports[0] >= WAITS, "others are answered in between: {reports:?}");
}

/// They are found in one part, and looked at in several.
fn an_earlier_moment_with_many_jobs(kind: Kind) {
    let mut host = shared(kind, &[]);
    let at_us = now_us() - 3_600_000_000;
    store(&mut host, 1_200, |job| {
        let row = JobRow::asked_for(job, VICTIM, "nobody".to_owned(), spec(), at_us - 30_000_000 + job);
        row.ran_until(if job % 4 == 0 { at_us - job } else { at_us + job })
    });
    let then = Request::Status { jobs: Vec::new(), all: false, at_us: Some(at_us) };
    let Reply::Status(view) = is_overtaken(&mut Wire::greeted(&host), then.clone()) else {
        panic!("the host as it was")
    };
    let there: Vec<u64> = (1..=1_200).filter(|job| job % 4 != 0).collect();
    assert_eq!(view.jobs.iter().map(|job| job.job).collect::<Vec<_>>(), there);
    assert_eq!((view.slots.used, view.slots.waiting), (900, 0));
    let others = speak_as(&host, ATTACKER, |mut wire| {
        wire.send(&then);
        wire.hear()
    });
    let Some(Reply::Status(view)) = others else { panic!("the host as it was") };
    assert_eq!((view.jobs.len(), view.slots.used), (0, 900));
}

/// Whether they are named, the last ones or those since then: all of them, in order, and a job that waits as well.
fn lists_of_thousands_come_in_pieces(kind: Kind) {
    let mut host = shared(kind, &[]);
    let at_us = now_us() - 3_600_000_000;
    store(&mut host, JOBS, |job| over(job, ATTACKER, at_us));
    let mut keeper = Wire::greeted(&host);
    keeper.send(&submit(1, held()));
    let Some(Reply::Queued { job, .. }) = keeper.hear() else { panic!("it is queued") };
    let mut wire = Wire::greeted(&host);
    let mut check = |request: Request, first: u64| {
        wire.send(&request);
        let mut told = Vec::new();
        loop {
            match wire.hear() {
                Some(Reply::Piece(wire::Piece::Jobs(jobs))) => told.extend(jobs),
                Some(Reply::Piece(wire::Piece::Last)) => break,
                other => panic!("{:.60}", format!("{other:?}")),
            }
        }
        let last = told.pop().expect("the one that waits");
        assert_eq!((last.job, last.state), (job, JobState::Held));
        assert_eq!(
            told.iter().map(|report| report.job).collect::<Vec<_>>(),
            (first..=JOBS).collect::<Vec<_>>()
        );
    };
    check(reports_of(Select::Last(5_001), true, true), JOBS - 4_999);
    check(reports_of(Select::Since(at_us + 2_001), true, true), 2_001);
    check(report((JOBS - 3..=JOBS).chain([job]).collect(), true), JOBS - 3);
    serves(&host);
}

/// The last jobs that are over, and those that a name means, are read in parts: others are answered in between. A name that is
/// repeated is looked for once.
fn status_of_all_and_names_of_thousands(kind: Kind) {
    let mut host = shared(kind, &[]);
    let at_us = now_us() - 3_600_000_000;
    store(&mut host, JOBS, |job| over(job, if job % 2 == 0 { 0 } else { ATTACKER }, at_us));
    let (mut root, mut keeper) = (Wire::greeted(&host), Wire::greeted(&host));
    keeper.send(&submit(1, held()));
    let Some(Reply::Queued { job, .. }) = keeper.hear() else { panic!("it is queued") };
    let all = Request::Status { jobs: Vec::new(), all: true, at_us: None };
    let named = |times| Request::AllNamed { names: vec![spec().name; times] };
    let numbers = |view: &StatusView| view.jobs.iter().map(|job| job.job).collect::<Vec<u64>>();
    let Reply::Status(view) = is_overtaken(&mut root, all.clone()) else { panic!("the host as it is") };
    assert_eq!(numbers(&view), (JOBS - 998..=JOBS).chain([job]).collect::<Vec<_>>());
    // Those that were over as the last one was asked for count no more.
    let Reply::AllNamed(meant) = is_overtaken(&mut root, named(8)) else { panic!("the jobs of that name") };
    assert_eq!(meant, vec![vec![job]; 8]);
    speak_as(&host, ATTACKER, |mut wire| {
        wire.send(&all);
        let Some(Reply::Status(view)) = wire.hear() else { panic!("the host as it is") };
        assert_eq!(numbers(&view), (0..1_000).map(|at| JOBS - 1_999 + 2 * at).collect::<Vec<_>>());
        // They ended alike, and the last one says so.
        wire.send(&named(64));
        let Some(Reply::AllNamed(meant)) = wire.hear() else { panic!("the jobs of that name") };
        assert_eq!(meant, vec![vec![JOBS - 1]; 64]);
        wire.send(&Request::AllNamed { names: vec!["nothing".to_owned()] });
        let none = wire.hear();
        assert!(matches!(none, Some(Reply::Error { code: ErrorCode::Failed, .. })), "{none:?}");
    });
    serves(&host);
}

/// One job ends that thousands wait for, or each for the one before it: what becomes of them is decided in parts, and of each
/// once. A daemon that dies in between knows the rest again.
fn thousands_start_after_one(kind: Kind) {
    const WAIT: u64 = 600;
    let mut host = shared(kind, &[]);
    let mut root = Wire::greeted(&host);
    let mut check = |shape: &str, before: fn(u64, u64) -> u64, crashes: bool| {
        let mut keeper = Wire::greeted(&host);
        keeper.send(&submit(0, held()));
        let Some(Reply::Queued { job: first, .. }) = keeper.hear() else { panic!("it is queued") };
        let after = |at: u64| {
            let after: After = format!("ok:{}", before(first, at)).parse().expect("a condition");
            submit(at, JobSpec { after: vec![after], ..spec() })
        };
        for at in 1..=WAIT {
            keeper.send(&after(at));
            let queued = keeper.hear();
            assert!(matches!(queued, Some(Reply::Queued { job, .. }) if job == first + at), "{queued:?}");
        }
        hold(&host);
        let last = first + WAIT;
        let both = Request::Status { jobs: vec![first + 1, last], all: false, at_us: None };
        root.send_all(&vec![both; 60]);
        keeper.send(&Request::Withdraw { job: first, reason: "it was a try".to_owned() });
        send(host.daemon_pid(), Signal::CONT);
        let seen = states_seen(&mut root, 60);
        assert!(
            seen.contains(&(JobState::Exited, JobState::Queued)),
            "{shape}: the last is decided as the first is: {seen:?}"
        );
        if crashes {
            host.crash();
            host.start_daemon();
            root = Wire::greeted(&host);
        } else {
            let mut struck = Vec::new();
            while struck.len() < usize::try_from(WAIT).expect("some") {
                match keeper.hear() {
                    Some(Reply::Struck { job, reason, .. }) => {
                        assert!(reason.contains("had ended well"), "{reason}");
                        struck.push(job);
                    }
                    Some(Reply::Recorded { .. }) => {}
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(struck, (first + 1..=last).collect::<Vec<_>>(), "{shape}: each once");
        }
        host.until(last, JobState::Exited);
    };
    check("all for one", |first, _| first, false);
    check("each for the one before", |first, at| first + at - 1, false);
    check("all for one, and a crash", |first, _| first, true);
    serves(&host);
}
