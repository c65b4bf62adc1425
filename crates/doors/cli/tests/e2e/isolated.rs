//! Jobs that have cores to themselves: no other job is on them, by the kernel's own word, and they are for all again when
//! the job is over, however that ended.

use pinfold_proto::JobState;
use pinfold_proto::view::{SetKind, SetsView, WhyView};
use pinfold_topo::CpuSet;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::tasks::two_cores;
use crate::wait::eventually;

tests! {
    Each: nobody_else_is_on_its_cores, the_daemon_dies_beside_it;
    Best: it_waits_for_its_cores, best_effort_jobs_make_room_at_once, what_does_not_go_with_it;
}

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";

/// Writes down what the kernel says that it may use, once it is let go on.
fn tell(name: &str) -> String {
    format!(
        "until [ -e go.{name} ]; do sleep 0.05; done; \
         sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status >mask.$$; mv mask.$$ mask.{name}"
    )
}

fn told(host: &Host, job: u64, name: &str) -> String {
    host.make(&format!("go.{name}"));
    host.until_exit_code(job, 0);
    host.wrote(&format!("mask.{name}")).trim().to_owned()
}

fn sets(host: &Host) -> SetsView {
    serde_json::from_str(&host.pinfold(["sets", "--json"]).out).expect("one JSON object")
}

fn why(host: &Host, job: u64) -> WhyView {
    serde_json::from_str(&host.pinfold(["why", "--json", &job.to_string()]).out).expect("one JSON object")
}

fn nobody_else_is_on_its_cores(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4"]);
    let [first, second] = two_cores(&host);
    let before = host.submit(&[], &tell("before"));
    host.until(before, JobState::Running);
    let alone = host.submit(&["--isolated"], &tell("alone"));
    host.until(alone, JobState::Running);
    let after: Vec<u64> = (0..3).map(|n| host.submit(&[], &tell(&n.to_string()))).collect();
    // Its cores are for all again soon: who asks for all is not refused.
    let wide = host.submit(&["--cores", "2"], "exit 0");
    host.until(wide, JobState::Queued);
    let view = sets(&host);
    let set = &view.sets[0];
    assert_eq!(
        (&set.set, set.kind, &set.cpus, &set.jobs),
        (&format!("isolated-{alone}"), SetKind::Isolated, &second.to_string(), &vec![alone])
    );
    assert_eq!(host.job(alone).set.as_deref(), Some(set.set.as_str()));
    let numbers = why(&host, alone).numbers;
    let isolation = numbers.iter().find(|number| number.name == "isolation").expect("how far it is alone");
    assert!(isolation.text.contains("no other job is on its cores") || isolation.text.contains("its alone"));
    let refused = host.pinfold(["run", "--in", &set.set, "true"]);
    assert!(refused.code == Some(2) && refused.err.contains("one job alone"), "{refused:?}");
    let refused = host.pinfold(["set-aside", &set.set, "--remove"]);
    assert!(refused.code == Some(5) && refused.err.contains("goes with it"), "{refused:?}");
    assert!(host.pinfold(["map"]).out.contains(&set.set), "the map names it");
    // The primary first: those beside it may get next to nothing of a busy PU before they are primaries themselves.
    assert_eq!(told(&host, before, "before"), first.to_string());
    for (n, &job) in after.iter().enumerate() {
        assert_eq!(told(&host, job, &n.to_string()), first.to_string(), "job {job}");
    }
    assert_eq!(told(&host, alone, "alone"), second.to_string());
    host.until_exit_code(wide, 0);
    assert_eq!(sets(&host).sets, []);
    let next = host.submit(&["--cpu-bind", &format!("map_cpu:{second}"), "-n", "1"], &tell("next"));
    assert_eq!(told(&host, next, "next"), second.to_string(), "its cores are for all again");
    for (signal, name) in [("KILL", "killed"), ("TERM", "ended")] {
        let job = host.submit(&["--isolated", "--name", name], WAIT);
        host.until(job, JobState::Running);
        host.succeeds(["cancel", "--signal", signal, &job.to_string()]);
        host.until(job, JobState::Exited);
        assert_eq!(sets(&host).sets, [], "{name}");
    }
}

fn it_waits_for_its_cores(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4"]);
    two_cores(&host);
    let cores = host.status(&[]).slots.cores;
    let busy: Vec<u64> = (0..cores).map(|_| host.submit(&[], WAIT)).collect();
    busy.iter().for_each(|&job| drop(host.until(job, JobState::Running)));
    // Others of its priority keep their cores.
    let alone = host.submit(&["--isolated"], "exit 7");
    let view = host.until(alone, JobState::Queued);
    assert_eq!(view.started_s, None);
    let why = why(&host, alone);
    assert!(why.cause.contains("to itself that no job of its priority is on"), "{why:?}");
    assert!(sets(&host).sets.is_empty());
    // A higher one takes a core of a lower one, who moves.
    let higher = host.submit(&["--isolated", "--priority", "11"], &tell("higher"));
    host.until(higher, JobState::Running);
    busy.iter()
        .for_each(|&job| assert_eq!(host.job(job).state, JobState::Running, "no job is frozen for it"));
    told(&host, higher, "higher");
    assert_eq!(host.job(alone).state, JobState::Queued);
    host.make("go");
    host.until_exit_code(alone, 7);
    let held = host.submit(&["--isolated", "--hold"], "exit 8");
    assert!(sets(&host).sets.is_empty(), "one that is held takes nothing");
    host.succeeds(["release", &held.to_string()]);
    host.until_exit_code(held, 8);
}

