//! What one request may cost the daemon: work and bytes are bounded by the request's size and the state that it meets.

use std::os::unix::net::UnixStream;

use pinfold_profile::store::Store;
use pinfold_proto::After;
use pinfold_proto::row::JobRow;
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::{self, WIRE_VERSION};

use super::*;
use crate::kind::tests;

tests! {
    Best: names_that_stand_for_thousands, names_of_members_of_a_long_array, a_condition_for_each_member,
        answers_that_are_not_read, the_same_job_thousands_of_times, waiting_jobs_as_large_as_may_be,
        an_earlier_moment_of_many_jobs, a_client_goes_that_has_thousands_of_jobs,
        thousands_of_jobs_are_named;
}

/// A daemon may need so much more memory than before, whatever a user without rights says, in bytes: what buffers and the
/// store take, and far from what the requests here stand for.
const MORE_BYTES: u64 = 64 << 20;

/// The most memory that the daemon ever had, in bytes. Counted in batches: a later answer may be a little less.
fn peak_bytes(host: &Host) -> u64 {
    let text = status_field(host.daemon_pid(), "VmHWM").expect("it lives");
    let kib: u64 = text.split_whitespace().next().expect("a size").parse().expect("a number");
    kib << 10
}

pub(super) fn submit(ticket: u64, spec: JobSpec) -> Request {
    Request::Submit { ticket, spec: Box::new(spec), pid: None }
}

pub(super) fn held() -> JobSpec {
    JobSpec { held: true, ..spec() }
}

pub(super) fn report(jobs: Vec<u64>, pieces: bool) -> Request {
    reports_of(Select::Jobs(jobs), false, pieces)
}

pub(super) fn reports_of(select: Select, all: bool, pieces: bool) -> Request {
    Request::Report { select, series: false, processes: false, threads: false, files: false, all, pieces }
}

/// An array of held jobs over this connection; gives its number.
fn array(wire: &mut Wire, members: u32) -> u64 {
    let mut first = None;
    for chunk in (0..members).collect::<Vec<_>>().chunks(200) {
        let place = |index| JobArray { array: None, index, at_most: None };
        let all = chunk.iter().map(|&index| submit(1, JobSpec { array: Some(place(index)), ..held() }));
        wire.send_all(&all.collect::<Vec<_>>());
        for _ in chunk {
            let Some(Reply::Queued { job, .. }) = wire.hear() else { panic!("it is queued") };
            first = first.or(Some(job));
        }
    }
    first.expect("it has members")
}

fn after(names: &[JobName]) -> Vec<After> {
    names.iter().cloned().map(After::from).collect()
}

/// A frame of 250 KiB that names 200 million members: it is refused for what it stands for, and nothing is made of that.
fn names_that_stand_for_thousands(kind: Kind) {
    let host = shared(kind, &[]);
    let before = peak_bytes(&host);
    let long: JobName = "1_[0-9999]".parse().expect("a name");
    // Every second index, so that the ranges cannot be put together, and one range many times.
    let apart = |count: u32| (0..count).map(|index| index * 2).collect();
    speak_as(&host, ATTACKER, |mut wire| {
        for names in [
            vec![long; 20_000],
            vec!["1_[0-9998:2]".parse().expect("a name"); 17_000],
            vec![JobName { job: 1, indexes: Some(apart(10_000)) }; 4],
            (0..40_000).map(JobName::from).collect(),
        ] {
            wire.send(&submit(1, JobSpec { after: after(&names), ..held() }));
            match wire.hear() {
                Some(Reply::Refused { reason, .. }) => {
                    assert!(reason.contains("4096 is the most"), "{reason}")
                }
                other => panic!("a refusal, not {other:?}"),
            }
            wire.send(&Request::Members { names });
            let reply = wire.hear();
            assert!(matches!(reply, Some(Reply::Error { .. })), "{reply:?}");
        }
    });
    let more = peak_bytes(&host).saturating_sub(before);
    assert!(more < MORE_BYTES, "it took {more} bytes");
    serves(&host);
}

/// The same member is named thousands of times, and all members many times: each is looked at once, and waited for once.
fn names_of_members_of_a_long_array(kind: Kind) {
    let host = shared(kind, &[]);
    let before = peak_bytes(&host);
    let array = speak_as(&host, ATTACKER, |mut wire| {
        let array = array(&mut wire, 2_000);
        let name = |text: &str| format!("{array}{text}").parse::<JobName>().expect("a name");
        for names in [vec![name("_0"); 4096], vec![name(""); 4096], vec![name("_[0-1023]"); 4]] {
            wire.send(&submit(1, JobSpec { after: after(&names), ..held() }));
            assert!(matches!(wire.hear(), Some(Reply::Queued { .. })));
        }
        wire.send(&submit(2, JobSpec { after: after(&[name("_[0-1999]"), name("_2000")]), ..held() }));
        match wire.hear() {
            Some(Reply::Refused { reason, .. }) => {
                assert!(reason.contains(&format!("{array}_2000: there is no such job")), "{reason}");
            }
            other => panic!("a refusal, not {other:?}"),
        }
        array
    });
    let more = peak_bytes(&host).saturating_sub(before);
    assert!(more < MORE_BYTES, "it took {more} bytes");
    assert!(array > 0);
    serves(&host);
}

