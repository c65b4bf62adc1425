//! `pinfold advise` of jobs that ran: what is learned from the daemon's store, in JSON, in words, and in the words of other
//! systems. How figures come about is tested where they are made.

use std::os::unix::fs::PermissionsExt as _;

use pinfold_proto::JobState;
use serde_json::Value;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::users::{as_nobody, shared};
use crate::wait::eventually;

tests! {
    Best: a_class_that_asks_for_too_much, a_class_of_too_few_runs, the_size_of_inputs_is_known;
    Once: of_other_users;
}

const MIB: u64 = 1 << 20;

/// Runs `count` jobs of the class `hold`, each of which holds 40 MiB and asks for 2 GiB.
fn run_jobs(host: &Host, count: usize) {
    let script = "(head -c 40M /dev/zero; : >held-$PINFOLD_JOB_ID; until [ -e go ]; do sleep 0.05; done) | tail -n 1 >/dev/null";
    for _ in 0..count {
        let job = host.submit(&["--name", "hold", "--mem", "2GiB"], script);
        let full = eventually("it holds all", || {
            let report = host.report(job);
            if report.memory_peak_bytes > 38 * MIB { Ok(report) } else { Err(format!("{report:?}")) }
        });
        // That is as of this moment; what is kept is what was sampled.
        eventually("it was sampled with all that it holds", || {
            let report = host.report(job);
            if report.samples > full.samples { Ok(()) } else { Err(format!("{report:?}")) }
        });
        host.make("go");
        host.until(job, JobState::Exited);
        std::fs::remove_file(host.work("go")).expect("it was made");
    }
}

fn host(kind: Kind) -> Host {
    Host::with(kind, &["profile.interval=50ms", "host.memory=8GiB"])
}

