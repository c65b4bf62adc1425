//! Many jobs at once: put together, as tables for other programs, and the store as a file.

use std::os::unix::fs::PermissionsExt as _;

use pinfold_proto::JobState;
use serde_json::Value;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Best: live, together, lines_are_named_after_their_programs, tables, store_as_a_file,
        numbers_after_an_earlier_copy;
}

/// Three jobs of two names, one of which fails.
fn ran(kind: Kind) -> Host {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    let run = |name: &str, script: &str| {
        host.start(["run", "--name", name, "--project", "p,q", "--", "/bin/sh", "-c", script])
    };
    let first = run("one", "sleep 0.5; until [ -e go ]; do sleep 0.05; done");
    eventually("the first was sampled", || {
        let done = host.pinfold(["report", "--json", "1"]);
        let view: Value = serde_json::from_str(&done.out).unwrap_or_default();
        if view["samples"].as_u64() > Some(0) { Ok(()) } else { Err(format!("{done:?}")) }
    });
    host.make("go");
    first.wait();
    for (name, script) in [("two", "exit 3"), ("one", "true")] {
        run(name, script).wait();
    }
    // A busy daemon has their ends on record later than the commands return.
    (1..=3).for_each(|job| drop(host.until(job, JobState::Exited)));
    host
}

