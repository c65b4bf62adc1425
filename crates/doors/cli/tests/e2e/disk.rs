//! A directory on a disk around a job. That a file system's quotas keep it to its size is tried in the lab, whose kernel has
//! such.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pinfold_proto::JobState;
use pinfold_proto::view::WhyView;
use pinfold_testkit::ignore;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::site::{logged, module, settled};
use crate::wait::{eventually, no_rescue};

tests! {
    Best: only_where_the_site_has_a_place, gone_however_the_job_ends, all_of_them_are_bounded,
        kept_while_a_job_runs_that_the_store_lost, its_name_is_taken_before_others_can;
}

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";

/// A host with a place for them that nothing keeps to any size.
fn host(kind: Kind, settings: &[&str]) -> Host {
    let mut host = Host::without_daemon(kind, &[]);
    let place = host.path("disk");
    std::fs::create_dir(&place).expect("a place");
    kind.give(&place);
    let named = format!("modules.disk={}", place.display());
    host.set(&[&[named.as_str(), "modules.disk_unbounded=on"], settings].concat());
    host.start_daemon();
    host
}

/// Starts a job that notes where its directory is; gives that.
fn with_directory(host: &Host, size: &str, script: &str) -> (u64, PathBuf) {
    let note = "echo x >$PINFOLD_DISK_DIR/file && echo $PINFOLD_DISK_DIR >where.new && mv where.new where";
    let job = host.submit(&["--disk", size], &format!("{note}; {script}"));
    let path = eventually("the job says where its directory is", || {
        std::fs::read_to_string(host.work("where")).map(|text| PathBuf::from(text.trim()))
    });
    std::fs::remove_file(host.work("where")).expect("it was just read");
    assert!(path.starts_with(host.path("disk")) && path.join("file").exists(), "{}", path.display());
    (job, path)
}

fn is_gone(path: &Path) {
    eventually(&format!("{} is gone", path.display()), || {
        if path.exists() { Err("it is there") } else { Ok(()) }
    });
}

fn only_where_the_site_has_a_place(kind: Kind) {
    let plain = Host::new(kind);
    let done = plain.pinfold(["run", "--disk", "1MiB", "true"]);
    assert_eq!(done.code, Some(5), "{done:?}");
    assert!(done.err.contains("`modules.disk`"), "{done:?}");
    let refused = |host: &Host, options: &[&str], words: &str| {
        let done = host.pinfold([&["run"], options, &["true"]].concat());
        assert_eq!(done.code, Some(5), "{done:?}");
        assert!(done.err.contains(words), "{words}: {done:?}");
    };
    let host = host(kind, &["modules.disk_total=10MiB"]);
    refused(&host, &["--disk", "11MiB"], "modules.disk_total");
    if host.path("disk").starts_with("/tmp") {
        refused(&host, &["--disk", "1MiB", "--private-tmp"], "--private-tmp a job does not see");
    }
    let script = "stat -c '%a %u' $PINFOLD_DISK_DIR; id -u; pinfold run -- sh -c 'echo $PINFOLD_DISK_DIR'";
    let done = host.pinfold(["run", "--disk", "10MiB", "--", "/bin/sh", "-c", script]);
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines[0], format!("700 {}", lines[1]), "{done:?}");
    assert!(Path::new(lines[2]).starts_with(host.path("disk")), "a part of the job has it, too: {done:?}");
    is_gone(Path::new(lines[2]));
    let done = host.pinfold(["doctor"]);
    assert!(done.out.contains("--disk is a directory in"), "{done:?}");
    let set = |change: &str| assert_eq!(host.pinfold(["config", "set", change]).code, Some(0), "{change}");
    set(&format!("modules.disk={}", host.path("nowhere").display()));
    refused(&host, &["--disk", "1MiB"], "nowhere");
    set(&format!("modules.disk={}", host.path("disk").display()));
    set("modules.disk_unbounded=off");
    if host.pinfold(["doctor"]).out.contains("kept to its size by a project quota") {
        ignore!("this file system keeps projects to their quotas");
    }
    refused(&host, &["--disk", "1MiB"], "modules.disk_unbounded");
}