fn classes(host: &Host, options: &[&str]) -> Vec<Value> {
    let done = host.pinfold([&["advise", "--json"], options].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    let mut view: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(view["version"], 1);
    serde_json::from_value(view["classes"].take()).expect("a list")
}

fn a_class_that_asks_for_too_much(kind: Kind) {
    let host = host(kind);
    run_jobs(&host, 4);
    assert_eq!(host.pinfold(["run", "--name", "other", "--", "false"]).code, Some(1));
    // A busy daemon has its end on record later than the command returns.
    host.until(5, JobState::Exited);
    assert_eq!(classes(&host, &[]).len(), 2);
    let views = classes(&host, &["--name", "hold"]);
    let [view] = &views[..] else { panic!("{views:?}") };
    assert_eq!((&view["class"], &view["jobs"]), (&"hold".into(), &4.into()), "{view}");
    assert_eq!(view["requested_bytes"], 2048 * MIB);
    let bytes = |key: &str| view[key].as_u64().unwrap_or_else(|| panic!("{key}: {view}"));
    let (median, most, advised) = (bytes("peak_p50_bytes"), bytes("peak_p99_bytes"), bytes("advised_bytes"));
    assert!(38 * MIB < median && median <= most && most < advised && advised < 512 * MIB, "{view}");
    assert!(view["saved_gbh"].as_f64().is_some_and(|saved| saved > 0.0), "{view}");
    for key in ["risk", "risk_interval", "wall_p50_s", "wall_advised_s", "cores_advised", "why"] {
        assert!(!view[key].is_null(), "{key}: {view}");
    }
    let told = host.pinfold(["advise"]);
    assert!(told.out.contains("hold: it asks for 2.00 GiB, and 99 of 100 runs held"), "{told:?}");
    let own = host.pinfold(["advise", "--user", view["user"].as_str().expect("a name"), "--json"]);
    assert_eq!(own.code, Some(0), "one's own: {own:?}");
    let pasted = host.pinfold(["advise", "--format", "slurm"]);
    assert!(pasted.out.contains("\n#SBATCH --mem=") && pasted.err.contains("1 of 2 classes"), "{pasted:?}");
    by_month(&host, view);
    applied(&host);
    let drawn = host.pinfold(["advise", "--name", "hold", "-o", "hold.svg"]);
    assert_eq!(drawn.code, Some(0), "{drawn:?}");
    let picture = host.wrote("hold.svg");
    assert!(picture.starts_with("<svg") && picture.contains("asked for") && picture.contains("advised"));
}

/// The months of the class add up to the class, as advice tells of it in `class`.
fn by_month(host: &Host, class: &Value) {
    let done = host.pinfold(["advise", "--by", "month", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let sheet: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!((&sheet["version"], &sheet["by"]), (&1.into(), &"month".into()), "{sheet}");
    let months = sheet["months"].as_array().expect("a list");
    // Jobs that ran at the end of a month are in two.
    let sum = |class: &str, key: &str| {
        let rows = months.iter().filter(|row| row["class"] == class);
        rows.map(|row| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"))).sum::<f64>()
    };
    let count = |class: &str, key: &str| {
        let rows = months.iter().filter(|row| row["class"] == class);
        rows.map(|row| row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"))).sum::<u64>()
    };
    assert_eq!([count("hold", "jobs"), count("hold", "failed"), count("other", "failed")], [4, 0, 1]);
    for key in ["requested_gbh", "saved_gbh"] {
        let want = class[key].as_f64().expect("a number");
        assert!((sum("hold", key) - want).abs() <= 1e-9 * want.abs(), "{key}: {sheet}");
    }
    let used = sum("hold", "used_gbh");
    assert!(used > 0.0 && used < sum("hold", "requested_gbh") / 4.0, "{sheet}");
    let told = host.pinfold(["advise", "--by", "month", "--name", "hold"]);
    let month = months[0]["month"].as_str().expect("a month");
    assert!(told.out.contains(month) && told.out.contains("\nall: "), "{told:?}");
    for wrong in [
        &["--by", "week"][..],
        &["--by", "month", "--format", "slurm"],
        &["--by", "month", "--input", "1GB"],
        &["--by", "month", "--name", "hold", "-o", "hold.svg"],
        &["--by", "month", "--since", "never"],
    ] {
        let done = host.pinfold([&["advise"], wrong].concat());
        assert_eq!(done.code, Some(2), "{wrong:?}: {done:?}");
    }
}

fn the_size_of_inputs_is_known(kind: Kind) {
    let host = host(kind);
    std::fs::write(host.work("in.txt"), "x".repeat(5_000)).expect("it can be written");
    for _ in 0..3 {
        assert_eq!(host.pinfold(["run", "--", "wc", "-c", "in.txt"]).code, Some(0));
    }
    let line = host
        .pinfold(["submit", "--", "sh", "-c", "cat <in.txt >out.txt"])
        .out
        .trim()
        .parse()
        .expect("a number");
    host.until(line, JobState::Exited);
    assert_eq!(host.report(line).input_bytes, Some(5_000));
    let none = host.pinfold(["submit", "--", "true", "in.no"]).out.trim().parse().expect("a number");
    host.until(none, JobState::Exited);
    assert_eq!(host.report(none).input_bytes, None);
    let views = classes(&host, &["--name", "wc", "--input", "5KB"]);
    assert_eq!((views.len(), &views[0]["input_p50_bytes"]), (1, &5_000.into()), "{views:?}");
}

/// Files for a workload manager, in a directory that is made.
fn applied(host: &Host) {
    let done = host.pinfold(["advise", "--format", "gridengine", "--apply", "lower"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("name one by --to DIR"), "{done:?}");
    let done = host.pinfold(["advise", "--format", "gridengine", "--apply", "lower", "--to", "site/jsv"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let made: Vec<&str> = done.out.lines().collect();
    assert_eq!(
        made,
        ["site/jsv/pinfold-jsv.sh", "site/jsv/pinfold-advice.tsv", "site/jsv/pinfold-epilog.sh"]
    );
    let table = host.wrote("site/jsv/pinfold-advice.tsv");
    assert!(table.lines().nth(1).is_some_and(|line| line.contains("\thold\t")), "{table}");
    let mode = std::fs::metadata(host.work("site/jsv/pinfold-jsv.sh")).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o111, 0o111);
    for arguments in
        [&["advise", "--apply", "fill"][..], &["advise", "--format", "pinfold", "--apply", "fill"]]
    {
        assert_eq!(host.pinfold(arguments).code, Some(2), "{arguments:?}");
    }
}

fn a_class_of_too_few_runs(kind: Kind) {
    let host = host(kind);
    let nothing = host.pinfold(["advise"]);
    assert_eq!((nothing.code, nothing.out.as_str()), (Some(0), "no job that is over\n"));
    let nothing = host.pinfold(["advise", "--by", "month"]);
    assert_eq!((nothing.code, nothing.out.as_str()), (Some(0), "no job that is over\n"));
    run_jobs(&host, 1);
    let views = classes(&host, &[]);
    assert!(views[0]["advised_bytes"].is_null() && views[0]["risk"].is_null(), "{views:?}");
    assert!(views[0]["why"].as_str().is_some_and(|why| why.starts_with("only 1 run of it")), "{views:?}");
    let pasted = host.pinfold(["advise", "--format", "snakemake"]);
    assert!(pasted.out.ends_with("# no rule's needs are known\n"), "{pasted:?}");
    assert!(pasted.err.contains("1 of 1 classes are left out"), "{pasted:?}");
}

/// A user sees advice on jobs of one's own; on others' only operators do, without the words that were run.
fn of_other_users() {
    let host = shared(&["profile.interval=50ms"]);
    for _ in 0..3 {
        let job = host.submit(&["--name", "theirs", "--mem", "1GiB"], ": s3cr3t");
        host.until(job, JobState::Exited);
    }
    let done = as_nobody(&host, &["advise", "--json"]);
    assert!(done.code == Some(0) && done.out.contains("\"classes\":[]"), "{done:?}");
    for arguments in [
        &["advise", "--all"][..],
        &["advise", "--all", "--json", "--name", "theirs"],
        &["advise", "--user", "root"],
        &["advise", "--all", "--by", "month"],
        &["advise", "--all", "--format", "slurm", "--apply", "fill", "--to", "/tmp/never"],
    ] {
        let done = as_nobody(&host, arguments);
        assert_eq!(done.code, Some(3), "{arguments:?}: {done:?}");
        assert!(done.out.is_empty() && !done.err.contains("theirs"), "{arguments:?}: {done:?}");
    }
    for arguments in [&["advise", "--all", "--json"][..], &["advise", "--all"]] {
        let root = host.pinfold(arguments);
        assert!(root.code == Some(0) && root.out.contains("theirs"), "{arguments:?}: {root:?}");
        assert!(!root.out.contains("s3cr3t"), "{arguments:?}: {root:?}");
    }
    host.succeeds(["config", "set", "access.operators=nobody"]);
    let operator = as_nobody(&host, &["advise", "--all", "--json"]);
    assert_eq!(operator.code, Some(0), "the rights hold once that is answered: {operator:?}");
    assert!(operator.out.contains("theirs") && !operator.out.contains("s3cr3t"), "{operator:?}");
}
