//! Processes that somebody else started become jobs: here they are children of the test, which is told how they ended
//! whatever pinfold knows of it.

use std::path::PathBuf;
use std::process::Stdio;

use pinfold_proto::JobState;
use pinfold_testkit::ignore;
use rustix::process::Signal;

use crate::host::{Host, send, status_field};
use crate::kind::{Kind, become_nobody, tests};
use crate::process::{Done, Running};
use crate::users::{as_nobody, shared_in};
use crate::wait::{eventually, looked_at, no_rescue};

tests! {
    Each: what_runs_becomes_a_job, it_waits_for_its_turn, what_may_not_be_adopted,
        a_part_of_a_job_is_no_job_whatever_its_environment_says, it_outlives_the_daemon;
    Best: what_only_a_start_can_give, all_of_a_control_group;
    Once: of_another_user;
}

/// Two processes, one of which descends from the other and ends with it.
const TWO: &str =
    "sleep 1000 & child=$!; echo $child >child; until [ -e go ]; do sleep 0.05; done; kill $child; exit 3";

/// A script that runs outside of pinfold.
fn outside(host: &Host, script: &str) -> Running {
    let mut command = host.command("/bin/sh");
    command.args(["-c", script]).stdin(Stdio::null());
    host.spawn(command)
}

fn adopt(host: &Host, pid: u32, options: &[&str]) -> Done {
    let pid = pid.to_string();
    looked_at(|| host.pinfold([&["--no-autostart", "adopt", "--pid", &pid], options].concat()))
}

#[track_caller]
fn adopted(done: &Done) -> u64 {
    assert_eq!(done.code, Some(0), "{done:?}");
    done.out.trim().parse().unwrap_or_else(|_| panic!("the job's number: {done:?}"))
}

fn is_stopped(host: &Host, pid: u32) -> bool {
    let frozen = |group: PathBuf| {
        let read = |file: &str| std::fs::read_to_string(group.join(file)).unwrap_or_default();
        read("cgroup.events").contains("frozen 1") || read("freezer.state").trim() == "FROZEN"
    };
    host.job_groups().into_iter().any(frozen)
        || status_field(pid, "State").is_some_and(|state| state.starts_with('T'))
}

/// The number that a script wrote, once it did.
fn number_in(host: &Host, file: &str) -> u32 {
    eventually(&format!("{file} has a number"), || {
        let text = host.wrote(file);
        text.strip_suffix('\n').and_then(|text| text.parse().ok()).ok_or(text)
    })
}

/// A process of a job that has lost its variables would count twice, and its own job with the one around it.
fn a_part_of_a_job_is_no_job_whatever_its_environment_says(kind: Kind) {
    let host = Host::new(kind);
    let job = host
        .submit(&[], "env -i /bin/sleep 1000 & echo $! >bare; until [ -e go ]; do sleep 0.05; done; kill $!");
    let bare = number_in(&host, "bare");
    eventually("it has lost its variables", || {
        let environ = std::fs::read(format!("/proc/{bare}/environ")).unwrap_or_default();
        if environ.is_empty() { Ok(()) } else { Err("it has them") }
    });
    let done = adopt(&host, bare, &[]);
    assert!(done.code == Some(5) && done.err.contains(&format!("is part of job {job} already")), "{done:?}");
    host.make("go");
    host.until(job, JobState::Exited);
}

fn what_runs_becomes_a_job(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::new(kind);
    let running = outside(&host, TWO);
    let child = number_in(&host, "child");
    let job = adopted(&adopt(&host, running.pid(), &["--name", "found", "--mem", "64MiB"]));
    let view = host.until(job, JobState::Running);
    assert_eq!((view.name.as_str(), view.exit_code), ("found", None));
    for pid in [running.pid(), child] {
        assert!(view.pids.contains(&pid), "{pid}: {view:?}");
    }
    let why = host.pinfold(["why", &job.to_string()]);
    assert!(why.out.contains(&format!("process {}", running.pid())), "{why:?}");
    host.succeeds(["suspend", &job.to_string()]);
    host.until(job, JobState::Frozen);
    eventually("it is stopped", || if is_stopped(&host, child) { Ok(()) } else { Err("it runs") });
    host.succeeds(["resume", &job.to_string()]);
    host.until(job, JobState::Running);
    host.make("go");
    assert_eq!(running.wait().code, Some(3), "its parent is told");
    let view = host.until(job, JobState::Exited);
    let report = host.report(job);
    // Where the kernel tells of each process that ends. On a busy host it drops some: this one, or another.
    let told = match report.processes_from.as_deref() {
        Some("gaps") => view.exit_code.is_some(),
        from => matches!(from, Some("records" | "events")),
    };
    assert_eq!(view.exit_code, told.then_some(3), "{view:?}");
    let unknown = view.reason.as_deref().is_some_and(|reason| reason.contains("how is not known"));
    assert_eq!(unknown, !told, "{view:?}");
    assert!(report.command.first().is_some_and(|word| word.ends_with("sh")), "{report:?}");
    assert!(report.processes_total >= 2 && report.memory_peak_bytes > 0, "{report:?}");
}

