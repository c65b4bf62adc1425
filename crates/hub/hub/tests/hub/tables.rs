//! Tables as files: each one as CSV and as Parquet, with the same columns and rows, which pyarrow reads.
use std::io::Write as _;
use std::process::Command;
use std::slice::from_ref as one;

use pinfold_hub::store::Kind;
use pinfold_hub::weekly::Week;
use pinfold_hubwire::bundle;
use serde_json::Value;

use crate::common::{Served, bearer, bundle_of, report, token};

/// What pyarrow finds in each file: the names of its columns, their types, and its rows.
const READ: &str = "import sys, json, pyarrow.parquet as p\n\
                    for path in sys.argv[1:]:\n\
                    \x20   t = p.read_table(path)\n\
                    \x20   print(json.dumps([t.schema.names, [str(f.type) for f in t.schema], t.to_pylist()]))";

const TABLES: [&str; 11] = [
    "jobs",
    "classes",
    "classes/weeks",
    "users",
    "projects",
    "audit",
    "jobs/1/series",
    "compare",
    "workflows",
    "workflows/steps",
    "weekly",
];

#[test]
fn each_table_is_there_as_csv_and_as_parquet() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(&dir.path().join("hub.db"), None);
    let host = token(&served.hub.store, Kind::Host, "alpha");
    let job = |job: u64| {
        let mut report = report(job, if job == 3 { "=1+1" } else { "align, \"é\"" }, 5);
        report.comment = Some("workflow=w run=r".to_owned());
        report
    };
    // Enough of one name for advice.
    let jobs = (1..=3).chain(5..=7).map(job).collect();
    let packed = bundle::pack(&bundle_of(jobs)).unwrap();
    assert_eq!(served.request("POST", "/api/v1/bundles", &[bearer(&host)], &packed).status, 200);
    let cookie = served.sign_in();
    let mut files = Vec::new();
    let mut wanted = Vec::new();
    for table in TABLES {
        let csv = served.get(&format!("/{table}.csv?{}", query(table)), one(&cookie));
        assert!(csv.head.contains("text/csv"), "{table}: {}", csv.head);
        let mut lines = csv.body.split("\r\n").filter(|line| !line.is_empty());
        let names: Vec<String> = lines.next().unwrap().split(',').map(str::to_owned).collect();
        wanted.push((names, lines.count()));
        let bytes = served.get_bytes(&format!("/{table}.parquet?{}", query(table)), one(&cookie));
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{table}");
        let file = dir.path().join(format!("{}.parquet", table.replace('/', "-")));
        std::fs::write(&file, bytes).unwrap();
        files.push(file);
        // Only for those who are signed in.
        assert_eq!(served.get(&format!("/{table}.parquet?{}", query(table)), &[]).status, 303, "{table}");
    }
    let python = std::env::var("PINFOLD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import pyarrow.parquet"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        let reason = "in part skipped: no python3 with pyarrow (PINFOLD_PYTHON names one)\n";
        let _ = std::io::stdout().write_all(reason.as_bytes());
        return;
    }
    let output = Command::new(&python).args(["-c", READ]).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let read: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read.len(), TABLES.len());
    for ((table, read), (names, rows)) in TABLES.iter().zip(&read).zip(&wanted) {
        assert_eq!(read[0], serde_json::json!(names), "{table}");
        assert_eq!(read[2].as_array().unwrap().len(), *rows, "{table}");
        assert!(*rows > 0, "{table}");
    }
    let jobs = read[0][2].as_array().unwrap();
    let mut found: Vec<(&str, u64, f64)> = jobs
        .iter()
        .map(|job| {
            (job["name"].as_str().unwrap(), job["job"].as_u64().unwrap(), job["ended"].as_f64().unwrap())
        })
        .collect();
    found.sort_by_key(|job| job.1);
    let ended_s = |job: u64| report(job, "x", 0).ended_s.unwrap();
    let align = "align, \"é\"";
    found.truncate(3);
    assert_eq!(found, [(align, 1, ended_s(1)), (align, 2, ended_s(2)), ("=1+1", 3, ended_s(3))]);
    assert_eq!(jobs[0]["claim_bytes"], 4u64 << 30);
    assert_eq!(jobs[0]["project"], Value::Null);
    assert_eq!(jobs[0]["unused_gibh"], 0.05, "3 GiB for a minute");
}

#[test]
fn a_run_of_many_steps_shows_the_largest_and_its_files_have_all() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(&dir.path().join("hub.db"), None);
    let host = token(&served.hub.store, Kind::Host, "alpha");
    let job = |job: u64| {
        let mut report = report(job, "x", 0);
        report.comment = Some(format!("workflow=w run=r step=s{job}"));
        // The first three have the fewest core hours.
        report.cores = if job <= 3 { 1 } else { 2 };
        report
    };
    let packed = bundle::pack(&bundle_of((1..=503).map(job).collect())).unwrap();
    assert_eq!(served.request("POST", "/api/v1/bundles", &[bearer(&host)], &packed).status, 200);
    let cookie = served.sign_in();
    let page = served.get("/workflows/run?workflow=w&user=ann&run=r", one(&cookie)).body;
    assert!(page.contains("3 steps with fewer core hours are left out"), "{page}");
    let steps = page.split("aria-label=\"Steps\"").nth(1).unwrap().split("</table>").next().unwrap();
    assert_eq!(steps.matches("<tr>").count(), 1 + 500);
    for (step, shown) in [("s1", false), ("s3", false), ("s4", true), ("s503", true)] {
        assert_eq!(steps.contains(&format!(">{step}</td>")), shown, "{step}");
    }
    let csv = served.get("/workflows/steps.csv?workflow=w&user=ann&run=r", one(&cookie)).body;
    assert_eq!(csv.lines().count(), 1 + 503);
}

/// All of them, and of an act no filter.
fn query(table: &str) -> String {
    let week = || Week::of(bundle::microseconds(report(1, "x", 0).ended_s.unwrap()));
    match table {
        "audit" | "jobs/1/series" => String::new(),
        "classes/weeks" => "days=3650&name=*".to_owned(),
        "compare" => "job=1&job=3".to_owned(),
        "workflows/steps" => "workflow=w&user=ann&run=r".to_owned(),
        "weekly" => format!("week={}", week()),
        _ => "days=3650".to_owned(),
    }
}
