//! The rows end to end in their smallest form, without pinfold: native launchers and the installed peers.
#![expect(clippy::unwrap_used, reason = "a test's helper fails by panicking, as a test does")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_pinfold-bench");
/// Beside it, and needed by row `waits`.
const LOAD: &str = env!("CARGO_BIN_EXE_pinfold-load");

/// Runs a row with its temporary and kept files below `directory`; no pinfold is to be found there.
fn row(directory: &Path, arguments: &[&str]) -> Output {
    row_finding(directory, arguments, &std::env::var_os("PATH").unwrap_or_default())
}

/// The same where programs are looked for in `path` alone.
fn row_finding(directory: &Path, arguments: &[&str], path: &std::ffi::OsStr) -> Output {
    Command::new(BENCH)
        .args(arguments)
        .env("PATH", path)
        .args(["--keep", "kept", "--keep-in"])
        .arg(directory)
        .arg("--binaries")
        .arg(directory)
        .arg("--scratch")
        .arg(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The raw lines of kind `kind` that a row kept; the row must have succeeded and left nothing else.
#[track_caller]
fn kept(directory: &Path, output: &Output, kind: &str) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["kept.jsonl", "kept.md"], "temporary files were left");
    assert_eq!(fs::read(directory.join("kept.md")).unwrap(), output.stdout);
    let raw = fs::read_to_string(directory.join("kept.jsonl")).unwrap();
    let lines = raw.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["kind"] == kind).map(|line| line["data"].clone()).collect()
}

/// An act of the demo that cannot be played is left out with its reason, and leaves no picture.
#[test]
fn an_act_without_the_manager_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(BENCH)
        .args(["demo", "--act", "memory", "--out"])
        .arg(directory.path().join("out"))
        .arg("--binaries")
        .arg(directory.path())
        .arg("--scratch")
        .arg(directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut names: Vec<String> = fs::read_dir(directory.path().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["results.jsonl", "results.md"]);
    let text = fs::read_to_string(directory.path().join("out/results.md")).unwrap();
    assert!(text.contains("left out: pinfold and pinfoldd are not built"), "{text}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "temporary files were left");
}

#[test]
fn queens_beside_load() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["isolated", "--queens", "7", "--times", "1", "--repetitions", "2"];
    let output = row(directory.path(), &arguments);
    let runs = kept(directory.path(), &output, "run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for way in ["native", "pinned apart by hand", "by hand, again"] {
        assert!(text.contains(way), "{text}");
        let own: Vec<&Value> = runs.iter().filter(|run| run["way"] == way).collect();
        assert!(
            own.len() >= 4 && own.iter().all(|run| run["seconds"].as_f64().unwrap() > 0.0),
            "{way}: {own:?}"
        );
    }
}

#[test]
fn duty_cycle_jobs() {
    assert!(Path::new(LOAD).is_file());
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        ["waits", "--only", "equal", "--cell", "60:1", "--job-seconds", "0.1", "--burst-ms", "20"];
    let output = row(directory.path(), &[&arguments[..], &["--repetitions", "1", "--solo", "1"]].concat());
    let runs = kept(directory.path(), &output, "run");
    let bound = &kept(directory.path(), &output, "bound")[0]["bound"];
    assert!(runs.len() >= 3, "three native ways need no program");
    for run in runs.iter().map(|run| &run["run"]) {
        assert_eq!(run["failures"], serde_json::json!([]), "{run}");
        let jobs = run["endings"].as_array().unwrap();
        let makespan_s = run["makespan_s"].as_f64().unwrap();
        assert!(!jobs.is_empty() && run["cpu_s"].as_f64().unwrap() > 0.0, "{run}");
        // No job may end sooner than its waits alone take, nor be reported to end after the run.
        for job in jobs {
            let wall_s = job["wall_us"].as_f64().unwrap() / 1e6;
            assert!((5.0 * 0.013..=makespan_s).contains(&wall_s), "{job} in {makespan_s} s");
        }
    }
    assert!(bound["cpu_s"].as_f64().unwrap() > 0.0 && bound["longest_s"].as_f64().unwrap() > 0.0, "{bound}");
}

