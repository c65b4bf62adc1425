//! Reservations: a user without rights takes no cores that others use or wait for, and none for ever.

use pinfold_proto::JobLayout;
use pinfold_proto::view::{SetAsideView, SetsView};
use pinfold_proto::wire::SetAside;
use pinfold_testkit::ignore;

use super::*;
use crate::kind::tests;
use crate::tasks::two_cores;

tests! {
    Best: a_user_reserves_nothing_but_idle_cores, idle_cores_are_given_back_though_a_held_job_names_them,
        a_set_in_use_is_written_once, nobody_reserves_what_others_wait_for,
        a_set_that_went_leaves_its_name_to_nobody, reservations_of_an_earlier_daemon_have_bounds,
        isolated_jobs_keep_within_the_share;
}

/// An operator's choice: every user may have idle cores.
const EXCLUSIVE: &[&str] = &["access.exclusive=*"];

fn sets(host: &Host) -> Vec<SetAsideView> {
    let done = host.pinfold(["sets", "--json"]);
    serde_json::from_str::<SetsView>(&done.out).expect("one JSON object").sets
}

fn idle(cores: u32, hold_us: u64) -> SetAside {
    SetAside { cores: Some(cores), hold_us: Some(hold_us), ..SetAside::default() }
}

fn ask(host: &Host, user: u32, asked: SetAside) -> Reply {
    speak_as(host, user, |mut wire| {
        wire.send(&Request::SetAside(asked));
        wire.hear().expect("an answer")
    })
}

fn made(reply: Reply) -> String {
    match reply {
        Reply::SetMade { name: Some(name), .. } => name,
        other => panic!("a set, not {other:?}"),
    }
}

/// A job's spec that names a set.
fn named(set: &str, held: bool) -> Box<JobSpec> {
    let layout = JobLayout { set: Some(set.to_owned()), ..JobLayout::default() };
    Box::new(JobSpec { held, layout: Some(layout), ..spec() })
}

fn none_left(host: &Host) {
    eventually("all sets went", || match sets(host) {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    });
}

/// Named PUs, memory, long holds and more are an operator's to ask for, on an idle host too.
fn a_user_reserves_nothing_but_idle_cores(kind: Kind) {
    let mut host = shared(kind, EXCLUSIVE);
    let [_, second] = two_cores(&host);
    let minutes = 60_000_000;
    let refused = [
        SetAside { cores: None, cpus: Some(second.to_string()), ..idle(1, minutes) },
        SetAside { cores: None, cpus: Some(second.to_string()), ..idle(1, u64::MAX) },
        SetAside { memory_bytes: Some(1 << 20), ..idle(1, minutes) },
        SetAside { memory_bytes: Some(u64::MAX), ..idle(1, minutes) },
        SetAside { shared: true, ..idle(1, minutes) },
        SetAside { housekeeping: true, ..idle(1, minutes) },
        SetAside { users: vec!["root".to_owned(); 10_000], ..idle(1, minutes) },
        SetAside { name: Some("mine".to_owned()), ..idle(1, minutes) },
        idle(1, u64::MAX),
        idle(1, 600_000_001),
    ];
    for asked in refused {
        let reply = ask(&host, ATTACKER, asked.clone());
        // So many names are refused before it is looked at who asks.
        let (many, Reply::Error { code, message }) = (asked.users.len() > 256, reply) else {
            panic!("it is refused");
        };
        assert_eq!(code, if many { ErrorCode::Usage } else { ErrorCode::Permission }, "{message}");
    }
    assert_eq!(sets(&host), []);
    // Cores that jobs are on are not idle.
    let cores = host.status(&[]).slots.cores;
    let busy: Vec<u64> = (0..cores).map(|_| victims_job(&host, &[], WAIT)).collect();
    assert_eq!(ask(&host, ATTACKER, idle(1, minutes)), Reply::SetMade { name: None, never: None });
    let before: Vec<_> = busy.iter().map(|&job| host.job(job).cpus).collect();
    host.crash();
    host.start_daemon();
    assert_eq!(sets(&host), []);
    let after: Vec<_> = busy.iter().map(|&job| host.until(job, JobState::Running).cpus).collect();
    assert_eq!(before, after);
    host.make("go");
    busy.into_iter().for_each(|job| host.until_exit_code(job, 0));
    // What the documents promise to users works.
    let done = run_as(&host, ATTACKER, &["set-aside", "--idle", "--cores", "1", "--hold", "10m"]);
    assert_eq!((done.code, done.out.trim()), (Some(0), "idle-1"), "{done:?}");
    let script = "echo $PINFOLD_JOB_ID; exit 4";
    let inside = run_as(&host, ATTACKER, &["run", "--in", "idle-1", "--", "/bin/sh", "-c", script]);
    assert_eq!(inside.code, Some(4), "{inside:?}");
    let elsewhere = run_as(&host, VICTIM, &["run", "--in", "idle-1", "--", "true"]);
    assert_eq!(elsewhere.code, Some(3), "{elsewhere:?}");
    // Its job keeps the set until it is over.
    host.until(inside.out.trim().parse().expect("its number"), JobState::Exited);
    assert_eq!(run_as(&host, ATTACKER, &["set-aside", "idle-1", "--remove"]).code, Some(0));
}

