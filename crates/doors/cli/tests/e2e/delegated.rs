//! A daemon without rights in a control group of the second generation that was delegated to its user. Needs root, who
//! makes the group and gives it away.

use std::path::PathBuf;

use pinfold_proto::JobState;
use pinfold_proto::view::DoctorView;
use pinfold_sys::cgroup::Generation;
use pinfold_sys::mode::{Roots, probe};
use pinfold_testkit::ignore;

use crate::host::Host;
use crate::kind::{self, Kind, tests};
use crate::wait::{eventually, no_rescue};

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done; exit 9";

/// A group that is removed when the test is over.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        for below in ["pinfold", "pinfold-daemon", ""] {
            let _ = std::fs::remove_dir(self.0.join(below));
        }
    }
}

/// A host with a daemon of a user without rights in a group of that user's.
fn delegated() -> (Group, Host) {
    Kind::Nobody.or_ignored();
    let facts = probe(&Roots::default());
    let tree = facts.hierarchies.iter().find(|one| one.generation == Generation::V2 && one.writable);
    let Some(tree) = tree else { ignore!("no unified hierarchy in which root may make groups") };
    let mut host = Host::without_daemon(Kind::Nobody, &[]);
    let name = host.path("").file_name().expect("a name").to_owned();
    let group = Group(tree.base_path().join(name));
    if let Err(error) = std::fs::create_dir(&group.0).and_then(|()| kind::delegate(&group.0)) {
        ignore!("a group to give away: {error}");
    }
    host.delegate(&group.0);
    host.start_daemon();
    (group, host)
}

fn submit_inside(host: &Host, script: &str) -> u64 {
    let done = host.inside(&["submit", "-o", "/dev/null", "-e", "/dev/null", "--", "/bin/sh", "-c", script]);
    done.out.trim().parse().unwrap_or_else(|_| panic!("a number: {done:?}"))
}

/// The control group of the second generation that a process is in.
fn group_of(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default().to_owned()
}

/// The first process of a job. It may be about to enter as the job is said to run.
fn main_of(host: &Host, job: u64) -> u32 {
    eventually("its first process is there", || {
        let pids = host.until(job, JobState::Running).pids;
        crate::host::root_process(&pids).ok_or_else(|| format!("{pids:?}"))
    })
}

fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn a_job_from_within_has_a_group_and_is_frozen_by_it() {
    let _guard = no_rescue();
    let (group, host) = delegated();
    assert_eq!(host.status(&[]).mode, "v2", "{}", host.daemon_said());
    let job = submit_inside(&host, WAIT);
    let main = main_of(&host, job);
    let own = group.0.join("pinfold").join(host.instance()).join(format!("job-{job}"));
    assert!(own.to_string_lossy().ends_with(&group_of(main)), "{} in {}", group_of(main), own.display());
    let frozen = |want: &str| {
        eventually(want, || {
            let events = std::fs::read_to_string(own.join("cgroup.events")).unwrap_or_default();
            if events.contains(want) { Ok(()) } else { Err(events) }
        });
    };
    assert_eq!(host.inside(&["suspend", &job.to_string()]).code, Some(0));
    frozen("frozen 1");
    assert_ne!(state_of(main), Some('T'), "no signal is needed");
    assert_eq!(host.inside(&["resume", &job.to_string()]).code, Some(0));
    frozen("frozen 0");
    host.make("go");
    host.until_exit_code(job, 9);
    let doctor = host.inside(&["doctor", "--json"]);
    let view: DoctorView = serde_json::from_str(&doctor.out).expect("doctor is JSON");
    let finding = view.findings.iter().find(|one| one.subject == "delegation").expect("what was delegated");
    assert!(finding.found.contains(&group.0.display().to_string()), "{finding:?}");
}

fn a_job_from_elsewhere_is_held_by_its_processes() {
    let _guard = no_rescue();
    let (group, mut host) = delegated();
    let job = host.submit(&[], WAIT);
    let main = main_of(&host, job);
    let name = group.0.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(!group_of(main).contains(&name), "{}", group_of(main));
    let stopped = |want: bool| {
        eventually(&format!("stopped: {want}"), || {
            let state = state_of(main);
            if (state == Some('T')) == want { Ok(()) } else { Err(format!("{state:?}")) }
        });
    };
    assert_eq!(host.pinfold(["suspend", &job.to_string()]).code, Some(0));
    stopped(true);
    // The guard lets it go on, and the next daemon finds it, suspended as its user said.
    host.crash();
    stopped(false);
    host.start_daemon();
    stopped(true);
    assert_eq!(host.pinfold(["resume", &job.to_string()]).code, Some(0));
    stopped(false);
    host.make("go");
    host.until_exit_code(job, 9);
    let refused = host.pinfold(["run", "--strict", "--mem-limit", "64MiB", "--", "true"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.err.contains("--mem-limit does not hold here"), "{refused:?}");
    let doctor = host.pinfold(["doctor"]);
    assert!(doctor.out.contains("out of reach for the daemon"), "{doctor:?}");
}

tests! {
    Once: a_job_from_within_has_a_group_and_is_frozen_by_it, a_job_from_elsewhere_is_held_by_its_processes;
}
