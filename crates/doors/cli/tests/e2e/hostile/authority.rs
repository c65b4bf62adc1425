//! The matrix of authority on the raw wire: each request, each kind of user, fields that the command line never
//! combines.
//!
//! Each row is sent, and then a question that everybody may ask: what comes before its answer is what the row came to.

use std::collections::BTreeSet;

use pinfold_proto::wire::{Adoptee, SetAside};
use pinfold_proto::{Adopted, After, AfterEnd, JobClass, JobLayout, Terms, TimeoutSignal};

use super::*;
use crate::kind::tests;

tests! {
    Best: nothing_of_another_users, an_operator_may_what_root_may_but_name_programs,
        of_others_jobs_only_their_end_is_waited_for, what_a_job_may_not_say_of_itself;
}

/// What a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    /// Nothing was said.
    Silence,
    /// It was refused with this code.
    Error(ErrorCode),
    /// The job is not one that the sender keeps.
    Unknown,
    /// It was done, or answered.
    Done,
}

fn came(reply: Option<&Reply>) -> Came {
    match reply {
        None => Came::Silence,
        Some(Reply::Error { code, .. } | Reply::Refused { code, .. }) => Came::Error(*code),
        Some(Reply::Unknown { .. }) => Came::Unknown,
        Some(_) => Came::Done,
    }
}

/// Sends a request; gives what was said to it.
fn ask(wire: &mut Wire, request: &Request) -> Vec<Reply> {
    wire.send(request);
    wire.send(&Request::Where);
    let mut said = Vec::new();
    loop {
        match wire.hear() {
            Some(Reply::Where { .. }) => return said,
            Some(reply) => said.push(reply),
            None => panic!("the daemon hangs up on {request:?}"),
        }
    }
}

/// Plays rows as a user; says which came to something else than they should.
fn play(host: &Host, user: u32, rows: &[(Request, Came)]) -> Vec<String> {
    speak_as(host, user, |mut wire| {
        let judged = rows.iter().map(|(request, want)| {
            let said = ask(&mut wire, request);
            let got = came(said.first());
            (got != *want).then(|| format!("{request:?}: {said:?}, not {want:?}"))
        });
        judged.flatten().collect()
    })
}

fn ended(job: u64) -> Request {
    Request::Ended { job, ending: Ending { exit_code: Some(0), ..Ending::default() } }
}

/// What may be said of the jobs of another, running and held.
fn rows_about(running: u64, held: u64) -> Vec<(Request, Came)> {
    let denied = Came::Error(ErrorCode::Permission);
    let own = std::process::id();
    let mut rows = Vec::new();
    for job in [running, held] {
        let ending = Ending { exit_code: Some(0), ..Ending::default() };
        for phase in [
            Phase::Waiting { pid: Some(own) },
            Phase::Running { pid: own },
            Phase::Ended { ending, run: None },
        ] {
            rows.push((Request::Attach { job, phase }, Came::Unknown));
        }
        rows.extend([
            (Request::Child { job, pid: own }, Came::Silence),
            (ended(job), Came::Silence),
            (Request::Withdraw { job, reason: "it is mine".to_owned() }, Came::Silence),
            (Request::Checkpointed { job, error: None }, Came::Silence),
            (Request::Interrupted { job }, Came::Silence),
            (Request::Keep { job, start: Box::default() }, Came::Silence),
            (Request::Presented, Came::Silence),
            (Request::Status { jobs: vec![job], all: false, at_us: None }, denied),
            (Request::Why { job, at_us: None }, denied),
            (Request::StartOf { job }, denied),
            (Request::Wait { jobs: vec![job] }, denied),
            (Request::Begin { job }, denied),
            (Request::Squeeze { job, bytes: 0 }, denied),
            (Request::Squeeze { job, bytes: 1 << 40 }, denied),
        ]);
        let verbs = [
            Verb::Suspend,
            Verb::Resume,
            Verb::Hold,
            Verb::Release,
            Verb::Cancel { signal: 0 },
            Verb::Cancel { signal: 9 },
            Verb::Priority(1),
            Verb::Class(Some(pinfold_proto::JobClass::Backfill)),
            Verb::CpuLimit(Some(1)),
            Verb::Memory(1 << 40),
            Verb::Timeout(Some(1)),
            Verb::TimeoutSignal(None),
            Verb::Begin(Some(1 << 60)),
            Verb::Comment("mine".to_owned()),
        ];
        rows.extend(verbs.map(|verb| (Request::Control { job, verb }, denied)));
        let report = |pieces| Request::Report {
            select: Select::Jobs(vec![job]),
            series: true,
            processes: true,
            threads: true,
            files: true,
            all: true,
            pieces,
        };
        rows.push((report(false), denied));
        rows.push((report(true), denied));
    }
    rows
}