/// 1,024 conditions about the members of one array stand as they should, as the job is submitted and as the daemon starts.
/// How often the array is read for that, the unit tests count.
fn a_condition_for_each_member(kind: Kind) {
    const MEMBERS: u64 = 10_000;
    let mut host = shared(kind, &[]);
    let at_us = now_us() - 3_600_000_000;
    store(&mut host, MEMBERS, |job| {
        let index = u32::try_from(job - 1).expect("small");
        let array = Some(JobArray { array: Some(1), index, at_most: None });
        let spec = JobSpec { array, ..spec() };
        JobRow::asked_for(job, ATTACKER, "nobody".to_owned(), spec, at_us + job).ran_until(at_us + 2 * job)
    });
    let (wire, waits) = speak_as(&host, ATTACKER, |mut wire| {
        wire.send(&submit(1, held()));
        let Some(Reply::Queued { job: first, .. }) = wire.hear() else { panic!("it is queued") };
        // All of the array ended well: the job waits for the last condition alone.
        let members = (0..1023).map(|index| format!("ok:1_{index}"));
        let conditions = members.chain([format!("ok:{first}")]);
        let after: Vec<After> = conditions.map(|text| text.parse().expect("a condition")).collect();
        wire.send(&submit(2, JobSpec { after, ..spec() }));
        let Some(Reply::Queued { job, .. }) = wire.hear() else { panic!("it is queued") };
        (wire, job)
    });
    serves(&host);
    host.crash();
    host.start_daemon();
    drop(wire);
    host.until(waits, JobState::Queued);
    serves(&host);
}

/// Says hello and then this, again and again, as far as anybody listens, and reads nothing.
fn says_and_never_reads(host: &Host, request: &Request, times: usize) -> UnixStream {
    let mut stream = UnixStream::connect(host.socket()).expect("the daemon listens");
    let (mut hello, mut bytes) = (Vec::new(), Vec::new());
    wire::encode(&Request::Hello { version: WIRE_VERSION }, &mut hello).expect("short");
    wire::encode(request, &mut bytes).expect("short");
    stream.write_all(&hello).expect("the daemon takes it");
    stream.set_nonblocking(true).expect("a socket");
    for _ in 0..times {
        if stream.write_all(&bytes).is_err() {
            break;
        }
    }
    stream
}

/// Questions with long answers on many connections, none of which is read: what waits of them is bounded for each
/// connection and for their user, who is told so, and everybody else is served.
fn answers_that_are_not_read(kind: Kind) {
    let host = shared(kind, &[]);
    let (deaf, keeper, question) = speak_as(&host, ATTACKER, |mut wire| {
        let array = array(&mut wire, 3_000);
        let all: JobName = format!("{array}_[0-2999]").parse().expect("a name");
        let question = Request::Members { names: vec![all; 30] };
        let deaf: Vec<UnixStream> = (0..12).map(|_| says_and_never_reads(&host, &question, 40)).collect();
        (deaf, wire, question)
    });
    let before = peak_bytes(&host);
    let words = speak_as(&host, ATTACKER, |mut wire| {
        eventually("too much is unread", || {
            wire.send(&question);
            match wire.hear().expect("the daemon goes on") {
                Reply::Error { code: ErrorCode::Refused, message } => Ok(message),
                other => Err(format!("{:.60}", format!("{other:?}"))),
            }
        })
    });
    assert!(words.contains("wait to be read"), "{words}");
    serves(&host);
    let more = peak_bytes(&host).saturating_sub(before);
    assert!(more < MORE_BYTES, "it took {more} bytes");
    drop(deaf);
    speak_as(&host, ATTACKER, |mut wire| {
        eventually("questions are answered again", || {
            wire.send(&question);
            match wire.hear().expect("the daemon goes on") {
                Reply::Members(all) if all.len() == 30 => Ok(()),
                other => Err(format!("{:.60}", format!("{other:?}"))),
            }
        });
    });
    drop(keeper);
}