fn together(kind: Kind) {
    let host = ran(kind);
    let done = host.pinfold(["report", "--since", "1h", "--by", "name", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let view: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!((&view["version"], &view["by"]), (&1.into(), &"name".into()));
    let groups = view["groups"].as_array().expect("groups");
    let of = |at: usize| {
        let group = &groups[at];
        (group["group"].as_str(), group["jobs"].as_u64(), group["failed"].as_u64())
    };
    assert_eq!((of(0), of(1)), ((Some("one"), Some(2), Some(0)), (Some("two"), Some(1), Some(1))));
    assert!(groups[0]["wall_s"]["most"].as_f64() >= Some(0.2), "{view}");
    for by in ["user", "project", "class", "day"] {
        let done = host.pinfold(["report", "--last", "9", "--by", by]);
        assert!(done.code == Some(0) && done.out.contains("JOBS"), "{done:?}");
    }
    let all = host.pinfold(["report", "--last", "9", "--all", "--json"]);
    assert_eq!((all.code, all.out.lines().count()), (Some(0), 3), "its own user is an operator: {all:?}");
    assert_eq!(host.pinfold(["report", "--last", "9", "--by", "colour"]).code, Some(2));
}

fn lines_are_named_after_their_programs(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    let busy = "#!/bin/sh\ni=0; while [ $i -lt 400000 ]; do i=$((i+1)); done\n";
    pinfold_testkit::executable(&host.work("assembler"), busy);
    let lines =
        "cd . && ./assembler 1\nfor i in 1; do X=$i nice ./assembler; done\n./assembler 2 | sort -u\n";
    std::fs::write(host.work("lines"), lines).expect("a file");
    assert_eq!(host.pinfold(["batch", "-j1", "lines"]).code, Some(0));
    let names: Vec<String> = (1..=3).map(|job| host.until(job, JobState::Exited).name).collect();
    assert_eq!(names, ["assembler"; 3], "of the last one by its processes");
    let held = host.submit(&["--hold"], "./assembler 3 | sort -u");
    assert_eq!(host.job(held).name, "assembler", "as such lines ran before");
}

fn tables(kind: Kind) {
    let host = ran(kind);
    let csv = host.pinfold(["report", "--last", "9", "--csv"]);
    let lines: Vec<&str> = csv.out.split("\r\n").collect();
    assert!(lines[0].starts_with("job,name,user,project,command,state"), "{csv:?}");
    assert_eq!(lines.len(), 5, "a line of names, three jobs, and the end: {csv:?}");
    assert!(lines[1].contains("\"p,q\""), "{csv:?}");
    let jsonl = host.pinfold(["export", "--last", "9", "--format", "jsonl"]);
    let jobs: Vec<Value> =
        jsonl.out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!(
        jobs.iter().map(|job| job["exit_code"].as_i64()).collect::<Vec<_>>(),
        [Some(0), Some(3), Some(0)]
    );
    assert!(jobs[0]["claim_bytes"].is_null());
    let samples = host.pinfold(["export", "1", "--what", "samples", "--format", "jsonl"]);
    assert!(samples.out.lines().count() >= 1, "{samples:?}");
    let processes = host.pinfold(["export", "1", "--what", "processes"]);
    assert!(processes.out.starts_with("job,number,pid,parent,count,command"), "{processes:?}");
    let done = host.pinfold(["export", "--last", "9", "--format", "parquet", "-o", "jobs.parquet"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let bytes = std::fs::read(host.work("jobs.parquet")).expect("a file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    // Without --format the form is that of the file's ending, and another ending is no form.
    host.succeeds(["export", "--last", "9", "-o", "more.parquet"]);
    assert!(std::fs::read(host.work("more.parquet")).expect("it was written").starts_with(b"PAR1"));
    let other = host.pinfold(["export", "--last", "9", "-o", "more.foo"]);
    assert!(other.code == Some(2) && other.err.contains(".csv, .jsonl or .parquet"), "{other:?}");
    assert!(!host.work("more.foo").exists());
    host.succeeds(["export", "--last", "9", "-o", "more.foo", "--format", "csv"]);
    let nowhere = host.pinfold(["export", "--last", "1", "-o", "no/such/dir"]);
    assert!(nowhere.code == Some(1) && nowhere.err.contains("no/such/dir"), "{nowhere:?}");
}

fn store_as_a_file(kind: Kind) {
    let mut host = ran(kind);
    std::fs::write(host.work("own.txt"), "not a backup").expect("a file");
    let refused = host.pinfold(["backup", "own.txt"]);
    assert!(refused.code == Some(1) && refused.err.contains("--force"), "{refused:?}");
    assert_eq!(host.wrote("own.txt"), "not a backup");
    assert_eq!(host.pinfold(["backup", "copy.db"]).code, Some(0), "and once more over itself:");
    let backup = host.pinfold(["backup", "copy.db"]);
    assert!(backup.code == Some(0) && backup.out.contains("3 jobs"), "{backup:?}");
    let check = host.pinfold(["check", "--json"]);
    let found: Value = serde_json::from_str(&check.out).expect("JSON");
    assert_eq!((&found["jobs"], &found["problems"]), (&3.into(), &Value::Array(Vec::new())));
    let state = host.state().display().to_string();
    // A store elsewhere than was meant shows.
    assert!(backup.out.contains(&format!(" written from {state} and")), "{backup:?}");
    let busy = host.pinfold(["restore", "copy.db"]);
    assert!(busy.code == Some(1) && busy.err.contains("stop it"), "{busy:?}");
    let locked = host.pinfold(["restore", "--state-dir", &state, "copy.db"]);
    assert!(locked.code == Some(1) && locked.err.contains("stop it"), "{locked:?}");
    host.succeeds(["run", "--", "/bin/true"]);
    // What the daemon was not told yet of it, the next one would be.
    host.until(4, JobState::Exited);
    assert_eq!(host.stop(), Some(0));
    std::fs::write(host.work("bad.db"), b"no store at all").expect("a file");
    let bad = host.pinfold(["restore", "--state-dir", &state, "bad.db"]);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    let done = host.pinfold(["restore", "--state-dir", &state, "copy.db"]);
    assert!(done.code == Some(0) && done.out.contains("before-restore-1"), "{done:?}");
    assert!(done.out.starts_with(&format!("copy.db restored to {state}; ")), "{done:?}");
    host.start_daemon();
    let jobs = host.pinfold(["report", "--last", "9", "--json"]);
    assert_eq!(jobs.out.lines().count(), 3, "the fourth came after the backup: {jobs:?}");
    host.succeeds(["run", "--", "/bin/true"]);
}

/// No number that a user was told is given to another job. One that waits goes on waiting, under a number of its own.
fn numbers_after_an_earlier_copy(kind: Kind) {
    let mut host = Host::new(kind);
    host.succeeds(["run", "--", "/bin/true"]);
    host.until(1, JobState::Exited);
    host.succeeds(["backup", "copy.db"]);
    host.succeeds(["run", "--", "/bin/true"]);
    let held = host.submit(&["--hold"], "exit 3");
    host.until(held, JobState::Held);
    assert_eq!((held, host.stop()), (3, Some(0)));
    let (state, lock) = (host.state().display().to_string(), host.state().join("lock"));
    std::fs::remove_file(&lock).expect("the lock");
    host.succeeds(["restore", "--state-dir", &state, "copy.db"]);
    let made = std::fs::metadata(&lock).expect("the lock").permissions().mode();
    assert_eq!(made & 0o777, 0o600, "as a daemon makes it");
    host.start_daemon();
    let again = eventually("its keeper asks for it anew", || {
        host.status(&[]).jobs.first().map(|job| job.job).ok_or("it is not there")
    });
    let next = host.submit(&[], "exit 0");
    assert!(again > held && next > held && again != next, "{again} {next}");
    host.succeeds(["release", &again.to_string()]);
    host.until_exit_code(again, 3);
}

fn live(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms", "slots.factor=2"]);
    let job = host.submit(&["--name", "watched"], "until [ -e go ]; do sleep 0.05; done");
    host.until(job, JobState::Running);
    let screen = host.pinfold(["top", "--once", "--every", "100ms"]);
    assert_eq!(screen.code, Some(0), "{screen:?}");
    for word in ["slots 1 of", "running 1", "CORES", "watched"] {
        assert!(screen.out.contains(word), "{word} in {screen:?}");
    }
    eventually("ps shows the job's shell by its command line", || {
        let done = host.pinfold(["ps"]);
        if done.out.contains("COMMAND") && done.out.contains("until [ -e go ]") {
            Ok(())
        } else {
            Err(format!("{done:?}"))
        }
    });
    let named = host.pinfold(["ps", "--json", &job.to_string()]);
    let view: Value = serde_json::from_str(&named.out).expect("JSON");
    assert!(view["processes"].as_array().is_some_and(|all| !all.is_empty()), "{view}");
    host.make("go");
    host.until(job, JobState::Exited);
    let none = host.pinfold(["ps"]);
    assert_eq!((none.code, none.out.lines().count()), (Some(0), 1), "a line of names alone: {none:?}");
}