/// Jobs that said `--backfill` go elsewhere or are frozen for those that have cores of their own, and come back.
fn best_effort_jobs_make_room_at_once(kind: Kind) {
    let host = Host::new(kind);
    two_cores(&host);
    let slots = host.status(&[]).slots.total;
    // They ask for nothing meanwhile: on a busy machine it would take them long to get it.
    let left: Vec<u64> = (0..slots).map(|_| host.submit(&["--backfill"], "exec sleep 3600")).collect();
    let all_run = || left.iter().for_each(|&job| drop(host.until(job, JobState::Running)));
    all_run();
    for options in [
        &["--isolated"][..],
        &["--isolated", "--priority", "1"],
        &["--primary", "--priority", "1"],
        &["--exclusive", "--priority", "1"],
        &[],
    ] {
        let job = host.submit(options, "until [ -e go.on ]; do sleep 0.05; done; exit 6");
        let view = host.until(job, JobState::Running);
        let own: CpuSet = view.cpus.expect("it is bound").parse().expect("a list of PUs");
        if options.contains(&"--isolated") {
            for other in left.iter().map(|&job| host.job(job)).filter(|one| one.state == JobState::Running) {
                let theirs: CpuSet = other.cpus.expect("it is bound").parse().expect("a list of PUs");
                assert!(theirs.is_disjoint(&own), "{options:?}: job {} on {theirs} beside {own}", other.job);
            }
        }
        host.make("go.on");
        host.until_exit_code(job, 6);
        std::fs::remove_file(host.work("go.on")).expect("it was made");
        all_run();
    }
    for job in left {
        host.succeeds(["cancel", "--signal", "KILL", &job.to_string()]);
    }
}

fn the_daemon_dies_beside_it(kind: Kind) {
    let _bound = crate::wait::no_rescue();
    let mut host = Host::with(kind, &["slots.factor=4"]);
    let [first, second] = two_cores(&host);
    let lives = host.submit(&["--isolated"], &tell("lives"));
    host.until(lives, JobState::Running);
    let set = sets(&host).sets[0].clone();
    host.crash();
    host.start_daemon();
    host.until(lives, JobState::Running);
    eventually("its set is there again", || {
        if sets(&host).sets == [set.clone()] { Ok(()) } else { Err(format!("{:?}", sets(&host))) }
    });
    let beside = host.submit(&[], &tell("beside"));
    let (own, other) = if set.cpus == second.to_string() { (second, first) } else { (first, second) };
    assert_eq!(told(&host, beside, "beside"), other.to_string());
    // It ends while no daemon runs.
    host.crash();
    host.make("go.lives");
    eventually("it ends", || std::fs::metadata(host.work("mask.lives")).map(drop));
    host.start_daemon();
    host.until_exit_code(lives, 0);
    assert_eq!(host.wrote("mask.lives").trim(), own.to_string());
    eventually("its set is gone", || if sets(&host).sets.is_empty() { Ok(()) } else { Err("it is there") });
    eventually("its groups are gone", || {
        // Those in which the daemon may put its next job are empty, and kept under the last one's name.
        let left: Vec<_> = host
            .job_groups()
            .into_iter()
            .filter(|group| !group.starts_with("/sys/fs/cgroup/unified"))
            .collect();
        let spare = |group: &std::path::PathBuf| {
            std::fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|pids| pids.is_empty())
        };
        if left.iter().all(spare) { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

fn what_does_not_go_with_it(kind: Kind) {
    let host = Host::new(kind);
    let [first, _] = two_cores(&host);
    let cores = host.status(&[]).slots.cores.to_string();
    let map = format!("--cpu-bind=map_cpu:{first}");
    let rows: [(&[&str], i32, &str); 6] = [
        (&["--isolated", "--backfill"], 2, "cannot be used with"),
        (&["--isolated", "--exclusive"], 2, "cannot be used with"),
        (&["--isolated", "--in", "db"], 2, "cannot be used with"),
        (&["--isolated", "-n", "1", &map], 2, "chooses the cores"),
        (&["--isolated", "--cores", &cores], 5, "one is left for other jobs"),
        (&["--isolated", "--cores", "5000"], 5, "one is left for other jobs"),
    ];
    for (options, code, said) in rows {
        let done = host.pinfold([&["run"], options, &["--", "touch", "ran"]].concat());
        assert!(done.code == Some(code) && done.err.contains(said), "{options:?}: {done:?}");
    }
    let named = host.pinfold(["set-aside", "isolated-1", "--cores", "1"]);
    assert!(named.code == Some(2) && named.err.contains("isolated jobs"), "{named:?}");
    assert!(!host.work("ran").exists());
    let doctor = host.pinfold(["doctor"]);
    assert!(doctor.out.contains("isolation: "), "{doctor:?}");
}
