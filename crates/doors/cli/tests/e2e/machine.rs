//! The machine changes under running jobs: PUs are taken away and given back.

use std::path::{Path, PathBuf};
use std::process::Command;

use pinfold_proto::JobState;
use pinfold_proto::view::{SetsView, WhyView};
use pinfold_sys::affinity;
use pinfold_testkit::ignore;
use pinfold_topo::{CpuSet, PuOs};

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::tasks::two_cores;
use crate::wait::{eventually, no_rescue};

tests! {
    Each: jobs_leave_pus_that_are_taken_away, memory_lies_beside_the_cores, a_set_has_a_node_to_itself;
    Best: jobs_leave_pus_that_go_off_line, the_groups_of_jobs_are_narrowed;
}

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
        let mask = crate::host::root_process(&view.pids)
            .and_then(|pid| crate::host::status_field(pid, "Cpus_allowed_list"));
        let there = view.cpus.as_deref() == Some(cpus) && mask.as_deref() == Some(cpus);
        if there { Ok(()) } else { Err(format!("{:?} {mask:?}", view.cpus)) }
    });
}

/// What the daemon itself may use is taken from it, as an operator would with `taskset`, and given back.
fn jobs_leave_pus_that_are_taken_away(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1"]);
    let [first, second] = two_cores(&host);
    let allowed = affinity::of(host.daemon_pid()).expect("the daemon's affinity").expect("the daemon runs");
    let may_use = |cpus: &CpuSet| assert_eq!(affinity::set(host.daemon_pid(), cpus), Ok(true));
    loses_one_of_two(&host, [first, second], || may_use(&one(first)), || may_use(&allowed));
}

/// A PU goes off line and comes back, as the daemon sees it: in a copy of what the kernel says of the machine.
fn jobs_leave_pus_that_go_off_line(kind: Kind) {
    let (host, machine) = on_a_copy(kind, &["slots.factor=1"]);
    let [first, second] = two_cores(&host);
    let online = machine.join("cpu/online");
    let had = std::fs::read_to_string(&online).expect("the copy");
    let without: CpuSet = had.trim().parse::<CpuSet>().expect("a list").difference(&one(second));
    let say = |text: &str| std::fs::write(&online, text).expect("the copy is written to");
    loses_one_of_two(&host, [first, second], || say(&without.to_string()), || say(&had));
}

/// A daemon that finds a copy of this machine's files in place of the kernel's, in a mount namespace of its own; and
/// the copy. It has PUs and cores, no caches and no nodes.
fn on_a_copy(kind: Kind, settings: &[&str]) -> (Host, PathBuf) {
    if kind == Kind::Nobody || !rustix::process::geteuid().is_root() {
        ignore!("only root can show a daemon another machine");
    }
    let mut host = Host::without_daemon(kind, settings);
    let real = Path::new("/sys/devices/system");
    let copy = host.path("machine");
    let copied = |file: &str| {
        if let Ok(text) = std::fs::read_to_string(real.join(file)) {
            let to = copy.join(file);
            std::fs::create_dir_all(to.parent().expect("in the copy")).expect("a directory");
            std::fs::write(to, text).expect("a copy");
        }
    };
    copied("cpu/online");
    let Ok(online) = std::fs::read_to_string(copy.join("cpu/online")) else {
        ignore!("the kernel's files show no PUs here");
    };
    for pu in online.trim().parse::<CpuSet>().expect("a list").iter() {
        for file in ["core_cpus", "core_cpus_list", "package_cpus", "package_cpus_list", "core_id"] {
            copied(&format!("cpu/cpu{pu}/topology/{file}"));
        }
    }
    let mount = format!("mount --bind '{}' {}", copy.display(), real.display());
    let tried = Command::new("unshare").args(["-m", "sh", "-c", &mount]).output();
    if !tried.is_ok_and(|output| output.status.success()) {
        ignore!("no mount namespace of one's own can be had here");
    }
    host.wrap_daemon(&["unshare", "-m", "sh", "-c", &format!("{mount} && exec \"$@\""), "sh"]);
    host.start_daemon();
    (host, copy)
}

