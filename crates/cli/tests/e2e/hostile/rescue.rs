//! A rescue beside a daemon that lives.

use super::*;

each_kind!(leaves_a_living_daemons_jobs_alone);

fn leaves_a_living_daemons_jobs_alone(kind: Kind) {
    if kind != Kind::Groups {
        println!("skipped: without control groups no mark tells that a daemon lives");
        return;
    }
    // Jobs of other tests whose daemons are gone would be thawed by it.
    let _alone = crate::wait::rescue();
    let Some(host) = shared(kind, &["slots.factor=4"]) else { return };
    let job = victims_job(&host, &[], WAIT);
    assert_eq!(run_as(&host, VICTIM, &["suspend", &job.to_string()]).code, Some(0));
    host.until(job, JobState::Frozen);
    let frozen = || {
        host.job_groups().iter().any(|group| {
            let events = std::fs::read_to_string(group.join("cgroup.events"));
            events.is_ok_and(|events| events.contains("frozen 1"))
        })
    };
    eventually("the kernel has frozen all of it", || if frozen() { Ok(()) } else { Err("not yet") });
    // Root's own rescue, and that of a user who may write to no group.
    let done = host.pinfold(["rescue", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&done.out).expect("JSON");
    let instance = host.instance();
    assert!(value["alive"].as_array().expect("a list").iter().any(|name| *name == instance), "{value}");
    assert!(done.err.contains(&format!("rescue --force {instance}")), "{done:?}");
    assert!(!value["rescued"].to_string().contains(&instance), "{value}");
    let _ = run_as(&host, ATTACKER, &["rescue", "--force", &instance]);
    assert!(frozen(), "it stays as its user wanted it");
    host.make("go");
    assert_eq!(run_as(&host, VICTIM, &["resume", &job.to_string()]).code, Some(0));
    host.until(job, JobState::Exited);
}