fn it_waits_for_its_turn(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let first = host.submit(&[], "until [ -e first ]; do sleep 0.05; done");
    host.until(first, JobState::Running);
    let wait = "until [ -e go ]; do sleep 0.05; done; exit 4";
    let (ends, stays, turn) = (
        outside(&host, "until [ -e early ]; do sleep 0.05; done; exit 5"),
        outside(&host, wait),
        outside(&host, wait),
    );
    let jobs: Vec<u64> =
        [&ends, &stays, &turn].map(|one| adopted(&adopt(&host, one.pid(), &[]))).into_iter().collect();
    for &job in &jobs {
        assert_eq!(host.job(job).state, JobState::Queued);
    }
    let why = host.pinfold(["why", &jobs[1].to_string()]);
    assert!(why.out.contains("runs on outside"), "{why:?}");
    host.make("early");
    assert_eq!(ends.wait().code, Some(5), "it ran on");
    let view = host.until(jobs[0], JobState::Exited);
    assert_eq!((view.started_s, view.exit_code), (None, None));
    assert!(view.reason.is_some_and(|reason| reason.contains("before its turn")));
    assert_eq!(host.pinfold(["cancel", &jobs[1].to_string()]).code, Some(0));
    host.until(jobs[1], JobState::Exited);
    assert!(status_field(stays.pid(), "State").is_some_and(|state| !state.starts_with('Z')), "it runs on");
    host.make("first");
    host.until(jobs[2], JobState::Running);
    host.make("go");
    assert_eq!((stays.wait().code, turn.wait().code), (Some(4), Some(4)));
    host.until(jobs[2], JobState::Exited);
}

fn what_may_not_be_adopted(kind: Kind) {
    let host = Host::new(kind);
    let refused = |pid: u32, code: i32, words: &str| {
        let done = adopt(&host, pid, &[]);
        assert_eq!(done.code, Some(code), "{pid}: {done:?}");
        assert!(done.err.contains(words) && done.err.contains(&pid.to_string()), "{words}: {done:?}");
    };
    refused(1, 5, "is the first");
    refused(host.daemon_pid(), 5, "daemon of pinfold's");
    let gone = outside(&host, "exit 0");
    let pid = gone.pid();
    gone.wait();
    refused(pid, 1, "there is no process");
    let keeper =
        host.start(["run", "--", "/bin/sh", "-c", "echo $$ >main; until [ -e go ]; do sleep 0.05; done"]);
    let main = number_in(&host, "main");
    refused(keeper.pid(), 5, "keeps jobs");
    refused(main, 5, "is part of job 1 already");
    let running = outside(&host, TWO);
    let child = number_in(&host, "child");
    let job = adopted(&adopt(&host, child, &["--hold"]));
    refused(child, 5, &format!("is part of job {job} already"));
    let whole = adopt(&host, running.pid(), &[]);
    assert!(whole.code == Some(5) && whole.err.contains(&format!("part of job {job}")), "{whole:?}");
    host.succeeds(["release", &job.to_string()]);
    host.until(job, JobState::Running);
    refused(child, 5, &format!("is part of job {job} already"));
    host.make("go");
    assert_eq!((keeper.wait().code, running.wait().code), (Some(0), Some(3)));
    host.until(job, JobState::Exited);
    if kind != Kind::Nobody {
        ignore!("to root no process is another user's; see `of_another_user`");
    }
    let mut foreign = std::process::Command::new("/bin/sleep");
    let foreign = crate::process::Killed(foreign.arg("1000").spawn().expect("it starts"));
    refused(foreign.0.id(), 3, "another user");
}

fn what_only_a_start_can_give(kind: Kind) {
    let host = Host::new(kind);
    let running = outside(&host, "until [ -e go ]; do sleep 0.05; done");
    for (options, word) in [
        (&["--tmp", "1MiB"][..], "--tmp"),
        (&["--disk", "1MiB"], "--disk"),
        (&["--private-tmp"], "--private-tmp"),
        (&["--no-network"], "--no-network"),
        (&["--requeue"], "--requeue"),
        (&["--checkpoint", "true"], "--checkpoint"),
        (&["--isolated"], "--isolated"),
        (&["-n", "2"], "--ntasks"),
        (&["--cgroup", "/x"], "--cgroup"),
    ] {
        let done = adopt(&host, running.pid(), options);
        assert!(done.code == Some(2) && done.err.contains(word), "{options:?}: {done:?}");
    }
    assert_eq!(host.pinfold(["adopt"]).code, Some(2));
    let done = host.pinfold(["adopt", "--cgroup", "/no/such/group"]);
    assert!(done.code == Some(2) && done.err.contains("/no/such/group"), "{done:?}");
    assert_eq!(host.status(&[]).jobs.len(), 0);
    let done = adopt(&host, running.pid(), &["--json"]);
    let told: serde_json::Value = serde_json::from_str(&done.out).unwrap_or_else(|_| panic!("{done:?}"));
    let job = told["job"].as_u64().expect("a number");
    assert_eq!(
        (told["version"].as_u64(), told["processes"].as_u64().map(|count| count > 0)),
        (Some(1), Some(true))
    );
    host.until(job, JobState::Running);
    // It does not heed that at once, as it sleeps in between.
    host.succeeds(["cancel", &job.to_string()]);
    assert_eq!(running.wait().code, None, "a signal ended it");
    host.until(job, JobState::Exited);
}

