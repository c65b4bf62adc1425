//! The machine changes under running jobs: PUs are taken away and given back.

use pinfold_proto::JobState;
use pinfold_proto::view::WhyView;
use pinfold_sys::affinity;
use pinfold_topo::{CpuSet, PuOs};

use crate::host::Host;
use crate::kind::{Kind, each_kind};
use crate::tasks::two_cores;
use crate::wait::eventually;

each_kind!(jobs_leave_pus_that_are_taken_away, the_groups_of_jobs_are_narrowed);

fn one(pu: u64) -> CpuSet {
    CpuSet::single(PuOs(u32::try_from(pu).expect("a PU")))
}

fn until_cores(host: &Host, cores: u64) {
    eventually(&format!("jobs may use {cores} cores"), || {
        let found = host.status(&[]).slots.cores;
        if found == cores { Ok(()) } else { Err(found.to_string()) }
    });
}

fn until_on(host: &Host, job: u64, cpus: &str) {
    eventually(&format!("job {job} is on {cpus}"), || {
        let view = host.job(job);
        let mask = view.pids.first().and_then(|&pid| crate::host::status_field(pid, "Cpus_allowed_list"));
        let there = view.cpus.as_deref() == Some(cpus) && mask.as_deref() == Some(cpus);
        if there { Ok(()) } else { Err(format!("{:?} {mask:?}", view.cpus)) }
    });
}

/// What the daemon itself may use is taken from it, as an operator would with `taskset`, and given back.
fn jobs_leave_pus_that_are_taken_away(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1"]);
    let Some([first, second]) = two_cores(&host) else { return };
    let wait = "while :; do sleep 0.05; done";
    let one_job = host.submit(&[], wait);
    host.until(one_job, JobState::Running);
    let other = host.submit(&[], wait);
    let jobs = [host.until(one_job, JobState::Running), host.until(other, JobState::Running)];
    let (first, second) = (first.to_string(), second.to_string());
    let victim =
        jobs.iter().find(|job| job.cpus.as_deref() == Some(&second)).expect("one has the second core").job;
    let allowed = affinity::of(host.daemon_pid()).expect("the daemon's affinity").expect("the daemon runs");
    assert_eq!(affinity::set(host.daemon_pid(), &one(first.parse().expect("a number"))), Ok(true));
    until_cores(&host, 1);
    // One slot is left for two jobs: one of them goes on, on the core that is left, and the other waits for it.
    eventually("the job on the core that went is elsewhere or frozen", || {
        let view = host.job(victim);
        let moved = view.state == JobState::Running && view.cpus.as_deref() == Some(&first);
        if moved || view.state == JobState::Frozen { Ok(()) } else { Err(format!("{view:?}")) }
    });
    let done = host.pinfold(["why", "--json", &victim.to_string()]);
    let why: WhyView = serde_json::from_str(&done.out).expect("why is JSON");
    let reasons: Vec<&str> = why.decisions.iter().map(|decision| decision.reason.as_str()).collect();
    let said = |text: &str| reasons.iter().any(|reason| reason.contains(text));
    assert!(said("are gone or no longer allowed") || said("slot is left"), "{reasons:?}");
    assert_eq!(affinity::set(host.daemon_pid(), &allowed), Ok(true));
    until_cores(&host, 2);
    let running = |job| host.until(job, JobState::Running);
    let cpus = [running(one_job).cpus, running(other).cpus];
    assert!(cpus.contains(&Some(first)) && cpus.contains(&Some(second)), "{cpus:?}");
}

/// Somebody narrows the group above the jobs' ones.
fn the_groups_of_jobs_are_narrowed(kind: Kind) {
    if kind != Kind::Groups {
        return println!("skipped: without groups nobody can narrow them");
    }
    let host = Host::new(kind);
    let Some([first, second]) = two_cores(&host) else { return };
    let file = format!("/sys/fs/cgroup/cpuset/pinfold/{}/cpuset.cpus", host.instance());
    let Ok(had) = std::fs::read_to_string(&file) else {
        return println!("skipped: no first-generation cpusets here");
    };
    let (first, second) = (first.to_string(), second.to_string());
    let job = host.submit(&[], "while :; do sleep 0.05; done");
    until_on(&host, job, &first);
    // The kernel lets nobody take a PU from a group while a group below has it.
    std::fs::write(&file, &first).expect("the groups of this test's own daemon are narrowed");
    until_cores(&host, 1);
    let late = host.pinfold(["run", "--", "/bin/sh", "-c", "echo $PINFOLD_CPUS"]);
    assert_eq!(late.out.trim(), first, "{late:?}");
    let named = host.pinfold(["run", &format!("--cpu-bind=map_cpu:{second}"), "--", "true"]);
    assert_eq!(named.code, Some(2), "{named:?}");
    std::fs::write(&file, had.trim()).expect("and widened again");
    until_cores(&host, 2);
    let late = host.pinfold(["run", "--", "/bin/sh", "-c", "echo $PINFOLD_CPUS"]);
    assert_eq!(late.out.trim(), second, "{late:?}");
    until_on(&host, job, &first);
}
