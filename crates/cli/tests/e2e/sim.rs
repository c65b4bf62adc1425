//! `pinfold sim` by its command line: logs that are sound, cut short, wrong or empty. What each rule makes of a log is
//! tested where the rules are.

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
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
    command.args(["sim", "--swf"]).arg(log).args(arguments).stdin(Stdio::null());
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

#[test]
fn runs_beside_each_other() {
    let dir = tempfile::tempdir().expect("a directory");
    for bytes in [LOG.as_bytes().to_vec(), compressed(LOG.as_bytes())] {
        let said = sim(
            &file(dir.path(), &bytes),
            &["--json", "--compare", "dispatch=fcfs,easy", "--compare", "cores=4,5"],
        );
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.err.contains("1 of 4 jobs are not played: 1 wider than the machine"), "{}", said.err);
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

#[test]
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

#[test]
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
        (&whole[..whole.len() / 2], &[], 1, "failed to read"),
    ];
    for (bytes, arguments, code, words) in cases {
        let said = sim(&file(dir.path(), bytes), arguments);
        assert!(said.code == Some(code) && said.err.contains(words), "{words}: {:?} {}", said.code, said.err);
        assert!(said.out.is_empty(), "{}", said.out);
    }
    let said = sim(Path::new("/nonexistent.swf"), &[]);
    assert!(said.code == Some(1) && said.err.contains("/nonexistent.swf"), "{}", said.err);
}