#[test]
fn jobs_that_wait_for_unlike_parts() {
    let directory = tempfile::tempdir().unwrap();
    let small = [
        "--only",
        "mixed",
        "--per-slot",
        "1",
        "--job-seconds",
        "0.08",
        "--burst-ms",
        "20",
        "--repetitions",
        "1",
    ];
    let output = row(directory.path(), &[&["waits"][..], &small, &["--solo", "1"]].concat());
    let runs = kept(directory.path(), &output, "run");
    let counts: Vec<usize> = runs.iter().map(|run| run["run"]["endings"].as_array().unwrap().len()).collect();
    let cores = rustix::thread::sched_getaffinity(None).unwrap().count() as usize;
    assert!(counts.contains(&(2 * cores)) && counts.contains(&(2 * cores + 1)), "{counts:?}");
    for run in runs.iter().map(|run| &run["run"]) {
        assert_eq!(run["failures"], serde_json::json!([]), "{run}");
    }
}

#[test]
fn a_primary_beside_others() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["interfere", "--seconds", "0.05", "--wakes", "5"];
    let arguments = [&arguments[..], &["--repetitions", "1", "--beside", "compute"]].concat();
    let output = row(directory.path(), &arguments);
    let runs = kept(directory.path(), &output, "run");
    for primary in ["compute", "memory", "wake"] {
        for way in ["alone", "beside nice 19"] {
            let found = runs.iter().find(|run| run["primary"] == primary && run["way"] == way);
            let run = found.unwrap_or_else(|| panic!("no {primary}, {way}: {runs:?}"));
            assert!(run["seconds"].as_f64().unwrap() > 0.0, "{run}");
            // On a busy machine jobs at nice 19 may have had nothing in so short a time; alone there are none.
            let beside_s = run["beside_s"].as_f64().unwrap();
            assert!(beside_s >= 0.0 && (way != "alone" || beside_s <= 0.0), "{run}");
            let late = run["late_us"].as_array().unwrap().len();
            assert_eq!(late, if primary == "wake" { 5 } else { 0 }, "{run}");
        }
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("pinfold is left out") && text.contains("slowed by %"), "{text}");
}

#[test]
fn memory_bound_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [
        "bandwidth",
        "--jobs",
        "2",
        "--mib",
        "2",
        "--job-seconds",
        "0.1",
        "--repetitions",
        "1",
        "--solo",
        "1",
    ];
    let output = row(directory.path(), &arguments);
    let ratios = kept(directory.path(), &output, "variation");
    for code in ["sweep", "walk"] {
        let own: Vec<&Value> =
            ratios.iter().filter(|ratio| ratio["title"].as_str().unwrap().starts_with(code)).collect();
        assert!(own.len() >= 2, "two native ways need no program: {ratios:?}");
        let all = own.iter().map(|ratio| ratio["max_over_min"][0].as_f64());
        assert!(all.clone().all(|ratio| ratio.is_some_and(|ratio| ratio >= 1.0)), "{own:?}");
    }
}

#[test]
fn jobs_within_a_budget() {
    let directory = tempfile::tempdir().unwrap();
    // No peers: some of them suspend or kill by the whole host's free memory, whatever uses it.
    let programs = tempfile::tempdir().unwrap();
    for program in ["sh", "taskset", "head", "cksum", "rm"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|directory| directory.join(program))
            .find(|path| path.is_file());
        std::os::unix::fs::symlink(found.unwrap(), programs.path().join(program)).unwrap();
    }
    let small = ["--load", "cache", "--budget-mib", "64", "--swap-mib", "0", "--limit-s", "300"];
    let arguments = [&["memory", "--repetitions", "1", "--solo", "1"], &small[..]].concat();
    let output = row_finding(directory.path(), &arguments, programs.path().as_os_str());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() && said.contains("this row needs root") {
        return println!("skipped: {said}");
    }
    let runs = kept(directory.path(), &output, "run");
    // Page cache needs no memory: all six jobs end well whichever way.
    assert!(runs.len() >= 2, "natively with cores and twice as many at a time: {runs:?}");
    for run in runs.iter().map(|run| &run["run"]) {
        assert!(run["way"].as_str().unwrap().starts_with("native, "), "{run}");
        assert_eq!(run["failures"], serde_json::json!([]), "{run}");
        assert_eq!(run["endings"].as_array().unwrap().len(), 6, "{run}");
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains("Best known: "));
}

