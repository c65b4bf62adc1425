//! `pinfold sim` by its command line: logs, lists and graphs that are sound, cut short, wrong or empty. What rules and
//! hosts make of jobs is tested where they are.

use crate::kind::tests;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::{Compression, write::GzEncoder};

const LOG: &str = "; MaxProcs: 4\n\
                   1 0 -1 100 4 -1 -1 4 100 -1 1 1 1 -1 -1 -1 -1 -1\n\
                   2 1 -1 50 4 -1 -1 4 50 -1 1 1 1 -1 -1 -1 -1 -1\n\
                   3 2 -1 10 1 -1 -1 1 10 -1 1 2 1 -1 -1 -1 -1 -1\n\
                   4 3 -1 10 9 -1 -1 9 10 -1 1 2 1 -1 -1 -1 -1 -1\n";

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn sim(log: &Path, arguments: &[&str]) -> Said {
    played("--swf", log, arguments)
}

fn played(option: &str, file: &Path, arguments: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
    command.args(["sim", option]).arg(file).args(arguments).stdin(Stdio::null());
    let output = command.output().expect("pinfold starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

fn file(dir: &Path, bytes: &[u8]) -> PathBuf {
    let path = dir.join("log.swf");
    std::fs::write(&path, bytes).expect("a log");
    path
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("into memory");
    encoder.finish().expect("into memory")
}

fn runs_beside_each_other() {
    let dir = tempfile::tempdir().expect("a directory");
    for bytes in [LOG.as_bytes().to_vec(), compressed(LOG.as_bytes())] {
        let said = sim(
            &file(dir.path(), &bytes),
            &["--json", "--compare", "dispatch=fcfs,easy", "--compare", "cores=4,5"],
        );
        assert_eq!(said.code, Some(0), "{}", said.err);
        // The same for all runs, it is said once.
        let left_out = "1 of 4 jobs are not played: 1 wider than the machine";
        assert_eq!(said.err.matches(left_out).count(), 1, "{}", said.err);
        let view: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        let runs = view["runs"].as_array().expect("runs");
        let figures: Vec<_> =
            runs.iter().map(|run| (run["label"].as_str(), run["makespan_s"].as_f64())).collect();
        // With a fifth processor the third job runs beside the first, unless nothing may pass the second.
        let want = [("fcfs", 4, 160.0), ("fcfs", 5, 150.0), ("easy", 4, 160.0), ("easy", 5, 150.0)];
        for (got, (rule, cores, makespan)) in figures.iter().zip(want) {
            assert_eq!(*got, (Some(format!("dispatch={rule} cores={cores}").as_str()), Some(makespan)));
        }
        let waits: Vec<_> = runs.iter().map(|run| run["mean_wait_s"].as_f64().expect("a wait")).collect();
        assert!(waits[3] < waits[1], "{waits:?}");
    }
}

fn starts_of_each_job() {
    let dir = tempfile::tempdir().expect("a directory");
    let starts = dir.path().join("starts.csv");
    let path = starts.to_str().expect("text");
    let said = sim(&file(dir.path(), LOG.as_bytes()), &["--starts", path]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("dispatch=easy runtimes=requested"), "{}", said.out);
    let rows = std::fs::read_to_string(&starts).expect("the starts");
    assert_eq!(rows, "job,start_s,end_s,host\n1,0,100,0\n2,100,150,0\n3,150,160,0\n");
    let said = sim(&file(dir.path(), LOG.as_bytes()), &["--starts", path, "--compare", "cores=4,5"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    let said = sim(&file(dir.path(), LOG.as_bytes()), &["--starts", "/nonexistent/starts.csv"]);
    assert!(
        said.code == Some(1) && said.err.contains("failed to write /nonexistent/starts.csv"),
        "{}",
        said.err
    );
}

/// Each core of a job is a bar: a few wide jobs are more of them than a picture can show.
fn a_picture_of_more_than_can_be_drawn_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = "; MaxProcs: 400000\n".to_owned()
        + &LOG.lines().skip(1).take(2).map(|line| line.replace(" 4 ", " 300000 ") + "\n").collect::<String>();
    let picture = dir.path().join("picture.svg");
    let said = sim(&file(dir.path(), log.as_bytes()), &["-o", picture.to_str().expect("text")]);
    assert!(said.code == Some(2) && said.err.contains("2 jobs on 600000 cores"), "{}", said.err);
    assert!(!picture.exists());
}

fn what_is_wrong_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let whole = compressed(LOG.repeat(200).as_bytes());
    let headless = LOG.split_once('\n').expect("lines").1;
    let cases: [(&[u8], &[&str], i32, &str); 9] = [
        (b"", &[], 2, "its header does not say how many processors there are; say --cores N"),
        (headless.as_bytes(), &[], 2, "say --cores N"),
        (headless.as_bytes(), &["--cores", "0"], 2, "--cores"),
        (LOG.as_bytes(), &["--compare", "dispatch"], 2, "it takes KEY=V1,V2"),
        (LOG.as_bytes(), &["--compare", "dispatch=fcfs,lifo"], 2, "lifo"),
        (LOG.as_bytes(), &["--compare", "slots=1"], 2, "there is no key `slots`"),
        (b"; MaxProcs: 4\n1 2 3\n", &[], 1, "line 2 has 3 fields, and a job has 18"),
        (b"; MaxProcs: 4\n", &[], 1, "there is no job to play"),
        (&whole[..whole.len() / 2], &[], 1, "the compressed file is cut short"),
    ];
    for (bytes, arguments, code, words) in cases {
        let said = sim(&file(dir.path(), bytes), arguments);
        assert!(said.code == Some(code) && said.err.contains(words), "{words}: {:?} {}", said.code, said.err);
        assert!(said.out.is_empty(), "{}", said.out);
    }
    let said = sim(Path::new("/nonexistent.swf"), &[]);
    assert!(said.code == Some(1) && said.err.contains("/nonexistent.swf"), "{}", said.err);
}

fn hosts_that_decide_for_themselves() {
    let dir = tempfile::tempdir().expect("a directory");
    // Four jobs that compute half of their time and hold 2 GB each; the last waits for the first two.
    let job = |number: u32, after: &str| {
        format!(
            "{{\"job\":{number},\"wall_s\":100,\"cpu_s\":50,\"memory_peak_bytes\":2000000000,\"after\":[{after}]}}\n"
        )
    };
    let text = [job(1, ""), job(2, ""), job(3, ""), job(4, "1,2")].concat();
    let file = file(dir.path(), text.as_bytes());
    let hosts = ["--cores", "2", "--memory", "8GiB", "--swap", "8GiB"];
    let compared = ["--json", "--compare", "slots.factor=1,2", "--compare", "host-policy=plain,pinfold"];
    let said = played("--jobs", &file, &[&hosts[..], &compared[..]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    let view: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    let runs = view["runs"].as_array().expect("runs");
    let turnarounds: Vec<f64> =
        runs.iter().map(|run| run["mean_turnaround_s"].as_f64().expect("a mean")).collect();
    assert_eq!(runs[3]["label"], "slots.factor=2 host-policy=pinfold");
    assert_eq!(runs[3]["killed"], 0);
    assert!(turnarounds[3] < turnarounds[2], "{turnarounds:?}");

    let (picture, starts) = (dir.path().join("run.svg"), dir.path().join("starts.csv"));
    let (picture, starts) = (picture.to_str().expect("text"), starts.to_str().expect("text"));
    let said = played(
        "--jobs",
        &file,
        &[&hosts[..], &["-o", picture, "--starts", starts, "--repeat", "3"]].concat(),
    );
    assert!(said.code == Some(0) && said.out.contains("in all replays"), "{} {}", said.out, said.err);
    let drawn = std::fs::read_to_string(picture).expect("a picture");
    assert!(drawn.contains("memory (GiB)") && drawn.contains("hosts with a row for each core"), "{drawn}");
    assert_eq!(std::fs::read_to_string(starts).expect("starts").lines().count(), 5);
}

fn what_is_wrong_with_lists_and_hosts_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let circle = "{\"wall_s\":1,\"after\":[2]}\n{\"wall_s\":1,\"after\":[1]}\n";
    let one = "{\"wall_s\":1}\n";
    let table = "id,runtime_s,parents\n0,1.5,\n1,0.25,0\n";
    let long = format!("{{\"wall_s\":1,\"name\":\"{}\"}}", "n".repeat(1 << 20));
    let cases: [(&str, &str, &[&str], i32, &str); 15] = [
        ("--jobs", circle, &[], 1, "jobs wait for each other in a circle: 1 waits for 2 waits for 1"),
        ("--jobs", "{\"wall_s\":1,\"cors\":2}", &[], 1, "line 1: unknown field `cors`"),
        ("--jobs", "", &[], 1, "there is no job to play"),
        ("--jobs", one, &["--set", "slots.factor=9"], 2, "`slots.factor` is 9"),
        ("--jobs", one, &["--set", "slots.factor=0"], 1, "1 of 1 jobs never ended"),
        ("--jobs", one, &["--cores", "2", "--swap", "1GiB"], 2, "--swap needs --memory"),
        (
            "--jobs",
            one,
            &["--host-policy", "plain", "--set", "slots.factor=2"],
            2,
            "say --host-policy pinfold",
        ),
        ("--jobs", one, &["--cores", "2000"], 2, "a host of 2000 cores"),
        ("--wfinstance", "id,runtime_s\n", &[], 1, "its header has no column `parents`"),
        ("--wfinstance", table, &["--cores", "2"], 0, ""),
        ("--swf", LOG, &["--set", "slots.factor=2", "--hosts", "0"], 2, "--hosts"),
        (
            "--swf",
            LOG,
            &["--set", "hosts=4000000000"],
            2,
            "`4000000000` is not a whole number from 1 to 1000000",
        ),
        ("--jobs", &long, &[], 1, "line 1 is longer than 1.00 MiB"),
        ("--swf", &long, &["--cores", "2"], 1, "line 1 is longer than 1.00 MiB"),
        ("--jobs", "\u{feff}{\"wall_s\":1}\n", &["--cores", "2"], 0, ""),
    ];
    for (option, text, arguments, code, words) in cases {
        let said = played(option, &file(dir.path(), text.as_bytes()), arguments);
        assert!(said.code == Some(code) && said.err.contains(words), "{words}: {:?} {}", said.code, said.err);
    }
}

fn what_was_measured_is_used_and_said() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
        command.arg("sim").args(arguments).stdin(Stdio::null()).current_dir(dir.path());
        let output = command.env("PINFOLD_STATE_DIR", dir.path().join("state")).output().expect("it starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    };
    let none = run(&["calibrate", "--show"]);
    assert!(none.code == Some(1) && none.err.contains("`pinfold sim calibrate` measures it"), "{}", none.err);
    let said = run(&["calibrate", "--seconds", "3", "--json"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let found: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert!(found["compute_full"].as_f64().is_some_and(|part| part > 0.0 && part <= 1.0), "{found}");
    assert!(found["disk_all_bytes_per_s"].as_u64() > Some(0), "{found} {}", said.err);
    // Two jobs want ten times what this disk gives: they take ten times as long.
    let disk = 1_000_000;
    let file = dir.path().join("state/calibration.json");
    let change = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut changed = found.clone();
        // How long single requests take here and now is nothing to count with.
        changed["disk_requests_per_s"] = serde_json::Value::Null;
        change(&mut changed);
        std::fs::write(&file, changed.to_string()).expect("a calibration");
    };
    change(&|value| value["disk_all_bytes_per_s"] = disk.into());
    let line = format!("{{\"wall_s\":10,\"cpu_s\":0,\"io_bytes\":{}}}\n", 50 * disk);
    std::fs::write(dir.path().join("list.jsonl"), line.repeat(2)).expect("a list");
    let played = |arguments: &[&str]| {
        let said = run(&[&["--jobs", "list.jsonl", "--json", "--set", "slots.factor=4"], arguments].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        let view: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        (view["runs"][0]["makespan_s"].as_f64().expect("a makespan"), view["calibration"].is_object())
    };
    let (makespan_s, used) = played(&[]);
    assert!(used && (makespan_s - 100.0).abs() < 1.0, "{makespan_s}");
    assert_eq!(played(&["--calibration", "none"]), (10.0, false));
    // Another host's figures are for those who name them.
    assert_eq!(played(&["--cores", "4"]), (10.0, false));
    assert!(played(&["--cores", "4", "--calibration", "state/calibration.json"]).0 > 90.0);
    change(&|value| value["cores"] = 9999.into());
    let said = run(&["--jobs", "list.jsonl"]);
    assert!(said.code == Some(0) && said.err.contains("measured on 9999 cores"), "{}", said.err);
    let said = run(&["--jobs", "list.jsonl", "--calibration", "/dev/zero"]);
    assert!(said.code == Some(1) && said.err.contains("too large to be a calibration"), "{}", said.err);
    change(&|value| value["version"] = 99.into());
    let said = run(&["--jobs", "list.jsonl"]);
    let left_out = said.err.contains("calibration.json is left out: another version");
    assert!(said.code == Some(0) && left_out, "{}", said.err);
    let said = run(&["--jobs", "list.jsonl", "--calibration", "state/calibration.json"]);
    assert!(said.code == Some(1) && said.err.contains("another version"), "{}", said.err);
}

fn what_a_pipe_gives_is_played_once() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
        command.args(["sim", "--swf", "/dev/stdin"]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("pinfold starts");
        // A command that refuses reads nothing.
        let _ = child.stdin.take().expect("a pipe").write_all(LOG.as_bytes());
        let output = child.wait_with_output().expect("it ends");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, err) = run(&[]);
    assert_eq!(code, Some(0), "{err}");
    for arguments in [["--repeat", "2"], ["--compare", "cores=4,5"]] {
        let (code, err) = run(&arguments);
        assert!(code == Some(2) && err.contains("can be read once, and each of 2 runs reads it"), "{err}");
    }
}

fn what_if_jobs_asked_for_other_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let gib = 1_u64 << 30;
    // Each asks for eight times what it needs, so that the requests of two do not fit beside each other.
    let job = |at_s: u32| {
        format!(
            "{{\"wall_s\":100,\"submit_s\":{at_s},\"memory_peak_bytes\":{gib},\"memory_request_bytes\":{},\
             \"user\":\"u\",\"name\":\"n\"}}\n",
            8 * gib
        )
    };
    let list: String = (0..4).map(|n| job(n * 1000)).chain((0..4).map(|_| job(5000))).collect();
    let path = file(dir.path(), list.as_bytes());
    let host = ["--cores", "4", "--memory", "10GiB", "--swap", "0", "--host-policy", "plain", "--json"];
    let makespans = |question: &str| {
        let said = played("--jobs", &path, &[&host[..], &["--what-if", question]].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        let view: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        let of = |run: usize| view["runs"][run]["makespan_s"].as_f64().expect("a makespan");
        (of(0), of(1), said.err)
    };
    let (before_s, after_s, words) = makespans("jobs with --mem 2GiB");
    assert_eq!((before_s, after_s), (5400.0, 5100.0));
    assert!(words.contains("8 of 8 jobs ask for other memory than they did; 0 came to hold more"), "{words}");
    // The first four had ended before the others came: their classes are known.
    let (_, after_s, words) = makespans("--mem advised");
    assert_eq!((after_s, words.contains("5 of 8 jobs")), (5100.0, true), "{words}");
    let host = &host[..host.len() - 1];
    let said = played("--jobs", &path, &[host, &["--what-if", "--mem 2GiB", "--repeat", "2"]].concat());
    // Eight jobs of 100 s ask for 7 GiB each that they do not hold: 1.67 GB x hours; then for 1 GiB: 0.24.
    let all = ["WASTED", "1.7 GBh", "0.2 GBh", "in all replays: makespan 1 h ", ", 95% wait "];
    assert!(all.into_iter().all(|words| said.out.contains(words)), "{}", said.out);
    let said = played("--jobs", &path, &["--what-if", "--mem 2GiB", "-o", "picture.svg"]);
    assert!(said.code == Some(2) && said.err.contains("leave out --what-if"), "{}", said.err);
    let said = played("--jobs", &path, &["--what-if", "all jobs with --cores 3"]);
    assert!(said.code == Some(2) && said.err.contains("`--cores` is not understood"), "{}", said.err);
    let said = sim(&file(dir.path(), LOG.as_bytes()), &["--set", "mem=advised"]);
    assert!(said.code == Some(2) && said.err.contains("a log's jobs"), "{}", said.err);
}

tests! {
    Once: runs_beside_each_other, starts_of_each_job, a_picture_of_more_than_can_be_drawn_is_refused,
        what_is_wrong_is_named, hosts_that_decide_for_themselves,
        what_is_wrong_with_lists_and_hosts_is_named, what_was_measured_is_used_and_said,
        what_a_pipe_gives_is_played_once, what_if_jobs_asked_for_other_memory;
}
