//! What a user can learn of another's jobs on a shared daemon: nothing but that the host is busy. One test a way in.
//! Needs root, who can be two users.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use pinfold_proto::JobState;
use pinfold_testkit::free_address;
use serde_json::Value;

use crate::host::Host;
use crate::kind::{become_nobody, tests};
use crate::process::Done;
use crate::users::{as_nobody, shared};
use crate::wait::eventually;

/// What stands in the name, the command and the project of root's jobs.
const SECRET: &str = "s3cr3t";

/// A shared daemon with a job of root's that is over and one that runs.
fn with_jobs(settings: &[&str]) -> (Host, u64, u64) {
    let host = shared(&[&["profile.interval=50ms", "profile.files=on", "slots.factor=4"], settings].concat());
    let options = ["--name", SECRET, "--project", SECRET];
    let script = format!("exec 5>{SECRET}-$PINFOLD_JOB_ID; until [ -e {SECRET}-go ]; do sleep 0.05; done");
    let over = host.submit(&options, "exit 3");
    host.until(over, JobState::Exited);
    let running = host.submit(&options, &script);
    host.until(running, JobState::Running);
    eventually("it was sampled", || {
        let report = host.report(running);
        if report.samples > 1 { Ok(()) } else { Err(format!("{report:?}")) }
    });
    (host, over, running)
}

fn end(host: &Host, running: u64) {
    host.make(&format!("{SECRET}-go"));
    host.until(running, JobState::Exited);
}

#[track_caller]
fn says_nothing(done: &Done, arguments: &[&str]) {
    assert!(!done.out.contains(SECRET) && !done.err.contains(SECRET), "{arguments:?}: {done:?}");
}

/// Asks as nobody for each job and expects a refusal that says nothing.
fn refused(arguments: &[&str]) {
    let (host, over, running) = with_jobs(&[]);
    for job in [over, running] {
        let job = job.to_string();
        let arguments = [arguments, &[job.as_str()]].concat();
        let done = as_nobody(&host, &arguments);
        assert_eq!(done.code, Some(3), "{arguments:?}: {done:?}");
        says_nothing(&done, &arguments);
        assert_eq!(done.out, "", "{arguments:?}");
        let own = host.pinfold(&arguments);
        assert_eq!(own.code, Some(0), "root sees it: {arguments:?}: {own:?}");
    }
    end(&host, running);
}

fn report() {
    refused(&["report", "--json", "--processes", "--threads", "--files", "--series"]);
}

fn report_as_text() {
    refused(&["report"]);
}

fn export_of_one() {
    refused(&["export", "--format", "jsonl", "--what", "samples"]);
}

fn plot() {
    refused(&["plot"]);
}

fn why() {
    refused(&["why", "--json"]);
}

fn status_of_one() {
    refused(&["status", "--json"]);
}

fn processes_of_one() {
    let (host, _, running) = with_jobs(&[]);
    let job = running.to_string();
    let arguments = ["ps", "--json", job.as_str()];
    let done = as_nobody(&host, &arguments);
    assert_eq!(done.code, Some(3), "{done:?}");
    says_nothing(&done, &arguments);
    end(&host, running);
}

/// Ways that name no job give what is one's own, which is nothing, and exit as they do for a user without jobs.
fn ways_that_name_no_job() {
    let (host, _, running) = with_jobs(&[]);
    let now = format!("@{}", host.job(running).seen_s.expect("it was seen"));
    let ways: [&[&str]; 15] = [
        &["report", "--json", "--last", "9"],
        &["report", "--json", "--since", "1h", "--processes", "--files", "--series"],
        &["report", "--since", "1h", "--by", "user"],
        &["export", "--what", "jobs", "--since", "1h"],
        &["export", "--what", "processes", "--since", "1h"],
        &["plot", "--last", "9"],
        &["status", "--all", "--json"],
        &["top", "--once"],
        &["top", "--json"],
        &["top", "--json", "--at", &now],
        &["map"],
        &["map", "--json"],
        &["ps", "--json"],
        &["advise"],
        &["advise", "--json"],
    ];
    for arguments in ways {
        let done = as_nobody(&host, arguments);
        assert_ne!(done.code, Some(2), "it is a way: {arguments:?}: {done:?}");
        says_nothing(&done, arguments);
        let root = host.pinfold(arguments);
        assert_eq!(root.code, Some(0), "{arguments:?}: {root:?}");
    }
    // A class of another's jobs is as if it were not there.
    let [theirs, none] = [SECRET, "nonesuch"].map(|name| as_nobody(&host, &["plot", "--class", name]));
    assert_eq!((theirs.code, theirs.err), (none.code, none.err.replace("nonesuch", SECRET)));
    end(&host, running);
}

