//! What the host does to the daemon: a full disk, groups that cannot be made.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use pinfold_proto::JobState;

use crate::host::Host;
use crate::kind::Kind;
use crate::process::Killed;
use crate::wait::eventually;

/// The state directory on a file system of 2 MiB in a mount namespace of the daemon's own: what happens to it
/// concerns nobody else.
#[test]
fn a_full_disk() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can mount a small file system");
        return;
    }
    let mut host = Host::without_daemon(Kind::Rootless, &["profile.interval=100ms"]);
    let state = host.state().display().to_string();
    std::fs::create_dir(&state).expect("the state directory");
    let script = format!("mount -t tmpfs -o size=2m,mode=700 tmpfs {state} && exec \"$@\"");
    let tried = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if !tried.is_ok_and(|status| status.success()) {
        println!("skipped: no mount namespaces here");
        return;
    }
    host.wrap_daemon(&["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", &script, "sh"]);
    host.start_daemon();
    host.succeeds(["run", "true"]);
    let filler = PathBuf::from(format!("/proc/{}/root{state}/filler", host.daemon_pid()));
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
}

/// A group of the job's name that holds a stranger: the job cannot be contained, so it is not started, and the
/// client that waits for it is told why.
#[test]
fn a_group_that_cannot_be_made() {
    let host = Host::without_daemon(Kind::Groups, &[]);
    let plan =
        pinfold_sys::mode::decide(&pinfold_sys::mode::probe(&pinfold_sys::mode::Roots::default()), None);
    let Some(hierarchy) = plan.ok().and_then(|plan| plan.hierarchies.first().cloned()) else {
        println!("skipped: no control groups here");
        return;
    };
    let instance = format!("i{:08x}", std::process::id());
    std::fs::create_dir(host.state()).expect("the state directory");
    std::fs::write(host.state().join("instance"), &instance).expect("the instance's name");
    let group = hierarchy.base_path().join("pinfold").join(&instance).join("job-1");
    std::fs::create_dir_all(&group).expect("a group in the way");
    let mut stranger = Killed(Command::new("sleep").arg("1000").spawn().expect("a stranger"));
    if std::fs::write(group.join("cgroup.procs"), stranger.0.id().to_string()).is_err() {
        println!("skipped: {} takes no process", group.display());
        return;
    }
    let mut host = host;
    host.start_daemon();
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