#[test]
fn launching() {
    let directory = tempfile::tempdir().unwrap();
    let output = row(directory.path(), &["launch", "--runs", "5"]);
    let commands = kept(directory.path(), &output, "launch");
    assert_eq!(commands[0]["command"], "true");
    for command in &commands {
        let times = command["times_ms"].as_array().unwrap();
        assert_eq!(times.len(), 5, "{command}");
        assert!(times.iter().all(|time| time.as_f64().unwrap() > 0.0), "{command}");
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains("pinfold is left out"));
}

#[test]
fn short_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let output = row(directory.path(), &["short", "--jobs", "20", "--repetitions", "1"]);
    let runs = kept(directory.path(), &output, "short");
    assert!(runs.iter().any(|run| run["launcher"] == "xargs -P"), "{runs:?}");
    assert!(runs.iter().all(|run| run["seconds"].as_f64().unwrap() > 0.0), "{runs:?}");
}

/// The status of a job goes through, and the journal says the same.
#[test]
fn exec_journals_a_job() {
    for (script, status, code, signal) in [("exit 3", 3, Some(3), None), ("kill -9 $$", 137, None, Some(9))] {
        let directory = tempfile::tempdir().unwrap();
        let (journal, file) = (directory.path().join("journal"), directory.path().join("script"));
        fs::write(&journal, "").unwrap();
        fs::write(&file, script).unwrap();
        let run = Command::new(BENCH)
            .args(["exec", "--name", "job", "--journal"])
            .arg(&journal)
            .arg("--directory")
            .arg(directory.path())
            .arg(&file)
            .status()
            .unwrap();
        assert_eq!(run.code(), Some(status), "{script}");
        let text = fs::read_to_string(&journal).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["event"], &lines[1]["event"]), (&"started".into(), &"ended".into()), "{text}");
        assert_eq!(lines[1]["exit_code"].as_i64(), code, "{text}");
        assert_eq!(lines[1]["signal"].as_i64(), signal, "{text}");
    }
}

/// A signal ends the jobs and removes the files; no figure is kept.
#[test]
fn an_interrupt_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = spawned(&["waits", "--cell", "60:1", "--job-seconds", "600"], directory.path());
    let wrapper = started(directory.path());
    let deadline = Instant::now() + Duration::from_secs(180);
    assert!(!ended_by(&mut bench, Signal::INT, deadline).success());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "files were left");
    // Its launcher may have ended before it: then it has the first process of the host as its parent, which reaps it.
    while Path::new(&format!("/proc/{wrapper}")).exists() {
        assert!(Instant::now() < deadline, "a job was left");
        std::thread::yield_now();
    }
}

/// Starts a row that has its files below `directory`, and would keep its data there.
fn spawned(row: &[&str], directory: &Path) -> Child {
    let silent = Stdio::null;
    let mut bench = Command::new(BENCH);
    bench.args(row).args(["--keep", "kept", "--keep-in"]).arg(directory).arg("--scratch").arg(directory);
    bench.stdin(silent()).stdout(silent()).stderr(silent()).spawn().unwrap()
}

/// Sends a bench a signal and waits until it has ended.
fn ended_by(bench: &mut Child, signal: Signal, deadline: Instant) -> ExitStatus {
    kill_process(Pid::from_raw(i32::try_from(bench.id()).unwrap()).unwrap(), signal).unwrap();
    loop {
        if let Some(status) = bench.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            bench.kill().unwrap();
            panic!("the bench goes on after a signal");
        }
        std::thread::yield_now();
    }
}

/// Waits until a journal below `directory` names a job's wrapper, and gives its pid.
fn started(directory: &Path) -> i64 {
    let deadline = Instant::now() + Duration::from_secs(180);
    while Instant::now() < deadline {
        let benches = fs::read_dir(directory).unwrap().flatten();
        let runs = benches.flat_map(|bench| fs::read_dir(bench.path()).into_iter().flatten().flatten());
        for run in runs {
            let text = fs::read_to_string(run.path().join("journal")).unwrap_or_default();
            let line = text.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
            if let Some(pid) = line.and_then(|line| line["pid"].as_i64()) {
                return pid;
            }
        }
        std::thread::yield_now();
    }
    panic!("no job was started");
}