/// What is for operators.
fn rows_of_operators(set: &str) -> Vec<(Request, Came)> {
    let denied = Came::Error(ErrorCode::Permission);
    let named = |name: &str| SetAside { name: Some(name.to_owned()), cores: Some(1), ..SetAside::default() };
    vec![
        (Request::Drain { on: true }, denied),
        (Request::Drain { on: false }, denied),
        (Request::ConfigSet { changes: vec!["slots.factor=0".to_owned()] }, denied),
        (Request::ConfigSet { changes: vec!["modules.site=[\"/bin/true\"]".to_owned()] }, denied),
        (Request::ConfigSave { write: true, text: None }, denied),
        (Request::Audit { verify: true }, denied),
        (Request::SetRemove { name: set.to_owned() }, denied),
        (Request::SetAside(named("mine")), denied),
        (Request::SetAside(named(set)), denied),
        (Request::SetAside(SetAside { housekeeping: true, ..named("mine") }), denied),
    ]
}

fn nothing_of_another_users(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let set = host.pinfold(["set-aside", "roots", "--cores", "1", "--users", "root"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let running = victims_job(&host, &[], WAIT);
    let options = ["submit", "--hold", "-o", "/dev/null", "-e", "/dev/null", "--", "true"];
    let held = run_as(&host, VICTIM, &options).out.trim().parse().expect("a number");
    let seen = |job: u64| {
        let view = host.job(job);
        // Its shell; what that starts comes and goes.
        (view.state, view.priority, root_process(&view.pids), view.exit_code)
    };
    let before = (seen(running), seen(held));
    let rows = [rows_about(running, held), rows_of_operators("roots")].concat();
    let wrong = play(&host, ATTACKER, &rows);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let adopted = Request::Adopt {
        which: Adoptee::Process(root_process(&host.job(running).pids).unwrap_or(1)),
        spec: Box::new(spec()),
        in_place: false,
    };
    let said = speak_as(&host, ATTACKER, |mut wire| ask(&mut wire, &adopted));
    assert!(matches!(came(said.first()), Came::Error(_)), "{said:?}");
    // Of all that there is, what is the asker's own: nothing.
    let said = speak_as(&host, ATTACKER, |mut wire| {
        ask(&mut wire, &Request::Status { jobs: Vec::new(), all: true, at_us: None })
    });
    assert!(matches!(&said[..], [Reply::Status(view)] if view.jobs.is_empty()), "{said:?}");
    assert_eq!((seen(running), seen(held)), before, "all is as it was");
    let sets = host.pinfold(["sets", "--json"]).out;
    assert!(sets.contains("roots") && !sets.contains("mine"), "{sets}");
    host.make("go");
    host.until_exit_code(running, 0);
    assert_eq!(run_as(&host, VICTIM, &["cancel", &held.to_string()]).code, Some(0));
}

/// That a job of another user's is over may be waited for, as it always could be; how it ended is nobody's but its
/// user's. What a job may wait for is bounded, and what makes no sense is refused.
fn of_others_jobs_only_their_end_is_waited_for(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let theirs = victims_job(&host, &["--name", "secret"], WAIT);
    let after = |end: AfterEnd, job: u64| vec![After { end, ..After::from(job) }];
    // Their job stands for one's own, too: as the second of those that count as one.
    let as_one = |first: u64, with: usize| {
        let after = After { end: AfterEnd::Failed, with: vec![theirs.into(); with], ..After::from(first) };
        JobSpec { after: vec![after], ..spec() }
    };
    let asks = |spec: JobSpec| Request::Submit { ticket: 1, spec: Box::new(spec), pid: None };
    let with = |terms: Terms| asks(JobSpec { terms, ..spec() });
    let (denied, usage) = (Came::Error(ErrorCode::Permission), Came::Error(ErrorCode::Usage));
    let signal = |signal, before_us| Some(TimeoutSignal { signal, before_us });
    let timed = |timeout_us, timeout_signal| with(Terms { timeout_us, timeout_signal, ..Terms::default() });
    let rows = [
        (asks(JobSpec { after: after(AfterEnd::Ok, theirs), ..spec() }), denied),
        (asks(JobSpec { after: after(AfterEnd::Failed, theirs), ..spec() }), denied),
        (asks(JobSpec { after: after(AfterEnd::Any, theirs), ..spec() }), Came::Done),
        (asks(as_one(theirs + 1, 1)), denied),
        (asks(as_one(theirs + 1, 1024)), usage),
        (asks(as_one(u64::MAX, 1)), usage),
        (asks(JobSpec { after: after(AfterEnd::Ok, u64::MAX), ..spec() }), usage),
        (
            asks(JobSpec { after: vec![After { end: AfterEnd::Ok, ..After::from(theirs) }; 1025], ..spec() }),
            usage,
        ),
        (timed(Some(0), None), usage),
        (timed(None, signal(10, 1)), usage),
        (timed(Some(10), signal(10, 10)), usage),
        (timed(Some(10), signal(-1, 1)), usage),
        (timed(Some(u64::MAX), signal(10, 1)), Came::Done),
        (with(Terms { comment: Some("x".repeat(1025)), ..Terms::default() }), usage),
        (with(Terms { begin_us: Some(u64::MAX), ..Terms::default() }), Came::Done),
        (Request::Named { names: vec!["secret".to_owned()] }, Came::Error(ErrorCode::Failed)),
        (Request::Named { names: vec![String::new(); 65] }, usage),
    ];
    let wrong = play(&host, ATTACKER, &rows);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let many =
        asks(JobSpec { after: vec![After { end: AfterEnd::Ok, ..After::from(theirs) }; 1025], ..spec() });
    match speak_as(&host, ATTACKER, |mut wire| ask(&mut wire, &many)).first() {
        Some(Reply::Refused { reason, .. }) => assert!(reason.contains("1024 is the most"), "{reason}"),
        other => panic!("a refusal, not {other:?}"),
    }
    host.make("go");
    host.until_exit_code(theirs, 0);
}

fn an_operator_may_what_root_may_but_name_programs(kind: Kind) {
    let host = shared(kind, &["slots.factor=4", "access.operators=nobody"]);
    let options = ["submit", "--hold", "-o", "/dev/null", "-e", "/dev/null", "--", "true"];
    let held: u64 = run_as(&host, ATTACKER, &options).out.trim().parse().expect("a number");
    let rows = [
        (Request::Status { jobs: vec![held], all: true, at_us: None }, Came::Done),
        (Request::Why { job: held, at_us: None }, Came::Done),
        // An environment is nothing for operators.
        (Request::StartOf { job: held }, Came::Error(ErrorCode::Permission)),
        (Request::Control { job: held, verb: Verb::Priority(12) }, Came::Done),
        (Request::Drain { on: true }, Came::Done),
        (Request::Drain { on: false }, Came::Done),
        (Request::ConfigSet { changes: vec!["slots.factor=2".to_owned()] }, Came::Done),
        (Request::Audit { verify: true }, Came::Done),
        // Another's keeper stays that: an operator steers jobs and does not speak for them.
        (ended(held), Came::Silence),
        (Request::Withdraw { job: held, reason: String::new() }, Came::Silence),
        (Request::Keep { job: held, start: Box::default() }, Came::Silence),
        (
            Request::ConfigSet { changes: vec!["modules.site=[\"/bin/true\"]".to_owned()] },
            Came::Error(ErrorCode::Permission),
        ),
        (
            Request::ConfigSet { changes: vec![" modules.wrap=[\"/bin/true\"]".to_owned()] },
            Came::Error(ErrorCode::Permission),
        ),
    ];
    // Who an operator is, is looked up beside the loop; it is none before that.
    eventually("the operator is known", || {
        let done = run_as(&host, VICTIM, &["audit"]);
        if done.code == Some(0) { Ok(()) } else { Err(format!("{done:?}")) }
    });
    let wrong = play(&host, VICTIM, &rows);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((host.job(held).state, host.job(held).priority), (JobState::Held, 12));
    assert_eq!(run_as(&host, VICTIM, &["cancel", &held.to_string()]).code, Some(0));
}

fn what_a_job_may_not_say_of_itself(kind: Kind) {
    let settings =
        ["slots.factor=4", "access.exclusive=root", "access.no_suspend=root", "access.max_priority=10"];
    let host = shared(kind, &settings);
    let set = host.pinfold(["set-aside", "roots", "--cores", "1", "--users", "root"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let denied = Came::Error(ErrorCode::Permission);
    let wrong = Came::Error(ErrorCode::Usage);
    let submit = |spec: JobSpec| Request::Submit { ticket: 1, spec: Box::new(spec), pid: None };
    let held = || JobSpec { held: true, ..spec() };
    let within =
        |set: &str, isolated| JobLayout { set: Some(set.to_owned()), isolated, ..JobLayout::default() };
    let rows = [
        (submit(JobSpec { priority: Some(11), ..held() }), denied),
        (submit(JobSpec { priority: Some(0), ..held() }), wrong),
        (submit(JobSpec { priority: Some(255), ..held() }), wrong),
        (submit(JobSpec { class: Some(JobClass::Exclusive), ..held() }), denied),
        (submit(JobSpec { no_suspend: true, ..held() }), denied),
        (submit(JobSpec { layout: Some(within("roots", false)), ..held() }), denied),
        (submit(JobSpec { cores: 0, ..held() }), wrong),
    ];
    let failed = play(&host, ATTACKER, &rows);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let said = speak_as(&host, ATTACKER, |mut wire| {
        ask(&mut wire, &submit(JobSpec { layout: Some(within("roots", true)), ..held() }))
    });
    assert!(matches!(came(said.first()), Came::Error(_)), "in a set and isolated: {said:?}");
    // That it was adopted, or of whose allocation it is, is the daemon's to say: the words are not heard.
    let adopted = Adopted { processes: vec![(1, 0)], ..Adopted::default() };
    let said = speak_as(&host, ATTACKER, |mut wire| {
        let said = ask(&mut wire, &submit(JobSpec { adopted: Some(adopted), ..held() }));
        let Some(Reply::Queued { job, .. }) = said.first() else { panic!("it is queued: {said:?}") };
        let job = *job;
        ask(&mut wire, &Request::Control { job, verb: Verb::Release });
        let said = ask(&mut wire, &Request::Status { jobs: vec![job], all: false, at_us: None });
        let [Reply::Status(view)] = &said[..] else { panic!("its own job is told: {said:?}") };
        view.jobs[0].pids.clone()
    });
    assert_eq!(said, Vec::<u32>::new(), "the first process is nobody's job");
    eventually("what its keeper left is withdrawn", || {
        let known: BTreeSet<u64> = host.status(&[]).jobs.iter().map(|job| job.job).collect();
        if known.is_empty() { Ok(()) } else { Err(format!("{known:?}")) }
    });
}