/// All jobs are for operators, by whatever way they are asked for.
fn all_jobs() {
    let (host, _, running) = with_jobs(&[]);
    for arguments in [
        &["report", "--all", "--json", "--last", "9"][..],
        &["export", "--all", "--what", "jobs", "--since", "1h"],
        &["audit"],
        &["config", "history"],
        &["advise", "--all"],
    ] {
        let done = as_nobody(&host, arguments);
        assert_eq!(done.code, Some(3), "{arguments:?}: {done:?}");
        says_nothing(&done, arguments);
    }
    end(&host, running);
}

/// The kernel shows command lines to everybody; to whom a process belongs among jobs it does not.
fn processes_of_the_host() {
    let (host, _, running) = with_jobs(&[]);
    let pids = host.job(running).pids;
    let done = as_nobody(&host, &["ps", "--all", "--json"]);
    let view: Value = serde_json::from_str(&done.out).expect("JSON");
    let all = view["processes"].as_array().expect("a list");
    let of_job = |process: &&Value| pids.iter().any(|pid| process["pid"] == *pid);
    for process in all.iter().filter(of_job) {
        assert!(process["job"].is_null(), "{process}");
    }
    end(&host, running);
}

/// The files of the daemon are its own: store, log, audit, socket directory's other files.
fn files_of_the_daemon() {
    let (host, _, running) = with_jobs(&["profile.store_max=1GiB"]);
    let state = host.state().display().to_string();
    let script = format!("ls {state} && cat {state}/*");
    let mut command = host.command("/bin/sh");
    command.args(["-c", &script]).stdin(Stdio::null()).current_dir("/");
    become_nobody(&mut command);
    let done = host.spawn(command).wait();
    assert_ne!(done.code, Some(0), "{done:?}");
    assert_eq!(done.out, "", "{done:?}");
    for arguments in [&["check"][..], &["backup", "/tmp/pinfold-backup-of-nobodys"]] {
        let done = as_nobody(&host, arguments);
        assert!(matches!(done.code, Some(1 | 3)), "{arguments:?}: {done:?}");
        says_nothing(&done, arguments);
    }
    end(&host, running);
}

/// Figures for a monitoring system: jobs are told of to those who may see them, and to users that are named.
fn metrics() {
    let (host, _, running) = with_jobs(&[]);
    // Somebody else may have taken it since it was found to be free.
    let address = eventually("an address is free", || {
        let address = free_address();
        let set = host.pinfold(["config", "set", &format!("profile.metrics={address}")]);
        if set.code == Some(0) { Ok(address) } else { Err(format!("{set:?}")) }
    });
    let as_root = eventually("it is served", || scrape(&address, false).ok_or("no answer"));
    assert!(as_root.contains(SECRET), "{as_root}");
    let seen = eventually("the host's figures are for all", || scrape(&address, true).ok_or("no answer"));
    assert!(!seen.contains(SECRET) && !seen.contains("pinfold_job_info{"), "{seen}");
    assert!(seen.contains("pinfold_jobs{state=\"running\"} 1"), "{seen}");
    host.succeeds(["config", "set", "profile.metrics_users=*"]);
    eventually("now it is for all", || {
        let seen = scrape(&address, true).ok_or("no answer")?;
        if seen.contains(SECRET) { Ok(()) } else { Err("not yet") }
    });
    end(&host, running);
}

/// `GET /metrics`, by a socket of root's or of nobody's.
fn scrape(address: &str, nobody: bool) -> Option<String> {
    let connect = || {
        if nobody {
            // Threads have users of their own in the kernel, and a socket is whose thread made it.
            let user = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(user, user, user).expect("root may become anybody");
        }
        TcpStream::connect(address).ok()
    };
    let mut stream = std::thread::scope(|scope| scope.spawn(connect).join().expect("it does not panic"))?;
    stream.set_read_timeout(Some(crate::wait::PATIENCE)).expect("a limit");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.starts_with("HTTP/1.1 200").then_some(text)
}

tests! {
    Once: report, report_as_text, export_of_one, plot, why, status_of_one, processes_of_one,
        ways_that_name_no_job, all_jobs, processes_of_the_host, files_of_the_daemon, metrics;
}