/// Two jobs, each on a core; the second core goes and comes back.
fn loses_one_of_two(host: &Host, [first, second]: [u64; 2], lose: impl Fn(), regain: impl Fn()) {
    let wait = "while :; do sleep 0.05; done";
    let one_job = host.submit(&[], wait);
    host.until(one_job, JobState::Running);
    let other = host.submit(&[], wait);
    let jobs = [host.until(one_job, JobState::Running), host.until(other, JobState::Running)];
    let (first, second) = (first.to_string(), second.to_string());
    let victim =
        jobs.iter().find(|job| job.cpus.as_deref() == Some(&second)).expect("one has the second core").job;
    lose();
    until_cores(host, 1);
    // One slot is left for two jobs: one of them goes on, on the core that is left, and the other waits for it.
    eventually("the job on the core that went is elsewhere or frozen", || {
        let view = host.job(victim);
        let moved = view.state == JobState::Running && view.cpus.as_deref() == Some(&first);
        if moved || view.state == JobState::Frozen { Ok(()) } else { Err(format!("{view:?}")) }
    });
    let reasons: Vec<String> =
        why(host, victim).decisions.iter().map(|decision| decision.reason.clone()).collect();
    let said = |text: &str| reasons.iter().any(|reason| reason.contains(text));
    assert!(said("are gone or no longer allowed") || said("slot is left"), "{reasons:?}");
    regain();
    until_cores(host, 2);
    eventually("each has a core again", || {
        let views = [host.job(one_job), host.job(other)];
        let on = |pu: &String| {
            views.iter().any(|view| view.state == JobState::Running && view.cpus.as_ref() == Some(pu))
        };
        if on(&first) && on(&second) { Ok(()) } else { Err(format!("{views:?}")) }
    });
}

fn why(host: &Host, job: u64) -> WhyView {
    let done = host.pinfold(["why", "--json", &job.to_string()]);
    serde_json::from_str(&done.out).expect("why is JSON")
}

/// On a machine of two NUMA nodes, of which this one may have only the first: what the kernel does not take is told,
/// and the job runs all the same.
fn memory_lies_beside_the_cores(kind: Kind) {
    let _bound = no_rescue();
    let (mut host, machine) = on_a_copy(kind, &[]);
    let cores = two_cores(&host);
    with_a_node_each(&mut host, &machine, cores);
    let groups = format!("/sys/fs/cgroup/cpuset/pinfold/{}", host.instance());
    let by_groups = kind == Kind::Groups && Path::new(&groups).is_dir();
    let jobs: Vec<u64> =
        (0..2).map(|_| host.submit(&["--mem", "64MiB"], "while :; do sleep 0.05; done")).collect();
    for &job in &jobs {
        let cpus = host.until(job, JobState::Running).cpus;
        let node = cores.iter().position(|pu| cpus == Some(pu.to_string())).expect("it has one of the cores");
        if !by_groups {
            continue;
        }
        eventually("it was bound to the node of its core, or the kernel's refusal is told", || {
            let why = why(&host, job);
            let told =
                |name: &str| why.numbers.iter().find(|number| number.name == name).map(|n| n.text.clone());
            let actions: Vec<&str> = why.decisions.iter().map(|decision| decision.action.as_str()).collect();
            let asked = actions.contains(&format!("bind its memory to NUMA nodes {node}").as_str());
            let mems = std::fs::read_to_string(format!("{groups}/job-{job}/cpuset.mems")).unwrap_or_default();
            let bound = told("memory bound to NUMA nodes").as_deref() == Some(&node.to_string())
                && mems.trim() == node.to_string();
            let refused = why
                .decisions
                .iter()
                .any(|decision| decision.action == "let its memory lie on all NUMA nodes");
            // Each kernel has node 0.
            if asked && (bound || (node > 0 && refused)) { Ok(()) } else { Err(format!("{mems:?} {why:?}")) }
        });
    }
    let map: serde_json::Value =
        serde_json::from_str(&host.pinfold(["map", "--json"]).out).expect("the map is JSON");
    let nodes: Vec<&str> = map["chunks"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|chunk| chunk["nodes"].as_str())
        .collect();
    assert_eq!(nodes.contains(&"0"), by_groups, "{map}");
}