/// One job, as large as may be, is named as often as a frame holds: no answer has it so often.
fn the_same_job_thousands_of_times(kind: Kind) {
    let host = shared(kind, &[]);
    let before = peak_bytes(&host);
    speak_as(&host, ATTACKER, |mut wire| {
        wire.send(&submit(1, JobSpec { command: vec!["z".repeat(1000); 38], ..held() }));
        let Some(Reply::Queued { job, .. }) = wire.hear() else { panic!("it is queued") };
        wire.send(&Request::Withdraw { job, reason: "it was a try".to_owned() });
        for jobs in [vec![job; 50_000], vec![job; 10_000]] {
            let status = Request::Status { jobs: jobs.clone(), all: false, at_us: None };
            for request in [Request::Wait { jobs: jobs.clone() }, report(jobs.clone(), false)] {
                wire.send(&request);
                let words = eventually("an answer", || match wire.hear().expect("the daemon goes on") {
                    Reply::Error { message, .. } => Ok(message),
                    other => Err(format!("{:.60}", format!("{other:?}"))),
                });
                assert!(words.contains("name fewer") || words.contains("in pieces"), "{words}");
            }
            wire.send(&status);
            assert!(matches!(wire.hear(), Some(Reply::Error { .. } | Reply::Status(_))));
        }
    });
    let more = peak_bytes(&host).saturating_sub(before);
    assert!(more < MORE_BYTES, "it took {more} bytes");
    serves(&host);
}

/// Waiting jobs as large as may be: their user is told the bound, and the next user's job is taken.
fn waiting_jobs_as_large_as_may_be(kind: Kind) {
    let host = shared(kind, &["access.max_jobs_size=8MiB"]);
    let before = peak_bytes(&host);
    let large = JobSpec { command: vec!["z".repeat(1000); 38], ..held() };
    let taken = speak_as(&host, ATTACKER, |mut wire| {
        for taken in 0.. {
            wire.send(&submit(1, large.clone()));
            match wire.hear() {
                Some(Reply::Queued { .. }) => {}
                Some(Reply::Refused { reason, code: ErrorCode::QueueFull, .. }) => {
                    assert!(reason.contains("access.max_jobs_size"), "{reason}");
                    return taken;
                }
                other => panic!("an answer to a submission, not {other:?}"),
            }
        }
        0
    });
    assert!((190..=230).contains(&taken), "{taken} were taken");
    let more = peak_bytes(&host).saturating_sub(before);
    assert!(more < MORE_BYTES, "it took {more} bytes");
    serves(&host);
    // They are gone with their connection, and so is what they counted.
    let again = speak_as(&host, ATTACKER, |mut wire| {
        eventually("there is room again", || {
            wire.send(&submit(1, large.clone()));
            match wire.hear() {
                Some(Reply::Queued { job, .. }) => Ok(job),
                other => Err(format!("{other:?}")),
            }
        })
    });
    assert!(again > taken);
}

pub(super) fn now_us() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock after 1970");
    u64::try_from(now.as_micros()).expect("a clock not far from now")
}

/// Gives a daemon's store so many jobs; the daemon dies before, and another one begins.
pub(super) fn store(host: &mut Host, jobs: u64, row: impl Fn(u64) -> JobRow) {
    host.crash();
    let mut store = Store::open(&host.state()).expect("the daemon's store").store;
    store.begin().expect("a transaction");
    for job in 1..=jobs {
        store.insert_job(&row(job)).expect("a job");
    }
    store.commit().expect("all is kept");
    drop(store);
    host.start_daemon();
}

/// No index finds the jobs of an earlier moment: the store is looked through, and others are answered meanwhile.
fn an_earlier_moment_of_many_jobs(kind: Kind) {
    let mut host = shared(kind, &[]);
    let at_us = now_us() - 3_600_000_000;
    store(&mut host, 20_000, |job| {
        let row = JobRow::asked_for(job, VICTIM, "nobody".to_owned(), spec(), at_us - 30_000_000 + job);
        let lasts = job % 9_000 == 1;
        row.ran_until(if lasts { at_us + job } else { at_us - job })
    });
    let mut wire = Wire::greeted(&host);
    let then = |jobs| Request::Status { jobs, all: false, at_us: Some(at_us) };
    wire.send_all(&[then(Vec::new()), Request::Where]);
    let first = wire.hear();
    assert!(matches!(first, Some(Reply::Where { .. })), "{first:?}");
    let Some(Reply::Status(view)) = wire.hear() else { panic!("the host as it was") };
    assert_eq!(view.jobs.iter().map(|job| job.job).collect::<Vec<_>>(), [1, 9_001, 18_001]);
    assert_eq!((view.slots.used, view.slots.waiting), (3, 0));
    // One that goes before it is answered leaves nothing behind.
    wire.send(&then(Vec::new()));
    drop(wire);
    let others = speak_as(&host, ATTACKER, |mut wire| {
        wire.send(&then(Vec::new()));
        wire.hear()
    });
    assert!(matches!(&others, Some(Reply::Status(view)) if view.jobs.is_empty()), "{others:?}");
}

