//! What the host as a whole did, read while a job runs.

use pinfold_profile::store::Store;
use pinfold_proto::JobState;
use pinfold_proto::host::{HostPoint, HostRow, HostView};
use pinfold_proto::view::StatusView;
use pinfold_testkit::ignore;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Best: while_a_job_runs, drawn_written_and_scrolled_back_to, many_readings;
}

fn view(host: &Host, since: &str) -> HostView {
    let done = host.pinfold(["host", "--json", "--since", since]);
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.out).expect("one JSON object")
}

fn while_a_job_runs(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    assert_eq!(view(&host, "1h").samples, [], "nothing ran");
    let none = host.pinfold(["host"]);
    assert!(none.out.contains("while jobs run"), "{none:?}");
    let job = host.submit(&[], "until [ -e go ]; do sleep 0.02; done");
    let told = eventually("the host was read", || {
        let told = view(&host, "1h");
        if told.samples.is_empty() { Err(format!("{told:?}")) } else { Ok(told) }
    });
    let first = told.samples[0];
    assert!(told.pus > 0 && (1..told.memory_bytes).contains(&first.memory_used_bytes), "{told:?}");
    assert_eq!((first.span_s, first.cpu_busy), (None, None), "there is none before it: {told:?}");
    assert!(first.time_s >= host.job(job).submitted_s, "{told:?}");
    let text = host.pinfold(["host", "--since", "1d"]);
    assert!(text.out.contains("PUS BUSY") && text.out.contains(" reading"), "{text:?}");
    assert_eq!(view(&host, "2100-01-01").samples, [], "nothing since then");
    let wrong = host.pinfold(["host", "--since", "2100-02-30"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("--since"), "{wrong:?}");
    host.make("go");
    host.until(job, JobState::Exited);
}

fn drawn_written_and_scrolled_back_to(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    let none = host.pinfold(["plot", "--host"]);
    assert!(none.code == Some(0) && none.out.contains("while jobs run"), "{none:?}");
    let job = host.submit(&[], "until [ -e go ]; do sleep 0.02; done");
    let told = eventually("the host was read", || {
        let told = view(&host, "1h");
        if told.samples.is_empty() { Err(format!("{told:?}")) } else { Ok(told) }
    });
    let first = told.samples[0];
    host.make("go");
    host.until(job, JobState::Exited);

    let terminal = host.pinfold(["plot", "--host"]);
    assert!(terminal.out.contains("CPU (PUs)") && terminal.out.contains("UTC"), "{terminal:?}");
    for file in ["host.svg", "host.png"] {
        let done = host.pinfold(["plot", "--host", "--since", "1d", "-o", file]);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let svg = host.wrote("host.svg");
    assert!(svg.contains("in use") && svg.contains("time (UTC)"), "{svg}");
    assert!(std::fs::read(host.work("host.png")).expect("a picture").starts_with(b"\x89PNG"));

    let jsonl = host.pinfold(["export", "--host", "--format", "jsonl"]);
    let rows: Vec<HostPoint> =
        jsonl.out.lines().map(|line| serde_json::from_str(line).expect("a reading")).collect();
    assert_eq!((rows[0], rows.len()), (first, view(&host, "1h").samples.len()), "{jsonl:?}");
    let at = format!("@{}", first.time_s);
    let one = host.pinfold(["export", "--host", "--since", &at, "--until", &at]);
    assert!(one.out.starts_with("time_s,span_s,cpu_busy") && one.out.lines().count() == 2, "{one:?}");
    let before = host.pinfold([
        "export",
        "--host",
        "--until",
        "@1000000000",
        "-o",
        "none.parquet",
        "--format",
        "parquet",
    ]);
    assert_eq!(before.code, Some(0), "{before:?}");
    assert!(std::fs::read(host.work("none.parquet")).expect("a file").ends_with(b"PAR1"));

    let then = host.pinfold(["top", "--json", "--at", &at]);
    let then: StatusView = serde_json::from_str(&then.out).expect("status as JSON");
    assert_eq!(then.reading.as_deref(), Some(&first));
    let screen = host.pinfold(["top", "--once", "--at", &at]);
    assert!(screen.out.contains(" in use"), "{screen:?}");
    let before = host.pinfold(["top", "--json", "--at", "@1000000000"]);
    assert!(before.out.contains("\"reading\":null"), "{before:?}");

    let to_come = host.pinfold(["top", "--once", "--at", "2099-01-01"]);
    assert!(to_come.code == Some(2) && to_come.err.contains("in the future"), "{to_come:?}");
    // What cannot be had leaves alone what is there.
    host.succeeds(["export", "1", "-o", "kept.csv"]);
    let kept = host.wrote("kept.csv");
    let none = host.pinfold(["export", "99999", "-o", "kept.csv"]);
    assert_eq!((none.code, host.wrote("kept.csv")), (Some(1), kept), "{none:?}");
    let none = host.pinfold(["export", "99999", "-o", "not-made.csv"]);
    assert!(none.code == Some(1) && !host.work("not-made.csv").exists(), "{none:?}");

    for wrong in [
        &["plot", "--host", "1"][..],
        &["plot", "1", "--until", "1h"],
        &["plot", "--host", "--class", "one"],
        &["export", "--host", "--last", "3"],
        &["export", "--host", "--what", "samples"],
        &["export", "--host", "--until", "tomorrow"],
        &["export", "1", "--until", "1h"],
        &["export"],
    ] {
        let done = host.pinfold(wrong);
        assert_eq!(done.code, Some(2), "{wrong:?}: {done:?}");
    }
}

/// More than one answer holds are written each, and put together where they are shown.
fn many_readings(kind: Kind) {
    if kind.is_other_user() {
        ignore!("the store of another user is that user's to write; the tests of `rootless` are these");
    }
    let mut host = Host::new(kind);
    assert_eq!(host.stop(), Some(0));
    let now_us = {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
        u64::try_from(now.as_micros()).expect("microseconds of this age")
    };
    let count = 2_345;
    let begun_us = now_us - count * 10_000_000;
    let row = |number| HostRow {
        time_us: begun_us + number * 10_000_000,
        cpu_busy_us: number * 5_000_000,
        memory_used_bytes: number,
        ..HostRow::default()
    };
    let mut store = Store::open(&host.state()).expect("a store").store;
    store.begin().expect("a transaction");
    (0..count).for_each(|number| store.add_host(&row(number)).expect("a row"));
    store.commit().expect("the end of a transaction");
    drop(store);
    host.start_daemon();
    let jsonl = host.pinfold(["export", "--host", "--format", "jsonl"]);
    let rows: Vec<HostPoint> =
        jsonl.out.lines().map(|line| serde_json::from_str(line).expect("a reading")).collect();
    let memory: Vec<u64> = rows.iter().map(|row| row.memory_used_bytes).collect();
    assert_eq!(memory, (0..count).collect::<Vec<_>>(), "each, once");
    assert!(rows[1..].iter().all(|row| row.cpu_busy == Some(0.5) && row.span_s.is_some()));
    let shown = view(&host, "2d").samples;
    assert!((500..=1_001).contains(&shown.len()), "{}", shown.len());
    let svg = host.pinfold(["plot", "--host", "--since", "2d", "-o", "host.svg"]);
    assert_eq!(svg.code, Some(0), "{svg:?}");
    let part = host.pinfold([
        "host",
        "--json",
        "--since",
        &format!("@{}", rows[7].time_s),
        "--until",
        &format!("@{}", rows[9].time_s),
    ]);
    let part: HostView = serde_json::from_str(&part.out).expect("one JSON object");
    assert_eq!(part.samples, rows[7..=9], "with means since the one before");
}
