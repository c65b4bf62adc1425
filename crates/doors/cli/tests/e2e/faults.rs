//! What the host does to the daemon: a full disk, groups that cannot be made.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use pinfold_proto::JobState;
use pinfold_testkit::ignore;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::process::Killed;
use crate::site::{NOTE, logged, module};
use crate::wait::eventually;

/// A host with its state directory on a file system of 2 MiB in a mount namespace of the daemon's own: what happens to it
/// concerns nobody else.
fn small_state(settings: &[&str]) -> Host {
    if !rustix::process::geteuid().is_root() {
        ignore!("only root can mount a small file system");
    }
    let mut host = Host::without_daemon(Kind::Rootless, settings);
    let state = host.state().display().to_string();
    std::fs::create_dir(&state).expect("the state directory");
    let script = format!("mount -t tmpfs -o size=2m,mode=700 tmpfs {state} && exec \"$@\"");
    let tried = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if !tried.is_ok_and(|status| status.success()) {
        ignore!("no mount namespaces here");
    }
    host.wrap_daemon(&["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", &script, "sh"]);
    host
}

/// The same with a file system that outlives the daemon, as long as the process beside it.
fn lasting_state(settings: &[&str]) -> (Host, Killed) {
    let mut host = small_state(settings);
    let state = host.state().display().to_string();
    let script =
        format!("mount -t tmpfs -o size=2m,mode=700 tmpfs {state} && : >{state}/mounted && exec sleep 1000");
    let mut holder = Command::new("unshare");
    holder.args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]);
    let holder = Killed(holder.spawn().expect("it starts"));
    let pid = holder.0.id();
    eventually("it is mounted", || {
        if within_namespace(pid, &host).join("mounted").exists() { Ok(()) } else { Err("it is not") }
    });
    host.wrap_daemon(&["nsenter", "--mount", "--target", &pid.to_string()]);
    (host, holder)
}

/// The state directory as a process sees it, from outside.
fn within_namespace(pid: u32, host: &Host) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root{}", host.state().display()))
}

/// What takes the room of such a state directory, as it is seen from outside.
fn filler(host: &Host) -> PathBuf {
    within_namespace(host.daemon_pid(), host).join("filler")
}

