//! The mark of managed processes: every process of a job has it, however it was started, and no other.

use std::process::Command;

use pinfold_proto::JobState;
use serde_json::Value;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Best: marked;
}

fn marked(kind: Kind) {
    let host = Host::with(kind, &["mark.character=+", "profile.interval=50ms"]);
    // A child, a grandchild in a session of its own, and one under another name.
    let script = "sleep 1001 & setsid sh -c 'sleep 1002 & wait' & exec -a hidden sleep 1003";
    let job = host.pinfold(["submit", "-o", "/dev/null", "-e", "/dev/null", "--", "/bin/bash", "-c", script]);
    let job: u64 = job.out.trim().parse().expect("a job's number");
    host.until(job, JobState::Running);
    let mut stranger = Command::new("sleep").arg("1004").spawn().expect("sleep starts");
    let all = eventually("all of them are there", || {
        let done = host.pinfold(["ps", "--all", "--json"]);
        let view: Value = serde_json::from_str(&done.out).map_err(|error| format!("{error}: {done:?}"))?;
        let has = |what: &str| {
            let processes = view["processes"].as_array().expect("a list");
            let own = processes.iter().filter(|one| one["job"] == job);
            own.into_iter().any(|one| one["command"].as_str().is_some_and(|line| line.ends_with(what)))
        };
        // The shell between them too, by the end of its line.
        if ["1001", "1002", "1003", "wait"].into_iter().all(has) { Ok(view) } else { Err(done.out) }
    });
    assert_eq!(all["mark"], "+");
    for process in all["processes"].as_array().expect("a list") {
        let line = process["command"].as_str().expect("a command line");
        if let Some(last) =
            line.rsplit(' ').next().filter(|_| line.starts_with("sleep 100") || line.starts_with("hidden"))
        {
            let own = last != "1004";
            // Other hosts' tests may have the same lines; those are of jobs as well, which are not this daemon's.
            if process["job"] == job || process["pid"] == stranger.id() {
                assert_eq!(process["managed"], own, "{process}");
            }
        }
    }
    let own = |process: &&Value| process["job"] == job;
    let count = all["processes"].as_array().expect("a list").iter().filter(own).count();
    assert_eq!(count, 4, "{all}");
    stranger.kill().expect("it is killed");
    stranger.wait().expect("it is a child");
    let listed = eventually("each line of the job has the mark", || {
        let done = host.pinfold(["ps", &job.to_string()]);
        if done.out.matches("+sleep 100").count() == 2 && done.out.contains("+hidden 1003") {
            Ok(done)
        } else {
            Err(format!("{done:?}"))
        }
    });
    assert_eq!(listed.code, Some(0));
    let none = host.pinfold(["config", "set", "mark.character="]);
    assert_eq!(none.code, Some(0), "{none:?}");
    assert!(!host.pinfold(["ps", &job.to_string()]).out.contains("+sleep"));
    host.succeeds(["cancel", "--signal", "KILL", &job.to_string()]);
    host.until(job, JobState::Exited);
}