fn idle_cores_are_given_back_though_a_held_job_names_them(kind: Kind) {
    let host = shared(kind, EXCLUSIVE);
    two_cores(&host);
    let cores = host.status(&[]).slots.cores;
    let _wire = speak_as(&host, ATTACKER, |mut wire| {
        let held = Request::Submit { ticket: 1, spec: named("idle-1", true), pid: None };
        // In one turn, so that the set is there for all of them.
        wire.send_all(&[Request::SetAside(idle(1, 1_000_000)), held, Request::SetAside(idle(1, 1))]);
        assert_eq!(made(wire.hear().expect("an answer")), "idle-1");
        assert!(matches!(wire.hear(), Some(Reply::Queued { .. })));
        let more = wire.hear();
        // On a host of two cores one is all that a user may have.
        if cores < 4 {
            assert!(
                matches!(more, Some(Reply::SetMade { name: None, .. } | Reply::Error { .. })),
                "{more:?}"
            );
        }
        wire
    });
    none_left(&host);
}

/// Whatever the hold time of a set is, a job in it does not have the daemon write it again and again.
fn a_set_in_use_is_written_once(kind: Kind) {
    let host = shared(kind, EXCLUSIVE);
    two_cores(&host);
    let mut child = Command::new("/bin/sleep");
    child.arg("3600").uid(ATTACKER).gid(ATTACKER).stdin(Stdio::null());
    let child = Killed(child.spawn().expect("a process"));
    let mut wire = speak_as(&host, ATTACKER, |mut wire| {
        // The first waits for a child that does not come; then the set is in use all the same. The slot goes to the
        // other one after a while, which has a child.
        let job = |pid| Request::Submit { ticket: 1, spec: named("idle-1", false), pid };
        wire.send_all(&[Request::SetAside(idle(1, 0)), job(None), job(Some(child.0.id()))]);
        assert_eq!(made(wire.hear().expect("an answer")), "idle-1");
        let is_queued = |reply: &Reply| matches!(reply, Reply::Queued { .. });
        assert_eq!(std::iter::from_fn(|| wire.hear()).filter(is_queued).take(2).count(), 2);
        wire
    });
    use std::os::unix::fs::MetadataExt as _;
    let file = host.state().join("sets.json");
    let written = || {
        let found = std::fs::metadata(&file).expect("there is a set");
        (found.ino(), found.mtime(), found.mtime_nsec())
    };
    let first = written();
    // The daemon was idle and busy for a while.
    (0..40).for_each(|_| serves(&host));
    assert_eq!(sets(&host).len(), 1);
    assert_eq!(written(), first);
    let enough = |&job: &u64| Request::Withdraw { job, reason: "enough".to_owned() };
    wire.send_all(&sets(&host)[0].jobs.iter().map(enough).collect::<Vec<_>>());
    drop(child);
    none_left(&host);
}