fn it_outlives_the_daemon(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = Host::new(kind);
    let running = outside(&host, TWO);
    let child = number_in(&host, "child");
    let waiting = outside(&host, "until [ -e go ]; do sleep 0.05; done; exit 4");
    let job = adopted(&adopt(&host, running.pid(), &[]));
    let held = adopted(&adopt(&host, waiting.pid(), &["--hold"]));
    host.until(job, JobState::Running);
    host.succeeds(["suspend", &job.to_string()]);
    host.until(job, JobState::Frozen);
    eventually("it is stopped", || if is_stopped(&host, child) { Ok(()) } else { Err("it runs") });
    host.crash();
    let free = || {
        if is_stopped(&host, child) || is_stopped(&host, running.pid()) { Err("it stands") } else { Ok(()) }
    };
    eventually("the guard lets it go", free);
    host.start_daemon();
    let view = host.until(job, JobState::Frozen);
    host.succeeds(["resume", &job.to_string()]);
    host.until(job, JobState::Running);
    assert!(view.pids.contains(&child) && view.pids.contains(&running.pid()), "{view:?}");
    assert_eq!(host.job(held).state, JobState::Held);
    host.succeeds(["release", &held.to_string()]);
    host.until(held, JobState::Running);
    host.make("go");
    assert_eq!((running.wait().code, waiting.wait().code), (Some(3), Some(4)));
    host.until(job, JobState::Exited);
    host.until(held, JobState::Exited);
    // One whose end nobody saw is over when the next daemon looks.
    let third = outside(&host, "until [ -e later ]; do sleep 0.05; done; exit 6");
    let job = adopted(&adopt(&host, third.pid(), &[]));
    host.until(job, JobState::Running);
    host.crash();
    host.make("later");
    third.wait().ended_with(6);
    host.start_daemon();
    let view = host.until(job, JobState::Exited);
    assert_eq!((view.exit_code, view.signal), (None, None), "{view:?}");
}

/// A group of a test's own, gone with it.
struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn all_of_a_control_group(kind: Kind) {
    let facts = pinfold_sys::mode::probe(&pinfold_sys::mode::Roots::default());
    let writable = facts
        .hierarchies
        .iter()
        .find(|one| one.writable && one.controllers.iter().all(|name| name != "cpuset"));
    let Some(hierarchy) = writable.filter(|_| kind != Kind::Nobody) else {
        ignore!("no control group can be made here");
    };
    let host = Host::new(kind);
    let name = format!("adopts-{}", host.instance());
    let path = hierarchy.base_path().join(&name);
    let inside = format!("mkdir {0} && echo $$ >{0}/cgroup.procs || exit 99; {TWO}", path.display());
    let _group = Made(path.clone());
    let running = outside(&host, &inside);
    let child = number_in(&host, "child");
    let directory = path.display().to_string();
    let job = adopted(&looked_at(|| host.pinfold(["adopt", "--cgroup", &directory])));
    let view = host.until(job, JobState::Running);
    assert!(view.pids.contains(&child) && view.pids.contains(&running.pid()), "{view:?}");
    if kind == Kind::Groups {
        let left = std::fs::read_to_string(path.join("cgroup.procs")).expect("the group");
        assert!(!left.lines().any(|pid| pid == child.to_string()), "it has left: {left}");
    }
    host.make("go");
    running.wait().ended_with(3);
    host.until(job, JobState::Exited);
    let empty = host.pinfold(["adopt", "--cgroup", &directory]);
    assert!(empty.code == Some(1) && empty.err.contains("no process"), "{empty:?}");
    eventually("the group goes", || std::fs::remove_dir(&path));
}

/// One's own only, but for operators; and whose the processes are, that one's the job is.
fn of_another_user() {
    let host = shared_in(Kind::Rootless, &[]);
    let roots = outside(&host, "until [ -e go ]; do sleep 0.05; done");
    let done = looked_at(|| as_nobody(&host, &["adopt", "--pid", &roots.pid().to_string()]));
    assert!(done.code == Some(3) && done.err.contains("another user"), "{done:?}");
    let mut command = host.command("/bin/sleep");
    command.arg("1000").stdin(Stdio::null()).current_dir("/");
    become_nobody(&mut command);
    let nobodys = host.spawn(command);
    let job = adopted(&adopt(&host, nobodys.pid(), &[]));
    host.until(job, JobState::Running);
    let done = as_nobody(&host, &["cancel", &job.to_string()]);
    assert_eq!(done.code, Some(0), "it is its own: {done:?}");
    assert_eq!(nobodys.wait().code, None);
    let view = host.until(job, JobState::Exited);
    assert_ne!(view.user, "root");
    let audit = host.pinfold(["audit"]);
    assert!(audit.out.contains("adopt"), "{audit:?}");
    send(roots.pid(), Signal::KILL);
    roots.wait();
}