/// Each core has a NUMA node to itself, of whose memory a twentieth is held.
fn with_a_node_each(host: &mut Host, machine: &Path, cores: [u64; 2]) {
    for (node, pu) in cores.iter().enumerate() {
        let at = machine.join(format!("node/node{node}"));
        std::fs::create_dir_all(&at).expect("a node");
        std::fs::write(at.join("cpulist"), pu.to_string()).expect("its PUs");
        let sizes =
            [("MemTotal", 8_000_000), ("MemFree", 7_000_000), ("AnonPages", 300_000), ("Shmem", 100_000)];
        let meminfo: String =
            sizes.iter().map(|(name, kib)| format!("Node {node} {name}: {kib} kB\n")).collect();
        std::fs::write(at.join("meminfo"), meminfo).expect("its memory");
    }
    assert_eq!(host.stop(), Some(0));
    host.start_daemon();
}

/// On a machine of two NUMA nodes a set has all cores of the second: what others hold there is told before a job of the
/// set starts. The kernel has one node, from which nothing can go.
fn a_set_has_a_node_to_itself(kind: Kind) {
    let _bound = no_rescue();
    let (mut host, machine) = on_a_copy(kind, &[]);
    let cores = two_cores(&host);
    with_a_node_each(&mut host, &machine, cores);
    let by_groups = kind == Kind::Groups
        && Path::new(&format!("/sys/fs/cgroup/cpuset/pinfold/{}", host.instance())).is_dir();
    let beside = host.submit(&[], "while :; do sleep 0.05; done");
    host.until(beside, JobState::Running);
    let made = host.pinfold(["set-aside", "own", "--cpus", &cores[1].to_string()]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let inside = host.submit(&["--in", "own"], "while :; do sleep 0.05; done");
    let view = host.until(inside, JobState::Running);
    let sets: SetsView = serde_json::from_str(&host.pinfold(["sets", "--json"]).out).expect("sets are JSON");
    if !by_groups {
        assert_eq!((&view.own_nodes, &sets.sets[0].own_nodes), (&None, &None));
        return;
    }
    let nodes = view.own_nodes.expect("the set has a node to itself");
    assert_eq!(sets.sets[0].own_nodes.as_ref(), Some(&nodes));
    assert_eq!((nodes.nodes.as_str(), nodes.kept), ("1", true));
    assert_eq!((nodes.foreign_before, nodes.foreign_after), (Some(0.05), Some(0.05)));
    let said = "node 1: others held 5.0 % of the memory, 5.0 % since it was moved away (1 % was aimed at";
    assert!(nodes.found.starts_with(said), "{nodes:?}");
    let told = why(&host, inside);
    let number = told.numbers.iter().find(|number| number.name == "its NUMA nodes");
    assert_eq!(number.map(|number| &number.text), Some(&nodes.found), "{told:?}");
    // Nothing is left of it with the set.
    assert_eq!(host.job(beside).own_nodes, None);
    host.pinfold(["cancel", &inside.to_string()]);
    host.until(inside, JobState::Exited);
    host.succeeds(["set-aside", "own", "--remove"]);
    host.until(beside, JobState::Running);
}

/// Somebody narrows the group above the jobs' ones.
fn the_groups_of_jobs_are_narrowed(kind: Kind) {
    if kind != Kind::Groups {
        ignore!("without groups nobody can narrow them");
    }
    let _narrowed = no_rescue();
    let host = Host::new(kind);
    let [first, second] = two_cores(&host);
    let file = format!("/sys/fs/cgroup/cpuset/pinfold/{}/cpuset.cpus", host.instance());
    let Ok(had) = std::fs::read_to_string(&file) else {
        ignore!("no first-generation cpusets here");
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
