//! Cores that are set aside: only jobs that name the set are on them, by the kernel's own word.

use pinfold_proto::JobState;
use pinfold_proto::view::{SetKind, SetsView, WhyView};
use serde_json::Value;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::tasks::two_cores;
use crate::wait::{PATIENCE, within};

tests! {
    Each: jobs_in_a_set_and_beside_it, who_runs_on_cores_that_are_set_aside_moves;
    Best: a_shared_set_and_one_for_the_host, idle_cores_for_a_script, bad_sets_change_nothing;
}

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

fn done(host: &Host, arguments: &[&str]) -> String {
    let done = host.pinfold(arguments);
    assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
    done.out
}

fn sets(host: &Host) -> SetsView {
    serde_json::from_str(&done(host, &["sets", "--json"])).expect("one JSON object")
}

fn jobs_in_a_set_and_beside_it(kind: Kind) {
    let mut host = Host::new(kind);
    let [first, second] = two_cores(&host);
    done(&host, &["set-aside", "db", "--cpus", &second.to_string(), "--memory", "1M"]);
    let inside = host.submit(&["--in", "db"], &tell("inside"));
    let beside: Vec<u64> = (0..2).map(|n| host.submit(&[], &tell(&format!("beside{n}")))).collect();
    host.until(inside, JobState::Running);
    host.until(beside[0], JobState::Running);
    // A second one waits for the set's core, though the host has slots.
    let next = host.submit(&["--in", "db"], &tell("next"));
    assert_eq!(host.until(next, JobState::Queued).set.as_deref(), Some("db"));
    let why: WhyView =
        serde_json::from_str(&done(&host, &["why", &next.to_string(), "--json"])).expect("one JSON object");
    assert_eq!(why.cause, "it is next, and its set db has not 1 core free (0 are)");
    let view = sets(&host);
    let set = &view.sets[0];
    assert_eq!(
        (set.set.as_str(), &set.cpus, set.cores, set.kind),
        ("db", &second.to_string(), 1, SetKind::Static)
    );
    assert_eq!((set.memory_bytes, set.shared, &set.jobs), (Some(1 << 20), false, &vec![inside, next]));
    let figures: Value = serde_json::from_str(&done(&host, &["sets", "--json"])).expect("one JSON object");
    assert_eq!(
        (&figures["sets"][0]["jobs_started"], &figures["sets"][0]["jobs_waiting"]),
        (&1.into(), &1.into())
    );
    let map: Value = serde_json::from_str(&done(&host, &["map", "--json"])).expect("one JSON object");
    assert_eq!(map["set_asides"][0]["set"], "db");
    assert!(done(&host, &["map"]).contains("set db: PUs"), "the map names the set");
    done(&host, &["map", "-o", "map.svg"]);
    let picture = host.wrote("map.svg");
    assert!(picture.contains("set db: PUs") && picture.contains("stroke-dasharray"), "{picture}");
    assert!(done(&host, &["status"]).contains("in db"), "status names the set");
    // It is still so after a restart.
    host.crash();
    host.start_daemon();
    assert_eq!(sets(&host), view);
    assert_eq!(host.job(next).state, JobState::Queued);
    assert_eq!(told(&host, inside, "inside"), second.to_string());
    host.until(next, JobState::Running);
    for (n, &job) in beside.iter().enumerate() {
        assert_eq!(told(&host, job, &format!("beside{n}")), first.to_string(), "job {job}");
    }
    let refused = host.pinfold(["set-aside", "db", "--remove"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.err.contains(&format!("job {next} is in the set db")), "{refused:?}");
    assert_eq!(told(&host, next, "next"), second.to_string());
    done(&host, &["set-aside", "db", "--remove"]);
    assert_eq!(sets(&host).sets, []);
    let audit = done(&host, &["audit"]);
    assert!(audit.contains("set-aside") && audit.contains("db: removed"), "{audit}");
}

fn who_runs_on_cores_that_are_set_aside_moves(kind: Kind) {
    let host = Host::new(kind);
    let [first, second] = two_cores(&host);
    let jobs: Vec<u64> = (0..2).map(|n| host.submit(&[], &tell(&n.to_string()))).collect();
    jobs.iter().for_each(|&job| drop(host.until(job, JobState::Running)));
    done(&host, &["set-aside", "cage", "--cpus", &second.to_string()]);
    for (n, &job) in jobs.iter().enumerate() {
        let why = done(&host, &["why", &job.to_string()]);
        let moved = why.contains("its cores are set aside as cage");
        assert_eq!(moved, n == 1, "{why}");
        assert_eq!(told(&host, job, &n.to_string()), first.to_string(), "job {job}");
    }
    // Tasks of a job in a set lie on the set.
    let told = host.pinfold([
        "run",
        "--in",
        "cage",
        "-n",
        "1",
        "--",
        "sed",
        "-n",
        "s/^Cpus_allowed_list:\\t//p",
        "/proc/self/status",
    ]);
    assert_eq!((told.code, told.out.trim()), (Some(0), second.to_string().as_str()), "{told:?}");
}

fn idle_cores_for_a_script(kind: Kind) {
    let host = Host::new(kind);
    let [first, second] = two_cores(&host);
    assert_eq!(done(&host, &["set-aside", "--idle", "--cores", "9999"]), "");
    // Nothing is waited for that can never be.
    let all = host.status(&[]).slots.cores;
    for (cores, wait) in [(9999, "--wait"), (all, "--wait"), (all, "--wait=1h")] {
        let never = host.pinfold(["set-aside", "--idle", "--cores", &cores.to_string(), wait]);
        assert!(never.code == Some(5) && never.out.is_empty(), "{never:?}");
        let words = format!("--cores {cores}: at most {} of this host's {all} cores", all - 1);
        assert!(never.err.contains(&words), "{never:?}");
    }
    // One core is always left for others.
    assert_eq!(done(&host, &["set-aside", "--idle", "--cores", "2"]).trim(), "");
    let job = host.submit(&[], &tell("job"));
    host.until(job, JobState::Running);
    let script = host.shell(
        "set=$(pinfold set-aside --idle --cores 1 --hold 1h) && echo \"$set\" && \
         pinfold run --in \"$set\" -- sed -n 's/^Cpus_allowed_list:\\t//p' /proc/self/status",
    );
    assert_eq!(
        (script.code, script.out.as_str()),
        (Some(0), format!("idle-1\n{second}\n").as_str()),
        "{script:?}"
    );
    // Its job keeps the set until it is over.
    host.until(2, JobState::Exited);
    // Nothing more is idle.
    assert_eq!(done(&host, &["set-aside", "--idle", "--cores", "1"]), "");
    // Given back, and taken once more, it goes by itself.
    let late = host.pinfold(["set-aside", "--idle", "--cores", "1", "--wait=10ms"]);
    assert!(late.code == Some(5) && late.err.contains("--wait") && late.out.is_empty(), "{late:?}");
    let waiting = host.start(["set-aside", "--idle", "--cores", "1", "--wait"]);
    done(&host, &["set-aside", "idle-1", "--remove"]);
    let got = waiting.wait();
    assert!(got.code == Some(0) && got.out.starts_with("idle-"), "{got:?}");
    done(&host, &["set-aside", got.out.trim(), "--remove"]);
    assert_ne!(done(&host, &["set-aside", "--idle", "--cores", "1", "--hold", "1s"]), "");
    let gone = within(PATIENCE, || sets(&host).sets.is_empty().then_some(()));
    assert!(gone.is_some(), "{:?}", sets(&host));
    assert_eq!(told(&host, job, "job"), first.to_string());
}

fn a_shared_set_and_one_for_the_host(kind: Kind) {
    let host = Host::new(kind);
    let [first, second] = two_cores(&host);
    done(&host, &["set-aside", "part", "--shared", "--cpus", &second.to_string()]);
    let one = host.submit(&["--in", "part"], &tell("one"));
    let two = host.submit(&["--in", "part"], &tell("two"));
    for job in [one, two] {
        host.until(job, JobState::Running);
    }
    assert_eq!(told(&host, one, "one"), second.to_string());
    assert_eq!(told(&host, two, "two"), second.to_string());
    done(&host, &["set-aside", "part", "--remove"]);
    done(&host, &["set-aside", "boot", "--housekeeping", "--cpus", &first.to_string()]);
    assert_eq!(sets(&host).sets[0].kind, SetKind::Housekeeping);
    let job = host.submit(&[], &tell("job"));
    assert_eq!(told(&host, job, "job"), second.to_string());
    let refused = host.pinfold(["run", "--in", "boot", "--", "true"]);
    assert!(refused.code == Some(2) && refused.err.contains("for the host itself"), "{refused:?}");
}

fn bad_sets_change_nothing(kind: Kind) {
    let host = Host::new(kind);
    let [first, second] = two_cores(&host);
    let (first, second) = (first.to_string(), second.to_string());
    done(&host, &["set-aside", "db", "--cpus", &second]);
    let before = sets(&host);
    let both = format!("{first},{second}");
    let rows: [(&[&str], i32, &str); 17] = [
        (&["set-aside", "x", "--cpus", "4000"], 2, "jobs have no PU 4000 here"),
        (&["set-aside", "x", "--cpus", "1-"], 2, "--cpus 1-"),
        (&["set-aside", "x", "--cpus", ""], 2, "at least one PU"),
        (&["set-aside", "x", "--cpus", &second], 2, "is in the set db already"),
        (&["set-aside", "x", "--cpus", &both], 2, "is in the set db already"),
        (&["set-aside", "x", "--cpus", &first], 5, "no core for jobs outside of it"),
        (&["set-aside", "x", "--cores", "5000"], 5, "--cores 5000: the host has"),
        (&["set-aside", "x", "--cores", "0"], 2, "--cores"),
        (&["set-aside", "db", "--cores", "1"], 2, "there is a set db already"),
        (&["set-aside", "../x", "--cores", "1"], 2, "a set's name is"),
        (&["set-aside", "x", "--cores", "1", "--cpus", &first], 2, "cannot be used with"),
        (&["set-aside", "x"], 2, "--cpus"),
        (&["set-aside", "x", "--remove"], 2, "there is no set x"),
        (&["set-aside", "x", "--shared", "--cpus", &first, "--memory", "1M"], 2, "--memory is for sets"),
        (&["run", "--in", "nowhere", "--", "touch", "ran"], 2, "--in nowhere: there is no such set"),
        (&["run", "--in", "db", "--cores", "2", "--", "touch", "ran"], 5, "needs 2 cores and the set has 1"),
        (&["run", "--in", "db", "--backfill", "--", "touch", "ran"], 2, "--backfill has no meaning there"),
    ];
    for (arguments, code, said) in rows {
        let done = host.pinfold(arguments);
        assert_eq!(done.code, Some(code), "{arguments:?}: {done:?}");
        assert!(done.err.contains(said), "{arguments:?}: {done:?}");
    }
    let map = format!("--cpu-bind=map_cpu:{first}");
    let elsewhere = host.pinfold(["run", "--in", "db", "-n", "1", &map, "--", "touch", "ran"]);
    assert!(elsewhere.code == Some(2) && elsewhere.err.contains("is not in the set"), "{elsewhere:?}");
    assert!(!host.work("ran").exists(), "something was started");
    assert_eq!(sets(&host), before);
    assert!(host.status(&[]).jobs.is_empty());
    // A job that waits for the set keeps it from going, however long that takes.
    let held = host.submit(&["--in", "db", "--hold"], "true");
    assert_eq!(host.pinfold(["set-aside", "db", "--remove"]).code, Some(5));
    done(&host, &["cancel", &held.to_string()]);
    let removed =
        within(PATIENCE, || (host.pinfold(["set-aside", "db", "--remove"]).code == Some(0)).then_some(()));
    assert!(removed.is_some(), "{:?}", sets(&host));
}
