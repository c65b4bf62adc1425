//! `pinfold advise replay` by its command line: what it prints, and tables that are wrong, odd or large. What is advised
//! is tested where that is decided.

use crate::kind::tests;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn replay(table: &str, options: &[&str]) -> Said {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(table.as_bytes()).expect("a table");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
    command.args(["advise", "replay"]).arg(file.path()).args(options).stdin(Stdio::null());
    let output = command.output().expect("pinfold starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

fn each_scored_job_and_the_sum() {
    let train: String = (0..30).map(|n| format!("sort,1,{}\n", 1_000_000_000 + n * 1_000_000)).collect();
    let table =
        format!("class,train,peak_bytes,wall_s\n{}sort,0,1010000000,3600\n", train.replace('\n', ",60\n"));
    let said = replay(&table, &["--json"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let lines: Vec<Value> = said.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["row"], 31);
    let first = lines[0]["attempts_bytes"][0].as_f64().expect("bytes");
    assert!((1.01e9..1.1e9).contains(&first), "{first}");
    assert_eq!(
        (&lines[1]["version"], &lines[1]["jobs"], &lines[1]["classes"]),
        (&1.into(), &1.into(), &1.into())
    );
    let waste = lines[1]["wastage_gbh"].as_f64().expect("GB x hours");
    assert!((waste - (first - 1.01e9) / 1e9).abs() < 1e-9, "{waste} after {first}");
    let words = replay(&table, &[]);
    assert!(
        words.out.starts_with("1 jobs of 1 classes: ") && words.out.lines().count() == 1,
        "{}",
        words.out
    );
}

/// As after `| head`, whether it ends before the replay does or after.
fn a_reader_that_has_seen_enough_is_success() {
    for rows in [1, 5000] {
        let table = format!("class,peak_bytes,wall_s\n{}", "a,1000000000,60\n".repeat(rows));
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(table.as_bytes()).expect("a table");
        for options in [&["--json"][..], &[]] {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
            command.args(["advise", "replay"]).arg(file.path()).args(options).stdin(Stdio::null());
            let output = command.stdout(writer).output().expect("pinfold starts");
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.status.code(), &*err), (Some(0), ""), "{rows} {options:?}");
        }
    }
}

fn the_same_seed_prints_the_same() {
    let mut table = "class,submit_s,end_s,input_bytes,request_bytes,peak_bytes,wall_s\n".to_owned();
    for n in 0..200u64 {
        let peak = 1_000_000_000 + n * 7_919_333 % 900_000_000;
        table += &format!("a,{n},{},{},4000000000,{peak},60\n", n + 5, n * 977 % 501);
    }
    let print = |options: &[&str]| replay(&table, options).out;
    let seeded = print(&["--json", "--seed", "7", "--risk", "0.02"]);
    assert_eq!(seeded.lines().count(), 201);
    assert_eq!(seeded, print(&["--json", "--seed", "7", "--risk", "0.02"]));
}

fn what_is_wrong_is_told_with_its_line() {
    let wrong = |table: &str, want: &str| {
        let said = replay(table, &["--json"]);
        assert_eq!(said.code, Some(1), "{table}");
        assert!(said.err.contains(want) && said.out.is_empty(), "{}", said.err);
    };
    wrong("class,wall_s\na,1\n", "line 0: the column peak_bytes is missing");
    wrong("class,peak_bytes,wall_s\na,1,1\na,NaN,1\n", "line 2: peak_bytes is `NaN`");
    wrong("class,peak_bytes,wall_s\na,-4,1\n", "line 1: peak_bytes is -4");
    for risk in ["0", "1", "NaN", "x"] {
        assert_eq!(replay("class,peak_bytes,wall_s\n", &["--risk", risk]).code, Some(2), "{risk}");
    }
    let nothing = replay("class,peak_bytes,wall_s\n", &["--json"]);
    assert_eq!(nothing.out.trim(), r#"{"version":1,"jobs":0,"failures":0,"wastage_gbh":0.0,"classes":0}"#);
}

fn a_long_history_is_answered() {
    let mut table = "class,input_bytes,peak_bytes,wall_s\n".to_owned();
    for n in 0..12_000u64 {
        let input = n * 7_919 % 10_007 + 1;
        table += &format!("a,{input},{},60\n", 1_000_000_000 + input * 100_000);
    }
    let said = replay(&table, &["--json"]);
    let last: Value = serde_json::from_str(said.out.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["jobs"], 12_000);
    let failures = last["failures"].as_u64().expect("a number");
    assert!(failures < 500, "{failures} of jobs that follow their input");
}

/// Whatever a table holds, it is answered with attempts that suffice, or refused with its line.
fn odd_tables_are_answered() {
    let of = |head: &str, lines: &[String]| {
        let said = replay(&format!("{head}\n{}\n", lines.join("\n")), &["--json"]);
        assert_eq!(said.code, Some(0), "{head}: {}", said.err);
        let mut told: Vec<Value> =
            said.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let sum = told.pop().expect("a sum");
        assert_eq!(sum["jobs"], told.len(), "{head}");
        assert!(sum["wastage_gbh"].as_f64().is_some_and(f64::is_finite), "{head}: {sum}");
        (told, sum)
    };
    let numbers =
        |count: u64, line: &dyn Fn(u64) -> String| -> Vec<String> { (0..count).map(line).collect() };
    // One class of one job, without a request and with one.
    let (told, _) = of("class,peak_bytes,wall_s", &["a,1000,1".to_owned()]);
    assert_eq!(told[0]["attempts_bytes"], serde_json::json!([4_000_000_000u64]));
    let (told, _) = of("class,request_bytes,peak_bytes,wall_s", &["a,7000000000,1000,1".to_owned()]);
    assert_eq!(told[0]["attempts_bytes"], serde_json::json!([7_000_000_000u64]));
    // All equal: from the fourth on close to what they need.
    let (told, sum) = of("class,peak_bytes,wall_s", &numbers(60, &|_| "a,2000000000,60".to_owned()));
    assert_eq!(sum["failures"], 0);
    let last = told[59]["attempts_bytes"][0].as_u64().expect("bytes");
    assert!((2_000_000_000..2_100_000_000).contains(&last), "{last}");
    // Peaks above each request, growing without end, falling, and in an order that deceives.
    let orders: [&dyn Fn(u64) -> u64; 4] =
        [&|n| 1 << (10 + n % 45), &|n| 1 << (n / 2).min(59), &|n| 1 << (59 - (n / 2).min(59)), &|n| {
            if n % 10 == 9 { 50_000_000_000 } else { 1_000_000 }
        }];
    for peak in orders {
        let head = "class,submit_s,end_s,input_bytes,request_bytes,peak_bytes,wall_s";
        let lines = numbers(120, &|n| format!("a,{n},{},{},1000000000,{},60", n * 2, n * n, peak(n)));
        let (told, _) = of(head, &lines);
        for (told, n) in told.iter().zip(0..) {
            let attempts = told["attempts_bytes"].as_array().expect("a list");
            let bytes: Vec<u64> = attempts.iter().map(|bytes| bytes.as_u64().expect("bytes")).collect();
            assert!(bytes[0] <= 1_000_000_000 && bytes.is_sorted(), "{bytes:?}");
            assert!(bytes.last().is_some_and(|&last| last >= peak(n)) && bytes.len() <= 65, "{bytes:?}");
        }
    }
    // Inputs that are missing here and there, of nothing, and of more than there is; lengths of nothing.
    let inputs = ["", "0", "1", "1e300", "5", ""];
    let lines = numbers(90, &|n| format!("a,{},{},{}", inputs[(n % 6) as usize], 1_000_000 * (n % 7), n % 3));
    of("class,input_bytes,peak_bytes,wall_s", &lines);
    let lines = numbers(40, &|n| format!("a,{},{},{},5", n % 4, 100 - n, 1_000_000 + n));
    of("class,submit_s,end_s,peak_bytes,wall_s", &lines);
}

tests! {
    Once: each_scored_job_and_the_sum, a_reader_that_has_seen_enough_is_success,
        the_same_seed_prints_the_same, what_is_wrong_is_told_with_its_line, a_long_history_is_answered,
        odd_tables_are_answered;
}
