//! `pinfold squeeze` of real programs, where this host bounds memory, and its refusals. Which bound is tried when is tested
//! where that is decided.

use serde_json::Value;

use crate::host::Host;
use crate::kind::{Kind, tests};

const MIB: u64 = 1 << 20;

fn host(kind: Kind) -> Host {
    kind.or_ignored();
    Host::with(kind, &["profile.interval=50ms"])
}

fn the_knee_of_sort() {
    let host = host(Kind::Groups);
    let made = host.shell("seq 1 400000 | sed 's/^/a line of some length that is sorted, number /' >big.txt");
    assert_eq!(made.code, Some(0), "{made:?}");
    let command = ["--", "sort", "-r", "-S", "100M", "--parallel=1", "-o", "/dev/null", "big.txt"];
    let options = ["squeeze", "--json", "--step", "0.05", "-o", "knee.svg"];
    let done = host.pinfold([&options[..], &command].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    let view: Value = serde_json::from_str(&done.out).expect("JSON alone on standard output");
    let bytes = |key: &str| view[key].as_u64().unwrap_or_else(|| panic!("{key}: {view}"));
    let (peak, knee) = (bytes("peak_bytes"), bytes("knee_bytes"));
    assert!(peak > 20 * MIB && knee > 4 * MIB && knee < 4 * peak, "{view}");
    let runs = view["runs"].as_array().expect("a list");
    assert!(runs.len() >= 4 && runs[0]["limit_bytes"].is_null() && runs[0]["exit_code"] == 0, "{view}");
    // Nothing below the knee by a step went as well, and the knee did.
    let good = |run: &&Value| run["is_good"] == true;
    let least = runs.iter().filter(good).filter_map(|run| run["limit_bytes"].as_u64()).min();
    assert!(least.is_some_and(|least| least <= knee), "{view}");
    assert!(runs.iter().all(|run| run["wall_s"].is_f64() && !run["exit_code"].is_string()), "{view}");
    let picture = host.wrote("knee.svg");
    assert!(picture.contains("stalled for memory") && picture.contains("bound (MiB)</text>"), "{picture}");
}

fn a_command_that_needs_nothing_and_one_that_fails() {
    let host = host(Kind::Groups);
    let fails = host.pinfold(["squeeze", "--json", "--", "sh", "-c", "sleep 0.2; exit 3"]);
    assert_eq!((fails.code, fails.out.as_str()), (Some(1), ""), "{fails:?}");
    assert!(fails.err.contains("fails without a bound (exit code 3)"), "{fails:?}");
    let missing = host.pinfold(["squeeze", "--", "no-such-command"]);
    assert_eq!(missing.code, Some(127), "{missing:?}");
    for wrong in [["squeeze", "--step", "0", "--", "true"], ["squeeze", "--step", "x", "--", "true"]] {
        assert_eq!(host.pinfold(wrong).code, Some(2), "{wrong:?}");
    }
    assert_eq!(host.pinfold(["squeeze", "-o", "knee.txt", "--", "true"]).code, Some(2));
    let nested = host.pinfold(["run", "--", "pinfold", "squeeze", "--", "true"]);
    assert_eq!(nested.code, Some(5), "{nested:?}");
    assert!(nested.err.contains("run it from outside"), "{nested:?}");
}

/// The bounds on the memory of the host's jobs, as the kernel has them.
fn bounds(host: &Host) -> Vec<String> {
    let files = ["memory.limit_in_bytes", "memory.max", "memory.high"];
    let read = |group: &std::path::PathBuf| files.map(|file| std::fs::read_to_string(group.join(file)).ok());
    let mut found: Vec<String> = host.job_groups().iter().flat_map(read).flatten().collect();
    found.sort();
    found
}

/// Where the kernel takes memory by a lower bound, that is there for the moment in which it does.
fn as_before(host: &Host, before: &[String]) {
    crate::wait::eventually("no bound is left", || match bounds(host) {
        now if now == before => Ok(()),
        now => Err(format!("{now:?} and not {before:?}")),
    });
}

fn a_running_job_is_squeezed_and_no_bound_is_left() {
    let host = host(Kind::Groups);
    let job = host
        .submit(&[], "head -c 40M /dev/zero >big; sync big; : >written; until [ -e go ]; do sleep 0.05; done")
        .to_string();
    host.until_made("written");
    let before = bounds(&host);
    assert!(!before.is_empty(), "this job has bounds");
    // Far longer than three steps take, as one may come late on a busy machine.
    let done = host.pinfold(["squeeze", "--json", "--every", "1s", "--for", "12s", &job]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let view: Value = serde_json::from_str(&done.out).expect("JSON alone on standard output");
    let steps = view["steps"].as_array().expect("a list");
    let taken = |step: &Value| step["taken_bytes"].as_u64().expect("a number");
    assert!(steps.len() >= 3 && steps.iter().any(|step| taken(step) > 0), "{view}");
    let most = |step: &&Value| taken(step) * 100 > step["ram_bytes"].as_u64().expect("a number");
    assert!(!steps.iter().any(|step| most(&step)), "{view}");
    let knee = view["knee_bytes"].as_u64().expect("a number");
    assert!(knee <= view["from_bytes"].as_u64().expect("a number"), "{view}");
    as_before(&host, &before);
    // Nor by one that dies.
    let killed = host.start(["squeeze", "--keep", "--every", "1s", &job]);
    crate::wait::eventually("it takes memory", || {
        let said = killed.said("err");
        if said.contains(" less now") { Ok(()) } else { Err(said) }
    });
    killed.signal(rustix::process::Signal::KILL);
    killed.wait();
    as_before(&host, &before);
    for (wrong, words) in [
        (vec!["squeeze", "--step", "0.02", &job], "at most 0.01 is taken"),
        (vec!["squeeze", "--every", "10ms", &job], "from 1s to 1h"),
        (vec!["squeeze", &job, "--", "true"], "cannot be used with"),
        (vec!["squeeze"], "required"),
    ] {
        let done = host.pinfold(&wrong);
        assert_eq!(done.code, Some(2), "{wrong:?}: {done:?}");
        assert!(done.err.contains(words), "{wrong:?}: {done:?}");
    }
    let held = host.pinfold(["submit", "--hold", "--", "true"]).out.trim().to_owned();
    let done = host.pinfold(["squeeze", &held]);
    assert_eq!(done.code, Some(5), "{done:?}");
    assert!(done.err.contains("has not started"), "{done:?}");
}

/// Where nothing bounds memory, every run would be one without a bound.
fn a_host_without_bounds() {
    let host = host(Kind::Rootless);
    let done = host.pinfold(["squeeze", "--json", "--", "true"]);
    assert_eq!((done.code, done.out.as_str()), (Some(5), ""), "{done:?}");
    assert!(done.err.contains("memory cannot be bounded in mode rootless"), "{done:?}");
    let job = host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    host.until(job, pinfold_proto::JobState::Running);
    let done = host.pinfold(["squeeze", &job.to_string()]);
    assert_eq!(done.code, Some(5), "{done:?}");
    assert!(done.err.contains("by its control group, and this daemon has none"), "{done:?}");
    host.make("go");
}

tests! {
    Once: the_knee_of_sort, a_command_that_needs_nothing_and_one_that_fails,
        a_running_job_is_squeezed_and_no_bound_is_left, a_host_without_bounds;
}