fn nobody_reserves_what_others_wait_for(kind: Kind) {
    let host = shared(kind, &["slots.factor=1", EXCLUSIVE[0]]);
    let [first, _] = two_cores(&host);
    let cores = host.status(&[]).slots.cores;
    let running = victims_job(&host, &[], WAIT);
    // One that needs all cores waits for the one that runs; the others are idle meanwhile.
    let all = cores.to_string();
    let wide = ["submit", "-o", "/dev/null", "-e", "/dev/null", "--cores", &all, "--", "true"];
    let wide = run_as(&host, VICTIM, &wide);
    assert_eq!(wide.code, Some(0), "{wide:?}");
    let wide: u64 = wide.out.trim().parse().expect("a number");
    for _ in 0..3 {
        assert_eq!(ask(&host, ATTACKER, idle(1, 600_000_000)), Reply::SetMade { name: None, never: None });
    }
    assert_eq!(sets(&host), [], "PU {first} and the others are for who waits");
    host.make("go");
    host.until_exit_code(running, 0);
    host.until_exit_code(wide, 0);
}

/// A job that waits for a set which went does not come into the next one, which is another user's.
fn a_set_that_went_leaves_its_name_to_nobody(kind: Kind) {
    let host = shared(kind, EXCLUSIVE);
    two_cores(&host);
    let _wire = speak_as(&host, ATTACKER, |mut wire| {
        let held = Request::Submit { ticket: 1, spec: named("idle-1", true), pid: None };
        wire.send_all(&[Request::SetAside(idle(1, 1)), held]);
        assert_eq!(made(wire.hear().expect("an answer")), "idle-1");
        wire.hear();
        wire
    });
    none_left(&host);
    assert_eq!(made(ask(&host, VICTIM, idle(1, 600_000_000))), "idle-2");
}

/// Sets that were made for ever before there were bounds go as others do.
fn reservations_of_an_earlier_daemon_have_bounds(kind: Kind) {
    let mut host = shared(kind, EXCLUSIVE);
    let [_, second] = two_cores(&host);
    assert_eq!(host.stop(), Some(0));
    let text = format!(
        r#"[{{"name":"idle-1","kind":"idle","cpus":"{second}","memory_bytes":1048576,"shared":false,"users":[],
            "owner_uid":{ATTACKER},"made_us":1,"hold_us":{},"used_us":1}}]"#,
        u64::MAX
    );
    std::fs::write(host.state().join("sets.json"), text).expect("a state directory");
    host.start_daemon();
    none_left(&host);
}

/// However many isolated jobs a user asks for, others keep their share of the cores.
fn isolated_jobs_keep_within_the_share(kind: Kind) {
    let host = shared(kind, &["slots.factor=4", "access.exclusive=*"]);
    let cores = host.status(&[]).slots.cores;
    if cores < 2 {
        ignore!("one core is no one's alone");
    }
    let job = victims_job(&host, &[], WAIT);
    let mut wire = speak_as(&host, ATTACKER, |wire| wire);
    // Their children do not come, so that each loses its turn after a while; more are asked for then.
    eventually("the user has the share", || {
        for ticket in 0..2 * cores {
            let layout = Some(JobLayout { isolated: true, ..JobLayout::default() });
            wire.send(&Request::Submit { ticket, spec: Box::new(JobSpec { layout, ..spec() }), pid: None });
        }
        (0..2 * cores).for_each(|_| drop(wire.hear().expect("an answer")));
        let taken: u64 = sets(&host).iter().map(|set| set.cores).sum();
        assert!(taken <= cores / 2, "{taken} of {cores} cores");
        if taken == cores / 2 { Ok(()) } else { Err(taken) }
    });
    assert_eq!(host.job(job).state, JobState::Running);
    host.make("go");
    host.until_exit_code(job, 0);
}