/// What follows for its jobs is not all in one turn: others ask, and are answered in between.
fn a_client_goes_that_has_thousands_of_jobs(kind: Kind) {
    const JOBS: u32 = 2_000;
    let host = shared(kind, &[]);
    let mut root = Wire::greeted(&host);
    let (gone, first) = speak_as(&host, ATTACKER, |mut wire| {
        let first = array(&mut wire, JOBS);
        (wire, first)
    });
    let last = first + u64::from(JOBS) - 1;
    // It finds the end of that connection and the questions at the same moment, and hears some of them in a turn.
    host.hold_daemon();
    drop(gone);
    root.send_all(&vec![Request::Status { jobs: vec![first, last], all: false, at_us: None }; 60]);
    send(host.daemon_pid(), Signal::CONT);
    let seen = states_seen(&mut root, 60);
    assert!(
        seen.contains(&(JobState::Exited, JobState::Held)),
        "the last is left as the first is gone: {seen:?}"
    );
    host.until(last, JobState::Exited);
}

/// They are looked at in parts: others ask, and are answered in between. One that ends meanwhile is told as it ended.
fn thousands_of_jobs_are_named(kind: Kind) {
    const JOBS: u64 = 10_000;
    let mut host = shared(kind, &[]);
    let at_us = now_us() - 3_600_000_000;
    store(&mut host, JOBS, |job| {
        let user = if job == JOBS { VICTIM } else { ATTACKER };
        let row = JobRow::asked_for(job, user, "nobody".to_owned(), spec(), at_us + job);
        row.ran_until(at_us + 2 * job)
    });
    let all: Vec<u64> = (1..=JOBS).rev().collect();
    let numbers = |reports: &[ReportView]| reports.iter().map(|report| report.job).collect::<Vec<_>>();
    let mut wire = Wire::greeted(&host);
    for (request, backward) in [
        (Request::Wait { jobs: all.clone() }, true),
        (report(all.clone(), false), true),
        (reports_of(Select::Since(at_us), true, false), false),
    ] {
        wire.send_all(&[request, Request::Where]);
        let first = wire.hear();
        assert!(matches!(first, Some(Reply::Where { .. })), "{:.60}", format!("{first:?}"));
        let Some(Reply::Report(mut reports)) = wire.hear() else { panic!("reports of all") };
        if !backward {
            reports.reverse();
        }
        assert_eq!(numbers(&reports), all);
    }
    wire.send_all(&[report(all.clone(), true), Request::Where]);
    let first = wire.hear();
    assert!(matches!(first, Some(Reply::Where { .. })), "{:.60}", format!("{first:?}"));
    let mut told = Vec::new();
    loop {
        match wire.hear() {
            Some(Reply::Piece(wire::Piece::Jobs(reports))) => told.extend(numbers(&reports)),
            Some(Reply::Piece(wire::Piece::Last)) => break,
            other => panic!("{:.60}", format!("{other:?}")),
        }
    }
    assert_eq!(told, all);
    // Another user's job is told to nobody, wherever it is named, and one that goes before it is answered leaves nothing.
    speak_as(&host, ATTACKER, |mut wire| {
        let own_first: Vec<u64> = (1..=JOBS).collect();
        for request in [
            Request::Wait { jobs: own_first.clone() },
            report(own_first.clone(), false),
            report(own_first.clone(), true),
        ] {
            wire.send(&request);
            let answer = wire.hear();
            let is_denied = matches!(answer, Some(Reply::Error { code: ErrorCode::Permission, .. }));
            assert!(is_denied, "{:.60}", format!("{answer:?}"));
        }
        wire.send(&Request::Wait { jobs: own_first[..9_999].to_vec() });
    });
    ends_while_it_is_looked_at(&host, &all[1..]);
    serves(&host);
}

/// A job that ends while others are looked at is told once, in its place, as it ended.
fn ends_while_it_is_looked_at(host: &Host, over: &[u64]) {
    let mut keeper = Wire::greeted(host);
    keeper.send(&submit(1, held()));
    let Some(Reply::Queued { job, .. }) = keeper.hear() else { panic!("it is queued") };
    let mut wire = Wire::greeted(host);
    // The one that waits is named last, and is seen as it waits, or as it is over: both are right.
    let all = [over, &[job]].concat();
    host.hold_daemon();
    wire.send(&Request::Wait { jobs: all.clone() });
    keeper.send(&Request::Withdraw { job, reason: "it was a try".to_owned() });
    send(host.daemon_pid(), Signal::CONT);
    let Some(Reply::Report(reports)) = wire.hear() else { panic!("reports of all") };
    assert_eq!(reports.iter().map(|report| report.job).collect::<Vec<_>>(), all);
    let last = reports.last().expect("the last");
    assert_eq!((last.state, last.reason.as_deref()), (JobState::Exited, Some("it was a try")));
}
