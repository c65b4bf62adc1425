//! A rescue beside a daemon that lives, and one after a daemon that died.

use std::fs::File;

use pinfold_testkit::ignore;

use super::*;
use crate::kind::tests;
use crate::restart::guard_of;

tests! {
    Best: leaves_a_living_daemons_jobs_alone, leaves_unused_groups_of_another_user_to_root,
        a_users_lock_of_the_groups_is_no_mark;
}

/// Whether the kernel has frozen all of a job.
fn is_frozen(host: &Host) -> bool {
    host.job_groups().iter().any(|group| {
        let events = std::fs::read_to_string(group.join("cgroup.events"));
        events.is_ok_and(|events| events.contains("frozen 1"))
    })
}

/// A host of root's with a job of the victim's that the kernel has frozen.
fn with_frozen_job(kind: Kind) -> (Host, u64) {
    if kind != Kind::Groups {
        ignore!("without control groups no mark tells that a daemon lives");
    }
    let host = shared(kind, &["slots.factor=4"]);
    let job = victims_job(&host, &[], WAIT);
    assert_eq!(run_as(&host, VICTIM, &["suspend", &job.to_string()]).code, Some(0));
    host.until(job, JobState::Frozen);
    eventually("the kernel has frozen all of it", || if is_frozen(&host) { Ok(()) } else { Err("not yet") });
    (host, job)
}

fn rescued(host: &Host) -> serde_json::Value {
    let done = host.pinfold(["rescue", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.out).expect("JSON")
}

fn is_alive(host: &Host, said: &serde_json::Value) -> bool {
    said["alive"].as_array().expect("a list").iter().any(|name| *name == host.instance())
}

fn goes_on(host: &Host, job: u64) {
    host.make("go");
    assert_eq!(run_as(host, VICTIM, &["resume", &job.to_string()]).code, Some(0));
    host.until(job, JobState::Exited);
}

fn leaves_a_living_daemons_jobs_alone(kind: Kind) {
    // Jobs of other tests whose daemons are gone would be thawed by it.
    let _alone = crate::wait::rescue();
    let (host, job) = with_frozen_job(kind);
    // Root's own rescue, and that of a user who may write to no group.
    let done = host.pinfold(["rescue", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&done.out).expect("JSON");
    let instance = host.instance();
    assert!(is_alive(&host, &value), "{value}");
    assert!(done.err.contains(&format!("rescue --force {instance}")), "{done:?}");
    assert!(!value["rescued"].to_string().contains(&instance), "{value}");
    let done = run_as(&host, ATTACKER, &["rescue"]);
    assert!(done.err.contains(&format!("instance {instance} lives")), "{done:?}");
    assert!(done.err.contains("only its user and root may let go of that"), "{done:?}");
    let done = run_as(&host, ATTACKER, &["rescue", "--force", &instance]);
    // With groups there are some that it may not write to.
    assert!(host.groups().is_empty() || done.err.contains("could not be let go"), "{done:?}");
    assert!(is_frozen(&host), "it stays as its user wanted it");
    goes_on(&host, job);
}

/// They hold nobody, and a user's rescue is none the worse for them.
fn leaves_unused_groups_of_another_user_to_root(kind: Kind) {
    if kind != Kind::Groups {
        ignore!("without control groups none are left");
    }
    let _alone = crate::wait::rescue();
    let mut host = shared(kind, &[]);
    host.succeeds(["run", "true"]);
    let (instance, guard) = (host.instance(), guard_of(&host));
    host.crash();
    // As long as its guard is there, so is its mark.
    let guard_ended = || status_field(guard, "State").is_none_or(|state| state.starts_with('Z'));
    eventually("its guard has ended", || guard_ended().then_some(()).ok_or(guard));
    assert!(!host.groups().is_empty(), "they are left to the next daemon");
    let done = run_as(&host, ATTACKER, &["rescue"]);
    assert!(!done.out.contains(&instance) && !host.groups().is_empty(), "{done:?}");
    eventually("root removes them", || {
        let done = host.pinfold(["rescue"]);
        if host.groups().is_empty() { Ok(()) } else { Err(format!("{done:?}")) }
    });
    host.start_daemon();
}

/// The attacker locks the directories of the instance's groups, as every user can.
fn locked(host: &Host, lock: fn(&File) -> std::io::Result<()>) -> Vec<File> {
    let groups = host.groups();
    assert!(!groups.is_empty(), "there are groups");
    let lock_all = || {
        let user = rustix::process::Uid::from_raw(ATTACKER);
        rustix::thread::set_thread_res_uid(user, user, user).expect("root may become anybody");
        let opened = groups.iter().map(|group| File::open(group).expect("every user may read it"));
        opened.inspect(|group| lock(group).expect("locked")).collect()
    };
    std::thread::scope(|scope| scope.spawn(lock_all).join().expect("all are locked"))
}

fn a_users_lock_of_the_groups_is_no_mark(kind: Kind) {
    let _alone = crate::wait::rescue();
    let (mut host, job) = with_frozen_job(kind);
    send(guard_of(&host), Signal::KILL);
    host.crash();
    let held = locked(&host, File::lock_shared);
    let value = rescued(&host);
    assert!(!is_alive(&host, &value), "nobody holds it back for a dead daemon: {value}");
    eventually("it is thawed", || if is_frozen(&host) { Err("frozen") } else { Ok(()) });
    drop(held);
    let alone = locked(&host, File::lock);
    host.start_daemon();
    // It is suspended still, as its user wanted it.
    host.until(job, JobState::Frozen);
    let value = rescued(&host);
    assert!(is_alive(&host, &value), "nobody keeps a daemon from its mark: {value}");
    assert!(!value["rescued"].to_string().contains(&host.instance()), "{value}");
    drop(alone);
    goes_on(&host, job);
}