fn gone_however_the_job_ends(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = host(kind, &[]);
    let (job, path) = with_directory(&host, "1MiB", WAIT);
    host.succeeds(["cancel", &job.to_string()]);
    host.until(job, JobState::Exited);
    is_gone(&path);
    // Of the jobs that a daemon that died left, one ended before the next came, and one runs on.
    let (lives, kept) = with_directory(&host, "1MiB", WAIT);
    let (_, left) = with_directory(&host, "1MiB", "until [ -e first ]; do sleep 0.05; done; : >ended");
    host.crash();
    host.make("first");
    host.until_made("ended");
    assert!(left.exists(), "nobody is there to remove it");
    // The site has another place for them by now.
    let other = host.path("other");
    std::fs::create_dir(&other).expect("a place");
    kind.give(&other);
    host.set(&[&format!("modules.disk={}", other.display()), "modules.disk_unbounded=on"]);
    host.start_daemon();
    is_gone(&left);
    assert!(kept.join("file").exists(), "that of a job that runs stays");
    host.make("go");
    host.until_exit_code(lives, 0);
    is_gone(&kept);
}

fn all_of_them_are_bounded(kind: Kind) {
    let host = host(kind, &["modules.disk_total=10MiB", "slots.factor=4"]);
    let (first, _) = with_directory(&host, "6MiB", WAIT);
    let second = host.submit(&["--disk", "5MiB"], "exit 4");
    let cancelled = host.submit(&["--disk", "5MiB"], "exit 5");
    host.until_exit_code(host.submit(&[], "exit 6"), 6);
    eventually("it is said why it waits", || {
        let done = host.pinfold(["why", "--json", &cancelled.to_string()]);
        let why: WhyView = serde_json::from_str(&done.out).map_err(|error| error.to_string())?;
        let said = why.state == JobState::Queued && done.out.contains("modules.disk_total");
        if said { Ok(()) } else { Err(done.out) }
    });
    host.succeeds(["cancel", &cancelled.to_string()]);
    assert_eq!(host.until(cancelled, JobState::Exited).started_s, None);
    assert_eq!(host.job(second).state, JobState::Queued);
    host.make("go");
    host.until_exit_code(first, 0);
    host.until_exit_code(second, 4);
}

/// A damaged store may have lost jobs that run: what stands around one goes once the last of its processes is gone.
fn kept_while_a_job_runs_that_the_store_lost(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = host(kind, &["profile.interval=100ms"]);
    let site = format!("modules.site={}", module(&host, "a", "echo $1 >>log"));
    host.succeeds(["config", "set", &site]);
    let (_, path) =
        with_directory(&host, "1MiB", &format!("{WAIT}; [ -e $PINFOLD_DISK_DIR/file ] && : >found"));
    logged(&host, "before\n");
    host.crash();
    for name in ["pinfold.db-wal", "pinfold.db-shm"] {
        let _ = std::fs::remove_file(host.state().join(name));
    }
    std::fs::write(host.state().join("pinfold.db"), "this is no store\n".repeat(1000)).expect("it is ours");
    host.set(&[
        &site,
        &format!("modules.disk={}", host.path("disk").display()),
        "modules.disk_unbounded=on",
        "profile.interval=100ms",
    ]);
    host.start_daemon();
    assert_eq!(host.pinfold(["run", "true"]).code, Some(0));
    logged(&host, "before\nbefore\nafter\n");
    assert!(path.join("file").exists(), "its job runs");
    host.make("go");
    host.until_made("found");
    is_gone(&path);
    logged(&host, "before\nbefore\nafter\nafter\n");
    settled(&host);
}

/// Where all may make directories, whoever is first has a name: pinfold is, and what another made is named.
fn its_name_is_taken_before_others_can(kind: Kind) {
    let mut host = host(kind, &[]);
    let name = |host: &Host| {
        let entries = std::fs::read_dir(host.path("disk")).expect("the place").flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let own = name(&host);
    assert_eq!(own.len(), 1, "it is there before the first job: {own:?}");
    host.stop();
    assert_eq!(name(&host), own, "nobody takes it while no daemon runs");
    host.start_daemon();
    let done = host.pinfold(["run", "--disk", "1MiB", "true"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    host.stop();
    if !rustix::process::geteuid().is_root() {
        ignore!("only root can be two users");
    }
    let owner = std::fs::metadata(&own[0]).expect("it is there").uid();
    std::os::unix::fs::chown(&own[0], Some(65533), None).expect("we are root");
    host.start_daemon();
    let words = format!("{} belongs to user 65533", own[0].display());
    let done = host.pinfold(["run", "--disk", "1MiB", "true"]);
    assert!(done.code == Some(5) && done.err.contains(&words), "{done:?}");
    let done = host.pinfold(["doctor"]);
    assert!(done.out.contains(&words), "{done:?}");
    std::os::unix::fs::chown(&own[0], Some(owner), None).expect("we are root");
    assert_eq!(host.pinfold(["run", "--disk", "1MiB", "true"]).code, Some(0));
}