fn a_full_disk() {
    let mut host = small_state(&["profile.interval=100ms"]);
    host.start_daemon();
    host.succeeds(["run", "true"]);
    let filler = filler(&host);
    let full = std::fs::write(&filler, vec![0; 4 << 20]);
    assert!(full.is_err(), "the file system is full");

    // Jobs go on, the status comes through, and clients that ask are told.
    for code in [3, 4] {
        let done = host.pinfold(["run", "--", "/bin/sh", "-c", &format!("exit {code}")]);
        assert_eq!(done.code, Some(code), "{done:?}");
    }
    let running = host.submit(&[], "until [ -e go ]; do sleep 0.05; done; exit 5");
    let warned = eventually("it is said", || {
        let status = host.status(&[]);
        status.warnings.first().cloned().ok_or_else(|| format!("{status:?}"))
    });
    assert!(warned.contains("cannot be written"), "{warned}");
    let done = host.pinfold(["run", "true"]);
    assert!(done.err.contains("warning"), "{done:?}");
    // Known, though not on disk.
    host.until_exit_code(2, 3);
    let numbers = |of: &[serde_json::Value]| of.iter().map(|job| job["job"].clone()).collect::<Vec<_>>();
    for among in [["--last", "9"], ["--since", "1h"]] {
        let done = host.pinfold([&["report", "--json"][..], &among].concat());
        let told: Vec<serde_json::Value> =
            done.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(numbers(&told), [1, 2, 3, 4, 5], "{among:?}: {done:?}");
    }
    let done = host.pinfold(["status", "--all", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(numbers(status["jobs"].as_array().expect("jobs")), [1, 2, 3, 4, 5], "{done:?}");

    let backup = |host: &Host| {
        let mut command = host.command("nsenter");
        let pid = host.daemon_pid().to_string();
        command.args(["--mount", "--target", &pid]).arg(host.programs().join("pinfold"));
        command.args(["admin", "backup"]).arg(host.work("jobs.backup")).stdin(Stdio::null());
        host.spawn(command).wait()
    };
    let done = backup(&host);
    assert!(done.code == Some(1) && done.err.contains("jobs.backup lacks 4 jobs"), "{done:?}");
    assert!(done.out.contains("1 jobs"), "what the store has is there: {done:?}");

    std::fs::remove_file(&filler).expect("room again");
    host.make("go");
    host.until_exit_code(running, 5);
    eventually("all is well again", || {
        let status = host.status(&[]);
        if status.warnings.is_empty() { Ok(()) } else { Err(format!("{status:?}")) }
    });
    let done = host.pinfold(["report", "--json", "1", "2", "3", &running.to_string()]);
    let codes: Vec<serde_json::Value> = done
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["exit_code"].clone())
        .collect();
    assert_eq!(codes, [0, 3, 4, 5], "nothing is missing on disk");
    let done = backup(&host);
    assert!(done.code == Some(0) && done.out.contains("5 jobs"), "{done:?}");
}

/// There is no room for jobs' rows either, which is said, with what to do; once there is, all is well without a restart.
fn a_disk_that_is_full_from_the_first_start() {
    let (mut host, holder) = lasting_state(&[]);
    let state = within_namespace(holder.0.id(), &host);
    let filler = state.join("filler");
    let way_out = format!("free some space on the file system of {0} (`df {0}`)", host.state().display());
    assert!(std::fs::write(&filler, vec![0; 4 << 20]).is_err(), "the file system is full");
    let log = host.path("first.log");
    let mut first = host.daemon_command(&log).spawn().expect("it starts");
    assert!(!first.wait().expect("a child").success(), "there is no room for a store");
    let said = std::fs::read_to_string(log).expect("what it said");
    assert!(said.contains("the job store needs room") && said.contains(&way_out), "{said}");
    // The store fits, and what is kept for a full disk does not.
    std::fs::write(&filler, vec![0; (2 << 20) - (360 << 10)]).expect("there is room for that");
    host.start_daemon();
    assert!(!state.join("spare").exists());
    let warned = host.status(&[]).warnings.join("\n");
    assert!(warned.contains("no room for jobs is kept") && warned.contains("state/spare"), "{warned}");
    let doctor = host.pinfold(["doctor"]);
    assert!(doctor.out.contains("no room for jobs is kept") && doctor.out.contains(&way_out), "{doctor:?}");
    host.succeeds(["run", "true"]);
    assert!(std::fs::write(state.join("more"), vec![0; 1 << 20]).is_err(), "the file system is full");
    let refused = eventually("the store cannot be written", || {
        let done = host.pinfold(["run", "true"]);
        if done.code == Some(0) { Err(format!("{done:?}")) } else { Ok(done) }
    });
    assert!(refused.err.contains("no room could be kept") && refused.err.contains(&way_out), "{refused:?}");
    let doctor = host.pinfold(["doctor"]);
    assert!(doctor.out.contains("store cannot be written") && doctor.out.contains(&way_out), "{doctor:?}");
    for taken in [filler, state.join("more")] {
        std::fs::remove_file(taken).expect("room again");
    }
    eventually("all is well", || {
        let warnings = host.status(&[]).warnings;
        if warnings.is_empty() && state.join("spare").exists() {
            Ok(())
        } else {
            Err(format!("{warnings:?}"))
        }
    });
    host.succeeds(["run", "true"]);
    assert!(!host.pinfold(["doctor"]).out.contains("no room for jobs"));
}

/// Accepted jobs are on disk though it is full: a daemon that dies then loses none, nor its number, nor what waits for it.
fn a_full_disk_and_a_daemon_that_dies() {
    let (mut host, holder) = lasting_state(&["slots.factor=2", "host.cpus=0"]);
    host.start_daemon();
    host.succeeds(["run", "true"]);
    let filler = within_namespace(holder.0.id(), &host).join("filler");
    assert!(std::fs::write(&filler, vec![0; 4 << 20]).is_err(), "the file system is full");
    let long = host.submit(&["--name", "long"], "until [ -e go ]; do sleep 0.05; done; exit 4");
    host.until(long, JobState::Running);
    let ok = host.submit(&["--after", "ok:long"], ": >never");
    let failed = host.submit(&["--after", "failed:long"], "exit 6");
    let over = host.pinfold(["run", "--backfill", "--", "/bin/sh", "-c", "exit 3"]);
    assert_eq!(over.code, Some(3), "{over:?}");
    assert!(!host.status(&[]).warnings.is_empty(), "the store cannot be written");
    host.crash();
    host.start_daemon();
    for (job, state) in [(long, JobState::Running), (ok, JobState::Queued), (failed, JobState::Queued)] {
        host.until(job, state);
    }
    host.until_exit_code(failed + 1, 3);
    host.crash();
    std::fs::remove_file(&filler).expect("room again");
    host.start_daemon();
    host.until(long, JobState::Running);
    host.make("go");
    host.until_exit_code(long, 4);
    host.until_exit_code(failed, 6);
    let view = host.until(ok, JobState::Exited);
    assert_eq!(view.started_s, None, "{view:?}");
    host.until_exit_code(failed + 1, 3);
    assert!(!host.work("never").exists());
}

/// Jobs whose prologs cannot be noted, or whose directories' place cannot, wait for room, however long that takes.
fn a_full_disk_keeps_jobs_waiting_that_are_prepared() {
    let mut host = small_state(&[]);
    let site = format!("modules.site={}", module(&host, "a", NOTE));
    let place = host.path("disk");
    std::fs::create_dir(&place).expect("a place");
    let disk = format!("modules.disk={}", place.display());
    host.start_daemon();
    host.succeeds(["run", "true"]);
    assert!(std::fs::write(filler(&host), vec![0; 4 << 20]).is_err(), "the file system is full");
    // Only now is the place to be noted.
    host.succeeds(["config", "set", &disk, "modules.disk_unbounded=on"]);
    let with_disk = host.submit(&["--disk", "1MiB"], "exit 3");
    host.until_exit_code(host.submit(&[], "exit 6"), 6);
    host.succeeds(["config", "set", &site]);
    let prepared = host.submit(&[], "exit 4");
    for (job, words) in [(with_disk, "failed to note"), (prepared, "around")] {
        eventually("it is said why it waits", || {
            let view = host.job(job);
            let reason = view.reason.unwrap_or_default();
            if view.state == JobState::Queued && reason.contains(words) { Ok(()) } else { Err(reason) }
        });
    }
    // As often as a job is tried that cannot be started at all.
    let tried = |job: u64| {
        let said = host.daemon_said();
        let of_it = |line: &&str| line.contains("not carried out") && line.contains(&format!("job={job} "));
        said.lines().filter(of_it).count()
    };
    eventually("they are tried five times", || {
        let counts = [tried(with_disk), tried(prepared)];
        if counts.iter().all(|&count| count >= 5) { Ok(()) } else { Err(format!("{counts:?}")) }
    });
    for job in [with_disk, prepared] {
        assert_eq!(host.job(job).state, JobState::Queued, "job {job}: {:?}", host.job(job).reason);
    }
    std::fs::remove_file(filler(&host)).expect("room again");
    host.until_exit_code(with_disk, 3);
    host.until_exit_code(prepared, 4);
}

/// The disk is full once the first of two prologs has run: the job waits, and none is called twice.
fn a_disk_that_fills_up_between_prologs() {
    let mut host = small_state(&[]);
    let fill = format!(
        "{NOTE}; [ $1 = after ] || head -c 4194304 /dev/zero >{}/filler || :",
        host.state().display()
    );
    let paths = [module(&host, "a", &fill), module(&host, "b", NOTE)];
    host.set(&[&format!("modules.site={}", paths.join(","))]);
    host.start_daemon();
    let job = host.submit(&[], "exit 4");
    eventually("it is said why it waits", || {
        let view = host.job(job);
        let reason = view.reason.unwrap_or_default();
        let waits = view.state == JobState::Queued && reason.contains("cannot be noted");
        if waits { Ok(()) } else { Err(format!("{:?}: {reason}", view.state)) }
    });
    std::fs::remove_file(filler(&host)).expect("room again");
    host.until_exit_code(job, 4);
    logged(&host, "before a 1\nbefore b 1\nafter b 1 4\nafter a 1 4\n");
}

/// A group of the job's name that holds a stranger: the job cannot be contained, so it is not started, and the
/// client that waits for it is told why.
fn a_group_that_cannot_be_made() {
    let mut host = Host::without_daemon(Kind::Groups, &[]);
    let plan =
        pinfold_sys::mode::decide(&pinfold_sys::mode::probe(&pinfold_sys::mode::Roots::default()), None);
    let Some(hierarchy) = plan.ok().and_then(|plan| plan.hierarchies.first().cloned()) else {
        ignore!("no control groups here");
    };
    let instance = format!("i{:08x}", std::process::id());
    std::fs::create_dir(host.state()).expect("the state directory");
    std::fs::write(host.state().join("instance"), &instance).expect("the instance's name");
    // It comes into the way of the number that is next: numbers of groups that are there at a start are not given.
    host.start_daemon();
    let group = hierarchy.base_path().join("pinfold").join(&instance).join("job-1");
    std::fs::create_dir_all(&group).expect("a group in the way");
    let mut stranger = Killed(Command::new("sleep").arg("1000").spawn().expect("a stranger"));
    if std::fs::write(group.join("cgroup.procs"), stranger.0.id().to_string()).is_err() {
        ignore!("{} takes no process", group.display());
    }
    let done = host.pinfold(["run", "--", "/bin/sh", "-c", "echo never >never"]);
    assert!(
        stranger.0.try_wait().expect("a child").is_none(),
        "the stranger is none of the daemon's business"
    );
    let view = host.until(1, JobState::Exited);
    drop(stranger);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.err.contains("job 1") && done.err.contains("holds processes"), "{done:?}");
    assert_eq!(view.started_s, None);
    assert!(!host.work("never").exists());
    assert_eq!(host.pinfold(["run", "true"]).code, Some(0), "the next one runs");
}

tests! {
    Once: a_full_disk, a_disk_that_is_full_from_the_first_start, a_full_disk_and_a_daemon_that_dies,
        a_full_disk_keeps_jobs_waiting_that_are_prepared, a_disk_that_fills_up_between_prologs,
        a_group_that_cannot_be_made;
}
